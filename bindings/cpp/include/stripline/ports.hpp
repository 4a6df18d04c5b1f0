/// @file
/// The arguments of a component: properties, ports, and read-only properties to set.
#ifndef STRIPLINE_PORTS_HPP
#define STRIPLINE_PORTS_HPP

#include "node.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// The values of a component's properties. The values conform to the declarations, and are valid
/// until the function that got them returns.
class properties {
public:
    /// Returns the value of a property: `bool`, a whole number, `double`, `float`, or
    /// `std::string`. Fails with status::invalid_argument for a property that is not declared, or
    /// has another kind.
    template <class T>
    result<T> get(const std::string &name, const std::nothrow_t &) const {
        if (auto failed = detail::check_text(name, "the name")) {
            return std::move(*failed);
        }
        if constexpr (std::is_same_v<T, bool>) {
            auto found = read<std::int32_t>(stripline_properties_boolean, name);
            return found ? result<T>(*found != 0) : result<T>(found.error());
        } else if constexpr (std::is_integral_v<T>) {
            auto found = read<std::int64_t>(stripline_properties_integer, name);
            if (!found) {
                return found.error();
            }
            const auto value = static_cast<T>(*found);
            const bool is_same = static_cast<std::int64_t>(value) == *found && (value < T(0)) == (*found < 0);
            if (!is_same) {
                return failure(status::invalid_argument, "property `" + name + "` does not fit that type of number");
            }
            return value;
        } else if constexpr (std::is_floating_point_v<T>) {
            auto found = read<double>(stripline_properties_float, name);
            return found ? result<T>(static_cast<T>(*found)) : result<T>(found.error());
        } else {
            static_assert(
                std::is_same_v<T, std::string>,
                "stripline: a property is a bool, a whole number, a double, a float, or a std::string");
            auto found = read<stripline_text>(stripline_properties_text, name);
            return found ? result<T>(std::string(detail::view(*found))) : result<T>(found.error());
        }
    }

    /// Returns whether a change at run time names the property.
    result<bool> is_changed(const std::string &name, const std::nothrow_t &) const {
        auto found = read<std::int32_t>(stripline_properties_is_changed, name);
        return found ? result<bool>(*found != 0) : result<bool>(found.error());
    }

#if STRIPLINE_EXCEPTIONS
    template <class T>
    T get(const std::string &name) const {
        return get<T>(name, std::nothrow).value();
    }
    bool is_changed(const std::string &name) const { return is_changed(name, std::nothrow).value(); }
#endif

    /// @cond
    explicit properties(const stripline_properties *handle) noexcept : handle_(handle) {}
    properties(const properties &) = delete;
    /// @endcond

private:
    template <class T, class Function>
    result<T> read(Function function, const std::string &name) const {
        return detail::number<T>(
            handle_, [&](T *value, auto error) { return function(handle_, name.c_str(), value, error); });
    }

    const stripline_properties *handle_;
};

/// A read-only property that the component sets. Setting a number is one store. A readout may be
/// copied and used on any thread, until the component's `run` returns.
class readout {
public:
    /// Sets the value. Fails with status::invalid_argument for a property of another kind.
    result<void> set(double value, const std::nothrow_t &) const {
        return detail::outcome(
            handle_, [&](auto error) { return stripline_readout_set_float(handle_, value, error); });
    }
    result<void> set(std::int64_t value, const std::nothrow_t &) const {
        return detail::outcome(
            handle_, [&](auto error) { return stripline_readout_set_integer(handle_, value, error); });
    }
    result<void> set(bool value, const std::nothrow_t &) const {
        return detail::outcome(
            handle_, [&](auto error) { return stripline_readout_set_boolean(handle_, value, error); });
    }
    result<void> set(const std::string &value, const std::nothrow_t &) const {
        if (auto failed = detail::check_text(value, "the value")) {
            return std::move(*failed);
        }
        return detail::outcome(
            handle_, [&](auto error) { return stripline_readout_set_text(handle_, value.c_str(), error); });
    }
    result<void> set(const char *value, const std::nothrow_t &) const {
        return set(std::string(value), std::nothrow);
    }

    /// Adds to a whole number.
    result<void> add(std::uint64_t count, const std::nothrow_t &) const {
        return detail::outcome(
            handle_, [&](auto error) { return stripline_readout_add(handle_, count, error); });
    }

#if STRIPLINE_EXCEPTIONS
    template <class T>
    void set(const T &value) const {
        set(value, std::nothrow).value();
    }
    void add(std::uint64_t count) const { add(count, std::nothrow).value(); }
#endif

    /// @cond
    explicit readout(const stripline_readout *handle) noexcept : handle_(handle) {}
    /// @endcond

private:
    const stripline_readout *handle_;
};

/// The ports of a component, already connected. Each can be taken once. Only one thread uses them.
/// Everything taken from the ports ends at the latest when the component's `run` returns, and must
/// not be kept.
class ports {
public:
    /// Returns the component's name in the waveform.
    std::string_view component() const noexcept { return detail::view(stripline_ports_component(handle_)); }

