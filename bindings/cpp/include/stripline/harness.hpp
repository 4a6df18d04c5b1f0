/// @file
/// A harness, which runs one component in this process for a test.
#ifndef STRIPLINE_HARNESS_HPP
#define STRIPLINE_HARNESS_HPP

#include "component.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// Runs one component in this process, for a test that feeds the inputs, reads the outputs, and
/// changes the properties. If the component fails, its error is the error of each send, of each
/// receive behind the packets that it has sent, and of each request. The destructor stops the
/// component, and reports nothing: call `finish`. Move-only; only one thread at a time may use it.
class harness {
public:
    /// Makes a harness of a component class. Fails for a mistake in the description.
    template <class Component>
    static result<harness> of(const std::nothrow_t &) {
        auto type = detail::type_of_component<Component>();
        if (!type) {
            return type.error();
        }
        stripline_harness *made = nullptr;
        if (auto failed = detail::call(type->get(), [&](auto error) {
                return stripline_harness_new(type->get(), &made, error);
            })) {
            return std::move(*failed);
        }
        return harness(made);
    }

    /// Sets a property to the value in a text, in the format of `stripline set`. Before the start,
    /// this is the initial value; later it is a change, behind all packets that were sent before.
    /// Blocks until the component has taken or refused the value, ten seconds at most. If the
    /// component refuses it, the message contains the reason.
    result<void> set(const std::string &property, const std::string &value, const std::nothrow_t &) {
        return texts(stripline_harness_set, property, value);
    }
    result<void> set(const std::string &property, const char *value, const std::nothrow_t &) {
        return set(property, std::string(value), std::nothrow);
    }
    /// Sets a property to a number or a boolean.
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    result<void> set(const std::string &property, T value, const std::nothrow_t &) {
        if constexpr (std::is_same_v<T, bool>) {
            return set(property, std::string(value ? "true" : "false"), std::nothrow);
        } else if constexpr (std::is_integral_v<T>) {
            return set(property, std::to_string(value), std::nothrow);
        } else {
            char text[40];
            // With 17 digits, the text is read back as the same number.
            std::snprintf(text, sizeof text, "%.17g", static_cast<double>(value));
            return set(property, std::string(text), std::nothrow);
        }
    }

    /// Sets the type of a port that takes several. Only before the start.
    result<void> set_type(const std::string &port, const std::string &type, const std::nothrow_t &) {
        return texts(stripline_harness_set_type, port, type);
    }

    /// Leaves an optional port unconnected. Only before the start.
    result<void> leave_unconnected(const std::string &port, const std::nothrow_t &) {
        return one_text(stripline_harness_leave_unconnected, port);
    }

    /// Sets the options of all connections and the threads of a handler, as the text of a topics
    /// file with the table `[default]`. Only before the start.
    result<void> set_options(const std::string &topics, const std::nothrow_t &) {
        return one_text(stripline_harness_set_options, topics);
    }

    /// Creates the component, connects the ports, and runs it on another thread.
    result<void> start(const std::nothrow_t &) {
        return detail::outcome(
            handle_.get(), [&](auto error) { return stripline_harness_start(handle_.get(), error); });
    }

