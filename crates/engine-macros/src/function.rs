//! The function around the rewritten body.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ItemFn, ReturnType, Type};

use crate::arguments;
use crate::rewrite;

/// Rewrites a function so that its calls go through `call` of the engine's control module.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream, call: &str) -> TokenStream {
    let mut function: ItemFn = match syn::parse2(item) {
        Ok(function) => function,
        Err(error) => return error.into_compile_error(),
    };
    let body = match check(attribute, &function).and_then(|()| body(&mut function, call)) {
        Ok(body) => body,
        // The signature stays, so that callers do not report a missing function as well.
        Err(error) => error.into_compile_error(),
    };
    *function.block = syn::Block {
        brace_token: function.block.brace_token,
        stmts: vec![],
    };
    function
        .block
        .stmts
        .push(syn::Stmt::Expr(syn::Expr::Verbatim(body), None));
    function.into_token_stream()
}

fn check(attribute: TokenStream, function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    let problem = |span: Span, problem| Err(syn::Error::new(span, problem));
    if !attribute.is_empty() {
        return problem(attribute.span(), "this attribute takes no arguments");
    }
    if let Some(token) = &signature.asyncness {
        return problem(
            token.span,
            "a graph runs to its end at once; make the function not `async`",
        );
    }
    if let Some(token) = &signature.constness {
        return problem(
            token.span,
            "a graph is built at run time; make the function not `const`",
        );
    }
    match &signature.output {
        ReturnType::Type(_, ty) if matches!(**ty, Type::ImplTrait(_)) => problem(
            ty.span(),
            "name the type: `Tensor`, or a tuple, array or `Vec` of tensors",
        ),
        _ => Ok(()),
    }
}

fn body(function: &mut ItemFn, call: &str) -> syn::Result<TokenStream> {
    rewrite::body(&mut function.block)?;
    let arguments::Inputs { given, taken, borrow } = arguments::split(&mut function.sig)?;
    let output = match &function.sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    };
    let span = Span::mixed_site().located_at(function.sig.ident.span());
    let (call, block) = (Ident::new(call, span), &function.block);
    Ok(quote_spanned! {span=>
        ::synod_engine::control::#call::<_, #output>((#(#given,)*), |(#(#taken,)*)| { #borrow #block })
    })
}
