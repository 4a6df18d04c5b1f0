/// @file
/// Calls: clients, operations, replies, services and servers. Requests and replies are bytes.
///
/// `stripline/json.hpp` offers them as values of nlohmann-json.
#ifndef STRIPLINE_CALL_HPP
#define STRIPLINE_CALL_HPP

#include "node.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// An operation of a service: the name, and the types that client and server compare.
struct operation_type {
    /// The name of the operation: 1 to 64 letters, digits, `-`, `_`, `.`.
    std::string name;
    /// The types of requests, replies and the operation's own errors: `message/cbor` for any value
    /// in CBOR, `message/` and a schema, or a type of samples.
    std::string request = "message/cbor";
    std::string reply = "message/cbor";
    std::string error = "message/cbor";
};

/// Options of a client.
struct client_options {
    /// The time limit of a call, which includes the wait for a server: at most an hour.
    std::chrono::nanoseconds deadline = std::chrono::seconds(5);
    /// The number of calls that may be outstanding at each server: 1 to 16384; 0: 1024.
    std::uint32_t outstanding = 0;
    /// The size of the buffer for requests, in bytes; 0: 256 KiB.
    std::uint32_t buffer = 0;
};

/// Options of one call.
struct call_options {
    /// The time limit of the call; not set: the client's limit.
    std::optional<std::chrono::nanoseconds> deadline;
    /// Selects the server: the same key selects the same server each time. Not set: the servers
    /// take turns.
    std::optional<std::uint64_t> key;
};

/// Options of a server.
struct server_options {
    /// The name of the transport; empty: the transport that the domain's topics set.
    std::string transport;
    /// The name of the server; empty: a unique name.
    std::string name;
    /// The size of the buffer for the replies to each client, in bytes; 0: 256 KiB.
    std::uint32_t buffer = 0;
    /// The number of clients at a time: 1 to 4096; 0: 256.
    std::uint32_t clients = 0;
    /// The number of calls that may wait behind the next one, at most 4096; 0: no limit.
    std::uint32_t waiting = 0;
};

/// The counters of a server.
struct server_counts {
    /// Calls for which a handler was run.
    std::uint64_t calls;
    /// Calls that were answered without running a handler.
    std::uint64_t refused;
    /// Calls that their clients cancelled.
    std::uint64_t cancelled;
    /// Clients that were disconnected because they broke the protocol.
    std::uint64_t evicted;
    /// Replies that a client did not take in time, and replies to clients that had left.
    std::uint64_t replies_dropped;
    /// Clients that are connected now.
    std::uint64_t clients;
};

/// @cond
namespace detail {

/// A C handle that is freed with this object.
template <class Handle, void (*Free)(Handle *)>
class owned {
public:
    explicit owned(Handle *handle) noexcept : handle_(handle) {}
    owned(owned &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
    owned &operator=(owned &&from) noexcept {
        if (this != &from) {
            Free(handle_);
            handle_ = std::exchange(from.handle_, nullptr);
        }
        return *this;
    }
    ~owned() { Free(handle_); }
    Handle *get() const noexcept { return handle_; }

private:
    Handle *handle_;
};

inline std::uint64_t positive_ns(std::chrono::nanoseconds time) noexcept {
    // 0 means the default in C, so the shortest time is 1.
    return time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 1;
}

inline stripline_call_options c_options(const call_options &from) noexcept {
    stripline_call_options options{};
    options.size = sizeof options;
    if (from.deadline) {
        options.deadline_ns = positive_ns(*from.deadline);
    }
    if (from.key) {
        options.has_key = 1;
        options.key = *from.key;
    }
    return options;
}

inline std::optional<failure> check_operation(const operation_type &type) {
    for (const std::string *text : {&type.name, &type.request, &type.reply, &type.error}) {
        if (auto failed = check_text(*text, "the operation")) {
            return failed;
        }
    }
    return std::nullopt;
}

inline stripline_operation_type c_type(const operation_type &from) noexcept {
    stripline_operation_type type{};
    type.size = sizeof type;
    type.name = from.name.c_str();
    type.request = from.request.c_str();
    type.reply = from.reply.c_str();
    type.error = from.error.c_str();
    return type;
}

}  // namespace detail
/// @endcond

/// The bytes of a reply. Move-only.
class reply {
public:
    /// Returns the bytes, read only, valid until the object ends.
    span<const std::uint8_t> bytes() const noexcept {
        const auto *data = static_cast<const std::uint8_t *>(stripline_reply_data(handle_.get()));
        return span<const std::uint8_t>(data, stripline_reply_length(handle_.get()));
    }

