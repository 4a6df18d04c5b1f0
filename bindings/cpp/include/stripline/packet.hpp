/// @file
/// Received packets, and the data that comes with their samples.
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
#include <vector>

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
    /// The transport lost packets.
    transport = STRIPLINE_GAP_REASON_TRANSPORT,
    /// Packets did not arrive within the time that a resequencing subscriber waits.
    late = STRIPLINE_GAP_REASON_LATE,
};

/// Packets that are missing just before another packet.
struct gap {
    gap_reason reason;
    /// The number of the first missing packet.
    std::uint64_t first;
    /// The number of missing packets; 0 after a restart, because the number is unknown then.
    std::uint64_t packets;
    /// The number of missing samples; 0 if it is unknown. A message counts as one sample.
    std::uint64_t samples;
};

/// The place of a packet in the stream, and the gap before it.
struct packet_info {
    /// The number of the packet among all packets of the sender, from 0.
    std::uint64_t sequence;
    /// The number of the first sample within the stream.
    std::uint64_t sample_index;
    /// The time when the first sample was taken.
    std::optional<time_point> time;
    /// The time when the packet should have been sent, if the sender has a schedule.
    std::optional<monotonic_point> intended;
    /// The time when the packet was sent, if that was measured.
    std::optional<monotonic_point> sent;
    /// The gap just before the packet.
    std::optional<stripline::gap> gap;
    /// False for a window that has fewer samples than requested, because a boundary follows, or
    /// that begins within a row or frame.
    bool is_whole;
};

/// The origin of the times of a stream.
enum class clock_reference : std::uint32_t {
    /// The clock of the host that received the samples from the device.
    host = STRIPLINE_CLOCK_REFERENCE_HOST,
    /// A clock that follows the Precision Time Protocol.
    ptp = STRIPLINE_CLOCK_REFERENCE_PTP,
    /// A clock of the device that follows a pulse per second.
    pps = STRIPLINE_CLOCK_REFERENCE_PPS,
    /// A clock of the device that follows GPS.
    gps = STRIPLINE_CLOCK_REFERENCE_GPS,
    /// A counter of the device that follows nothing.
    device = STRIPLINE_CLOCK_REFERENCE_DEVICE,
};

/// The clock on which the times of a stream stand.
struct stream_clock {
    /// The origin of the times.
    clock_reference reference = clock_reference::host;
    /// The largest difference between a time and UTC, in nanoseconds; empty if it is unknown.
    std::optional<std::uint64_t> error_ns{};
};

/// The values that the samples of a row, the rows, or the frames stand for: evenly spaced.
struct axis {
    /// The value at the first place.
    double start = 0;
    /// The distance to the next value, which may be negative.
    double step = 1;
    /// The unit, for example `Hz`, `s` or `m`; empty for plain numbers.
    std::string unit{};

    /// Returns the value at a place: the place of a sample in the row, or of a row in the frame.
    double at(std::uint64_t place) const noexcept { return start + static_cast<double>(place) * step; }
};

inline bool operator==(const axis &a, const axis &b) {
    return a.start == b.start && a.step == b.step && a.unit == b.unit;
}
inline bool operator!=(const axis &a, const axis &b) { return !(a == b); }

/// The description of the stream that a packet belongs to.
struct stream_view {
    /// The name of the stream. The text is valid until the packet is released.
    std::string_view id;
    /// Samples a second, of all channels together.
    std::optional<double> sample_rate_hz;
    /// The frequency that 0 Hz of the samples corresponds to.
    std::optional<double> center_frequency_hz;
    /// The number of samples in a row, if the samples are rows of a table.
    std::optional<std::uint32_t> row_length;
    /// The number of rows in a frame, if the rows are frames: pulses of samples, for example.
    std::optional<std::uint32_t> frame_rows;
    /// The axes along a row, from row to row, and from frame to frame; without rows, only the axis
    /// from sample to sample.
    std::vector<axis> axes;
    /// The clock on which the times of the packets stand.
    std::optional<stream_clock> clock;
};

/// The common base of packets, windows and the packets of handlers. The functions may be called on
/// the thread of the subscriber. For a held packet, any thread may call them, several at once.
template <class T>
class packet_base {
public:
    using value_type = T;

    packet_base(const packet_base &) = delete;
    packet_base &operator=(const packet_base &) = delete;

