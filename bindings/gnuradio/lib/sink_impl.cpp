#include "sink_impl.hpp"
#include "carried_tags.hpp"

#include <gnuradio/io_signature.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace stripline::gr {
namespace {

/// Returns whether a tag has a meaning for the description of the stream.
bool is_description(const ::gr::tag_t &tag) {
    const tag_keys &keys = tag_keys::get();
    return pmt::eq(tag.key, keys.time) || pmt::eq(tag.key, keys.rate) || pmt::eq(tag.key, keys.frequency);
}

}  // namespace

sink::sptr sink::make(const std::string &type, const std::string &topic, const sink_options &settings) {
    return gnuradio::make_block_sptr<sink_impl>(type, topic, settings);
}

sink_impl::sink_impl(const std::string &type, const std::string &topic, const sink_options &settings)
    : ::gr::sync_block(
          "stripline_sink",
          ::gr::io_signature::make(1, 1, static_cast<int>(item_bytes_of(sample_kind::of(type), settings))),
          ::gr::io_signature::make(0, 0, 0)),
      where_(block_name("sink", topic)),
      topic_(topic),
      kind_(sample_kind::of(type)),
      with_(settings),
      item_bytes_(item_bytes_of(kind_, settings)),
      node_(make_node(where_, topic, settings)),
      end_(where_, settings.is_port, d_logger) {
    check_text(where_, "stream", settings.stream);
    if (settings.sample_rate_hz && !(std::isfinite(*settings.sample_rate_hz) && *settings.sample_rate_hz > 0)) {
        throw std::invalid_argument(where_ + ": `sample_rate` is not a number of samples a second; it must be above 0");
    }
    if (settings.center_frequency_hz && !std::isfinite(*settings.center_frequency_hz)) {
        throw std::invalid_argument(where_ + ": `center_freq` is not a number of Hz; leave it out where it is unknown");
    }
    if (node_) {
        open();
    }
}

