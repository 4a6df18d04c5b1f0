/// @file
/// Nodes, and the counters of their connections.
#ifndef STRIPLINE_NODE_HPP
#define STRIPLINE_NODE_HPP

#include "publisher.hpp"
#include "subscriber.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// Options of a node. Without options, the environment sets the domain and the topics
/// (`STRIPLINE_DOMAIN`, `STRIPLINE_TOPICS`).
struct node_options {
    /// The domain: 1 to 64 letters, digits, `-` and `_`. Not set: the domain of the environment.
    std::optional<std::string> domain;
    /// Options of topics, as the text of a topics file. Not set: the topics of the environment, or
    /// none if `domain` is set.
    std::optional<std::string> topics;
    /// Gives the node a domain of its own, so that nothing outside this node is connected. For
    /// tests. The other members must not be set.
    bool isolated = false;
};

/// The age of a connection's samples: the time since they were taken, in nanoseconds. A negative
/// age is of a time in the future.
struct age_report {
    /// Measured packets.
    std::uint64_t samples;
    /// The age of the packet measured last, and the largest.
    std::int64_t last_ns;
    std::int64_t max_ns;
    /// The clock of the times, with its error.
    std::optional<stream_clock> clock;
};

/// The counters of one connection.
struct connection_report {
    /// The connection, as `from -> to`.
    std::string connection;
    /// Packets that the receiver has taken, and their payload.
    std::uint64_t packets;
    std::uint64_t bytes;
    /// Packets and samples that were lost.
    std::uint64_t lost;
    std::uint64_t lost_samples;
    /// Gaps reported in band.
    std::uint64_t gaps;
    /// Packets that arrived after a later one.
    std::uint64_t reordered;
    /// The number of times that the sender vanished without an end of stream.
    std::uint64_t peer_deaths;
    /// The age of the samples, if any packet had a time.
    std::optional<age_report> age;
};

/// A refused connection, and the reason.
struct refused_connection {
    std::string connection;
    std::string reason;
};

/// The counters of all connections to a node's subscribers at one time.
struct report {
    std::vector<connection_report> connections;
    std::vector<refused_connection> refused;
};

/// @cond
namespace detail {

/// Returns the age in a report of the C interface.
inline std::optional<age_report> age(const stripline_connection_report &from) {
    if (from.age_samples == 0) {
        return std::nullopt;
    }
    age_report age{from.age_samples, from.age_last_ns, from.age_max_ns, std::nullopt};
    if (from.age_clock != STRIPLINE_CLOCK_REFERENCE_NONE) {
        age.clock.emplace();
        age.clock->reference = static_cast<clock_reference>(from.age_clock);
        if (from.age_error_ns != UINT64_MAX) {
            age.clock->error_ns = from.age_error_ns;
        }
    }
    return age;
}

/// Checks that the running library is not older than the headers, and has their major version.
inline std::optional<failure> check_version() {
    const std::string_view found = library_version();
    unsigned part[3] = {0, 0, 0};
    unsigned index = 0;
    for (const char symbol : found) {
        if (symbol == '.' && index < 2) {
            index += 1;
        } else if (symbol >= '0' && symbol <= '9') {
            part[index] = part[index] * 10 + static_cast<unsigned>(symbol - '0');
        } else {
            break;
        }
    }
    constexpr unsigned major = STRIPLINE_VERSION_MAJOR, minor = STRIPLINE_VERSION_MINOR;
    constexpr unsigned patch = STRIPLINE_VERSION_PATCH;
    const bool is_older = part[1] != minor ? part[1] < minor : part[2] < patch;
    if (part[0] == major && !is_older) {
        return std::nullopt;
    }
    return failure(
        status::unsupported, "the library that runs has version " + std::string(found) +
                                 ", and the headers have " + std::to_string(major) + '.' +
                                 std::to_string(minor) + '.' + std::to_string(patch) +
                                 "; install the library of the headers, or compile with the headers of the library");
}

}  // namespace detail
/// @endcond

