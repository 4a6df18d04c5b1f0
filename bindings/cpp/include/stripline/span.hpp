/// @file
/// stripline::span: `std::span` if the library has it, otherwise the part of it that these headers
/// need.
#ifndef STRIPLINE_SPAN_HPP
#define STRIPLINE_SPAN_HPP

#include "config.hpp"

#include <array>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

#if defined(__cpp_lib_span)

/// Contiguous samples, without ownership.
template <class T>
using span = std::span<T>;

#else

/// Contiguous samples, without ownership. In C++20, it is `std::span`.
template <class T>
class span {
    template <class Range>
    using pointer_of = decltype(std::data(std::declval<Range &>()));
    template <class Range>
    using element_of = std::remove_pointer_t<pointer_of<Range>>;
    // Whether an array of U can be read as an array of T. The condition excludes conversions of
    // derived classes.
    template <class U>
    static constexpr bool is_readable = std::is_convertible_v<U (*)[], T (*)[]>;

public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using pointer = T *;
    using reference = T &;
    using iterator = T *;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    /// Makes a view of an array, a `std::vector`, or another container with `data` and `size`.
    template <
        class Range, class = std::enable_if_t<!std::is_same_v<std::decay_t<Range>, span>>,
        class = std::enable_if_t<is_readable<element_of<std::remove_reference_t<Range>>>>,
        class = std::enable_if_t<std::is_lvalue_reference_v<Range> || std::is_const_v<T>>>
    constexpr span(Range &&range) noexcept : data_(std::data(range)), size_(std::size(range)) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }
    constexpr T &front() const noexcept { return data_[0]; }
    constexpr T &back() const noexcept { return data_[size_ - 1]; }
    constexpr span first(std::size_t count) const noexcept { return span(data_, count); }
    constexpr span last(std::size_t count) const noexcept { return span(data_ + (size_ - count), count); }
    constexpr span subspan(std::size_t offset) const noexcept { return last(size_ - offset); }
    constexpr span subspan(std::size_t offset, std::size_t count) const noexcept {
        return span(data_ + offset, count);
    }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

#endif

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
