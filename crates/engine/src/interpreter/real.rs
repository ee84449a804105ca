//! The numbers the interpreter computes with.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::ops::{Binary, Unary};

/// `f32` or `f64`.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// The nearest value.
    fn of(x: f64) -> Self;
    /// As `f64`.
    fn to_f64(self) -> f64;
    /// The larger one.
    fn max(self, other: Self) -> Self;
    /// The smaller one.
    fn min(self, other: Self) -> Self;
    /// A function of one number.
    fn unary(f: Unary, x: Self) -> Self;
    /// A function of two numbers.
    fn binary(f: Binary, x: Self, y: Self) -> Self;
}

macro_rules! real {
    ($ty:ty, $erf:path) => {
        impl Real for $ty {
            fn of(x: f64) -> $ty {
                x as $ty
            }

            fn to_f64(self) -> f64 {
                self as f64
            }

            fn max(self, other: $ty) -> $ty {
                <$ty>::max(self, other)
            }

            fn min(self, other: $ty) -> $ty {
                <$ty>::min(self, other)
            }

            fn unary(f: Unary, x: $ty) -> $ty {
                match f {
                    Unary::Neg => -x,
                    Unary::Abs => x.abs(),
                    Unary::Sign if x == 0.0 => 0.0,
                    Unary::Sign => x.signum(),
                    Unary::Exp => x.exp(),
                    Unary::Log => x.ln(),
                    Unary::Sqrt => x.sqrt(),
                    Unary::Recip => 1.0 / x,
                    Unary::Sin => x.sin(),
                    Unary::Cos => x.cos(),
                    Unary::Tanh => x.tanh(),
                    Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
                    Unary::Relu if x > 0.0 => x,
                    Unary::Relu if x.is_nan() => x,
                    Unary::Relu => 0.0,
                    Unary::Erf => $erf(x),
                    Unary::Floor => x.floor(),
                }
            }

            fn binary(f: Binary, x: $ty, y: $ty) -> $ty {
                let truth = |t: bool| if t { 1.0 } else { 0.0 };
                match f {
                    Binary::Add => x + y,
                    Binary::Sub => x - y,
                    Binary::Mul => x * y,
                    Binary::Div => x / y,
                    Binary::Max => <$ty>::max(x, y),
                    Binary::Min => <$ty>::min(x, y),
                    Binary::Pow => x.powf(y),
                    Binary::Less => truth(x < y),
                    Binary::Equal => truth(x == y),
                }
            }
        }
    };
}

real!(f32, libm::erff);
real!(f64, libm::erf);
