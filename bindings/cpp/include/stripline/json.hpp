/// @file
/// Messages and calls as values of nlohmann-json. The other headers do not need this one, nor
/// nlohmann-json (Debian: nlohmann-json3-dev).
#ifndef STRIPLINE_JSON_HPP
#define STRIPLINE_JSON_HPP

#include "call.hpp"
#include "cbor.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// A value of a message, a request or a reply.
using json = nlohmann::json;

/// Encodes a value as CBOR.
inline std::vector<std::uint8_t> to_cbor(const json &value) { return json::to_cbor(value); }

/// Decodes a value from CBOR. Fails with status::decode for other bytes.
inline result<json> from_cbor(span<const std::uint8_t> bytes, const std::nothrow_t &) {
    json found = json::from_cbor(bytes.data(), bytes.data() + bytes.size(), true, false);
    if (found.is_discarded()) {
        return failure(status::decode, "the bytes are not one value in CBOR");
    }
    return found;
}

/// Sends a value as a message. Fails like publisher::send.
inline result<void> send_json(publisher<std::uint8_t> &to, const json &value, const std::nothrow_t &) {
    return to.send(to_cbor(value), std::nothrow);
}

/// Sends a value as a message, with the time, sample index and scope in `options`.
inline result<void> send_json(
    publisher<std::uint8_t> &to, const json &value, const send_options &options, const std::nothrow_t &) {
    return to.send(to_cbor(value), options, std::nothrow);
}

/// Sends a value as a message, with the stream, sample index, time and order of a received packet
/// of samples, or of a message. Fails like publisher::loan and loan::send_like.
template <class T>
result<void> send_json_like(
    publisher<std::uint8_t> &to, const json &value, const packet_base<T> &packet, const std::nothrow_t &) {
    return detail::send_bytes_like(to, to_cbor(value), packet);
}

/// Returns the value of a message. Fails with status::decode for other bytes.
inline result<json> json_of(const packet_base<std::uint8_t> &message, const std::nothrow_t &) {
    return from_cbor(message.samples(), std::nothrow);
}

/// Calls an operation with a value, and returns the value of the reply. Fails like operation::call.
/// For the operation's own error, `user_error_of` returns the value from the failure.
inline result<json> call_json(
    const operation &target, const json &request, const call_options &options, const std::nothrow_t &) {
    auto found = target.call(to_cbor(request), options, std::nothrow);
    if (!found) {
        return found.error();
    }
    auto value = from_cbor(found->bytes(), std::nothrow);
    if (!value) {
        return failure(status::reply_decode, "the reply is not one value in CBOR");
    }
    return value;
}
inline result<json> call_json(const operation &target, const json &request, const std::nothrow_t &) {
    return call_json(target, request, call_options(), std::nothrow);
}

/// Returns the value of an operation's own error; null if the failure has no value.
inline json user_error_of(const failure &reason) {
    if (reason.user_error().empty()) {
        return nullptr;
    }
    auto found = from_cbor(reason.user_error(), std::nothrow);
    return found ? std::move(found).value() : json(nullptr);
}

/// The answer of a handler that works with values: a reply, or the operation's own error.
class json_answer {
public:
    /// Makes a reply.
    json_answer(json reply) : value_(std::move(reply)) {}
    /// Makes the operation's own error.
    static json_answer error(json value) {
        json_answer made(std::move(value));
        made.is_error_ = true;
        return made;
    }

    bool is_error() const noexcept { return is_error_; }
    const json &value() const noexcept { return value_; }

private:
    json value_;
    bool is_error_ = false;
};

/// Adds an operation with JSON values to a service. The handler gets the request and returns the
/// reply, or json_answer::error. A request that is not CBOR is refused with status::wrong_type. If
/// the handler throws, the request is refused with status::handler_panicked.
inline result<void> add_json(
    service &to, const operation_type &type, std::function<json_answer(const json &)> handler,
    const std::string &doc, const std::nothrow_t &) {
    if (!handler) {
        return failure(status::invalid_argument, "the handler is empty");
    }
    const auto handle = [handler = std::move(handler)](span<const std::uint8_t> bytes, responder &answer) {
        const auto request = from_cbor(bytes, std::nothrow);
        // If the client has left, this is not a failure of the handler.
        if (!request) {
            (void)answer.refuse_as(status::wrong_type, "the request is not one value in CBOR", std::nothrow);
            return;
        }
        const json_answer made = handler(*request);
        const auto reply = to_cbor(made.value());
        (void)(made.is_error() ? answer.fail(reply, std::nothrow) : answer.reply(reply, std::nothrow));
    };
    return to.add(type, handle, doc, std::nothrow);
}

#if STRIPLINE_EXCEPTIONS
inline json from_cbor(span<const std::uint8_t> bytes) { return from_cbor(bytes, std::nothrow).value(); }
inline void send_json(publisher<std::uint8_t> &to, const json &value) { send_json(to, value, std::nothrow).value(); }
inline void send_json(publisher<std::uint8_t> &to, const json &value, const send_options &options) {
    send_json(to, value, options, std::nothrow).value();
}
template <class T>
void send_json_like(publisher<std::uint8_t> &to, const json &value, const packet_base<T> &packet) {
    send_json_like(to, value, packet, std::nothrow).value();
}
inline json json_of(const packet_base<std::uint8_t> &message) { return json_of(message, std::nothrow).value(); }
inline json call_json(const operation &target, const json &request, const call_options &options = call_options()) {
    return call_json(target, request, options, std::nothrow).value();
}
inline void add_json(
    service &to, const operation_type &type, std::function<json_answer(const json &)> handler,
    const std::string &doc = std::string()) {
    add_json(to, type, std::move(handler), doc, std::nothrow).value();
}
#endif

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