    /// @cond
    explicit reply(stripline_reply *handle) noexcept : handle_(handle) {}
    /// @endcond

private:
    detail::owned<stripline_reply, stripline_reply_free> handle_;
};

/// @cond
namespace detail {

/// Runs a C call that returns a reply. The bytes of the operation's own error go into the failure.
template <class Call>
result<reply> replied(const void *handle, Call &&run, stripline_status &code) {
    stripline_error *error = nullptr;
    stripline_reply *found = nullptr;
    code = run(&found, &error);
    reply bytes(found);
    if (code <= 0) {
        return bytes;
    }
    failure failed = failure_maker::taking(code, error, handle);
    if (code == STRIPLINE_USER_ERROR) {
        failure_maker::put_user_error(failed, bytes.bytes().data(), bytes.bytes().size());
    }
    return failed;
}

}  // namespace detail
/// @endcond

/// A call that was started, to wait for the reply later. The destructor cancels an outstanding
/// call. Move-only; only one thread at a time may use it.
class pending {
public:
    /// Waits for the reply. Fails like operation::call.
    result<reply> wait(const std::nothrow_t &) {
        stripline_status code = STRIPLINE_OK;
        return wait_ns(STRIPLINE_FOREVER, code);
    }

    /// Waits for the reply, but no longer than the timeout. Without a value, the reply did not
    /// arrive in time, and the call stays outstanding.
    template <class Rep, class Period>
    result<std::optional<reply>> wait_for(std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        stripline_status code = STRIPLINE_OK;
        auto found = wait_ns(detail::timeout_ns(timeout), code);
        if (!found) {
            return found.error();
        }
        if (code == STRIPLINE_EMPTY) {
            return std::optional<reply>();
        }
        return std::optional<reply>(std::move(found).value());
    }

#if STRIPLINE_EXCEPTIONS
    reply wait() { return wait(std::nothrow).value(); }
    template <class Rep, class Period>
    std::optional<reply> wait_for(std::chrono::duration<Rep, Period> timeout) {
        return wait_for(timeout, std::nothrow).value();
    }
#endif

    /// @cond
    explicit pending(stripline_pending *handle) noexcept : handle_(handle) {}
    /// @endcond

private:
    result<reply> wait_ns(std::int64_t timeout_ns, stripline_status &code) {
        return detail::replied(
            handle_.get(),
            [&](auto found, auto error) { return stripline_pending_wait(handle_.get(), timeout_ns, found, error); },
            code);
    }

    detail::owned<stripline_pending, stripline_pending_free> handle_;
};

/// An operation of a client's service, for calls. Move-only; several threads may call it at once.
class operation {
public:
    /// Calls the operation, and waits for the reply.
    ///
    /// Fails with status::user_error for the operation's own error, which contains the bytes. Fails
    /// with status::no_server and the statuses that follow it if there is no reply.
    result<reply> call(span<const std::uint8_t> request, const call_options &options, const std::nothrow_t &) const {
        const stripline_call_options from = detail::c_options(options);
        return call_with(request, &from);
    }
    result<reply> call(span<const std::uint8_t> request, const std::nothrow_t &) const {
        return call_with(request, nullptr);
    }

    /// Starts a call without waiting for the reply. Blocks while no server is connected or there is
    /// no room.
    result<pending> start(
        span<const std::uint8_t> request, const call_options &options, const std::nothrow_t &) const {
        const stripline_call_options from = detail::c_options(options);
        return start_with(request, &from);
    }
    result<pending> start(span<const std::uint8_t> request, const std::nothrow_t &) const {
        return start_with(request, nullptr);
    }

#if STRIPLINE_EXCEPTIONS
    reply call(span<const std::uint8_t> request, const call_options &options = call_options()) const {
        return call(request, options, std::nothrow).value();
    }
    pending start(span<const std::uint8_t> request, const call_options &options = call_options()) const {
        return start(request, options, std::nothrow).value();
    }
#endif

