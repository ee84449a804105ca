//! Every mistake is named with its op, its shapes and its source line, and no mistake panics.

mod common;

use std::panic::Location;

use synod_engine::ops::{
    Broadcast, Concat, Distribution, Dot, Gather, If, Pad, Pop, Push, Random, Reduce, Reduction, Rule,
    Scatter, Select, Slice, Slide, Transpose, Unary, Update, While,
};
use synod_engine::{
    Builder, Error, Graph, Mode, Op, Options, Session, Tensor, Type, branch, compile, grad, interpret,
    set_mode, staged, trace, value_and_gradient,
};

const HERE: &str = file!();

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::new(vec![0.0; shape.iter().product()], shape)
}

/// The mistake made by `f` on tensors of the given shapes, eagerly and in a trace; they must be the same.
#[track_caller]
fn mistake(shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Tensor) -> String {
    let at = Location::caller().line();
    let tensors: Vec<Tensor> = shapes.iter().map(|s| zeros(s)).collect();
    let eager = f(&tensors)
        .values()
        .map(<[f32]>::to_vec)
        .expect_err("a mistake")
        .to_string();
    let types: Vec<Type> = shapes.iter().map(|&s| Type::tensor(s)).collect();
    let traced = trace(&types, |s| vec![f(s)]).expect_err("a mistake").to_string();
    assert_eq!(eager, traced);
    assert!(eager.contains(HERE), "{eager} does not name {HERE}");
    let line = eager
        .split(':')
        .nth(1)
        .and_then(|l| l.parse::<u32>().ok())
        .expect("a line");
    assert!(
        (at..at + 4).contains(&line),
        "{eager}: the mistake was made in line {at}"
    );
    eager
}

#[track_caller]
fn names(error: &str, parts: &[&str]) {
    parts
        .iter()
        .for_each(|part| assert!(error.contains(part), "`{error}` does not name `{part}`"));
}

#[test]
fn shape_mistakes_name_op_shapes_and_line_in_eager_mode_and_in_traces() {
    names(
        &mistake(&[&[2, 3], &[4]], |s| &s[0] + &s[1]),
        &["`add`", "[2, 3]", "[4]"],
    );
    names(
        &mistake(&[&[2, 3], &[4]], |s| &s[0] - &s[1]),
        &["`sub`", "[2, 3]", "[4]"],
    );
    names(
        &mistake(&[&[2], &[3]], |s| s[0].maximum(&s[1])),
        &["`max`", "[2]", "[3]"],
    );
    names(
        &mistake(&[&[2], &[3]], |s| s[0].pow(&s[1])),
        &["`pow`", "[2]", "[3]"],
    );
    names(
        &mistake(&[&[2, 3], &[4, 5]], |s| s[0].dot(&s[1])),
        &["`dot`", "[2, 3]", "[4, 5]", "3", "4"],
    );
    names(
        &mistake(&[&[2, 3], &[4]], |s| s[0].dot(&s[1])),
        &["`dot`", "[2, 3]", "[4]", "not two matrices"],
    );
    names(
        &mistake(&[&[2, 8, 8], &[3, 3, 1, 4]], |s| {
            s[0].conv(&s[1], &Slide::by(1), 1)
        }),
        &["`conv[3x3]`", "[2, 8, 8]", "[n, height, width, channels]"],
    );
    names(
        &mistake(&[&[2, 8, 8, 3], &[3, 3, 4]], |s| {
            s[0].conv(&s[1], &Slide::by(1), 1)
        }),
        &["[3, 3, 4]", "are not weights", "channels / groups"],
    );
    names(
        &mistake(&[&[2, 8, 8, 3], &[3, 3, 4, 2]], |s| {
            s[0].conv(&s[1], &Slide::by(1), 1)
        }),
        &["3 channels", "takes 4 each"],
    );
    names(
        &mistake(&[&[2, 8, 8, 4], &[3, 3, 2, 3]], |s| {
            s[0].conv(&s[1], &Slide::by(1), 2)
        }),
        &["4 channels and 3 outputs", "2 equal groups"],
    );
    names(
        &mistake(&[&[2, 2, 8, 3], &[3, 3, 3, 2]], |s| {
            s[0].conv(&s[1], &Slide::by(1), 1)
        }),
        &["reaches over 3", "does not fit into 2"],
    );
    names(
        &mistake(&[&[2, 8, 8, 3], &[3, 3, 3, 2]], |s| {
            s[0].conv(&s[1], &Slide::by(0), 1)
        }),
        &["strides", "at least 1"],
    );
    names(
        &mistake(&[&[8, 8, 3]], |s| s[0].max_pool([2, 2], &Slide::by(2))),
        &[
            "`pool.max[2x2 stride 2x2]`",
            "[8, 8, 3]",
            "[n, height, width, channels]",
        ],
    );
    names(
        &mistake(&[&[1, 1, 1, 3]], |s| {
            s[0].average_pool([2, 2], &Slide::by(2), true)
        }),
        &["`pool.sum[2x2 stride 2x2]`", "does not fit"],
    );
    names(
        &mistake(&[&[2], &[3], &[2]], |s| s[0].select(&s[1], &s[2])),
        &["`select`", "[2]", "[3]"],
    );
    names(
        &mistake(&[&[2, 3]], |s| s[0].sum(&[2])),
        &["`sum[2]`", "[2, 3]", "axes"],
    );
    names(
        &mistake(&[&[2, 3]], |s| s[0].max(&[1, 1])),
        &["`max[1, 1]`", "[2, 3]"],
    );
    names(
        &mistake(&[&[2, 3]], |s| s[0].reshape([4])),
        &["`reshape`", "[2, 3]", "[4]"],
    );
    names(
        &mistake(&[&[2, 3]], |s| s[0].transpose(&[0, 0])),
        &["`transpose[0, 0]`", "[2, 3]"],
    );
    names(
        &mistake(&[&[2, 3]], |s| s[0].broadcast_to([2, 4])),
        &["`broadcast[0, 1]`", "[2, 3]", "[2, 4]"],
    );
    names(
        &mistake(&[&[2, 3]], |s| s[0].slice(1, 2..5)),
        &["slice[", "[2, 3]", "2..5"],
    );
    names(
        &mistake(&[&[2, 3]], |s| s[0].slice(2, 0..1)),
        &["`slice`", "[2, 3]"],
    );
    names(&mistake(&[&[2, 3]], |s| s[0].pad(&[1], &[1])), &["pad", "[2, 3]"]);
    names(
        &mistake(&[&[2, 3], &[2, 4]], |s| Tensor::concat(s, 0)),
        &["`concat[0]`", "[2, 3]", "[2, 4]"],
    );
    names(
        &mistake(&[&[2, 3]], |s| Tensor::concat(s, 2)),
        &["`concat[2]`", "[2, 3]"],
    );
    names(
        &mistake(&[&[], &[3]], |s| s[0].gather(&s[1])),
        &["`gather`", "f32[]", "f32[3]"],
    );
    names(
        &mistake(&[&[3], &[2, 2]], |s| s[1].scatter(&s[0], 4)),
        &["`scatter`", "[3]", "[2, 2]"],
    );
    names(
        &mistake(&[&[3]], |s| s[0].random(Distribution::Normal, [2], 0)),
        &["`normal`", "[3]", "4 numbers"],
    );
}

