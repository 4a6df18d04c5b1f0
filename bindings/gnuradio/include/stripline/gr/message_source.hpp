/// @file
/// A block that receives the messages of a topic for a flowgraph.
#ifndef STRIPLINE_GR_MESSAGE_SOURCE_HPP
#define STRIPLINE_GR_MESSAGE_SOURCE_HPP

#include "link_end.hpp"

#include <gnuradio/block.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stripline::gr {

/// A block that passes on the messages of a topic at the port `out`. For each loss, the block sends
/// a message at the port `gaps`: a dictionary with `packets` and `reason`. The end of the stream
/// ends the block.
///
/// While 64 messages wait at a block that is connected to `out`, the source takes no further
/// message from the topic.
class STRIPLINE_GR_API message_source : virtual public ::gr::block, public link_end {
public:
    using sptr = std::shared_ptr<message_source>;

    /// Makes a source of messages. Throws std::invalid_argument for an invalid topic, type or
    /// option, and std::runtime_error for an error of the system. Blocks until the publishers that
    /// are present have answered, at most for a few seconds.
    static sptr make(const std::string &topic, const message_source_options &settings = message_source_options());

    /// Returns the number of messages that were passed on. Any thread may call this function, and
    /// all functions below.
    virtual std::uint64_t messages() const = 0;

    /// Returns the number of lost messages, as far as they can be counted.
    virtual std::uint64_t lost_messages() const = 0;

    /// Returns the number of messages that the block refused, because a flowgraph cannot represent
    /// them. The senders get the reasons.
    virtual std::uint64_t refused_messages() const = 0;

    /// Returns the reason for the last refusal, or an empty text if no message was refused.
    virtual std::string last_refusal() const = 0;

    /// Returns the refused publishers, with the reasons: for example, a publisher's messages have
    /// another schema.
    virtual std::vector<std::string> refused() const = 0;
};

}  // namespace stripline::gr

#endif
