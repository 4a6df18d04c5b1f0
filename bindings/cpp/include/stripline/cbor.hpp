/// @file
/// The form of messages: schemas, and values in CBOR (RFC 8949). message.hpp has the functions for
/// programs.
#ifndef STRIPLINE_CBOR_HPP
#define STRIPLINE_CBOR_HPP

#include "packet.hpp"
#include "sample.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The name and fields of a message. STRIPLINE_MESSAGE makes the specializations.
template <class T, class = void>
struct message;

/// @cond
namespace detail {

template <class T, class = void>
struct has_message : std::false_type {};
template <class T>
struct has_message<T, std::void_t<decltype(sizeof(message<T>))>> : std::true_type {};

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {
    static_assert(!is_optional<T>::value, "stripline: an optional field of a message is optional once");
};

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};

// C arrays and std::array.
template <class T>
struct array_of : std::false_type {};
template <class T, std::size_t Length>
struct array_of<T[Length]> : std::true_type {
    using item = T;
    static constexpr std::size_t length = Length;
};
template <class T, std::size_t Length>
struct array_of<std::array<T, Length>> : array_of<T[Length]> {};

/// Appends the schema of a type (docs/layouts.md).
template <class T>
void put_schema(std::string &text) {
    if constexpr (std::is_same_v<T, bool>) {
        text += "bool";
    } else if constexpr (is_number<T>) {
        text += sample<T>::name();
    } else if constexpr (std::is_same_v<T, std::string>) {
        text += "text";
    } else if constexpr (is_optional<T>::value) {
        put_schema<typename T::value_type>(text);
        text += '?';
    } else if constexpr (is_vector<T>::value) {
        put_schema<typename T::value_type>(text);
        text += "[]";
    } else if constexpr (array_of<T>::value) {
        put_schema<typename array_of<T>::item>(text);
        text += '[' + std::to_string(array_of<T>::length) + ']';
    } else {
        static_assert(
            has_message<T>::value,
            "stripline: a field of a message must be a number, bool, std::string, an array, std::vector or "
            "std::optional of these, or a structure with STRIPLINE_MESSAGE");
        if constexpr (has_message<T>::value) {
            text += message<T>::name();
            char between = '{';
            const T made{};
            message<T>::fields(made, [&](const char *name, const auto &field) {
                text += between;
                text += name;
                text += ':';
                put_schema<std::remove_cv_t<std::remove_reference_t<decltype(field)>>>(text);
                between = ',';
            });
            text += '}';
        }
    }
}

/// Encodes values.
class cbor_writer {
public:
    template <class T>
    void put(const T &value) {
        if constexpr (std::is_same_v<T, bool>) {
            bytes.push_back(value ? 0xf5 : 0xf4);
        } else if constexpr (std::is_floating_point_v<T>) {
            using bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
            bits number = 0;
            std::memcpy(&number, &value, sizeof number);
            bytes.push_back(sizeof(T) == 4 ? 0xfa : 0xfb);
            put_bytes(number, sizeof number);
        } else if constexpr (is_number<T>) {
            const bool is_negative = std::is_signed_v<T> && value < T(0);
            const auto number = static_cast<std::uint64_t>(value);
            head(is_negative ? 1 : 0, is_negative ? ~number : number);
        } else if constexpr (std::is_same_v<T, std::string>) {
            head(3, value.size());
            bytes.insert(bytes.end(), value.begin(), value.end());
        } else if constexpr (is_optional<T>::value) {
            if (value) {
                put(*value);
            } else {
                bytes.push_back(0xf6);
            }
        } else if constexpr (is_vector<T>::value) {
            put_list<typename T::value_type>(value, value.size());
        } else if constexpr (array_of<T>::value) {
            put_list<typename array_of<T>::item>(value, array_of<T>::length);
        } else {
            std::uint64_t count = 0;
            message<T>::fields(value, [&](const char *, const auto &) { count += 1; });
            head(5, count);
            message<T>::fields(value, [&](const char *name, const auto &field) {
                const std::size_t length = std::strlen(name);
                head(3, length);
                bytes.insert(bytes.end(), name, name + length);
                put(field);
            });
        }
    }

    std::vector<std::uint8_t> bytes;

private:
    template <class Item, class List>
    void put_list(const List &list, std::size_t length) {
        head(4, length);
        for (std::size_t index = 0; index < length; index++) {
            // The elements of std::vector<bool> are not of that type.
            put(static_cast<const Item &>(list[index]));
        }
    }
    void put_bytes(std::uint64_t number, std::size_t count) {
        while (count-- > 0) {
            bytes.push_back(static_cast<std::uint8_t>(number >> (8 * count)));
        }
    }
    void head(unsigned major, std::uint64_t number) {
        const auto first = [&](unsigned low) { bytes.push_back(static_cast<std::uint8_t>(major << 5 | low)); };
        if (number < 24) {
            return first(static_cast<unsigned>(number));
        }
        const unsigned power = number <= 0xff ? 0 : number <= 0xffff ? 1 : number <= 0xffffffff ? 2 : 3;
        first(24 + power);
        put_bytes(number, std::size_t(1) << power);
    }
};

