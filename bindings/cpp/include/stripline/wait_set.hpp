/// @file
/// Wait sets: one wait for any number of ports, clients, servers and descriptors.
#ifndef STRIPLINE_WAIT_SET_HPP
#define STRIPLINE_WAIT_SET_HPP

#include "call.hpp"
#include "publisher.hpp"
#include "subscriber.hpp"
#include "time.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The event to wait for on a descriptor of the program.
enum class interest : std::uint64_t {
    readable = STRIPLINE_READY_READABLE,
    writable = STRIPLINE_READY_WRITABLE,
    both = STRIPLINE_READY_READABLE | STRIPLINE_READY_WRITABLE,
};

/// A member of a wait set that is ready.
struct wait_event {
    /// The key that the member was added with.
    std::uint64_t key;
    /// Whether a port, client or server needs a call, or a descriptor can be read or has ended.
    bool readable;
    /// Whether a descriptor can be written or has ended.
    bool writable;
    /// Whether a descriptor was closed without being removed.
    bool closed;
};

/// One wait for any number of subscribers, publishers, clients, servers and descriptors of the
/// program, each under a key. Move-only. Only one thread waits at a time. During the wait, only
/// this thread uses the members of the set. Other threads may add descriptors, remove members and
/// wake.
///
/// A wait does not consume packets: a member that you do not read is ready again in the next wait.
/// Members of the set may be moved, and may end before the set: then they are never ready.
class wait_set {
public:
    /// Makes an empty wait set. Fails with status::system if descriptors run out.
    static result<wait_set> make(const std::nothrow_t &) {
        stripline_wait_set *made = nullptr;
        if (auto failed =
                detail::call(&made, [&](auto error) { return stripline_wait_set_new(&made, error); })) {
            return std::move(*failed);
        }
        return wait_set(made);
    }

    /// Adds a subscriber. The subscriber is ready when a receive has a packet, the end of stream or
    /// an error. For windows, `samples` is their length; otherwise it is 0.
    result<void> add(
        std::uint64_t key, const detail::subscriber_base &from, std::size_t samples, const std::nothrow_t &) {
        return add(from.c_handle(), [&](auto error) {
            return stripline_wait_set_add_subscriber(
                handle_.get(), key, from.c_handle(), samples, error);
        });
    }
    result<void> add(std::uint64_t key, const detail::subscriber_base &from, const std::nothrow_t &) {
        return add(key, from, 0, std::nothrow);
    }

    /// Adds a publisher. The publisher is ready when there is room for a packet of `samples`
    /// samples. A publisher can be in a set only once, for room or for receivers.
    template <class T>
    result<void> add(
        std::uint64_t key, const publisher<T> &from, std::size_t samples, const std::nothrow_t &) {
        return add(from.c_handle(), [&](auto error) {
            return stripline_wait_set_add_publisher(
                handle_.get(), key, from.c_handle(), samples, error);
        });
    }

    /// Adds a publisher. The publisher is ready when at least `count` receivers are connected.
    template <class T>
    result<void> add_for_receivers(
        std::uint64_t key, const publisher<T> &from, std::size_t count, const std::nothrow_t &) {
        return add(from.c_handle(), [&](auto error) {
            return stripline_wait_set_add_publisher_for_receivers(
                handle_.get(), key, from.c_handle(), count, error);
        });
    }

    /// Adds a client. The client is ready when the program must check the pending calls.
    result<void> add(std::uint64_t key, const client &from, const std::nothrow_t &) {
        return add(from.c_handle(), [&](auto error) {
            return stripline_wait_set_add_client(handle_.get(), key, from.c_handle(), error);
        });
    }

    /// Adds a server. The server is ready when serve_one has something to do.
    result<void> add(std::uint64_t key, const server &from, const std::nothrow_t &) {
        return add(from.c_handle(), [&](auto error) {
            return stripline_wait_set_add_server(handle_.get(), key, from.c_handle(), error);
        });
    }

