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

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// How far a packet has come when its send returns (docs/glossary.md).
enum class scope : std::uint32_t { none = 0, transport = 1, server = 2, target = 3 };

/// Options of one packet. What is not set has the default of the connection.
struct send_options {
    /// The number of the packet's first sample; by default it continues the packet before.
    std::optional<std::uint64_t> sample_index;
    /// When the first sample was taken.
    std::optional<time_point> time;
    /// When the packet should have been sent.
    std::optional<monotonic_point> intended;
    /// When the send returns.
    std::optional<stripline::scope> scope;
    /// How long a receiver is waited for in scope::server and scope::target.
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
    /// Samples of a row, if the samples are rows of a table.
    std::optional<std::uint32_t> row_length;
    /// A JSON object with `axes`, `channels` and `keywords` (docs/wire.md); empty: none.
    std::string more;
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

/// Room for the samples of one packet, to be written in place. Ends without sending unless it is
/// sent. Move-only; belongs to the thread of its publisher, which has one loan at a time.
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

    /// The samples to write; the initial content is unspecified. Empty once the loan is closed.
    span<T> samples() noexcept { return span<T>(data_, size_); }
    T *data() noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    T *begin() noexcept { return data_; }
    T *end() noexcept { return data_ + size_; }
    T &operator[](std::size_t index) noexcept { return data_[index]; }

    /// Whether the loan is open: neither sent, cancelled nor moved from.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Sends the samples as a packet, and closes the loan, also when it fails. Blocks while a
    /// receiver with policy `block` has no room, and until the scope is reached.
    ///
    /// Fails with status::port if the publisher has ended, and as publisher::loan.
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

    /// Keeps only the first `samples` samples. A number above its own changes nothing.
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
/// node::publisher. Move-only; one thread at a time may use it.
///
/// Its end is the end of the stream: it blocks until the remaining packets have left the process,
/// ten seconds at most. While an exception unwinds it abandons the stream instead, which is then
/// not complete. A loan that is still open ends the stream when it is closed.
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

    /// Whether there is a publisher: it was not moved from.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Lends room for `samples` samples, which on shared memory is where the receivers read.
    /// Blocks while a receiver with policy `block` has no room.
    ///
    /// Fails with status::port while another loan is open or after the end of the stream, and with
    /// too_large, stalled, stopped and system.
    result<stripline::loan<T>> loan(std::size_t samples, const std::nothrow_t &) {
        return lend(stripline_publisher_loan, samples);
    }

    /// Lends room as `loan` does, without waiting. Fails with status::full if a receiver has no
    /// room, and with too_large above `samples_in_place`.
    result<stripline::loan<T>> try_loan(std::size_t samples, const std::nothrow_t &) {
        return lend(stripline_publisher_try_loan, samples);
    }

    /// Sends a copy of the samples as a packet. Blocks and fails as `loan` and loan::send.
    result<void> send(span<const T> samples, const std::nothrow_t &) {
        return copy(stripline_publisher_send, samples, nullptr);
    }
    result<void> send(span<const T> samples, const send_options &options, const std::nothrow_t &) {
        return copy(stripline_publisher_send, samples, &options);
    }

    /// Sends as `send` does, without waiting for room: all receivers get the packet, or none.
    result<void> try_send(span<const T> samples, const std::nothrow_t &) {
        return copy(stripline_publisher_try_send, samples, nullptr);
    }
    result<void> try_send(span<const T> samples, const send_options &options, const std::nothrow_t &) {
        return copy(stripline_publisher_try_send, samples, &options);
    }

