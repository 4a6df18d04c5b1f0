/// @file
/// A source of a flowgraph: the samples of a topic.
#ifndef STRIPLINE_GR_SOURCE_HPP
#define STRIPLINE_GR_SOURCE_HPP

#include "api.hpp"

#include <gnuradio/sync_block.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stripline::gr {

/// A block that receives the packets of a topic. The end of the stream ends the flowgraph. What
/// is lost is a tag `gap` at the item before which it is missing.
class STRIPLINE_GR_API source : virtual public ::gr::sync_block {
public:
    using sptr = std::shared_ptr<source>;

    /// Makes a source. `type` is `byte`, `short`, `int`, `float`, `complex`, `sc8`, `sc16`, or a
    /// built-in type of Stripline as `u32`.
    ///
    /// Throws std::invalid_argument for a type, topic or option with a mistake, and
    /// std::runtime_error for an error of the system. Blocks until the publishers that are there
    /// have answered, or for a few seconds.
    static sptr make(const std::string &type, const std::string &topic, const options &with = options());

    /// Packets and samples that were lost so far, as far as they can be counted. From any thread.
    virtual std::uint64_t lost_packets() const = 0;
    virtual std::uint64_t lost_samples() const = 0;

    /// Publishers that were refused, with the reason: their samples have another type, for example.
    virtual std::vector<std::string> refused() const = 0;

    /// Why the block has ended the flowgraph before the end of the stream; empty: it has not.
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