    /// Takes the sending end of an input. The end of this publisher is the end of the input's
    /// stream.
    template <class T>
    result<publisher<T>> input(const std::string &port, const std::nothrow_t &) {
        const stripline_sample_type type = detail::type_of<T>();
        stripline_publisher *made = nullptr;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_harness_input(handle_.get(), port.c_str(), &type, &made, error);
            })) {
            return std::move(*failed);
        }
        return detail::access::make<publisher<T>>(made);
    }

    /// Takes the receiving end of an output.
    template <class T>
    result<subscriber<T>> output(const std::string &port, const std::nothrow_t &) {
        const stripline_sample_type type = detail::type_of<T>();
        stripline_subscriber *made = nullptr;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_harness_output(handle_.get(), port.c_str(), &type, nullptr, &made, error);
            })) {
            return std::move(*failed);
        }
        return detail::access::make<subscriber<T>>(made);
    }

    /// Takes the sending end of an input of messages.
    result<publisher<std::uint8_t>> message_input(
        const std::string &port, const std::string &type, const std::nothrow_t &) {
        stripline_publisher *made = nullptr;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_harness_message_input(handle_.get(), port.c_str(), type.c_str(), &made, error);
            })) {
            return std::move(*failed);
        }
        return detail::access::make<publisher<std::uint8_t>>(made);
    }

    /// Takes the receiving end of an output of messages.
    result<subscriber<std::uint8_t>> message_output(
        const std::string &port, const std::string &type, const std::nothrow_t &) {
        stripline_subscriber *made = nullptr;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_harness_message_output(
                    handle_.get(), port.c_str(), type.c_str(), nullptr, &made, error);
            })) {
            return std::move(*failed);
        }
        return detail::access::make<subscriber<std::uint8_t>>(made);
    }

    /// Runs a self-test. A failed test is a result, not a failure of this function.
    result<test_result> test(const std::string &name, const std::nothrow_t &) {
        stripline_test_outcome found{};
        found.size = sizeof found;
        if (auto failed = detail::call(handle_.get(), [&](auto error) {
                return stripline_harness_test(handle_.get(), name.c_str(), &found, error);
            })) {
            return std::move(*failed);
        }
        test_result made{found.passed != 0, std::string(detail::view(found.text)), std::nullopt};
        if (found.has_value != 0) {
            made.value = found.value;
        }
        return made;
    }

    /// Returns the value of a read-only property as a text, in the format of `stripline get`.
    result<std::string> get(const std::string &property, const std::nothrow_t &) {
        auto found = detail::number<stripline_text>(handle_.get(), [&](stripline_text *text, auto error) {
            return stripline_harness_get(handle_.get(), property.c_str(), text, error);
        });
        return found ? result<std::string>(std::string(detail::view(*found))) : result<std::string>(found.error());
    }

    /// Stops the component: from now on the ports fail with status::stopped.
    result<void> stop(const std::nothrow_t &) {
        return detail::outcome(
            handle_.get(), [&](auto error) { return stripline_harness_stop(handle_.get(), error); });
    }

    /// Ends the ports that were not taken, and waits for the end of the component, a minute at
    /// most. Fails with the component's failure. The program must first end the inputs that it has
    /// taken.
    result<void> finish(const std::nothrow_t &) { return finish_ns(0); }
    template <class Rep, class Period>
    result<void> finish(std::chrono::duration<Rep, Period> timeout, const std::nothrow_t &) {
        return finish_ns(detail::timeout_ns(timeout));
    }

#if STRIPLINE_EXCEPTIONS
    template <class Component>
    static harness of() {
        return of<Component>(std::nothrow).value();
    }
    template <class T>
    void set(const std::string &property, const T &value) {
        set(property, value, std::nothrow).value();
    }
    void set_type(const std::string &port, const std::string &type) { set_type(port, type, std::nothrow).value(); }
    void leave_unconnected(const std::string &port) { leave_unconnected(port, std::nothrow).value(); }
    void set_options(const std::string &topics) { set_options(topics, std::nothrow).value(); }
    void start() { start(std::nothrow).value(); }
    template <class T>
    publisher<T> input(const std::string &port) {
        return input<T>(port, std::nothrow).value();
    }
    template <class T>
    subscriber<T> output(const std::string &port) {
        return output<T>(port, std::nothrow).value();
    }
    publisher<std::uint8_t> message_input(const std::string &port, const std::string &type = "message/cbor") {
        return message_input(port, type, std::nothrow).value();
    }
    subscriber<std::uint8_t> message_output(const std::string &port, const std::string &type = "message/cbor") {
        return message_output(port, type, std::nothrow).value();
    }
    test_result test(const std::string &name) { return test(name, std::nothrow).value(); }
    std::string get(const std::string &property) { return get(property, std::nothrow).value(); }
    void stop() { stop(std::nothrow).value(); }
    void finish() { finish(std::nothrow).value(); }
    template <class Rep, class Period>
    void finish(std::chrono::duration<Rep, Period> timeout) {
        finish(timeout, std::nothrow).value();
    }
#endif

private:
    struct free_handle {
        void operator()(stripline_harness *handle) const noexcept { stripline_harness_free(handle); }
    };

    explicit harness(stripline_harness *handle) noexcept : handle_(handle) {}

    template <class Function>
    result<void> texts(Function function, const std::string &first, const std::string &second) {
        for (const std::string *text : {&first, &second}) {
            if (auto failed = detail::check_text(*text, "a text")) {
                return std::move(*failed);
            }
        }
        return detail::outcome(handle_.get(), [&](auto error) {
            return function(handle_.get(), first.c_str(), second.c_str(), error);
        });
    }
    template <class Function>
    result<void> one_text(Function function, const std::string &text) {
        if (auto failed = detail::check_text(text, "a text")) {
            return std::move(*failed);
        }
        return detail::outcome(
            handle_.get(), [&](auto error) { return function(handle_.get(), text.c_str(), error); });
    }
    result<void> finish_ns(std::int64_t timeout_ns) {
        return detail::outcome(handle_.get(), [&](auto error) {
            return stripline_harness_finish(handle_.get(), timeout_ns, error);
        });
    }

    std::unique_ptr<stripline_harness, free_handle> handle_;
};

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
