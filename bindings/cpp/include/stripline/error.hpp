/// @file
/// Outcomes of calls: statuses, failures, results and exceptions.
#ifndef STRIPLINE_ERROR_HPP
#define STRIPLINE_ERROR_HPP

#include "config.hpp"
#include "span.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The outcome of a call, with the numbers and meanings of `stripline.h`. 0 is success, a negative
/// number is no error. A later library may return a number that is not here.
enum class status : std::int32_t {
    ok = STRIPLINE_OK,
    empty = STRIPLINE_EMPTY,
    ended = STRIPLINE_ENDED,
    stopped = STRIPLINE_STOPPED,
    full = STRIPLINE_FULL,
    stalled = STRIPLINE_STALLED,
    too_large = STRIPLINE_TOO_LARGE,
    ejected = STRIPLINE_EJECTED,
    unsupported = STRIPLINE_UNSUPPORTED,
    peer_misbehaved = STRIPLINE_PEER_MISBEHAVED,
    refused = STRIPLINE_REFUSED,
    port = STRIPLINE_PORT,
    decode = STRIPLINE_DECODE,
    handler = STRIPLINE_HANDLER,
    unanswered = STRIPLINE_UNANSWERED,
    receiver_gone = STRIPLINE_RECEIVER_GONE,
    packet_refused = STRIPLINE_PACKET_REFUSED,
    window_overflow = STRIPLINE_WINDOW_OVERFLOW,
    duplicate_packet = STRIPLINE_DUPLICATE_PACKET,
    system = STRIPLINE_SYSTEM,
    forked = STRIPLINE_FORKED,
    invalid_properties = STRIPLINE_INVALID_PROPERTIES,
    failed = STRIPLINE_FAILED,
    too_many_held = STRIPLINE_TOO_MANY_HELD,
    interrupted = STRIPLINE_INTERRUPTED,
    user_error = STRIPLINE_USER_ERROR,
    no_server = STRIPLINE_NO_SERVER,
    call_unanswered = STRIPLINE_CALL_UNANSWERED,
    server_gone = STRIPLINE_SERVER_GONE,
    call_cancelled = STRIPLINE_CALL_CANCELLED,
    too_many_calls = STRIPLINE_TOO_MANY_CALLS,
    reply_decode = STRIPLINE_REPLY_DECODE,
    unknown_operation = STRIPLINE_UNKNOWN_OPERATION,
    wrong_type = STRIPLINE_WRONG_TYPE,
    handler_panicked = STRIPLINE_HANDLER_PANICKED,
    deadline_passed = STRIPLINE_DEADLINE_PASSED,
    cancelled_early = STRIPLINE_CANCELLED_EARLY,
    overloaded = STRIPLINE_OVERLOADED,
    call_cycle = STRIPLINE_CALL_CYCLE,
    reply_failed = STRIPLINE_REPLY_FAILED,
    invalid_argument = STRIPLINE_INVALID_ARGUMENT,
    panicked = STRIPLINE_PANICKED,
    in_use = STRIPLINE_IN_USE,
};

/// Returns the word of a status in lower case, as `too-large`.
inline std::string_view word(status code) noexcept {
    return detail::view(stripline_status_word(static_cast<std::int32_t>(code)));
}

/// Returns what usually mends a status, in one sentence; empty where there is nothing to mend.
inline std::string_view remedy(status code) noexcept {
    return detail::view(stripline_status_remedy(static_cast<std::int32_t>(code)));
}

/// The description of a failed call: what failed, where, and the remedy. Copies share it.
class failure {
public:
    /// No failure: its code is status::ok.
    failure() noexcept = default;

    /// A failure in the program's own words, for example of a handler.
    failure(status code, std::string message) : code_(code), about_(std::make_shared<about>()) {
        about_->message = std::move(message);
    }

    /// The status that the call returned.
    status code() const noexcept { return code_; }

    /// One sentence that names what failed, where, and the remedy.
    const char *message() const noexcept { return about_ == nullptr ? "" : about_->message.c_str(); }

    /// What usually mends a failure of this code.
    std::string_view remedy() const noexcept { return STRIPLINE_VARIANT::remedy(code_); }

    /// The connection, or the other end, that the failure is about, as `from -> to`; or empty.
    const char *connection() const noexcept {
        return about_ == nullptr ? "" : about_->connection.c_str();
    }

    /// The number that the operating system gave (`errno`), or 0.
    int os_code() const noexcept { return about_ == nullptr ? 0 : about_->os_code; }

    /// Whether the packet or the call of an interrupted wait was sent.
    bool is_sent() const noexcept { return about_ != nullptr && about_->is_sent; }

