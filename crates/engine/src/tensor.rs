//! The value users hold: concrete, a name in a trace, or both.

use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Range, Sub};
use std::sync::Arc;

use crate::error::{Error, Result, Site};
use crate::graph::Value;
use crate::ops::{
    Binary, Broadcast, Concat, Custom, Distribution, Dot, Full, Gather, Op, Pad, Random, Reduce, Reduction,
    Reshape, Scatter, Select, Slice, Transpose, Unary,
};
use crate::trace::emit;
use crate::types::Shape;

/// A dense `f32` tensor.
///
/// Ops never panic: a mistake, such as shapes that do not fit, makes a tensor that carries the error with the source
/// line, and whoever reads the values or ends the trace gets it.
///
/// ```
/// use synod_engine::Tensor;
/// let x = Tensor::new(vec![1.0, 2.0, 3.0, 4.0], [2, 2]);
/// let y = (&x + 1.0).relu().sum(&[0]);
/// assert_eq!(y.values()?, [6.0, 8.0]);
/// let error = (&x + &Tensor::zeros([3])).values().unwrap_err().to_string();
/// assert!(error.contains("[2, 2]") && error.contains("[3]"), "{error}");
/// # Ok::<(), synod_engine::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    shape: Shape,
    data: Option<Arc<[f32]>>,
    name: Option<(u64, Value)>,
    error: Option<Arc<Error>>,
}

impl Tensor {
    /// A tensor of the given elements, row-major.
    #[track_caller]
    pub fn new(data: impl Into<Arc<[f32]>>, shape: impl Into<Shape>) -> Tensor {
        let (data, shape) = (data.into(), shape.into());
        if shape.checked_elements() != Some(data.len()) {
            let problem = format!("{} numbers do not fill {shape}", data.len());
            return Tensor::poisoned(Error::Trace {
                problem,
                site: Site::caller(),
            });
        }
        Tensor::concrete(shape, data)
    }

    /// A rank-0 tensor.
    pub fn scalar(value: f32) -> Tensor {
        Tensor::concrete(Shape::scalar(), Arc::new([value]))
    }

    /// All elements equal.
    #[track_caller]
    pub fn full(value: f32, shape: impl Into<Shape>) -> Tensor {
        one(
            Full {
                shape: shape.into(),
                value,
            },
            &[],
            Site::caller(),
        )
    }

