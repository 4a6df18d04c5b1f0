//! Two-way calls, rule by rule, over every transport: one file per theme, one test per rule and
//! transport.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod faults;
#[path = "../common/middleware.rs"]
mod middleware;
mod peers;
mod puppet;
mod raw;
mod ready;
mod rules;
mod support;
mod traits;
mod wakes;

/// Generates one test per rule and transport.
macro_rules! rules {
    ($($module:ident: [$($rule:ident,)*])*) => {
        rules! { in inproc: $($module: [$($rule,)*])* }
        rules! { in shm: $($module: [$($rule,)*])* }
        rules! { in uds: $($module: [$($rule,)*])* }
        rules! { in tcp: $($module: [$($rule,)*])* }
        stripline_middleware::if_zeromq! { rules! { in zeromq: $($module: [$($rule,)*])* } }
        stripline_middleware::if_iceoryx2! { rules! { in iceoryx2: $($module: [$($rule,)*])* } }
        stripline_middleware::if_zenoh! { rules! { in zenoh: $($module: [$($rule,)*])* } }
        stripline_middleware::if_dds! { rules! { in dds: $($module: [$($rule,)*])* } }
        stripline_middleware::if_corba! { rules! { in corba: $($module: [$($rule,)*])* } }
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
        a_handler_panic_is_reported_and_the_server_goes_on,
    ]
    faults: [
        a_deadline_that_passes_is_named_and_the_late_reply_counted,
        a_call_whose_deadline_has_passed_is_not_begun,
        a_call_that_has_begun_is_answered_after_its_server_was_stopped,
        a_cancelled_call_frees_its_place,
        a_call_cancelled_before_its_start_is_not_executed,
        an_overloaded_server_refuses_calls,
        abandoned_calls_never_exhaust_a_client,
        an_operation_that_the_server_lacks_is_named,
        an_undecodable_payload_is_named_on_either_side,
        a_cycle_of_calls_is_an_error_and_no_hang,
        a_pool_may_be_called_by_itself_as_often_as_it_has_threads,
        a_nested_call_has_no_longer_deadline,
        a_handler_of_a_pool_detects_that_its_call_was_cancelled,
        an_undetectable_cycle_ends_at_the_deadline,
        a_client_that_takes_no_replies_does_not_hold_up_others,
        stop_ends_every_wait,
    ]
    wakes: [
        a_wake_ends_the_wait_of_a_server,
        a_wake_ends_a_busy_server,
        a_wake_ends_one_wait_of_a_client,
        a_wake_keeps_a_pending_call,
        each_wake_ends_the_wait_of_one_thread,
    ]
    peers: [
        calls_are_distributed_in_turn_or_by_key,
    ]
    ready: [
        one_thread_serves_and_calls,
        servers_that_come_and_go_are_noticed,
        outcomes_received_by_another_call_are_noticed,
        threads_call_beside_a_loop,
        a_start_without_room_does_not_wait,
        a_server_waits_for_a_call_and_keeps_it,
    ]
    raw: [
        a_reply_may_be_given_later_and_in_any_order,
        each_call_gets_one_answer,
        a_reply_to_a_client_that_has_gone_has_no_effect,
        types_by_value_are_compared_with_rust_types,
        an_owned_call_waits_and_is_cancelled_like_a_borrowed_one,
    ]
    traits: [
        a_trait_is_called_like_a_function,
        errors_of_a_trait_are_its_own,
        several_arguments_and_the_context_come_as_they_are,
        samples_travel_as_plain_memory,
        a_trait_may_be_served_under_another_name,
        any_client_may_call_what_a_trait_offers,
        clients_are_told_what_operations_do,
        who_only_asks_is_told_what_a_server_has_and_takes_no_place,
    ]
}

/// Generates the tests that need several processes.
macro_rules! across_processes {
    ($($rule:ident,)*) => {
        across_processes! { in shm: $($rule,)* }
        across_processes! { in uds: $($rule,)* }
        across_processes! { in tcp: $($rule,)* }
        stripline_middleware::if_zeromq! { across_processes! { in zeromq: $($rule,)* } }
        stripline_middleware::if_iceoryx2! { across_processes! { in iceoryx2: $($rule,)* } }
        stripline_middleware::if_zenoh! { across_processes! { in zenoh: $($rule,)* } }
        stripline_middleware::if_dds! { across_processes! { in dds: $($rule,)* } }
        stripline_middleware::if_corba! { across_processes! { in corba: $($rule,)* } }
    };
    (in $transport:ident: $($rule:ident,)*) => {
        mod $transport {
            $(#[test]
            fn $rule() {
                crate::peers::$rule(stringify!($transport));
            })*
        }
    };
}

mod processes {
    across_processes! {
        a_killed_server_fails_its_calls_and_no_others,
        a_server_that_dies_in_the_middle_of_a_call_ends_it,
        a_stopped_server_is_late_and_not_dead,
        a_call_given_up_while_its_server_was_stopped_is_not_carried_out,
        a_killed_client_leaves_the_server_to_others,
    }
}

/// Does nothing unless it is started as one of the child processes of a rule.
#[test]
fn child_entry() {
    puppet::play_if_asked();
}
