/// @file
/// Tags of GNU Radio, made from the data that comes with packets.
#ifndef STRIPLINE_GR_STREAM_TAGS_HPP
#define STRIPLINE_GR_STREAM_TAGS_HPP

#include <stripline.h>

#include <gnuradio/tags.h>
#include <pmt/pmt.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stripline::gr {

/// A tag to be added at a sample of a packet.
struct new_tag {
    std::size_t sample;
    pmt::pmt_t key;
    pmt::pmt_t value;
    pmt::pmt_t source = pmt::PMT_F;
    // Whether the tag was made from the description, and not carried from another flowgraph.
    bool is_made = true;
};

/// The keys of the tags that have a meaning here.
struct tag_keys {
    pmt::pmt_t rate = pmt::mp("rx_rate");
    pmt::pmt_t frequency = pmt::mp("rx_freq");
    pmt::pmt_t time = pmt::mp("rx_time");
    pmt::pmt_t gap = pmt::mp("gap");

    static const tag_keys &get();
};

/// Returns a gap as a dictionary of packets and reason.
pmt::pmt_t gap_of(const stripline_packet_info &info);

/// Returns a time in the form of `rx_time`: whole seconds, and a fraction.
pmt::pmt_t time_tag(std::int64_t time_ns);

/// Returns the nanoseconds of an `rx_time` value, or nothing for any other value.
std::optional<std::int64_t> time_of_tag(const pmt::pmt_t &value);

/// Returns the number of an `rx_rate` or `rx_freq` value, or nothing for any other value.
std::optional<double> number_of_tag(const pmt::pmt_t &value);

/// Makes the tags of packets. The packets come in order.
class tag_maker {
public:
    /// Replaces `found` by the tags of a packet of `samples` samples. `json` is the description of
    /// the stream. Returns false if the tags in it do not decode.
    bool begin_packet(
        const stripline_packet_info &info, const stripline_stream_view &stream, std::string_view json,
        std::size_t samples, std::vector<new_tag> &found);

private:
    std::optional<std::int64_t> time_of(const stripline_packet_info &info) const;
    void add_carried(const stripline_packet_info &info, std::size_t samples, std::vector<new_tag> &found);
    void make_time(
        std::optional<std::int64_t> time_ns, std::uint64_t index, std::optional<double> rate, bool begins,
        std::vector<new_tag> &found);

    bool is_first_ = true;
    std::optional<double> rate_;
    std::optional<double> frequency_;
    // The last time that was given. Packets continue it at the rate.
    std::optional<std::int64_t> time_ns_;
    std::uint64_t time_index_ = 0;
    // The previous description, and the tags.
    std::string json_;
    std::vector<::gr::tag_t> carried_;
};

}  // namespace stripline::gr

#endif
