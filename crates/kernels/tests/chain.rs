//! Elementwise chains against a scalar interpreter.

mod common;

use common::{Random, levels, rounds};
use synod_kernels::{Access, Binary, Chain, ChainError, Instr, Source, Unary};

fn scalar(f: Unary, x: f32) -> f32 {
    match f {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sqrt => x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tanh => x.tanh(),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Relu => {
            if x > 0.0 || x.is_nan() {
                x
            } else {
                0.0
            }
        }
        Unary::Erf => unreachable!("tested with the other functions"),
        Unary::Floor => x.floor(),
    }
}

fn scalar2(f: Binary, a: f32, b: f32) -> f32 {
    match f {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Max => {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else {
                a.max(b)
            }
        }
        Binary::Min => {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else {
                a.min(b)
            }
        }
        Binary::Pow => a.powf(b),
        Binary::Less => f32::from(a < b),
        Binary::Equal => f32::from(a == b),
    }
}

/// Element `i` of every output, by the book.
fn interpret(inputs: &[f32], instrs: &[Instr], outputs: &[u16]) -> Vec<f32> {
    let mut registers = [0.0; 64];
    registers[..inputs.len()].copy_from_slice(inputs);
    for instr in instrs {
        let at = |r: u16| registers[r as usize];
        let (to, value) = match *instr {
            Instr::Unary(f, d, x) => (d, scalar(f, at(x))),
            Instr::Binary(f, d, a, b) => (d, scalar2(f, at(a), at(b))),
            Instr::Select(d, c, yes, no) => (d, if at(c) != 0.0 { at(yes) } else { at(no) }),
            Instr::Splat(d, x) => (d, x),
        };
        registers[to as usize] = value;
    }
    outputs.iter().map(|&r| registers[r as usize]).collect()
}

/// Operations whose vector form is exact, so that errors cannot grow along a random chain.
const EXACT1: [Unary; 6] = [
    Unary::Neg,
    Unary::Abs,
    Unary::Sign,
    Unary::Relu,
    Unary::Floor,
    Unary::Neg,
];
const EXACT2: [Binary; 7] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Max,
    Binary::Min,
    Binary::Less,
    Binary::Equal,
];

fn random_instr(random: &mut Random, set: &mut Vec<u16>, registers: usize) -> Instr {
    let mut read = || set[random.below(set.len())];
    let (a, b, c) = (read(), read(), read());
    let to = random.below(registers) as u16;
    if !set.contains(&to) {
        set.push(to);
    }
    match random.below(8) {
        0 => Instr::Splat(to, random.number()),
        1 => Instr::Select(to, a, b, c),
        2 | 3 => Instr::Unary(EXACT1[random.below(6)], to, a),
        _ => Instr::Binary(EXACT2[random.below(7)], to, a, b),
    }
}