#[test]
fn the_first_mistake_is_the_one_reported() {
    let error = mistake(&[&[2], &[3]], |s| (&s[0] + &s[1]).exp().dot(&s[0]));
    names(&error, &["`add`"]);
}

#[test]
fn a_result_too_large_to_count_is_refused() {
    let huge = 1 << 30;
    let error = mistake(&[&[1]], |s| s[0].broadcast_to([huge, huge]));
    names(&error, &["too large"]);
    let error = trace(&[Type::tensor([huge, huge])], |s| vec![s[0].reshape([huge])])
        .unwrap_err()
        .to_string();
    names(&error, &["too large", "1073741824"]);
    assert!(
        Tensor::new(vec![1.0; 3], [2, 2])
            .values()
            .unwrap_err()
            .to_string()
            .contains("3 numbers do not fill [2, 2]")
    );
}

/// An op, the shapes it is wrongly applied to, and what the message must say.
type Wrong = (Op, &'static [&'static [usize]], &'static [&'static str]);

#[test]
fn ops_that_only_graphs_have_report_their_arguments_too() {
    let sgd = Rule::Sgd { weight_decay: 0.0 };
    let two = || Builder::new().finish(&[]).map(std::sync::Arc::new).unwrap();
    let wrong: Vec<Wrong> = vec![
        (
            Update { rule: sgd }.into(),
            &[&[2], &[3], &[3]],
            &["update.sgd", "[2]", "[3]"],
        ),
        (
            Update { rule: sgd }.into(),
            &[&[2], &[2], &[2]],
            &["update.sgd", "3 numbers"],
        ),
        (Update { rule: sgd }.into(), &[&[2]], &["update.sgd", "states"]),
        (
            If {
                then: two(),
                otherwise: two(),
            }
            .into(),
            &[&[2]],
            &["if", "condition", "[2]"],
        ),
        (
            If {
                then: two(),
                otherwise: two(),
            }
            .into(),
            &[&[], &[2]],
            &["if", "branch", "[2]"],
        ),
        (
            While {
                cond: two(),
                body: two(),
            }
            .into(),
            &[&[2]],
            &["while", "condition", "[2]"],
        ),
        (Push.into(), &[&[2]], &["push", "stack"]),
        (Pop.into(), &[&[2]], &["pop", "stack"]),
        (Select.into(), &[&[2], &[2]], &["select", "3 arguments, not 2"]),
        (Unary::Exp.into(), &[], &["exp", "1 arguments, not 0"]),
        (
            Slice {
                start: vec![0],
                stop: vec![2],
                step: vec![0],
            }
            .into(),
            &[&[3]],
            &["slice", "by 0"],
        ),
        (
            Pad {
                low: vec![usize::MAX],
                high: vec![1],
                gap: vec![0],
            }
            .into(),
            &[&[3]],
            &["pad", "too large"],
        ),
        (
            Pad {
                low: vec![0],
                high: vec![0],
                gap: vec![usize::MAX],
            }
            .into(),
            &[&[1]],
            &["pad", "too large"],
        ),
        (
            Broadcast {
                axes: vec![1, 0],
                shape: [2, 3].into(),
            }
            .into(),
            &[&[3, 2]],
            &["broadcast", "[3, 2]"],
        ),
        (
            Transpose { order: vec![0] }.into(),
            &[&[3, 2]],
            &["transpose", "[3, 2]"],
        ),
        (
            Reduce {
                kind: Reduction::Sum,
                axes: vec![1, 0],
            }
            .into(),
            &[&[3, 2]],
            &["sum", "ascending"],
        ),
        (
            Dot { ta: true, tb: true }.into(),
            &[&[2, 3], &[2, 3]],
            &["dot.tt", "[2, 3]"],
        ),
        (
            Dot::default().into(),
            &[&[2, 2, 3], &[4, 3, 1]],
            &["dot", "[2, 2, 3]", "[4, 3, 1]"],
        ),
        (Concat { axis: 0 }.into(), &[], &["concat", "at least one"]),
        (Gather.into(), &[&[2]], &["gather", "2 arguments, not 1"]),
        (
            Scatter { rows: 1 }.into(),
            &[&[2], &[3]],
            &["scatter", "[2]", "[3]"],
        ),
        (
            Random {
                distribution: Distribution::Uniform,
                shape: [1].into(),
                salt: 0,
            }
            .into(),
            &[&[]],
            &["uniform", "key"],
        ),
    ];
    for (op, shapes, parts) in wrong {
        let mut b = Builder::new();
        let args: Vec<_> = shapes.iter().map(|&s| b.param(Type::tensor(s), "")).collect();
        let outs = b.apply(op, &args);
        let error = b.finish(&outs).unwrap_err();
        assert!(matches!(error, Error::Op { .. }), "{error:?}");
        names(&error.to_string(), parts);
    }
}