    /// Returns whether the user wants only warnings and errors. In this case, a component prints
    /// nothing.
    bool is_quiet() const noexcept { return stripline_ports_is_quiet(handle_) != 0; }

    /// Returns the type of a port in this waveform; empty for a port that is not connected.
    result<std::string_view> type(const std::string &port, const std::nothrow_t &) const {
        auto found = detail::number<stripline_text>(handle_, [&](stripline_text *text, auto error) {
            return stripline_ports_type(handle_, port.c_str(), text, error);
        });
        return found ? result<std::string_view>(detail::view(*found)) : result<std::string_view>(found.error());
    }

    /// Takes an input of samples of type T. An input that is not connected is at its end of stream.
    /// Fails with status::port if there is no such input, if it was taken before, or if the
    /// waveform gives it another type.
    template <class T>
    result<subscriber<T>> input(
        const std::string &port, const subscriber_options &options, const std::nothrow_t &) {
        return take_input<T, subscriber<T>>(port, options, 0);
    }
    template <class T>
    result<subscriber<T>> input(const std::string &port, const std::nothrow_t &) {
        return input<T>(port, subscriber_options(), std::nothrow);
    }

    /// Takes an input that is received in windows of any length, counted in this unit. An input
    /// that declares the shape `rows` or `frames` has no windows in samples.
    template <class T>
    result<windowed_subscriber<T>> windowed_input(
        const std::string &port, window_unit unit, const std::nothrow_t &) {
        return take_input<T, windowed_subscriber<T>>(
            port, subscriber_options(), static_cast<std::uint32_t>(unit));
    }
    template <class T>
    result<windowed_subscriber<T>> windowed_input(const std::string &port, const std::nothrow_t &) {
        return windowed_input<T>(port, window_unit::samples, std::nothrow);
    }

    /// Takes an output of samples of type T. The stream ends when `run` returns, unless `run`
    /// fails.
    template <class T>
    result<publisher<T>> output(const std::string &port, const std::nothrow_t &) {
        const stripline_sample_type type = detail::type_of<T>();
        stripline_publisher *made = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_ports_output(handle_, port.c_str(), &type, &made, error);
            })) {
            return std::move(*failed);
        }
        return detail::access::make<publisher<T>>(made);
    }

    /// Takes an input of messages, as bytes of CBOR (message_of). Without a type, or with an empty
    /// one, it has the type in the component's description. Fails like `input`.
    result<subscriber<std::uint8_t>> message_input(
        const std::string &port, const std::string &type, const std::nothrow_t &) {
        stripline_subscriber *made = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_ports_message_input(handle_, port.c_str(), given(type), nullptr, &made, error);
            })) {
            return std::move(*failed);
        }
        return detail::access::make<subscriber<std::uint8_t>>(made);
    }
    result<subscriber<std::uint8_t>> message_input(const std::string &port, const std::nothrow_t &) {
        return message_input(port, std::string(), std::nothrow);
    }

    /// Takes an output of messages, as bytes of CBOR (send_message), with the type as above. Fails
    /// like `output`.
    result<publisher<std::uint8_t>> message_output(
        const std::string &port, const std::string &type, const std::nothrow_t &) {
        stripline_publisher *made = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_ports_message_output(handle_, port.c_str(), given(type), &made, error);
            })) {
            return std::move(*failed);
        }
        return detail::access::make<publisher<std::uint8_t>>(made);
    }
    result<publisher<std::uint8_t>> message_output(const std::string &port, const std::nothrow_t &) {
        return message_output(port, std::string(), std::nothrow);
    }

    /// Returns a read-only property of the component, to set the value.
    result<stripline::readout> readout(const std::string &property, const std::nothrow_t &) {
        const stripline_readout *found = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_ports_readout(handle_, property.c_str(), &found, error);
            })) {
            return std::move(*failed);
        }
        return stripline::readout(found);
    }

    /// Receives the next packet of an input, and runs the component's `change` and `test` while it
    /// waits. Blocks until a packet arrives or the stream ends.
    template <class T>
    result<received<packet<T>>> receive(subscriber<T> &from, const std::nothrow_t &) {
        stripline_packet *found = nullptr;
        stripline_status code = STRIPLINE_OK;
        if (auto failed = detail::call(from.c_handle(), [&](auto error) {
                return code = stripline_ports_receive(handle_, from.c_handle(), &found, error);
            })) {
            return std::move(*failed);
        }
        return of<packet<T>>(code, found);
    }

    /// Receives the next window of an input, and handles requests like the function above.
    template <class T>
    result<received<window<T>>> receive(
        windowed_subscriber<T> &from, std::size_t samples, const std::nothrow_t &) {
        stripline_packet *found = nullptr;
        stripline_status code = STRIPLINE_OK;
        if (auto failed = detail::call(from.c_handle(), [&](auto error) {
                return code = stripline_ports_window(handle_, from.c_handle(), samples, &found, error);
            })) {
            return std::move(*failed);
        }
        return of<window<T>>(code, found);
    }

    /// Runs `change` and `test` for the requests that wait. Components that do not wait in
    /// `receive` call it. Fails with status::stopped when the component must stop.
    result<void> poll(const std::nothrow_t &) {
        return detail::outcome(handle_, [&](auto error) { return stripline_ports_poll(handle_, error); });
    }

    /// Sleeps. Fails at once with status::stopped when the component must stop.
    template <class Rep, class Period>
    result<void> sleep(std::chrono::duration<Rep, Period> time, const std::nothrow_t &) const {
        return detail::outcome(handle_, [&](auto error) {
            return stripline_ports_sleep(handle_, detail::timeout_ns(time), error);
        });
    }

    /// Starts a clock of `rate` samples per second, for a source that waits in `wait_for_pace`; 0:
    /// no limit. The clock takes the place of an earlier one, and begins with the first wait. The
    /// report of a run shows how far a source was behind the clock. Fails with
    /// status::invalid_argument for a rate that is negative or not a number.
    result<void> start_pace(double rate, const std::nothrow_t &) {
        return detail::outcome(
            handle_, [&](auto error) { return stripline_ports_start_pace(handle_, rate, error); });
    }

    /// Waits until `samples` samples are due since the first wait, and runs `change` and `test` for
    /// requests. Returns the time at which the samples are due, for send_options::intended; nothing
    /// without a limit. Fails at once with status::stopped when the component must stop, and with
    /// status::invalid_argument before `start_pace`.
    result<std::optional<monotonic_point>> wait_for_pace(std::uint64_t samples, const std::nothrow_t &) {
        const auto due = detail::number<std::uint64_t>(handle_, [&](std::uint64_t *due_ns, auto error) {
            return stripline_ports_wait_for_pace(handle_, samples, due_ns, error);
        });
        if (!due) {
            return due.error();
        }
        return detail::monotonic(*due);
    }

