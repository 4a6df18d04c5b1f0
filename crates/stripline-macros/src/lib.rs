//! `#[stripline::service]`: makes a service of two-way calls from a trait. Its documentation is at
//! `stripline::service`, where programs import it.
//!
//! `interface.rs` parses and checks the trait; `expand.rs` generates the code. Both work on tokens
//! alone, so they are tested without a compiler.

mod expand;
mod interface;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is a test failure")]
mod tests;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;

use interface::Interface;

// Documented at its export, `stripline::service`.
#[allow(missing_docs)]
#[proc_macro_attribute]
pub fn service(arguments: TokenStream, item: TokenStream) -> TokenStream {
    service_of(arguments.into(), item.into()).into()
}

/// Returns the trait and the generated code. A trait that cannot be a service is returned with its
/// errors, so that code which names it does not fail as well.
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
