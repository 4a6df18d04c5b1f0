//! `#[stripline::service]`: a trait becomes a service of two-way calls. Its documentation is that of `stripline::service`,
//! which is how programs use it.
//!
//! `interface.rs` has the trait, checked; `expand.rs` writes what follows from it. Both work on tokens
//! alone and so are tested without a compiler.

mod expand;
mod interface;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what cannot be in a test is a failure of the test")]
mod tests;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;

use interface::Interface;

// Documented where it is exported from: `stripline::service`.
#[allow(missing_docs)]
#[proc_macro_attribute]
pub fn service(arguments: TokenStream, item: TokenStream) -> TokenStream {
    service_of(arguments.into(), item.into()).into()
}

/// The trait and what follows from it. If it cannot be a service: the trait, lest whatever names it fail too, and what is
/// wrong with it.
fn service_of(arguments: Tokens, item: Tokens) -> Tokens {
    match Interface::parse(arguments, item.clone()) {
        Ok(interface) => {
            let service = expand::service(&interface);
            quote!(#item #service)
        }
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#item #error)
        }
    }
}
