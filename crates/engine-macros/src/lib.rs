//! `#[graph]` and `#[staged]`: Rust functions, with their `if` and `while`, as graphs of `synod_engine`.
//!
//! The macros are sugar. An `if` becomes `branch_named`, a `while` becomes `repeat_named`, a comparison in a
//! condition gives a tensor when one of its sides is a tensor, and the whole body is called through `call_graph` or
//! `call_staged`. What the macro decides by looking at the source, it decides as follows.
//!
//! | in the source | becomes |
//! |---|---|
//! | `if` and `while` | a branch or a loop that carries the outer variables assigned inside, also by `+=`, `&mut x` or `x.push(..)` |
//! | `if` and `while` with `return`, `?`, `.await`, a `break` or `continue` that leaves them, or an assignment to `self` or `*x` inside | the same in Rust; the condition must be a `bool` |
//! | `for`, `loop`, `match`, `if let`, `while let` | the same in Rust, unrolled while tracing |
//! | `<`, `>`, `<=`, `>=`, `==`, `!=`, `&&`, `\|\|`, `!` in a condition | a tensor if a side is one, else a `bool` |
//! | parameters of type `Tensor`, and references, `Vec`, `Option`, slices, arrays and tuples of it | inputs of the graph |
//! | other parameters, and `self` | host values of the trace; tensors inside them become inputs too |
//! | arguments of macros, nested functions, `async` blocks | untouched |
#![forbid(unsafe_code)]

mod arguments;
mod condition;
mod function;
mod leaves;
mod rewrite;
mod variables;

use proc_macro::TokenStream;

/// Makes a function with `if`, `while` and `for` traceable, and leaves it callable eagerly.
///
/// Called in `Mode::Graph` it is traced, compiled and cached; called inside a trace it becomes part of the graph;
/// otherwise it runs op by op and decides its branches on the numbers it sees.
///
/// ```
/// use synod_engine::{Mode, Tensor, set_mode};
/// use synod_engine_macros::graph;
///
/// #[graph]
/// fn halve_until_small(mut x: Tensor, limit: f32) -> Tensor {
///     while x.abs().sum_all() > limit {
///         x = x * 0.5;
///     }
///     x
/// }
///
/// let x = Tensor::new(vec![3.0, 5.0], [2]);
/// assert_eq!(halve_until_small(x.clone(), 1.0).values()?, [0.375, 0.625]);
/// set_mode(Mode::Graph);
/// assert_eq!(halve_until_small(x, 1.0).values()?, [0.375, 0.625]);
/// # Ok::<(), synod_engine::Error>(())
/// ```
#[proc_macro_attribute]
pub fn graph(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(attribute.into(), item.into(), "call_graph").into()
}

/// Like [`macro@graph`], and always compiled: one fast function inside eager code.
///
/// ```
/// use synod_engine::{Tensor, compiled_functions};
/// use synod_engine_macros::staged;
///
/// #[staged]
/// fn softplus(x: &Tensor) -> Tensor {
///     (x.exp() + 1.0).log()
/// }
///
/// assert_eq!(softplus(&Tensor::scalar(0.0)).item()?, 2_f32.ln());
/// assert_eq!(softplus(&Tensor::scalar(90.0)).item()?, f32::INFINITY);
/// assert_eq!(compiled_functions(), 1);
/// # Ok::<(), synod_engine::Error>(())
/// ```
#[proc_macro_attribute]
pub fn staged(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(attribute.into(), item.into(), "call_staged").into()
}
