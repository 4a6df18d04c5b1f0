/// @file
/// The log of the library, for a function of the program.
#ifndef STRIPLINE_LOG_HPP
#define STRIPLINE_LOG_HPP

#include "error.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The level of a record of the log.
enum class log_level : std::int32_t {
    /// An error that ends a service of this process.
    error = 1,
    /// A condition of another process.
    warn = 2,
    info = 3,
    debug = 4,
    trace = 5,
};

/// A function that gets the records of the log: level, part of the library, and text. Both texts
/// are valid until it returns. The library calls it on any thread, on several at once, and
/// sometimes with a lock of the library held. The function must not call this library. Exceptions
/// are caught and dropped.
using log_function = std::function<void(log_level, std::string_view, std::string_view)>;

/// @cond
namespace detail {

struct log_state {
    std::mutex lock;
    std::unique_ptr<log_function> function;

    static log_state &get() {
        // The state is never destroyed: other threads write to the log while the program ends.
        static log_state &state = *new log_state;
        return state;
    }
    static bool &is_inside() noexcept {
        thread_local bool inside = false;
        return inside;
    }
};

// C calls this function, so no exception may leave it.
inline void log_record(void *context, int32_t level, stripline_text target, stripline_text text) noexcept {
    const auto &function = *static_cast<const log_function *>(context);
    log_state::is_inside() = true;
#if STRIPLINE_EXCEPTIONS
    try {
        function(static_cast<log_level>(level), view(target), view(text));
    } catch (...) {
    }
#else
    function(static_cast<log_level>(level), view(target), view(text));
#endif
    log_state::is_inside() = false;
}

}  // namespace detail
/// @endcond

/// Sets the function that gets the records of the log, up to a level. The process has one such
/// function. A second call replaces it, and an empty function removes it. Errors that no call can
/// return go only to the log.
///
/// Blocks until the previous function has returned; it is not called again. Fails with
/// status::in_use within the function.
inline result<void> set_log(log_level level, log_function function, const std::nothrow_t &) {
    if (detail::log_state::is_inside()) {
        return failure(status::in_use, "the log's own function cannot replace it; do so outside of it");
    }
    detail::log_state &state = detail::log_state::get();
    const std::lock_guard<std::mutex> guard(state.lock);
    auto next = function ? std::make_unique<log_function>(std::move(function)) : nullptr;
    auto done = detail::outcome(&state, [&](auto error) {
        return stripline_log_set(
            next == nullptr ? nullptr : detail::log_record, next.get(), static_cast<std::int32_t>(level), error);
    });
    if (done) {
        state.function = std::move(next);
    }
    return done;
}

#if STRIPLINE_EXCEPTIONS
inline void set_log(log_level level, log_function function) {
    set_log(level, std::move(function), std::nothrow).value();
}
#endif

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
