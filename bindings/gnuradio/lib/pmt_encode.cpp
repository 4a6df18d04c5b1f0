// Converts values of GNU Radio to CBOR.
#include "pmt_steps.hpp"

#include <complex>
#include <cstring>
#include <type_traits>

namespace stripline::gr {
namespace {

/// The maximum size of a packet, and so of a message, in bytes.
constexpr std::size_t message_bytes_max = std::size_t{1} << 30;

class encoder {
public:
    void put(const pmt::pmt_t &value, unsigned depth);
    std::vector<std::uint8_t> take() { return std::move(out_); }

private:
    void put_byte(std::uint8_t byte) { out_.push_back(byte); }
    void put_head(major kind, std::uint64_t number);
    template <class Bits>
    void put_bits(std::uint8_t head, Bits bits);
    void put_raw(const void *from, std::size_t length);
    void put_text(const pmt::pmt_t &symbol);
    void put_number(std::int64_t number);
    void put_number(std::uint64_t number) { put_head(major::positive, number); }
    void put_number(float number);
    void put_number(double number);
    template <class Number>
    void put_number(std::complex<Number> number);
    void put_vector(const pmt::pmt_t &value);
    template <class Number>
    bool put_elements(const pmt::pmt_t &value, bool is_type);
    void put_dictionary(const pmt::pmt_t &value, unsigned depth);
    void put_pair(const pmt::pmt_t &value, unsigned depth);
    void put_entry(const pmt::pmt_t &key, const pmt::pmt_t &value, unsigned depth);
    template <class At>
    void put_items(std::size_t count, unsigned depth, At at);

