#include "component.hpp"

#include <stripline.hpp>

#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace py = pybind11;
using namespace pybind11::literals;

namespace stripline::gr {
namespace {

/// The ports of a component while its flowgraph runs, for Python.
class running {
public:
    explicit running(stripline_ports *ports) : ports_(ports) {}

    void attach(const port_block &block) const {
        if (block.source) {
            block.source->attach(get());
        } else {
            block.sink->attach(get());
        }
    }

    /// Sleeps, and answers the requests that wait. Returns false when the component must stop.
    bool turn(std::int64_t time_ns) const {
        stripline_ports *const ports = get();
        const py::gil_scoped_release released;
        return stripline_ports_sleep(ports, time_ns, nullptr) != STRIPLINE_STOPPED &&
               stripline_ports_poll(ports, nullptr) != STRIPLINE_STOPPED;
    }

    /// The component's function returns.
    void end() { ports_ = nullptr; }

private:
    stripline_ports *get() const {
        if (ports_ == nullptr) {
            throw std::runtime_error("the component has ended");
        }
        return ports_;
    }

    stripline_ports *ports_;
};

void detach(const port_block &block) {
    if (block.source) {
        block.source->detach();
    } else {
        block.sink->detach();
    }
}

std::string failure(const port_block &block) {
    return block.source ? block.source->failure() : block.sink->failure();
}

/// Returns what a function makes, and the blocks that it makes as ports.
std::pair<py::object, std::vector<port_block>> make_with_ports(const py::object &make) {
    struct scope {
        std::vector<port_block> made;
        scope() { made_ports() = &made; }
        ~scope() { made_ports() = nullptr; }
    } ports;
    py::object made = make();
    return {std::move(made), std::move(ports.made)};
}

/// The functions of a flowgraph in Python, and the kinds of its properties by name. Each function
/// returns the words of a failure, or None.
struct functions {
    py::object create;
    py::object run;
    py::object change;
    std::vector<std::pair<std::string, std::string>> kinds;
};

/// Returns the values of properties; of a change, those that it names.
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

/// Calls Python for C: no exception may leave it.
template <class Call>
std::int32_t call(stripline_reason *reason, Call function) noexcept {
    const py::gil_scoped_acquire acquired;
    try {
        const py::object words = function();
        return words.is_none() ? STRIPLINE_OK : stripline_reason_set(reason, std::string(py::str(words)).c_str());
    } catch (const std::exception &thrown) {
        return stripline_reason_set(reason, thrown.what());
    } catch (...) {
        return stripline_reason_set(reason, "it threw what is no std::exception");
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

/// A flowgraph's variable: its name and kind, and the default of its kind.
using variable = std::tuple<std::string, std::string, py::object>;

stripline::property property_of(const variable &from) {
    const auto &[name, kind, value] = from;
    const std::string summary = "variable of the flowgraph";
    if (kind == "boolean") {
        return boolean_property(name, value.cast<bool>(), summary);
    }
    if (kind == "integer") {
        return integer_property(name, value.cast<std::int64_t>(), summary);
    }
    return kind == "float" ? float_property(name, value.cast<double>(), summary)
                           : text_property(name, value.cast<std::string>(), summary);
}

/// Throws the failure of a C function as ValueError.
void check(const result<void> &done) {
    if (!done) {
        throw std::invalid_argument(done.error().message());
    }
}

int run_component(
    const std::string &name, const std::string &summary, const std::vector<port_block> &ports,
    const std::vector<variable> &variables, py::object create_it, py::object run_it, py::object change_it,
    std::vector<std::string> arguments) {
    stripline_component *handle = nullptr;
    const int here = 0;
    check(detail::outcome(&here, [&](auto error) {
        return stripline_component_new(name.c_str(), summary.c_str(), &handle, error);
    }));
    const detail::component_type component(handle);
    for (const port_block &block : ports) {
        port from;
        from.name = block.topic;
        from.types = block.source ? block.source->sample_type() : block.sink->sample_type();
        const std::uint32_t direction = block.source ? STRIPLINE_PORT_DIRECTION_INPUT : STRIPLINE_PORT_DIRECTION_OUTPUT;
        check(detail::add_port(handle, {std::move(from), direction}));
    }
    functions python{std::move(create_it), std::move(run_it), std::move(change_it), {}};
    for (const variable &one : variables) {
        check(property_of(one).changeable().add_to(handle));
        python.kinds.emplace_back(std::get<0>(one), std::get<1>(one));
    }
    stripline_component_functions all{};
    all.size = sizeof all;
    all.context = &python;
    all.create = create;
    all.run = run;
    all.change = change;
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
        .def("turn", &running::turn);
    py::class_<port_block>(module, "_Port")
        .def("detach", detach, py::call_guard<py::gil_scoped_release>())
        .def("failure", failure, py::call_guard<py::gil_scoped_release>());
    module.def("_make_with_ports", make_with_ports, "make"_a);
    module.def(
        "_run_component", run_component, "name"_a, "summary"_a, "ports"_a, "variables"_a, "create"_a, "run"_a, "change"_a,
        "arguments"_a);
}

}  // namespace stripline::gr
