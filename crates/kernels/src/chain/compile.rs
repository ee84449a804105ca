//! From registers to values: every result gets a name of its own and, while it is needed, a slot of scratch memory.

use super::{Access, Binary, ChainError, Instr, MAX_REGISTERS, Reg, Unary};

/// What a step computes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Operation {
    Copy,
    Unary(Unary),
    Binary(Binary),
    Select,
}

/// Where a value lies while a block is computed.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// An input, wherever that is for the block.
    Input(usize),
    /// A slot of scratch.
    Slot(usize),
    /// An output, or, when that must not be written yet, a slot.
    Output(usize, usize),
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Step {
    pub(super) operation: Operation,
    pub(super) arguments: [Place; 3],
    pub(super) result: Place,
}

/// An output: the step that produces it, and the slot it waits in if it cannot be written at once.
#[derive(Copy, Clone, Debug)]
pub(super) struct Output {
    pub(super) step: usize,
    pub(super) slot: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) inputs: Vec<Access>,
    pub(super) steps: Vec<Step>,
    pub(super) outputs: Vec<Output>,
    /// The last step that reads each input.
    pub(super) last_read: Vec<usize>,
    /// Slots that hold one number throughout a run.
    pub(super) constants: Vec<(usize, f32)>,
    /// The slot of every input that is not read where it lies.
    pub(super) input_slots: Vec<usize>,
    pub(super) slots: usize,
}

/// A step over value numbers: inputs first, then one per instruction.
struct Draft {
    operation: Operation,
    arguments: Vec<usize>,
    result: usize,
}

/// A value's definition.
#[derive(Copy, Clone, PartialEq)]
enum Value {
    Input,
    Constant(f32),
    Result,
}

impl Program {
    pub(super) fn compile(
        inputs: Vec<Access>,
        instrs: &[Instr],
        outputs: &[Reg],
    ) -> Result<Program, ChainError> {
        for (what, count) in [("inputs", inputs.len()), ("outputs", outputs.len())] {
            if count > MAX_REGISTERS {
                return Err(ChainError::TooMany { what, count });
            }
        }
        if let Some(input) = inputs
            .iter()
            .position(|a| matches!(a, Access::Row(0) | Access::Column(0)))
        {
            return Err(ChainError::ZeroPeriod { input });
        }
        let (values, mut drafts, outputs) = name_values(inputs.len(), instrs, outputs)?;
        drop_unused(&mut drafts, &outputs);
        Ok(place(inputs, &values, &drafts, &outputs))
    }
}

type Named = (Vec<Value>, Vec<Draft>, Vec<usize>);

/// Renames registers to values, so that each is defined once, and gives each output a result of its own.
fn name_values(inputs: usize, instrs: &[Instr], outputs: &[Reg]) -> Result<Named, ChainError> {
    let mut values = vec![Value::Input; inputs];
    let mut drafts = Vec::new();
    let mut current = [None; MAX_REGISTERS];
    for (register, value) in current.iter_mut().enumerate().take(inputs) {
        *value = Some(register);
    }
    for (at, instr) in instrs.iter().enumerate() {
        let (destination, operation, sources) = match *instr {
            Instr::Unary(f, d, x) => (d, Operation::Unary(f), vec![x]),
            Instr::Binary(f, d, a, b) => (d, Operation::Binary(f), vec![a, b]),
            Instr::Select(d, condition, yes, no) => (d, Operation::Select, vec![condition, yes, no]),
            Instr::Splat(d, _) => (d, Operation::Copy, vec![]),
        };
        let read = |&r: &Reg| read(&current, r, Some(at));
        let arguments = sources.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let slot = current.get_mut(destination as usize);
        *slot.ok_or(ChainError::TooMany {
            what: "registers",
            count: destination as usize + 1,
        })? = Some(values.len());
        if let Instr::Splat(_, constant) = *instr {
            values.push(Value::Constant(constant));
        } else {
            drafts.push(Draft {
                operation,
                arguments,
                result: values.len(),
            });
            values.push(Value::Result);
        }
    }
    let mut results = Vec::new();
    for &register in outputs {
        let value = read(&current, register, None)?;
        if values[value] == Value::Result && !results.contains(&value) {
            results.push(value);
        } else {
            drafts.push(Draft {
                operation: Operation::Copy,
                arguments: vec![value],
                result: values.len(),
            });
            results.push(values.len());
            values.push(Value::Result);
        }
    }
    Ok((values, drafts, results))
}

