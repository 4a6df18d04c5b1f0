// The blocks in Python: `from gnuradio import stripline`.
#include "component.hpp"
#include "pmt_message.hpp"

#include <stripline/gr/message_sink.hpp>
#include <stripline/gr/message_source.hpp>
#include <stripline/gr/sink.hpp>
#include <stripline/gr/source.hpp>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
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
    "domain: the domain; empty: the domain of the environment\n"
    "spin_us: microseconds for which it polls for a packet before it sleeps\n\n"
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

constexpr const char *message_source_doc =
    "A block that passes the messages of a topic on at its port `out`, and reports of losses at `gaps`.\n\n"
    "topic:   the topic\n"
    "vectors: the type of the uniform vectors that arrays of numbers become, as complex; empty: vectors of values\n"
    "pairs:   a map of one entry becomes a pair, and not a dictionary\n"
    "type:    the type of the messages, as 'message/tune{hz:f64}'; empty: any\n"
    "policy, domain: as for source\n\n"
    "Raises ValueError for a topic, type or option with a mistake.";

constexpr const char *message_sink_doc =
    "A block that sends the messages of its port `in` on a topic.\n\n"
    "topic, type, policy, domain: as for message_source\n"
    "receivers: how many receivers the first message waits for\n\n"
    "Raises ValueError for a topic, type or option with a mistake.";

/// Makes a block without the interpreter's lock, and records it if it is a port of a component.
template <class Make>
auto joined(const std::string &topic, Make make) {
    auto made = [&] {
        const py::gil_scoped_release released;
        return make();
    }();
    if (stripline::gr::made_ports() != nullptr) {
        stripline::gr::made_ports()->push_back({topic, made});
    }
    return made;
}

}  // namespace

