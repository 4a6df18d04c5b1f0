#include "component.hpp"

#include <stripline.hpp>

#include <pybind11/stl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace py = pybind11;
using namespace pybind11::literals;

namespace stripline::gr {
namespace {

/// Throws the failure of a C function as ValueError.
void check(const result<void> &done) {
    if (!done) {
        throw std::invalid_argument(done.error().message());
    }
}

/// The ports of a component while the flowgraph runs, for Python.
class running {
public:
    explicit running(stripline_ports *ports) : ports_(ports) {}

    void attach(const port_block &port) const { port.block->attach(get()); }

    /// Sleeps, and handles the requests that wait. Returns false when the component must stop.
    bool turn(std::int64_t time_ns) const {
        stripline_ports *const ports = get();
        const py::gil_scoped_release released;
        return stripline_ports_sleep(ports, time_ns, nullptr) != STRIPLINE_STOPPED &&
               stripline_ports_poll(ports, nullptr) != STRIPLINE_STOPPED;
    }

    /// Sets a read-only property.
    void set(const std::string &name, const std::string &kind, const py::object &value) {
        auto found = readouts_.find(name);
        if (found == readouts_.end()) {
            const stripline_readout *made = nullptr;
            check(detail::outcome(get(), [&](auto error) {
                return stripline_ports_readout(get(), name.c_str(), &made, error);
            }));
            found = readouts_.emplace(name, readout(made)).first;
        }
        get();
        if (kind == "boolean") {
            check(found->second.set(value.cast<bool>(), std::nothrow));
        } else if (kind == "integer") {
            check(found->second.set(value.cast<std::int64_t>(), std::nothrow));
        } else if (kind == "float") {
            check(found->second.set(value.cast<double>(), std::nothrow));
        } else {
            check(found->second.set(value.cast<std::string>(), std::nothrow));
        }
    }

    /// Called when the component's function returns.
    void end() { ports_ = nullptr; }

private:
    stripline_ports *get() const {
        if (ports_ == nullptr) {
            throw std::runtime_error("the component has ended");
        }
        return ports_;
    }

