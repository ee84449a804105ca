//! Which parameters of a function are inputs of its graph.

use proc_macro2::Span;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, GenericArgument, Ident, Pat, PatType, PathArguments, Signature, Type};

/// The engine's longest tuple.
const MOST: usize = 12;

/// The parameters that hold tensors.
#[derive(Default)]
pub(crate) struct Inputs {
    /// What the function hands to the graph.
    pub(crate) given: Vec<TokenStream>,
    /// What the body's closure calls it.
    pub(crate) taken: Vec<TokenStream>,
    /// Makes references again of what was passed by reference.
    pub(crate) borrow: TokenStream,
}

/// Finds the inputs, and gives each a plain name in the signature; the user's pattern moves into the body.
pub(crate) fn split(signature: &mut Signature) -> syn::Result<Inputs> {
    let mut inputs = Inputs::default();
    for (position, argument) in signature.inputs.iter_mut().enumerate() {
        let FnArg::Typed(argument) = argument else {
            continue;
        };
        match &*argument.ty {
            Type::Reference(reference) if holds_tensors(&reference.elem) => {
                if reference.mutability.is_some() {
                    let problem =
                        "a graph cannot change a tensor of its caller; take it by value and return it";
                    return Err(syn::Error::new(argument.ty.span(), problem));
                }
                let ty = syn::TypeReference {
                    lifetime: None,
                    ..reference.clone()
                };
                let pattern = argument.pat.clone();
                let name = rename(argument, position);
                let owned = format_ident!("owned_{position}", span = Span::mixed_site());
                inputs
                    .given
                    .push(quote_spanned!(name.span()=> ::std::borrow::ToOwned::to_owned(#name)));
                inputs.taken.push(owned.to_token_stream());
                inputs.borrow.extend(quote!(let #pattern: #ty = &#owned;));
            }
            ty if holds_tensors(ty) => {
                inputs.taken.push(argument.pat.to_token_stream());
                inputs.given.push(rename(argument, position).to_token_stream());
            }
            _ => {}
        }
    }
    if inputs.given.len() > MOST {
        let problem = format!(
            "a graph function takes at most {MOST} tensors; put some of them into a tuple or a `Vec`"
        );
        return Err(syn::Error::new(signature.inputs.span(), problem));
    }
    Ok(inputs)
}

fn rename(argument: &mut PatType, position: usize) -> Ident {
    let name = match &*argument.pat {
        Pat::Ident(pattern) if pattern.subpat.is_none() => pattern.ident.clone(),
        other => format_ident!(
            "argument_{position}",
            span = Span::mixed_site().located_at(other.span())
        ),
    };
    *argument.pat = syn::parse_quote!(#name);
    name
}

/// True for `Tensor`, and for vectors, options, arrays, slices and tuples of it.
fn holds_tensors(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if last.ident == "Tensor" => true,
            Some(last) if last.ident == "Vec" || last.ident == "Option" => match &last.arguments {
                PathArguments::AngleBracketed(list) => list
                    .args
                    .iter()
                    .all(|a| matches!(a, GenericArgument::Type(ty) if holds_tensors(ty))),
                _ => false,
            },
            _ => false,
        },
        Type::Array(array) => holds_tensors(&array.elem),
        Type::Slice(slice) => holds_tensors(&slice.elem),
        Type::Tuple(tuple) => !tuple.elems.is_empty() && tuple.elems.iter().all(holds_tensors),
        Type::Paren(inner) => holds_tensors(&inner.elem),
        Type::Group(inner) => holds_tensors(&inner.elem),
        _ => false,
    }
}
