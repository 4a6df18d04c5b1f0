//! The code generated from a service trait: the server side and the client.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::interface::{Argument, Interface, Names, Operation};

/// Generates the service, the client, and the blanket implementations of the trait.
pub(crate) fn service(interface: &Interface) -> TokenStream {
    let parts = [lent(interface), server(interface), client(interface)];
    quote!(#(#parts)*)
}

/// Generates implementations of the trait for references and shared owners, so that a program can
/// serve an object and also keep it.
fn lent(interface: &Interface) -> TokenStream {
    let Interface { ident, supertraits, operations, .. } = interface;
    let owners = [quote!(&'__a __T), quote!(::std::sync::Arc<__T>)];
    let lifetimes = [quote!('__a,), TokenStream::new()];
    let implementations = owners.iter().zip(&lifetimes).map(|(owner, lifetime)| {
        let condition = (!supertraits.is_empty()).then(|| quote!(where #owner: #supertraits));
        let functions = operations.iter().map(|operation| {
            let Operation { ident: function, conditions, reply, error, .. } = operation;
            let output = match error {
                Some(error) => quote!(::core::result::Result<#reply, #error>),
                None => quote!(#reply),
            };
            let parameters = operation.arguments.iter().map(|argument| match argument {
                Argument::Sent(name, of) => quote!(#name: #of),
                Argument::Context => {
                    let context = context();
                    quote!(#context: &::stripline::call::Context<'_>)
                }
            });
            let passed = passed(operation);
            quote! {
                #(#conditions)*
                fn #function(&self #(, #parameters)*) -> #output {
                    <__T as #ident>::#function(&**self #(, #passed)*)
                }
            }
        });
        quote! {
            #[allow(deprecated)]
            impl<#lifetime __T: #ident + ?Sized> #ident for #owner #condition { #(#functions)* }
        }
    });
    quote!(#(#implementations)*)
}

/// Returns the arguments of the operation, as they are passed on to the trait.
fn passed(operation: &Operation) -> impl Iterator<Item = TokenStream> {
    operation.arguments.iter().map(|argument| match argument {
        Argument::Sent(name, _) => quote!(#name),
        Argument::Context => {
            let context = context();
            quote!(#context)
        }
    })
}

/// Returns a name that no argument of the user can have.
fn own(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn context() -> Ident {
    own("context")
}

/// Returns the type of the request, and the request made from the arguments.
fn request(operation: &Operation) -> (TokenStream, TokenStream) {
    let types: Vec<_> = operation.sent().map(|(_, of)| of).collect();
    let names: Vec<_> = operation.sent().map(|(name, _)| name).collect();
    match (&types[..], &names[..]) {
        ([of], [name]) => (quote!(#of), quote!(#name)),
        _ => (quote!((#(#types),*)), quote!((#(#names),*))),
    }
}

/// Returns the place for a compiler error about an operation.
fn place(operation: &Operation) -> Span {
    Span::call_site().located_at(operation.ident.span())
}

fn error_of(operation: &Operation) -> TokenStream {
    operation.error.as_ref().map_or(quote!(::stripline::call::NoError), |error| quote!(#error))
}

/// Returns the documentation of an operation for clients, if there is any.
fn doc(operation: &Operation) -> Option<TokenStream> {
    // Each line is a text, or a macro that yields one: `include_str!`.
    let lines = operation.docs.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(line) => Some(&line.value),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| quote!(.doc(::core::concat!(#(#lines, "\n"),*))))
}

fn server(interface: &Interface) -> TokenStream {
    let Interface { vis, ident, name, operations, .. } = interface;
    let service = format_ident!("{ident}Service");
    let (implementation, made) = (own("implementation"), own("service"));
    let additions = operations.iter().map(|operation| {
        let Operation { ident: function, name, conditions, reply, error, .. } = operation;
        let doc = doc(operation);
        let (request, value) = request(operation);
        let own_error = error_of(operation);
        let context = if operation.wants_context() { context() } else { own("_context") };
        let passed = passed(operation);
        let call = quote!(<__T as #ident>::#function(&#implementation #(, #passed)*));
        let outcome = if error.is_some() { call } else { quote!(::core::result::Result::Ok(#call)) };
        quote_spanned! {place(operation)=>
            #(#conditions)*
            let #made = {
                let #implementation = ::std::sync::Arc::clone(&#implementation);
                ::stripline::call::Service::operation_with::<#request, #reply, #own_error>(
                    #made,
                    #name,
                    move |#value: #request, #context: &::stripline::call::Context<'_>| #outcome,
                )?#doc
            };
        }
    });
    // A type that cannot be sent then causes an error at the user's code.
    let checks = operations.iter().map(|operation| {
        let Operation { conditions, reply, error, .. } = operation;
        let types = operation.sent().map(|(_, of)| of).chain([reply]).chain(error);
        let checks = types.map(|of| quote_spanned!(of.span()=> __can_be_sent::<#of>();));
        quote!(#(#conditions)* { #(#checks)* })
    });
    let docs = format!("The server's side of [`{ident}`]: makes a service from any type with the trait.");
    quote! {
        #[doc = #docs]
        #[allow(dead_code)]
        #vis struct #service;

        #[allow(dead_code, deprecated, clippy::unit_arg, clippy::unused_unit)]
        impl #service {
            /// The name of the service, by which clients find it.
            #vis const NAME: &'static str = #name;

            #[doc = concat!("A service of the name `", #name, "`, for [`Node::service_server`](::stripline::node::Node::service_server).")]
            ///
            /// # Errors
            /// Never fails: the name of the service and the names of the operations are valid.
            #vis fn of<'h, __T: #ident + ::core::marker::Send + ::core::marker::Sync + 'h>(
                implementation: __T,
            ) -> ::stripline::Result<::stripline::call::Service<'h>> {
                Self::named(Self::NAME, implementation)
            }

            /// Creates a service of another name.
            ///
            /// # Errors
            /// The name is invalid.
            #vis fn named<'h, __T: #ident + ::core::marker::Send + ::core::marker::Sync + 'h>(
                name: &str,
                implementation: __T,
            ) -> ::stripline::Result<::stripline::call::Service<'h>> {
                let #implementation = ::std::sync::Arc::new(implementation);
                let #made = ::stripline::call::Service::new(name)?;
                #(#additions)*
                ::core::result::Result::Ok(#made)
            }
        }

        const _: () = {
            #[allow(dead_code)]
            fn __can_be_sent<T: ::stripline::call::Payload>() {}
            #[allow(dead_code, deprecated)]
            fn __check() { #(#checks)* }
        };
    }
}

fn client(interface: &Interface) -> TokenStream {
    let Interface { vis, ident, name, operations, .. } = interface;
    let client = format_ident!("{ident}Client");
    let fields = operations.iter().map(|operation| {
        let (field, conditions, reply) = (operation.names().field, &operation.conditions, &operation.reply);
        let ((request, _), error) = (request(operation), error_of(operation));
        quote!(#(#conditions)* #field: ::stripline::call::Client<#request, #reply, #error>)
    });
    let inits = operations.iter().map(|operation| {
        let (field, conditions, name) = (operation.names().field, &operation.conditions, &operation.name);
        quote_spanned!(place(operation)=> #(#conditions)* #field: client.operation(#name)?)
    });
    let view = format_ident!("{ident}ClientView");
    let [functions, view_functions] = [Caller::Client, Caller::View]
        .map(|caller| operations.iter().map(move |operation| calls(interface, operation, caller)));
    let docs = format!("A client that calls [`{ident}`] at any of its servers, from any number of threads.");
    let connect_docs = format!(
        "Creates a client of every server of that name in the domain, now and later: [`{ident}Service::NAME`], `{name}`, \
         unless they were named otherwise. The call does not wait for a server."
    );
    let view_docs =
        format!("A view of a [`{client}`] that calls with options of its own: [`{client}::with`].");
    quote! {
        #[doc = #docs]
        #[derive(::core::clone::Clone)]
        #[allow(dead_code)]
        #vis struct #client {
            client: ::stripline::call::ServiceClient,
            #(#fields,)*
        }

        #[allow(dead_code)]
        impl #client {
            #[doc = #connect_docs]
            ///
            /// # Errors
            /// The name is invalid, or an option is out of range.
            #vis fn connect(
                node: &::stripline::node::Node,
                service: &str,
                options: ::stripline::call::ClientOptions,
            ) -> ::stripline::Result<Self> {
                let client = node.service_client(service, options)?;
                ::core::result::Result::Ok(Self { #(#inits,)* client })
            }

            /// Returns the underlying client, with its counts and servers.
            #vis fn client(&self) -> &::stripline::call::ServiceClient {
                &self.client
            }

            /// Returns a view of the client that calls with these options.
            #[inline]
            #vis fn with(&self, options: ::stripline::call::CallOptions) -> #view<'_> {
                #view { client: self, options }
            }

            #(#functions)*
        }

        #[doc = #view_docs]
        #[derive(::core::clone::Clone, ::core::marker::Copy)]
        #[allow(dead_code)]
        #vis struct #view<'c> {
            client: &'c #client,
            options: ::stripline::call::CallOptions,
        }

        #[allow(dead_code)]
        impl<'c> #view<'c> {
            #(#view_functions)*
        }
    }
}

/// The generated types that call operations.
#[derive(Clone, Copy, PartialEq)]
enum Caller {
    Client,
    View,
}

/// Generates the functions of a client, or of the view of a client, that call one operation.
fn calls(interface: &Interface, operation: &Operation, caller: Caller) -> TokenStream {
    let vis = &interface.vis;
    let Operation { conditions, docs, reply, .. } = operation;
    let Names { call, start, field } = &operation.names();
    let ((request, value), error) = (request(operation), error_of(operation));
    let parameters: Vec<_> = operation.sent().map(|(name, of)| quote!(#name: #of)).collect();
    let outcome = quote!(::core::result::Result<#reply, ::stripline::call::CallError<#error>>);
    let (handle, lifetime) = match caller {
        Caller::Client => (quote!(self.#field), quote!('_)),
        Caller::View => (quote!(self.client.#field.with(self.options)), quote!('c)),
    };
    let pending = quote_spanned! {place(operation)=>
        ::core::result::Result<
            ::stripline::call::Pending<#lifetime, #request, #reply, #error>,
            ::stripline::call::CallError<#error>,
        >
    };
    let [call_body, start_body] = ["call", "start"].map(|function| {
        let function = format_ident!("{function}");
        quote_spanned!(place(operation)=> #handle.#function(&#value))
    });
    let call_docs = match caller {
        Caller::Client => "Blocks until the reply arrives or the client's deadline passes.",
        Caller::View => "Blocks until the reply arrives or the deadline passes.",
    };
    let start_docs = format!("Calls as [`{call}`](Self::{call}) does, without waiting for the reply.");
    let errors = quote! {
        ///
        /// # Errors
        /// The error of the operation itself, or the failure of the call.
    };
    let allow = quote!(#[allow(clippy::too_many_arguments, clippy::type_complexity)]);
    quote! {
        #(#conditions)*
        #(#docs)*
        ///
        #[doc = #call_docs]
        #errors
        #allow
        #[inline]
        #vis fn #call(&self #(, #parameters)*) -> #outcome {
            #call_body
        }

        #(#conditions)*
        #[doc = #start_docs]
        #errors
        #allow
        #vis fn #start(&self #(, #parameters)*) -> #pending {
            #start_body
        }
    }
}
