#include "message_source_impl.hpp"
#include "stream_tags.hpp"

#include <gnuradio/block_registry.h>
#include <gnuradio/io_signature.h>

#include <chrono>

namespace stripline::gr {
namespace {

/// The duration of a wait before the block searches for refused publishers. A stop ends the wait at
/// once.
constexpr std::int64_t wait_ns = 1'000'000'000;

/// The number of messages that may wait at a block after this one. GNU Radio itself has no bound.
constexpr std::size_t waiting_max = 64;

/// The interval at which this number is read again: GNU Radio does not report changes.
constexpr std::chrono::milliseconds recheck{1};

const pmt::pmt_t &out_port() {
    static const pmt::pmt_t name = pmt::mp("out");
    return name;
}
const pmt::pmt_t &gaps_port() {
    static const pmt::pmt_t name = pmt::mp("gaps");
    return name;
}

}  // namespace

message_source::sptr message_source::make(const std::string &topic, const message_source_options &settings) {
    return gnuradio::make_block_sptr<message_source_impl>(topic, settings);
}

message_source_impl::message_source_impl(const std::string &topic, const message_source_options &settings)
    : ::gr::block("stripline_message_source", ::gr::io_signature::make(0, 0, 0), ::gr::io_signature::make(0, 0, 0)),
      where_(block_name("message source", topic)),
      topic_(topic),
      with_(settings),
      form_(message_form::of(where_, settings)),
      node_(make_node(where_, topic, settings)),
      end_(where_, "bytes", d_logger) {
    check_text(where_, "type", settings.type);
    message_port_register_out(out_port());
    message_port_register_out(gaps_port());
    if (node_) {
        join();
    }
}

message_source_impl::~message_source_impl() { stop(); }

void message_source_impl::join() {
    stripline_subscriber_options options{};
    options.size = sizeof options;
    stripline_subscriber *subscriber = nullptr;
    detail::c_error failed;
    const stripline_status code = stripline_message_subscriber_new(
        node_->c_handle(), topic_.c_str(), type().c_str(), &options, &subscriber, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    end_.open(subscriber);
}

void message_source_impl::attach(stripline_ports *ports) {
    check_port(where_, with_, end_.is_open());
    stripline_subscriber *subscriber = nullptr;
    detail::c_error failed;
    const stripline_status code = stripline_ports_message_input(
        ports, topic_.c_str(), type().c_str(), nullptr, &subscriber, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    end_.open(subscriber);
}

void message_source_impl::detach() {
    stop();
    end_.close();
}

bool message_source_impl::start() {
    end_.restart();
    if (!end_.is_open()) {
        if (!node_) {
            raise_apart(where_);
        }
        join();
    }
    thread_ = std::thread([this] { run(); });
    return true;
}

bool message_source_impl::stop() {
    end_.stop();
    if (thread_.joinable()) {
        thread_.join();
    }
    // A port exists only once, so a flowgraph that is started again continues with it.
    if (node_) {
        end_.close();
    }
    return true;
}

void message_source_impl::run() {
    try {
        receive_all();
    } catch (const std::exception &thrown) {
        // GNU Radio throws this if a block after this one is gone.
        end_.fail(thrown.what());
    }
    if (end_.has_ended()) {
        end_.count_end(0);
        // The block ends, and so do the blocks after it.
        _post(pmt::mp("system"), pmt::cons(pmt::mp("done"), pmt::from_long(1)));
    }
}

void message_source_impl::receive_all() {
    while (waits_for_readers()) {
        owned<stripline_packet> packet;
        const found one = end_.receive(wait_ns, packet);
        if (one == found::packet) {
            pass_on(std::move(packet));
        } else if (one == found::nothing) {
            end_.note_refused(node_);
        } else {
            return;
        }
    }
}

/// Waits until no block after this one has too many messages. Returns false for a stop.
bool message_source_impl::waits_for_readers() {
    const auto is_full = [&] {
        for (pmt::pmt_t rest = message_subscribers(out_port()); pmt::is_pair(rest); rest = pmt::cdr(rest)) {
            const pmt::pmt_t reader = pmt::car(rest);
            const auto behind = ::global_block_registry.block_lookup(pmt::car(reader));
            if (behind && behind->nmsgs(pmt::cdr(reader)) >= waiting_max) {
                return true;
            }
        }
        return false;
    };
    while (!end_.is_stopping() && is_full()) {
        std::this_thread::sleep_for(recheck);
    }
    return !end_.is_stopping();
}

void message_source_impl::pass_on(owned<stripline_packet> packet) {
    stripline_packet_info info{};
    info.size = sizeof info;
    if (stripline_packet_get_info(packet.get(), &info, nullptr) == STRIPLINE_OK &&
        info.gap_reason != STRIPLINE_GAP_REASON_NONE) {
        end_.count_lost(info.gap_packets, 0);
        message_port_pub(gaps_port(), gap_of(info));
    }
    pmt::pmt_t message;
    try {
        message = decode_message(
            static_cast<const std::uint8_t *>(stripline_packet_samples(packet.get())),
            stripline_packet_length(packet.get()), form_);
    } catch (const message_problem &problem) {
        const std::string words = std::string("a message cannot be read: ") + problem.what();
        refusals_.add(words);
        d_logger->error("{}: {}", where_, words);
        stripline_packet_refuse(packet.release(), words.c_str(), nullptr);
        return;
    }
    packet.reset();
    messages_ += 1;
    message_port_pub(out_port(), message);
}

}  // namespace stripline::gr