    /// @cond
    explicit operation(stripline_operation *handle) noexcept : handle_(handle) {}
    /// @endcond

private:
    result<reply> call_with(span<const std::uint8_t> request, const stripline_call_options *options) const {
        stripline_status code = STRIPLINE_OK;
        return detail::replied(
            handle_.get(),
            [&](auto found, auto error) {
                return stripline_operation_call(
                    handle_.get(), request.data(), request.size(), options, found, error);
            },
            code);
    }
    result<pending> start_with(span<const std::uint8_t> request, const stripline_call_options *options) const {
        stripline_pending *made = nullptr;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_operation_start(
                    handle_.get(), request.data(), request.size(), options, &made, error);
            })) {
            return std::move(*failed);
        }
        return pending(made);
    }

    detail::owned<stripline_operation, stripline_operation_free> handle_;
};

/// A client of a service, which calls the servers of the service in turn. Move-only; several
/// threads may use a client at once.
class client {
public:
    /// Makes a client, which connects to every present and future server of the service. Blocks
    /// until the servers that are present have answered, or for a few seconds.
    static result<client> make(
        const node &parent, const std::string &service, const client_options &options, const std::nothrow_t &) {
        if (auto failed = detail::check_text(service, "the service")) {
            return std::move(*failed);
        }
        stripline_client_options from{};
        from.size = sizeof from;
        from.deadline_ns = detail::positive_ns(options.deadline);
        from.outstanding = options.outstanding;
        from.buffer = options.buffer;
        stripline_client *made = nullptr;
        if (auto failed = detail::call(parent.c_handle(), [&](auto error) {
                return stripline_client_new(parent.c_handle(), service.c_str(), &from, &made, error);
            })) {
            return std::move(*failed);
        }
        return client(made);
    }
    static result<client> make(const node &parent, const std::string &service, const std::nothrow_t &) {
        return make(parent, service, client_options(), std::nothrow);
    }

    /// Waits until at least `count` servers are connected; false if they are not connected in time.
    template <class Rep, class Period>
    result<bool> wait_for_servers(
        std::size_t count, std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) const {
        bool is_there = false;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                const auto code = stripline_client_wait_for_servers(
                    handle_.get(), count, detail::timeout_ns(timeout), error);
                is_there = code == STRIPLINE_OK;
                return code;
            })) {
            return std::move(*failed);
        }
        return is_there;
    }

    /// Makes a handle for an operation. The first call checks that the server has the operation
    /// with these types. Fails for an invalid name or type.
    result<stripline::operation> operation(const operation_type &type, const std::nothrow_t &) const {
        if (auto failed = detail::check_operation(type)) {
            return std::move(*failed);
        }
        const stripline_operation_type from = detail::c_type(type);
        stripline_operation *made = nullptr;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_client_operation(handle_.get(), &from, &made, error);
            })) {
            return std::move(*failed);
        }
        return stripline::operation(made);
    }

    /// Makes a waker, which ends waits of the client and the calls. An interrupted call is
    /// cancelled; failure::is_sent is true if the call had been sent.
    result<stripline::waker> waker(const std::nothrow_t &) const {
        return stripline::waker::of<const stripline_client>(handle_.get(), stripline_client_waker);
    }

    /// Returns a descriptor for `poll`, epoll or a toolkit, like a subscriber's: for pending calls.
    result<int> ready_descriptor(const std::nothrow_t &) const {
        return detail::ready_descriptor<const stripline_client>(
            handle_.get(), stripline_client_ready_descriptor);
    }

    /// Makes the descriptor ready once a reply may have arrived, or a server has connected or left.
    /// False: something has arrived already. Deadlines do not make it ready.
    result<bool> arm(const std::nothrow_t &) const {
        return detail::arm(
            handle_.get(), [&](auto error) { return stripline_client_arm(handle_.get(), error); });
    }

    /// Returns the handle for the C functions. The client keeps ownership.
    stripline_client *c_handle() const noexcept { return handle_.get(); }