    /// All zeros.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>) -> Tensor {
        Tensor::full(0.0, shape)
    }

    pub(crate) fn concrete(shape: Shape, data: Arc<[f32]>) -> Tensor {
        Tensor {
            shape,
            data: Some(data),
            name: None,
            error: None,
        }
    }

    pub(crate) fn named(shape: Shape, trace: u64, value: Value) -> Tensor {
        Tensor {
            shape,
            data: None,
            name: Some((trace, value)),
            error: None,
        }
    }

    pub(crate) fn poisoned(error: Error) -> Tensor {
        Tensor {
            shape: Shape::scalar(),
            data: None,
            name: None,
            error: Some(Arc::new(error)),
        }
    }

    pub(crate) fn with_data_of(&self, other: &Tensor) -> Tensor {
        Tensor {
            data: other.data.clone(),
            ..self.clone()
        }
    }

    pub(crate) fn data(&self) -> Option<&Arc<[f32]>> {
        self.data.as_ref()
    }

    pub(crate) fn name(&self) -> Option<(u64, Value)> {
        self.name
    }

    /// The mistake this tensor carries.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_deref()
    }

    /// The extents.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The elements, row-major; an error if this tensor carries one, or is only a name inside a trace.
    #[track_caller]
    pub fn values(&self) -> Result<&[f32]> {
        if let Some(error) = &self.error {
            return Err((**error).clone());
        }
        let site = Site::caller();
        self.data.as_deref().ok_or_else(|| Error::Trace {
            problem: "the values of a traced tensor are not known while tracing; use branch or repeat to depend on them"
                .into(),
            site,
        })
    }

    /// The only element of a tensor that has one.
    #[track_caller]
    pub fn item(&self) -> Result<f32> {
        match self.values()? {
            [x] => Ok(*x),
            other => Err(Error::Call(format!(
                "a tensor {} has {} elements, not one",
                self.shape,
                other.len()
            ))),
        }
    }

    fn unary(&self, f: Unary, site: Site) -> Tensor {
        one(f, &[self], site)
    }

    fn binary(&self, f: Binary, other: &Tensor, site: Site) -> Tensor {
        let (x, y) = broadcast_pair(self, other, &site);
        one(f, &[&x, &y], site)
    }

    /// `max(self, other)` element by element.
    #[track_caller]
    pub fn maximum(&self, other: impl IntoTensor) -> Tensor {
        self.binary(Binary::Max, &other.into_tensor(), Site::caller())
    }

    /// `min(self, other)` element by element.
    #[track_caller]
    pub fn minimum(&self, other: impl IntoTensor) -> Tensor {
        self.binary(Binary::Min, &other.into_tensor(), Site::caller())
    }

    /// `self ^ other` element by element.
    #[track_caller]
    pub fn pow(&self, other: impl IntoTensor) -> Tensor {
        self.binary(Binary::Pow, &other.into_tensor(), Site::caller())
    }

    /// 1 where `self < other`, else 0.
    #[track_caller]
    pub fn less(&self, other: impl IntoTensor) -> Tensor {
        self.binary(Binary::Less, &other.into_tensor(), Site::caller())
    }

    /// 1 where `self > other`, else 0.
    #[track_caller]
    pub fn greater(&self, other: impl IntoTensor) -> Tensor {
        other.into_tensor().binary(Binary::Less, self, Site::caller())
    }

    /// 1 where `self == other`, else 0.
    #[track_caller]
    pub fn equals(&self, other: impl IntoTensor) -> Tensor {
        self.binary(Binary::Equal, &other.into_tensor(), Site::caller())
    }

    /// Where `self` is not zero `then`, elsewhere `otherwise`.
    #[track_caller]
    pub fn select(&self, then: impl IntoTensor, otherwise: impl IntoTensor) -> Tensor {
        let site = Site::caller();
        let (then, otherwise) = broadcast_pair(&then.into_tensor(), &otherwise.into_tensor(), &site);
        let (condition, then) = broadcast_pair(self, &then, &site);
        let (condition, otherwise) = broadcast_pair(&condition, &otherwise, &site);
        one(Select, &[&condition, &then, &otherwise], site)
    }

    /// The matrix product.
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        one(Dot { ta: false, tb: false }, &[self, other], Site::caller())
    }

    /// The matrix product with either side transposed.
    #[track_caller]
    pub fn dot_with(&self, other: &Tensor, dot: Dot) -> Tensor {
        one(dot, &[self, other], Site::caller())
    }

    fn reduce(&self, kind: Reduction, axes: &[usize], site: Site) -> Tensor {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        one(Reduce { kind, axes }, &[self], site)
    }

    /// The sum along axes, which vanish.
    #[track_caller]
    pub fn sum(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Sum, axes, Site::caller())
    }

    /// The mean along axes, which vanish.
    #[track_caller]
    pub fn mean(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Mean, axes, Site::caller())
    }

    /// The largest element along axes, which vanish.
    #[track_caller]
    pub fn max(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Max, axes, Site::caller())
    }

    /// The smallest element along axes, which vanish.
    #[track_caller]
    pub fn min(&self, axes: &[usize]) -> Tensor {
        self.reduce(Reduction::Min, axes, Site::caller())
    }

    /// The sum of all elements.
    #[track_caller]
    pub fn sum_all(&self) -> Tensor {
        self.reduce(
            Reduction::Sum,
            &(0..self.shape.rank()).collect::<Vec<_>>(),
            Site::caller(),
        )
    }

    /// The mean of all elements.
    #[track_caller]
    pub fn mean_all(&self) -> Tensor {
        self.reduce(
            Reduction::Mean,
            &(0..self.shape.rank()).collect::<Vec<_>>(),
            Site::caller(),
        )
    }

    /// The same elements under another shape.
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Tensor {
        one(Reshape { shape: shape.into() }, &[self], Site::caller())
    }

    /// Axis `i` of the result is axis `order[i]` of this tensor.
    #[track_caller]
    pub fn transpose(&self, order: &[usize]) -> Tensor {
        one(
            Transpose {
                order: order.to_vec(),
            },
            &[self],
            Site::caller(),
        )
    }

    /// Repeated to fill `shape`, axes aligned at the end and extents of 1 stretched.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Tensor {
        stretch(self, &shape.into(), Site::caller())
    }

    /// Elements `range` along `axis`.
    #[track_caller]
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Tensor {
        let mut start = vec![0; self.shape.rank()];
        let mut stop = self.shape.dims().to_vec();
        if axis < start.len() {
            (start[axis], stop[axis]) = (range.start, range.end);
        } else {
            start.push(range.start);
        }
        let step = vec![1; self.shape.rank()];
        one(Slice { start, stop, step }, &[self], Site::caller())
    }

    /// Zeros before and after, per axis.
    #[track_caller]
    pub fn pad(&self, low: &[usize], high: &[usize]) -> Tensor {
        let gap = vec![0; self.shape.rank()];
        one(
            Pad {
                low: low.to_vec(),
                high: high.to_vec(),
                gap,
            },
            &[self],
            Site::caller(),
        )
    }

    /// Tensors one after the other along `axis`.
    #[track_caller]
    pub fn concat(tensors: &[Tensor], axis: usize) -> Tensor {
        one(
            Concat { axis },
            &tensors.iter().collect::<Vec<_>>(),
            Site::caller(),
        )
    }

    /// Sub-tensors picked along the first axis.
    #[track_caller]
    pub fn gather(&self, indices: &Tensor) -> Tensor {
        one(Gather, &[self, indices], Site::caller())
    }

    /// Adds sub-tensors of `self` at `indices` into `rows` rows of zeros.
    #[track_caller]
    pub fn scatter(&self, indices: &Tensor, rows: usize) -> Tensor {
        one(Scatter { rows }, &[indices, self], Site::caller())
    }

    /// Random numbers under this key (see [`key`](crate::ops::key)); `salt` tells apart several uses of one key.
    #[track_caller]
    pub fn random(&self, distribution: Distribution, shape: impl Into<Shape>, salt: u32) -> Tensor {
        one(
            Random {
                distribution,
                shape: shape.into(),
                salt,
            },
            &[self],
            Site::caller(),
        )
    }

    /// A user's own op.
    #[track_caller]
    pub fn custom(op: &Custom, args: &[&Tensor]) -> Vec<Tensor> {
        emit(Op::Custom(op.clone()), args, Site::caller())
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => { impl Tensor { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(&self) -> Tensor { self.unary(Unary::$op, Site::caller()) }
    )* } };
}
unary_methods! {
    /// The absolute value.
    abs Abs;
    /// -1, 0 or 1.
    sign Sign;
    /// e to the power.
    exp Exp;
    /// The natural logarithm.
    log Log;
    /// The square root.
    sqrt Sqrt;
    /// One over.
    recip Recip;
    /// The sine.
    sin Sin;
    /// The cosine.
    cos Cos;
    /// The hyperbolic tangent.
    tanh Tanh;
    /// The logistic function.
    sigmoid Sigmoid;
    /// `max(x, 0)`.
    relu Relu;
    /// The error function.
    erf Erf;
    /// The largest whole number not above.
    floor Floor;
}

