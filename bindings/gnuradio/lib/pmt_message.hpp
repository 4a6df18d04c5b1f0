/// @file
/// Messages of GNU Radio as those of Stripline: values in CBOR (RFC 8949), in the form that Rust and
/// Python give them.
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

/// A value without a form on the other side. Its words begin with the way to it, as
/// `["meta"][3]: …`.
class STRIPLINE_GR_API message_problem : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// How messages come into a flowgraph.
struct STRIPLINE_GR_API message_form {
    /// The type of the uniform vectors that arrays of numbers become. None: vectors of values.
    std::optional<sample_kind> vectors;
    /// A map of one entry becomes a pair.
    bool pairs = false;

    /// Reads the options of a source. Throws std::invalid_argument, also for a type that PMT has no
    /// vectors of.
    static message_form of(const std::string &where, const message_source_options &with);
};

/// Returns a value in CBOR. Throws message_problem for one that a message cannot have.
STRIPLINE_GR_API std::vector<std::uint8_t> encode_message(const pmt::pmt_t &value);

/// Returns the value of a message. Throws message_problem for bytes that are not one value in CBOR,
/// and for a value that PMT does not have.
STRIPLINE_GR_API pmt::pmt_t decode_message(const std::uint8_t *bytes, std::size_t length, const message_form &form);

}  // namespace stripline::gr

#endif
