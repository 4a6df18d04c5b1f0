/// @file
/// Subscribers to packets and to windows.
#ifndef STRIPLINE_SUBSCRIBER_HPP
#define STRIPLINE_SUBSCRIBER_HPP

#include "callback.hpp"
#include "packet.hpp"
#include "waker.hpp"

#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// Options of a subscriber.
struct subscriber_options {
    /// The number of packets that may be held at once, from 1 to 4096. The packets may be released
    /// in any order and on any thread. 0: one packet at a time, which costs least.
    std::uint32_t hold = 0;
    /// Not 0: packets that several threads of an earlier stage have forwarded are put back in
    /// sequence. The value is the number of packets that wait behind a missing one, at most 65536.
    std::uint32_t resequence_window = 0;
    /// The time to wait for a missing packet.
    std::chrono::milliseconds resequence_skip_after{0};
};

/// The unit of the lengths of windows.
enum class window_unit : std::uint32_t {
    /// Samples.
    samples = STRIPLINE_WINDOW_UNIT_SAMPLES,
    /// Rows of a stream with `row_length`.
    rows = STRIPLINE_WINDOW_UNIT_ROWS,
    /// Frames of a stream with `row_length` or channels, with all channels.
    frames = STRIPLINE_WINDOW_UNIT_FRAMES,
};

/// The packets and samples missing between the last received packet and the end of a stream.
struct end_gap {
    std::uint64_t packets;
    std::uint64_t samples;
};

/// The outcome of a receive: a packet (or window), nothing in time, or the end of the stream.
///
/// The result is true if it has a packet. As with a result, a missing packet is never returned.
template <class Packet>
class [[nodiscard]] received {
public:
    explicit operator bool() const noexcept { return packet_.has_value(); }
    /// Returns whether nothing arrived in time.
    bool empty() const noexcept { return code_ == STRIPLINE_EMPTY; }
    /// Returns whether every publisher has ended its stream: no packet follows.
    bool ended() const noexcept { return code_ == STRIPLINE_ENDED; }

    Packet &operator*() & { return check(), *packet_; }
    Packet operator*() && { return check(), std::move(*packet_); }
    Packet *operator->() { return check(), &*packet_; }

    /// @cond
    explicit received(stripline_status code) noexcept : code_(code) {}
    explicit received(Packet packet) noexcept : packet_(std::move(packet)) {}
    /// @endcond

private:
    void check() const {
        if (!packet_.has_value()) {
            detail::raise(failure(status::port, "there is no packet: check the outcome of the receive first"));
        }
    }

    std::optional<Packet> packet_;
    stripline_status code_ = STRIPLINE_OK;
};

