/// @file
/// Packets that were received, and what comes with their samples.
#ifndef STRIPLINE_PACKET_HPP
#define STRIPLINE_PACKET_HPP

#include "error.hpp"
#include "sample.hpp"
#include "span.hpp"
#include "time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// @cond
namespace detail {
struct access;
}
/// @endcond

/// The cause of a gap.
enum class gap_reason : std::uint32_t {
    /// The receiver was slow, and its policy drops packets.
    overflow = STRIPLINE_GAP_REASON_OVERFLOW,
    /// The sender or the receiver was restarted.
    peer_restart = STRIPLINE_GAP_REASON_PEER_RESTART,
    /// The transport lost them.
    transport = STRIPLINE_GAP_REASON_TRANSPORT,
    /// They did not arrive in the time that a resequencing subscriber waits.
    late = STRIPLINE_GAP_REASON_LATE,
};

/// Packets that are missing just before another one.
struct gap {
    gap_reason reason;
    /// The number of the first packet that is missing.
    std::uint64_t first;
    /// How many packets are missing; 0 after a restart, where the number is unknown.
    std::uint64_t packets;
    /// How many samples are missing; 0 where that is unknown. Messages count as one each.
    std::uint64_t samples;
};

/// The place of a packet in its stream, and the gap before it.
struct packet_info {
    /// The number of the packet among those of its sender, from 0.
    std::uint64_t sequence;
    /// The number of its first sample within its stream.
    std::uint64_t sample_index;
    /// When its first sample was taken.
    std::optional<time_point> time;
    /// When it should have been sent, if its sender has a schedule.
    std::optional<monotonic_point> intended;
    /// When it was sent, if that was measured.
    std::optional<monotonic_point> sent;
    /// What is missing just before it.
    std::optional<stripline::gap> gap;
};

/// The description of the stream that a packet belongs to.
struct stream_view {
    /// The name of the stream. It is valid until the packet is released.
    std::string_view id;
    /// Samples a second, of all channels together.
    std::optional<double> sample_rate_hz;
    /// The frequency that 0 Hz of the samples corresponds to.
    std::optional<double> center_frequency_hz;
    /// Samples of a row, if the samples are rows of a table.
    std::optional<std::uint32_t> row_length;
};

/// What packets, windows and the packets of handlers have in common. Its functions belong to the
/// thread of the subscriber; those of a held packet to any, several at once.
template <class T>
class packet_base {
public:
    using value_type = T;

    packet_base(const packet_base &) = delete;
    packet_base &operator=(const packet_base &) = delete;

    /// The samples, in place and read only, valid until the packet is released. Empty for a packet
    /// that was moved from or released.
    span<const T> samples() const noexcept { return span<const T>(data(), size()); }
    const T *data() const noexcept { return static_cast<const T *>(stripline_packet_samples(handle_)); }
    std::size_t size() const noexcept { return stripline_packet_length(handle_); }
    bool empty() const noexcept { return size() == 0; }
    const T *begin() const noexcept { return data(); }
    const T *end() const noexcept {
        const T *first = data();
        return first == nullptr ? first : first + size();
    }
    /// A sample by its index, which is below `size()`.
    const T &operator[](std::size_t index) const noexcept { return data()[index]; }

    /// Whether there is a packet: it was not moved from, nor released.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// The place of the packet in its stream. Fails if the packet was moved from or released.
    result<packet_info> info(const std::nothrow_t &) const {
        stripline_packet_info found{};
        found.size = sizeof found;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_packet_get_info(handle_, &found, error);
            })) {
            return std::move(*failed);
        }
        packet_info info{found.sequence, found.sample_index, {}, {}, {}, {}};
        if (found.time_ns != 0) {
            info.time = time_point(std::chrono::nanoseconds(found.time_ns));
        }
        info.intended = detail::monotonic(found.intended_ns);
        info.sent = detail::monotonic(found.sent_ns);
        if (found.gap_reason != STRIPLINE_GAP_REASON_NONE) {
            info.gap = stripline::gap{
                static_cast<gap_reason>(found.gap_reason), found.gap_first, found.gap_packets, found.gap_samples};
        }
        return info;
    }

    /// The description of the packet's stream. Fails if the packet was moved from or released.
    result<stream_view> stream(const std::nothrow_t &) const {
        stripline_stream_view found{};
        found.size = sizeof found;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_packet_get_stream(handle_, &found, error);
            })) {
            return std::move(*failed);
        }
        stream_view stream{detail::view(found.id), {}, {}, {}};
        if ((found.set & STRIPLINE_STREAM_SET_SAMPLE_RATE) != 0) {
            stream.sample_rate_hz = found.sample_rate_hz;
        }
        if ((found.set & STRIPLINE_STREAM_SET_CENTER_FREQUENCY) != 0) {
            stream.center_frequency_hz = found.center_frequency_hz;
        }
        if ((found.set & STRIPLINE_STREAM_SET_ROW_LENGTH) != 0) {
            stream.row_length = found.row_length;
        }
        return stream;
    }

    /// The whole description as JSON, also axes, channels and keywords (docs/wire.md). It
    /// allocates.
    result<std::string> stream_json(const std::nothrow_t &) const {
        std::string json(256, '\0');
        for (;;) {
            std::size_t length = 0;
            detail::c_error error;
            // The terminating NUL of the text is a byte of the string, too.
            const stripline_status code = stripline_packet_get_stream_json(
                handle_, json.data(), json.size() + 1, &length, error.place());
            if (code == STRIPLINE_OK) {
                json.resize(length);
                return json;
            }
            if (code != STRIPLINE_TOO_LARGE || length <= json.size()) {
                return failure_maker::of(code, error, handle_);
            }
            json.resize(length);
        }
    }

    /// The connection that the packet arrived on, as `from -> to`, valid until the packet is
    /// released. Empty for a packet that was moved from or released.
    std::string_view connection() const noexcept { return detail::view(stripline_packet_connection(handle_)); }

