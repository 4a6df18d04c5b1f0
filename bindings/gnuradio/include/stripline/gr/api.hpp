/// @file
/// Shared parts of the blocks for GNU Radio: their options, and the visibility of symbols.
#ifndef STRIPLINE_GR_API_HPP
#define STRIPLINE_GR_API_HPP

#include <gnuradio/attributes.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

/// The ports of a component, in the type of the C functions.
struct stripline_ports;

#ifdef gnuradio_stripline_EXPORTS
#define STRIPLINE_GR_API __GR_ATTR_EXPORT
#else
#define STRIPLINE_GR_API __GR_ATTR_IMPORT
#endif

namespace stripline::gr {

/// Options of all blocks.
struct STRIPLINE_GR_API topic_options {
    /// Options of the topic, as keys of a topics file: `overflow = "block", depth = 8`, or one per
    /// line. Empty: the options of the environment.
    std::string policy;
    /// The domain. Empty: the domain of the environment.
    std::string domain;
    /// The topic is the name of a port. The flowgraph is a component: its waveform connects the
    /// port, and sets the options of the connection. attach() connects the block to the port.
    bool is_port = false;
};

/// Options of both sources and sinks.
struct STRIPLINE_GR_API options : topic_options {
    /// The number of samples in an item: more than 1 for a port of vectors.
    std::size_t vlen = 1;
};

/// Options of a source.
struct STRIPLINE_GR_API source_options : options {
    /// The time that the block polls for a packet before it sleeps, in microseconds. Polling
    /// occupies a processor, and saves the time that the kernel takes to wake the block.
    std::uint32_t spin_us = 0;
};

/// Options of a sink.
struct STRIPLINE_GR_API sink_options : options {
    /// The number of receivers that the first packet waits for.
    std::size_t receivers = 0;
    /// The maximum number of items in a packet. 0: all items that GNU Radio passes on at once.
    std::size_t packet_items = 0;
    /// The name of the stream. Empty: the topic.
    std::string stream;
    /// Samples a second, until a tag `rx_rate` sets another number. Not set: unknown.
    std::optional<double> sample_rate_hz;
    /// The frequency that 0 Hz of the samples corresponds to, until a tag `rx_freq` sets another.
    std::optional<double> center_frequency_hz;
};

/// Options of both sources and sinks of messages.
struct STRIPLINE_GR_API message_options : topic_options {
    /// The type of the messages, such as `message/tune{hz:f64}`. Empty: `message/cbor`, for any
    /// message.
    std::string type;
};

/// Options of a source of messages.
struct STRIPLINE_GR_API message_source_options : message_options {
    /// The type of the uniform vectors for arrays of numbers, named like the type of a source's
    /// samples. Empty: arrays become vectors of single values.
    std::string vectors;
    /// Whether a map of one entry becomes a pair instead of a dictionary.
    bool pairs = false;
};

/// Options of a sink of messages.
struct STRIPLINE_GR_API message_sink_options : message_options {
    /// The number of receivers that the first message waits for.
    std::size_t receivers = 0;
};

}  // namespace stripline::gr

#endif
