//! Branches and loops on tensors. `#[graph]` turns `if` and `while` into these two functions.

use crate::error::{Error, Site};
use crate::ops::{If, Op, While};
use crate::tensor::{IntoTensor, Tensor};
use crate::trace::{self, Traced, closure, emit, mistake};
use crate::types::Type;

/// What a condition says now.
pub enum Decision {
    /// Known: a host value, or a tensor with data.
    Now(bool),
    /// Only known when the graph runs.
    Later(Tensor),
    /// The tensor carries an error.
    Failed(Error),
}

/// A condition of [`branch`] or [`repeat`]: `bool` is decided now, a traced scalar tensor when the graph runs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot decide a branch or a loop of a traced function",
    label = "this must be a `bool` or a scalar `Tensor`"
)]
pub trait Condition {
    /// Decides, if possible.
    fn decide(&self) -> Decision;
}

impl Condition for bool {
    fn decide(&self) -> Decision {
        Decision::Now(*self)
    }
}

impl Condition for Tensor {
    fn decide(&self) -> Decision {
        match (self.error(), self.data()) {
            (Some(error), _) => Decision::Failed(error.clone()),
            (None, Some(_)) => match self.item() {
                Ok(x) => Decision::Now(x != 0.0),
                Err(error) => Decision::Failed(error),
            },
            (None, None) => Decision::Later(self.clone()),
        }
    }
}

impl<C: Condition> Condition for &C {
    fn decide(&self) -> Decision {
        (**self).decide()
    }
}

/// State that branches and loops carry: tensors become part of the graph, host values must not change inside it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot enter or leave a traced function, nor a branch or a loop of one",
    label = "only tensors, numbers, `bool`, and tuples, arrays and vectors of them can",
    note = "clone a tensor behind a reference; for a type of your own, implement `synod_engine::control::Carried`"
)]
pub trait Carried: Clone {
    /// Adds the tensors inside to `out`.
    fn tensors(&self, out: &mut Vec<Tensor>);
    /// The same value with its tensors replaced, in order.
    fn replaced(&self, with: &mut dyn Iterator<Item = Tensor>) -> Self;
    /// The position of the first part whose host values differ.
    fn host_change(&self, other: &Self) -> Option<usize>;
}

impl Carried for Tensor {
    fn tensors(&self, out: &mut Vec<Tensor>) {
        out.push(self.clone());
    }

    fn replaced(&self, with: &mut dyn Iterator<Item = Tensor>) -> Tensor {
        with.next().unwrap_or_else(|| self.clone())
    }

    fn host_change(&self, _: &Tensor) -> Option<usize> {
        None
    }
}

macro_rules! host {
    ($($ty:ty),*) => { $(impl Carried for $ty {
        fn tensors(&self, _: &mut Vec<Tensor>) {}
        fn replaced(&self, _: &mut dyn Iterator<Item = Tensor>) -> $ty { self.clone() }
        fn host_change(&self, other: &$ty) -> Option<usize> { (self != other).then_some(0) }
    })* };
}
host!(
    bool,
    char,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    f32,
    f64,
    String,
    &'static str
);

impl<T: Carried> Carried for Vec<T> {
    fn tensors(&self, out: &mut Vec<Tensor>) {
        self.iter().for_each(|x| x.tensors(out));
    }

    fn replaced(&self, with: &mut dyn Iterator<Item = Tensor>) -> Vec<T> {
        self.iter().map(|x| x.replaced(with)).collect()
    }

    fn host_change(&self, other: &Vec<T>) -> Option<usize> {
        let differs = || self.iter().zip(other).any(|(a, b)| a.host_change(b).is_some());
        (self.len() != other.len() || differs()).then_some(0)
    }
}

impl<T: Carried, const N: usize> Carried for [T; N] {
    fn tensors(&self, out: &mut Vec<Tensor>) {
        self.iter().for_each(|x| x.tensors(out));
    }

