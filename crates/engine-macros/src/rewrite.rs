//! `if` and `while` as calls of the engine.

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprIf, ExprWhile, Ident, Item, Macro};

use crate::condition::{binds, rewritten};
use crate::leaves;
use crate::variables::{Use, changed, each_outer, mentioned};

/// What one branch or loop can carry: the engine's longest tuple, less the value of an `if`.
const MOST: usize = 11;

/// Rewrites every `if` and `while` of a function's body.
pub(crate) fn body(block: &mut Block) -> syn::Result<()> {
    let mut rewrite = Rewrite {
        captured: BTreeSet::new(),
        problem: None,
    };
    rewrite.visit_block_mut(block);
    rewrite.problem.map_or(Ok(()), Err)
}

struct Rewrite {
    /// The variables of the closure around, which may not be moved out of it.
    captured: BTreeSet<Ident>,
    problem: Option<syn::Error>,
}

/// The place of a token with the names of the macro: for what the user did not write.
fn hidden(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

fn as_expr(block: &Block) -> Expr {
    Expr::Block(syn::ExprBlock {
        attrs: vec![],
        label: None,
        block: block.clone(),
    })
}

impl VisitMut for Rewrite {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::If(test) if !binds(&test.cond) => *expr = self.branch(test.clone()),
            Expr::While(test) if !binds(&test.cond) => *expr = self.repeat(test.clone()),
            Expr::Closure(_) => {
                let inner = mentioned(expr);
                let outer = std::mem::replace(&mut self.captured, inner);
                visit_mut::visit_expr_mut(self, expr);
                self.captured = outer;
            }
            Expr::Async(_) => {}
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}

    fn visit_macro_mut(&mut self, _: &mut Macro) {}
}

impl Rewrite {
    fn condition(&mut self, condition: &Expr) -> Expr {
        rewritten(condition, &mut |operand| self.visit_expr_mut(operand))
    }

