//! Conditions: comparisons and logic that give a `bool` for host values and a tensor for tensors.

use proc_macro2::{Ident, Span};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, UnOp};

use crate::leaves::leaves;
use crate::variables::compares;

/// True if the condition binds variables, so that it only makes sense in Rust.
pub(crate) fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(e) => binds(&e.left) || binds(&e.right),
        Expr::Paren(e) => binds(&e.expr),
        _ => false,
    }
}

/// The condition with its operators replaced; `rewrite` treats the operands.
pub(crate) fn rewritten(condition: &Expr, rewrite: &mut dyn FnMut(&mut Expr)) -> Expr {
    match condition {
        Expr::Paren(e) => rewritten(&e.expr, rewrite),
        Expr::Group(e) => rewritten(&e.expr, rewrite),
        Expr::Unary(e) if matches!(e.op, UnOp::Not(_)) => {
            let (op, operand) = (&e.op, rewritten(&e.expr, rewrite));
            Expr::Verbatim(quote!(#op (#operand)))
        }
        Expr::Binary(e) if compares(&e.op) => {
            let (mut left, mut right) = ((*e.left).clone(), (*e.right).clone());
            rewrite(&mut left);
            rewrite(&mut right);
            let span = e.op.span();
            let function = comparison(&e.op, span);
            // The operands' own spans let rustc point at the side that does not fit.
            let (left, right) = (
                quote_spanned!(e.left.span()=> &(#left)),
                quote_spanned!(e.right.span()=> &(#right)),
            );
            Expr::Verbatim(quote_spanned!(span=> #function(#left, #right)))
        }
        Expr::Binary(e) if matches!(e.op, BinOp::And(_) | BinOp::Or(_)) => {
            let (left, right) = (rewritten(&e.left, rewrite), rewritten(&e.right, rewrite));
            let span = e.op.span();
            if leaves(&e.right).is_some() {
                let op = &e.op;
                return Expr::Verbatim(quote!(((#left) #op (#right))));
            }
            let method = if matches!(e.op, BinOp::And(_)) {
                "and"
            } else {
                "or"
            };
            let method = Ident::new(method, span);
            Expr::Verbatim(quote_spanned!(span=> ::synod_engine::control::Logic::#method(#left, || #right)))
        }
        other => {
            let mut other = other.clone();
            rewrite(&mut other);
            other
        }
    }
}

fn comparison(op: &BinOp, span: Span) -> proc_macro2::TokenStream {
    let (kind, method) = match op {
        BinOp::Lt(_) => ("Compare", "lt"),
        BinOp::Gt(_) => ("Compare", "gt"),
        BinOp::Le(_) => ("Compare", "le"),
        BinOp::Ge(_) => ("Compare", "ge"),
        BinOp::Eq(_) => ("Equal", "eq"),
        _ => ("Equal", "ne"),
    };
    let (kind, method) = (Ident::new(kind, span), Ident::new(method, span));
    quote_spanned!(span=> ::synod_engine::control::#kind::#method)
}