/// @cond
namespace detail {

/// Returns the C structure for these options.
inline result<stripline_subscriber_options> c_options(const subscriber_options &options, std::uint32_t windowed) {
    const auto skip_after_ms = options.resequence_skip_after.count();
    if (skip_after_ms < 0 || skip_after_ms > std::numeric_limits<std::uint32_t>::max()) {
        return failure(
            status::invalid_argument, "`resequence_skip_after` is out of range; it must be from 0 to 49 days");
    }
    stripline_subscriber_options from{};
    from.size = sizeof from;
    from.hold = options.hold;
    from.windowed = windowed;
    from.resequence_window = options.resequence_window;
    from.resequence_skip_after_ms = static_cast<std::uint32_t>(skip_after_ms);
    return from;
}

/// The common base of both kinds of subscribers.
class subscriber_base {
public:
    subscriber_base(subscriber_base &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
    subscriber_base &operator=(subscriber_base &&from) noexcept {
        if (this != &from) {
            stripline_subscriber_free(handle_);
            handle_ = std::exchange(from.handle_, nullptr);
        }
        return *this;
    }

    /// Returns whether the object has a subscriber; false after a move.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Returns the number of publishers that are connected now.
    result<std::size_t> senders(const std::nothrow_t &) {
        return number<std::size_t>(
            handle_, [&](auto found, auto error) { return stripline_subscriber_senders(handle_, found, error); });
    }

    /// Returns, after the end of the stream, the gap after the last received packet. A second call
    /// returns 0.
    result<end_gap> gap_at_end(const std::nothrow_t &) {
        end_gap gap{};
        if (auto failed = call(handle_, [&](auto error) {
                return stripline_subscriber_gap_at_end(handle_, &gap.packets, &gap.samples, error);
            })) {
            return std::move(*failed);
        }
        return gap;
    }

    /// Makes a waker, which ends waits of the subscriber, also in `serve` and `wait_any`.
    result<stripline::waker> waker(const std::nothrow_t &) {
        return stripline::waker::of(handle_, stripline_subscriber_waker);
    }

    /// Returns a descriptor for `poll`, epoll or a toolkit, the same each time. Once `arm` has
    /// returned true, it becomes readable when the subscriber needs a call. The descriptor belongs
    /// to the subscriber: do not close it.
    result<int> ready_descriptor(const std::nothrow_t &) {
        return detail::ready_descriptor(handle_, stripline_subscriber_ready_descriptor);
    }

    /// Makes the descriptor ready once there may be a packet, the end of stream or an error. False:
    /// something has arrived already, so receive it first. Call this each time before the loop
    /// waits. For windows, `samples` is their length; otherwise it is 0. Never blocks.
    result<bool> arm(std::size_t samples, const std::nothrow_t &) {
        return detail::arm(
            handle_, [&](auto error) { return stripline_subscriber_arm(handle_, samples, error); });
    }
    result<bool> arm(const std::nothrow_t &) { return arm(0, std::nothrow); }

#if STRIPLINE_EXCEPTIONS
    int ready_descriptor() { return ready_descriptor(std::nothrow).value(); }
    bool arm(std::size_t samples = 0) { return arm(samples, std::nothrow).value(); }
    stripline::waker waker() { return waker(std::nothrow).value(); }
    std::size_t senders() { return senders(std::nothrow).value(); }
    end_gap gap_at_end() { return gap_at_end(std::nothrow).value(); }
#endif

    /// Returns the handle for the C functions. The subscriber keeps ownership.
    stripline_subscriber *c_handle() const noexcept { return handle_; }

protected:
    explicit subscriber_base(stripline_subscriber *handle) noexcept : handle_(handle) {}
    ~subscriber_base() { stripline_subscriber_free(handle_); }

    stripline_subscriber *handle_;
};

}  // namespace detail
/// @endcond

template <class T>
class subscriber;

/// An iterator of a range-for over the packets of a subscriber, with the current packet.
/// The iterator releases the packet before it receives the next, unless the loop has moved it out.
/// Move-only.
template <class T>
class packet_iterator {
public:
    /// The end of the stream.
    struct sentinel {};

    using iterator_category = std::input_iterator_tag;
    using value_type = packet<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = packet<T> *;
    using reference = packet<T> &;

    packet<T> &operator*() const noexcept { return *packet_; }
    packet<T> *operator->() const noexcept { return &*packet_; }
    packet_iterator &operator++() {
        packet_.reset();
        receive();
        return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const packet_iterator &at, sentinel) noexcept { return !at.packet_.has_value(); }
    friend bool operator!=(const packet_iterator &at, sentinel) noexcept { return at.packet_.has_value(); }

private:
    packet_iterator(subscriber<T> &from, result<void> *outcome) : from_(&from), outcome_(outcome) {
        receive();
    }
    void receive();

    subscriber<T> *from_;
    // The place for a failure; null: the failure is thrown.
    result<void> *outcome_;
    mutable std::optional<packet<T>> packet_;
    friend class subscriber<T>;
    template <class>
    friend class packet_range;
};

/// The packets of a subscriber for a range-for, with a place for the failure that ends it.
template <class T>
class packet_range {
public:
    /// Receives the first packet.
    packet_iterator<T> begin() { return packet_iterator<T>(*from_, outcome_); }
    typename packet_iterator<T>::sentinel end() const noexcept { return {}; }

private:
    packet_range(subscriber<T> &from, result<void> &outcome) noexcept : from_(&from), outcome_(&outcome) {}