pub(crate) fn one(op: impl Into<Op>, args: &[&Tensor], site: Site) -> Tensor {
    emit(op.into(), args, site).swap_remove(0)
}

/// Axes aligned at the end, extents of 1 stretched; on a misfit the tensor itself, so that the op reports both shapes.
fn stretch(x: &Tensor, shape: &Shape, site: Site) -> Tensor {
    if x.shape == *shape || x.error.is_some() {
        return x.clone();
    }
    let (from, to) = (x.shape.dims(), shape.dims());
    let lead = to.len().saturating_sub(from.len());
    let fits = from.len() <= to.len() && from.iter().zip(&to[lead..]).all(|(&f, &t)| f == t || f == 1);
    if !fits {
        return one(
            Broadcast {
                axes: (lead..to.len()).collect(),
                shape: shape.clone(),
            },
            &[x],
            site,
        );
    }
    let axes: Vec<usize> = (0..from.len()).filter(|&i| from[i] == to[lead + i]).collect();
    let squeezed: Vec<usize> = axes.iter().map(|&i| from[i]).collect();
    let x = match squeezed == from {
        true => x.clone(),
        false => one(
            Reshape {
                shape: squeezed.into(),
            },
            &[x],
            site.clone(),
        ),
    };
    let axes = axes.iter().map(|a| a + lead).collect();
    one(
        Broadcast {
            axes,
            shape: shape.clone(),
        },
        &[&x],
        site,
    )
}

