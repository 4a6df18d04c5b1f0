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

/// The outcome of a call, with the numbers and meanings of `stripline.h`. 0 is success, and a
/// negative number is not an error. A later library may return a number that is not listed here.
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
    configuration = STRIPLINE_CONFIGURATION,
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

/// Returns the word of a status in lower case, such as `too-large`.
inline std::string_view word(status code) noexcept {
    return detail::view(stripline_status_word(static_cast<std::int32_t>(code)));
}

/// Returns the usual remedy for a status, in one sentence; empty if nothing needs a remedy.
inline std::string_view remedy(status code) noexcept {
    return detail::view(stripline_status_remedy(static_cast<std::int32_t>(code)));
}

/// The description of a failed call: what failed, where, and the remedy. Copies share the
/// description.
class failure {
public:
    /// Makes an empty failure, with the code status::ok.
    failure() noexcept = default;

    /// Makes a failure with a message of the program, for example in a handler.
    failure(status code, std::string message) : code_(code), about_(std::make_shared<about>()) {
        about_->message = std::move(message);
    }

    /// Returns the status of the call.
    status code() const noexcept { return code_; }

    /// Returns one sentence that names the failure, the place and the remedy.
    const char *message() const noexcept { return about_ == nullptr ? "" : about_->message.c_str(); }

    /// Returns the usual remedy for a failure with this code.
    std::string_view remedy() const noexcept { return STRIPLINE_VARIANT::remedy(code_); }

    /// Returns the connection, or the peer, that the failure is about, as `from -> to`; or an empty
    /// text.
    const char *connection() const noexcept {
        return about_ == nullptr ? "" : about_->connection.c_str();
    }

    /// Returns the error number of the operating system (`errno`), or 0.
    int os_code() const noexcept { return about_ == nullptr ? 0 : about_->os_code; }

    /// Returns whether the packet or the call of an interrupted wait was sent.
    bool is_sent() const noexcept { return about_ != nullptr && about_->is_sent; }

    /// Returns the bytes of an operation's own error (status::user_error); otherwise empty.
    span<const std::uint8_t> user_error() const noexcept {
        if (about_ == nullptr) {
            return {};
        }
        return span<const std::uint8_t>(about_->user_error.data(), about_->user_error.size());
    }

#if STRIPLINE_EXCEPTIONS
    /// Returns the exception with which a handler ended the call, or null.
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

/// The base class of the exceptions that all functions without `std::nothrow` throw. `what` also
/// contains the remedy.
class error : public std::exception {
public:
    explicit error(failure from) noexcept : failure_(std::move(from)) {}

    const char *what() const noexcept override { return failure_.message(); }
    status code() const noexcept { return failure_.code(); }
    const char *connection() const noexcept { return failure_.connection(); }
    std::string_view remedy() const noexcept { return failure_.remedy(); }
    int os_code() const noexcept { return failure_.os_code(); }
    /// Returns the failure as a value.
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
/// All packets that may be held are in use (status::too_many_held). Nothing is lost.
class too_many_held_error : public error {
    using error::error;
};
/// The receiver fell behind, and its policy is `eject` (status::ejected).
class ejected_error : public error {
    using error::error;
};
/// The other end broke the protocol (status::peer_misbehaved). The program may continue to receive.
class peer_error : public error {
    using error::error;
};
/// The program made a mistake: an argument, or a call in the wrong order (status::invalid_argument,
/// port, in_use, too_large, unsupported).
class usage_error : public error {
    using error::error;
};
/// A setting does not fit (status::configuration, invalid_properties). The text names the setting.
class configuration_error : public error {
    using error::error;
};
/// A waker ended the wait (status::interrupted). Nothing is lost, and the call can be repeated.
class interrupted_error : public error {
    using error::error;
};
/// An operation has failed with its own error (status::user_error). `reason` contains the bytes.
class user_error : public error {
    using error::error;
};
/// A call was not run, or the reply did not arrive (status::no_server up to reply_failed).
class call_error : public error {
    using error::error;
};
/// The operating system or a middleware's library reported an error (status::system); `os_code`
/// returns the number of the system's error.
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
    /// Makes the failure of a C call. `handle` is the handle of the call: null if it was moved
    /// from.
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
    /// Makes the same failure, and frees the error.
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
/// Throws a failure as an exception of the matching class. If the failure has an exception from
/// a handler, throws that exception.
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
        case status::configuration:
        case status::invalid_properties: throw configuration_error(reason);
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
/// Ends the program, because a result without a value was used as if it had one.
[[noreturn, gnu::cold, gnu::noinline]] inline void raise(const failure &reason) {
    std::fprintf(stderr, "stripline: a result without a value was used: %s\n", reason.message());
    std::abort();
}
#endif

/// Runs a C call, and returns a failure if the call fails. `handle` is the handle of the call.
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

/// Runs a C call on the path of a packet, and throws an exception if it fails. The call needs no
/// result object.
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

/// Checks that a text for C has no NUL, because C would not read beyond it.
inline std::optional<failure> check_text(const std::string &text, const char *what) {
    if (text.find('\0') == std::string::npos) {
        return std::nullopt;
    }
    return failure(status::invalid_argument, std::string(what) + " has a NUL byte; leave it out");
}

}  // namespace detail
/// @endcond

/// The value of a call, or the failure.
///
/// A missing value is never returned: to read it throws the failure. In a program without
/// exceptions, it prints the failure and aborts.
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

    /// Returns the failure. If there is a value, the code is status::ok.
    const failure &error() const noexcept { return failure_; }
    /// Returns the code of the failure, or status::ok.
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

/// The outcome of a call without a value: success, or a failure.
template <>
class [[nodiscard]] result<void> {
public:
    result() noexcept = default;
    result(failure reason) noexcept : failure_(std::move(reason)) {}

    bool has_value() const noexcept { return failure_.code() == status::ok; }
    explicit operator bool() const noexcept { return has_value(); }
    /// Throws the failure, if there is one. Without exceptions, prints it and aborts.
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

/// Runs a C call that returns no value.
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