    /// The bytes of an operation's own error (status::user_error); otherwise empty.
    span<const std::uint8_t> user_error() const noexcept {
        if (about_ == nullptr) {
            return {};
        }
        return span<const std::uint8_t>(about_->user_error.data(), about_->user_error.size());
    }

#if STRIPLINE_EXCEPTIONS
    /// The exception of a handler that ended the call, or null.
    std::exception_ptr thrown() const noexcept { return about_ == nullptr ? nullptr : about_->thrown; }
#endif

private:
    struct about {
        std::string message;
        std::string connection;
        int os_code = 0;
        bool is_sent = false;
        std::vector<std::uint8_t> user_error;
#if STRIPLINE_EXCEPTIONS
        std::exception_ptr thrown;
#endif
    };

    status code_ = status::ok;
    std::shared_ptr<about> about_;

    friend struct failure_maker;
};

#if STRIPLINE_EXCEPTIONS

/// What all functions without `std::nothrow` throw. `what` has the remedy, too.
class error : public std::exception {
public:
    explicit error(failure of) noexcept : failure_(std::move(of)) {}

    const char *what() const noexcept override { return failure_.message(); }
    status code() const noexcept { return failure_.code(); }
    const char *connection() const noexcept { return failure_.connection(); }
    std::string_view remedy() const noexcept { return failure_.remedy(); }
    int os_code() const noexcept { return failure_.os_code(); }
    /// The same as a value.
    const failure &reason() const noexcept { return failure_; }

private:
    failure failure_;
};

/// The node was stopped (status::stopped).
class stopped_error : public error {
    using error::error;
};
/// A receiver has no room (status::full, status::stalled). Nothing was sent.
class no_room_error : public error {
    using error::error;
};
/// The scope of a send was not reached (status::unanswered, receiver_gone, packet_refused). The
/// packet stays sent.
class not_acknowledged_error : public error {
    using error::error;
};
/// All packets that may be out are out (status::too_many_held). Nothing is lost.
class too_many_held_error : public error {
    using error::error;
};
/// The receiver fell behind, and its policy is `eject` (status::ejected).
class ejected_error : public error {
    using error::error;
};
/// The other end broke the protocol (status::peer_misbehaved). Receiving may go on.
class peer_error : public error {
    using error::error;
};
/// The program made a mistake: an argument, or a call in the wrong order (status::invalid_argument,
/// port, in_use, too_large, unsupported).
class usage_error : public error {
    using error::error;
};
/// A waker ended the wait (status::interrupted). Nothing is lost, and the call can be repeated.
class interrupted_error : public error {
    using error::error;
};
/// An operation has failed with its own error (status::user_error). Its bytes are in `reason`.
class user_error : public error {
    using error::error;
};
/// A call was not carried out, or its reply did not arrive (status::no_server up to reply_failed).
class call_error : public error {
    using error::error;
};
/// The operating system reported an error (status::system); `os_code` has its number.
class system_error : public error {
    using error::error;
};

#endif

/// @cond
namespace detail {
constexpr const char *is_empty =
    "the object is empty: it was moved from, or closed before; use the one it was moved to";
}

struct failure_maker {
    /// Makes the failure of a C call. `handle` is what it was called with: null if it was moved.
    [[gnu::cold, gnu::noinline]] static failure of(
        stripline_status code, const detail::c_error &from, const void *handle) {
        failure made;
        made.code_ = static_cast<status>(code);
        made.about_ = std::make_shared<failure::about>();
        failure::about &about = *made.about_;
        const bool is_moved = handle == nullptr && made.code_ == status::invalid_argument;
        if (is_moved) {
            about.message = detail::is_empty;
        } else if (from.get() != nullptr) {
            about.message = stripline_error_message(from.get());
            about.connection = stripline_error_connection(from.get());
            about.os_code = stripline_error_os_code(from.get());
            about.is_sent = stripline_error_is_sent(from.get()) != 0;
        } else {
            about.message = word(made.code_);
        }
        return made;
    }
    /// Adds the bytes of an operation's own error.
    static void put_user_error(failure &into, const std::uint8_t *bytes, std::size_t count) {
        into.about_->user_error.assign(bytes, bytes + count);
    }
    /// The same, and frees the error.
    [[gnu::cold, gnu::noinline]] static failure taking(
        stripline_status code, stripline_error *error, const void *handle) {
        return of(code, detail::c_error(error), handle);
    }
#if STRIPLINE_EXCEPTIONS
    [[gnu::cold, gnu::noinline]] static failure of(
        status code, std::string message, std::exception_ptr thrown) {
        failure made(code, std::move(message));
        made.about_->thrown = std::move(thrown);
        return made;
    }
#endif
};