fn broadcast_pair(x: &Tensor, y: &Tensor, site: &Site) -> (Tensor, Tensor) {
    if x.shape == y.shape || x.error.is_some() || y.error.is_some() {
        return (x.clone(), y.clone());
    }
    let (a, b) = (x.shape.dims(), y.shape.dims());
    let rank = a.len().max(b.len());
    let extent = |dims: &[usize], i: usize| {
        if i + dims.len() < rank {
            1
        } else {
            dims[i + dims.len() - rank]
        }
    };
    let joined: Option<Vec<usize>> = (0..rank)
        .map(|i| match (extent(a, i), extent(b, i)) {
            (p, q) if p == q => Some(p),
            (1, q) => Some(q),
            (p, 1) => Some(p),
            _ => None,
        })
        .collect();
    match joined {
        Some(dims) => {
            let shape = Shape::from(dims);
            (stretch(x, &shape, site.clone()), stretch(y, &shape, site.clone()))
        }
        None => (x.clone(), y.clone()),
    }
}

/// What may stand beside a tensor in an expression.
pub trait IntoTensor {
    /// The tensor.
    fn into_tensor(self) -> Tensor;
}

impl IntoTensor for Tensor {
    fn into_tensor(self) -> Tensor {
        self
    }
}

impl IntoTensor for &Tensor {
    fn into_tensor(self) -> Tensor {
        self.clone()
    }
}

impl IntoTensor for f32 {
    fn into_tensor(self) -> Tensor {
        Tensor::scalar(self)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => { $(
        impl<R: IntoTensor> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor { self.binary(Binary::$op, &other.into_tensor(), Site::caller()) }
        }
        impl<R: IntoTensor> $trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor { self.binary(Binary::$op, &other.into_tensor(), Site::caller()) }
        }
        impl $trait<Tensor> for f32 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                Tensor::scalar(self).binary(Binary::$op, &other, Site::caller())
            }
        }
        impl $trait<&Tensor> for f32 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                Tensor::scalar(self).binary(Binary::$op, other, Site::caller())
            }
        }
    )* };
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div);

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.unary(Unary::Neg, Site::caller())
    }
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.unary(Unary::Neg, Site::caller())
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error, &self.data, self.name) {
            (Some(error), ..) => write!(f, "Tensor(error: {error})"),
            (_, Some(data), _) if data.len() <= 16 => write!(f, "Tensor{} {data:?}", self.shape),
            (_, Some(data), _) => write!(f, "Tensor{} {:?}...", self.shape, &data[..16]),
            (.., Some((_, value))) => write!(f, "Tensor{} {value}", self.shape),
            _ => write!(f, "Tensor{}", self.shape),
        }
    }
}
