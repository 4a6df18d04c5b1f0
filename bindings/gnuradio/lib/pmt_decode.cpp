// Converts values in CBOR for GNU Radio. The bytes come from a peer, so each length is checked
// before use.
#include "pmt_steps.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

namespace stripline::gr {
namespace {

/// The head of an item: the kind and number. For the kind `simple`, `info` contains the value.
struct head {
    major kind;
    std::uint8_t info;
    std::uint64_t number;
    bool is_indefinite() const { return info == 31; }
};

class decoder {
public:
    decoder(const std::uint8_t *at, std::size_t length, const message_form &form)
        : start_(at), at_(at), end_(at + length), form_(form) {}

    pmt::pmt_t whole() {
        pmt::pmt_t value = item(0);
        if (at_ != end_) {
            problem(std::to_string(end_ - at_) + " bytes follow the message");
        }
        return value;
    }

private:
    std::size_t remaining() const { return static_cast<std::size_t>(end_ - at_); }
    [[noreturn]] void no_cbor() const {
        problem("it is not CBOR (RFC 8949) at byte " + std::to_string(at_ - start_));
    }
    std::uint64_t big_endian(std::size_t length);
    head next();
    bool takes_break();
    template <class Each>
    void each(const head &of, std::size_t least, Each one);
    std::string string_of(const head &of);
    std::string text_of(const head &of);
    pmt::pmt_t item(unsigned depth) { return value_of(next(), depth); }
    pmt::pmt_t value_of(const head &of, unsigned depth);
    pmt::pmt_t simple_of(const head &of);
    pmt::pmt_t array_of(const head &of, unsigned depth);
    pmt::pmt_t map_of(const head &of, unsigned depth);
    pmt::pmt_t key(unsigned depth);
    template <class Number>
    std::optional<pmt::pmt_t> uniform(const head &of, pmt::pmt_t (*make)(std::size_t, const Number *));
    std::optional<pmt::pmt_t> uniform_of(const head &of);
    template <class Number>
    std::optional<Number> number();
    double float_of(const head &of) const;