namespace detail {

#if STRIPLINE_EXCEPTIONS
/// Throws a failure as its class; the exception of a handler as itself.
[[noreturn, gnu::cold, gnu::noinline]] inline void raise(const failure &reason) {
    if (reason.thrown() != nullptr) {
        std::rethrow_exception(reason.thrown());
    }
    switch (reason.code()) {
        case status::stopped: throw stopped_error(reason);
        case status::full:
        case status::stalled: throw no_room_error(reason);
        case status::unanswered:
        case status::receiver_gone:
        case status::packet_refused: throw not_acknowledged_error(reason);
        case status::too_many_held: throw too_many_held_error(reason);
        case status::ejected: throw ejected_error(reason);
        case status::peer_misbehaved: throw peer_error(reason);
        case status::invalid_argument:
        case status::port:
        case status::in_use:
        case status::too_large:
        case status::unsupported: throw usage_error(reason);
        case status::system: throw system_error(reason);
        case status::interrupted: throw interrupted_error(reason);
        case status::user_error: throw user_error(reason);
        case status::no_server:
        case status::call_unanswered:
        case status::server_gone:
        case status::call_cancelled:
        case status::too_many_calls:
        case status::reply_decode:
        case status::unknown_operation:
        case status::wrong_type:
        case status::handler_panicked:
        case status::deadline_passed:
        case status::cancelled_early:
        case status::overloaded:
        case status::call_cycle:
        case status::reply_failed: throw call_error(reason);
        default: throw error(reason);
    }
}
#else
/// Ends the program: a result without a value was used as if it had one.
[[noreturn, gnu::cold, gnu::noinline]] inline void raise(const failure &reason) {
    std::fprintf(stderr, "stripline: a result without a value was used: %s\n", reason.message());
    std::abort();
}
#endif

/// Runs a C call; returns the failure if its status is one. `handle` is what it is called with.
template <class Call>
std::optional<failure> call(const void *handle, Call &&run) {
    stripline_error *error = nullptr;
    const stripline_status code = run(&error);
    if (code > 0) {
        return failure_maker::taking(code, error, handle);
    }
    return std::nullopt;
}

#if STRIPLINE_EXCEPTIONS
[[noreturn, gnu::cold, gnu::noinline]] inline void raise_taking(
    stripline_status code, stripline_error *error, const void *handle) {
    raise(failure_maker::taking(code, error, handle));
}

/// Runs a C call on the way of a packet, and throws its failure. There is no result in between.
template <class Call>
stripline_status require(const void *handle, Call &&run) {
    stripline_error *error = nullptr;
    const stripline_status code = run(&error);
    if (code > 0) {
        raise_taking(code, error, handle);
    }
    return code;
}
#endif

[[gnu::cold, gnu::noinline]] inline failure empty_object() {
    return failure(status::invalid_argument, is_empty);
}

/// Checks that a text for C has no NUL, behind which C would not read.
inline std::optional<failure> check_text(const std::string &text, const char *what) {
    if (text.find('\0') == std::string::npos) {
        return std::nullopt;
    }
    return failure(status::invalid_argument, std::string(what) + " has a NUL byte; leave it out");
}

}  // namespace detail
/// @endcond

/// The value of a call, or its failure.
///
/// A value that is not there is never given out: that throws the failure, and in a program without
/// exceptions it prints the failure and aborts.
template <class T>
class [[nodiscard]] result {
public:
    result(T value) noexcept(std::is_nothrow_move_constructible_v<T>) : value_(std::move(value)) {}
    result(failure reason) noexcept : failure_(std::move(reason)) {}

    bool has_value() const noexcept { return value_.has_value(); }
    explicit operator bool() const noexcept { return value_.has_value(); }

    T &value() & { return check(), *value_; }
    const T &value() const & { return check(), *value_; }
    T value() && { return check(), std::move(*value_); }
    T &operator*() & { return value(); }
    const T &operator*() const & { return value(); }
    T operator*() && { return std::move(*this).value(); }
    T *operator->() { return &value(); }
    const T *operator->() const { return &value(); }

    /// The failure; its code is status::ok where there is a value.
    const failure &error() const noexcept { return failure_; }
    /// The code of the failure, or status::ok.
    status code() const noexcept { return failure_.code(); }

private:
    void check() const {
        if (!value_.has_value()) {
            detail::raise(failure_);
        }
    }

    std::optional<T> value_;
    failure failure_;
};

/// The outcome of a call without a value: done, or its failure.
template <>
class [[nodiscard]] result<void> {
public:
    result() noexcept = default;
    result(failure reason) noexcept : failure_(std::move(reason)) {}

    bool has_value() const noexcept { return failure_.code() == status::ok; }
    explicit operator bool() const noexcept { return has_value(); }
    /// Throws the failure, if there is one; without exceptions, prints it and aborts.
    void value() const {
        if (!has_value()) {
            detail::raise(failure_);
        }
    }
    const failure &error() const noexcept { return failure_; }
    status code() const noexcept { return failure_.code(); }

private:
    failure failure_;
};

/// @cond
namespace detail {

/// Runs a C call that gives no value.
template <class Call>
result<void> outcome(const void *handle, Call &&run) {
    if (auto failed = call(handle, run)) {
        return std::move(*failed);
    }
    return {};
}

/// Runs a C call that writes a number.
template <class Number, class Call>
result<Number> number(const void *handle, Call &&run) {
    Number found{};
    if (auto failed = call(handle, [&](auto error) { return run(&found, error); })) {
        return std::move(*failed);
    }
    return found;
}

}  // namespace detail
/// @endcond

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