/// A node: a program's publishers and subscribers belong to it. Nodes of the same domain find each
/// other without a daemon. Move-only; several threads may use it at once.
///
/// The destructor waits for the node's thread. The publishers and subscribers of the node stay
/// connected. Both may end before or after the node.
class node {
public:
    /// Makes a node, which joins the domain.
    ///
    /// Fails for an invalid domain or topics, with status::system if descriptors or threads run
    /// out, and with status::unsupported if the library is older than the headers.
    static result<node> make(const node_options &options, const std::nothrow_t &) {
        if (auto failed = detail::check_version()) {
            return std::move(*failed);
        }
        for (const auto *text : {&options.domain, &options.topics}) {
            if (*text) {
                if (auto failed = detail::check_text(**text, "an option of the node")) {
                    return std::move(*failed);
                }
            }
        }
        stripline_node_options from{};
        from.size = sizeof from;
        from.domain = options.domain ? options.domain->c_str() : nullptr;
        from.topics = options.topics ? options.topics->c_str() : nullptr;
        from.isolated = options.isolated ? 1 : 0;
        stripline_node *made = nullptr;
        if (auto failed = detail::call(&from, [&](auto error) {
                return stripline_node_new(&from, &made, error);
            })) {
            return std::move(*failed);
        }
        return node(made);
    }
    static result<node> make(const std::nothrow_t &) { return make(node_options(), std::nothrow); }

    node(node &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
    node &operator=(node &&from) noexcept {
        if (this != &from) {
            stripline_node_free(handle_);
            handle_ = std::exchange(from.handle_, nullptr);
        }
        return *this;
    }
    ~node() { stripline_node_free(handle_); }

    /// Returns whether the object has a node; false after a move.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Stops the node: all calls of the node's publishers and subscribers fail with
    /// status::stopped, both waiting calls and all later calls. Never blocks. Works from any
    /// thread, but not in a signal handler.
    result<void> stop(const std::nothrow_t &) const {
        return detail::outcome(handle_, [&](auto error) { return stripline_node_stop(handle_, error); });
    }

    /// Makes a publisher of samples of type T on a topic. Blocks until the node's own subscribers
    /// are connected. Fails with status::system or status::unsupported if the transport cannot be
    /// opened.
    template <class T>
    result<stripline::publisher<T>> publisher(const std::string &topic, const std::nothrow_t &) const {
        const stripline_sample_type type = detail::type_of<T>();
        if (auto failed = detail::check_text(topic, "the topic")) {
            return std::move(*failed);
        }
        stripline_publisher *made = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_publisher_new(handle_, topic.c_str(), &type, &made, error);
            })) {
            return std::move(*failed);
        }
        return stripline::publisher<T>(made);
    }

    /// Makes a subscriber to samples of type T on a topic. Blocks until the publishers that are
    /// present have answered, or for a few seconds.
    ///
    /// Fails with status::invalid_argument for an invalid option, and with status::system or
    /// status::unsupported if it cannot be connected. A publisher of another type is listed in the
    /// report.
    template <class T>
    result<stripline::subscriber<T>> subscriber(
        const std::string &topic, const subscriber_options &options, const std::nothrow_t &) const {
        return subscribe<T, stripline::subscriber<T>>(topic, options, 0);
    }
    template <class T>
    result<stripline::subscriber<T>> subscriber(const std::string &topic, const std::nothrow_t &) const {
        return subscriber<T>(topic, subscriber_options(), std::nothrow);
    }

    /// Makes a subscriber that receives windows of any length, counted in this unit. In all other
    /// respects, it is like `subscriber`.
    template <class T>
    result<stripline::windowed_subscriber<T>> windowed_subscriber(
        const std::string &topic, window_unit unit, const std::nothrow_t &) const {
        return subscribe<T, stripline::windowed_subscriber<T>>(
            topic, subscriber_options(), static_cast<std::uint32_t>(unit));
    }
    template <class T>
    result<stripline::windowed_subscriber<T>> windowed_subscriber(
        const std::string &topic, const std::nothrow_t &) const {
        return windowed_subscriber<T>(topic, window_unit::samples, std::nothrow);
    }

    /// Makes a publisher of messages on a topic. Each packet is one message, as bytes of CBOR. The
    /// type is `message/cbor`, or a type with a schema such as `message/tune{hz:f64}`; both ends
    /// compare it. A message that does not fit the schema is not sent: the send fails with
    /// status::invalid_argument and names the place. In all other respects, it is like `publisher`.
    result<stripline::publisher<std::uint8_t>> message_publisher(
        const std::string &topic, const std::string &type, const std::nothrow_t &) const {
        for (const std::string *text : {&topic, &type}) {
            if (auto failed = detail::check_text(*text, "the topic or type")) {
                return std::move(*failed);
            }
        }
        stripline_publisher *made = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_message_publisher_new(handle_, topic.c_str(), type.c_str(), &made, error);
            })) {
            return std::move(*failed);
        }
        return stripline::publisher<std::uint8_t>(made);
    }

    /// Makes a subscriber to messages on a topic, each as the bytes of one packet. In all other
    /// respects, it is like `subscriber`.
    result<stripline::subscriber<std::uint8_t>> message_subscriber(
        const std::string &topic, const std::string &type, const subscriber_options &options,
        const std::nothrow_t &) const {
        for (const std::string *text : {&topic, &type}) {
            if (auto failed = detail::check_text(*text, "the topic or type")) {
                return std::move(*failed);
            }
        }
        const auto from = detail::c_options(options, false);
        if (!from) {
            return from.error();
        }
        stripline_subscriber *made = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_message_subscriber_new(
                    handle_, topic.c_str(), type.c_str(), &*from, &made, error);
            })) {
            return std::move(*failed);
        }
        return stripline::subscriber<std::uint8_t>(made);
    }
    result<stripline::subscriber<std::uint8_t>> message_subscriber(
        const std::string &topic, const std::string &type, const std::nothrow_t &) const {
        return message_subscriber(topic, type, subscriber_options(), std::nothrow);
    }

    /// Reads the counters of every connection to the node's subscribers, and of the last
    /// connections that ended. Blocks only for a lock.
    result<stripline::report> report(const std::nothrow_t &) const {
        struct taken {
            stripline_report *handle = nullptr;
            ~taken() { stripline_report_free(handle); }
        } from;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_node_report(handle_, &from.handle, error);
            })) {
            return std::move(*failed);
        }
        stripline::report report;
        for (std::size_t index = 0; index < stripline_report_connections(from.handle); index++) {
            stripline_connection_report found{};
            found.size = sizeof found;
            if (auto failed = detail::call(from.handle, [&](auto error) {
                    return stripline_report_connection(from.handle, index, &found, error);
                })) {
                return std::move(*failed);
            }
            report.connections.push_back(
                {std::string(detail::view(found.connection)), found.packets, found.bytes, found.lost,
                 found.lost_samples, found.gaps, found.reordered, found.peer_deaths, detail::age(found)});
        }
        for (std::size_t index = 0; index < stripline_report_refused_connections(from.handle); index++) {
            stripline_text connection{}, reason{};
            if (auto failed = detail::call(from.handle, [&](auto error) {
                    return stripline_report_refused_connection(from.handle, index, &connection, &reason, error);
                })) {
                return std::move(*failed);
            }
            report.refused.push_back({std::string(detail::view(connection)), std::string(detail::view(reason))});
        }
        return report;
    }

