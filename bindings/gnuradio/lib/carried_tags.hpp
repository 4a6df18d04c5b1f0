/// @file
/// Tags of GNU Radio in the description of a stream, so that another flowgraph gets them as they
/// were.
///
/// The keyword `gnuradio-tags` has them in base64: a PMT list, serialized, of tuples of the sample
/// index, the key, the value and the source of a tag. A description holds until the next one, so
/// a receiver takes only tags of the packet at hand.
#ifndef STRIPLINE_GR_CARRIED_TAGS_HPP
#define STRIPLINE_GR_CARRIED_TAGS_HPP

#include <gnuradio/tags.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stripline::gr {

/// The most bytes of the tags of one packet, before base64. A packet with more is cut.
constexpr std::size_t carried_bytes_max = 12 * 1024;

/// Returns a tag as an element of the list, with its sample index in place of the item's.
pmt::pmt_t carried_tag(const ::gr::tag_t &tag, std::size_t vlen);

/// Returns the bytes that a tag takes, or nothing for one that cannot be serialized.
std::optional<std::size_t> carried_bytes(const pmt::pmt_t &carried);

/// Returns the keyword of a list of tags as JSON, for the description.
std::string carried_json(const std::vector<pmt::pmt_t> &carried);

/// Returns the tags in the JSON of a description. Their offsets are sample indexes. Empty for one
/// without tags; nothing if they do not decode.
std::optional<std::vector<::gr::tag_t>> tags_of_json(std::string_view json);

}  // namespace stripline::gr

#endif
