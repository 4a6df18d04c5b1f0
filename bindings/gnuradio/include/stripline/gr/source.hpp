/// @file
/// A block that receives the samples of a topic for a flowgraph.
#ifndef STRIPLINE_GR_SOURCE_HPP
#define STRIPLINE_GR_SOURCE_HPP

#include "link_end.hpp"

#include <gnuradio/sync_block.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stripline::gr {

/// A block that receives the packets of a topic. The end of the stream ends the flowgraph. A loss
/// is a tag `gap` at the item after it.
class STRIPLINE_GR_API source : virtual public ::gr::sync_block, public link_end {
public:
    using sptr = std::shared_ptr<source>;

    /// Makes a source. `type` is `byte`, `short`, `int`, `float`, `complex`, `sc8`, `sc16`, or a
    /// built-in type of Stripline such as `u32`.
    ///
    /// Throws std::invalid_argument for an invalid type, topic or option, and std::runtime_error
    /// for an error of the system. Blocks until the publishers that are present have answered, or
    /// for a few seconds.
    static sptr make(
        const std::string &type, const std::string &topic, const source_options &settings = source_options());

    /// Sets the interval at which all waiting sources check whether a block still reads from them,
    /// in nanoseconds. GNU Radio itself checks this only if a buffer is full. The default is 20 ms.
    /// A stop does not wait for this check.
    static void set_reader_check(std::int64_t interval_ns);

    /// Returns the number of lost packets, as far as they can be counted. Any thread may call this
    /// function, and the next function.
    virtual std::uint64_t lost_packets() const = 0;

    /// Returns the number of lost samples, as far as they can be counted.
    virtual std::uint64_t lost_samples() const = 0;

    /// Returns the refused publishers, with the reasons: for example, their samples have another
    /// type.
    virtual std::vector<std::string> refused() const = 0;
};

}  // namespace stripline::gr

#endif
