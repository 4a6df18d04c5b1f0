/// @file
/// Publishers and their loans.
#ifndef STRIPLINE_PUBLISHER_HPP
#define STRIPLINE_PUBLISHER_HPP

#include "callback.hpp"
#include "packet.hpp"
#include "waker.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The event after which a send returns (docs/glossary.md).
enum class scope : std::uint32_t { none = 0, transport = 1, server = 2, target = 3 };

/// Options of one packet. A member that is not set has the default of the connection.
struct send_options {
    /// The number of the packet's first sample. By default, it continues the previous packet.
    std::optional<std::uint64_t> sample_index;
    /// The time when the first sample was taken.
    std::optional<time_point> time;
    /// The time when the packet should have been sent.
    std::optional<monotonic_point> intended;
    /// The event after which the send returns.
    std::optional<stripline::scope> scope;
    /// The time limit for receivers in scope::server and scope::target.
    std::optional<std::chrono::nanoseconds> deadline;
};

/// The description of a stream, for a publisher. Receivers get it with every packet.
struct stream_description {
    /// The name of the stream; empty: no name.
    std::string id;
    /// Samples a second, of all channels together.
    std::optional<double> sample_rate_hz;
    /// The frequency that 0 Hz of the samples corresponds to.
    std::optional<double> center_frequency_hz;
    /// The number of samples in a row, if the samples are rows of a table.
    std::optional<std::uint32_t> row_length;
    /// The number of rows in a frame, if the rows are frames: pulses of samples, for example.
    std::optional<std::uint32_t> frame_rows;
    /// A JSON object with `channels` and `keywords` (docs/wire.md); empty: none.
    std::string more;
    /// The axes along a row, from row to row, and from frame to frame; without rows, only the axis
    /// from sample to sample.
    std::vector<axis> axes;
    /// The clock on which the times of the packets stand.
    std::optional<stream_clock> clock;
};

/// @cond
namespace detail {

inline stripline_send_options c_options(const send_options &from) noexcept {
    stripline_send_options options{};
    options.size = sizeof options;
    if (from.sample_index) {
        options.set |= STRIPLINE_SEND_SET_SAMPLE_INDEX;
        options.sample_index = *from.sample_index;
    }
    if (from.time) {
        options.set |= STRIPLINE_SEND_SET_TIME;
        options.time_ns = from.time->time_since_epoch().count();
    }
    if (from.intended) {
        options.set |= STRIPLINE_SEND_SET_INTENDED;
        options.intended_ns = static_cast<std::uint64_t>(from.intended->time_since_epoch().count());
    }
    if (from.scope) {
        options.set |= STRIPLINE_SEND_SET_SCOPE;
        options.scope = static_cast<std::uint32_t>(*from.scope);
    }
    if (from.deadline) {
        options.set |= STRIPLINE_SEND_SET_DEADLINE;
        const auto ns = from.deadline->count();
        options.deadline_ns = ns > 0 ? static_cast<std::uint64_t>(ns) : 0;
    }
    return options;
}

}  // namespace detail
/// @endcond

/// Room for the samples of one packet, to be written in place. If it ends without `send`, nothing
/// is sent. Move-only; belongs to the thread of the publisher, which has one loan at a time.
template <class T>
class loan {
public:
    loan(loan &&from) noexcept
        : handle_(std::exchange(from.handle_, nullptr)),
          data_(std::exchange(from.data_, nullptr)),
          size_(std::exchange(from.size_, 0)) {}
    loan &operator=(loan &&from) noexcept {
        if (this != &from) {
            cancel();
            handle_ = std::exchange(from.handle_, nullptr);
            data_ = std::exchange(from.data_, nullptr);
            size_ = std::exchange(from.size_, 0);
        }
        return *this;
    }
    ~loan() { cancel(); }

    /// Returns the memory for the samples; the initial content is unspecified. Empty once the loan
    /// is closed.
    span<T> samples() noexcept { return span<T>(data_, size_); }
    T *data() noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    T *begin() noexcept { return data_; }
    T *end() noexcept { return data_ + size_; }
    T &operator[](std::size_t index) noexcept { return data_[index]; }

