//! The rules of links: one file per section, and one test per rule and transport.

/// Makes the tests of the link contract for some transports. The arguments are the function that
/// registers the transports, which may do nothing, and the names of the transports. A test program
/// calls the macro once, at the root of the crate. Further calls, for transports that only some
/// builds have, begin with `further`.
///
/// ```no_run
/// fn register() {
///     // stripline::carrier::register(&[&PIPE], &[]);
/// }
///
/// stripline_conformance::link_rules! { crate::register; uds }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! link_rules {
    (further $register:path; $($name:ident),* $(,)?) => {
        $(mod $name {
            $crate::rules_of! { stringify!($name), $register }
        })*
    };
    ($register:path; $($name:ident),* $(,)?) => {
        $crate::link_rules! { further $register; $($name),* }

        /// Does nothing unless it is started as one of the child processes of a rule.
        #[test]
        fn child_entry() {
            $register();
            $crate::puppet::play_if_asked();
        }
    };
}

/// Makes one test per rule. A rule with `apart` runs in a separate process, because it counts the
/// descriptors or threads of the process.
#[doc(hidden)]
#[macro_export]
macro_rules! rules_of {
    ($transport:expr, $register:path) => {
        $crate::rules_of! { $transport, $register;
            order here: [
                order_is_kept,
                every_sample_type_travels,
                a_stream_has_the_order_of_its_samples,
                the_largest_packet_in_one_piece_fits,
                end_of_stream_comes_last_once_and_stays,
                end_of_stream_comes_without_packets,
                end_of_stream_comes_from_a_dropped_publisher,
                an_unsent_loan_takes_no_number,
                stamps_travel,
                stream_metadata_comes_with_its_packet,
                metadata_of_small_packets_arrives,
                a_late_joiner_gets_the_current_stream,
                a_joiner_gets_the_stream_while_the_sender_is_blocked,
                forwarded_packets_keep_stream_and_stamps,
                messages_round_trip,
                a_message_of_another_type_is_a_decode_error,
            ]
            by_value here: [
                a_type_by_value_meets_the_rust_type,
                large_packets_of_a_type_by_value_travel_whole,
                gaps_of_a_type_by_value_count_its_samples,
                every_way_to_receive_takes_a_type_by_value,
                a_packet_by_value_is_forwarded_as_it_came,
                another_layout_by_value_is_refused_naming_both,
                bytes_that_are_no_whole_samples_go_nowhere,
                samples_of_a_type_by_value_are_aligned,
            ]
            large here: [
                large_packets_travel_whole_among_small_ones,
                the_smallest_ring_carries_the_largest_packets,
                messages_may_be_large,
                try_send_refuses_a_packet_that_needs_fragments,
                large_packets_are_forwarded,
                wait_any_waits_for_the_whole_packet,
                every_policy_takes_large_packets,
                a_flood_of_packets_larger_than_the_ring_is_counted_to_the_last,
                none_queues_large_packets_whole,
                a_packet_given_up_is_reported_as_lost,
                a_sender_killed_in_a_packet_leaves_nothing_of_it,
                a_receiver_killed_in_a_packet_misses_it,
            ]
            many here: [
                many_keep_the_order,
                many_mix_with_one,
                a_drain_stops_at_its_limit_and_at_the_end,
                a_drain_waits_for_the_first_only,
                a_drain_takes_from_every_connection,
                a_drain_frees_a_blocked_sender,
                a_sender_killed_during_a_drain_loses_nothing,
                a_stop_ends_a_drain_behind_its_packet,
                a_panic_in_a_drain_finishes_its_packet,
                packets_leave_together_where_each_takes_a_system_call,
                a_panic_while_writing_keeps_what_was_sent,
                scopes_hold_for_each_of_many,
                a_drain_may_refuse_a_packet,
                many_may_be_larger_than_the_buffer,
                many_wait_for_room_no_longer_than_a_send,
                losses_add_up_over_many,
                an_error_behind_a_drain_is_kept,
                a_resequenced_port_is_drained,
                many_go_to_every_receiver,
                a_receiver_may_come_between_many,
            ]
            ends here: [
                an_abandoned_stream_is_a_death,
                an_end_is_waited_for_no_longer_than_it_may_take,
            ]
            arm_senders here: [
                a_sender_in_a_loop_sends_every_packet,
                what_ends_a_wait_of_a_sender_ends_one_in_a_loop,
                receivers_that_come_wake_a_sender_in_a_loop,
                a_wait_set_waits_for_ports_and_descriptors,
                a_wait_set_waits_for_calls,
                a_wait_set_survives_what_is_done_to_it,
            ]
            arm here: [
                a_loop_of_its_own_gets_every_packet_and_the_end,
                what_ends_a_wait_ends_one_in_a_loop,
                a_sender_in_place_of_a_dead_one_wakes_a_loop,
                windows_come_in_a_loop_of_its_own,
            ]
            wakes here: [
                a_wake_ends_one_wait_of_a_receiver,
                a_wake_ends_a_wait_that_never_sleeps,
                a_wake_ends_the_loop_of_a_busy_receiver,
                a_wake_ends_every_way_to_receive,
                a_wake_keeps_the_samples_of_a_window,
                a_wake_ends_a_wait_for_room,
                a_wake_before_a_send_sends_nothing,
                a_wake_ends_a_wait_for_acks,
                a_wake_between_fragments_keeps_the_packet_whole,
                an_interrupted_packet_is_completed_by_the_end,
                a_wake_ends_waits_for_receivers_and_the_end,
                wakes_at_any_moment_lose_nothing,
            ]
            hold here: [
                held_packets_keep_their_samples,
                too_many_held_are_named_and_nothing_is_lost,
                holding_never_stalls_a_sender,
                held_packets_outlive_their_subscriber,
                held_packets_outlive_a_killed_sender,
                asking_for_the_next_finishes_the_one_before,
                dropping_receivers_hold_packets,
                a_holding_port_is_waited_for,
            ]
            scope here: [
                none_returns_while_the_receiver_does_not_read,
                none_delivers_everything,
                none_describes_streams_to_late_joiners,
                none_lets_go_of_a_receiver_that_does_not_read,
                transport_returns_while_the_receiver_does_not_read,
            ]
            scope_answered here: [
                server_returns_when_the_packet_is_in_the_queue,
                server_waits_for_every_policy_that_takes_the_packet,
                target_returns_when_the_packet_is_dropped,
                target_waits_for_every_receiver,
                target_waits_for_handlers,
                target_takes_large_packets,
                a_send_may_choose_its_scope,
                a_stronger_scope_than_the_connections,
                a_deadline_names_the_connection_and_the_packet_arrives,
                a_component_may_refuse_a_packet,
                a_handler_error_is_reported_to_the_sender,
                a_large_packet_that_overtakes_its_receiver_is_refused,
                a_message_may_have_its_own_scope_and_deadline,
                a_handler_may_refuse_a_packet_and_go_on,
                a_packet_dropped_by_policy_is_reported_to_the_sender,
                a_late_packet_dropped_by_policy_is_not_taken_for_the_newest,
                a_send_without_receivers_does_not_wait,
                the_end_comes_after_late_acks,
                a_receiver_that_forges_acks_is_cut_off_and_named,
            ]
            scope_deserted here: [
                a_receiver_that_leaves_ends_the_wait,
                a_killed_receiver_ends_the_wait_and_the_others_count,
                a_stopped_receiver_is_past_its_deadline_not_dead,
                stop_ends_the_wait,
            ]
            dispatch here: [
                queue_and_direct_run_on_the_receiving_thread_in_order,
                a_pool_hands_on_as_it_finishes_and_loses_nothing,
                a_pool_in_order_hands_on_in_order,
                a_busy_pool_leaves_the_rest_in_the_queue,
                packets_of_a_pool_stay_valid_when_the_sender_goes_on,
                the_end_comes_after_the_last_handler,
                a_panicking_handler_is_named_and_the_others_finish,
                a_failing_handler_is_named_and_the_rest_stays,
                a_failure_wakes_a_pool_that_waits_for_packets,
                stop_ends_every_dispatch,
                single_thread_serves_every_port,
                single_thread_ends_with_the_last_port_or_the_first_failure,
                messages_are_served,
            ]
            resequence here: [
                a_pool_forwards_out_of_order_and_says_so,
                resequencing_gives_back_the_order,
                resequencing_in_order_changes_nothing,
                a_missing_packet_is_skipped_and_reported,
                a_full_window_is_no_error_after_the_time,
                a_window_that_overflows_is_named,
                two_packets_of_a_number_are_named,
                the_end_of_stream_waits_for_nothing,
                a_late_joiner_begins_where_it_came,
                a_new_sender_counts_anew,
                turns_pass_through_further_stages,
                several_senders_are_put_in_sequence_each,
                messages_are_put_in_sequence,
                losses_at_the_end_are_counted_once,
                losses_of_the_link_are_counted_once,
                no_loss_is_silent,
                resequenced_packets_are_served,
                serving_wakes_to_skip,
                packets_of_a_killed_stage_come_before_its_successors,
            ]
            resequence apart: [
                what_has_arrived_is_not_given_up,
            ]
            resequence_ports here: [
                wait_any_waits_for_the_packet_in_turn,
                wait_any_wakes_to_skip,
                windows_are_cut_from_packets_in_sequence,
                a_topics_file_enables_resequencing,
            ]
            overflow here: [
                block_loses_nothing,
                try_send_reports_full_and_names_the_connection,
                try_send_is_all_or_nothing,
                a_blocked_sender_resumes,
                depth_one_lets_one_packet_wait,
                a_slow_lossy_receiver_does_not_slow_its_sibling,
            ]
            flow here: [
                a_sender_refused_as_full_resumes_at_the_low_watermark,
                a_sleeping_sender_resumes_at_the_low_watermark,
                every_flow_delivers_everything_in_order,
                try_send_is_all_or_nothing_under_every_flow,
                a_stop_that_never_resumes_names_the_receiver_and_the_time,
                a_request_to_stop_ends_the_wait_under_every_flow,
                a_killed_receiver_ends_the_wait_at_once,
                packets_in_transit_at_the_end_arrive,
                a_receiver_with_invalid_flow_control_is_cut_off_and_named,
                a_sender_that_overruns_its_credit_is_cut_off_and_named,
                a_low_watermark_of_one_receiver_does_not_hold_its_sibling,
            ]
            overflow_lossy apart: [
                drop_oldest_keeps_the_newest,
                drop_newest_keeps_the_oldest,
                eject_notifies_the_receiver_and_harms_no_other,
                a_flood_of_large_packets_is_counted_to_the_last,
                wait_any_does_not_swallow_an_ejection,
            ]
            topology here: [
                one_to_many,
                many_to_one,
                many_to_many,
                a_late_joiner_starts_at_the_current_packet,
                ends_of_a_node_are_connected_when_they_are_made,
                receive_timeout_and_try_receive_report_their_outcome,
                wait_any_names_those_that_are_ready,
                wait_any_ends_with_its_time,
                wait_any_wakes_at_the_end_of_stream,
                wait_any_wakes_for_a_packet_sent_later,
                wait_any_is_not_fooled_by_one_end_of_two,
                stop_wakes_everything_that_blocks,
            ]
            peers here: [
                a_killed_sender_loses_nothing_that_was_sent,
                a_killed_sender_is_detected_by_a_waiting_receiver,
                a_killed_receiver_frees_a_blocked_sender,
                a_stopped_receiver_is_late_not_dead,
                a_stopped_sender_is_late_not_dead,
                a_stopped_lossy_receiver_does_not_slow_its_sibling,
                a_stopped_receiver_of_three_is_waited_for_until_its_death,
                links_outlive_the_host_of_the_rendezvous,
                nothing_is_left_behind,
            ]
            peers_restart here: [
                a_restarted_sender_comes_back_with_a_gap,
                a_sender_restarted_before_its_last_packets_are_read_comes_after_them,
                a_stream_that_follows_an_ended_one_begins_without_a_gap,
                the_end_comes_after_a_restarted_sender_finishes,
                a_restarted_receiver_gets_a_gap,
                a_receiver_restarted_before_its_death_is_detected_gets_a_gap,
                a_restarted_receiver_that_was_up_to_date_gets_a_gap,
                a_receiver_killed_before_the_first_packet_has_a_successor_with_a_gap,
                an_unread_gap_passes_to_the_successor_of_a_receiver,
                a_successors_gap_counts_its_samples,
                a_successors_gap_counts_messages,
                a_gap_across_two_streams_has_an_unknown_number_of_samples,
                a_receiver_that_left_has_no_successor,
                a_receiver_that_left_before_it_received_has_no_successor,
            ]
            peers_restart apart: [
                no_descriptor_or_thread_is_left_behind,
            ]
            trust here: [
                another_payload_type_is_refused_naming_both,
                another_layout_of_one_name_is_refused_naming_both,
                another_schema_of_a_message_is_refused_naming_both,
                a_refused_connection_is_listed_for_as_long_as_it_is_offered,
                a_refusal_is_an_error_where_the_topic_wants_it,
                garbage_at_the_rendezvous_disturbs_no_node,
            ]
            builds here: [
                a_type_without_a_layout_needs_one_build_or_an_allowance,
            ]
            trust_network here: [
                garbage_at_an_endpoint_disturbs_no_connection,
                an_oversized_handshake_disturbs_no_connection,
                a_silent_peer_disturbs_no_connection,
                a_receiver_with_a_late_hello_connects_again,
                a_wrong_key_is_refused,
                a_sender_with_invalid_frames_is_cut_off_and_named,
                a_sender_with_an_invalid_welcome_disturbs_no_receiver,
            ]
            trust_datagrams here: [
                a_sender_with_invalid_datagrams_is_cut_off_and_named,
                a_receiver_with_invalid_records_is_cut_off_and_named,
            ]
            trust_memory here: [
                forged_descriptors_from_a_sender_are_named,
                descriptors_from_a_receiver_change_nothing,
                a_scribbling_receiver_is_cut_off_and_named,
                forged_acks_in_the_page_are_named,
                a_receiver_that_drains_the_doorbell_blocks_no_other,
                a_receiver_that_fills_the_doorbells_blocks_no_other,
                a_sender_that_scribbles_is_cut_off_and_named,
                silent_peers_by_the_thousand_disturb_no_connection,
            ]
            statistics here: [
                packets_and_bytes_are_exact,
                losses_add_up,
                every_connection_is_counted_by_itself,
                connections_that_have_ended_are_summed_up,
                packets_with_a_time_have_an_age,
            ]
            windows here: [
                any_windows_match_the_model,
                windows_begin_anew_behind_a_gap,
                windows_keep_unconsumed_samples,
            ]
            forgotten here: [
                a_forgotten_packet_is_over_when_the_next_is_asked_for,
                forgotten_packets_of_two_senders_are_over,
                a_forgotten_packet_is_acknowledged_when_the_next_is_asked_for,
                a_forgotten_packet_keeps_the_sequence,
                a_forgotten_packet_does_not_wake,
                forgotten_held_packets_stay_in_use,
                a_forgotten_window_is_given_again,
                a_forgotten_loan_sends_nothing,
            ]
            matrix here: [
                every_combination_keeps_the_contract,
                an_unsupported_rule_is_refused_with_reasons,
            ]
            model here: [
                any_sequence_of_operations_matches_the_model,
            ]
        }
    };
    ($transport:expr, $register:path; $($section:ident $place:ident: [$($rule:ident,)*])*) => {
        $($(
            #[test]
            fn $rule() {
                $register();
                let place = $crate::rules_of!(@$place);
                $crate::support::run($transport, stringify!($rule), place, $crate::$section::$rule);
            }
        )*)*
    };
    (@here) => { $crate::support::Place::Here };
    (@apart) => { $crate::support::Place::Apart };
}
