#include "stream_tags.hpp"
#include "carried_tags.hpp"

#include <algorithm>
#include <cmath>

namespace stripline::gr {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

const char *word_of(std::uint32_t reason) {
    switch (reason) {
        case STRIPLINE_GAP_REASON_OVERFLOW:
            return "overflow";
        case STRIPLINE_GAP_REASON_PEER_RESTART:
            return "peer-restart";
        case STRIPLINE_GAP_REASON_TRANSPORT:
            return "transport";
        case STRIPLINE_GAP_REASON_LATE:
            return "late";
        default:
            return "unknown";
    }
}

}  // namespace

pmt::pmt_t gap_of(const stripline_packet_info &info) {
    pmt::pmt_t value = pmt::make_dict();
    value = pmt::dict_add(value, pmt::mp("packets"), pmt::from_uint64(info.gap_packets));
    return pmt::dict_add(value, pmt::mp("reason"), pmt::mp(word_of(info.gap_reason)));
}

const tag_keys &tag_keys::get() {
    static const tag_keys keys;
    return keys;
}

pmt::pmt_t time_tag(std::int64_t time_ns) {
    const std::int64_t seconds = time_ns / second_ns;
    const double fraction = static_cast<double>(time_ns % second_ns) / static_cast<double>(second_ns);
    return pmt::make_tuple(pmt::from_uint64(static_cast<std::uint64_t>(seconds)), pmt::from_double(fraction));
}

std::optional<std::int64_t> time_of_tag(const pmt::pmt_t &value) {
    if (!pmt::is_tuple(value) || pmt::length(value) < 2) {
        return std::nullopt;
    }
    const pmt::pmt_t seconds = pmt::tuple_ref(value, 0), fraction = pmt::tuple_ref(value, 1);
    const auto part = number_of_tag(fraction);
    if ((!pmt::is_uint64(seconds) && !pmt::is_integer(seconds)) || !part || !(*part >= 0 && *part < 1)) {
        return std::nullopt;
    }
    const std::uint64_t whole = pmt::to_uint64(seconds);
    // Nanoseconds reach only to the year 2262.
    if (whole >= 9'223'372'036) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(whole) * second_ns + std::llround(*part * static_cast<double>(second_ns));
}

std::optional<double> number_of_tag(const pmt::pmt_t &value) {
    if (!pmt::is_number(value) || pmt::is_complex(value)) {
        return std::nullopt;
    }
    const double number = pmt::to_double(value);
    return std::isfinite(number) ? std::optional<double>(number) : std::nullopt;
}

bool tag_maker::begin_packet(
    const stripline_packet_info &info, const stripline_stream_view &stream, std::string_view json,
    std::size_t samples, std::vector<new_tag> &found) {
    found.clear();
    const tag_keys &keys = tag_keys::get();
    const bool has_gap = info.gap_reason != STRIPLINE_GAP_REASON_NONE;
    if (has_gap) {
        found.push_back(
            {0, keys.gap, pmt::dict_add(gap_of(info), pmt::mp("samples"), pmt::from_uint64(info.gap_samples))});
    }
    const auto rate = (stream.set & STRIPLINE_STREAM_SET_SAMPLE_RATE) != 0
                          ? std::optional<double>(stream.sample_rate_hz)
                          : std::nullopt;
    const auto frequency = (stream.set & STRIPLINE_STREAM_SET_CENTER_FREQUENCY) != 0
                               ? std::optional<double>(stream.center_frequency_hz)
                               : std::nullopt;
    const bool begins = is_first_ || has_gap;
    bool decodes = true;
    if (rate && (begins || rate != rate_)) {
        found.push_back({0, keys.rate, pmt::from_double(*rate)});
    }
    if (frequency && (begins || frequency != frequency_)) {
        found.push_back({0, keys.frequency, pmt::from_double(*frequency)});
    }
    if (json != json_) {
        json_ = json;
        auto carried = tags_of_json(json);
        decodes = carried.has_value();
        carried_ = decodes ? std::move(*carried) : std::vector<::gr::tag_t>();
    }
    make_time(time_of(info), info.sample_index, rate, begins, found);
    add_carried(info, samples, found);
    rate_ = rate;
    frequency_ = frequency;
    is_first_ = false;
    return decodes;
}

std::optional<std::int64_t> tag_maker::time_of(const stripline_packet_info &info) const {
    // For Stripline, a time of 0 means unknown, but not for GNU Radio.
    for (const ::gr::tag_t &tag : carried_) {
        if (tag.offset == info.sample_index && pmt::eq(tag.key, tag_keys::get().time)) {
            return time_of_tag(tag.value);
        }
    }
    return info.time_ns != 0 ? std::optional<std::int64_t>(info.time_ns) : std::nullopt;
}

void tag_maker::make_time(
    std::optional<std::int64_t> time_ns, std::uint64_t index, std::optional<double> rate, bool begins,
    std::vector<new_tag> &found) {
    if (!time_ns) {
        if (rate != rate_) {
            time_ns_.reset();
        }
        return;
    }
    // Up to this sample, the previous rate applies. The difference may be half a sample, due to
    // rounding.
    bool continues = false;
    if (!begins && time_ns_ && rate_ && index >= time_index_) {
        const double passed_ns = static_cast<double>(index - time_index_) / *rate_ * 1e9;
        continues = std::abs(static_cast<double>(*time_ns - *time_ns_) - passed_ns) <= 0.5e9 / *rate_;
    }
    if (!continues) {
        found.push_back({0, tag_keys::get().time, time_tag(*time_ns)});
    }
    if (!continues || rate != rate_) {
        time_ns_ = time_ns;
        time_index_ = index;
    }
}

void tag_maker::add_carried(const stripline_packet_info &info, std::size_t samples, std::vector<new_tag> &found) {
    for (const ::gr::tag_t &tag : carried_) {
        if (tag.offset < info.sample_index || tag.offset - info.sample_index >= samples) {
            continue;
        }
        const auto sample = static_cast<std::size_t>(tag.offset - info.sample_index);
        // The carried tag replaces the same tag made from the description.
        const auto same = std::find_if(found.begin(), found.end(), [&](const new_tag &made) {
            return made.sample == sample && pmt::eq(made.key, tag.key) && made.is_made;
        });
        const new_tag carried{sample, tag.key, tag.value, tag.srcid, false};
        if (same != found.end() && !pmt::eq(tag.key, tag_keys::get().gap)) {
            *same = carried;
        } else {
            found.push_back(carried);
        }
    }
}

}  // namespace stripline::gr