    /// Returns whether the loan is open: neither sent, cancelled nor moved from.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Sends the samples as a packet, and closes the loan, even if it fails. Blocks while a
    /// receiver with policy `block` has no room, and until the scope is reached.
    ///
    /// Fails with status::port if the publisher has ended, and otherwise like publisher::loan.
    result<void> send(const std::nothrow_t &) { return commit(nullptr); }
    result<void> send(const send_options &options, const std::nothrow_t &) {
        const stripline_send_options c_options = detail::c_options(options);
        return commit(&c_options);
    }

    /// Sends the samples with the stream, sample index, time and order of a received packet.
    template <class U>
    result<void> send_like(const packet_base<U> &packet, const std::nothrow_t &) {
        if (packet.c_handle() == nullptr) {
            cancel();
            return failure(status::port, "the packet is empty: it was moved from or released; the loan is closed");
        }
        stripline_loan *closed = close();
        return detail::outcome(closed, [&](auto error) {
            return stripline_loan_commit_like(closed, packet.c_handle(), error);
        });
    }

    /// Keeps only the first `samples` samples. A number above the length of the loan changes
    /// nothing.
    result<void> truncate(std::size_t samples, const std::nothrow_t &) {
        auto done = detail::outcome(
            handle_, [&](auto error) { return stripline_loan_truncate(handle_, samples, error); });
        if (done && samples < size_) {
            size_ = samples;
        }
        return done;
    }

    /// Closes the loan without sending. A second call does nothing. Never blocks.
    void cancel() noexcept {
        if (handle_ != nullptr) {
            stripline_loan_cancel(close(), nullptr);
        }
    }

#if STRIPLINE_EXCEPTIONS
    void send() { require_commit(nullptr); }
    void send(const send_options &options) {
        const stripline_send_options c_options = detail::c_options(options);
        require_commit(&c_options);
    }
    template <class U>
    void send_like(const packet_base<U> &packet) {
        send_like(packet, std::nothrow).value();
    }
    void truncate(std::size_t samples) { truncate(samples, std::nothrow).value(); }
#endif

private:
    loan(stripline_loan *handle, void *memory, std::size_t size) noexcept
        : handle_(handle), data_(static_cast<T *>(memory)), size_(size) {}

    result<void> commit(const stripline_send_options *options) {
        stripline_loan *closed = close();
        return detail::outcome(
            closed, [&](auto error) { return stripline_loan_commit(closed, options, error); });
    }
#if STRIPLINE_EXCEPTIONS
    void require_commit(const stripline_send_options *options) {
        stripline_loan *closed = close();
        detail::require(closed, [&](auto error) { return stripline_loan_commit(closed, options, error); });
    }
#endif
    stripline_loan *close() noexcept {
        data_ = nullptr;
        size_ = 0;
        return std::exchange(handle_, nullptr);
    }

    stripline_loan *handle_;
    T *data_;
    std::size_t size_;
    template <class>
    friend class publisher;
};