#if STRIPLINE_EXCEPTIONS
    std::string_view type(const std::string &port) const { return type(port, std::nothrow).value(); }
    template <class T>
    subscriber<T> input(const std::string &port, const subscriber_options &options = subscriber_options()) {
        return input<T>(port, options, std::nothrow).value();
    }
    template <class T>
    windowed_subscriber<T> windowed_input(const std::string &port, window_unit unit = window_unit::samples) {
        return windowed_input<T>(port, unit, std::nothrow).value();
    }
    template <class T>
    publisher<T> output(const std::string &port) {
        return output<T>(port, std::nothrow).value();
    }
    subscriber<std::uint8_t> message_input(const std::string &port, const std::string &type = std::string()) {
        return message_input(port, type, std::nothrow).value();
    }
    publisher<std::uint8_t> message_output(const std::string &port, const std::string &type = std::string()) {
        return message_output(port, type, std::nothrow).value();
    }
    stripline::readout readout(const std::string &property) { return readout(property, std::nothrow).value(); }
    template <class T>
    received<packet<T>> receive(subscriber<T> &from) {
        return receive(from, std::nothrow).value();
    }
    template <class T>
    received<window<T>> receive(windowed_subscriber<T> &from, std::size_t length) {
        return receive(from, length, std::nothrow).value();
    }
    void poll() { poll(std::nothrow).value(); }
    void start_pace(double rate) { start_pace(rate, std::nothrow).value(); }
    std::optional<monotonic_point> wait_for_pace(std::uint64_t samples) {
        return wait_for_pace(samples, std::nothrow).value();
    }
    template <class Rep, class Period>
    void sleep(std::chrono::duration<Rep, Period> time) const {
        sleep(time, std::nothrow).value();
    }
#endif

    /// Returns the handle for the C functions.
    stripline_ports *c_handle() const noexcept { return handle_; }

    /// @cond
    explicit ports(stripline_ports *handle) noexcept : handle_(handle) {}
    ports(const ports &) = delete;
    /// @endcond

private:
    /// Returns a type for C, where NULL selects the declared type.
    static const char *given(const std::string &type) noexcept { return type.empty() ? nullptr : type.c_str(); }

    template <class T, class Subscriber>
    result<Subscriber> take_input(const std::string &port, const subscriber_options &options, std::uint32_t windowed) {
        const stripline_sample_type type = detail::type_of<T>();
        const auto from = detail::c_options(options, windowed);
        if (!from) {
            return from.error();
        }
        stripline_subscriber *made = nullptr;
        if (auto failed = detail::call(handle_, [&](auto error) {
                return stripline_ports_input(handle_, port.c_str(), &type, &*from, &made, error);
            })) {
            return std::move(*failed);
        }
        return detail::access::make<Subscriber>(made);
    }

    template <class Packet>
    static received<Packet> of(stripline_status code, stripline_packet *found) {
        return code == STRIPLINE_OK ? received<Packet>(detail::access::make<Packet>(found)) : received<Packet>(code);
    }

    stripline_ports *handle_;
};

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