    /// Returns the samples, in place and read only, valid until the packet is released. Empty for a
    /// packet that was moved from or released.
    span<const T> samples() const noexcept { return span<const T>(data(), size()); }
    const T *data() const noexcept { return static_cast<const T *>(stripline_packet_samples(handle_)); }
    std::size_t size() const noexcept { return stripline_packet_length(handle_); }
    bool empty() const noexcept { return size() == 0; }
    const T *begin() const noexcept { return data(); }
    const T *end() const noexcept {
        const T *first = data();
        return first == nullptr ? first : first + size();
    }
    /// Returns a sample by index. The index must be below `size()`.
    const T &operator[](std::size_t index) const noexcept { return data()[index]; }

    /// Returns whether there is a packet; false after a move or a release.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Returns the place of the packet in its stream. Fails if the packet was moved from or
    /// released.
    result<packet_info> info(const std::nothrow_t &) const {
        stripline_packet_info found{};
        found.size = sizeof found;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_packet_get_info(handle_, &found, error);
            })) {
            return std::move(*failed);
        }
        packet_info info{found.sequence, found.sample_index, {}, {}, {}, {}, found.is_whole != 0};
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

    /// Returns the description of the packet's stream. The call allocates memory if there are axes.
    /// Fails if the packet was moved from or released.
    result<stream_view> stream(const std::nothrow_t &) const {
        stripline_stream_view found{};
        found.size = sizeof found;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_packet_get_stream(handle_, &found, error);
            })) {
            return std::move(*failed);
        }
        stream_view stream{detail::view(found.id), {}, {}, {}, {}, {}, {}};
        if ((found.set & STRIPLINE_STREAM_SET_SAMPLE_RATE) != 0) {
            stream.sample_rate_hz = found.sample_rate_hz;
        }
        if ((found.set & STRIPLINE_STREAM_SET_CENTER_FREQUENCY) != 0) {
            stream.center_frequency_hz = found.center_frequency_hz;
        }
        if ((found.set & STRIPLINE_STREAM_SET_ROW_LENGTH) != 0) {
            stream.row_length = found.row_length;
        }
        if ((found.set & STRIPLINE_STREAM_SET_FRAME_ROWS) != 0) {
            stream.frame_rows = found.frame_rows;
        }
        if (found.clock_reference != STRIPLINE_CLOCK_REFERENCE_NONE) {
            stream.clock.emplace();
            stream.clock->reference = static_cast<clock_reference>(found.clock_reference);
            if ((found.set & STRIPLINE_STREAM_SET_CLOCK_ERROR) != 0) {
                stream.clock->error_ns = found.clock_error_ns;
            }
        }
        for (std::size_t index = 0; index < found.axis_count; index++) {
            stripline_axis_view axis{};
            axis.size = sizeof axis;
            if (auto failed = detail::call(handle_, [&](auto error) {
                    return stripline_packet_get_axis(handle_, index, &axis, error);
                })) {
                return std::move(*failed);
            }
            stream.axes.push_back({axis.start, axis.step, std::string(detail::view(axis.unit))});
        }
        return stream;
    }

    /// Returns the whole description as JSON, including channels and keywords (docs/wire.md).
    /// The call allocates memory.
    result<std::string> stream_json(const std::nothrow_t &) const {
        std::string json(256, '\0');
        for (;;) {
            std::size_t length = 0;
            detail::c_error error;
            // The string has room for the terminating NUL, too.
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

    /// Returns the connection that the packet arrived on, as `from -> to`, valid until the packet
    /// is released. Empty for a packet that was moved from or released.
    std::string_view connection() const noexcept { return detail::view(stripline_packet_connection(handle_)); }

#if STRIPLINE_EXCEPTIONS
    packet_info info() const { return info(std::nothrow).value(); }
    stream_view stream() const { return stream(std::nothrow).value(); }
    std::string stream_json() const { return stream_json(std::nothrow).value(); }
#endif

    /// Returns the handle for the C functions. The packet keeps ownership.
    const stripline_packet *c_handle() const noexcept { return handle_; }

protected:
    explicit packet_base(stripline_packet *handle) noexcept : handle_(handle) {}
    ~packet_base() = default;
    packet_base(packet_base &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}

    stripline_packet *handle_;
};

/// Received samples, in place. The samples are released with the object.
///
/// Move-only. A packet stays valid after the subscriber and the node are gone, and keeps the
/// connections of the subscriber until then. A packet of a subscriber with `hold` may be moved to
/// another thread, and be released in any order. Any other packet belongs to the thread of the
/// subscriber.
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

/// Samples across packet boundaries. The samples are released with the object. Move-only; belongs
/// to the thread of the subscriber.
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

    /// Releases the window, but consumes only the first `samples` samples: the next window begins
    /// after them, and overlaps. At least one sample is consumed.
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
