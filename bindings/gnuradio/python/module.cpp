// The blocks in Python: `from gnuradio import stripline`.
#include "component.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

namespace py = pybind11;
using namespace pybind11::literals;

namespace {

constexpr const char *source_doc =
    "A block that receives the packets of a topic.\n\n"
    "type:   byte, short, int, float, complex, sc8, sc16, or a built-in type of Stripline as u32\n"
    "topic:  the topic\n"
    "vlen:   samples of an item\n"
    "policy: options of the topic as in a topics file, as 'overflow = \"block\", depth = 8'\n"
    "domain: the domain; empty: that of the environment\n\n"
    "Raises ValueError for a type, topic or option with a mistake.";

constexpr const char *sink_doc =
    "A block that sends its items as packets of a topic.\n\n"
    "type, topic, vlen, policy, domain: as for source\n"
    "receivers:    how many receivers the first packet waits for\n"
    "packet_items: the most items of a packet; 0: as many as GNU Radio passes on at once\n"
    "stream:       the name of the stream; empty: the topic\n"
    "sample_rate:  samples a second until a tag rx_rate; None: unknown\n"
    "center_freq:  the frequency in Hz until a tag rx_freq; None: unknown\n\n"
    "Raises ValueError for a type, topic or option with a mistake.";

void join(const std::string &topic, const stripline::gr::source::sptr &block) {
    stripline::gr::made_ports()->push_back({topic, block, nullptr});
}
void join(const std::string &topic, const stripline::gr::sink::sptr &block) {
    stripline::gr::made_ports()->push_back({topic, nullptr, block});
}

/// Makes a block without the interpreter's lock, and notes it where it is a port of a component.
template <class Make>
auto joined(const std::string &topic, Make make) {
    auto made = [&] {
        const py::gil_scoped_release released;
        return make();
    }();
    if (stripline::gr::made_ports() != nullptr) {
        join(topic, made);
    }
    return made;
}

}  // namespace

PYBIND11_MODULE(stripline_python, module) {
    namespace gr = stripline::gr;
    // The classes that the blocks are derived from.
    py::module::import("gnuradio.gr");
    using release = py::call_guard<py::gil_scoped_release>;

    py::class_<gr::source, ::gr::sync_block, ::gr::block, ::gr::basic_block, std::shared_ptr<gr::source>>(
        module, "source", source_doc)
        .def(
            py::init([](const std::string &type, const std::string &topic, std::size_t vlen, const std::string &policy,
                        const std::string &domain) {
                gr::options with;
                with.vlen = vlen;
                with.policy = policy;
                with.domain = domain;
                with.is_port = gr::made_ports() != nullptr;
                return joined(topic, [&] { return gr::source::make(type, topic, with); });
            }),
            "type"_a, "topic"_a, "vlen"_a = 1, "policy"_a = "", "domain"_a = "", source_doc)
        .def("lost_packets", &gr::source::lost_packets, "Packets that were lost so far.")
        .def("lost_samples", &gr::source::lost_samples, "Samples that were lost so far.")
        .def("refused", &gr::source::refused, release(), "Publishers that were refused, with the reasons.")
        .def("failure", &gr::source::failure, release(), "Why the block has ended the flowgraph early; empty: it has not.");

    py::class_<gr::sink, ::gr::sync_block, ::gr::block, ::gr::basic_block, std::shared_ptr<gr::sink>>(
        module, "sink", sink_doc)
        .def(
            py::init([](const std::string &type, const std::string &topic, std::size_t vlen, const std::string &policy,
                        const std::string &domain, std::size_t receivers, std::size_t packet_items,
                        const std::string &stream, std::optional<double> sample_rate, std::optional<double> center_freq) {
                gr::sink_options with;
                with.vlen = vlen;
                with.policy = policy;
                with.domain = domain;
                with.is_port = gr::made_ports() != nullptr;
                with.receivers = receivers;
                with.packet_items = packet_items;
                with.stream = stream;
                with.sample_rate_hz = sample_rate;
                with.center_frequency_hz = center_freq;
                return joined(topic, [&] { return gr::sink::make(type, topic, with); });
            }),
            "type"_a, "topic"_a, "vlen"_a = 1, "policy"_a = "", "domain"_a = "", "receivers"_a = 0,
            "packet_items"_a = 0, "stream"_a = "", "sample_rate"_a = py::none(), "center_freq"_a = py::none(), sink_doc)
        .def("abandon", &gr::sink::abandon, "Makes the next stop abandon the stream, which then has no end.")
        .def("receivers", &gr::sink::receivers, "Receivers that were connected when the last packet was sent.")
        .def("packets", &gr::sink::packets, "Packets that were sent.")
        .def("failure", &gr::sink::failure, release(), "Why the block has ended early; empty: it has not.");
    gr::add_component(module);
}
