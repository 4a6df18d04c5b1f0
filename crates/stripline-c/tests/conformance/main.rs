//! The link contract between programs in C, C++, Python and Rust, in every combination.
//!
//! Each rule runs for every pair of languages over each transport. Over `inproc`, it runs for each
//! language with both ends in one process. `bindings/conformance/README.md` describes the commands
//! of the ends. The ends in C++ and Python run if `STRIPLINE_END_CPP` and `STRIPLINE_END_PYTHON`
//! name their programs, as `bindings/conformance/check` does.

#![allow(clippy::unwrap_used, reason = "a panic is the failure of the test")]

mod batches;
#[allow(dead_code, reason = "installs the library, and builds more kinds of programs")]
#[path = "../programs/build.rs"]
mod build;
mod calls;
mod end;
mod ends;
mod failures;
mod handlers;
mod holding;
mod killed;
mod languages;
#[allow(dead_code, reason = "of the tool that kills in one language")]
#[path = "../../../stripline-torture/src/leftovers.rs"]
mod leftovers;
#[path = "../../../stripline-conformance/src/message_queue_turn.rs"]
mod message_queue_turn;
mod messages;
mod model;
mod overflow;
mod pair;
mod payload;
mod scopes;
mod streams;
mod support;
#[allow(dead_code, reason = "stops and continues processes, too")]
#[path = "../../../stripline-conformance/src/test_process.rs"]
mod test_process;
mod waits;
mod windows;

/// Generates one test for each rule: for the rules that also run within one process, and for the
/// others.
macro_rules! rules_of {
    ($transport:ident, $($file:ident: [$($rule:ident),* $(,)?])*) => {
        mod $transport {
            $($(
                #[test]
                fn $rule() {
                    crate::pair::run(stringify!($transport), crate::$file::$rule);
                }
            )*)*
        }
    };
    ($($transport:ident),*) => {$(
        rules_of! { $transport,
            streams: [
                packets_arrive_in_order_and_complete,
                every_type_of_samples_travels,
                stamps_and_descriptions_are_whole,
                a_sender_without_receivers_goes_on,
                topics_do_not_mix,
                a_sender_reaches_receivers_in_all_languages,
                senders_in_all_languages_reach_a_receiver,
            ]
            overflow: [
                a_full_receiver_holds_its_sender_up,
                drop_oldest_keeps_the_newest,
                drop_newest_keeps_the_oldest,
                eject_ends_the_connection,
            ]
            scopes: [
                none_delivers_everything,
                server_returns_when_the_packet_is_in_the_queue,
                target_returns_when_the_packet_is_finished,
                a_refused_packet_is_an_error_of_its_sender,
                a_deadline_passes_and_the_packet_arrives,
                a_killed_receiver_ends_the_wait,
            ]
            ends: [
                an_abandoned_stream_resumes_with_a_gap,
                a_killed_sender_loses_nothing_and_resumes,
                a_loan_of_a_killed_sender_is_not_sent,
                a_killed_receiver_frees_its_sender,
                a_receiver_that_leaves_is_not_waited_for,
            ]
            holding: [
                held_packets_are_released_in_any_order,
                too_many_held_are_refused_and_nothing_is_lost,
                held_packets_outlive_a_killed_sender,
            ]
            windows: [windows_with_a_hop_cross_packets]
            messages: [
                messages_of_every_kind_travel,
                what_is_no_message_is_refused_by_those_that_read_it,
                schemas_are_compared,
                a_message_is_checked_by_its_sender,
            ]
            handlers: [
                a_handler_gets_every_packet_until_the_end,
                a_failing_handler_fails_its_sender_and_loses_nothing,
            ]
            batches: [
                packets_sent_together_arrive_one_by_one,
                a_drain_takes_what_is_there_in_order,
            ]
            failures: [
                another_type_is_refused_naming_both,
                failures_have_the_same_code,
            ]
            calls: [
                calls_have_replies_errors_and_refusals,
                a_call_without_a_server_or_a_reply_ends_in_time,
                a_handler_that_fails_refuses_its_call_and_the_server_goes_on,
                a_call_of_another_type_is_refused,
                a_server_that_leaves_ends_its_call,
                a_killed_server_ends_its_call,
            ]
            waits: [
                a_wait_for_a_packet_is_interrupted,
                a_wait_for_room_is_interrupted,
                a_wait_for_a_reply_is_interrupted,
            ]
        }
    )*};
}

rules_of! { shm, uds, tcp, udp, mqueue }

/// Generates the rules for ends that are killed: at every step over memory, at one step over
/// sockets.
macro_rules! kills_of {
    ($($name:ident: $transport:literal),*) => {$(
        mod $name {
            #[test]
            fn a_sender_killed_at_every_step() {
                crate::pair::run($transport, crate::killed::a_sender_killed_at_every_step);
            }

            #[test]
            fn a_sender_killed_while_it_waits_for_room() {
                crate::pair::run($transport, crate::killed::a_sender_killed_while_it_waits_for_room);
            }

            #[test]
            fn a_receiver_killed_at_every_step() {
                crate::pair::run($transport, crate::killed::a_receiver_killed_at_every_step);
            }
        }
    )*};
}

kills_of! {
    killed_over_shm: "shm",
    killed_over_uds: "uds",
    killed_over_tcp: "tcp",
    killed_over_udp: "udp",
    killed_over_mqueue: "mqueue"
}

rules_of! { inproc,
    streams: [
        packets_arrive_in_order_and_complete,
        every_type_of_samples_travels,
        stamps_and_descriptions_are_whole,
        a_sender_without_receivers_goes_on,
        topics_do_not_mix,
    ]
    overflow: [
        a_full_receiver_holds_its_sender_up,
        drop_oldest_keeps_the_newest,
        drop_newest_keeps_the_oldest,
        eject_ends_the_connection,
    ]
    scopes: [
        none_delivers_everything,
        server_returns_when_the_packet_is_in_the_queue,
        a_deadline_passes_and_the_packet_arrives,
    ]
    ends: [
        an_abandoned_stream_resumes_with_a_gap,
        a_receiver_that_leaves_is_not_waited_for,
    ]
    holding: [
        held_packets_are_released_in_any_order,
        too_many_held_are_refused_and_nothing_is_lost,
    ]
    windows: [windows_with_a_hop_cross_packets]
    messages: [
        messages_of_every_kind_travel,
        what_is_no_message_is_refused_by_those_that_read_it,
        schemas_are_compared,
        a_message_is_checked_by_its_sender,
    ]
    batches: [
        packets_sent_together_arrive_one_by_one,
        a_drain_takes_what_is_there_in_order,
    ]
    failures: [
        another_type_is_refused_naming_both,
        failures_have_the_same_code,
    ]
    waits: [
        a_wait_for_a_packet_is_interrupted,
        a_wait_for_room_is_interrupted,
    ]
}

/// Executes commands as the end in Rust, if this binary is started for that.
#[test]
fn child_entry() {
    if std::env::var_os(languages::IS_END).is_some() {
        end::run();
    }
}
