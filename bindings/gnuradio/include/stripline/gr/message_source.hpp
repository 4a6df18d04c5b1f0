/// @file
/// A source of messages of a flowgraph: those of a topic.
#ifndef STRIPLINE_GR_MESSAGE_SOURCE_HPP
#define STRIPLINE_GR_MESSAGE_SOURCE_HPP

#include "link_end.hpp"

#include <gnuradio/block.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stripline::gr {

/// A block that passes the messages of a topic on at its port `out`. What is lost is a message at
/// its port `gaps`: a dictionary of `packets` and `reason`. The end of the stream ends the block.
///
/// It takes no further message from its topic while 64 wait at a block behind it.
class STRIPLINE_GR_API message_source : virtual public ::gr::block, public link_end {
public:
    using sptr = std::shared_ptr<message_source>;

    /// Makes a source of messages. Throws std::invalid_argument for a topic, type or option with a
    /// mistake, and std::runtime_error for an error of the system. Blocks until the publishers that
    /// are there have answered, or for a few seconds.
    static sptr make(const std::string &topic, const message_source_options &with = message_source_options());

    /// Messages that were passed on so far, and that were lost, as far as they can be counted. From
    /// any thread, as are all functions below.
    virtual std::uint64_t messages() const = 0;
    virtual std::uint64_t lost_messages() const = 0;

    /// Messages that have no form in a flowgraph, and were left out. Their senders get the reason.
    virtual std::uint64_t refused_messages() const = 0;

    /// The reason of the last of them; empty: there was none.
    virtual std::string last_refusal() const = 0;

    /// Publishers that were refused, with the reason: their messages have another schema, for
    /// example.
    virtual std::vector<std::string> refused() const = 0;
};

}  // namespace stripline::gr

#endif
