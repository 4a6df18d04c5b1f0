/// @file
/// Wakers, which end waits from other threads.
#ifndef STRIPLINE_WAKER_HPP
#define STRIPLINE_WAKER_HPP

#include "error.hpp"

#include <cstdint>
#include <utility>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// Ends waits of one publisher, subscriber, client or server: the one under way, or else the next.
/// That call fails with status::interrupted, and can be repeated: nothing is lost. Move-only.
class waker {
public:
    waker(waker &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
    waker &operator=(waker &&from) noexcept {
        if (this != &from) {
            stripline_waker_free(handle_);
            handle_ = std::exchange(from.handle_, nullptr);
        }
        return *this;
    }
    ~waker() { stripline_waker_free(handle_); }

    /// Whether there is a waker: it was not moved from.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Ends one wait. Never blocks, from any thread and from a signal handler. It has no effect
    /// where the object that it belongs to is gone, nor on a waker that was moved from.
    void wake() const noexcept {
        if (handle_ != nullptr) {
            stripline_waker_wake(handle_, nullptr);
        }
    }

    /// @cond
    /// Makes one by a C function.
    template <class Handle>
    static result<waker> of(
        Handle *handle, stripline_status (*make)(Handle *, stripline_waker **, stripline_error **)) {
        stripline_waker *made = nullptr;
        if (auto failed = detail::call(handle, [&](auto error) { return make(handle, &made, error); })) {
            return std::move(*failed);
        }
        return waker(made);
    }
    /// @endcond

private:
    explicit waker(stripline_waker *handle) noexcept : handle_(handle) {}

    stripline_waker *handle_;
};

/// @cond
namespace detail {

/// Returns the descriptor of a handle for a loop of the program's own.
template <class Handle>
result<int> ready_descriptor(
    Handle *handle, stripline_status (*find)(Handle *, std::int32_t *, stripline_error **)) {
    std::int32_t descriptor = -1;
    if (auto failed = call(handle, [&](auto error) { return find(handle, &descriptor, error); })) {
        return std::move(*failed);
    }
    return static_cast<int>(descriptor);
}

/// Prepares that descriptor: true if it has to be waited for.
template <class Call>
result<bool> arm(const void *handle, Call &&prepare) {
    stripline_status code = STRIPLINE_OK;
    if (auto failed = call(handle, [&](auto error) { return code = prepare(error); })) {
        return std::move(*failed);
    }
    return code == STRIPLINE_EMPTY;
}

}  // namespace detail
/// @endcond

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
