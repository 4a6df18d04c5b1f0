/// @file
/// A block that sends the samples of a flowgraph on a topic.
#ifndef STRIPLINE_GR_SINK_HPP
#define STRIPLINE_GR_SINK_HPP

#include "link_end.hpp"

#include <gnuradio/sync_block.h>

#include <cstdint>
#include <memory>
#include <string>

namespace stripline::gr {

/// A block that sends the input as packets of a topic. The end of the flowgraph is the end of the
/// stream.
class STRIPLINE_GR_API sink : virtual public ::gr::sync_block, public link_end {
public:
    using sptr = std::shared_ptr<sink>;

    /// Makes a sink. `type` is the same as for source::make.
    ///
    /// Throws std::invalid_argument for an invalid type, topic or option, and std::runtime_error
    /// for an error of the system.
    static sptr make(const std::string &type, const std::string &topic, const sink_options &settings = sink_options());

    /// Makes the next stop() abandon the stream, so that receivers detect that the stream is not
    /// complete. Any thread may call this function.
    virtual void abandon() = 0;

    /// Returns the number of receivers that were connected when the last packet was sent. Any
    /// thread may call this function.
    virtual std::size_t receivers() const = 0;

    /// Returns the number of packets that were sent. Any thread may call this function.
    virtual std::uint64_t packets() const = 0;
};

}  // namespace stripline::gr

#endif