    /// Sends `packets` packets of `samples` samples each. The writer gets the index of each packet,
    /// from 0, and its samples to write, as a `span<T>`. It is a loan and a send in a loop, and costs
    /// less for each packet.
    ///
    /// It returns nothing, or a result<void>. If it throws or fails, its packet is not sent, and
    /// the call ends: the form with exceptions throws it again. Those before stay sent: the
    /// increase of `sequence` is their number. Blocks and fails as `send`, for each packet.
    template <class Writer>
    result<void> send_many(std::size_t packets, std::size_t samples, Writer &&writer, const std::nothrow_t &) {
        using value = std::invoke_result_t<Writer &, std::size_t, span<T>>;
        static_assert(!std::is_same_v<value, next>, "stripline: a writer returns nothing, or a result<void>");
        struct context {
            std::remove_reference_t<Writer> &writer;
            std::size_t samples;
            detail::callback_outcome outcome;
        } with{writer, samples, {}};
        const auto write = [](void *given, std::size_t index, void *place) noexcept {
            auto &self = *static_cast<context *>(given);
            return detail::run_callback(
                self.outcome, self.writer, index, span<T>(static_cast<T *>(place), self.samples));
        };
        auto done = detail::outcome(handle_, [&](auto error) {
            return stripline_publisher_send_many(handle_, packets, samples, write, &with, error);
        });
        return with.outcome.reason.code() == status::ok ? std::move(done) : std::move(with.outcome.reason);
    }

    /// Sets the description of the samples that follow. It allocates. Fails for a mistake in it.
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
        return detail::outcome(
            handle_, [&](auto error) { return stripline_publisher_set_stream(handle_, &from, error); });
    }

    /// The number of receivers that are connected now.
    result<std::size_t> receivers(const std::nothrow_t &) {
        return number<std::size_t>(stripline_publisher_receivers);
    }

    /// Waits until at least `count` receivers are connected. Without a timeout it waits without
    /// end. The value is false if they are not there in time.
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

    /// A descriptor for `poll`, epoll or a toolkit, as that of a subscriber.
    result<int> ready_descriptor(const std::nothrow_t &) {
        return detail::ready_descriptor(handle_, stripline_publisher_ready_descriptor);
    }

    /// Makes the descriptor ready once there may be room for a packet of `samples` samples, or an
    /// error. False: there is room already. Call this each time before the loop waits, after a
    /// `try_send` or `try_loan` without room. Never blocks.
    result<bool> arm(std::size_t samples, const std::nothrow_t &) {
        return detail::arm(
            handle_, [&](auto error) { return stripline_publisher_arm(handle_, samples, error); });
    }

    /// Makes the descriptor ready once at least `count` receivers may be connected, in place of
    /// what `arm` has prepared. False: they are already.
    result<bool> arm_for_receivers(std::size_t count, const std::nothrow_t &) {
        return detail::arm(handle_, [&](auto error) {
            return stripline_publisher_arm_for_receivers(handle_, count, error);
        });
    }

    /// The number of the next packet.
    result<std::uint64_t> sequence(const std::nothrow_t &) {
        return number<std::uint64_t>(stripline_publisher_sequence);
    }

    /// The most samples that a packet can have.
    result<std::size_t> samples_max(const std::nothrow_t &) {
        return number<std::size_t>(stripline_publisher_samples_max);
    }

    /// The most samples of a packet that is written in place and sent without waiting.
    result<std::size_t> samples_in_place(const std::nothrow_t &) {
        return number<std::size_t>(stripline_publisher_samples_in_place);
    }

    /// Ends the stream, and blocks until the remaining packets have left the process. Later calls
    /// fail with status::port. Fails with status::full if a receiver does not take them in time.
    result<void> finish(const std::nothrow_t &) { return finish_ns(STRIPLINE_FOREVER); }
    template <class Rep, class Period>
    result<void> finish(std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        return finish_ns(detail::timeout_ns(timeout));
    }

    /// Leaves without an end of stream. Receivers get all packets that were sent, and wait for
    /// another publisher. Later calls fail with status::port.
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

    /// The handle of the C functions. It stays the publisher's.
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
    // Those that unwound already when it was made, by a destructor.
    int exceptions_ = std::uncaught_exceptions();
#endif
    friend class node;
    friend struct detail::access;
};

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