    stripline_ports *ports_;
    std::map<std::string, readout> readouts_;
};

/// Returns the result of a function, and the blocks that it makes as ports.
std::pair<py::object, std::vector<port_block>> make_with_ports(const py::object &make) {
    struct scope {
        std::vector<port_block> made;
        scope() { made_ports() = &made; }
        ~scope() { made_ports() = nullptr; }
    } ports;
    py::object made = make();
    return {std::move(made), std::move(ports.made)};
}

/// The functions of a flowgraph in Python, and the kinds of the properties by name. Each function
/// returns the message of a failure, or None.
struct functions {
    py::object create;
    py::object run;
    py::object change;
    py::object test;
    std::vector<std::pair<std::string, std::string>> kinds;
};

/// Returns the values of properties; for a change, only the properties that it names.
py::dict values_of(const functions &of, const stripline_properties *values, bool is_change) {
    const properties found(values);
    py::dict result;
    for (const auto &[name, kind] : of.kinds) {
        if (is_change && !found.is_changed(name)) {
            continue;
        }
        if (kind == "boolean") {
            result[py::str(name)] = found.get<bool>(name);
        } else if (kind == "integer") {
            result[py::str(name)] = found.get<std::int64_t>(name);
        } else if (kind == "float") {
            result[py::str(name)] = found.get<double>(name);
        } else {
            result[py::str(name)] = found.get<std::string>(name);
        }
    }
    return result;
}

/// Calls Python for C, so no exception may leave it.
template <class Call>
std::int32_t call(stripline_reason *reason, Call function) noexcept {
    const py::gil_scoped_acquire acquired;
    try {
        const py::object words = function();
        return words.is_none() ? STRIPLINE_OK : stripline_reason_set(reason, std::string(py::str(words)).c_str());
    } catch (const std::exception &thrown) {
        return stripline_reason_set(reason, thrown.what());
    } catch (...) {
        return stripline_reason_set(reason, "it threw something other than a std::exception");
    }
}

std::int32_t create(
    void *context, const stripline_properties *values, void **instance, stripline_reason *reason) noexcept {
    auto &of = *static_cast<functions *>(context);
    *instance = context;
    return call(reason, [&] { return of.create(values_of(of, values, false)); });
}

std::int32_t run(void *instance, stripline_ports *ports, stripline_reason *reason) noexcept {
    auto &of = *static_cast<functions *>(instance);
    return call(reason, [&] {
        const auto link = std::make_shared<running>(ports);
        const py::object words = of.run(link);
        link->end();
        return words;
    });
}

std::int32_t change(void *instance, const stripline_properties *values, stripline_reason *reason) noexcept {
    auto &of = *static_cast<functions *>(instance);
    return call(reason, [&] { return of.change(values_of(of, values, true)); });
}

std::int32_t test(void *instance, const char *name, double *value, stripline_reason *reason) noexcept {
    auto &of = *static_cast<functions *>(instance);
    const py::gil_scoped_acquire acquired;
    try {
        const auto [passed, words, measured] =
            of.test(std::string(name)).cast<std::tuple<bool, std::string, std::optional<double>>>();
        stripline_reason_set(reason, words.c_str());
        *value = measured.value_or(*value);
        return passed ? STRIPLINE_OK : STRIPLINE_FAILED;
    } catch (const std::exception &thrown) {
        return stripline_reason_set(reason, thrown.what());
    } catch (...) {
        return stripline_reason_set(reason, "it threw something other than a std::exception");
    }
}

/// A flowgraph's variable or readout: the name and kind, the default of this kind, summary and
/// unit.
using variable = std::tuple<std::string, std::string, py::object, std::string, std::string>;

stripline::property property_of(const variable &from) {
    const auto &[name, kind, value, summary, unit] = from;
    const auto made = [&, &name = name, &kind = kind, &value = value, &summary = summary] {
        if (kind == "boolean") {
            return boolean_property(name, value.cast<bool>(), summary);
        }
        if (kind == "integer") {
            return integer_property(name, value.cast<std::int64_t>(), summary);
        }
        return kind == "float" ? float_property(name, value.cast<double>(), summary)
                               : text_property(name, value.cast<std::string>(), summary);
    };
    return made().unit(unit);
}

int run_component(
    const std::string &name, const std::string &summary, const std::vector<port_block> &ports,
    const std::vector<variable> &variables, const std::vector<variable> &readouts,
    const std::vector<std::pair<std::string, std::string>> &tests, py::object create_it, py::object run_it,
    py::object change_it, py::object test_it, std::vector<std::string> arguments) {
    stripline_component *handle = nullptr;
    const int here = 0;
    check(detail::outcome(&here, [&](auto error) {
        return stripline_component_new(name.c_str(), summary.c_str(), &handle, error);
    }));
    const detail::component_type component(handle);
    for (const port_block &one : ports) {
        port from;
        from.name = one.topic;
        from.types = one.block->type();
        const std::uint32_t direction =
            one.block->is_input() ? STRIPLINE_PORT_DIRECTION_INPUT : STRIPLINE_PORT_DIRECTION_OUTPUT;
        check(detail::add_port(handle, {std::move(from), direction}));
    }
    functions python{std::move(create_it), std::move(run_it), std::move(change_it), std::move(test_it), {}};
    for (const variable &one : variables) {
        check(property_of(one).changeable().add_to(handle));
        python.kinds.emplace_back(std::get<0>(one), std::get<1>(one));
    }
    for (const variable &one : readouts) {
        check(property_of(one).read_only().add_to(handle));
    }
    for (const auto &[test_name, words] : tests) {
        check(detail::outcome(&here, [&, &test_name = test_name, &words = words](auto error) {
            return stripline_component_add_test(handle, test_name.c_str(), words.c_str(), error);
        }));
    }
    stripline_component_functions all{};
    all.size = sizeof all;
    all.context = &python;
    all.create = create;
    all.run = run;
    all.change = change;
    all.test = test;
    check(detail::outcome(&here, [&](auto error) { return stripline_component_set_functions(handle, &all, error); }));
    std::vector<char *> pointers;
    for (std::string &argument : arguments) {
        pointers.push_back(argument.data());
    }
    const py::gil_scoped_release released;
    return stripline_main(static_cast<int>(pointers.size()), pointers.data(), &handle, 1);
}

}  // namespace

std::vector<port_block> *&made_ports() {
    static std::vector<port_block> *ports = nullptr;
    return ports;
}

void add_component(py::module &module) {
    py::class_<running, std::shared_ptr<running>>(module, "_Running")
        .def("attach", &running::attach)
        .def("turn", &running::turn)
        .def("set", &running::set);
    py::class_<port_block>(module, "_Port")
        .def("detach", [](const port_block &port) { port.block->detach(); }, py::call_guard<py::gil_scoped_release>())
        .def("failure", [](const port_block &port) { return port.block->failure(); });
    module.def("_make_with_ports", make_with_ports, "make"_a);
    module.def(
        "_run_component", run_component, "name"_a, "summary"_a, "ports"_a, "variables"_a, "readouts"_a, "tests"_a, "create"_a,
        "run"_a, "change"_a, "test"_a, "arguments"_a);
}

}  // namespace stripline::gr
