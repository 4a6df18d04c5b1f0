/// @file
/// What all blocks of Stripline are: an end of a link.
#ifndef STRIPLINE_GR_LINK_END_HPP
#define STRIPLINE_GR_LINK_END_HPP

#include "api.hpp"

#include <string>

namespace stripline::gr {

/// An end of a link, which is a topic or a port of a component.
class STRIPLINE_GR_API link_end {
public:
    virtual ~link_end() = default;

    /// Why the block has ended before the flowgraph; empty: it has not. From any thread.
    virtual std::string failure() const = 0;

    /// The type of the samples, as `cf32`, or of the messages, as `message/cbor`.
    virtual std::string type() const = 0;

    /// Whether it receives.
    virtual bool is_input() const = 0;

    /// Joins a block whose topic is a port to the ports of its component, on the thread of the
    /// ports and before the flowgraph starts. Throws std::invalid_argument, also for a block of a
    /// topic.
    virtual void attach(stripline_ports *ports) = 0;

    /// Gives the port back, once the flowgraph has ended and before the ports do.
    virtual void detach() = 0;
};

}  // namespace stripline::gr

#endif
