/// @file
/// Times and timeouts of `std::chrono`.
#ifndef STRIPLINE_TIME_HPP
#define STRIPLINE_TIME_HPP

#include "config.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// A time of day, in nanoseconds.
using time_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

/// A time of the host's monotonic clock, which all processes of the host share.
using monotonic_point = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

/// @cond
namespace detail {

inline std::optional<monotonic_point> monotonic(std::uint64_t ns) noexcept {
    if (ns == 0) {
        return std::nullopt;
    }
    return monotonic_point(std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
}

/// Converts a timeout for C, rounded up. A negative timeout has already passed, and a timeout out
/// of range has no end.
template <class Rep, class Period>
std::int64_t timeout_ns(std::chrono::duration<Rep, Period> timeout) noexcept {
    using seconds = std::chrono::duration<double>;
    // The condition is also true for a NaN.
    if (!(timeout > timeout.zero())) {
        return 0;
    }
    if (std::chrono::duration_cast<seconds>(timeout).count() >= 9e9) {
        return STRIPLINE_FOREVER;
    }
    return std::chrono::ceil<std::chrono::nanoseconds>(timeout).count();
}

template <class Clock, class Duration>
std::int64_t timeout_ns(std::chrono::time_point<Clock, Duration> deadline) noexcept {
    if (deadline == std::chrono::time_point<Clock, Duration>::max()) {
        return STRIPLINE_FOREVER;
    }
    const auto now = Clock::now();
    // The comparison comes first, because the difference to a time far in the past would overflow.
    return deadline > now ? timeout_ns(deadline - now) : 0;
}

}  // namespace detail
/// @endcond

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
