/// @file
/// Packet handlers, and functions that wait for several subscribers.
#ifndef STRIPLINE_SERVE_HPP
#define STRIPLINE_SERVE_HPP

#include "subscriber.hpp"

#include <array>
#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The reason why `serve` returned: all streams have ended, or a handler returned next::stop.
enum class served { ended, stopped };

/// A subscriber and the handler for the subscriber's packets. Made by `on`. Move-only.
class served_port {
public:
    /// @cond
    struct state {
        // The outcome of the `serve` call that runs the handler; null if no call runs it.
        detail::callback_outcome *into = nullptr;
    };
    served_port(stripline_subscriber *from, stripline_packet_handler handler, std::shared_ptr<state> made) noexcept
        : subscriber(from), run(handler), context(std::move(made)) {}
    served_port(served_port &&) noexcept = default;
    served_port &operator=(served_port &&) noexcept = default;

    stripline_subscriber *subscriber;
    stripline_packet_handler run;
    std::shared_ptr<state> context;
    /// @endcond
};

/// @cond
namespace detail {

template <class T, class Handler>
struct handler_state : served_port::state {
    explicit handler_state(Handler from) : handler(std::move(from)) {}
    Handler handler;

    // The C library calls this function, so no exception may leave it.
    static int32_t run(void *context, stripline_packet *handle) noexcept {
        auto &self = *static_cast<handler_state *>(static_cast<served_port::state *>(context));
        const packet_view<T> packet(handle);
        return run_callback(*self.into, self.handler, packet);
    }
};

/// The handlers of one call of `serve`. This object shares ownership of them, because a handler may
/// destroy the `served_port` that contains it.
class handlers_at_work {
public:
    handlers_at_work() = default;
    handlers_at_work(const handlers_at_work &) = delete;
    handlers_at_work &operator=(const handlers_at_work &) = delete;
    ~handlers_at_work() {
        for (const auto &one : begun_) {
            one->into = nullptr;
        }
    }

    std::optional<failure> begin(const served_port &port) {
        if (port.subscriber == nullptr || port.context == nullptr) {
            return empty_object();
        }
        if (port.context->into != nullptr) {
            return failure(status::in_use, "the handler is in a call of `serve` already; give each call its own");
        }
        begun_.push_back(port.context);
        port.context->into = &outcome;
        c_ports.push_back(stripline_served{port.subscriber, port.run, port.context.get()});
        return std::nullopt;
    }

    callback_outcome outcome;
    std::vector<stripline_served> c_ports;

private:
    std::vector<std::shared_ptr<served_port::state>> begun_;
};

inline result<served> serve(const served_port *ports, std::size_t count) {
    handlers_at_work work;
    for (std::size_t index = 0; index < count; index++) {
        if (auto refused = work.begin(ports[index])) {
            return std::move(*refused);
        }
    }
    auto failed = call(&work, [&](auto error) { return stripline_serve(work.c_ports.data(), count, error); });
    if (work.outcome.reason.code() != status::ok) {
        return std::move(work.outcome.reason);
    }
    if (work.outcome.is_stopped) {
        return served::stopped;
    }
    if (failed) {
        return std::move(*failed);
    }
    return served::ended;
}

inline result<std::vector<bool>> wait_any(
    const std::vector<stripline_subscriber *> &subscribers, std::int64_t timeout_ns) {
    std::vector<std::uint8_t> ready(subscribers.size() + 1);
    for (const stripline_subscriber *subscriber : subscribers) {
        if (subscriber == nullptr) {
            return empty_object();
        }
    }
    if (auto failed = call(&ready, [&](auto error) {
            return stripline_wait_any(subscribers.data(), subscribers.size(), timeout_ns, ready.data(), error);
        })) {
        return std::move(*failed);
    }
    return std::vector<bool>(ready.begin(), ready.end() - 1);
}

}  // namespace detail
/// @endcond

/// Assigns a handler to a subscriber, for `serve`. The subscriber must have been made without
/// `hold`, and must exist when `serve` begins. Until then, it may be moved.
///
/// The handler gets a `const packet_view<T> &`. The handler returns nothing (to continue), a
/// stripline::next or a result<void>. If the handler throws or fails, a sender that waits for this
/// packet gets a failure. The only thing that the handler may do with its own subscriber is to
/// destroy it. The subscriber then ends when `serve` returns.
template <class T, class Handler>
served_port on(subscriber<T> &from, Handler handler) {
    using state = detail::handler_state<T, Handler>;
    // The pointer is to the base class, because `run` converts the context from that type.
    std::shared_ptr<served_port::state> made = std::make_shared<state>(std::move(handler));
    return served_port(from.c_handle(), &state::run, std::move(made));
}

/// Runs the handlers for packets of several subscribers on this thread, until all streams have
/// ended or a handler returns next::stop. Two handlers never run at the same time.
///
/// If a handler throws an exception, the call ends. The form with exceptions throws the exception
/// again; the other form returns status::handler, with the exception in failure::thrown. If a
/// handler fails, the call returns this failure. Fails like subscriber::receive. Packets that were
/// not handled stay for a later call.
inline result<served> serve(const std::vector<served_port> &ports, const std::nothrow_t &) {
    return detail::serve(ports.data(), ports.size());
}
template <std::size_t Count>
result<served> serve(const std::array<served_port, Count> &ports, const std::nothrow_t &) {
    return detail::serve(ports.data(), Count);
}

/// Waits until one of several subscribers has a packet or the end of its stream. The result has one
/// value for each subscriber, in the same order: true if the subscriber is ready. If no subscriber
/// is ready in time, all values are false. The function allocates memory.
///
/// Fails like subscriber::receive. Windowed subscribers are not supported.
template <class Rep, class Period, class... T>
result<std::vector<bool>> wait_any(
    std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &, subscriber<T> &...subscribers) {
    return detail::wait_any({subscribers.c_handle()...}, detail::timeout_ns(timeout));
}

/// Waits in the same way for any number of subscribers of one type.
template <class Rep, class Period, class T>
result<std::vector<bool>> wait_any(
    std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &, std::vector<subscriber<T>> &subscribers) {
    std::vector<stripline_subscriber *> handles;
    for (const auto &subscriber : subscribers) {
        handles.push_back(subscriber.c_handle());
    }
    return detail::wait_any(handles, detail::timeout_ns(timeout));
}

#if STRIPLINE_EXCEPTIONS
inline served serve(const std::vector<served_port> &ports) { return serve(ports, std::nothrow).value(); }
template <class... Port, class = std::enable_if_t<(std::is_same_v<Port, served_port> && ...)>>
served serve(served_port first, Port... more) {
    const std::array<served_port, 1 + sizeof...(more)> ports{std::move(first), std::move(more)...};
    return serve(ports, std::nothrow).value();
}
template <class Rep, class Period, class T, class... More>
std::vector<bool> wait_any(
    std::chrono::duration<Rep, Period> timeout, subscriber<T> &first, subscriber<More> &...more) {
    return wait_any(timeout, std::nothrow, first, more...).value();
}
template <class Rep, class Period, class T>
std::vector<bool> wait_any(std::chrono::duration<Rep, Period> timeout, std::vector<subscriber<T>> &subscribers) {
    return wait_any(timeout, std::nothrow, subscribers).value();
}
#endif

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
