/// @file
/// A sink of a flowgraph: its samples, sent on a topic.
#ifndef STRIPLINE_GR_SINK_HPP
#define STRIPLINE_GR_SINK_HPP

#include "api.hpp"

#include <gnuradio/sync_block.h>

#include <cstdint>
#include <memory>
#include <string>

namespace stripline::gr {

/// A block that sends what it gets as packets of a topic. The end of the flowgraph is the end of
/// the stream.
class STRIPLINE_GR_API sink : virtual public ::gr::sync_block {
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

    /// Why the block has ended before the flowgraph; empty: it has not.
    virtual std::string failure() const = 0;

    /// The type of the samples, as `cf32`.
    virtual std::string sample_type() const = 0;

    /// Joins a block whose topic is a port to the ports of its component, on the thread of the
    /// ports and before the flowgraph starts. Throws std::invalid_argument, also for a block of a
    /// topic.
    virtual void attach(stripline_ports *ports) = 0;

    /// Gives the port back, once the flowgraph has ended and before the ports do.
    virtual void detach() = 0;
};

}  // namespace stripline::gr

#endif
