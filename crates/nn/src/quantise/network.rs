//! What integers can compute: the few steps that dense and convolutional networks are made of once normalisations are folded
//! away.

use serde::{Deserialize, Serialize};
use synod_engine::Shape;
use synod_engine::ops::Window;

/// Numbers that one value may have per example, padding included.
const LARGEST: usize = 1 << 26;

/// Steps one after the other. Value 0 is the input, step `i` gives value `i + 1`, and the last value is the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Network {
    /// The shape of one example.
    pub(super) input: Vec<usize>,
    pub(super) steps: Vec<Step>,
}

/// How a value comes from earlier ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Step {
    /// `x * weight + bias`, with the next of the network's layers.
    Product {
        from: usize,
        form: Form,
        relu: bool,
    },
    Add {
        from: [usize; 2],
        relu: bool,
    },
    MaxPool {
        from: usize,
        window: Window,
    },
    AveragePool {
        from: usize,
        window: Window,
        count_padding: bool,
    },
    Relu {
        from: usize,
    },
    Reshape {
        from: usize,
        shape: Vec<usize>,
    },
}

/// The extents of a product.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Form {
    Dense {
        inputs: usize,
        outputs: usize,
    },
    Conv {
        window: Window,
        groups: usize,
        channels: usize,
        outputs: usize,
    },
}

impl Form {
    pub(super) fn outputs(&self) -> usize {
        match *self {
            Form::Dense { outputs, .. } | Form::Conv { outputs, .. } => outputs,
        }
    }

    /// The shape of the weights, outputs last; extents were checked by [`Network::shapes`].
    pub(super) fn weight(&self) -> Vec<usize> {
        match *self {
            Form::Dense { inputs, outputs } => vec![inputs, outputs],
            Form::Conv {
                window,
                groups,
                channels,
                outputs,
            } => vec![
                window.kernel[0],
                window.kernel[1],
                channels / groups.max(1),
                outputs,
            ],
        }
    }

    fn result(&self, x: &[usize]) -> Result<Vec<usize>, String> {
        match *self {
            Form::Dense { inputs, outputs } if x == [inputs] => Ok(vec![outputs]),
            Form::Conv {
                window,
                groups,
                channels,
                outputs,
            } => {
                let even = groups > 0 && channels.is_multiple_of(groups) && outputs.is_multiple_of(groups);
                if !even {
                    return Err(format!("{channels} channels to {outputs} in {groups} groups"));
                }
                slide(&window, x, channels, outputs)
            }
            _ => Err(format!("{self:?} of a value {x:?}")),
        }
    }
}

/// The places of a window over an image of just these channels.
fn slide(window: &Window, x: &[usize], channels: usize, outputs: usize) -> Result<Vec<usize>, String> {
    let [h, w] = window.output()?;
    if x != [window.input[0], window.input[1], channels] {
        return Err(format!(
            "a window over {:?} and {channels} channels on {x:?}",
            window.input
        ));
    }
    let padded = |axis: usize| window.input[axis] + window.padding[axis].iter().sum::<usize>();
    bounded(&[padded(0), padded(1), channels])?;
    bounded(&window.kernel)?;
    Ok(vec![h, w, outputs])
}

fn bounded(dims: &[usize]) -> Result<(), String> {
    let count = Shape::from(dims).checked_elements();
    match count {
        Some(n) if n <= LARGEST && dims.len() <= 8 => Ok(()),
        _ => Err(format!("{dims:?} is more than {LARGEST} numbers per example")),
    }
}

impl Step {
    /// The values it reads.
    pub(super) fn sources(&self) -> &[usize] {
        match self {
            Step::Add { from, .. } => from,
            Step::Product { from, .. }
            | Step::MaxPool { from, .. }
            | Step::AveragePool { from, .. }
            | Step::Relu { from }
            | Step::Reshape { from, .. } => std::slice::from_ref(from),
        }
    }

    /// True where bytes keep the meaning of those they come from, so that no range of its own is needed.
    pub(super) fn keeps_grid(&self) -> bool {
        matches!(
            self,
            Step::MaxPool { .. } | Step::Relu { .. } | Step::Reshape { .. }
        )
    }
}

impl Network {
    /// The shapes of all values of one example, or what is wrong with the network.
    pub(super) fn shapes(&self) -> Result<Vec<Vec<usize>>, String> {
        let mut shapes = vec![self.input.clone()];
        bounded(&self.input)?;
        for (i, step) in self.steps.iter().enumerate() {
            let fail = |problem: String| format!("step {i}: {problem}");
            let from = |s: &usize| shapes.get(*s).ok_or(fail(format!("value {s} comes later")));
            let x: Vec<&Vec<usize>> = step.sources().iter().map(from).collect::<Result<_, _>>()?;
            let shape = result(step, &x).map_err(fail)?;
            bounded(&shape).map_err(fail)?;
            shapes.push(shape);
        }
        Ok(shapes)
    }

    /// The products, in the order of their layers.
    pub(super) fn forms(&self) -> impl Iterator<Item = Form> {
        self.steps.iter().filter_map(|step| match step {
            Step::Product { form, .. } => Some(*form),
            _ => None,
        })
    }

    /// For each value, whether it has a range of its own when it becomes bytes. The output of a product that ends the
    /// network never does.
    pub(super) fn has_grid(&self) -> Vec<bool> {
        let last = self.steps.len();
        let own = |(i, step): (usize, &Step)| match step {
            Step::Product { .. } => i + 1 != last,
            other => !other.keeps_grid(),
        };
        std::iter::once(true)
            .chain(self.steps.iter().enumerate().map(own))
            .collect()
    }
}

fn result(step: &Step, x: &[&Vec<usize>]) -> Result<Vec<usize>, String> {
    let channels = || x[0].last().copied().unwrap_or(0);
    match step {
        Step::Product { form, .. } => form.result(x[0]),
        Step::Add { .. } if x[0] == x[1] => Ok(x[0].clone()),
        Step::Add { .. } => Err(format!("the sum of {:?} and {:?}", x[0], x[1])),
        Step::MaxPool { window, .. } | Step::AveragePool { window, .. } => {
            slide(window, x[0], channels(), channels())
        }
        Step::Relu { .. } => Ok(x[0].clone()),
        Step::Reshape { shape, .. } => {
            bounded(shape)?;
            match shape.iter().product::<usize>() == x[0].iter().product::<usize>() {
                true => Ok(shape.clone()),
                false => Err(format!("{:?} as {shape:?}", x[0])),
            }
        }
    }
}
