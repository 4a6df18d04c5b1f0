/// @file
/// A block that sends the messages of a flowgraph on a topic.
#ifndef STRIPLINE_GR_MESSAGE_SINK_HPP
#define STRIPLINE_GR_MESSAGE_SINK_HPP

#include "link_end.hpp"

#include <gnuradio/block.h>

#include <cstdint>
#include <memory>
#include <string>

namespace stripline::gr {

/// A block that sends the messages of the port `in` on a topic. The end of the flowgraph is the end
/// of the stream.
class STRIPLINE_GR_API message_sink : virtual public ::gr::block, public link_end {
public:
    using sptr = std::shared_ptr<message_sink>;

    /// Makes a sink of messages. Throws std::invalid_argument for an invalid topic, type or option,
    /// and std::runtime_error for an error of the system.
    static sptr make(const std::string &topic, const message_sink_options &settings = message_sink_options());

    /// Makes the next stop() abandon the stream, so that receivers detect that the stream is not
    /// complete. Any thread may call this function, and all functions below.
    virtual void abandon() = 0;

    /// Returns the number of receivers that were connected when the last message was sent.
    virtual std::size_t receivers() const = 0;

    /// Returns the number of messages that were sent.
    virtual std::uint64_t messages() const = 0;

    /// Returns the number of messages that the block refused, because Stripline cannot represent
    /// them.
    virtual std::uint64_t refused_messages() const = 0;

    /// Returns the reason for the last refusal, with the path to the value, or an empty text if no
    /// message was refused.
    virtual std::string last_refusal() const = 0;
};

}  // namespace stripline::gr

#endif
