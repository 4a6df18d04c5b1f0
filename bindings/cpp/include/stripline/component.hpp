/// @file
/// Components: classes that run in waveforms.
#ifndef STRIPLINE_COMPONENT_HPP
#define STRIPLINE_COMPONENT_HPP

#include "message.hpp"
#include "ports.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace stripline {
inline namespace STRIPLINE_VARIANT {

/// A property of a component, made by `float_property` and similar functions.
class property {
public:
    /// Sets the range of a number, including both limits.
    property range(double min, double max) && {
        of_.has_range = 1;
        of_.float_min = min;
        of_.float_max = max;
        // Clamps both limits to the range of the type, because the cast requires it.
        constexpr double limit = 9.2e18;
        of_.integer_min = min < -limit ? INT64_MIN : min > limit ? INT64_MAX : static_cast<std::int64_t>(min);
        of_.integer_max = max > limit ? INT64_MAX : max < -limit ? INT64_MIN : static_cast<std::int64_t>(max);
        return std::move(*this);
    }
    /// Sets the unit for users, such as `Hz`.
    property unit(std::string unit) && {
        unit_ = std::move(unit);
        return std::move(*this);
    }
    /// Removes the default: the waveform must set it.
    property required() && {
        of_.required = 1;
        return std::move(*this);
    }
    /// Lets users change the property while the component runs. The component must have a function
    /// `change`.
    property changeable() && {
        of_.access = STRIPLINE_PROPERTY_ACCESS_CHANGEABLE;
        return std::move(*this);
    }
    /// Lets only the component set the property, while it runs (ports::readout).
    property read_only() && {
        of_.access = STRIPLINE_PROPERTY_ACCESS_READ_ONLY;
        return std::move(*this);
    }

    /// @cond
    property(stripline_property_kind kind, std::string name, std::string summary)
        : name_(std::move(name)), summary_(std::move(summary)) {
        of_.kind = kind;
    }
    result<void> add_to(stripline_component *component) const {
        for (const std::string *text : {&name_, &summary_, &unit_, &text_, &choices_}) {
            if (auto failed = detail::check_text(*text, "a property")) {
                return std::move(*failed);
            }
        }
        stripline_property from = of_;
        from.size = sizeof from;
        from.name = name_.c_str();
        from.summary = summary_.c_str();
        from.unit = unit_.c_str();
        from.text_default = text_.empty() ? nullptr : text_.c_str();
        from.choices = choices_.c_str();
        return detail::outcome(
            component, [&](auto error) { return stripline_component_add_property(component, &from, error); });
    }
    stripline_property of_{};
    std::string name_, summary_, unit_, text_, choices_;
    /// @endcond
};

/// Makes a property with a real number.
inline property float_property(std::string name, double value, std::string summary) {
    property made(STRIPLINE_PROPERTY_KIND_FLOAT, std::move(name), std::move(summary));
    made.of_.float_default = value;
    return made;
}
/// Makes a property with a whole number.
inline property integer_property(std::string name, std::int64_t value, std::string summary) {
    property made(STRIPLINE_PROPERTY_KIND_INTEGER, std::move(name), std::move(summary));
    made.of_.integer_default = value;
    return made;
}
/// Makes a boolean property.
inline property boolean_property(std::string name, bool value, std::string summary) {
    property made(STRIPLINE_PROPERTY_KIND_BOOLEAN, std::move(name), std::move(summary));
    made.of_.integer_default = value ? 1 : 0;
    return made;
}
/// Makes a property with a text.
inline property text_property(std::string name, std::string value, std::string summary) {
    property made(STRIPLINE_PROPERTY_KIND_TEXT, std::move(name), std::move(summary));
    made.text_ = std::move(value);
    return made;
}
/// Makes a property with one of several words, with `|` between them: `low | high`. The first word
/// is the default.
inline property choice_property(std::string name, std::string choices, std::string summary) {
    property made(STRIPLINE_PROPERTY_KIND_CHOICE, std::move(name), std::move(summary));
    made.choices_ = std::move(choices);
    return made;
}
/// Makes a property with a path, relative to the waveform file. The default is empty and names no
/// file.
inline property path_property(std::string name, std::string summary) {
    return property(STRIPLINE_PROPERTY_KIND_PATH, std::move(name), std::move(summary));
}

/// A port of a component.
struct port {
    std::string name;
    /// The types that the port takes, such as `cf32 | cs16` (type_text); empty: any type.
    std::string types{};
    /// A line for users.
    std::string summary{};
    /// Not empty: the input that has the same type, in place of `types`.
    std::string same_as{};
    /// Not empty: the property that contains the name of the type, in place of `types`.
    std::string type_property{};
    /// Whether a waveform may leave the port unconnected.
    bool optional = false;
    /// Whether an input takes packets of any number of senders.
    bool many_writers = false;
    /// The shape of the streams that an input takes: `signal`, `rows`, or `frames` of rows; empty:
    /// any shape. A receive fails (status::port) when a stream of another shape arrives.
    std::string shape{};
};

/// The declaration of a component type: name, ports, properties and self-tests.
class component_spec {
public:
    component_spec(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}

    /// Adds an input of this type: of samples, or of messages with STRIPLINE_MESSAGE. `shape` is
    /// the shape of the streams that the input takes (port::shape).
    template <class T>
    component_spec input(std::string name, std::string summary, std::string shape = {}) && {
        stripline::port made{std::move(name), type_text<T>(), std::move(summary)};
        made.shape = std::move(shape);
        return std::move(*this).input(std::move(made));
    }
    /// Adds an output of this type: of samples, or of messages with STRIPLINE_MESSAGE.
    template <class T>
    component_spec output(std::string name, std::string summary) && {
        return std::move(*this).output(stripline::port{std::move(name), type_text<T>(), std::move(summary)});
    }
    component_spec input(stripline::port port) && {
        ports_.push_back({std::move(port), STRIPLINE_PORT_DIRECTION_INPUT});
        return std::move(*this);
    }
    component_spec output(stripline::port port) && {
        ports_.push_back({std::move(port), STRIPLINE_PORT_DIRECTION_OUTPUT});
        return std::move(*this);
    }
    component_spec property(stripline::property property) && {
        properties_.push_back(std::move(property));
        return std::move(*this);
    }
    /// Adds a self-test. Users run it by `stripline test`.
    component_spec test(std::string name, std::string summary) && {
        tests_.emplace_back(std::move(name), std::move(summary));
        return std::move(*this);
    }

    /// @cond
    struct directed_port {
        stripline::port declared;
        std::uint32_t direction;
    };
    std::string name_, summary_;
    std::vector<directed_port> ports_;
    std::vector<stripline::property> properties_;
    std::vector<std::pair<std::string, std::string>> tests_;
    /// @endcond
};

/// The result of a self-test.
struct test_result {
    bool passed = false;
    /// A line for users.
    std::string text;
    /// The measured value.
    std::optional<double> value;
};

/// The packet that a handler makes. Valid until the handler returns.
template <class T>
class made {
public:
    /// Sets the number of samples, and returns their memory. The memory is empty if there is no
    /// output.
    result<span<T>> resize(std::size_t samples, const std::nothrow_t &) {
        void *memory = nullptr;
        if (auto failed = detail::call(this, [&](auto error) {
                return stripline_made_resize(handle_, samples, &memory, error);
            })) {
            return std::move(*failed);
        }
        return span<T>(static_cast<T *>(memory), samples);
    }
#if STRIPLINE_EXCEPTIONS
    span<T> resize(std::size_t samples) { return resize(samples, std::nothrow).value(); }
#endif
    /// @cond
    explicit made(stripline_made *handle) noexcept : handle_(handle) {}
    made(const made &) = delete;
    /// @endcond

private:
    stripline_made *handle_;
};

/// @cond
namespace detail {

struct component_free {
    void operator()(stripline_component *component) const noexcept { stripline_component_free(component); }
};
using component_type = std::unique_ptr<stripline_component, component_free>;

// Detects the functions that a class has.
template <class C, class = void>
struct has_change : std::false_type {};
template <class C>
struct has_change<C, std::void_t<decltype(std::declval<C &>().change(std::declval<const properties &>()))>>
    : std::true_type {};
template <class C, class = void>
struct has_test : std::false_type {};
template <class C>
struct has_test<C, std::void_t<decltype(std::declval<C &>().test(std::declval<std::string_view>()))>>
    : std::true_type {};
template <class C, class = void>
struct has_validate : std::false_type {};
template <class C>
struct has_validate<C, std::void_t<decltype(C::validate(std::declval<const properties &>()))>> : std::true_type {};
template <class C, class = void>
struct has_run : std::false_type {};
template <class C>
struct has_run<C, std::void_t<decltype(std::declval<C &>().run(std::declval<ports &>()))>> : std::true_type {};
template <class C, class = void>
struct has_make : std::false_type {};
template <class C>
struct has_make<C, std::void_t<decltype(C::make(std::declval<const properties &>()))>> : std::true_type {};

/// Returns the status of a failure, and copies the message to the reason.
inline std::int32_t failed_with(stripline_reason *reason, const failure &why) noexcept {
    stripline_reason_set(reason, why.message());
    return static_cast<std::int32_t>(why.code());
}

/// Runs a function of a component for C, so no exception may leave it.
template <class Call>
std::int32_t guarded(stripline_reason *reason, Call &&call) noexcept {
    const auto run = [&]() -> std::int32_t {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
        } else {
            const result<void> done = call();
            if (!done) {
                return failed_with(reason, done.error());
            }
        }
        return STRIPLINE_OK;
    };
#if STRIPLINE_EXCEPTIONS
    try {
        return run();
    } catch (const error &thrown) {
        return failed_with(reason, thrown.reason());
    } catch (const std::exception &thrown) {
        return stripline_reason_set(reason, thrown.what());
    } catch (...) {
        return stripline_reason_set(reason, "it threw something other than a std::exception");
    }
#else
    return run();
#endif
}

/// The functions of a component class for C.
template <class C>
struct component_functions {
    static int32_t create(
        void *, const stripline_properties *values, void **instance, stripline_reason *reason) noexcept {
        return guarded(reason, [&]() -> result<void> {
            const properties of(values);
            if constexpr (has_make<C>::value) {
                result<std::unique_ptr<C>> made = C::make(of);
                if (!made) {
                    return made.error();
                }
                *instance = std::move(made).value().release();
            } else {
                *instance = new C(of);
            }
            return {};
        });
    }
    static void destroy(void *instance) noexcept { delete static_cast<C *>(instance); }
    static int32_t run(void *instance, stripline_ports *handle, stripline_reason *reason) noexcept {
        ports of(handle);
        return guarded(reason, [&] { return static_cast<C *>(instance)->run(of); });
    }
    static int32_t handle(
        void *instance, stripline_packet *packet, stripline_made *output, stripline_reason *reason) noexcept {
        const packet_view<typename C::input_type> view(packet);
        made<typename C::output_type> into(output);
        return guarded(reason, [&] { return static_cast<C *>(instance)->handle(view, into); });
    }
    static int32_t change(void *instance, const stripline_properties *values, stripline_reason *reason) noexcept {
        const properties of(values);
        return guarded(reason, [&] { return static_cast<C *>(instance)->change(of); });
    }
    static int32_t test(void *instance, const char *name, double *value, stripline_reason *reason) noexcept {
        bool passed = false;
        const int32_t code = guarded(reason, [&] {
            const test_result found = static_cast<C *>(instance)->test(std::string_view(name));
            stripline_reason_set(reason, found.text.c_str());
            passed = found.passed;
            if (found.value) {
                *value = *found.value;
            }
        });
        return code == STRIPLINE_OK && !passed ? STRIPLINE_FAILED : code;
    }
    static int32_t validate(void *, const stripline_properties *values, stripline_reason *reason) noexcept {
        const properties of(values);
        return guarded(reason, [&] { return C::validate(of); });
    }

    static stripline_component_functions all() noexcept {
        stripline_component_functions functions{};
        functions.size = sizeof functions;
        functions.create = create;
        functions.destroy = destroy;
        if constexpr (has_run<C>::value) {
            functions.run = run;
        } else {
            functions.handle = handle;
        }
        if constexpr (has_change<C>::value) {
            functions.change = change;
        }
        if constexpr (has_test<C>::value) {
            functions.test = test;
        }
        if constexpr (has_validate<C>::value) {
            functions.validate = validate;
        }
        return functions;
    }
};

/// Checks that the declaration gives a handler's port the type that the class has. Nothing checks
/// it later: the handler gets each packet as samples of the class's type.
template <class T>
result<void> check_handled(const port &declared) {
    const std::string own = type_of<T>().name;
    std::string stated = declared.types;
    stated.erase(std::remove(stated.begin(), stated.end(), ' '), stated.end());
    if (stated.empty() || stated == own) {
        return {};
    }
    return failure(
        status::invalid_argument, "port `" + declared.name + "` is declared as " + declared.types +
                                      ", but the class handles " + own + "; correct `describe`, or the type of the class");
}

/// Adds the ports of a declaration.
inline result<void> add_port(stripline_component *component, const component_spec::directed_port &from) {
    const port &declared = from.declared;
    for (const std::string *text :
         {&declared.name, &declared.types, &declared.summary, &declared.same_as, &declared.type_property,
          &declared.shape}) {
        if (auto failed = check_text(*text, "a port")) {
            return std::move(*failed);
        }
    }
    const auto set = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };
    stripline_port made{};
    made.size = sizeof made;
    made.name = declared.name.c_str();
    made.direction = from.direction;
    made.optional = declared.optional ? 1 : 0;
    made.many_writers = declared.many_writers ? 1 : 0;
    made.types = set(declared.types);
    made.same_as = set(declared.same_as);
    made.type_property = set(declared.type_property);
    made.summary = declared.summary.c_str();
    made.shape = set(declared.shape);
    return outcome(component, [&](auto error) { return stripline_component_add_port(component, &made, error); });
}

