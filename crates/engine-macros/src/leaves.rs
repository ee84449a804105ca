//! What keeps an `if` or a `while` in Rust: control flow that leaves it, and changes that no branch can give back.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, Item, Lifetime, Macro};

use crate::variables::{Use, each_outer};

/// The first token inside `parts` that a closure in their place could not do.
pub(crate) fn first<'e>(parts: impl IntoIterator<Item = &'e Expr>) -> Option<Span> {
    parts
        .into_iter()
        .find_map(|part| leaves(part).or_else(|| changes(part)))
}

/// The first token of a loop's body that would leave the body, counting its own `break` and `continue`.
pub(crate) fn leaves(part: &Expr) -> Option<Span> {
    let mut find = Find {
        found: None,
        loops: 0,
        labels: vec![],
    };
    find.visit_expr_mut(&mut part.clone());
    find.found
}

fn changes(part: &Expr) -> Option<Span> {
    let mut found = None;
    each_outer(&mut part.clone(), |place, name, how| {
        if how == Use::ThroughReference || how == Use::Changed && name == "self" {
            found = found.or(Some(place.span()));
        }
    });
    found
}

struct Find {
    found: Option<Span>,
    loops: usize,
    labels: Vec<Lifetime>,
}

impl Find {
    fn note(&mut self, span: Span) {
        self.found = self.found.or(Some(span));
    }

    /// A jump stays inside if it names a label, or belongs to a loop, that is itself inside.
    fn jump(&mut self, span: Span, label: Option<&Lifetime>) {
        let inside = label.map_or(self.loops > 0, |label| self.labels.contains(label));
        if !inside {
            self.note(span);
        }
    }

    fn inside_loop(&mut self, label: Option<Lifetime>, expr: &mut Expr) {
        self.labels.extend(label.clone());
        self.loops += 1;
        visit_mut::visit_expr_mut(self, expr);
        self.loops -= 1;
        if label.is_some() {
            self.labels.pop();
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(word) if word == "return" || word == "break" || word == "continue" => {
                    self.note(word.span());
                }
                TokenTree::Punct(mark) if mark.as_char() == '?' => self.note(mark.span()),
                _ => {}
            }
        }
    }
}

impl VisitMut for Find {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Closure(_) | Expr::Async(_) => return,
            Expr::Return(e) => self.note(e.return_token.span),
            Expr::Try(e) => self.note(e.question_token.span),
            Expr::Await(e) => self.note(e.await_token.span),
            Expr::Break(e) => self.jump(e.break_token.span, e.label.as_ref()),
            Expr::Continue(e) => self.jump(e.continue_token.span, e.label.as_ref()),
            Expr::While(e) => return self.inside_loop(e.label.as_ref().map(|l| l.name.clone()), expr),
            Expr::ForLoop(e) => return self.inside_loop(e.label.as_ref().map(|l| l.name.clone()), expr),
            Expr::Loop(e) => return self.inside_loop(e.label.as_ref().map(|l| l.name.clone()), expr),
            Expr::Block(e) if e.label.is_some() => {
                let label = e.label.as_ref().map(|l| l.name.clone());
                self.labels.extend(label);
                visit_mut::visit_expr_mut(self, expr);
                self.labels.pop();
                return;
            }
            _ => {}
        }
        visit_mut::visit_expr_mut(self, expr);
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        self.tokens(mac.tokens.clone());
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
}
