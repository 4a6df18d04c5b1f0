/// @file
/// Wakers, which end waits from other threads.
#ifndef STRIPLINE_WAKER_HPP
#define STRIPLINE_WAKER_HPP

#include "error.hpp"

#include <cstdint>
#include <utility>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// Ends waits of one publisher, subscriber, client or server: the wait under way, or else the next
/// one. The interrupted call fails with status::interrupted, and can be repeated: nothing is lost.
/// Move-only.
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

    /// Returns whether the object has a waker; false after a move.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    /// Ends one wait. Never blocks. Any thread and a signal handler may call it. The call has no
    /// effect if the waker's owner is gone, nor on a waker that was moved from.
    void wake() const noexcept {
        if (handle_ != nullptr) {
            stripline_waker_wake(handle_, nullptr);
        }
    }

    /// @cond
    /// Makes a waker by a C function.
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

/// Returns the descriptor of a handle for a program's own loop.
template <class Handle>
result<int> ready_descriptor(
    Handle *handle, stripline_status (*find)(Handle *, std::int32_t *, stripline_error **)) {
    std::int32_t descriptor = -1;
    if (auto failed = call(handle, [&](auto error) { return find(handle, &descriptor, error); })) {
        return std::move(*failed);
    }
    return static_cast<int>(descriptor);
}

/// Arms that descriptor: true if the program must wait for it.
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