#if STRIPLINE_EXCEPTIONS
    int ready_descriptor() const { return ready_descriptor(std::nothrow).value(); }
    bool arm() const { return arm(std::nothrow).value(); }
    client(const node &parent, const std::string &service, const client_options &options = client_options())
        : client(make(parent, service, options, std::nothrow).value()) {}
    template <class Rep, class Period>
    bool wait_for_servers(std::size_t count, std::chrono::duration<Rep, Period> timeout) const {
        return wait_for_servers(count, timeout, std::nothrow).value();
    }
    stripline::operation operation(const operation_type &type) const {
        return operation(type, std::nothrow).value();
    }
    stripline::waker waker() const { return waker(std::nothrow).value(); }
#endif

private:
    explicit client(stripline_client *handle) noexcept : handle_(handle) {}

    detail::owned<stripline_client, stripline_client_free> handle_;
};

/// The right and the duty to answer one call, at any time and on any thread. An answer never
/// blocks. If a responder ends without an answer, the call is refused. Move-only.
class responder {
public:
    /// Sends the reply. Fails with status::port if the call was answered before.
    result<void> reply(span<const std::uint8_t> bytes, const std::nothrow_t &) {
        return detail::outcome(handle_.get(), [&](auto error) {
            return stripline_responder_reply(handle_.get(), bytes.data(), bytes.size(), error);
        });
    }

    /// Sends the operation's own error.
    result<void> fail(span<const std::uint8_t> bytes, const std::nothrow_t &) {
        return detail::outcome(handle_.get(), [&](auto error) {
            return stripline_responder_fail(handle_.get(), bytes.data(), bytes.size(), error);
        });
    }

    /// Refuses the call, with a reason for people to read.
    result<void> refuse(const std::string &reason, const std::nothrow_t &) {
        if (auto failed = detail::check_text(reason, "the reason")) {
            return std::move(*failed);
        }
        return detail::outcome(handle_.get(), [&](auto error) {
            return stripline_responder_refuse(handle_.get(), reason.c_str(), error);
        });
    }

    /// Refuses the call, with a reason for people to read and a code for the client:
    /// status::wrong_type, status::handler_panicked, or status::reply_failed, which `refuse` uses.
    result<void> refuse_as(status kind, const std::string &reason, const std::nothrow_t &) {
        if (auto failed = detail::check_text(reason, "the reason")) {
            return std::move(*failed);
        }
        return detail::outcome(handle_.get(), [&](auto error) {
            const auto number = static_cast<std::int32_t>(kind);
            return stripline_responder_refuse_as(handle_.get(), number, reason.c_str(), error);
        });
    }

    /// Returns the time that the client waits, from the start of the call; 0 after the answer.
    std::chrono::nanoseconds deadline() const noexcept {
        const auto ns = stripline_responder_deadline_ns(handle_.get());
        return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
    }

    /// Returns whether there is a call to answer; false after a move.
    explicit operator bool() const noexcept { return handle_.get() != nullptr; }

#if STRIPLINE_EXCEPTIONS
    void reply(span<const std::uint8_t> bytes) { reply(bytes, std::nothrow).value(); }
    void fail(span<const std::uint8_t> bytes) { fail(bytes, std::nothrow).value(); }
    void refuse(const std::string &reason) { refuse(reason, std::nothrow).value(); }
    void refuse_as(status kind, const std::string &reason) { refuse_as(kind, reason, std::nothrow).value(); }
#endif

    /// @cond
    explicit responder(stripline_responder *handle) noexcept : handle_(handle) {}
    /// @endcond

private:
    detail::owned<stripline_responder, stripline_responder_free> handle_;
};

/// A handler of calls: gets the bytes of the request, and the responder. The handler answers at
/// once, or moves the responder out and answers later. An exception refuses the call with
/// status::handler_panicked, and the message is the reason. The handler may destroy the server that
/// called it. The server then ends when the serving call returns.
using call_handler = std::function<void(span<const std::uint8_t>, responder &)>;

