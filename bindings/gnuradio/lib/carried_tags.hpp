/// @file
/// Tags of GNU Radio in the description of a stream, so that another flowgraph gets them unchanged.
///
/// The keyword `gnuradio-tags` contains the tags in base64: a serialized PMT list of tuples with
/// the sample index, the key, the value and the source of a tag. A description is valid until the
/// next one, so a receiver takes only the tags of the current packet.
#ifndef STRIPLINE_GR_CARRIED_TAGS_HPP
#define STRIPLINE_GR_CARRIED_TAGS_HPP

#include <gnuradio/tags.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stripline::gr {

/// The maximum size of the tags of one packet in bytes, before base64. A packet with more is cut.
constexpr std::size_t carried_bytes_max = 12 * 1024;

/// Returns a tag as an element of the list. The sample index replaces the index of the item.
pmt::pmt_t carried_tag(const ::gr::tag_t &tag, std::size_t vlen);

/// Returns the number of bytes of a tag, or nothing if it cannot be serialized.
std::optional<std::size_t> carried_bytes(const pmt::pmt_t &carried);

/// Returns the keyword of a list of tags as JSON, for the description.
std::string carried_json(const std::vector<pmt::pmt_t> &carried);

/// Returns the tags in the JSON of a description. Their offsets are sample indexes. The result is
/// empty for a description without tags, and nothing if the tags do not decode.
std::optional<std::vector<::gr::tag_t>> tags_of_json(std::string_view json);

}  // namespace stripline::gr

#endif
