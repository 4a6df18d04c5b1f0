#include "carried_tags.hpp"

#include <array>
#include <cstdint>
#include <exception>

namespace stripline::gr {
namespace {

constexpr std::string_view keyword = "\"gnuradio-tags\":\"";
constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string encode(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        std::uint32_t group = 0;
        for (std::size_t index = 0; index < 3; index++) {
            const bool is_there = at + index < bytes.size();
            group = group << 8 | (is_there ? static_cast<unsigned char>(bytes[at + index]) : 0U);
        }
        for (std::size_t index = 0; index < 4; index++) {
            const bool is_padding = at + index > bytes.size();
            text += is_padding ? '=' : letters[group >> (18 - 6 * index) & 63];
        }
    }
    return text;
}

std::optional<std::string> decode(std::string_view text) {
    while (!text.empty() && text.back() == '=') {
        text.remove_suffix(1);
    }
    std::string bytes;
    std::uint32_t group = 0;
    unsigned bits = 0;
    for (const char letter : text) {
        const std::size_t value = letters.find(letter);
        if (value == std::string_view::npos) {
            return std::nullopt;
        }
        group = (group << 6 | static_cast<std::uint32_t>(value)) & 0xffff;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes += static_cast<char>(group >> bits & 0xff);
        }
    }
    return bytes;
}

}  // namespace

pmt::pmt_t carried_tag(const ::gr::tag_t &tag, std::size_t vlen) {
    return pmt::make_tuple(pmt::from_uint64(tag.offset * vlen), tag.key, tag.value, tag.srcid);
}

std::optional<std::size_t> carried_bytes(const pmt::pmt_t &carried) {
    try {
        return pmt::serialize_str(carried).size();
    } catch (const std::exception &) {
        return std::nullopt;
    }
}

std::string carried_json(const std::vector<pmt::pmt_t> &carried) {
    pmt::pmt_t list = pmt::PMT_NIL;
    for (auto one = carried.rbegin(); one != carried.rend(); ++one) {
        list = pmt::cons(*one, list);
    }
    return "{\"keywords\":{" + std::string(keyword) + encode(pmt::serialize_str(list)) + "\"}}";
}

std::optional<std::vector<::gr::tag_t>> tags_of_json(std::string_view json) {
    std::vector<::gr::tag_t> found;
    // A quote within a JSON text has a backslash before it, so this is the key.
    const std::size_t at = json.find(keyword);
    if (at == std::string_view::npos) {
        return found;
    }
    const std::string_view rest = json.substr(at + keyword.size());
    const std::string_view text = rest.substr(0, rest.find('"'));
    const auto bytes = decode(text);
    if (!bytes || bytes->size() > 2 * carried_bytes_max) {
        return std::nullopt;
    }
    try {
        for (pmt::pmt_t list = pmt::deserialize_str(*bytes); pmt::is_pair(list); list = pmt::cdr(list)) {
            const pmt::pmt_t one = pmt::car(list);
            if (!pmt::is_tuple(one) || pmt::length(one) != 4 || !pmt::is_symbol(pmt::tuple_ref(one, 1))) {
                return std::nullopt;
            }
            ::gr::tag_t tag;
            tag.offset = pmt::to_uint64(pmt::tuple_ref(one, 0));
            tag.key = pmt::tuple_ref(one, 1);
            tag.value = pmt::tuple_ref(one, 2);
            tag.srcid = pmt::tuple_ref(one, 3);
            found.push_back(tag);
        }
    } catch (const std::exception &) {
        return std::nullopt;
    }
    return found;
}

}  // namespace stripline::gr