/// @cond
namespace detail {

/// The handlers of a service. The servers of the service share them.
using call_handlers = std::vector<std::unique_ptr<call_handler>>;

// C calls this function, so no exception may leave it.
inline void handle_call(
    void *context, const void *request, std::size_t bytes, stripline_responder *handle) noexcept {
    const auto &handler = *static_cast<const call_handler *>(context);
    const span<const std::uint8_t> given(static_cast<const std::uint8_t *>(request), bytes);
    responder answer(handle);
#if STRIPLINE_EXCEPTIONS
    const auto refuse = [&](const char *words) noexcept {
        if (answer) {
            stripline_responder_refuse_as(handle, STRIPLINE_HANDLER_PANICKED, words, nullptr);
        }
    };
    try {
        handler(given, answer);
    } catch (const std::exception &thrown) {
        refuse(thrown.what());
    } catch (...) {
        refuse("the handler threw something other than a std::exception");
    }
#else
    handler(given, answer);
#endif
}

}  // namespace detail
/// @endcond

/// A service: a name, operations and their handlers. Any number of servers can be made from it.
/// Move-only.
class service {
public:
    /// Makes a service without operations.
    static result<service> make(const std::string &name, const std::nothrow_t &) {
        if (auto failed = detail::check_text(name, "the name")) {
            return std::move(*failed);
        }
        stripline_service *made = nullptr;
        if (auto failed = detail::call(&name, [&](auto error) {
                return stripline_service_new(name.c_str(), &made, error);
            })) {
            return std::move(*failed);
        }
        return service(made);
    }

    /// Adds an operation and a handler, for servers that are made later. `doc` is a description
    /// that clients can show. Not while another thread makes a server from the service.
    result<void> add(
        const operation_type &type, call_handler handler, const std::string &doc, const std::nothrow_t &) {
        if (auto failed = detail::check_operation(type)) {
            return std::move(*failed);
        }
        if (auto failed = detail::check_text(doc, "the documentation")) {
            return std::move(*failed);
        }
        if (!handler) {
            return failure(status::invalid_argument, "the handler is empty");
        }
        if (handlers_ == nullptr) {
            return detail::empty_object();
        }
        const stripline_operation_type from = detail::c_type(type);
        handlers_->push_back(std::make_unique<call_handler>(std::move(handler)));
        auto done = detail::outcome(handle_.get(), [&](auto error) {
            return stripline_service_add(
                handle_.get(), &from, detail::handle_call, handlers_->back().get(), doc.c_str(), error);
        });
        if (!done) {
            handlers_->pop_back();
        }
        return done;
    }
    result<void> add(const operation_type &type, call_handler handler, const std::nothrow_t &) {
        return add(type, std::move(handler), std::string(), std::nothrow);
    }

#if STRIPLINE_EXCEPTIONS
    explicit service(const std::string &name) : service(make(name, std::nothrow).value()) {}
    void add(const operation_type &type, call_handler handler, const std::string &doc = std::string()) {
        add(type, std::move(handler), doc, std::nothrow).value();
    }
#endif

private:
    explicit service(stripline_service *handle)
        : handle_(handle), handlers_(std::make_shared<detail::call_handlers>()) {}

    detail::owned<stripline_service, stripline_service_free> handle_;
    std::shared_ptr<detail::call_handlers> handlers_;
    friend class server;
};

/// A server, which answers the calls of any number of clients. When the server ends, the clients
/// get status::server_gone. Move-only; only one thread at a time may use a server.
class server {
public:
    /// Makes a server of a service. Clients find it from now on. Their calls wait until the server
    /// serves.
    static result<server> make(
        const node &parent, const service &from, const server_options &options, const std::nothrow_t &) {
        for (const std::string *text : {&options.transport, &options.name}) {
            if (auto failed = detail::check_text(*text, "an option of the server")) {
                return std::move(*failed);
            }
        }
        stripline_server_options c_options{};
        c_options.size = sizeof c_options;
        c_options.transport = options.transport.empty() ? nullptr : options.transport.c_str();
        c_options.name = options.name.empty() ? nullptr : options.name.c_str();
        c_options.buffer = options.buffer;
        c_options.clients = options.clients;
        c_options.waiting = options.waiting;
        stripline_server *made = nullptr;
        const void *both = parent.c_handle() == nullptr ? nullptr : from.handle_.get();
        if (auto failed = detail::call(both, [&](auto error) {
                return stripline_server_new(parent.c_handle(), from.handle_.get(), &c_options, &made, error);
            })) {
            return std::move(*failed);
        }
        return server(made, from.handlers_);
    }
    static result<server> make(const node &parent, const service &from, const std::nothrow_t &) {
        return make(parent, from, server_options(), std::nothrow);
    }

