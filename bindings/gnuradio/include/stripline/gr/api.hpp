/// @file
/// What the blocks for GNU Radio have in common: their options, and which symbols are public.
#ifndef STRIPLINE_GR_API_HPP
#define STRIPLINE_GR_API_HPP

#include <gnuradio/attributes.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

/// The ports of a component, as the C functions have them.
struct stripline_ports;

#ifdef gnuradio_stripline_EXPORTS
#define STRIPLINE_GR_API __GR_ATTR_EXPORT
#else
#define STRIPLINE_GR_API __GR_ATTR_IMPORT
#endif

namespace stripline::gr {

/// Options that all blocks have in common.
struct STRIPLINE_GR_API topic_options {
    /// Options of the topic, as keys of a topics file: `overflow = "block", depth = 8`, or one a
    /// line. Empty: those of the environment.
    std::string policy;
    /// The domain. Empty: that of the environment.
    std::string domain;
    /// The topic is the name of a port. The flowgraph is a component: its waveform connects the
    /// port, and has the options of the connection. attach() joins the block to it.
    bool is_port = false;
};

/// Options that a source and a sink have in common.
struct STRIPLINE_GR_API options : topic_options {
    /// Samples of an item: more than 1 for a port of vectors.
    std::size_t vlen = 1;
};

/// Options of a source.
struct STRIPLINE_GR_API source_options : options {
    /// How long it polls for a packet before it sleeps, in microseconds. That takes a processor
    /// meanwhile, and saves the time that the kernel takes to wake the block.
    std::uint32_t spin_us = 0;
};

/// Options of a sink.
struct STRIPLINE_GR_API sink_options : options {
    /// How many receivers the first packet waits for.
    std::size_t receivers = 0;
    /// The most items of a packet. 0: as many as GNU Radio passes on at once.
    std::size_t packet_items = 0;
    /// The name of the stream. Empty: the topic.
    std::string stream;
    /// Samples a second, until a tag `rx_rate` gives another number. Not set: unknown.
    std::optional<double> sample_rate_hz;
    /// The frequency that 0 Hz of the samples corresponds to, until a tag `rx_freq` gives another.
    std::optional<double> center_frequency_hz;
};

/// Options that a source and a sink of messages have in common.
struct STRIPLINE_GR_API message_options : topic_options {
    /// The type of the messages, as `message/tune{hz:f64}`. Empty: `message/cbor`, for any.
    std::string type;
};

/// Options of a source of messages.
struct STRIPLINE_GR_API message_source_options : message_options {
    /// The type of the uniform vectors that arrays of numbers become, as that of a source's samples.
    /// Empty: they become vectors of single values.
    std::string vectors;
    /// A map of one entry becomes a pair, and not a dictionary.
    bool pairs = false;
};

/// Options of a sink of messages.
struct STRIPLINE_GR_API message_sink_options : message_options {
    /// How many receivers the first message waits for.
    std::size_t receivers = 0;
};

}  // namespace stripline::gr

#endif