fn read(
    current: &[Option<usize>; MAX_REGISTERS],
    register: Reg,
    instruction: Option<usize>,
) -> Result<usize, ChainError> {
    let value = current.get(register as usize);
    let value = value.ok_or(ChainError::TooMany {
        what: "registers",
        count: register as usize + 1,
    })?;
    value.ok_or(ChainError::Unset {
        register,
        instruction,
    })
}

fn drop_unused(drafts: &mut Vec<Draft>, outputs: &[usize]) {
    let mut needed: Vec<usize> = outputs.to_vec();
    for draft in drafts.iter().rev() {
        if needed.contains(&draft.result) {
            needed.extend(&draft.arguments);
        }
    }
    drafts.retain(|draft| needed.contains(&draft.result));
}

/// Gives every value a place, reusing the slots of values nobody reads any more.
fn place(inputs: Vec<Access>, values: &[Value], drafts: &[Draft], outputs: &[usize]) -> Program {
    let last = |value: usize| drafts.iter().rposition(|draft| draft.arguments.contains(&value));
    let mut slots = 0;
    let mut new_slot = || {
        slots += 1;
        slots - 1
    };
    let mut places = vec![Place::Slot(0); values.len()];
    let mut constants = Vec::new();
    let mut input_slots = Vec::new();
    for (value, definition) in values.iter().enumerate() {
        match definition {
            Value::Input => {
                places[value] = Place::Input(value);
                input_slots.push(if inputs[value] == Access::Full {
                    0
                } else {
                    new_slot()
                });
            }
            Value::Constant(constant) if last(value).is_some() => {
                let slot = new_slot();
                places[value] = Place::Slot(slot);
                constants.push((slot, *constant));
            }
            Value::Constant(_) | Value::Result => {}
        }
    }
    let mut free: Vec<usize> = Vec::new();
    let mut steps = Vec::new();
    for (at, draft) in drafts.iter().enumerate() {
        let mut arguments = [Place::Slot(0); 3];
        for (place, &value) in arguments.iter_mut().zip(&draft.arguments) {
            *place = places[value];
        }
        for &value in &draft.arguments {
            // Outputs wait in their slots until the end of the block, so only intermediate results are freed.
            if let Place::Slot(slot) = places[value]
                && values[value] == Value::Result
                && last(value) == Some(at)
                && !free.contains(&slot)
            {
                free.push(slot);
            }
        }
        let slot = free.pop().unwrap_or_else(&mut new_slot);
        let output = outputs.iter().position(|&value| value == draft.result);
        places[draft.result] = output.map_or(Place::Slot(slot), |output| Place::Output(output, slot));
        steps.push(Step {
            operation: draft.operation,
            arguments,
            result: places[draft.result],
        });
    }
    let outputs = outputs.iter().map(|&value| {
        let step = drafts.iter().position(|draft| draft.result == value);
        let Place::Output(_, slot) = places[value] else {
            unreachable!("outputs are placed as such")
        };
        Output {
            step: step.expect("every output is the result of a step"),
            slot,
        }
    });
    let outputs = outputs.collect();
    let last_read = (0..inputs.len()).map(|input| last(input).unwrap_or(0)).collect();
    Program {
        inputs,
        steps,
        outputs,
        last_read,
        constants,
        input_slots,
        slots,
    }
}