    fn replaced(&self, with: &mut dyn Iterator<Item = Tensor>) -> [T; N] {
        std::array::from_fn(|i| self[i].replaced(with))
    }

    fn host_change(&self, other: &[T; N]) -> Option<usize> {
        self.iter()
            .zip(other)
            .any(|(a, b)| a.host_change(b).is_some())
            .then_some(0)
    }
}

impl<T: Carried> Carried for Option<T> {
    fn tensors(&self, out: &mut Vec<Tensor>) {
        self.iter().for_each(|x| x.tensors(out));
    }

    fn replaced(&self, with: &mut dyn Iterator<Item = Tensor>) -> Option<T> {
        self.as_ref().map(|x| x.replaced(with))
    }

    fn host_change(&self, other: &Option<T>) -> Option<usize> {
        match (self, other) {
            (Some(x), Some(y)) => x.host_change(y).map(|_| 0),
            (x, y) => (x.is_some() != y.is_some()).then_some(0),
        }
    }
}

impl<T: Carried, E: Clone> Carried for Result<T, E> {
    fn tensors(&self, out: &mut Vec<Tensor>) {
        self.iter().for_each(|x| x.tensors(out));
    }

    fn replaced(&self, with: &mut dyn Iterator<Item = Tensor>) -> Result<T, E> {
        self.as_ref().map(|x| x.replaced(with)).map_err(E::clone)
    }

    fn host_change(&self, other: &Result<T, E>) -> Option<usize> {
        match (self, other) {
            (Ok(x), Ok(y)) => x.host_change(y).map(|_| 0),
            _ => Some(0),
        }
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt),*;)*) => { $(impl<$($name: Carried),*> Carried for ($($name,)*) {
        #[allow(unused_variables, reason = "the empty tuple carries nothing")]
        fn tensors(&self, out: &mut Vec<Tensor>) { $(self.$index.tensors(out);)* }
        #[allow(unused_variables, clippy::unused_unit, reason = "the empty tuple carries nothing")]
        fn replaced(&self, with: &mut dyn Iterator<Item = Tensor>) -> Self { ($(self.$index.replaced(with),)*) }
        #[allow(unused_variables, reason = "the empty tuple carries nothing")]
        fn host_change(&self, other: &Self) -> Option<usize> {
            $(if self.$index.host_change(&other.$index).is_some() { return Some($index); })*
            None
        }
    })* };
}
tuples! {
    ;
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
}

/// Calls one of two functions on `state`, now or, if the condition is traced, when the graph runs.
///
/// ```
/// use synod_engine::{Tensor, branch};
/// let x = Tensor::scalar(-2.0);
/// let y = branch(x.less(0.0), x.clone(), |x| -x, |x| x);
/// assert_eq!(y.item()?, 2.0);
/// # Ok::<(), synod_engine::Error>(())
/// ```
#[track_caller]
pub fn branch<S: Carried, R: Carried>(
    condition: impl Condition,
    state: S,
    then: impl FnOnce(S) -> R,
    otherwise: impl FnOnce(S) -> R,
) -> R {
    branch_named(&[], condition, state, then, otherwise)
}

