/// @file
/// Messages as structures. The schema, the bytes and the value are made from one list of fields:
///
///     struct detection {
///         std::uint64_t sample;
///         float level;
///     };
///     STRIPLINE_MESSAGE(detection, "detection", sample, level)
#ifndef STRIPLINE_MESSAGE_HPP
#define STRIPLINE_MESSAGE_HPP

#include "cbor.hpp"
#include "publisher.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// Returns the type of a port, as in docs/layouts.md: the name or layout of a sample type, or
/// `message/` and the schema of a structure with STRIPLINE_MESSAGE.
template <class T>
std::string type_text() {
    static_assert(
        detail::has_sample<T>::value || detail::has_message<T>::value,
        "stripline: this is neither a sample nor a message: describe the structure with STRIPLINE_SAMPLE or "
        "STRIPLINE_MESSAGE");
    static_assert(
        !(detail::has_sample<T>::value && detail::has_message<T>::value),
        "stripline: the structure is a sample and a message: use one of the macros");
    if constexpr (detail::has_message<T>::value) {
        std::string text = "message/";
        detail::put_schema<T>(text);
        return text;
    } else if constexpr (detail::has_sample<T>::value) {
        return sample<T>::name();
    }
}

/// Encodes a message as CBOR.
template <class T, class = std::enable_if_t<detail::has_message<T>::value>>
std::vector<std::uint8_t> to_cbor(const T &message) {
    detail::cbor_writer writer;
    writer.put(message);
    return std::move(writer.bytes);
}

/// Decodes a message from CBOR, such as the bytes of a request. Fails with status::decode for other
/// bytes, and names the place. Fields that the structure does not have are ignored.
template <class T>
result<T> from_cbor(span<const std::uint8_t> bytes, const std::nothrow_t &) {
    static_assert(detail::has_message<T>::value, "stripline: describe the structure with STRIPLINE_MESSAGE");
    T made{};
    detail::cbor_reader reader(bytes);
    if (!reader.whole(made)) {
        return failure(status::decode, reader.problem(stripline::message<T>::name()));
    }
    return made;
}

/// Sends a message. Fails like publisher::send, which refuses a message that does not fit the
/// publisher's schema.
template <class T>
result<void> send_message(publisher<std::uint8_t> &to, const T &message, const std::nothrow_t &) {
    return to.send(to_cbor(message), std::nothrow);
}

/// Sends a message with the time, sample index and scope in `options`.
template <class T>
result<void> send_message(
    publisher<std::uint8_t> &to, const T &message, const send_options &options, const std::nothrow_t &) {
    return to.send(to_cbor(message), options, std::nothrow);
}

/// Sends a message with the stream, sample index, time and order of a received packet of samples,
/// or of a message. Fails like publisher::loan and loan::send_like.
template <class T, class U>
result<void> send_message_like(
    publisher<std::uint8_t> &to, const T &message, const packet_base<U> &packet, const std::nothrow_t &) {
    return detail::send_bytes_like(to, to_cbor(message), packet);
}

/// Returns the value of a received message. Fails like `from_cbor`.
template <class T>
result<T> message_of(const packet_base<std::uint8_t> &message, const std::nothrow_t &) {
    return from_cbor<T>(message.samples(), std::nothrow);
}

#if STRIPLINE_EXCEPTIONS
template <class T>
T from_cbor(span<const std::uint8_t> bytes) {
    return from_cbor<T>(bytes, std::nothrow).value();
}
template <class T>
void send_message(publisher<std::uint8_t> &to, const T &message) {
    send_message(to, message, std::nothrow).value();
}
template <class T>
void send_message(publisher<std::uint8_t> &to, const T &message, const send_options &options) {
    send_message(to, message, options, std::nothrow).value();
}
template <class T, class U>
void send_message_like(publisher<std::uint8_t> &to, const T &message, const packet_base<U> &packet) {
    send_message_like(to, message, packet, std::nothrow).value();
}
template <class T>
T message_of(const packet_base<std::uint8_t> &message) {
    return message_of<T>(message, std::nothrow).value();
}
#endif

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

/// @cond
#define STRIPLINE_MESSAGE_FIELD(type, name) visit(#name, value.name);
/// @endcond

/// Makes a structure a message, with a name and the fields that are sent.
///
/// Write it once, outside any namespace. A field is a number, `bool`, `std::string`, an array, a
/// `std::vector` or `std::optional` of these, or a structure with such a line. The schema is
/// `name{field:type,...}` (docs/layouts.md), as Rust's `#[derive(stripline::Message)]` makes it.
#define STRIPLINE_MESSAGE(type, name_, ...) \
    template <> \
    struct stripline::message<type> { \
        static_assert(std::is_default_constructible_v<type>, \
                      "stripline: a message must have a default constructor, for the receiver"); \
        static_assert(::stripline::detail::is_name(name_) && sizeof(name_) <= 57, \
                      "stripline: the name of a message has 1 to 56 of a-z, 0-9, '-', '/', '.', and is not a " \
                      "built-in one"); \
        static constexpr const char *name() noexcept { return name_; } \
        template <class Value, class Visit> \
        static void fields(Value &value, Visit &&visit) { \
            STRIPLINE_EACH(STRIPLINE_MESSAGE_FIELD, type, __VA_ARGS__) \
        } \
    };

#endif