#[test]
fn the_values_of_a_traced_tensor_are_refused_with_the_line_that_asked() {
    let mut found = None;
    let traced = trace(&[Type::tensor([2])], |s| {
        found = s[0].values().err().map(|e| e.to_string());
        vec![s[0].sum_all()]
    });
    assert!(traced.is_ok());
    names(
        &found.expect("values are not known"),
        &[HERE, "while tracing", "branch or repeat"],
    );
}

#[test]
fn a_tensor_that_escaped_its_trace_is_refused() {
    let mut escaped = None;
    trace(&[Type::tensor([2])], |s| {
        escaped = Some(s[0].exp());
        vec![s[0].clone()]
    })
    .unwrap();
    let escaped = escaped.unwrap();
    assert!(escaped.values().is_err());
    let error = trace(&[Type::tensor([2])], |s| vec![&s[0] + &escaped])
        .unwrap_err()
        .to_string();
    names(&error, &[HERE, "after the function that traced it had ended"]);
    assert!(trace(&[], |_| vec![escaped.clone()]).is_err());
    let outside = &escaped + 1.0;
    assert!(
        outside.values().is_err(),
        "an eager op on an escaped tensor gave {outside:?}"
    );
}

#[test]
fn a_trace_that_panics_leaves_no_trace_behind() {
    let caught = std::panic::catch_unwind(|| trace(&[Type::scalar()], |_| panic!("a user's own panic")));
    assert!(caught.is_err());
    assert_eq!((Tensor::scalar(1.0) + 1.0).item().unwrap(), 2.0);
}