#if STRIPLINE_EXCEPTIONS
    node() : node(node_options()) {}
    explicit node(const node_options &options) : node(make(options, std::nothrow).value()) {}
    void stop() const { stop(std::nothrow).value(); }
    template <class T>
    stripline::publisher<T> publisher(const std::string &topic) const {
        return publisher<T>(topic, std::nothrow).value();
    }
    template <class T>
    stripline::subscriber<T> subscriber(
        const std::string &topic, const subscriber_options &options = subscriber_options()) const {
        return subscriber<T>(topic, options, std::nothrow).value();
    }
    template <class T>
    stripline::windowed_subscriber<T> windowed_subscriber(
        const std::string &topic, window_unit unit = window_unit::samples) const {
        return windowed_subscriber<T>(topic, unit, std::nothrow).value();
    }
    stripline::publisher<std::uint8_t> message_publisher(
        const std::string &topic, const std::string &type = "message/cbor") const {
        return message_publisher(topic, type, std::nothrow).value();
    }
    stripline::subscriber<std::uint8_t> message_subscriber(
        const std::string &topic, const std::string &type = "message/cbor",
        const subscriber_options &options = subscriber_options()) const {
        return message_subscriber(topic, type, options, std::nothrow).value();
    }
    stripline::report report() const { return report(std::nothrow).value(); }
#endif

    /// Returns the handle for the C functions. The node keeps ownership.
    stripline_node *c_handle() const noexcept { return handle_; }

private:
    explicit node(stripline_node *handle) noexcept : handle_(handle) {}

    template <class T, class Subscriber>
    result<Subscriber> subscribe(const std::string &topic, const subscriber_options &options, std::uint32_t windowed) const {
        const stripline_sample_type type = detail::type_of<T>();
        if (auto failed = detail::check_text(topic, "the topic")) {
            return std::move(*failed);
        }
        const auto from = detail::c_options(options, windowed);
        if (!from) {
            return from.error();
        }
        stripline_subscriber *made = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_subscriber_new(handle_, topic.c_str(), &type, &*from, &made, error);
            })) {
            return std::move(*failed);
        }
        return Subscriber(made);
    }

    stripline_node *handle_;
};

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
