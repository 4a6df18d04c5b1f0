#include "source_impl.hpp"

#include <gnuradio/block_detail.h>
#include <gnuradio/buffer.h>
#include <gnuradio/io_signature.h>

#include <algorithm>
#include <cstring>

namespace stripline::gr {
namespace {

/// After so many waits without a packet, refused publishers are searched for: about a second.
constexpr unsigned idle_slices_per_search = 100;

}  // namespace

source::sptr source::make(const std::string &type, const std::string &topic, const options &with) {
    return gnuradio::make_block_sptr<source_impl>(type, topic, with);
}

source_impl::source_impl(const std::string &type, const std::string &topic, const options &with)
    : ::gr::sync_block(
          "stripline_source", ::gr::io_signature::make(0, 0, 0),
          ::gr::io_signature::make(1, 1, static_cast<int>(item_bytes_of(sample_kind::of(type), with)))),
      where_(block_name("source", topic)),
      topic_(topic),
      with_(with),
      kind_(sample_kind::of(type)),
      item_bytes_(item_bytes_of(kind_, with)),
      node_(make_node(where_, topic, with)) {
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
    take(subscriber);
}

void source_impl::take(stripline_subscriber *subscriber) {
    subscriber_.reset(subscriber);
    stripline_waker *waker = nullptr;
    detail::c_error failed;
    const stripline_status code = stripline_subscriber_waker(subscriber, &waker, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    const std::lock_guard<std::mutex> guard(waker_mutex_);
    waker_.reset(waker);
}

void source_impl::attach(stripline_ports *ports) {
    const std::lock_guard<std::mutex> guard(mutex_);
    check_port(where_, with_, subscriber_ != nullptr);
    const stripline_sample_type type = kind_.c_type();
    stripline_subscriber *subscriber = nullptr;
    detail::c_error failed;
    const stripline_status code =
        stripline_ports_input(ports, topic_.c_str(), &type, nullptr, &subscriber, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    take(subscriber);
}

void source_impl::detach() {
    const std::lock_guard<std::mutex> guard(mutex_);
    leave();
}

bool source_impl::start() {
    const std::lock_guard<std::mutex> guard(mutex_);
    is_stopping_ = false;
    failure_.clear();
    if (!subscriber_) {
        if (!node_) {
            raise_apart(where_);
        }
        join();
    }
    return true;
}

bool source_impl::stop() {
    is_stopping_ = true;
    {
        const std::lock_guard<std::mutex> guard(waker_mutex_);
        if (waker_) {
            stripline_waker_wake(waker_.get(), nullptr);
        }
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    // A port is there once: a flowgraph that is started again goes on with it.
    if (node_) {
        leave();
    }
    return true;
}

void source_impl::leave() {
    packet_.reset();
    left_ = 0;
    partial_.clear();
    has_ended_ = false;
    tags_ = tag_maker();
    subscriber_.reset();
    const std::lock_guard<std::mutex> waker_guard(waker_mutex_);
    waker_.reset();
}

std::string source_impl::failure() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return failure_;
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
            const next found = receive(made < item_bytes_);
            if (found != next::packet) {
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
    if (whole == 0 && has_ended_) {
        end_stream();
        return WORK_DONE;
    }
    if (whole == 0) {
        // GNU Radio checks that only where its buffer is full.
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

source_impl::next source_impl::receive(bool waits) {
    while (subscriber_ && !has_ended_ && !is_stopping_) {
        stripline_packet *packet = nullptr;
        detail::c_error failed;
        const stripline_status code =
            stripline_subscriber_receive(subscriber_.get(), waits ? wait_slice_ns : 0, &packet, failed.place());
        switch (code) {
            case STRIPLINE_OK:
                packet_.reset(packet);
                idle_slices_ = 0;
                return next::packet;
            case STRIPLINE_EMPTY:
                if (waits) {
                    note_refused();
                }
                return next::nothing;
            case STRIPLINE_ENDED:
            case STRIPLINE_STOPPED:
                has_ended_ = true;
                return next::end;
            case STRIPLINE_INTERRUPTED:
                return next::nothing;
            case STRIPLINE_PEER_MISBEHAVED:
                d_logger->warn("{}: {}", where_, message_of(code, failed));
                break;
            default:
                fail(message_of(code, failed));
                return next::end;
        }
    }
    return next::end;
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
    if (info.gap_reason != STRIPLINE_GAP_REASON_NONE) {
        // What there is of an item before a gap belongs to what is lost.
        const std::size_t cut = made % item_bytes_;
        made -= cut;
        info.gap_samples += cut / kind_.bytes;
        lost_packets_ += info.gap_packets;
        lost_samples_ += info.gap_samples;
    }
    if (!tags_.begin_packet(info, stream, stream_json(), left_ / kind_.bytes, found_)) {
        d_logger->warn("{}: the tags of the sender do not decode, and are left out", where_);
    }
    const std::size_t samples_before = made / kind_.bytes;
    const std::size_t samples_of_item = item_bytes_ / kind_.bytes;
    for (const new_tag &tag : found_) {
        add_item_tag(0, nitems_written(0) + (samples_before + tag.sample) / samples_of_item, tag.key, tag.value, tag.source);
    }
    if (left_ == 0) {
        packet_.reset();
    }
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

void source_impl::end_stream() {
    std::uint64_t packets = 0, samples = 0;
    if (subscriber_) {
        stripline_subscriber_gap_at_end(subscriber_.get(), &packets, &samples, nullptr);
    }
    samples += partial_.size() / kind_.bytes;
    partial_.clear();
    if (packets != 0 || samples != 0) {
        lost_packets_ += packets;
        lost_samples_ += samples;
        d_logger->warn("{}: {} packets and {} samples are missing at the end", where_, packets, samples);
    }
}

void source_impl::fail(const std::string &message) {
    has_ended_ = true;
    failure_ = message;
    d_logger->error("{}: {}", where_, message);
}

void source_impl::note_refused() {
    idle_slices_ += 1;
    if (idle_slices_ % idle_slices_per_search != 0) {
        return;
    }
    const auto found = refused_by(node_);
    for (; refused_noted_ < found.size(); refused_noted_++) {
        d_logger->warn("{}: refused {}", where_, found[refused_noted_]);
    }
}

}  // namespace stripline::gr