#if STRIPLINE_EXCEPTIONS
    packet_info info() const { return info(std::nothrow).value(); }
    stream_view stream() const { return stream(std::nothrow).value(); }
    std::string stream_json() const { return stream_json(std::nothrow).value(); }
#endif

    /// The handle of the C functions. It stays the packet's.
    const stripline_packet *c_handle() const noexcept { return handle_; }

protected:
    explicit packet_base(stripline_packet *handle) noexcept : handle_(handle) {}
    ~packet_base() = default;
    packet_base(packet_base &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}

    stripline_packet *handle_;
};

/// Samples that were received, in place, which are released with the object.
///
/// Move-only. Stays valid after its subscriber and node are gone, and keeps the connections of its
/// subscriber until then. One of a subscriber with `hold` may be moved to another thread, and be
/// released in any order; another one belongs to the thread of its subscriber.
template <class T>
class packet : public packet_base<T> {
public:
    packet(packet &&) noexcept = default;
    packet &operator=(packet &&from) noexcept {
        if (this != &from) {
            release();
            this->handle_ = std::exchange(from.handle_, nullptr);
        }
        return *this;
    }
    ~packet() { release(); }

    /// Gives the memory back before the object ends. A second call does nothing. Never blocks.
    void release() noexcept {
        if (this->handle_ != nullptr) {
            stripline_packet_release(std::exchange(this->handle_, nullptr), nullptr);
        }
    }

    /// Refuses the packet with a reason of at most 256 bytes, and releases it. A sender that waits
    /// for it (scope::target) fails with status::packet_refused.
    result<void> refuse(const std::string &reason, const std::nothrow_t &) {
        if (auto failed = detail::check_text(reason, "the reason")) {
            return std::move(*failed);
        }
        if (auto failed = detail::call(this->handle_, [&](auto error) {
                return stripline_packet_refuse(this->handle_, reason.c_str(), error);
            })) {
            // In both cases the packet is not released.
            if (failed->code() != status::invalid_argument && failed->code() != status::in_use) {
                this->handle_ = nullptr;
            }
            return std::move(*failed);
        }
        this->handle_ = nullptr;
        return {};
    }

#if STRIPLINE_EXCEPTIONS
    void refuse(const std::string &reason) { refuse(reason, std::nothrow).value(); }
#endif

private:
    explicit packet(stripline_packet *handle) noexcept : packet_base<T>(handle) {}
    template <class>
    friend class subscriber;
    friend struct detail::access;
};

/// Samples across borders of packets, which are released with the object. Move-only; belongs to
/// the thread of its subscriber.
template <class T>
class window : public packet_base<T> {
public:
    window(window &&) noexcept = default;
    window &operator=(window &&from) noexcept {
        if (this != &from) {
            release();
            this->handle_ = std::exchange(from.handle_, nullptr);
        }
        return *this;
    }
    ~window() { release(); }

    /// Consumes the whole window before the object ends. A second call does nothing.
    void release() noexcept {
        if (this->handle_ != nullptr) {
            stripline_packet_release(std::exchange(this->handle_, nullptr), nullptr);
        }
    }

    /// Releases the window and consumes only its first `samples` samples: the next window begins
    /// behind them, and overlaps. At least one is consumed.
    result<void> consume(std::size_t samples, const std::nothrow_t &) {
        if (auto failed = detail::call(this->handle_, [&](auto error) {
                return stripline_packet_consume(this->handle_, samples, error);
            })) {
            return std::move(*failed);
        }
        this->handle_ = nullptr;
        return {};
    }

#if STRIPLINE_EXCEPTIONS
    void consume(std::size_t samples) { consume(samples, std::nothrow).value(); }
#endif

private:
    explicit window(stripline_packet *handle) noexcept : packet_base<T>(handle) {}
    template <class>
    friend class windowed_subscriber;
    friend struct detail::access;
};

/// The packet of a handler, which ends when the handler returns. Cannot be copied or moved.
template <class T>
class packet_view : public packet_base<T> {
public:
    /// @cond
    explicit packet_view(stripline_packet *handle) noexcept : packet_base<T>(handle) {}
    /// @endcond
    packet_view(packet_view &&) = delete;

    /// Refuses the packet with a reason of at most 256 bytes. A sender that waits for it
    /// (scope::target) fails. The packet stays until the handler returns.
    result<void> refuse(const std::string &reason, const std::nothrow_t &) const {
        if (auto failed = detail::check_text(reason, "the reason")) {
            return std::move(*failed);
        }
        return detail::outcome(this->handle_, [&](auto error) {
            return stripline_packet_refuse(this->handle_, reason.c_str(), error);
        });
    }

#if STRIPLINE_EXCEPTIONS
    void refuse(const std::string &reason) const { refuse(reason, std::nothrow).value(); }
#endif
};

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
