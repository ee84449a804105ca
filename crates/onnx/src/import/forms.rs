//! How weights are kept: in the order that Synod's own layers use, so that an imported model runs and trains like a native
//! one.

use synod_engine::Tensor;

use crate::proto::NodeProto;

/// What is done to a weight of the file before its op uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As it stands in the file.
    Plain,
    /// A matrix, transposed.
    Transposed,
    /// `[outputs, channels, taps...]` as `[taps down, taps across, channels, outputs]`.
    Kernel,
    /// `[directions, gates x hidden, inputs]` as `[directions, inputs, gates x hidden]`, gates in Synod's order.
    Gates(Unit),
    /// `[directions, 2 x gates x hidden]` as `[directions, gates x hidden]`: the sum of both biases.
    SummedBias,
    /// `[directions, 2 x gates x hidden]` as `[directions, 2, gates x hidden]`: both biases, gates in Synod's order.
    Biases,
    /// State that training moves and no gradient touches.
    Buffer,
}

/// A recurrent unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Lstm,
    Gru,
}

impl Unit {
    /// For each gate of Synod's order, its place in ONNX's: input, forget, cell, output from `iofc`; reset, update, new from
    /// `zrh`.
    pub(super) fn gates(self) -> &'static [usize] {
        match self {
            Unit::Lstm => &[0, 2, 3, 1],
            Unit::Gru => &[1, 0, 2],
        }
    }
}

impl Form {
    /// The form in which a node wants its input.
    pub(super) fn wanted(node: &NodeProto, input: usize) -> Form {
        let transposed = node
            .attribute
            .iter()
            .any(|a| a.name == "transB" && a.i == Some(1));
        match (node.op_type.as_str(), input) {
            ("Conv", 1) => Form::Kernel,
            ("Gemm", 1) if transposed => Form::Transposed,
            ("BatchNormalization", 3 | 4) => Form::Buffer,
            ("LSTM", 1 | 2) => Form::Gates(Unit::Lstm),
            ("GRU", 1 | 2) => Form::Gates(Unit::Gru),
            ("LSTM", 3) => Form::SummedBias,
            ("GRU", 3) => Form::Biases,
            _ => Form::Plain,
        }
    }

    /// The extents a tensor must have for this form, or what is wrong.
    fn check(self, dims: &[usize]) -> Result<(), String> {
        let gates = |unit: Unit, extent: usize, times: usize| {
            extent > 0 && extent.is_multiple_of(unit.gates().len() * times)
        };
        let fits = match (self, dims) {
            (Form::Plain, _) => true,
            (Form::Buffer, d) => d.len() == 1,
            (Form::Transposed, d) => d.len() == 2,
            (Form::Kernel, d) => matches!(d.len(), 3 | 4),
            (Form::Gates(unit), [_, rows, _]) => gates(unit, *rows, 1),
            (Form::SummedBias, [_, rows]) => gates(Unit::Lstm, *rows, 2),
            (Form::Biases, [_, rows]) => gates(Unit::Gru, *rows, 2),
            _ => false,
        };
        match fits {
            true => Ok(()),
            false => Err(format!("a weight of extents {dims:?} does not fit ({self:?})")),
        }
    }

    /// Brings a tensor, concrete or traced, into this form.
    pub(super) fn apply(self, x: &Tensor) -> Result<Tensor, String> {
        let dims = x.shape().dims().to_vec();
        self.check(&dims)?;
        Ok(match (self, dims.as_slice()) {
            (Form::Transposed, _) => x.transpose(&[1, 0]),
            (Form::Kernel, &[o, c, taps]) => x.reshape([o, c, 1, taps]).transpose(&[2, 3, 1, 0]),
            (Form::Kernel, _) => x.transpose(&[2, 3, 1, 0]),
            (Form::Gates(unit), _) => regated(x, 1, unit).transpose(&[0, 2, 1]),
            (Form::SummedBias, &[directions, rows]) => {
                let both = x.reshape([directions, 2, rows / 2]).sum(&[1]);
                regated(&both, 1, Unit::Lstm)
            }
            (Form::Biases, &[directions, rows]) => {
                regated(&x.reshape([directions, 2, rows / 2]), 2, Unit::Gru)
            }
            _ => x.clone(),
        })
    }
}

/// The blocks along `axis`, one per gate, in Synod's order.
fn regated(x: &Tensor, axis: usize, unit: Unit) -> Tensor {
    let order = unit.gates();
    let extent = x.shape().dims()[axis] / order.len();
    let blocks = order.iter().map(|&g| x.slice(axis, g * extent..(g + 1) * extent));
    Tensor::concat(&blocks.collect::<Vec<_>>(), axis)
}