#[test]
fn a_mistake_inside_a_branch_or_a_staged_function_comes_out() {
    let error = trace(&[Type::tensor([2]), Type::scalar()], |s| {
        vec![branch(s[1].less(0.0), s[0].clone(), |x| &x + &zeros(&[3]), |x| x)]
    });
    names(&error.unwrap_err().to_string(), &["`add`", "[2]", "[3]", HERE]);
    let out = staged(&[zeros(&[2])], |s| vec![&s[0] + &zeros(&[3])]);
    names(
        &out[0].values().unwrap_err().to_string(),
        &["`add`", "[2]", "[3]", HERE],
    );
    set_mode(Mode::Graph);
    let error = value_and_gradient(|s| &s[0] + &zeros(&[3]), &[zeros(&[2])])
        .unwrap_err()
        .to_string();
    set_mode(Mode::Eager);
    names(&error, &["`add`", "[2]", "[3]", HERE]);
    let error = value_and_gradient(|s| &s[0] + &zeros(&[3]), &[zeros(&[2])])
        .unwrap_err()
        .to_string();
    names(&error, &["`add`", "[2]", "[3]", HERE]);
}

#[test]
fn only_a_scalar_has_a_gradient() {
    let graph = trace(&[Type::tensor([2])], |s| vec![s[0].exp()]).unwrap();
    names(
        &grad(&graph, &[0]).unwrap_err().to_string(),
        &["[2]", "only a scalar"],
    );
    let graph = trace(&[Type::tensor([2])], |s| vec![s[0].sum_all()]).unwrap();
    names(
        &grad(&graph, &[3]).unwrap_err().to_string(),
        &["no parameter 3", "1"],
    );
    for mode in [Mode::Eager, Mode::Graph] {
        set_mode(mode);
        let error = value_and_gradient(|s| s[0].exp(), &[zeros(&[2])])
            .unwrap_err()
            .to_string();
        set_mode(Mode::Eager);
        names(&error, &["only a scalar"]);
    }
}

#[test]
fn calls_with_wrong_sizes_name_the_parameter() {
    let graph = synod_engine::trace_named(&[(Type::tensor([2]), "weights"), (Type::scalar(), "rate")], |s| {
        vec![&s[0] * &s[1]]
    });
    let graph = graph.unwrap();
    let error = interpret(&graph, &[vec![1.0_f64; 3], vec![1.0]])
        .unwrap_err()
        .to_string();
    names(&error, &["parameter 0", "weights", "[2]", "3 numbers"]);
    names(
        &interpret(&graph, &[vec![1.0_f64; 2]]).unwrap_err().to_string(),
        &["1 arguments for 2 parameters"],
    );
    let mut session = Session::new(compile(&graph, &Options::default()).unwrap().into());
    names(
        &session.call(&[&[1.0; 3], &[1.0]]).unwrap_err().to_string(),
        &["parameter 0", "2", "3"],
    );
    names(
        &session.call(&[&[1.0; 2]]).unwrap_err().to_string(),
        &["1 arguments for 2 parameters"],
    );
    assert_eq!(session.call(&[&[1.0, 2.0], &[3.0]]).unwrap(), [[3.0, 6.0]]);
}

/// A graph as text with one thing changed, read back: how a broken model file would arrive.
fn broken(graph: &Graph, from: &str, to: &str) -> String {
    let text = serde_json::to_string(graph).unwrap();
    assert!(text.contains(from), "{text}");
    let graph: Graph = serde_json::from_str(&text.replacen(from, to, 1)).unwrap();
    graph.verify().expect_err("a broken graph").to_string()
}

#[test]
fn verify_rejects_graphs_that_break_an_invariant() {
    let graph = trace(&[Type::tensor([2])], |s| vec![s[0].exp().sin()]).unwrap();
    graph.verify().unwrap();
    names(
        &broken(&graph, r#""args":[1]"#, r#""args":[2]"#),
        &["%2", "before it is defined"],
    );
    names(
        &broken(&graph, r#""args":[1]"#, r#""args":[9]"#),
        &["%9", "before it is defined"],
    );
    names(
        &broken(&graph, r#""outs":[2]"#, r#""outs":[1]"#),
        &["%1", "defined twice"],
    );
    names(
        &broken(&graph, r#""outs":[2]"#, r#""outs":[7]"#),
        &["%7", "no type"],
    );
    names(
        &broken(&graph, r#""outs":[2]"#, r#""outs":[]"#),
        &["sin", "0 values"],
    );
    names(
        &broken(&graph, r#""outputs":[2]"#, r#""outputs":[8]"#),
        &["%8", "never defined"],
    );
    names(
        &broken(&graph, r#""params":[0]"#, r#""params":[0,0]"#),
        &["%0", "defined twice"],
    );
    names(
        &broken(&graph, r#""Tensor":[2]"#, r#""Tensor":[3]"#),
        &["[2] recorded", "[3] inferred"],
    );
    names(
        &broken(
            &graph,
            r#""Tensor":[2]"#,
            r#""Tensor":[1099511627776,1099511627776]"#,
        ),
        &["too large"],
    );
    names(
        &broken(&graph, r#""args":[0]"#, r#""args":[0,0]"#),
        &["exp", "1 arguments, not 2"],
    );
}