/// Decodes values. After a mistake, `problem` names it with the place.
class cbor_reader {
public:
    explicit cbor_reader(span<const std::uint8_t> bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

    /// Reads a value that must be all the bytes.
    template <class T>
    bool whole(T &into) {
        return get(into) && (at_ == end_ || wrong(std::to_string(end_ - at_) + " bytes follow the message"));
    }

    std::string problem(const char *name) const { return '`' + (name + path_) + "`: " + text_; }

private:
    struct cbor_head {
        unsigned major = 0, low = 0;
        std::uint64_t number = 0;
        bool is_open() const { return low == 31; }
    };

    static constexpr int nesting_max = 64;

    template <class T>
    bool get(T &into) {
        if constexpr (is_optional<T>::value) {
            if (at_ != end_ && (*at_ == 0xf6 || *at_ == 0xf7)) {
                at_ += 1;
                into.reset();
                return true;
            }
            return get(into.emplace());
        } else {
            cbor_head head;
            if (!read(head)) {
                return false;
            }
            return fill(into, head);
        }
    }

    template <class T>
    bool fill(T &into, const cbor_head &head) {
        if constexpr (std::is_same_v<T, bool>) {
            into = head.low == 21;
            return (head.major == 7 && (head.low == 20 || head.low == 21)) || must_be("a boolean");
        } else if constexpr (std::is_floating_point_v<T>) {
            return (head.major == 7 && fill_float(into, head)) || must_be("a float");
        } else if constexpr (is_number<T>) {
            constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
            const bool fits = head.major <= (std::is_signed_v<T> ? 1U : 0U) && head.number <= most;
            if (!fits) {
                return must_be(
                    "a whole number from " + std::to_string(std::numeric_limits<T>::min()) + " to " +
                    std::to_string(most));
            }
            const auto number = static_cast<T>(head.number);
            into = head.major == 1 ? static_cast<T>(-1 - number) : number;
            return true;
        } else if constexpr (std::is_same_v<T, std::string>) {
            return head.major == 3 ? text(into, head) : must_be("text");
        } else if constexpr (is_vector<T>::value) {
            into.clear();
            return head.major != 4 ? must_be("a list") : items(head, [&](std::uint64_t index) {
                typename T::value_type item{};
                const bool is_good = get(item) || within('[' + std::to_string(index) + ']');
                into.push_back(std::move(item));
                return is_good;
            });
        } else if constexpr (array_of<T>::value) {
            constexpr std::size_t length = array_of<T>::length;
            std::uint64_t count = 0;
            const bool is_list = head.major == 4 && (head.is_open() || head.number == length);
            const auto item = [&](std::uint64_t index) {
                count += 1;
                return index < length && (get(into[static_cast<std::size_t>(index)]) ||
                                          within('[' + std::to_string(index) + ']'));
            };
            return (is_list && items(head, item) && count == length) ||
                   must_be("a list of " + std::to_string(length));
        } else {
            return head.major == 5 ? fields(into, head) : must_be("a structure");
        }
    }

    template <class T>
    bool fields(T &into, const cbor_head &head) {
        std::uint64_t seen = 0;
        std::string key;
        const bool done = items(head, [&](std::uint64_t) {
            cbor_head of_key;
            if (!read(of_key) || of_key.major != 3 || !text(key, of_key)) {
                return wrong("the name of a field must be here");
            }
            std::uint64_t bit = 1;
            bool is_found = false, is_good = true;
            message<T>::fields(into, [&](const char *name, auto &field) {
                if (key == name) {
                    is_found = true;
                    is_good = (seen & bit) == 0 ? get(field) : wrong("this field is there twice");
                    seen |= bit;
                }
                bit <<= 1;
            });
            return is_found ? is_good || within('.' + key) : skip(0);
        });
        std::uint64_t bit = 1;
        bool is_complete = true;
        message<T>::fields(into, [&](const char *name, auto &field) {
            using of = std::remove_reference_t<decltype(field)>;
            if (done && is_complete && (seen & bit) == 0 && !is_optional<of>::value) {
                is_complete = wrong("the field is missing") || within(std::string(".") + name);
            }
            bit <<= 1;
        });
        return done && is_complete;
    }

    /// Calls a function for each item of a list or map.
    template <class Item>
    bool items(const cbor_head &head, Item &&item) {
        for (std::uint64_t index = 0; head.is_open() || index < head.number; index++) {
            if (head.is_open() && at_ != end_ && *at_ == 0xff) {
                at_ += 1;
                break;
            }
            if (!item(index)) {
                return false;
            }
        }
        return true;
    }

    template <class T>
    static bool fill_float(T &into, const cbor_head &head) {
        if (head.low == 25) {
            const int exponent = static_cast<int>(head.number >> 10 & 0x1f);
            const auto fraction = static_cast<double>(head.number & 0x3ff);
            const double size = exponent == 0    ? std::ldexp(fraction, -24)
                                : exponent != 31 ? std::ldexp(fraction + 1024, exponent - 25)
                                : fraction == 0  ? std::numeric_limits<double>::infinity()
                                                 : std::numeric_limits<double>::quiet_NaN();
            into = static_cast<T>((head.number & 0x8000) != 0 ? -size : size);
        } else if (head.low == 26) {
            const auto bits = static_cast<std::uint32_t>(head.number);
            float number = 0;
            std::memcpy(&number, &bits, sizeof number);
            into = static_cast<T>(number);
        } else if (head.low == 27) {
            double number = 0;
            std::memcpy(&number, &head.number, sizeof number);
            into = static_cast<T>(number);
        }
        return head.low >= 25 && head.low <= 27;
    }

    /// Reads the bytes of a text or byte string, also in parts.
    bool text(std::string &into, const cbor_head &head) {
        into.clear();
        const auto part = [&](std::uint64_t length) {
            if (length > static_cast<std::uint64_t>(end_ - at_)) {
                return wrong("the message is cut off");
            }
            into.append(reinterpret_cast<const char *>(at_), static_cast<std::size_t>(length));
            at_ += length;
            return true;
        };
        if (!head.is_open()) {
            return part(head.number);
        }
        return items(head, [&](std::uint64_t) {
            cbor_head of_part;
            return read(of_part) && of_part.major == head.major && !of_part.is_open() && part(of_part.number);
        }) || wrong("the parts of a text must be here");
    }

    /// Skips the value of a field that the structure does not have.
    bool skip(int depth) {
        cbor_head head;
        if (!read(head)) {
            return false;
        }
        if (depth == nesting_max) {
            return wrong("the message is nested too deep");
        }
        std::string ignored;
        switch (head.major) {
            case 2:
            case 3: return text(ignored, head);
            case 4: return items(head, [&](std::uint64_t) { return skip(depth + 1); });
            case 5: return items(head, [&](std::uint64_t) { return skip(depth + 1) && skip(depth + 1); });
            default: return true;
        }
    }

    /// Reads the beginning of a value, behind the tags.
    bool read(cbor_head &head) {
        do {
            if (at_ == end_) {
                return wrong("the message is cut off");
            }
            head.major = *at_ >> 5;
            head.low = *at_ & 31;
            head.number = head.low;
            at_ += 1;
            const bool is_break = head.low == 31 && (head.major < 2 || head.major > 5);
            if ((head.low >= 28 && head.low <= 30) || is_break) {
                return wrong("the bytes are not CBOR");
            }
            if (head.low >= 24 && head.low <= 27) {
                const std::ptrdiff_t count = std::ptrdiff_t(1) << (head.low - 24);
                if (end_ - at_ < count) {
                    return wrong("the message is cut off");
                }
                head.number = 0;
                for (std::ptrdiff_t index = 0; index < count; index++) {
                    head.number = head.number << 8 | *at_++;
                }
            }
        } while (head.major == 6);
        return true;
    }

    bool must_be(const std::string &words) { return wrong(words + " must be here"); }
    /// Keeps the first mistake.
    bool wrong(const std::string &text) {
        if (text_.empty()) {
            text_ = text;
        }
        return false;
    }
    /// Puts the step to a value with a mistake before the path.
    bool within(const std::string &step) {
        path_ = step + path_;
        return false;
    }

    const std::uint8_t *at_;
    const std::uint8_t *end_;
    std::string path_, text_;
};

/// Sends bytes with the stream, sample index, time and order of a received packet.
template <class Publisher, class Packet>
result<void> send_bytes_like(Publisher &to, const std::vector<std::uint8_t> &bytes, const Packet &packet) {
    auto room = to.loan(bytes.size(), std::nothrow);
    if (!room) {
        return room.error();
    }
    std::memcpy(room->data(), bytes.data(), bytes.size());
    return room->send_like(packet, std::nothrow);
}

}  // namespace detail
/// @endcond

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