/// [`branch`] with the names of the result's parts, for messages; an unnamed part (`""`) is the value of the `if`.
#[track_caller]
pub fn branch_named<S: Carried, R: Carried>(
    names: &[&str],
    condition: impl Condition,
    state: S,
    then: impl FnOnce(S) -> R,
    otherwise: impl FnOnce(S) -> R,
) -> R {
    let site = Site::caller();
    let condition = match condition.decide() {
        Decision::Now(true) => return then(state),
        Decision::Now(false) => return otherwise(state),
        Decision::Failed(error) => return poison(then(state), &error),
        Decision::Later(condition) => condition,
    };
    let (x, y) = (side(&state, then), side(&state, otherwise));
    let ((x, r), (y, other)) = match (x, y) {
        (Ok(x), Ok(y)) => (x, y),
        (Err((error, r)), _) | (_, Err((error, r))) => return poison(r, &error),
    };
    if let Some(part) = r.host_change(&other) {
        let problem = format!(
            "{} is not a tensor and differs between the two sides of an `if` on a tensor; make it a Tensor",
            variable(names, part)
        );
        return poison(r, &mistake(problem, site));
    }
    let mut operands = vec![];
    state.tensors(&mut operands);
    let captures = union(&x.captures, &y.captures);
    let aligned = (
        align(&x, &captures, operands.len()),
        align(&y, &captures, operands.len()),
    );
    let (then, otherwise) = match aligned {
        (Ok(then), Ok(otherwise)) => (then.into(), otherwise.into()),
        (Err(error), _) | (_, Err(error)) => return poison(r, &error),
    };
    let args: Vec<&Tensor> = std::iter::once(&condition)
        .chain(&operands)
        .chain(&captures)
        .collect();
    let outs = emit(Op::If(If { then, otherwise }), &args, site);
    rebuild(r, outs)
}

/// Repeats `state = body(state)` while `condition(&state)` holds, now or, if it is traced, when the graph runs.
///
/// ```
/// use synod_engine::{Tensor, repeat};
/// let x = repeat(Tensor::scalar(1.0), |x| x.less(100.0), |x| &x * 2.0);
/// assert_eq!(x.item()?, 128.0);
/// # Ok::<(), synod_engine::Error>(())
/// ```
#[track_caller]
pub fn repeat<S: Carried, C: Condition>(state: S, condition: impl Fn(&S) -> C, body: impl Fn(S) -> S) -> S {
    repeat_named(&[], state, condition, body)
}

/// [`repeat`] with the names of the state's parts, for messages.
#[track_caller]
pub fn repeat_named<S: Carried, C: Condition>(
    names: &[&str],
    mut state: S,
    condition: impl Fn(&S) -> C,
    body: impl Fn(S) -> S,
) -> S {
    let site = Site::caller();
    loop {
        match condition(&state).decide() {
            Decision::Now(true) => state = body(state),
            Decision::Now(false) => return state,
            Decision::Failed(error) => return poison(state, &error),
            Decision::Later(_) => return traced_loop(names, state, condition, body, site),
        }
    }
}

fn traced_loop<S: Carried, C: Condition>(
    names: &[&str],
    state: S,
    condition: impl Fn(&S) -> C,
    body: impl Fn(S) -> S,
    site: Site,
) -> S {
    let as_tensor = |s: S| truth(&condition(&s));
    let (cond, step) = match (side(&state, as_tensor), side(&state, body)) {
        (Ok((cond, _)), Ok(step)) => (cond, step),
        (Err((error, _)), _) | (_, Err((error, _))) => return poison(state, &error),
    };
    let (step, next) = step;
    if let Some(part) = state.host_change(&next) {
        let problem = format!(
            "{} is not a tensor but changes inside a loop whose condition is a tensor, so its value would be lost; \
             make it a Tensor, or loop over a host range",
            variable(names, part)
        );
        return poison(state, &mistake(problem, site));
    }
    let mut carried = vec![];
    state.tensors(&mut carried);
    let captures = union(&cond.captures, &step.captures);
    let aligned = (
        align(&cond, &captures, carried.len()),
        align(&step, &captures, carried.len()),
    );
    let (cond, body) = match aligned {
        (Ok(cond), Ok(body)) => (cond.into(), body.into()),
        (Err(error), _) | (_, Err(error)) => return poison(state, &error),
    };
    let args: Vec<&Tensor> = carried.iter().chain(&captures).collect();
    let outs = emit(Op::While(While { cond, body }), &args, site);
    rebuild(state, outs)
}

fn variable(names: &[&str], part: usize) -> String {
    match names.get(part) {
        Some(&"") => "the value of the `if`".into(),
        Some(name) => format!("`{name}`"),
        None => format!("part {part} of the state"),
    }
}

