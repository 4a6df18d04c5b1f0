/// @file
/// A sink of a flowgraph: its samples, sent on a topic.
#ifndef STRIPLINE_GR_SINK_HPP
#define STRIPLINE_GR_SINK_HPP

#include "link_end.hpp"

#include <gnuradio/sync_block.h>

#include <cstdint>
#include <memory>
#include <string>

namespace stripline::gr {

/// A block that sends what it gets as packets of a topic. The end of the flowgraph is the end of
/// the stream.
class STRIPLINE_GR_API sink : virtual public ::gr::sync_block, public link_end {
public:
    using sptr = std::shared_ptr<sink>;

    /// Makes a sink. `type` is that of source::make.
    ///
    /// Throws std::invalid_argument for a type, topic or option with a mistake, and
    /// std::runtime_error for an error of the system.
    static sptr make(const std::string &type, const std::string &topic, const sink_options &with = sink_options());

    /// Makes the next stop() abandon the stream: receivers then know that it is not complete. From
    /// any thread.
    virtual void abandon() = 0;

    /// The number of receivers that were connected when the last packet was sent. From any thread.
    virtual std::size_t receivers() const = 0;

    /// The number of packets that were sent. From any thread.
    virtual std::uint64_t packets() const = 0;
};

}  // namespace stripline::gr

#endif