void sink_impl::open() {
    const stripline_sample_type type = kind_.c_type();
    stripline_publisher *publisher = nullptr;
    detail::c_error failed;
    const stripline_status code =
        stripline_publisher_new(node_->c_handle(), topic_.c_str(), &type, &publisher, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    take(publisher);
}

void sink_impl::attach(stripline_ports *ports) {
    const std::lock_guard<std::mutex> guard(mutex_);
    check_port(where_, with_, end_.is_open());
    const stripline_sample_type type = kind_.c_type();
    stripline_publisher *publisher = nullptr;
    detail::c_error failed;
    const stripline_status code = stripline_ports_output(ports, topic_.c_str(), &type, &publisher, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    take(publisher);
}

void sink_impl::detach() {
    const std::lock_guard<std::mutex> guard(mutex_);
    end_.close();
}

void sink_impl::take(stripline_publisher *publisher) {
    owned<stripline_publisher> opened(publisher);
    detail::c_error failed;
    stripline_status code;
    std::size_t in_place = 0, most = 0;
    if ((code = stripline_publisher_samples_in_place(publisher, &in_place, failed.place())) != STRIPLINE_OK ||
        (code = stripline_publisher_samples_max(publisher, &most, failed.place())) != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    const std::size_t samples_of_item = with_.vlen;
    if (samples_of_item > most) {
        throw std::invalid_argument(
            where_ + ": a vector of " + std::to_string(samples_of_item) + " samples is larger than a packet, which has " +
            std::to_string(most) + " at most; use shorter vectors, or a larger `buffer`");
    }
    // Larger packets are copied once more, so only a single item may be larger.
    packet_items_ = std::max<std::size_t>(1, in_place / samples_of_item);
    if (with_.packet_items != 0) {
        packet_items_ = std::min(packet_items_, with_.packet_items);
    }
    is_described_ = false;
    rate_ = with_.sample_rate_hz;
    frequency_ = with_.center_frequency_hz;
    time_ns_.reset();
    end_.open(std::move(opened), with_.receivers);
    if (!describe()) {
        end_.close();
        throw std::invalid_argument(where_ + ": " + end_.failure());
    }
}

bool sink_impl::start() {
    const std::lock_guard<std::mutex> guard(mutex_);
    end_.restart();
    if (!end_.is_open()) {
        if (!node_) {
            raise_apart(where_);
        }
        open();
    }
    return true;
}

bool sink_impl::stop() {
    end_.stop();
    const std::lock_guard<std::mutex> guard(mutex_);
    end_.finish();
    return true;
}

int sink_impl::work(int items, gr_vector_const_void_star &inputs, gr_vector_void_star &) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (!end_.wait_for_receivers()) {
        return end_.is_over() ? WORK_DONE : 0;
    }
    const char *const samples = static_cast<const char *>(inputs[0]);
    const auto count = static_cast<std::size_t>(items);
    const std::uint64_t first = nitems_read(0);
    get_tags_in_range(tags_, 0, first, first + count);
    std::stable_sort(tags_.begin(), tags_.end(), ::gr::tag_t::offset_compare);
    std::size_t sent = 0;
    carried_.clear();
    auto tag = tags_.cbegin();
    while (sent < count) {
        const std::size_t part = take_tags(tag, first + sent, std::min(count - sent, packet_items_));
        if (!describe() || !send(samples + sent * item_bytes_, part, first + sent)) {
            break;
        }
        sent += part;
        carried_.clear();
    }
    if (sent == 0 && end_.is_over()) {
        return WORK_DONE;
    }
    return static_cast<int>(sent);
}

std::size_t sink_impl::take_tags(
    std::vector<::gr::tag_t>::const_iterator &next, std::uint64_t first, std::size_t items) {
    std::size_t bytes = 0;
    while (next != tags_.cend() && next->offset < first + items) {
        // The tags of one item stay together.
        const auto begin = next;
        auto end = begin;
        bool describes = false;
        std::vector<pmt::pmt_t> together;
        std::size_t size = 0;
        for (; end != tags_.cend() && end->offset == begin->offset; ++end) {
            describes |= is_description(*end);
            const pmt::pmt_t carried = carried_tag(*end, with_.vlen);
            const std::size_t one = carried_bytes(carried).value_or(carried_bytes_max + 1);
            if (size + one > carried_bytes_max) {
                note_tag(*end);
            } else {
                size += one;
                together.push_back(carried);
            }
        }
        // The rate, frequency and time of a packet apply to the first sample.
        if (begin->offset > first && (describes || bytes + size > carried_bytes_max)) {
            return static_cast<std::size_t>(begin->offset - first);
        }
        for (; next != end; ++next) {
            take_tag(*next);
        }
        bytes += size;
        carried_.insert(carried_.end(), together.begin(), together.end());
        is_described_ = false;
    }
    return items;
}

void sink_impl::note_tag(const ::gr::tag_t &tag) {
    if (!std::exchange(has_noted_tag_, true)) {
        d_logger->warn(
            "{}: tag `{}` at item {} cannot be carried: it is too large, or has no serialized form", where_,
            pmt::write_string(tag.key), tag.offset);
    }
}

void sink_impl::take_tag(const ::gr::tag_t &tag) {
    const tag_keys &keys = tag_keys::get();
    if (pmt::eq(tag.key, keys.time)) {
        if (const auto time_ns = time_of_tag(tag.value)) {
            time_ns_ = time_ns;
            time_item_ = tag.offset;
        }
        return;
    }
    const auto number = number_of_tag(tag.value);
    if (!number || !is_description(tag)) {
        return;
    }
    if (pmt::eq(tag.key, keys.frequency)) {
        frequency_ = number;
        return;
    }
    // Up to this item, the previous rate applies. Without a rate, the time is unknown from here on.
    if (number == rate_ || *number <= 0) {
        return;
    }
    if (time_ns_ && time_item_ != tag.offset) {
        time_ns_ = time_of_item(tag.offset);
        time_item_ = tag.offset;
    }
    rate_ = number;
}

std::optional<std::int64_t> sink_impl::time_of_item(std::uint64_t item) const {
    if (!time_ns_ || item == time_item_) {
        return time_ns_;
    }
    if (!rate_) {
        return std::nullopt;
    }
    const double passed = static_cast<double>((item - time_item_) * with_.vlen) / *rate_;
    return *time_ns_ + std::llround(passed * 1e9);
}

bool sink_impl::describe() {
    if (is_described_) {
        return true;
    }
    stripline_stream_description stream{};
    stream.size = sizeof stream;
    stream.id = with_.stream.empty() ? topic_.c_str() : with_.stream.c_str();
    if (rate_) {
        stream.set |= STRIPLINE_STREAM_SET_SAMPLE_RATE;
        stream.sample_rate_hz = *rate_;
    }
    if (frequency_) {
        stream.set |= STRIPLINE_STREAM_SET_CENTER_FREQUENCY;
        stream.center_frequency_hz = *frequency_;
    }
    if (with_.vlen > 1) {
        stream.set |= STRIPLINE_STREAM_SET_ROW_LENGTH;
        stream.row_length = static_cast<std::uint32_t>(with_.vlen);
    }
    std::string more;
    if (!carried_.empty()) {
        more = carried_json(carried_);
        stream.more = more.c_str();
    }
    detail::c_error failed;
    const stripline_status code = stripline_publisher_set_stream(end_.publisher(), &stream, failed.place());
    if (code != STRIPLINE_OK) {
        end_.fail(message_of(code, failed));
        return false;
    }
    is_described_ = true;
    return true;
}

bool sink_impl::send(const char *samples, std::size_t items, std::uint64_t first_item) {
    const std::size_t count = items * with_.vlen;
    stripline_send_options options{};
    options.size = sizeof options;
    options.set = STRIPLINE_SEND_SET_SAMPLE_INDEX;
    options.sample_index = first_item * with_.vlen;
    if (const auto time_ns = time_of_item(first_item)) {
        options.set |= STRIPLINE_SEND_SET_TIME;
        options.time_ns = *time_ns;
    }
    return end_.send(samples, count, count * kind_.bytes, options);
}

}  // namespace stripline::gr