#[test]
fn random_chains_agree_bit_for_bit_with_the_interpreter() {
    let mut random = Random::new(31);
    for round in 0..rounds(400) {
        let registers = 2 + random.below(if round % 10 == 0 { 62 } else { 8 });
        let count = 1 + random.below(registers.min(5));
        let len = [0, 1, 5, 17, 64, 700, 1300][random.below(if cfg!(miri) { 5 } else { 7 })];
        let width = 1 + random.below(60);
        let outputs_len = 1 + random.below(4);
        let access: Vec<Access> = (0..count)
            .map(|i| match random.below(6) {
                0 => Access::Scalar,
                1 => Access::Row(width),
                2 => Access::Column(width),
                _ if i > 0 => Access::Full,
                _ => Access::Full,
            })
            .collect();
        let mut set: Vec<u16> = (0..count as u16).collect();
        let length = if cfg!(miri) { 6 } else { 25 };
        let instrs: Vec<Instr> = (0..random.below(length))
            .map(|_| random_instr(&mut random, &mut set, registers))
            .collect();
        let outputs: Vec<u16> = (0..outputs_len).map(|_| set[random.below(set.len())]).collect();
        let chain = Chain::new(access.clone(), instrs.clone(), outputs.clone()).unwrap();
        let in_place: Vec<Option<usize>> = access
            .iter()
            .map(|a| (*a == Access::Full && random.below(2) == 0).then(|| random.below(outputs_len)))
            .collect();
        let old: Vec<Vec<f32>> = (0..outputs_len).map(|_| random.numbers(len)).collect();
        let data: Vec<Vec<f32>> = access
            .iter()
            .map(|a| match *a {
                Access::Full => random.numbers(len),
                Access::Scalar => random.numbers(1),
                Access::Row(n) => random.numbers(n),
                Access::Column(n) => random.numbers(len.div_ceil(n)),
            })
            .collect();
        let element = |input: usize, i: usize| match (in_place[input], access[input]) {
            (Some(output), _) => old[output][i],
            (None, Access::Full) => data[input][i],
            (None, Access::Scalar) => data[input][0],
            (None, Access::Row(n)) => data[input][i % n],
            (None, Access::Column(n)) => data[input][i / n],
        };
        for simd in levels() {
            let sources: Vec<Source<'_>> = (0..count)
                .map(|i| in_place[i].map_or(Source::Slice(&data[i]), Source::Output))
                .collect();
            let mut found = old.clone();
            let mut views: Vec<&mut [f32]> = found.iter_mut().map(|x| &mut x[..]).collect();
            chain.run(simd, len, &sources, &mut views);
            for i in 0..len {
                let inputs: Vec<f32> = (0..count).map(|input| element(input, i)).collect();
                let wanted = interpret(&inputs, &instrs, &outputs);
                for (o, wanted) in wanted.into_iter().enumerate() {
                    let found = found[o][i];
                    let same = found == wanted || found.is_nan() && wanted.is_nan();
                    assert!(
                        same,
                        "round {round} {simd:?}, output {o}, element {i}: {found} is not {wanted}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_function_is_reached_by_its_name() {
    let unary = [
        Unary::Exp,
        Unary::Log,
        Unary::Sqrt,
        Unary::Recip,
        Unary::Sin,
        Unary::Cos,
        Unary::Tanh,
        Unary::Sigmoid,
        Unary::Abs,
        Unary::Floor,
        Unary::Sign,
        Unary::Neg,
        Unary::Relu,
    ];
    let x: Vec<f32> = (1..38).map(|i| i as f32 * 0.17).collect();
    for simd in levels() {
        for f in unary {
            let chain = Chain::new(vec![Access::Full], vec![Instr::Unary(f, 0, 0)], vec![0]).unwrap();
            let mut y = vec![0.0; x.len()];
            chain.run(simd, x.len(), &[Source::Slice(&x)], &mut [&mut y]);
            for (&x, &y) in x.iter().zip(&y) {
                assert!(
                    (y - scalar(f, x)).abs() <= 2e-6 * y.abs().max(1.0),
                    "{f:?}({x}) = {y}"
                );
            }
        }
        for f in [Binary::Pow, Binary::Div] {
            let accesses = vec![Access::Full, Access::Scalar];
            let chain = Chain::new(accesses, vec![Instr::Binary(f, 1, 0, 1)], vec![1]).unwrap();
            let mut y = x.clone();
            chain.run(
                simd,
                x.len(),
                &[Source::Output(0), Source::Slice(&[1.7])],
                &mut [&mut y],
            );
            for (&x, &y) in x.iter().zip(&y) {
                assert!(
                    (y - scalar2(f, x, 1.7)).abs() <= 2e-6 * y.abs(),
                    "{f:?}({x}, 1.7) = {y}"
                );
            }
        }
    }
}

#[test]
fn outputs_may_be_exchanged_in_place() {
    let chain = Chain::new(vec![Access::Full; 2], vec![], vec![1, 0]).unwrap();
    for simd in levels() {
        let (mut a, mut b) = (vec![1.0; 700], vec![2.0; 700]);
        chain.run(
            simd,
            700,
            &[Source::Output(0), Source::Output(1)],
            &mut [&mut a, &mut b],
        );
        assert!(a.iter().all(|&x| x == 2.0) && b.iter().all(|&x| x == 1.0));
    }
}

#[test]
fn mistakes_are_told_apart() {
    let unset = Chain::new(vec![], vec![Instr::Unary(Unary::Neg, 0, 3)], vec![0]).unwrap_err();
    assert_eq!(
        unset,
        ChainError::Unset {
            register: 3,
            instruction: Some(0)
        }
    );
    let never = Chain::new(vec![], vec![], vec![2]).unwrap_err();
    assert_eq!(
        never.to_string(),
        "register 2 is an output, but nothing writes it"
    );
    let large = Chain::new(vec![], vec![Instr::Splat(64, 0.0)], vec![]).unwrap_err();
    assert_eq!(
        large,
        ChainError::TooMany {
            what: "registers",
            count: 65
        }
    );
    let period = Chain::new(vec![Access::Row(0)], vec![], vec![]).unwrap_err();
    assert_eq!(period, ChainError::ZeroPeriod { input: 0 });
}
