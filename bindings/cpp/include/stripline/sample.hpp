/// @file
/// Sample types: numbers, complex numbers, and structures that STRIPLINE_SAMPLE describes.
///
///     struct detection {
///         std::uint32_t range_bin;
///         std::int32_t doppler_bin;
///         float level_db;
///     };
///     STRIPLINE_SAMPLE(detection, "det", range_bin, doppler_bin, level_db)
#ifndef STRIPLINE_SAMPLE_HPP
#define STRIPLINE_SAMPLE_HPP

#include "config.hpp"
#include "fields.hpp"

#include <array>
#include <complex>
#include <cstddef>
#include <type_traits>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The layout of a sample type, as in docs/layouts.md. There are specializations for numbers, for
/// `std::complex` of them, and for structures with STRIPLINE_SAMPLE or STRIPLINE_SAMPLE_NAMED.
template <class T, class = void>
struct sample;

/// @cond
namespace detail {

template <class T, class = void>
struct has_sample : std::false_type {};
template <class T>
struct has_sample<T, std::void_t<decltype(sizeof(sample<T>))>> : std::true_type {};

// Whether a type is a number. Characters and bool are distinct types, because their values are not
// numbers.
template <class T>
constexpr bool is_number =
    (std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
     !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>) ||
    (std::is_floating_point_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));

/// A text that is built at compile time. `size` keeps counting if the text does not fit.
struct layout_text {
    static constexpr std::size_t most = 2048;
    char data[most + 1] = {};
    std::size_t size = 0;

    constexpr void put(char symbol) {
        if (size < most) {
            data[size] = symbol;
        }
        size += 1;
    }
    constexpr void put(const char *text) {
        for (; *text != '\0'; text++) {
            put(*text);
        }
    }
    constexpr void put(std::size_t number) {
        if (number >= 10) {
            put(number / 10);
        }
        put(static_cast<char>('0' + number % 10));
    }
};

/// The text, with exactly as many bytes as it needs.
template <std::size_t Size>
struct fitted_text {
    char data[Size + 1] = {};
    constexpr explicit fitted_text(const layout_text &from) {
        for (std::size_t index = 0; index < Size && index < layout_text::most; index++) {
            data[index] = from.data[index];
        }
    }
};

template <class T>
constexpr void put_number(layout_text &text) {
    text.put(std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 's' : 'u');
    text.put(sizeof(T) * 8);
}

// The elements of C arrays and std::array, also with several dimensions.
template <class T>
struct element {
    using type = T;
    static constexpr void put_lengths(layout_text &) {}
};
template <class T, std::size_t Length>
struct element<T[Length]> {
    using type = typename element<T>::type;
    static constexpr void put_lengths(layout_text &text) {
        text.put('[');
        text.put(Length);
        text.put(']');
        element<T>::put_lengths(text);
    }
};
template <class T, std::size_t Length>
struct element<std::array<T, Length>> : element<T[Length]> {
    static_assert(sizeof(std::array<T, Length>) == sizeof(T[Length]), "stripline: std::array has padding here");
};

constexpr bool is_lower_or_digit(char symbol) {
    return (symbol >= 'a' && symbol <= 'z') || (symbol >= '0' && symbol <= '9');
}

/// Checks whether a name conforms to docs/layouts.md: 1 to 64 of a-z, 0-9, `-`, `/`, `.`, and not a
/// built-in type.
constexpr bool is_name(const char *name) {
    std::size_t size = 0;
    for (; name[size] != '\0'; size++) {
        const char symbol = name[size];
        if (!is_lower_or_digit(symbol) && symbol != '-' && symbol != '/' && symbol != '.') {
            return false;
        }
    }
    const char *number = name[0] == 'c' ? name + 1 : name;
    bool is_built_in = *number == 'u' || *number == 's' || *number == 'f';
    bool has_digits = false;
    for (const char *symbol = number; is_built_in && *symbol != '\0' && *++symbol != '\0';) {
        is_built_in = *symbol >= '0' && *symbol <= '9';
        has_digits = true;
    }
    const char *message = "message/";
    bool is_message = true;
    for (std::size_t index = 0; message[index] != '\0' && is_message; index++) {
        is_message = name[index] == message[index];
    }
    return size >= 1 && size <= 64 && !(is_built_in && has_digits) && !is_message;
}

/// Builds the layout of a structure, field by field, and finds padding.
struct structure {
    layout_text text;
    std::size_t size = 0;
    std::size_t align = 1;
    std::size_t fields = 0;
    bool is_packed = true;

    constexpr explicit structure(const char *name) {
        text.put(name);
        text.put('{');
    }
    template <class Field>
    constexpr structure field(const char *name, std::size_t offset) const {
        using number = typename element<Field>::type;
        static_assert(
            has_sample<number>::value,
            "stripline: a field of a sample must be a number, std::complex, a structure with "
            "STRIPLINE_SAMPLE, or an array of these; not a pointer, bool, char or enum");
        structure next = *this;
        if constexpr (has_sample<number>::value) {
            static_assert(
                sample<number>::is_layout,
                "stripline: a structure within a sample needs a layout: use STRIPLINE_SAMPLE for it");
            if (fields != 0) {
                next.text.put(',');
            }
            next.text.put(name);
            next.text.put(':');
            sample<number>::put(next.text);
            element<Field>::put_lengths(next.text);
        }
        next.is_packed = is_packed && offset == size;
        next.size = offset + sizeof(Field);
        next.align = alignof(Field) > align ? alignof(Field) : align;
        next.fields = fields + 1;
        return next;
    }
    constexpr structure end() const {
        structure next = *this;
        next.text.put('}');
        return next;
    }
};

