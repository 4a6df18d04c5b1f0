//! The layouts of the structures in Rust.

use std::mem::offset_of;

use stripline_c::{
    Axis, AxisView, CallOptions, ClientOptions, ComponentFunctions, ConnectionReport, NodeOptions,
    OperationType, PacketInfo, Port, Property, SampleType, SendOptions, Served, ServerCounts, ServerOptions,
    StreamDescription, StreamView, SubscriberOptions, TestOutcome, Text, WaitEvent,
};

/// A structure with its size and alignment, and the offset of each member.
pub struct LayoutOf {
    pub name: &'static str,
    pub size: usize,
    pub align: usize,
    pub members: Vec<(&'static str, usize)>,
}

macro_rules! layouts {
    ($($type:ident { $($member:ident),* })*) => {
        vec![$(LayoutOf {
            name: stringify!($type),
            size: size_of::<$type>(),
            align: align_of::<$type>(),
            members: vec![$((stringify!($member), offset_of!($type, $member))),*],
        }),*]
    };
}

/// Returns the layout of every structure in the header.
pub fn all() -> Vec<LayoutOf> {
    layouts! {
        Text { data, length }
        NodeOptions { size, domain, topics, isolated }
        ConnectionReport {
            size, connection, packets, bytes, lost, lost_samples, gaps, reordered, peer_deaths,
            age_samples, age_last_ns, age_max_ns, age_error_ns, age_clock
        }
        SampleType { size, name, sample_size, sample_align }
        Axis { start, step, unit }
        AxisView { size, start, step, unit }
        StreamDescription {
            size, set, id, sample_rate_hz, center_frequency_hz, row_length, more, frame_rows, axis_count, axes,
            clock_reference, clock_error_ns
        }
        StreamView {
            size, set, id, sample_rate_hz, center_frequency_hz, row_length, frame_rows, axis_count,
            clock_reference, clock_error_ns
        }
        PacketInfo {
            size, sequence, sample_index, time_ns, intended_ns, sent_ns, gap_reason, gap_first, gap_packets,
            gap_samples
        }
        SubscriberOptions { size, hold, windowed, resequence_window, resequence_skip_after_ms }
        Served { subscriber, handler, context }
        OperationType { size, name, request, reply, error }
        ClientOptions { size, deadline_ns, outstanding, buffer }
        CallOptions { size, deadline_ns, has_key, key }
        ServerOptions { size, transport, name, buffer, clients, waiting }
        ServerCounts { size, calls, refused, cancelled, evicted, replies_dropped, clients }
        ComponentFunctions { size, context, create, run, handle, change, test, validate, destroy }
        Port { size, name, direction, optional, many_writers, types, same_as, type_property, summary }
        Property {
            size, name, kind, access, required, has_range, float_default, float_min, float_max, integer_default,
            integer_min, integer_max, text_default, choices, unit, summary
        }
        TestOutcome { size, passed, has_value, value, text }
        WaitEvent { key, ready }
        SendOptions { size, set, sample_index, time_ns, intended_ns, scope, deadline_ns }
    }
}
