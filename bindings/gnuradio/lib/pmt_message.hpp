/// @file
/// Messages of GNU Radio as messages of Stripline: values in CBOR (RFC 8949), in the same form as
/// in Rust and Python.
#ifndef STRIPLINE_GR_PMT_MESSAGE_HPP
#define STRIPLINE_GR_PMT_MESSAGE_HPP

#include "link.hpp"

#include <pmt/pmt.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace stripline::gr {

/// A value that the other side cannot represent. The message begins with the path to the value,
/// such as `["meta"][3]: …`.
class STRIPLINE_GR_API message_problem : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The form of messages that enter a flowgraph.
struct STRIPLINE_GR_API message_form {
    /// The type of the uniform vectors for arrays of numbers. Empty: vectors of values.
    std::optional<sample_kind> vectors;
    /// Whether a map of one entry becomes a pair.
    bool pairs = false;

    /// Reads the options of a source. Throws std::invalid_argument, also for a type without PMT
    /// vectors.
    static message_form of(const std::string &where, const message_source_options &settings);
};

/// Encodes a value in CBOR. Throws message_problem for a value that a message cannot contain.
STRIPLINE_GR_API std::vector<std::uint8_t> encode_message(const pmt::pmt_t &value);

/// Decodes the value of a message. Throws message_problem for bytes that are not one value in CBOR,
/// and for a value that PMT cannot represent.
STRIPLINE_GR_API pmt::pmt_t decode_message(const std::uint8_t *bytes, std::size_t length, const message_form &form);

}  // namespace stripline::gr

#endif
