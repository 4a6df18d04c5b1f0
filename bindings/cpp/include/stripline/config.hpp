/// @file
/// The language version and the support for exceptions: settings that all other headers need.
#ifndef STRIPLINE_CONFIG_HPP
#define STRIPLINE_CONFIG_HPP

#if __cplusplus < 201703L
#error "stripline: C++17 or later is needed: compile with -std=c++17"
#endif

#include <stripline.h>

#include <string_view>

#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#endif

/// 1 if the program is compiled with exceptions. Without them, only the functions with
/// `std::nothrow` exist.
#if defined(__cpp_exceptions)
#define STRIPLINE_EXCEPTIONS 1
#else
#define STRIPLINE_EXCEPTIONS 0
#endif

// Files of one program may differ in both. Each combination has its own namespace, so that the
// linker never mixes up the functions of two combinations.
#if defined(__cpp_lib_span)
#if STRIPLINE_EXCEPTIONS
#define STRIPLINE_VARIANT cpp20
#else
#define STRIPLINE_VARIANT cpp20_without_exceptions
#endif
#else
#if STRIPLINE_EXCEPTIONS
#define STRIPLINE_VARIANT cpp17
#else
#define STRIPLINE_VARIANT cpp17_without_exceptions
#endif
#endif

/// Stripline in C++17 and later, over the functions of `stripline.h`.
///
/// Every function that can fail has two forms. One form throws a stripline::error. The other has
/// `std::nothrow` as the last argument, and returns a stripline::result. Functions that cannot fail
/// are `noexcept`.
namespace stripline {
inline namespace STRIPLINE_VARIANT {

namespace detail {

inline std::string_view view(stripline_text text) noexcept {
    return std::string_view(text.data, text.length);
}

/// The owner of the error object of a failed C call. The destructor frees the error object.
class c_error {
public:
    c_error() noexcept = default;
    explicit c_error(stripline_error *error) noexcept : error_(error) {}
    c_error(const c_error &) = delete;
    c_error &operator=(const c_error &) = delete;
    ~c_error() {
        if (error_ != nullptr) {
            stripline_error_free(error_);
        }
    }
    stripline_error **place() noexcept { return &error_; }
    const stripline_error *get() const noexcept { return error_; }

private:
    stripline_error *error_ = nullptr;
};

}  // namespace detail

/// Returns the version of the running library, such as `0.1.0` or `0.1.0-alpha.1`.
inline std::string_view library_version() noexcept { return detail::view(stripline_version()); }

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