    /// Answers calls until the node is stopped (status::stopped), or until a waker ends the wait
    /// (status::interrupted). `threads` is the number of threads that run handlers at once; 0 is
    /// this thread alone.
    result<void> serve(std::size_t threads, const std::nothrow_t &) {
        return run([&](auto handle, auto error) { return stripline_server_serve(handle, threads, error); });
    }

    /// Answers one call on this thread; false if no call arrives in time.
    template <class Rep, class Period>
    result<bool> serve_one(std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        bool is_served = false;
        const auto done = run([&](auto handle, auto error) {
            const auto code = stripline_server_serve_one(handle, detail::timeout_ns(timeout), error);
            is_served = code == STRIPLINE_OK;
            return code;
        });
        if (!done) {
            return done.error();
        }
        return is_served;
    }

    /// Makes a waker, which ends waits of the server. Handlers that have begun finish first.
    result<stripline::waker> waker(const std::nothrow_t &) {
        return stripline::waker::of(handle_.get(), stripline_server_waker);
    }

    /// Returns a descriptor for `poll`, epoll or a toolkit, like a subscriber's: for `serve_one`.
    result<int> ready_descriptor(const std::nothrow_t &) {
        return detail::ready_descriptor(handle_.get(), stripline_server_ready_descriptor);
    }

    /// Makes the descriptor ready once there may be a call. False: a call has arrived already.
    result<bool> arm(const std::nothrow_t &) {
        return detail::arm(
            handle_.get(), [&](auto error) { return stripline_server_arm(handle_.get(), error); });
    }

    /// Returns the handle for the C functions. The server keeps ownership.
    stripline_server *c_handle() const noexcept { return handle_.get(); }

    /// Returns the counters of the server.
    result<server_counts> counts(const std::nothrow_t &) {
        stripline_server_counts found{};
        found.size = sizeof found;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_server_get_counts(handle_.get(), &found, error);
            })) {
            return std::move(*failed);
        }
        return server_counts{found.calls,   found.refused,         found.cancelled,
                             found.evicted, found.replies_dropped, found.clients};
    }

#if STRIPLINE_EXCEPTIONS
    server(const node &parent, const service &from, const server_options &options = server_options())
        : server(make(parent, from, options, std::nothrow).value()) {}
    void serve(std::size_t threads = 0) { serve(threads, std::nothrow).value(); }
    template <class Rep, class Period>
    bool serve_one(std::chrono::duration<Rep, Period> timeout) {
        return serve_one(timeout, std::nothrow).value();
    }
    stripline::waker waker() { return waker(std::nothrow).value(); }
    int ready_descriptor() { return ready_descriptor(std::nothrow).value(); }
    bool arm() { return arm(std::nothrow).value(); }
    server_counts counts() { return counts(std::nothrow).value(); }
#endif

private:
    server(stripline_server *handle, std::shared_ptr<detail::call_handlers> handlers) noexcept
        : handlers_(std::move(handlers)), handle_(handle) {}

    template <class Call>
    result<void> run(Call &&call) {
        // A handler may destroy this object, so these copies stay until the call returns.
        const auto handlers = handlers_;
        stripline_server *handle = handle_.get();
        return detail::outcome(handle, [&](auto error) { return call(handle, error); });
    }

    // Declared before the handle, which is destroyed first.
    std::shared_ptr<detail::call_handlers> handlers_;
    detail::owned<stripline_server, stripline_server_free> handle_;
};

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