/// Traces one side on fresh names for the tensors of `state`.
fn side<S: Carried, R: Carried>(state: &S, f: impl FnOnce(S) -> R) -> Result<(Traced, R), (Error, R)> {
    let mut tensors = vec![];
    state.tensors(&mut tensors);
    let types: Vec<Type> = tensors.iter().map(|t| Type::Tensor(t.shape().clone())).collect();
    let mut result = None;
    let traced = closure(&types, |params| {
        let r = f(state.replaced(&mut params.iter().cloned()));
        let mut outs = vec![];
        r.tensors(&mut outs);
        result = Some(r);
        outs
    });
    match (traced, result) {
        (Ok(traced), Some(r)) => Ok((traced, r)),
        (Err(error), Some(r)) => Err((error, r)),
        // `closure` calls its function exactly once before it returns.
        (_, None) => unreachable!("the traced side was not called"),
    }
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.name().is_some() && a.name() == b.name()
}

fn union(a: &[Tensor], b: &[Tensor]) -> Vec<Tensor> {
    let mut all = a.to_vec();
    for t in b {
        if !all.iter().any(|x| same(x, t)) {
            all.push(t.clone());
        }
    }
    all
}

/// Gives a traced side the parameters `state ++ captures` that both sides share.
fn align(side: &Traced, captures: &[Tensor], state: usize) -> crate::Result<crate::Graph> {
    let mut b = crate::graph::Builder::new();
    let types = side.graph.param_types();
    let mut args: Vec<_> = types[..state]
        .iter()
        .map(|t| b.param(t.clone(), "state"))
        .collect();
    let shared: Vec<_> = captures
        .iter()
        .map(|c| b.param(Type::Tensor(c.shape().clone()), "capture"))
        .collect();
    for own in &side.captures {
        args.extend(captures.iter().position(|c| same(c, own)).map(|i| shared[i]));
    }
    let outs = b.inline(&side.graph, &args);
    b.finish(&outs)
}

fn rebuild<R: Carried>(like: R, outs: Vec<Tensor>) -> R {
    match outs.iter().find_map(Tensor::error) {
        Some(error) => poison(like, &error.clone()),
        None => like.replaced(&mut outs.into_iter()),
    }
}

fn poison<R: Carried>(like: R, error: &Error) -> R {
    let mut tensors = vec![];
    like.tensors(&mut tensors);
    if trace::is_tracing() && tensors.is_empty() {
        trace::note(error);
    }
    like.replaced(&mut std::iter::repeat_n(
        Tensor::poisoned(error.clone()),
        tensors.len(),
    ))
}

/// The order comparisons of `#[graph]` functions: between host values they give `bool`, with a tensor they give a tensor.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{R}` cannot be compared in a condition of a traced function",
    label = "a tensor compares with a tensor or an `f32`"
)]
pub trait Compare<R: ?Sized> {
    /// `bool` or [`Tensor`].
    type Output: Condition;
    /// `self < other`
    fn lt(&self, other: &R) -> Self::Output;
    /// `self > other`
    fn gt(&self, other: &R) -> Self::Output;
    /// `self <= other`
    fn le(&self, other: &R) -> Self::Output;
    /// `self >= other`
    fn ge(&self, other: &R) -> Self::Output;
}

/// `==` and `!=` of `#[graph]` functions; apart from [`Compare`] because host values may be equal without an order.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{R}` cannot be compared in a condition of a traced function",
    label = "a tensor compares with a tensor or an `f32`"
)]
pub trait Equal<R: ?Sized> {
    /// `bool` or [`Tensor`].
    type Output: Condition;
    /// `self == other`
    fn eq(&self, other: &R) -> Self::Output;
    /// `self != other`
    fn ne(&self, other: &R) -> Self::Output;
}

