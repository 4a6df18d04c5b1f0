/// @file
/// A source of messages of a flowgraph. It receives them from a topic.
#ifndef STRIPLINE_GR_MESSAGE_SOURCE_HPP
#define STRIPLINE_GR_MESSAGE_SOURCE_HPP

#include "link_end.hpp"

#include <gnuradio/block.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stripline::gr {

/// A block that passes the messages of a topic on at the port `out`. A loss is a message at the
/// port `gaps`: a dictionary of `packets` and `reason`. The end of the stream ends the block.
///
/// It takes no further message from the topic while 64 messages wait at a block after it.
class STRIPLINE_GR_API message_source : virtual public ::gr::block, public link_end {
public:
    using sptr = std::shared_ptr<message_source>;

    /// Makes a source of messages. Throws std::invalid_argument for an invalid topic, type or
    /// option, and std::runtime_error for an error of the system. Blocks until the publishers that
    /// are present have answered, or for a few seconds.
    static sptr make(const std::string &topic, const message_source_options &settings = message_source_options());

    /// Returns the number of messages that were passed on, and of messages that were lost, as far
    /// as they can be counted. From any thread, like all functions below.
    virtual std::uint64_t messages() const = 0;
    virtual std::uint64_t lost_messages() const = 0;

    /// Returns the number of messages that a flowgraph cannot represent. They were left out. Their
    /// senders get the reason.
    virtual std::uint64_t refused_messages() const = 0;

    /// Returns the reason for the last of them; empty if no message was left out.
    virtual std::string last_refusal() const = 0;

    /// Returns the refused publishers, with the reasons: for example, their messages have another
    /// schema.
    virtual std::vector<std::string> refused() const = 0;
};

}  // namespace stripline::gr

#endif
