/// @file
/// A flowgraph as a component, for the Python module.
#ifndef STRIPLINE_GR_PYTHON_COMPONENT_HPP
#define STRIPLINE_GR_PYTHON_COMPONENT_HPP

#include <stripline/gr/link_end.hpp>

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

namespace stripline::gr {

/// A block with a port as its topic.
struct port_block {
    std::string topic;
    std::shared_ptr<link_end> block;
};

/// Returns the blocks that are made as ports, while a component makes the flowgraph; otherwise
/// nullptr. The caller must hold the interpreter's lock.
std::vector<port_block> *&made_ports();

/// Adds the functions by which `component.py` runs a flowgraph.
void add_component(pybind11::module &module);

}  // namespace stripline::gr

#endif