impl<A: PartialOrd<B> + ?Sized, B: ?Sized> Compare<B> for A {
    type Output = bool;
    fn lt(&self, other: &B) -> bool {
        self < other
    }
    fn gt(&self, other: &B) -> bool {
        self > other
    }
    fn le(&self, other: &B) -> bool {
        self <= other
    }
    fn ge(&self, other: &B) -> bool {
        self >= other
    }
}

impl<A: PartialEq<B> + ?Sized, B: ?Sized> Equal<B> for A {
    type Output = bool;
    fn eq(&self, other: &B) -> bool {
        self == other
    }
    fn ne(&self, other: &B) -> bool {
        self != other
    }
}

macro_rules! compare_tensor {
    ($($left:ty, $right:ty;)*) => { $(
        impl Compare<$right> for $left {
            type Output = Tensor;
            #[track_caller]
            fn lt(&self, other: &$right) -> Tensor { self.clone().into_tensor().less(other.clone()) }
            #[track_caller]
            fn gt(&self, other: &$right) -> Tensor { self.clone().into_tensor().greater(other.clone()) }
            #[track_caller]
            fn le(&self, other: &$right) -> Tensor {
                let x = self.clone().into_tensor();
                x.less(other.clone()) + x.equals(other.clone())
            }
            #[track_caller]
            fn ge(&self, other: &$right) -> Tensor {
                let x = self.clone().into_tensor();
                x.greater(other.clone()) + x.equals(other.clone())
            }
        }
        impl Equal<$right> for $left {
            type Output = Tensor;
            #[track_caller]
            fn eq(&self, other: &$right) -> Tensor { self.clone().into_tensor().equals(other.clone()) }
            #[track_caller]
            fn ne(&self, other: &$right) -> Tensor { 1.0 - self.clone().into_tensor().equals(other.clone()) }
        }
    )* };
}
compare_tensor! {
    Tensor, Tensor; Tensor, f32; f32, Tensor; &Tensor, f32; f32, &Tensor; &Tensor, &Tensor; &Tensor, Tensor; Tensor, &Tensor;
}

/// `&&` and `||` of `#[graph]` functions. The right side is not evaluated when the left is known to decide.
///
/// ```
/// use synod_engine::{Tensor, control::Logic};
/// let x = Tensor::scalar(2.0);
/// assert_eq!(x.less(3.0).and(|| x.greater(1.0)).item()?, 1.0);
/// assert!(true.or(|| -> bool { unreachable!("not asked") }));
/// # Ok::<(), synod_engine::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{R}` cannot be joined by `&&` or `||` in a condition of a traced function",
    label = "both sides must be a `bool` or a scalar `Tensor`"
)]
pub trait Logic<R> {
    /// `bool` or [`Tensor`].
    type Output: Condition;
    /// `self && other()`
    fn and(self, other: impl FnOnce() -> R) -> Self::Output;
    /// `self || other()`
    fn or(self, other: impl FnOnce() -> R) -> Self::Output;
}

impl Logic<bool> for bool {
    type Output = bool;
    fn and(self, other: impl FnOnce() -> bool) -> bool {
        self && other()
    }
    fn or(self, other: impl FnOnce() -> bool) -> bool {
        self || other()
    }
}