    const std::uint8_t *const start_;
    const std::uint8_t *at_;
    const std::uint8_t *const end_;
    const message_form &form_;
};

std::uint64_t decoder::big_endian(std::size_t length) {
    if (remaining() < length) {
        problem("it ends early");
    }
    std::uint64_t number = 0;
    for (std::size_t index = 0; index < length; index++) {
        number = number << 8 | *at_++;
    }
    return number;
}

/// Reads the head of an item, after any tags before it. The tags are left out.
head decoder::next() {
    while (true) {
        const auto first = static_cast<std::uint8_t>(big_endian(1));
        head of{static_cast<major>(first >> 5), static_cast<std::uint8_t>(first & 31), 0};
        if (of.info < 24) {
            of.number = of.info;
        } else if (of.info < 28) {
            of.number = big_endian(std::size_t{1} << (of.info - 24));
        } else if (of.info != 31 || of.kind < major::bytes || of.kind == major::tag) {
            no_cbor();
        }
        if (of.kind != major::tag) {
            return of;
        }
    }
}

bool decoder::takes_break() {
    if (remaining() == 0) {
        problem("it ends early");
    }
    const bool is_break = *at_ == 0xff;
    at_ += is_break ? 1 : 0;
    return is_break;
}

/// Runs a function for each element. An element has at least `least` bytes, so a large number
/// without its elements is detected early.
template <class Each>
void decoder::each(const head &of, std::size_t least, Each one) {
    if (!of.is_indefinite() && of.number > remaining() / least) {
        problem("it ends early");
    }
    for (std::size_t index = 0; of.is_indefinite() ? !takes_break() : index < of.number; index++) {
        one(index);
    }
}

/// Returns the bytes of a text or a byte string. The parts are joined.
std::string decoder::string_of(const head &of) {
    if (!of.is_indefinite()) {
        if (of.number > remaining()) {
            problem("it ends early");
        }
        std::string found(reinterpret_cast<const char *>(at_), static_cast<std::size_t>(of.number));
        at_ += of.number;
        return found;
    }
    std::string joined;
    while (!takes_break()) {
        const head part = next();
        if (part.kind != of.kind || part.is_indefinite()) {
            no_cbor();
        }
        joined += string_of(part);
    }
    return joined;
}

std::string decoder::text_of(const head &of) {
    std::string found = string_of(of);
    if (!is_utf8(found)) {
        problem("its text is not UTF-8");
    }
    return found;
}

pmt::pmt_t decoder::value_of(const head &of, unsigned depth) {
    switch (of.kind) {
        case major::positive:
            return of.number <= static_cast<std::uint64_t>(std::numeric_limits<long>::max())
                       ? pmt::from_long(static_cast<long>(of.number))
                       : pmt::from_uint64(of.number);
        case major::negative:
            if (of.number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
                problem("the whole number is below -2^63, which PMT does not have");
            }
            return pmt::from_long(static_cast<long>(~of.number));
        case major::bytes: {
            const std::string found = string_of(of);
            return pmt::init_u8vector(found.size(), reinterpret_cast<const std::uint8_t *>(found.data()));
        }
        case major::text:
            return pmt::mp(text_of(of));
        case major::array:
            check_depth(depth);
            return array_of(of, depth + 1);
        case major::map:
            check_depth(depth);
            return map_of(of, depth + 1);
        default:
            return simple_of(of);
    }
}

double decoder::float_of(const head &of) const {
    if (of.info == 27) {
        double number;
        std::memcpy(&number, &of.number, sizeof number);
        return number;
    }
    if (of.info == 26) {
        const auto bits = static_cast<std::uint32_t>(of.number);
        float number;
        std::memcpy(&number, &bits, sizeof number);
        return static_cast<double>(number);
    }
    const int exponent = static_cast<int>(of.number >> 10 & 31);
    const auto fraction = static_cast<double>(of.number & 1023);
    const double size = exponent == 0    ? std::ldexp(fraction, -24)
                        : exponent != 31 ? std::ldexp(fraction + 1024, exponent - 25)
                        : fraction == 0  ? std::numeric_limits<double>::infinity()
                                         : std::numeric_limits<double>::quiet_NaN();
    return (of.number & 0x8000) != 0 ? -size : size;
}

pmt::pmt_t decoder::simple_of(const head &of) {
    switch (of.info) {
        case 20:
            return pmt::PMT_F;
        case 21:
            return pmt::PMT_T;
        case 22:
        case 23:
            return pmt::PMT_NIL;
        case 25:
        case 26:
        case 27:
            return pmt::from_double(float_of(of));
        default:
            no_cbor();
    }
}

/// Reads a number of type `Number`; `nullopt` if the item is not a number of this type. The
/// position is then undefined.
template <class Number>
std::optional<Number> decoder::number() {
    if constexpr (!std::is_arithmetic_v<Number>) {
        const head of = next();
        if (of.kind != major::array || of.is_indefinite() || of.number != 2) {
            return std::nullopt;
        }
        const auto real = number<typename Number::value_type>();
        const auto imaginary = real ? number<typename Number::value_type>() : std::nullopt;
        return imaginary ? std::optional<Number>(Number(*real, *imaginary)) : std::nullopt;
    } else {
        const head of = next();
        if (of.kind > major::negative && (of.kind != major::simple || of.info < 25 || of.info > 27)) {
            return std::nullopt;
        }
        if constexpr (std::is_integral_v<Number>) {
            using limits = std::numeric_limits<Number>;
            const bool fits = of.kind == major::positive ? of.number <= static_cast<std::uint64_t>(limits::max())
                              : of.kind == major::negative
                                  ? limits::is_signed && of.number <= static_cast<std::uint64_t>(limits::max())
                                  : false;
            if (!fits) {
                problem("the number does not fit the type of `vectors`");
            }
            return static_cast<Number>(of.kind == major::positive ? of.number : ~of.number);
        } else {
            const double found = of.kind == major::simple     ? float_of(of)
                                 : of.kind == major::positive ? static_cast<double>(of.number)
                                                       : -1.0 - static_cast<double>(of.number);
            return static_cast<Number>(found);
        }
    }
}

/// Reads an array that contains only numbers as a uniform vector. For any other array, returns
/// `nullopt`, and the position stays.
template <class Number>
std::optional<pmt::pmt_t> decoder::uniform(const head &of, pmt::pmt_t (*make)(std::size_t, const Number *)) {
    const std::uint8_t *const before = at_;
    std::vector<Number> numbers;
    bool is_uniform = true;
    if (!of.is_indefinite()) {
        numbers.reserve(std::min(static_cast<std::size_t>(of.number), remaining()));
    }
    try {
        each(of, 1, [&](std::size_t index) {
            const auto found = within([&] { return step_to(index); }, [&] { return number<Number>(); });
            if (!found) {
                is_uniform = false;
                throw inner_problem{};
            }
            numbers.push_back(*found);
        });
    } catch (const inner_problem &) {
        if (is_uniform) {
            throw;
        }
        at_ = before;
        return std::nullopt;
    }
    return make(numbers.size(), numbers.data());
}

std::optional<pmt::pmt_t> decoder::uniform_of(const head &of) {
    const std::string &name = form_.vectors->name;
    if (name == "u8") {
        return uniform<std::uint8_t>(of, pmt::init_u8vector);
    }
    if (name == "s8") {
        return uniform<std::int8_t>(of, pmt::init_s8vector);
    }
    if (name == "u16") {
        return uniform<std::uint16_t>(of, pmt::init_u16vector);
    }
    if (name == "s16") {
        return uniform<std::int16_t>(of, pmt::init_s16vector);
    }
    if (name == "u32") {
        return uniform<std::uint32_t>(of, pmt::init_u32vector);
    }
    if (name == "s32") {
        return uniform<std::int32_t>(of, pmt::init_s32vector);
    }
    if (name == "u64") {
        return uniform<std::uint64_t>(of, pmt::init_u64vector);
    }
    if (name == "s64") {
        return uniform<std::int64_t>(of, pmt::init_s64vector);
    }
    if (name == "f32") {
        return uniform<float>(of, pmt::init_f32vector);
    }
    if (name == "f64") {
        return uniform<double>(of, pmt::init_f64vector);
    }
    if (name == "cf32") {
        return uniform<std::complex<float>>(of, pmt::init_c32vector);
    }
    return uniform<std::complex<double>>(of, pmt::init_c64vector);
}

pmt::pmt_t decoder::array_of(const head &of, unsigned depth) {
    if (form_.vectors) {
        if (auto found = uniform_of(of)) {
            return *found;
        }
    }
    std::vector<pmt::pmt_t> items;
    each(of, 1, [&](std::size_t index) {
        items.push_back(within([&] { return step_to(index); }, [&] { return item(depth); }));
    });
    pmt::pmt_t made = pmt::make_vector(items.size(), pmt::PMT_NIL);
    for (std::size_t index = 0; index < items.size(); index++) {
        pmt::vector_set(made, index, items[index]);
    }
    return made;
}

/// Reads the key of an entry: a text, or a number.
pmt::pmt_t decoder::key(unsigned depth) {
    const head of = next();
    if (of.kind == major::text || of.kind <= major::negative) {
        return value_of(of, depth);
    }
    problem("a key of a map is neither a text nor a whole number");
}

pmt::pmt_t decoder::map_of(const head &of, unsigned depth) {
    pmt::pmt_t made = pmt::make_dict();
    pmt::pmt_t name, value;
    pmt::pmt_t meta, data;
    std::size_t count = 0;
    each(of, 2, [&](std::size_t) {
        name = key(depth);
        const auto step = [&] {
            return pmt::is_symbol(name) ? step_to(pmt::symbol_to_string(name)) : "[" + pmt::write_string(name) + "]";
        };
        value = within(step, [&] { return item(depth); });
        // The new entry comes before an older entry of the same name, so a search does not find the
        // older one.
        made = pmt::dcons(pmt::cons(name, value), made);
        static const pmt::pmt_t meta_name = pmt::mp("meta"), data_name = pmt::mp("data");
        if (pmt::eq(name, meta_name)) {
            meta = value;
        } else if (pmt::eq(name, data_name)) {
            data = value;
        }
        count += 1;
    });
    const bool is_pdu = count == 2 && meta && data && pmt::is_uniform_vector(data) &&
                        (pmt::is_dict(meta) || pmt::is_null(meta));
    if (is_pdu) {
        return pmt::cons(meta, data);
    }
    return count == 1 && form_.pairs ? pmt::cons(name, value) : made;
}

}  // namespace

message_form message_form::of(const std::string &where, const message_source_options &settings) {
    message_form made;
    made.pairs = settings.pairs;
    if (settings.vectors.empty()) {
        return made;
    }
    made.vectors = sample_kind::of(settings.vectors);
    const std::string &name = made.vectors->name;
    if (name[0] == 'c' && name != "cf32" && name != "cf64") {
        throw std::invalid_argument(
            where + ": `vectors` is `" + settings.vectors + "`, of which GNU Radio has no uniform vectors; use complex");
    }
    return made;
}

pmt::pmt_t decode_message(const std::uint8_t *bytes, std::size_t length, const message_form &form) {
    try {
        return decoder(bytes, length, form).whole();
    } catch (const inner_problem &found) {
        throw found.whole();
    } catch (const std::bad_alloc &) {
        throw message_problem("there is no memory for the message");
    }
}

bool is_utf8(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
        const auto first = static_cast<unsigned char>(bytes[at]);
        const std::size_t more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : (first & 0xf0) == 0xe0 ? 2
                                 : first >= 0xf0 && first < 0xf5                  ? 3
                                                                                  : 4;
        if (more == 4 || more >= bytes.size() - at) {
            return false;
        }
        // The second byte shows an overlong form, a surrogate, or a value above the last character.
        const unsigned char lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        const unsigned char highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        for (std::size_t index = 1; index <= more; index++) {
            const auto byte = static_cast<unsigned char>(bytes[at + index]);
            if (byte < (index == 1 ? lowest : 0x80) || byte > (index == 1 ? highest : 0xbf)) {
                return false;
            }
        }
        at += more + 1;
    }
    return true;
}

}  // namespace stripline::gr
