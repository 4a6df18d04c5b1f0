/// @file
/// The common interface of all Stripline blocks: an end of a link.
#ifndef STRIPLINE_GR_LINK_END_HPP
#define STRIPLINE_GR_LINK_END_HPP

#include "api.hpp"

#include <string>

namespace stripline::gr {

/// An end of a link, which is a topic or a port of a component.
class STRIPLINE_GR_API link_end {
public:
    virtual ~link_end() = default;

    /// Returns the reason why the block has ended before the flowgraph, or an empty text if the
    /// block has not ended. Any thread may call this function.
    virtual std::string failure() const = 0;

    /// Returns the type of the samples, such as `cf32`, or of the messages, such as `message/cbor`.
    virtual std::string type() const = 0;

    /// Returns whether the block receives.
    virtual bool is_input() const = 0;

    /// Connects a block with a port as its topic to the ports of its component. Call it on the
    /// thread of the ports, before the flowgraph starts. Throws std::invalid_argument, also if the
    /// topic of the block is not a port.
    virtual void attach(stripline_ports *ports) = 0;

    /// Gives the port back, after the flowgraph has ended and before the ports end.
    virtual void detach() = 0;
};

}  // namespace stripline::gr

#endif
