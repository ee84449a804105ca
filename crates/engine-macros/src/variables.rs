//! Which outer variables a piece of source uses, and how.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, Ident, Item, Macro, Member, Pat, Stmt, Token, UnOp};

/// How a variable occurs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// As a value: it is moved unless it is `Copy`.
    Value,
    /// Borrowed or looked into.
    Place,
    /// Assigned, or borrowed for changing.
    Changed,
    /// Assigned through a reference: `*x = ..`.
    ThroughReference,
}

/// Methods that change the vectors and strings a branch can carry.
const CHANGING: [&str; 6] = ["push", "pop", "push_str", "swap_remove", "truncate", "resize"];

/// Calls `seen` on every occurrence of a variable that `expr` does not itself declare. The expression handed over is
/// the place used: `x`, or `x.0` where a field is used as a value.
pub(crate) fn each_outer(expr: &mut Expr, seen: impl FnMut(&mut Expr, &Ident, Use)) {
    Walk { scopes: vec![], seen }.visit_expr_mut(expr);
}

/// The outer variables that the expressions change, in the order of their first change.
pub(crate) fn changed<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<Ident> {
    let mut names: Vec<Ident> = vec![];
    for expr in exprs {
        each_outer(&mut expr.clone(), |_, name, how| {
            if how == Use::Changed && !names.contains(name) {
                names.push(name.clone());
            }
        });
    }
    names
}

/// All outer variables the expression mentions.
pub(crate) fn mentioned(expr: &Expr) -> BTreeSet<Ident> {
    let mut names = BTreeSet::new();
    each_outer(&mut expr.clone(), |_, name, _| {
        names.insert(name.clone());
    });
    names
}

/// The variables a pattern declares.
fn declared(pat: &Pat) -> Vec<Ident> {
    struct Names(Vec<Ident>);
    impl VisitMut for Names {
        fn visit_pat_ident_mut(&mut self, pat: &mut syn::PatIdent) {
            self.0.push(pat.ident.clone());
            visit_mut::visit_pat_ident_mut(self, pat);
        }
    }
    let mut names = Names(vec![]);
    names.visit_pat_mut(&mut pat.clone());
    names.0
}

/// The variable a place expression starts from, and whether a reference is followed on the way.
fn base(place: &Expr) -> Option<(&Ident, bool)> {
    match place {
        Expr::Path(path) if path.qself.is_none() => path.path.get_ident().map(|name| (name, false)),
        Expr::Field(field) => base(&field.base),
        Expr::Index(index) => base(&index.expr),
        Expr::Paren(paren) => base(&paren.expr),
        Expr::Group(group) => base(&group.expr),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
            base(&unary.expr).map(|(name, _)| (name, true))
        }
        _ => None,
    }
}

struct Walk<F> {
    scopes: Vec<Vec<Ident>>,
    seen: F,
}

impl<F: FnMut(&mut Expr, &Ident, Use)> Walk<F> {
    fn declare(&mut self, pat: &Pat) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(declared(pat));
        }
    }

    fn scoped(&mut self, inside: impl FnOnce(&mut Self)) {
        self.scopes.push(vec![]);
        inside(self);
        self.scopes.pop();
    }

    /// Reports the place, or visits the expression if it is not one that starts from a variable.
    fn place(&mut self, expr: &mut Expr, how: Use) {
        let Some((name, reference)) = base(expr).map(|(name, reference)| (name.clone(), reference)) else {
            return match expr {
                Expr::Path(_) | Expr::Field(_) | Expr::Index(_) | Expr::Unary(_) => {
                    visit_mut::visit_expr_mut(self, expr)
                }
                _ => self.visit_expr_mut(expr),
            };
        };
        self.indices(expr);
        let how = if reference && how == Use::Changed {
            Use::ThroughReference
        } else {
            how
        };
        if !self.scopes.iter().flatten().any(|known| *known == name) {
            (self.seen)(expr, &name, how);
        }
    }

    fn indices(&mut self, place: &mut Expr) {
        match place {
            Expr::Field(field) => self.indices(&mut field.base),
            Expr::Paren(paren) => self.indices(&mut paren.expr),
            Expr::Unary(unary) => self.indices(&mut unary.expr),
            Expr::Index(index) => {
                self.indices(&mut index.expr);
                self.visit_expr_mut(&mut index.index);
            }
            _ => {}
        }
    }

    fn target(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(|e| self.target(e)),
            Expr::Array(array) => array.elems.iter_mut().for_each(|e| self.target(e)),
            other => self.place(other, Use::Changed),
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(name) => {
                    let path = syn::ExprPath {
                        attrs: vec![],
                        qself: None,
                        path: name.into(),
                    };
                    self.place(&mut Expr::Path(path), Use::Place);
                }
                _ => {}
            }
        }
    }
}