    /// A condition that must be known at once; the compiler reports a tensor at `reason`.
    fn host_condition(&mut self, condition: &Expr, reason: Span) -> Expr {
        let condition = self.condition(condition);
        // The compiler blames the argument, so the argument stands where the reason does.
        let known = Ident::new("known", reason);
        let now = quote_spanned!(reason=> ::synod_engine::control::HostCondition::now(#known));
        Expr::Verbatim(quote_spanned!(hidden(reason)=> { let #known = #condition; #now }))
    }

    fn branch(&mut self, mut test: ExprIf) -> Expr {
        let mut then = as_expr(&test.then_branch);
        let mut otherwise = test.else_branch.as_ref().map(|(_, e)| (**e).clone());
        if let Some(reason) = leaves::first(std::iter::once(&then).chain(&otherwise)) {
            *test.cond = self.host_condition(&test.cond, reason);
            self.visit_block_mut(&mut test.then_branch);
            if let Some((_, otherwise)) = &mut test.else_branch {
                self.visit_expr_mut(otherwise);
            }
            return Expr::If(test);
        }
        let carried = self.carried(
            changed(std::iter::once(&then).chain(&otherwise)),
            test.if_token.span,
        );
        let condition = self.condition(&test.cond);
        if let Some(otherwise) = &mut otherwise {
            clone_what_both_move(&mut then, otherwise, &carried.names);
            self.visit_expr_mut(otherwise);
        }
        self.visit_expr_mut(&mut then);
        let otherwise = otherwise.map_or_else(|| quote!(()), |e| quote!(#e));
        let Carried {
            names,
            words,
            given,
            enter,
            after,
            leave,
            ..
        } = &carried;
        let (decided, value) = (carried.hidden("condition"), carried.hidden("value"));
        let (state, attrs) = (carried.hidden("state"), &test.attrs);
        let call = quote_spanned! {carried.span=>
            ::synod_engine::branch_named(
                &["", #(#words),*], #decided, #given,
                |#state| { #enter (#then, #(#names,)*) },
                |#state| { #enter (#otherwise, #(#names,)*) },
            )
        };
        Expr::Verbatim(quote_spanned! {hidden(carried.span)=> #(#attrs)* {
            let #decided = #condition;
            let (#value, #(#after,)*) = #call;
            #leave
            #value
        }})
    }

    fn repeat(&mut self, mut test: ExprWhile) -> Expr {
        let body = as_expr(&test.body);
        let by_condition = changed([&*test.cond]).first().map(Ident::span);
        if let Some(reason) = leaves::first([&*test.cond, &body]).or(by_condition) {
            *test.cond = self.host_condition(&test.cond, reason);
            self.visit_block_mut(&mut test.body);
            return Expr::While(test);
        }
        let carried = self.carried(changed([&body]), test.while_token.span);
        let condition = self.condition(&test.cond);
        self.visit_block_mut(&mut test.body);
        let Carried {
            names,
            words,
            given,
            enter,
            after,
            leave,
            read,
            ..
        } = &carried;
        let (state, attrs, body) = (carried.hidden("state"), &test.attrs, &test.body);
        let call = quote_spanned! {carried.span=>
            ::synod_engine::repeat_named(
                &[#(#words),*], #given,
                |#state| { let (#(#names,)*) = ::core::clone::Clone::clone(#state); #read #condition },
                |#state| { #enter #body (#(#names,)*) },
            )
        };
        Expr::Verbatim(quote_spanned! {hidden(carried.span)=> #(#attrs)* {
            let (#(#after,)*) = #call;
            #leave
        }})
    }

    fn carried(&mut self, names: Vec<Ident>, span: Span) -> Carried {
        if names.len() > MOST {
            let problem = format!(
                "this changes {} variables, and a graph carries at most {MOST} through one branch or loop; \
                 put some of them into a tuple, an array or a `Vec`",
                names.len()
            );
            let problem = syn::Error::new(span, problem);
            match &mut self.problem {
                Some(known) => known.combine(problem),
                None => self.problem = Some(problem),
            }
        }
        Carried::new(names, span, &self.captured)
    }
}

/// The outer variables that a branch or a loop changes, and the source that takes them in and out.
struct Carried {
    span: Span,
    names: Vec<Ident>,
    words: Vec<String>,
    /// The state as an argument.
    given: TokenStream,
    /// Makes the variables of the state inside.
    enter: TokenStream,
    /// What the variables are called until they are assigned again.
    after: Vec<Ident>,
    /// Assigns them.
    leave: TokenStream,
    /// Counts as a use of each, so that rustc does not warn of changes the user did not write.
    read: TokenStream,
}

impl Carried {
    fn new(names: Vec<Ident>, span: Span, captured: &BTreeSet<Ident>) -> Carried {
        let site = hidden(span);
        let values = names.iter().map(|name| match captured.contains(name) {
            true => quote_spanned!(name.span()=> ::core::clone::Clone::clone(&#name)),
            false => quote!(#name),
        });
        let given = quote_spanned!(span=> (#(#values,)*));
        let read = if names.is_empty() {
            quote!()
        } else {
            quote_spanned!(site=> let _ = (#(&#names,)*);)
        };
        let state = Ident::new("state", site);
        let enter = quote_spanned! {site=>
            #[allow(unused_mut, reason = "the other side may be the one that changes it")]
            let (#(mut #names,)*) = #state;
            #read
        };
        let after: Vec<Ident> = names
            .iter()
            .map(|name| format_ident!("{name}_after", span = site))
            .collect();
        let leave = quote_spanned!(site=> #(#names = #after;)* #read);
        let words = names.iter().map(ToString::to_string).collect();
        Carried {
            span,
            names,
            words,
            given,
            enter,
            after,
            leave,
            read,
        }
    }

    fn hidden(&self, name: &str) -> Ident {
        Ident::new(name, hidden(self.span))
    }
}

/// Both sides are closures, so a variable that one side moves and the other uses must be cloned for the first.
fn clone_what_both_move(then: &mut Expr, otherwise: &mut Expr, carried: &[Ident]) {
    let common: BTreeSet<Ident> = mentioned(then)
        .intersection(&mentioned(otherwise))
        .cloned()
        .collect();
    let variable = |name: &Ident| name != "self" && !name.to_string().starts_with(char::is_uppercase);
    for side in [then, otherwise] {
        each_outer(side, |place, name, how| {
            if how == Use::Value && common.contains(name) && variable(name) && !carried.contains(name) {
                *place = Expr::Verbatim(quote_spanned!(place.span()=> ::core::clone::Clone::clone(&#place)));
            }
        });
    }
}