/// Makes the component type of a class.
template <class C>
result<component_type> type_of_component() {
    const component_spec spec = C::describe();
    stripline_component *handle = nullptr;
    for (const std::string *text : {&spec.name_, &spec.summary_}) {
        if (auto failed = check_text(*text, "the component")) {
            return std::move(*failed);
        }
    }
    if (auto failed = call(&spec, [&](auto error) {
            return stripline_component_new(spec.name_.c_str(), spec.summary_.c_str(), &handle, error);
        })) {
        return std::move(*failed);
    }
    component_type made(handle);
    for (const auto &port : spec.ports_) {
        if (const auto done = add_port(handle, port); !done) {
            return done.error();
        }
        if constexpr (!has_run<C>::value) {
            const bool is_input = port.direction == STRIPLINE_PORT_DIRECTION_INPUT;
            const auto done = is_input ? check_handled<typename C::input_type>(port.declared)
                                       : check_handled<typename C::output_type>(port.declared);
            if (!done) {
                return done.error();
            }
        }
    }
    for (const auto &property : spec.properties_) {
        if (const auto done = property.add_to(handle); !done) {
            return done.error();
        }
    }
    for (const auto &[name, summary] : spec.tests_) {
        if (auto failed = check_text(name + summary, "a self-test")) {
            return std::move(*failed);
        }
        if (auto failed = call(handle, [&, test = name.c_str(), words = summary.c_str()](auto error) {
                return stripline_component_add_test(handle, test, words, error);
            })) {
            return std::move(*failed);
        }
    }
    const stripline_component_functions functions = component_functions<C>::all();
    if (auto failed = call(handle, [&](auto error) {
            return stripline_component_set_functions(handle, &functions, error);
        })) {
        return std::move(*failed);
    }
    return made;
}

