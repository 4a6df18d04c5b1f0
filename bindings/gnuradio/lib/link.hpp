/// @file
/// Shared parts of sources and sinks: a node with the options of a block, the sample type, and
/// handles of the C functions that free themselves.
#ifndef STRIPLINE_GR_LINK_HPP
#define STRIPLINE_GR_LINK_HPP

#include <stripline/gr/link_end.hpp>

#include <stripline.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace stripline::gr {

/// The type of a block's samples.
struct sample_kind {
    /// Stripline's name of the type, such as `cf32`.
    std::string name;
    /// The size of a sample in bytes.
    std::size_t bytes;

    /// Finds the type that a block was made with. Throws std::invalid_argument.
    static sample_kind of(const std::string &type);

    stripline_sample_type c_type() const noexcept;
};

/// Returns the size of an item in bytes. Throws std::invalid_argument for a vector without samples
/// or with too many.
std::size_t item_bytes_of(const sample_kind &kind, const options &settings);

/// Throws the failure of a C function: std::invalid_argument for mistakes that the user can
/// correct.
[[noreturn]] void raise(stripline_status code, const detail::c_error &error, const std::string &where);

/// Returns the message of an error, or the word of the status if there is no error object.
std::string message_of(stripline_status code, const detail::c_error &error);

/// Returns the name of a block for messages, in ASCII.
std::string block_name(const char *kind, const std::string &topic);

/// Throws std::invalid_argument for a text that cannot be passed to C.
void check_text(const std::string &where, const char *option, const std::string &text);

/// Makes the node of a block, or no node for a port. `where` names the block in messages. Throws
/// std::invalid_argument and std::runtime_error.
std::optional<node> make_node(const std::string &where, const std::string &topic, const topic_options &settings);

/// Checks that a block may be connected to the ports of a component. Throws std::invalid_argument.
void check_port(const std::string &where, const topic_options &settings, bool is_joined);

/// Throws std::runtime_error for a block with a port that does not exist.
[[noreturn]] void raise_apart(const std::string &where);

/// Returns whether GNU Radio is stopping the calling thread.
bool is_being_stopped();

/// Returns the publishers that a node has refused, with the reasons. For a port, there are none.
std::vector<std::string> refused_by(const std::optional<node> &at);

struct handle_end {
    void operator()(stripline_publisher *handle) const noexcept { stripline_publisher_free(handle); }
    void operator()(stripline_subscriber *handle) const noexcept { stripline_subscriber_free(handle); }
    void operator()(stripline_packet *handle) const noexcept { stripline_packet_release(handle, nullptr); }
    void operator()(stripline_waker *handle) const noexcept { stripline_waker_free(handle); }
};
template <class T>
using owned = std::unique_ptr<T, handle_end>;

}  // namespace stripline::gr

#endif