/// A publisher, which sends packets of samples to every receiver of a topic. Made by
/// node::publisher. Move-only; only one thread at a time may use a publisher.
///
/// The destructor ends the stream: it blocks until the remaining packets have left the process, ten
/// seconds at most. While an exception unwinds, it abandons the stream instead, which is then not
/// complete. If a loan is still open, the stream ends when the loan is closed.
template <class T>
class publisher {
public:
    publisher(publisher &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
    publisher &operator=(publisher &&from) noexcept {
        if (this != &from) {
            end();
            handle_ = std::exchange(from.handle_, nullptr);
        }
        return *this;
    }
    ~publisher() { end(); }

    /// Returns whether the object has a publisher; false after a move.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Lends room for `samples` samples. On shared memory, this is where the receivers read. Blocks
    /// while a receiver with policy `block` has no room.
    ///
    /// Fails with status::port while another loan is open or after the end of the stream, and with
    /// too_large, stalled, stopped and system.
    result<stripline::loan<T>> loan(std::size_t samples, const std::nothrow_t &) {
        return lend(stripline_publisher_loan, samples);
    }

    /// Lends room like `loan`, without waiting. Fails with status::full if a receiver has no room,
    /// and with status::too_large above `samples_in_place`.
    result<stripline::loan<T>> try_loan(std::size_t samples, const std::nothrow_t &) {
        return lend(stripline_publisher_try_loan, samples);
    }

    /// Sends a copy of the samples as a packet. Blocks and fails like `loan` and loan::send.
    result<void> send(span<const T> samples, const std::nothrow_t &) {
        return copy(stripline_publisher_send, samples, nullptr);
    }
    result<void> send(span<const T> samples, const send_options &options, const std::nothrow_t &) {
        return copy(stripline_publisher_send, samples, &options);
    }

    /// Sends like `send`, but does not wait for room: either all receivers get the packet, or none.
    result<void> try_send(span<const T> samples, const std::nothrow_t &) {
        return copy(stripline_publisher_try_send, samples, nullptr);
    }
    result<void> try_send(span<const T> samples, const send_options &options, const std::nothrow_t &) {
        return copy(stripline_publisher_try_send, samples, &options);
    }

    /// Sends `packets` packets of `samples` samples each. The writer gets the index of each packet,
    /// from 0, and the memory for the samples, as a `span<T>`. The effect equals a loan and a send
    /// in a loop, at a lower cost for each packet.
    ///
    /// The writer returns nothing, or a result<void>. If it throws or fails, the packet is not
    /// sent, and the call ends. The form with exceptions throws the exception again. The packets
    /// before stay sent: their number is the increase of `sequence`. Blocks and fails like `send`,
    /// for each packet.
    template <class Writer>
    result<void> send_many(std::size_t packets, std::size_t samples, Writer &&writer, const std::nothrow_t &) {
        using value = std::invoke_result_t<Writer &, std::size_t, span<T>>;
        static_assert(!std::is_same_v<value, next>, "stripline: a writer returns nothing, or a result<void>");
        struct context {
            std::remove_reference_t<Writer> &writer;
            std::size_t samples;
            detail::callback_outcome outcome;
        } sending{writer, samples, {}};
        const auto write = [](void *given, std::size_t index, void *place) noexcept {
            auto &self = *static_cast<context *>(given);
            return detail::run_callback(
                self.outcome, self.writer, index, span<T>(static_cast<T *>(place), self.samples));
        };
        auto done = detail::outcome(handle_, [&](auto error) {
            return stripline_publisher_send_many(handle_, packets, samples, write, &sending, error);
        });
        return sending.outcome.reason.code() == status::ok ? std::move(done) : std::move(sending.outcome.reason);
    }

    /// Sets the description of the samples that follow. The call allocates memory. Fails for an
    /// invalid description. With another `id`, the sample index begins at 0. With other rows,
    /// frames or channels of the same `id`, the index goes on at the next multiple of the frame.
    result<void> set_stream(const stream_description &stream, const std::nothrow_t &) {
        for (const std::string *text : {&stream.id, &stream.more}) {
            if (auto failed = detail::check_text(*text, "the description of the stream")) {
                return std::move(*failed);
            }
        }
        stripline_stream_description from{};
        from.size = sizeof from;
        from.id = stream.id.empty() ? nullptr : stream.id.c_str();
        from.more = stream.more.empty() ? nullptr : stream.more.c_str();
        if (stream.sample_rate_hz) {
            from.set |= STRIPLINE_STREAM_SET_SAMPLE_RATE;
            from.sample_rate_hz = *stream.sample_rate_hz;
        }
        if (stream.center_frequency_hz) {
            from.set |= STRIPLINE_STREAM_SET_CENTER_FREQUENCY;
            from.center_frequency_hz = *stream.center_frequency_hz;
        }
        if (stream.row_length) {
            from.set |= STRIPLINE_STREAM_SET_ROW_LENGTH;
            from.row_length = *stream.row_length;
        }
        if (stream.frame_rows) {
            from.set |= STRIPLINE_STREAM_SET_FRAME_ROWS;
            from.frame_rows = *stream.frame_rows;
        }
        if (stream.clock) {
            from.clock_reference = static_cast<std::uint32_t>(stream.clock->reference);
            if (stream.clock->error_ns) {
                from.set |= STRIPLINE_STREAM_SET_CLOCK_ERROR;
                from.clock_error_ns = *stream.clock->error_ns;
            }
        }
        std::vector<stripline_axis> axes;
        for (const axis &of : stream.axes) {
            if (auto failed = detail::check_text(of.unit, "the unit of an axis")) {
                return std::move(*failed);
            }
            axes.push_back({of.start, of.step, of.unit.c_str()});
        }
        from.axis_count = static_cast<std::uint32_t>(axes.size());
        from.axes = axes.data();
        return detail::outcome(
            handle_, [&](auto error) { return stripline_publisher_set_stream(handle_, &from, error); });
    }

    /// Returns the number of receivers that are connected now.
    result<std::size_t> receivers(const std::nothrow_t &) {
        return number<std::size_t>(stripline_publisher_receivers);
    }

    /// Waits until at least `count` receivers are connected. Without a timeout, it waits without
    /// end. The value is false if they are not connected in time.
    result<bool> wait_for_receivers(std::size_t count, const std::nothrow_t &) {
        return wait(count, STRIPLINE_FOREVER);
    }
    template <class Rep, class Period>
    result<bool> wait_for_receivers(
        std::size_t count, std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        return wait(count, detail::timeout_ns(timeout));
    }

    /// Makes a waker, which ends waits for room, for receivers and for acknowledgements.
    result<stripline::waker> waker(const std::nothrow_t &) {
        return stripline::waker::of(handle_, stripline_publisher_waker);
    }

    /// Returns a descriptor for `poll`, epoll or a toolkit, like a subscriber's.
    result<int> ready_descriptor(const std::nothrow_t &) {
        return detail::ready_descriptor(handle_, stripline_publisher_ready_descriptor);
    }

    /// Makes the descriptor ready once there may be room for a packet of `samples` samples, or an
    /// error. False: there is room already. Call this each time before the loop waits, after a
    /// `try_send` or `try_loan` that found no room. Never blocks.
    result<bool> arm(std::size_t samples, const std::nothrow_t &) {
        return detail::arm(
            handle_, [&](auto error) { return stripline_publisher_arm(handle_, samples, error); });
    }

    /// Makes the descriptor ready once at least `count` receivers may be connected. The call
    /// replaces an earlier `arm`. False: they are connected already.
    result<bool> arm_for_receivers(std::size_t count, const std::nothrow_t &) {
        return detail::arm(handle_, [&](auto error) {
            return stripline_publisher_arm_for_receivers(handle_, count, error);
        });
    }

    /// Returns the number of the next packet.
    result<std::uint64_t> sequence(const std::nothrow_t &) {
        return number<std::uint64_t>(stripline_publisher_sequence);
    }

    /// Returns the maximum number of samples in a packet.
    result<std::size_t> samples_max(const std::nothrow_t &) {
        return number<std::size_t>(stripline_publisher_samples_max);
    }

    /// Returns the maximum number of samples in a packet that is written in place and sent without
    /// waiting.
    result<std::size_t> samples_in_place(const std::nothrow_t &) {
        return number<std::size_t>(stripline_publisher_samples_in_place);
    }

    /// Ends the stream, and blocks until the remaining packets have left the process. Later calls
    /// fail with status::port. Fails with status::full if a receiver does not take the packets in
    /// time.
    result<void> finish(const std::nothrow_t &) { return finish_ns(STRIPLINE_FOREVER); }
    template <class Rep, class Period>
    result<void> finish(std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        return finish_ns(detail::timeout_ns(timeout));
    }

    /// Disconnects without an end of stream. Receivers get all packets that were sent, and then
    /// wait for another publisher. Later calls fail with status::port.
    result<void> abandon(const std::nothrow_t &) {
        return detail::outcome(
            handle_, [&](auto error) { return stripline_publisher_abandon(handle_, error); });
    }

#if STRIPLINE_EXCEPTIONS
    stripline::loan<T> loan(std::size_t samples) { return require_loan(stripline_publisher_loan, samples); }
    stripline::loan<T> try_loan(std::size_t samples) {
        return require_loan(stripline_publisher_try_loan, samples);
    }
    void send(span<const T> samples) { send(samples, std::nothrow).value(); }
    void send(span<const T> samples, const send_options &options) {
        send(samples, options, std::nothrow).value();
    }
    void try_send(span<const T> samples) { try_send(samples, std::nothrow).value(); }
    void try_send(span<const T> samples, const send_options &options) {
        try_send(samples, options, std::nothrow).value();
    }
    template <class Writer>
    void send_many(std::size_t packets, std::size_t samples, Writer &&writer) {
        send_many(packets, samples, std::forward<Writer>(writer), std::nothrow).value();
    }
    void set_stream(const stream_description &stream) { set_stream(stream, std::nothrow).value(); }
    std::size_t receivers() { return receivers(std::nothrow).value(); }
    bool wait_for_receivers(std::size_t count) { return wait_for_receivers(count, std::nothrow).value(); }
    template <class Rep, class Period>
    bool wait_for_receivers(std::size_t count, std::chrono::duration<Rep, Period> timeout) {
        return wait_for_receivers(count, timeout, std::nothrow).value();
    }
    stripline::waker waker() { return waker(std::nothrow).value(); }
    int ready_descriptor() { return ready_descriptor(std::nothrow).value(); }
    bool arm(std::size_t samples) { return arm(samples, std::nothrow).value(); }
    bool arm_for_receivers(std::size_t count) { return arm_for_receivers(count, std::nothrow).value(); }
    std::uint64_t sequence() { return sequence(std::nothrow).value(); }
    std::size_t samples_max() { return samples_max(std::nothrow).value(); }
    std::size_t samples_in_place() { return samples_in_place(std::nothrow).value(); }
    void finish() { finish(std::nothrow).value(); }
    template <class Rep, class Period>
    void finish(std::chrono::duration<Rep, Period> timeout) {
        finish(timeout, std::nothrow).value();
    }
    void abandon() { abandon(std::nothrow).value(); }
#endif

    /// Returns the handle for the C functions. The publisher keeps ownership.
    stripline_publisher *c_handle() const noexcept { return handle_; }

private:
    explicit publisher(stripline_publisher *handle) noexcept : handle_(handle) {}

    template <class Function>
    result<stripline::loan<T>> lend(Function function, std::size_t samples) {
        void *memory = nullptr;
        stripline_loan *lent = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return function(handle_, samples, &memory, &lent, error);
            })) {
            return std::move(*failed);
        }
        return stripline::loan<T>(lent, memory, samples);
    }