template <class C>
bool add_component(std::vector<component_type> &into) {
#if STRIPLINE_EXCEPTIONS
    try {
#endif
        auto made = type_of_component<C>();
        if (made) {
            into.push_back(std::move(made).value());
            return true;
        }
        std::fprintf(stderr, "error: %s\n", made.error().message());
        return false;
#if STRIPLINE_EXCEPTIONS
    } catch (const std::exception &thrown) {
        std::fprintf(stderr, "error: the description of a component threw: %s\n", thrown.what());
        return false;
    }
#endif
}

}  // namespace detail
/// @endcond

/// Runs components as the `main` of a program that a waveform names by `exec`. Call it before the
/// program starts threads. Returns the exit code for `main`. Failures go to standard error.
///
/// A component is a class with a static function `describe`, which returns a component_spec. The
/// component is made from `const properties &`: by the constructor, or without exceptions by a
/// static function `make`, which returns a result<std::unique_ptr<C>>. The class must have one of
/// these functions:
///
/// - `run(ports &)`: runs until the end of the input, or until the component has finished.
/// - `handle(const packet_view<input_type> &, made<output_type> &)`: makes one packet from each, on
///   the threads that the waveform selects. `input_type` and `output_type` are types of the class.
///
/// The class may have `change(const properties &)`, which takes new values while the component
/// runs, `test(std::string_view)`, which returns a test_result, and a static
/// `validate(const properties &)`, which checks all properties at the start and before each change.
/// Each returns nothing, or a result<void>. The message of an exception, or of a failure that they
/// return, goes to the user. status::stopped is a clean end.
template <class... Components>
int component_main(int argc, char **argv) {
    std::vector<detail::component_type> types;
    if (!(detail::add_component<Components>(types) && ...)) {
        return 1;
    }
    std::vector<stripline_component *> handles;
    for (const auto &type : types) {
        handles.push_back(type.get());
    }
    return stripline_main(argc, argv, handles.data(), handles.size());
}

}  // namespace STRIPLINE_VARIANT
}  // namespace stripline

#endif