template <class T>
struct number_sample {
    static constexpr bool is_layout = true;
    static constexpr void put(layout_text &text) { put_number<T>(text); }
    static constexpr layout_text make() {
        layout_text text;
        put(text);
        return text;
    }
    static constexpr fitted_text<4> text{make()};
    /// Returns the name, such as `f32`.
    static constexpr const char *name() noexcept { return text.data; }
};

template <class T>
struct complex_sample {
    static_assert(sizeof(std::complex<T>) == 2 * sizeof(T), "stripline: std::complex has padding here");
    static constexpr bool is_layout = true;
    static constexpr void put(layout_text &text) {
        text.put('c');
        put_number<T>(text);
    }
    static constexpr layout_text make() {
        layout_text text;
        put(text);
        return text;
    }
    static constexpr fitted_text<4> text{make()};
    static constexpr const char *name() noexcept { return text.data; }
};

/// Returns the C structure for a sample type.
template <class T>
stripline_sample_type type_of() noexcept {
    static_assert(
        has_sample<T>::value,
        "stripline: this is not a sample type: describe the structure with STRIPLINE_SAMPLE(type, \"name\", fields...)");
    stripline_sample_type type{};
    if constexpr (has_sample<T>::value) {
        type.size = sizeof type;
        type.name = sample<T>::name();
        type.sample_size = sizeof(T);
        type.sample_align = alignof(T);
    }
    return type;
}

}  // namespace detail

template <class T>
struct sample<T, std::enable_if_t<detail::is_number<T>>> : detail::number_sample<T> {};

template <class T>
struct sample<std::complex<T>, std::enable_if_t<detail::is_number<T>>> : detail::complex_sample<T> {};
/// @endcond

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

/// @cond
#define STRIPLINE_FIELD(type, name) .field<decltype(type::name)>(#name, offsetof(type, name))

#define STRIPLINE_CHECK_SAMPLE(type, name) \
    static_assert(std::is_trivially_copyable_v<type>, \
                  "stripline: a sample must be trivially copyable: no own copy, move or destructor"); \
    static_assert(std::is_standard_layout_v<type>, \
                  "stripline: a sample must have standard layout: no virtual functions, one access, one class"); \
    static_assert(::stripline::detail::is_name(name), \
                  "stripline: the name of a sample has 1 to 64 of a-z, 0-9, '-', '/', '.', and is not a built-in one");
/// @endcond

/// Makes a structure a sample type, with a name and all fields in order.
///
/// Write it once, outside any namespace. The compiler refuses a structure with padding, pointers,
/// or a field that is not listed. The other end of a link must have the same name, fields and
/// types.
#define STRIPLINE_SAMPLE(type, name_, ...) \
    template <> \
    struct stripline::sample<type> { \
        STRIPLINE_CHECK_SAMPLE(type, name_) \
        static constexpr bool is_layout = true; \
        static constexpr ::stripline::detail::structure made = \
            ::stripline::detail::structure(name_) STRIPLINE_EACH(STRIPLINE_FIELD, type, __VA_ARGS__).end(); \
        static_assert(made.is_packed && made.size == sizeof(type), \
                      "stripline: the sample has padding, or a field that is not named or not in its place: " \
                      "name all fields in their order, and make padding a field"); \
        static_assert(made.align == alignof(type), "stripline: the sample has an alignment of its own"); \
        static_assert(made.text.size <= ::stripline::detail::layout_text::most && made.fields <= 64, \
                      "stripline: the layout has more than 2048 bytes"); \
        static constexpr ::stripline::detail::fitted_text<made.text.size> text{made.text}; \
        static constexpr const char *name() noexcept { return text.data; } \
        static constexpr void put(::stripline::detail::layout_text &into) { into.put(text.data); } \
    };

/// Makes a structure a sample type. Both ends compare only the name and the size.
///
/// The macro is for structures with fields that have no layout. Between programs that are built
/// differently, the link refuses the type unless `types-without-layout` allows the name. The
/// structure must have no floats, because the compiler does not find padding beside them. The
/// structure must have no pointers, which the compiler does not find either.
#define STRIPLINE_SAMPLE_NAMED(type, name_) \
    template <> \
    struct stripline::sample<type> { \
        STRIPLINE_CHECK_SAMPLE(type, name_) \
        static_assert(std::has_unique_object_representations_v<type>, \
                      "stripline: the sample has padding or floats: name its fields with STRIPLINE_SAMPLE"); \
        static constexpr bool is_layout = false; \
        static constexpr const char *name() noexcept { return name_; } \
    };

#endif