impl<F: FnMut(&mut Expr, &Ident, Use)> VisitMut for Walk<F> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Path(_) | Expr::Field(_) => self.place(expr, Use::Value),
            Expr::Index(_) => self.place(expr, Use::Place),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.place(expr, Use::Place),
            Expr::Reference(reference) => {
                let how = if reference.mutability.is_some() {
                    Use::Changed
                } else {
                    Use::Place
                };
                self.place(&mut reference.expr, how);
            }
            Expr::Assign(assign) => {
                self.visit_expr_mut(&mut assign.right);
                self.target(&mut assign.left);
            }
            Expr::Binary(binary) if assigns(&binary.op) => {
                self.visit_expr_mut(&mut binary.right);
                self.place(&mut binary.left, Use::Changed);
            }
            Expr::Binary(binary) if compares(&binary.op) => {
                self.place(&mut binary.left, Use::Place);
                self.place(&mut binary.right, Use::Place);
            }
            Expr::Call(call) => {
                self.place(&mut call.func, Use::Place);
                call.args.iter_mut().for_each(|a| self.visit_expr_mut(a));
            }
            Expr::MethodCall(call) => {
                let method = call.method.to_string();
                let how = match method.as_str() {
                    name if CHANGING.contains(&name) => Use::Changed,
                    name if name.starts_with("into_") => Use::Value,
                    _ => Use::Place,
                };
                self.place(&mut call.receiver, how);
                call.args.iter_mut().for_each(|a| self.visit_expr_mut(a));
            }
            Expr::Closure(closure) => self.scoped(|walk| {
                closure.inputs.iter().for_each(|pat| walk.declare(pat));
                walk.visit_expr_mut(&mut closure.body);
            }),
            Expr::Match(choice) => {
                self.place(&mut choice.expr, Use::Place);
                choice.arms.iter_mut().for_each(|arm| self.visit_arm_mut(arm));
            }
            Expr::Let(test) => {
                self.place(&mut test.expr, Use::Place);
                self.declare(&test.pat);
            }
            Expr::If(test) => {
                self.scoped(|walk| {
                    walk.visit_expr_mut(&mut test.cond);
                    walk.visit_block_mut(&mut test.then_branch);
                });
                if let Some((_, otherwise)) = &mut test.else_branch {
                    self.visit_expr_mut(otherwise);
                }
            }
            Expr::While(repeat) => self.scoped(|walk| {
                walk.visit_expr_mut(&mut repeat.cond);
                walk.visit_block_mut(&mut repeat.body);
            }),
            Expr::ForLoop(repeat) => {
                self.visit_expr_mut(&mut repeat.expr);
                self.scoped(|walk| {
                    walk.declare(&repeat.pat);
                    walk.visit_block_mut(&mut repeat.body);
                });
            }
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut syn::Arm) {
        self.scoped(|walk| {
            walk.declare(&arm.pat);
            if let Pat::Guard(guard) = &mut arm.pat {
                walk.visit_expr_mut(&mut guard.guard);
            }
            walk.visit_expr_mut(&mut arm.body);
        });
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        self.scoped(|walk| block.stmts.iter_mut().for_each(|stmt| walk.visit_stmt_mut(stmt)));
    }

    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        visit_mut::visit_stmt_mut(self, stmt);
        if let Stmt::Local(local) = stmt {
            self.declare(&local.pat);
        }
    }

    fn visit_field_value_mut(&mut self, field: &mut syn::FieldValue) {
        // `S { x }` has no room for another expression than `x`.
        if let (None, Member::Named(_)) = (&field.colon_token, &field.member) {
            field.colon_token = Some(Default::default());
        }
        visit_mut::visit_field_value_mut(self, field);
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        match Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone()) {
            Ok(mut elements) if mac.path.is_ident("vec") => {
                elements.iter_mut().for_each(|e| self.visit_expr_mut(e));
                mac.tokens = quote::quote!(#elements);
            }
            _ => self.tokens(mac.tokens.clone()),
        }
    }

    fn visit_pat_mut(&mut self, _: &mut Pat) {}

    fn visit_type_mut(&mut self, _: &mut syn::Type) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

fn assigns(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}

/// True for `<`, `>`, `<=`, `>=`, `==` and `!=`.
pub(crate) fn compares(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(op, Lt(_) | Gt(_) | Le(_) | Ge(_) | Eq(_) | Ne(_))
}