#if STRIPLINE_EXCEPTIONS
    template <class Function>
    stripline::loan<T> require_loan(Function function, std::size_t samples) {
        void *memory = nullptr;
        stripline_loan *lent = nullptr;
        detail::require(handle_, [&](auto error) { return function(handle_, samples, &memory, &lent, error); });
        return stripline::loan<T>(lent, memory, samples);
    }
#endif
    template <class Function>
    result<void> copy(Function function, span<const T> samples, const send_options *options) {
        stripline_send_options from{};
        if (options != nullptr) {
            from = detail::c_options(*options);
        }
        return detail::outcome(handle_, [&](auto error) {
            return function(handle_, samples.data(), samples.size(), options == nullptr ? nullptr : &from, error);
        });
    }
    template <class Number, class Function>
    result<Number> number(Function function) {
        return detail::number<Number>(
            handle_, [&](Number *found, auto error) { return function(handle_, found, error); });
    }
    result<bool> wait(std::size_t count, std::int64_t timeout_ns) {
        bool is_there = false;
        if (auto failed = detail::call(handle_, [&](auto error) {
                const auto code = stripline_publisher_wait_for_receivers(handle_, count, timeout_ns, error);
                is_there = code == STRIPLINE_OK;
                return code;
            })) {
            return std::move(*failed);
        }
        return is_there;
    }
    result<void> finish_ns(std::int64_t timeout_ns) {
        return detail::outcome(
            handle_, [&](auto error) { return stripline_publisher_finish(handle_, timeout_ns, error); });
    }
    void end() noexcept {
        if (handle_ == nullptr) {
            return;
        }
#if STRIPLINE_EXCEPTIONS
        if (std::uncaught_exceptions() > exceptions_) {
            stripline_publisher_abandon(handle_, nullptr);
        }
#endif
        stripline_publisher_free(std::exchange(handle_, nullptr));
    }

    stripline_publisher *handle_;
#if STRIPLINE_EXCEPTIONS
    // The number of exceptions that were already unwinding when the publisher was made, perhaps in
    // a destructor.
    int exceptions_ = std::uncaught_exceptions();
#endif
    friend class node;
    friend struct detail::access;
};

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