macro_rules! logic_tensor {
    ($([$($generics:tt)*] $left:ty, $right:ty;)*) => { $(impl<$($generics)*> Logic<$right> for $left {
        type Output = Tensor;
        #[track_caller]
        fn and(self, other: impl FnOnce() -> $right) -> Tensor {
            match self.decide() {
                Decision::Now(false) => Tensor::scalar(0.0),
                Decision::Now(true) => truth(&other()),
                Decision::Later(left) => left.select(truth(&other()), 0.0),
                Decision::Failed(error) => Tensor::poisoned(error),
            }
        }
        #[track_caller]
        fn or(self, other: impl FnOnce() -> $right) -> Tensor {
            match self.decide() {
                Decision::Now(true) => Tensor::scalar(1.0),
                Decision::Now(false) => truth(&other()),
                Decision::Later(left) => left.select(1.0, truth(&other())),
                Decision::Failed(error) => Tensor::poisoned(error),
            }
        }
    })* };
}
logic_tensor! { [] bool, Tensor; ['a] bool, &'a Tensor; [R: Condition] Tensor, R; [R: Condition] &Tensor, R; }

fn truth(condition: &impl Condition) -> Tensor {
    match condition.decide() {
        Decision::Later(t) => t,
        Decision::Now(b) => Tensor::scalar(f32::from(u8::from(b))),
        Decision::Failed(error) => Tensor::poisoned(error),
    }
}

impl std::ops::Not for Tensor {
    type Output = Tensor;
    /// 1 where the tensor is zero, else 0.
    #[track_caller]
    fn not(self) -> Tensor {
        self.equals(0.0)
    }
}

impl std::ops::Not for &Tensor {
    type Output = Tensor;
    /// 1 where the tensor is zero, else 0.
    #[track_caller]
    fn not(self) -> Tensor {
        self.equals(0.0)
    }
}

/// The condition of an `if` or `while` of a `#[graph]` function that must be decided at once, because something inside
/// leaves it or changes what a graph cannot hold.
#[diagnostic::on_unimplemented(
    message = "this cannot stand inside an `if` or a `while` whose condition is a `{Self}`",
    label = "a graph cannot do this in a branch or a loop",
    note = "give the value back from the `if`, carry it in a local variable, or put the test into the `while` condition",
    note = "on a `bool` condition, such as `x.item()? > 0.0`, it is allowed"
)]
pub trait HostCondition {
    /// The decision.
    fn now(self) -> bool;
}

impl HostCondition for bool {
    fn now(self) -> bool {
        self
    }
}

/// [`staged`](crate::staged) for arguments and results of any [`Carried`] type; host parts of the result are those seen
/// while tracing. `#[staged]` functions run through it.
///
/// ```
/// use synod_engine::{Tensor, control::call_staged};
/// let (sum, name) = call_staged(Tensor::new(vec![1.0, 2.0], [2]), |x| (x.sum_all(), "sum"));
/// assert_eq!((sum.item()?, name), (3.0, "sum"));
/// # Ok::<(), synod_engine::Error>(())
/// ```
pub fn call_staged<A: Carried, R: Carried>(args: A, f: impl FnOnce(A) -> R) -> R {
    let mut tensors = vec![];
    args.tensors(&mut tensors);
    // Only the function itself knows how to build a result that carries the error on.
    if trace::is_tracing() || tensors.iter().any(|t| t.error().is_some()) {
        return f(args);
    }
    let mut result = None;
    let outs = crate::stage::staged(&tensors, |params| {
        let r = f(args.replaced(&mut params.iter().cloned()));
        let mut outs = vec![];
        r.tensors(&mut outs);
        result = Some(r);
        outs
    });
    match result {
        Some(r) => rebuild(r, outs),
        // `staged` traces a function of sound tensors exactly once before it returns.
        None => unreachable!("the staged function was not traced"),
    }
}

/// [`call_staged`] in [`Mode::Graph`](crate::Mode::Graph), otherwise a plain call. `#[graph]` functions run through it.
///
/// ```
/// use synod_engine::{Mode, Tensor, control::call_graph, set_mode};
/// let twice = |x: Tensor| call_graph(x, |x| &x + &x);
/// assert_eq!(twice(Tensor::scalar(2.0)).item()?, 4.0);
/// set_mode(Mode::Graph);
/// assert_eq!(twice(Tensor::scalar(2.0)).item()?, 4.0);
/// # Ok::<(), synod_engine::Error>(())
/// ```
pub fn call_graph<A: Carried, R: Carried>(args: A, f: impl FnOnce(A) -> R) -> R {
    match crate::stage::mode() {
        crate::stage::Mode::Graph => call_staged(args, f),
        crate::stage::Mode::Eager => f(args),
    }
}
