//! Two-way calls, rule by rule, over every transport: one file per theme, one test per rule and transport.

#![allow(clippy::unwrap_used, reason = "what cannot be in a test is a failure of the test")]

mod rules;
mod support;

/// One test per rule and transport.
macro_rules! rules {
    ($($module:ident: [$($rule:ident,)*])*) => {
        rules! { in inproc: $($module: [$($rule,)*])* }
        rules! { in shm: $($module: [$($rule,)*])* }
        rules! { in uds: $($module: [$($rule,)*])* }
        rules! { in tcp: $($module: [$($rule,)*])* }
    };
    (in $transport:ident: $($module:ident: [$($rule:ident,)*])*) => {
        mod $transport {
            $(mod $module {
                $(#[test]
                fn $rule() {
                    crate::$module::$rule(stringify!($transport));
                })*
            })*
        }
    };
}

rules! {
    rules: [
        a_call_returns_its_reply,
        an_error_of_the_operation_is_a_value,
        any_number_may_be_outstanding,
        many_threads_share_a_client,
        large_requests_and_replies_travel,
        a_panic_is_told_and_the_server_goes_on,
    ]
}
