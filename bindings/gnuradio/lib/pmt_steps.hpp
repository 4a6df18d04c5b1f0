/// @file
/// The path to a value within a message, for errors.
#ifndef STRIPLINE_GR_PMT_STEPS_HPP
#define STRIPLINE_GR_PMT_STEPS_HPP

#include "pmt_message.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stripline::gr {

/// The maximum nesting of values, the same as everywhere in Stripline.
constexpr unsigned nesting_max = 128;

/// The kinds of items in CBOR.
enum class major : std::uint8_t { positive, negative, bytes, text, array, map, tag, simple };

/// A problem that passes out through the values around it. Each of them adds a step.
struct inner_problem {
    std::string text;
    // The steps, from the inside out.
    std::vector<std::string> steps;

    message_problem whole() const {
        constexpr std::size_t steps_max = 6;
        std::string words;
        for (std::size_t at = 0; at < steps.size() && at < steps_max; at++) {
            words += steps[steps.size() - 1 - at];
        }
        words += steps.size() > steps_max ? "…: " : steps.empty() ? "" : ": ";
        return message_problem(words + text);
    }
};

[[noreturn]] inline void problem(std::string text) { throw inner_problem{std::move(text), {}}; }

/// Runs a part of the work at a value, and adds the step of the value to a problem.
template <class Step, class Work>
auto within(Step step, Work work) {
    try {
        return work();
    } catch (inner_problem &found) {
        found.steps.push_back(step());
        throw;
    }
}

/// Returns the step to an element.
inline std::string step_to(std::size_t index) { return "[" + std::to_string(index) + "]"; }
/// Returns the step to an entry.
inline std::string step_to(std::string_view name) { return "[\"" + std::string(name.substr(0, 64)) + "\"]"; }

/// Returns whether bytes are UTF-8, as required for a text in CBOR.
bool is_utf8(std::string_view bytes);

/// Checks that another value may be within `depth` others.
inline void check_depth(unsigned depth) {
    if (depth >= nesting_max) {
        problem("it is nested more than " + std::to_string(nesting_max) + " deep");
    }
}

}  // namespace stripline::gr

#endif