PYBIND11_MODULE(stripline_python, module) {
    namespace gr = stripline::gr;
    // The base classes of the blocks.
    py::module::import("gnuradio.gr");
    py::module::import("pmt");
    using release = py::call_guard<py::gil_scoped_release>;

    py::class_<gr::source, ::gr::sync_block, ::gr::block, ::gr::basic_block, std::shared_ptr<gr::source>>(
        module, "source", source_doc)
        .def(
            py::init([](const std::string &type, const std::string &topic, std::size_t vlen, const std::string &policy,
                        const std::string &domain, std::uint32_t spin_us) {
                gr::source_options settings;
                settings.spin_us = spin_us;
                settings.vlen = vlen;
                settings.policy = policy;
                settings.domain = domain;
                settings.is_port = gr::made_ports() != nullptr;
                return joined(topic, [&] { return gr::source::make(type, topic, settings); });
            }),
            "type"_a, "topic"_a, "vlen"_a = 1, "policy"_a = "", "domain"_a = "", "spin_us"_a = 0, source_doc)
        .def_static(
            "_set_reader_check", [](double seconds) { gr::source::set_reader_check(std::llround(seconds * 1e9)); }, "seconds"_a)
        .def("lost_packets", &gr::source::lost_packets, "Packets that were lost so far.")
        .def("lost_samples", &gr::source::lost_samples, "Samples that were lost so far.")
        .def("refused", &gr::source::refused, release(), "Publishers that were refused, with the reasons.")
        .def("failure", &gr::source::failure, "Why the block has ended the flowgraph early; empty: it has not.");

    py::class_<gr::sink, ::gr::sync_block, ::gr::block, ::gr::basic_block, std::shared_ptr<gr::sink>>(
        module, "sink", sink_doc)
        .def(
            py::init([](const std::string &type, const std::string &topic, std::size_t vlen, const std::string &policy,
                        const std::string &domain, std::size_t receivers, std::size_t packet_items,
                        const std::string &stream, std::optional<double> sample_rate, std::optional<double> center_freq) {
                gr::sink_options settings;
                settings.vlen = vlen;
                settings.policy = policy;
                settings.domain = domain;
                settings.is_port = gr::made_ports() != nullptr;
                settings.receivers = receivers;
                settings.packet_items = packet_items;
                settings.stream = stream;
                settings.sample_rate_hz = sample_rate;
                settings.center_frequency_hz = center_freq;
                return joined(topic, [&] { return gr::sink::make(type, topic, settings); });
            }),
            "type"_a, "topic"_a, "vlen"_a = 1, "policy"_a = "", "domain"_a = "", "receivers"_a = 0,
            "packet_items"_a = 0, "stream"_a = "", "sample_rate"_a = py::none(), "center_freq"_a = py::none(), sink_doc)
        .def("abandon", &gr::sink::abandon, "Makes the next stop abandon the stream, which then has no end.")
        .def("receivers", &gr::sink::receivers, "Receivers that were connected when the last packet was sent.")
        .def("packets", &gr::sink::packets, "Packets that were sent.")
        .def("failure", &gr::sink::failure, "Why the block has ended early; empty: it has not.");

    py::class_<gr::message_source, ::gr::block, ::gr::basic_block, std::shared_ptr<gr::message_source>>(
        module, "message_source", message_source_doc)
        .def(
            py::init([](const std::string &topic, const std::string &vectors, bool pairs, const std::string &type,
                        const std::string &policy, const std::string &domain) {
                gr::message_source_options settings;
                settings.vectors = vectors;
                settings.pairs = pairs;
                settings.type = type;
                settings.policy = policy;
                settings.domain = domain;
                settings.is_port = gr::made_ports() != nullptr;
                return joined(topic, [&] { return gr::message_source::make(topic, settings); });
            }),
            "topic"_a, "vectors"_a = "", "pairs"_a = false, "type"_a = "", "policy"_a = "", "domain"_a = "",
            message_source_doc)
        .def("messages", &gr::message_source::messages, "Messages that were passed on so far.")
        .def("lost_messages", &gr::message_source::lost_messages, "Messages that were lost so far.")
        .def("refused_messages", &gr::message_source::refused_messages, "Messages that cannot be read, and were left out.")
        .def("last_refusal", &gr::message_source::last_refusal, "Why the last of them cannot be read; empty: none.")
        .def("refused", &gr::message_source::refused, release(), "Publishers that were refused, with the reasons.")
        .def("failure", &gr::message_source::failure, "Why the block has ended early; empty: it has not.");

    py::class_<gr::message_sink, ::gr::block, ::gr::basic_block, std::shared_ptr<gr::message_sink>>(
        module, "message_sink", message_sink_doc)
        .def(
            py::init([](const std::string &topic, std::size_t receivers, const std::string &type,
                        const std::string &policy, const std::string &domain) {
                gr::message_sink_options settings;
                settings.receivers = receivers;
                settings.type = type;
                settings.policy = policy;
                settings.domain = domain;
                settings.is_port = gr::made_ports() != nullptr;
                return joined(topic, [&] { return gr::message_sink::make(topic, settings); });
            }),
            "topic"_a, "receivers"_a = 0, "type"_a = "", "policy"_a = "", "domain"_a = "", message_sink_doc)
        .def("abandon", &gr::message_sink::abandon, "Makes the next stop abandon the stream, which then has no end.")
        .def("receivers", &gr::message_sink::receivers, "Receivers that were connected when the last message was sent.")
        .def("messages", &gr::message_sink::messages, "Messages that were sent.")
        .def("refused_messages", &gr::message_sink::refused_messages, "Messages that have no form, and were not sent.")
        .def("last_refusal", &gr::message_sink::last_refusal, "Why the last of them was not sent; empty: none.")
        .def("failure", &gr::message_sink::failure, "Why the block has ended early; empty: it has not.");
    // For tests: the conversion of messages in the blocks.
    py::register_exception<gr::message_problem>(module, "_MessageProblem", PyExc_ValueError);
    module.def("_encode_message", [](const pmt::pmt_t &value) {
        const auto bytes = gr::encode_message(value);
        return py::bytes(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    });
    module.def(
        "_decode_message",
        [](const std::string &bytes, const std::string &vectors, bool pairs) {
            gr::message_source_options settings;
            settings.vectors = vectors;
            settings.pairs = pairs;
            return gr::decode_message(
                reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size(), gr::message_form::of("test", settings));
        },
        "bytes"_a, "vectors"_a = "", "pairs"_a = false);
    gr::add_component(module);
}