    std::vector<std::uint8_t> out_;
};

void encoder::put_head(major kind, std::uint64_t number) {
    const auto first = static_cast<std::uint8_t>(static_cast<unsigned>(kind) << 5);
    if (number < 24) {
        put_byte(static_cast<std::uint8_t>(first | number));
    } else if (number <= 0xff) {
        put_bits(first | 24, static_cast<std::uint8_t>(number));
    } else if (number <= 0xffff) {
        put_bits(first | 25, static_cast<std::uint16_t>(number));
    } else if (number <= 0xffffffff) {
        put_bits(first | 26, static_cast<std::uint32_t>(number));
    } else {
        put_bits(first | 27, number);
    }
}

template <class Bits>
void encoder::put_bits(std::uint8_t head, Bits bits) {
    std::uint8_t encoded[1 + sizeof bits] = {head};
    for (std::size_t index = 0; index < sizeof bits; index++) {
        encoded[1 + index] = static_cast<std::uint8_t>(bits >> 8 * (sizeof bits - 1 - index));
    }
    put_raw(encoded, sizeof encoded);
}

void encoder::put_raw(const void *from, std::size_t length) {
    if (length > message_bytes_max - out_.size()) {
        problem("a message has at most " + std::to_string(message_bytes_max) + " bytes; send less at once");
    }
    const auto *const start = static_cast<const std::uint8_t *>(from);
    out_.insert(out_.end(), start, start + length);
}

void encoder::put_text(const pmt::pmt_t &symbol) {
    const std::string &words = pmt::symbol_to_string(symbol);
    if (!is_utf8(words)) {
        problem("the text is not UTF-8; send it as a u8vector");
    }
    put_head(major::text, words.size());
    put_raw(words.data(), words.size());
}

void encoder::put_number(std::int64_t number) {
    if (number < 0) {
        put_head(major::negative, ~static_cast<std::uint64_t>(number));
    } else {
        put_head(major::positive, static_cast<std::uint64_t>(number));
    }
}

void encoder::put_number(float number) {
    std::uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    put_bits(0xfa, bits);
}

void encoder::put_number(double number) {
    std::uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    put_bits(0xfb, bits);
}

template <class Number>
void encoder::put_number(std::complex<Number> number) {
    put_head(major::array, 2);
    put_number(number.real());
    put_number(number.imag());
}

template <class Number>
bool encoder::put_elements(const pmt::pmt_t &value, bool is_type) {
    if (!is_type) {
        return false;
    }
    std::size_t length = 0;
    const auto *const elements = static_cast<const Number *>(pmt::uniform_vector_elements(value, length));
    const std::size_t count = length / sizeof(Number);
    put_head(major::array, count);
    for (std::size_t index = 0; index < count; index++) {
        if constexpr (std::is_integral_v<Number>) {
            put_number(static_cast<std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t>>(
                elements[index]));
        } else {
            put_number(elements[index]);
        }
    }
    return true;
}

void encoder::put_vector(const pmt::pmt_t &value) {
    if (pmt::is_u8vector(value)) {
        std::size_t length = 0;
        const void *const elements = pmt::uniform_vector_elements(value, length);
        put_head(major::bytes, length);
        put_raw(elements, length);
        return;
    }
    const bool is_put = put_elements<std::int8_t>(value, pmt::is_s8vector(value)) ||
                        put_elements<std::int16_t>(value, pmt::is_s16vector(value)) ||
                        put_elements<std::uint16_t>(value, pmt::is_u16vector(value)) ||
                        put_elements<std::int32_t>(value, pmt::is_s32vector(value)) ||
                        put_elements<std::uint32_t>(value, pmt::is_u32vector(value)) ||
                        put_elements<std::int64_t>(value, pmt::is_s64vector(value)) ||
                        put_elements<std::uint64_t>(value, pmt::is_u64vector(value)) ||
                        put_elements<float>(value, pmt::is_f32vector(value)) ||
                        put_elements<double>(value, pmt::is_f64vector(value)) ||
                        put_elements<std::complex<float>>(value, pmt::is_c32vector(value)) ||
                        put_elements<std::complex<double>>(value, pmt::is_c64vector(value));
    if (!is_put) {
        problem("a uniform vector of that type has no form in a message");
    }
}

void encoder::put_entry(const pmt::pmt_t &key, const pmt::pmt_t &value, unsigned depth) {
    if (!pmt::is_symbol(key)) {
        problem("the key " + pmt::write_string(key).substr(0, 64) + " is not a symbol; use pmt.intern");
    }
    within([&] { return step_to(pmt::symbol_to_string(key)); }, [&] {
        put_text(key);
        put(value, depth);
    });
}

void encoder::put_dictionary(const pmt::pmt_t &value, unsigned depth) {
    // The newest entry is the first.
    std::vector<pmt::pmt_t> entries;
    for (pmt::pmt_t rest = value; pmt::is_pair(rest) && pmt::is_pair(pmt::car(rest)); rest = pmt::cdr(rest)) {
        entries.push_back(pmt::car(rest));
    }
    put_head(major::map, entries.size());
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
        put_entry(pmt::car(*entry), pmt::cdr(*entry), depth);
    }
}

/// Returns the length of a list, or nothing for a pair that does not begin a list. A list that
/// contains itself is not a list.
std::optional<std::size_t> list_length(const pmt::pmt_t &value) {
    std::size_t count = 0;
    pmt::pmt_t slow = value, fast = value;
    while (pmt::is_pair(fast)) {
        fast = pmt::cdr(fast);
        count += 1;
        if (count % 2 == 0) {
            slow = pmt::cdr(slow);
        }
        if (fast == slow) {
            problem("it is a list within itself");
        }
    }
    return pmt::is_null(fast) ? std::optional<std::size_t>(count) : std::nullopt;
}

void encoder::put_pair(const pmt::pmt_t &value, unsigned depth) {
    if (const auto count = list_length(value)) {
        pmt::pmt_t rest = value;
        put_items(*count, depth, [&](std::size_t) {
            const pmt::pmt_t item = pmt::car(rest);
            rest = pmt::cdr(rest);
            return item;
        });
    } else if (pmt::is_pdu(value)) {
        static const pmt::pmt_t meta = pmt::mp("meta"), data = pmt::mp("data");
        put_head(major::map, 2);
        if (pmt::is_null(pmt::car(value))) {
            // An empty dictionary, which PMT cannot distinguish from no value.
            put_text(meta);
            put_head(major::map, 0);
        } else {
            put_entry(meta, pmt::car(value), depth);
        }
        put_entry(data, pmt::cdr(value), depth);
    } else if (pmt::is_symbol(pmt::car(value))) {
        put_head(major::map, 1);
        put_entry(pmt::car(value), pmt::cdr(value), depth);
    } else {
        problem("a pair has a form in a message where it begins a list, is a PDU, or has a symbol first");
    }
}

template <class At>
void encoder::put_items(std::size_t count, unsigned depth, At at) {
    put_head(major::array, count);
    for (std::size_t index = 0; index < count; index++) {
        const pmt::pmt_t item = at(index);
        within([&] { return step_to(index); }, [&] { put(item, depth); });
    }
}

void encoder::put(const pmt::pmt_t &value, unsigned depth) {
    if (pmt::is_symbol(value)) {
        return put_text(value);
    }
    if (pmt::is_bool(value)) {
        return put_byte(pmt::is_true(value) ? 0xf5 : 0xf4);
    }
    if (pmt::is_null(value)) {
        return put_byte(0xf6);
    }
    if (pmt::is_uint64(value)) {
        return put_number(pmt::to_uint64(value));
    }
    if (pmt::is_integer(value)) {
        return put_number(static_cast<std::int64_t>(pmt::to_long(value)));
    }
    if (pmt::is_real(value)) {
        return put_number(pmt::to_double(value));
    }
    if (pmt::is_complex(value)) {
        return put_number(pmt::to_complex(value));
    }
    check_depth(depth);
    if (pmt::is_uniform_vector(value)) {
        return put_vector(value);
    }
    if (pmt::is_dict(value)) {
        return put_dictionary(value, depth + 1);
    }
    if (pmt::is_pair(value)) {
        return put_pair(value, depth + 1);
    }
    if (pmt::is_vector(value)) {
        return put_items(
            pmt::length(value), depth + 1, [&](std::size_t index) { return pmt::vector_ref(value, index); });
    }
    if (pmt::is_tuple(value)) {
        return put_items(
            pmt::length(value), depth + 1, [&](std::size_t index) { return pmt::tuple_ref(value, index); });
    }
    problem("a value of that kind has no form in a message: " + pmt::write_string(value).substr(0, 64));
}

}  // namespace

std::vector<std::uint8_t> encode_message(const pmt::pmt_t &value) {
    encoder into;
    try {
        into.put(value, 0);
    } catch (const inner_problem &found) {
        throw found.whole();
    } catch (const std::bad_alloc &) {
        throw message_problem("there is no memory for the message");
    }
    return into.take();
}

}  // namespace stripline::gr
