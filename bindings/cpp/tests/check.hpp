// Checks of the test programs. A check that fails prints the place, and ends the program with 1.
#ifndef CHECK_HPP
#define CHECK_HPP

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <stripline.hpp>

// A time limit that only ends a hang.
constexpr std::chrono::seconds test_timeout(600);

#define CHECK(...) \
    do { \
        if (!(__VA_ARGS__)) { \
            std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
            std::exit(1); \
        } \
    } while (0)

// Checks that a form without exceptions fails with this code, and with these words in the message.
template <class T>
void check_failure(
    const stripline::result<T> &found, stripline::status code, const char *words, const char *file, int line) {
    if (found.has_value() || found.code() != code || std::strstr(found.error().message(), words) == nullptr) {
        std::fprintf(
            stderr, "%s:%d: expected %d with `%s`, found %d: %s\n", file, line, static_cast<int>(code), words,
            static_cast<int>(found.code()), found.error().message());
        std::exit(1);
    }
}
#define FAILS(code, words, ...) check_failure((__VA_ARGS__), stripline::status::code, words, __FILE__, __LINE__)

// Takes the value of a form without exceptions. The value must be present.
template <class T>
T take(stripline::result<T> found, int line) {
    if (!found.has_value()) {
        std::fprintf(stderr, "line %d: %s\n", line, found.error().message());
        std::exit(1);
    }
    return std::move(found).value();
}
inline void take(const stripline::result<void> &found, int line) {
    if (!found.has_value()) {
        std::fprintf(stderr, "line %d: %s\n", line, found.error().message());
        std::exit(1);
    }
}
#define TAKE(...) take((__VA_ARGS__), __LINE__)

// Waits for a condition that another thread makes true.
template <class Condition>
void wait_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + test_timeout;
    while (!condition()) {
        CHECK(std::chrono::steady_clock::now() < deadline);
        std::this_thread::yield();
    }
}

// Makes a node that nothing outside this program finds.
inline stripline::node isolated_node(const char *topics = nullptr) {
    stripline::node_options options;
    if (topics == nullptr) {
        options.isolated = true;
    } else {
        static int number = 0;
        const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
        options.domain = "cpp-" + std::to_string(now) + '-' + std::to_string(number++);
        options.topics = topics;
    }
    return TAKE(stripline::node::make(options, std::nothrow));
}

#endif
