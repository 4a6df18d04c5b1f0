#include "stream_tags.hpp"

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

pmt::pmt_t gap_tag(const stripline_packet_info &info) {
    pmt::pmt_t value = pmt::make_dict();
    value = pmt::dict_add(value, pmt::mp("packets"), pmt::from_uint64(info.gap_packets));
    value = pmt::dict_add(value, pmt::mp("samples"), pmt::from_uint64(info.gap_samples));
    return pmt::dict_add(value, pmt::mp("reason"), pmt::mp(word_of(info.gap_reason)));
}

}  // namespace

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
    // The year 2262 is the last in nanoseconds.
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

void tag_maker::begin_packet(
    const stripline_packet_info &info, const stripline_stream_view &stream, std::size_t samples,
    std::vector<new_tag> &found) {
    found.clear();
    const tag_keys &keys = tag_keys::get();
    const bool has_gap = info.gap_reason != STRIPLINE_GAP_REASON_NONE;
    if (has_gap) {
        found.push_back({0, keys.gap, gap_tag(info)});
    }
    const auto rate = (stream.set & STRIPLINE_STREAM_SET_SAMPLE_RATE) != 0
                          ? std::optional<double>(stream.sample_rate_hz)
                          : std::nullopt;
    const auto frequency = (stream.set & STRIPLINE_STREAM_SET_CENTER_FREQUENCY) != 0
                               ? std::optional<double>(stream.center_frequency_hz)
                               : std::nullopt;
    const bool begins = is_first_ || has_gap;
    if (rate && (begins || rate != rate_)) {
        found.push_back({0, keys.rate, pmt::from_double(*rate)});
    }
    if (frequency && (begins || frequency != frequency_)) {
        found.push_back({0, keys.frequency, pmt::from_double(*frequency)});
    }
    if (info.time_ns != 0) {
        // A time that continues is known: up to half a sample, which rounding takes.
        bool continues = !begins && time_ns_ != 0 && rate && rate == rate_ && *rate > 0;
        if (continues) {
            const double passed = static_cast<double>(info.sample_index - sample_index_) / *rate * 1e9;
            const double apart = static_cast<double>(info.time_ns - time_ns_) - passed;
            continues = std::abs(apart) <= 0.5e9 / *rate;
        }
        if (!continues) {
            found.push_back({0, keys.time, time_tag(info.time_ns)});
            time_ns_ = info.time_ns;
            sample_index_ = info.sample_index;
        }
    }
    rate_ = rate;
    frequency_ = frequency;
    is_first_ = false;
    (void)samples;
}

}  // namespace stripline::gr
