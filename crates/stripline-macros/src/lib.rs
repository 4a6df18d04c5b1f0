//! `#[stripline::service]` makes a service of two-way calls from a trait.
//! `#[derive(stripline::Sample)]` gives a layout to a structure. `#[derive(stripline::Message)]`
//! gives a schema to a structure or an enum. Their documentation is in `stripline`, from which
//! programs import them.
//!
//! `interface.rs` parses and checks the trait; `expand.rs` generates the code. `sample.rs` does
//! both for samples, and `message.rs` for messages. All work only on tokens, so they are tested
//! without a compiler.

mod expand;
mod interface;
mod message;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is a test failure")]
mod message_tests;
mod rename;
mod sample;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is a test failure")]
mod sample_tests;
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

// Documented at its export, `stripline::payload::Sample`.
#[allow(missing_docs)]
#[proc_macro_derive(Sample, attributes(sample))]
pub fn derive_sample(item: TokenStream) -> TokenStream {
    match sample::SampleStruct::parse(item.into()) {
        Ok(sample) => sample.expand().into(),
        Err(error) => error.into_compile_error().into(),
    }
}

// Documented at its export, `stripline::payload::Message`.
#[allow(missing_docs)]
#[proc_macro_derive(Message, attributes(message))]
pub fn derive_message(item: TokenStream) -> TokenStream {
    match message::MessageType::parse(item.into()) {
        Ok(message) => message.expand().into(),
        Err(error) => error.into_compile_error().into(),
    }
}

/// Returns the trait and the generated code. A trait that cannot be a service is returned with the
/// errors, so that code that names the trait does not fail as well.
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
