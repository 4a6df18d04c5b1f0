/// @file
/// A source of a flowgraph: the samples of a topic.
#ifndef STRIPLINE_GR_SOURCE_HPP
#define STRIPLINE_GR_SOURCE_HPP

#include "link_end.hpp"

#include <gnuradio/sync_block.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stripline::gr {

/// A block that receives the packets of a topic. The end of the stream ends the flowgraph. What
/// is lost is a tag `gap` at the item before which it is missing.
class STRIPLINE_GR_API source : virtual public ::gr::sync_block, public link_end {
public:
    using sptr = std::shared_ptr<source>;

    /// Makes a source. `type` is `byte`, `short`, `int`, `float`, `complex`, `sc8`, `sc16`, or a
    /// built-in type of Stripline as `u32`.
    ///
    /// Throws std::invalid_argument for a type, topic or option with a mistake, and
    /// std::runtime_error for an error of the system. Blocks until the publishers that are there
    /// have answered, or for a few seconds.
    static sptr make(
        const std::string &type, const std::string &topic, const source_options &with = source_options());

    /// Sets how often all sources that wait check whether a block still reads from them, in
    /// nanoseconds: GNU Radio itself checks that only where a buffer is full. 20 ms until it is set.
    /// A stop does not wait for it.
    static void set_reader_check(std::int64_t interval_ns);

    /// Packets and samples that were lost so far, as far as they can be counted. From any thread.
    virtual std::uint64_t lost_packets() const = 0;
    virtual std::uint64_t lost_samples() const = 0;

    /// Publishers that were refused, with the reason: their samples have another type, for example.
    virtual std::vector<std::string> refused() const = 0;
};

}  // namespace stripline::gr

#endif
