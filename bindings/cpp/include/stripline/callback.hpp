/// @file
/// Functions of a program that C calls.
#ifndef STRIPLINE_CALLBACK_HPP
#define STRIPLINE_CALLBACK_HPP

#include "error.hpp"

#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The result of a handler: continue, or end the call that runs it.
enum class next { go_on, stop };

/// @cond
namespace detail {

/// The way in which functions of the program have ended a call. If nothing is set, they have not
/// ended it.
struct callback_outcome {
    bool is_stopped = false;
    failure reason;
};

template <class Function, class... Argument>
int32_t call_back(callback_outcome &into, Function &function, Argument &&...argument) {
    using value = std::invoke_result_t<Function &, Argument...>;
    if constexpr (std::is_void_v<value>) {
        function(std::forward<Argument>(argument)...);
    } else if constexpr (std::is_same_v<value, next>) {
        if (function(std::forward<Argument>(argument)...) == next::stop) {
            into.is_stopped = true;
            return STRIPLINE_STOPPED;
        }
    } else {
        static_assert(
            std::is_same_v<value, result<void>>,
            "stripline: a handler returns nothing, stripline::next, or stripline::result<void>");
        const result<void> done = function(std::forward<Argument>(argument)...);
        if (!done) {
            into.reason = done.error();
            return STRIPLINE_FAILED;
        }
    }
    return STRIPLINE_OK;
}

/// Runs a function of the program, and returns the number for C. No exception leaves it.
template <class Function, class... Argument>
int32_t run_callback(callback_outcome &into, Function &function, Argument &&...argument) noexcept {
#if STRIPLINE_EXCEPTIONS
    try {
        return call_back(into, function, std::forward<Argument>(argument)...);
    } catch (const std::exception &thrown) {
        into.reason = failure_maker::of(
            status::handler, std::string("a handler threw: ") + thrown.what(), std::current_exception());
    } catch (...) {
        into.reason = failure_maker::of(
            status::handler, "a handler threw something other than a std::exception", std::current_exception());
    }
    return STRIPLINE_FAILED;
#else
    return call_back(into, function, std::forward<Argument>(argument)...);
#endif
}

}  // namespace detail
/// @endcond

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
