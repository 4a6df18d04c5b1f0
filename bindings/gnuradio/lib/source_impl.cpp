#include "source_impl.hpp"

#include <gnuradio/block_detail.h>
#include <gnuradio/buffer.h>
#include <gnuradio/io_signature.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

namespace stripline::gr {
namespace {

/// The duration of a wait before the block checks whether it has a reader. Relaxed: a wait may use
/// an older value.
std::atomic<std::int64_t> reader_check_ns{20'000'000};

/// After this time without a packet, the block searches for refused publishers.
constexpr std::int64_t search_ns = 1'000'000'000;

}  // namespace

source::sptr source::make(const std::string &type, const std::string &topic, const source_options &settings) {
    return gnuradio::make_block_sptr<source_impl>(type, topic, settings);
}

void source::set_reader_check(std::int64_t interval_ns) {
    reader_check_ns.store(interval_ns, std::memory_order_relaxed);
}

source_impl::source_impl(const std::string &type, const std::string &topic, const source_options &settings)
    : ::gr::sync_block(
          "stripline_source", ::gr::io_signature::make(0, 0, 0),
          ::gr::io_signature::make(1, 1, static_cast<int>(item_bytes_of(sample_kind::of(type), settings)))),
      where_(block_name("source", topic)),
      topic_(topic),
      with_(settings),
      kind_(sample_kind::of(type)),
      item_bytes_(item_bytes_of(kind_, settings)),
      node_(make_node(where_, topic, settings)),
      end_(where_, "samples", d_logger) {
    if (node_) {
        join();
    }
}

void source_impl::join() {
    const stripline_sample_type type = kind_.c_type();
    stripline_subscriber_options options{};
    options.size = sizeof options;
    stripline_subscriber *subscriber = nullptr;
    detail::c_error failed;
    const stripline_status code =
        stripline_subscriber_new(node_->c_handle(), topic_.c_str(), &type, &options, &subscriber, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    end_.open(subscriber);
}

void source_impl::attach(stripline_ports *ports) {
    const std::lock_guard<std::mutex> guard(mutex_);
    check_port(where_, with_, end_.is_open());
    const stripline_sample_type type = kind_.c_type();
    stripline_subscriber *subscriber = nullptr;
    detail::c_error failed;
    const stripline_status code =
        stripline_ports_input(ports, topic_.c_str(), &type, nullptr, &subscriber, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    end_.open(subscriber);
}

void source_impl::detach() {
    const std::lock_guard<std::mutex> guard(mutex_);
    leave();
}

bool source_impl::start() {
    const std::lock_guard<std::mutex> guard(mutex_);
    end_.restart();
    if (!end_.is_open()) {
        if (!node_) {
            raise_apart(where_);
        }
        join();
    }
    return true;
}

bool source_impl::stop() {
    end_.stop();
    const std::lock_guard<std::mutex> guard(mutex_);
    // A port exists only once, so a flowgraph that is started again continues with it.
    if (node_) {
        leave();
    }
    return true;
}

void source_impl::leave() {
    packet_.reset();
    left_ = 0;
    partial_.clear();
    tags_ = tag_maker();
    stream_id_.reset();
    end_.close();
}

int source_impl::work(int items, gr_vector_const_void_star &, gr_vector_void_star &outputs) {
    const std::lock_guard<std::mutex> guard(mutex_);
    char *const out = static_cast<char *>(outputs[0]);
    const std::size_t wanted = static_cast<std::size_t>(items) * item_bytes_;
    std::size_t made = partial_.size();
    std::copy(partial_.begin(), partial_.end(), out);
    partial_.clear();
    while (made < wanted) {
        if (left_ == 0) {
            if (receive(made < item_bytes_) != found::packet) {
                break;
            }
            begin_packet(made);
        }
        const std::size_t part = std::min(wanted - made, left_);
        std::memcpy(out + made, samples_, part);
        samples_ += part;
        left_ -= part;
        made += part;
        if (left_ == 0) {
            packet_.reset();
        }
    }
    const std::size_t whole = made / item_bytes_;
    partial_.assign(out + whole * item_bytes_, out + made);
    if (whole == 0 && end_.has_ended()) {
        end_.count_end(partial_.size() / kind_.bytes);
        partial_.clear();
        return WORK_DONE;
    }
    if (whole == 0) {
        // GNU Radio checks this only if the buffer is full.
        if (has_no_reader()) {
            return WORK_DONE;
        }
        // Without this, GNU Radio waits a quarter of a second before it calls again.
        detail()->d_tpb.notify_msg();
    }
    return static_cast<int>(whole);
}

bool source_impl::has_no_reader() {
    const auto buffer = detail()->output(0);
    const ::gr::thread::scoped_lock guard(*buffer->mutex());
    return buffer->done();
}

found source_impl::receive(bool waits) {
    const std::int64_t wait_ns = waits ? reader_check_ns.load(std::memory_order_relaxed) : 0;
    found one = end_.receive(0, packet_);
    if (waits && with_.spin_us != 0) {
        using clock = std::chrono::steady_clock;
        const auto until = clock::now() + std::chrono::microseconds(with_.spin_us);
        while (one == found::nothing && !is_being_stopped() && clock::now() < until) {
            one = end_.receive(0, packet_);
        }
    }
    if (one == found::nothing && waits) {
        one = end_.receive(wait_ns, packet_);
    }
    if (one == found::packet) {
        idle_ns_ = 0;
    } else if (one == found::nothing) {
        idle_ns_ += wait_ns;
        if (idle_ns_ >= search_ns) {
            idle_ns_ = 0;
            end_.note_refused(node_);
        }
    }
    return one;
}

void source_impl::begin_packet(std::size_t &made) {
    samples_ = static_cast<const char *>(stripline_packet_samples(packet_.get()));
    left_ = stripline_packet_length(packet_.get()) * kind_.bytes;
    stripline_packet_info info{};
    info.size = sizeof info;
    stripline_stream_view stream{};
    stream.size = sizeof stream;
    if (stripline_packet_get_info(packet_.get(), &info, nullptr) != STRIPLINE_OK ||
        stripline_packet_get_stream(packet_.get(), &stream, nullptr) != STRIPLINE_OK) {
        return;
    }
    const bool is_counted_here = count_restart(info, detail::view(stream.id));
    if (info.gap_reason != STRIPLINE_GAP_REASON_NONE) {
        // An incomplete item before a gap counts as lost.
        const std::size_t cut = made % item_bytes_;
        made -= cut;
        info.gap_samples += cut / kind_.bytes;
    }
    if (!tags_.begin_packet(info, stream, stream_json(), left_ / kind_.bytes, new_tags_)) {
        d_logger->warn("{}: the tags of the sender do not decode, and are left out", where_);
    }
    if (is_counted_here) {
        leave_to_sender(info);
    }
    if (info.gap_reason != STRIPLINE_GAP_REASON_NONE) {
        end_.count_lost(info.gap_packets, info.gap_samples);
    }
    const std::size_t samples_before = made / kind_.bytes;
    const std::size_t samples_of_item = item_bytes_ / kind_.bytes;
    for (const new_tag &tag : new_tags_) {
        add_item_tag(0, nitems_written(0) + (samples_before + tag.sample) / samples_of_item, tag.key, tag.value, tag.source);
    }
    if (left_ == 0) {
        packet_.reset();
    }
}

/// Counts the losses if a restarted sender continues the sample indexes of its stream, as a sender
/// that forwards them does. Returns whether this is the case.
bool source_impl::count_restart(stripline_packet_info &info, std::string_view id) {
    const bool goes_on = id == stream_id_ && info.sample_index > next_index_;
    const bool is_restart = info.gap_reason == STRIPLINE_GAP_REASON_PEER_RESTART && info.gap_samples == 0;
    if (is_restart && goes_on) {
        info.gap_samples = info.sample_index - next_index_;
    }
    const bool is_counted = is_restart && goes_on;
    next_index_ = info.sample_index + left_ / kind_.bytes;
    if (id != stream_id_) {
        stream_id_ = id;
    }
    return is_counted;
}

/// Removes from the gap before a packet the losses that the sender has counted itself: its own tags
/// contain them.
void source_impl::leave_to_sender(stripline_packet_info &info) {
    const pmt::pmt_t samples = pmt::mp("samples");
    std::uint64_t passed_on = 0;
    // The first tag is the gap itself.
    for (std::size_t at = 1; at < new_tags_.size(); ++at) {
        const new_tag &tag = new_tags_[at];
        if (tag.sample == 0 && pmt::eq(tag.key, tag_keys::get().gap) && pmt::is_dict(tag.value)) {
            const pmt::pmt_t count = pmt::dict_ref(tag.value, samples, pmt::PMT_NIL);
            passed_on += pmt::is_uint64(count) || pmt::is_integer(count) ? pmt::to_uint64(count) : 0;
        }
    }
    info.gap_samples -= std::min(info.gap_samples, passed_on);
    new_tags_[0].value = pmt::dict_add(new_tags_[0].value, samples, pmt::from_uint64(info.gap_samples));
}

std::string_view source_impl::stream_json() {
    std::size_t length = 0;
    while (true) {
        const stripline_status code = stripline_packet_get_stream_json(
            packet_.get(), json_.data(), json_.size(), &length, nullptr);
        if (code == STRIPLINE_OK) {
            return std::string_view(json_.data(), length);
        }
        if (code != STRIPLINE_TOO_LARGE) {
            return std::string_view();
        }
        json_.resize(length + 1);
    }
}

}  // namespace stripline::gr