    subscriber<T> *from_;
    result<void> *outcome_;
    friend class subscriber<T>;
};

/// A subscriber, which receives packets of samples from every publisher of a topic. Made by
/// node::subscriber. Move-only; only one thread at a time may use a subscriber. The destructor
/// never blocks.
template <class T>
class subscriber : public detail::subscriber_base {
public:
    using received_packet = received<packet<T>>;

    /// Receives the next packet. Blocks until a packet arrives or the stream ends.
    ///
    /// Fails with status::stopped when the node is stopped, and with status::too_many_held if no
    /// more packets may be held. Also fails with status::ejected and status::peer_misbehaved. After
    /// status::peer_misbehaved, the program may continue to receive.
    result<received_packet> receive(const std::nothrow_t &) { return receive_ns(STRIPLINE_FOREVER); }

    /// Receives like `receive`, but waits for a packet no longer than the timeout.
    template <class Rep, class Period>
    result<received_packet> receive_for(std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        return receive_ns(detail::timeout_ns(timeout));
    }

    /// Receives like `receive`, but waits for a packet no longer than until a time.
    template <class Clock, class Duration>
    result<received_packet> receive_until(
        std::chrono::time_point<Clock, Duration> deadline, const std::nothrow_t &) {
        return receive_ns(detail::timeout_ns(deadline));
    }

    /// Receives like `receive`, without waiting.
    result<received_packet> try_receive(const std::nothrow_t &) { return receive_ns(0); }

    /// Blocks until a packet arrives. Then passes this packet, and the packets behind it that have
    /// already arrived, to the handler: up to `limit` packets. The value is their number; 0 is the
    /// end of the stream. The subscriber must be made without `hold`.
    ///
    /// The handler gets a `const packet_view<T> &`. The handler returns nothing to continue, or a
    /// stripline::next, or a result<void>. If it throws or fails, the call ends. The form with
    /// exceptions throws the exception again. The packet of the failure is finished, and later
    /// packets stay.
    template <class Handler>
    result<std::size_t> drain(std::size_t limit, Handler &&handler, const std::nothrow_t &) {
        struct context {
            std::remove_reference_t<Handler> &handler;
            detail::callback_outcome outcome;
        } draining{handler, {}};
        const auto each = [](void *given, stripline_packet *handle) noexcept {
            auto &self = *static_cast<context *>(given);
            const packet_view<T> packet(handle);
            return detail::run_callback(self.outcome, self.handler, packet);
        };
        std::size_t packets = 0;
        auto failed = detail::call(handle_, [&](auto error) {
            return stripline_subscriber_drain(handle_, limit, each, &draining, &packets, error);
        });
        if (draining.outcome.reason.code() != status::ok) {
            return std::move(draining.outcome.reason);
        }
        if (failed) {
            return std::move(*failed);
        }
        return packets;
    }

    /// Returns the packets up to the end of the stream, for a range-for. A failure ends the loop,
    /// and is then in `outcome`.
    packet_range<T> packets(result<void> &outcome) noexcept { return packet_range<T>(*this, outcome); }

#if STRIPLINE_EXCEPTIONS
    received_packet receive() { return require_ns(STRIPLINE_FOREVER); }
    template <class Rep, class Period>
    received_packet receive_for(std::chrono::duration<Rep, Period> timeout) {
        return require_ns(detail::timeout_ns(timeout));
    }
    template <class Clock, class Duration>
    received_packet receive_until(std::chrono::time_point<Clock, Duration> deadline) {
        return require_ns(detail::timeout_ns(deadline));
    }
    received_packet try_receive() { return require_ns(0); }
    template <class Handler>
    std::size_t drain(std::size_t limit, Handler &&handler) {
        return drain(limit, std::forward<Handler>(handler), std::nothrow).value();
    }