    /// Adds a descriptor of the program. Remove it before it is closed.
    result<void> add_descriptor(
        std::uint64_t key, int descriptor, interest awaited, const std::nothrow_t &) {
        return add(handle_.get(), [&](auto error) {
            return stripline_wait_set_add_descriptor(
                handle_.get(), key, descriptor, static_cast<std::uint64_t>(awaited), error);
        });
    }

    /// Removes the member that was added with a key; false if there is no such member. After this,
    /// no wait uses the member or returns the key any more.
    result<bool> remove(std::uint64_t key, const std::nothrow_t &) {
        stripline_status code = STRIPLINE_OK;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return code = stripline_wait_set_remove(handle_.get(), key, error);
            })) {
            return std::move(*failed);
        }
        return code == STRIPLINE_OK;
    }

    /// Waits until a member is ready, and returns all members that are ready. The result is empty
    /// if none was ready in time; without a timeout it waits without end. A member with an error is
    /// ready: the next call of the member returns the error. The call allocates memory.
    ///
    /// Fails with status::interrupted, status::stopped, status::too_many_held for a subscriber with
    /// a lent packet, and status::port while another thread waits. Nothing is lost.
    template <class Rep, class Period>
    result<std::vector<wait_event>> wait(
        std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        return wait_ns(detail::timeout_ns(timeout));
    }
    result<std::vector<wait_event>> wait(const std::nothrow_t &) { return wait_ns(STRIPLINE_FOREVER); }

    /// Makes a waker, which ends a wait of the set.
    result<stripline::waker> waker(const std::nothrow_t &) const {
        return stripline::waker::of<const stripline_wait_set>(handle_.get(), stripline_wait_set_waker);
    }

#if STRIPLINE_EXCEPTIONS
    wait_set() : wait_set(make(std::nothrow).value()) {}
    void add(std::uint64_t key, const detail::subscriber_base &from, std::size_t samples = 0) {
        add(key, from, samples, std::nothrow).value();
    }
    template <class T>
    void add(std::uint64_t key, const publisher<T> &from, std::size_t samples) {
        add(key, from, samples, std::nothrow).value();
    }
    template <class T>
    void add_for_receivers(std::uint64_t key, const publisher<T> &from, std::size_t count) {
        add_for_receivers(key, from, count, std::nothrow).value();
    }
    void add(std::uint64_t key, const client &from) { add(key, from, std::nothrow).value(); }
    void add(std::uint64_t key, const server &from) { add(key, from, std::nothrow).value(); }
    void add_descriptor(std::uint64_t key, int descriptor, interest awaited) {
        add_descriptor(key, descriptor, awaited, std::nothrow).value();
    }
    bool remove(std::uint64_t key) { return remove(key, std::nothrow).value(); }
    template <class Rep, class Period>
    std::vector<wait_event> wait(std::chrono::duration<Rep, Period> timeout) {
        return wait(timeout, std::nothrow).value();
    }
    std::vector<wait_event> wait() { return wait(std::nothrow).value(); }
    stripline::waker waker() const { return waker(std::nothrow).value(); }
#endif

private:
    explicit wait_set(stripline_wait_set *handle) noexcept : handle_(handle) {}

    template <class Call>
    result<void> add(const void *member, Call &&run) {
        return detail::outcome(handle_.get() == nullptr ? nullptr : member, run);
    }

    result<std::vector<wait_event>> wait_ns(std::int64_t timeout_ns) {
        // The number of events at once, enough for most sets; the others are returned by the next
        // wait.
        constexpr std::size_t capacity = 64;
        stripline_wait_event events[capacity];
        std::size_t count = 0;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_wait_set_wait(handle_.get(), events, capacity, &count, timeout_ns, error);
            })) {
            return std::move(*failed);
        }
        std::vector<wait_event> ready;
        ready.reserve(count);
        for (std::size_t index = 0; index < count; index++) {
            const std::uint64_t bits = events[index].ready;
            ready.push_back({events[index].key, (bits & STRIPLINE_READY_READABLE) != 0,
                             (bits & STRIPLINE_READY_WRITABLE) != 0, (bits & STRIPLINE_READY_CLOSED) != 0});
        }
        return ready;
    }

    detail::owned<stripline_wait_set, stripline_wait_set_free> handle_;
};

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
