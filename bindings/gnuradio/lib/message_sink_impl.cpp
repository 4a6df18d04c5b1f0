#include "message_sink_impl.hpp"

#include <gnuradio/io_signature.h>

#include <exception>

namespace stripline::gr {
namespace {

const pmt::pmt_t &in_port() {
    static const pmt::pmt_t name = pmt::mp("in");
    return name;
}

}  // namespace

message_sink::sptr message_sink::make(const std::string &topic, const message_sink_options &settings) {
    return gnuradio::make_block_sptr<message_sink_impl>(topic, settings);
}

message_sink_impl::message_sink_impl(const std::string &topic, const message_sink_options &settings)
    : ::gr::block("stripline_message_sink", ::gr::io_signature::make(0, 0, 0), ::gr::io_signature::make(0, 0, 0)),
      where_(block_name("message sink", topic)),
      topic_(topic),
      with_(settings),
      node_(make_node(where_, topic, settings)),
      end_(where_, settings.is_port, d_logger) {
    check_text(where_, "type", settings.type);
    message_port_register_in(in_port());
    set_msg_handler(in_port(), [this](const pmt::pmt_t &message) {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (!send(message) && end_.is_over()) {
            // Nothing can be sent any more, so the block ends.
            _post(pmt::mp("system"), pmt::cons(pmt::mp("done"), pmt::from_long(1)));
        }
    });
    if (node_) {
        open();
    }
}

void message_sink_impl::open() {
    stripline_publisher *publisher = nullptr;
    detail::c_error failed;
    const stripline_status code = stripline_message_publisher_new(
        node_->c_handle(), topic_.c_str(), type().c_str(), &publisher, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    end_.open(owned<stripline_publisher>(publisher), with_.receivers);
}

void message_sink_impl::attach(stripline_ports *ports) {
    const std::lock_guard<std::mutex> guard(mutex_);
    check_port(where_, with_, end_.is_open());
    stripline_publisher *publisher = nullptr;
    detail::c_error failed;
    const stripline_status code =
        stripline_ports_message_output(ports, topic_.c_str(), type().c_str(), &publisher, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    end_.open(owned<stripline_publisher>(publisher), with_.receivers);
}

void message_sink_impl::detach() {
    const std::lock_guard<std::mutex> guard(mutex_);
    end_.close();
}

bool message_sink_impl::start() {
    const std::lock_guard<std::mutex> guard(mutex_);
    end_.restart();
    unsent_ = 0;
    if (!end_.is_open()) {
        if (!node_) {
            raise_apart(where_);
        }
        open();
    }
    return true;
}

bool message_sink_impl::stop() {
    // If the flowgraph ends by itself, this thread waits as long as necessary.
    const bool hurries = is_being_stopped() || std::uncaught_exceptions() > 0;
    if (hurries) {
        end_.stop();
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    send_rest();
    end_.finish();
    return true;
}

/// Sends the messages that arrived since the last call of the handler. Messages that cannot be sent
/// any more are logged.
void message_sink_impl::send_rest() {
    while (const pmt::pmt_t message = delete_head_nowait(in_port())) {
        send(message);
    }
    if (unsent_ != 0) {
        d_logger->warn("{}: {} messages were not sent before the end", where_, unsent_);
    }
}

bool message_sink_impl::send(const pmt::pmt_t &message) {
    std::vector<std::uint8_t> bytes;
    try {
        bytes = encode_message(message);
    } catch (const message_problem &problem) {
        const std::string words = std::string("a message is not sent: ") + problem.what();
        refusals_.add(words);
        d_logger->error("{}: {}", where_, words);
        return false;
    }
    stripline_send_options options{};
    options.size = sizeof options;
    const bool is_sent = end_.wait_for_receivers() && end_.send(bytes.data(), bytes.size(), bytes.size(), options);
    unsent_ += is_sent ? 0 : 1;
    return is_sent;
}

}  // namespace stripline::gr