    /// Begins a range-for over the packets, up to the end of the stream. A failure is thrown out
    /// of the loop.
    packet_iterator<T> begin() { return packet_iterator<T>(*this, nullptr); }
    typename packet_iterator<T>::sentinel end() const noexcept { return {}; }
#endif

private:
    explicit subscriber(stripline_subscriber *handle) noexcept : subscriber_base(handle) {}

#if STRIPLINE_EXCEPTIONS
    received_packet require_ns(std::int64_t timeout_ns) {
        stripline_packet *found = nullptr;
        const stripline_status code = detail::require(handle_, [&](auto error) {
            return stripline_subscriber_receive(handle_, timeout_ns, &found, error);
        });
        return code == STRIPLINE_OK ? received_packet(packet<T>(found)) : received_packet(code);
    }
#endif

    result<received_packet> receive_ns(std::int64_t timeout_ns) {
        stripline_packet *found = nullptr;
        stripline_status code = STRIPLINE_OK;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return code = stripline_subscriber_receive(handle_, timeout_ns, &found, error);
            })) {
            return std::move(*failed);
        }
        return code == STRIPLINE_OK ? received_packet(packet<T>(found)) : received_packet(code);
    }

    friend class node;
    friend struct detail::access;
};

/// @cond
template <class T>
void packet_iterator<T>::receive() {
    auto found = from_->receive(std::nothrow);
    if (found.has_value()) {
        if (*found) {
            packet_.emplace(std::move(**found));
        }
    } else if (outcome_ != nullptr) {
        *outcome_ = found.error();
    } else {
        detail::raise(found.error());
    }
}
/// @endcond

/// A subscriber that receives samples in windows of any length. Made by node::windowed_subscriber.
/// Move-only; only one thread at a time may use it. The destructor never blocks.
template <class T>
class windowed_subscriber : public detail::subscriber_base {
public:
    using received_window = received<window<T>>;

    /// Receives the next `length` samples, rows or frames, across packet boundaries. Blocks until
    /// they have arrived or the stream ends. A window is shorter before a gap, a new stream and the
    /// end, and where it begins within a row or frame.
    ///
    /// Fails like subscriber::receive.
    result<received_window> receive(std::size_t length, const std::nothrow_t &) {
        return receive_ns(length, STRIPLINE_FOREVER);
    }

    /// Receives like `receive`, but waits no longer than the timeout.
    template <class Rep, class Period>
    result<received_window> receive_for(
        std::size_t length, std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        return receive_ns(length, detail::timeout_ns(timeout));
    }

#if STRIPLINE_EXCEPTIONS
    received_window receive(std::size_t length) { return receive(length, std::nothrow).value(); }
    template <class Rep, class Period>
    received_window receive_for(std::size_t length, std::chrono::duration<Rep, Period> timeout) {
        return receive_for(length, timeout, std::nothrow).value();
    }
#endif

private:
    explicit windowed_subscriber(stripline_subscriber *handle) noexcept : subscriber_base(handle) {}

    result<received_window> receive_ns(std::size_t length, std::int64_t timeout_ns) {
        stripline_packet *found = nullptr;
        stripline_status code = STRIPLINE_OK;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return code = stripline_subscriber_window(handle_, length, timeout_ns, &found, error);
            })) {
            return std::move(*failed);
        }
        return code == STRIPLINE_OK ? received_window(window<T>(found)) : received_window(code);
    }

    friend class node;
    friend struct detail::access;
};

/// @cond
namespace detail {

/// Makes objects from handles, for other parts of these headers.
struct access {
    template <class Object, class Handle>
    static Object make(Handle *handle) noexcept {
        return Object(handle);
    }
};

}  // namespace detail
/// @endcond

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
