#include "link.hpp"

#include <gnuradio/thread/thread.h>

#include <cstdio>
#include <stdexcept>
#include <utility>

namespace stripline::gr {
namespace {

/// GNU Radio's names of sample types, with Stripline's names of the same types.
constexpr std::pair<const char *, const char *> names[] = {
    {"byte", "u8"},    {"short", "s16"}, {"int", "s32"},  {"float", "f32"},
    {"complex", "cf32"}, {"sc8", "cs8"},   {"sc16", "cs16"},
};

/// The built-in types of real numbers, and their sizes in bytes.
constexpr std::pair<const char *, std::size_t> numbers[] = {
    {"s8", 1}, {"u8", 1}, {"s16", 2}, {"u16", 2}, {"s32", 4}, {"u32", 4}, {"s64", 8}, {"u64", 8}, {"f32", 4}, {"f64", 8},
};

/// The largest item of a port, in bytes.
constexpr std::size_t item_bytes_max = std::size_t{1} << 28;

/// Returns a text as a quoted TOML string.
std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (const char symbol : text) {
        const auto code = static_cast<unsigned char>(symbol);
        if (symbol == '"' || symbol == '\\') {
            result += '\\';
            result += symbol;
        } else if (code < 0x20 || code == 0x7f) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04X", code);
            result += escaped;
        } else {
            result += symbol;
        }
    }
    return result + '"';
}

/// Returns the text of a topics file with the options of one topic.
std::string topics_of(const std::string &topic, const std::string &policy) {
    if (policy.find('\n') != std::string::npos) {
        return "[topic." + quoted(topic) + "]\n" + policy;
    }
    return "topic = { " + quoted(topic) + " = { " + policy + " } }\n";
}

bool is_mistake(stripline_status code) {
    switch (code) {
        case STRIPLINE_INVALID_ARGUMENT:
        case STRIPLINE_CONFIGURATION:
        case STRIPLINE_UNSUPPORTED:
        case STRIPLINE_PORT:
        case STRIPLINE_TOO_LARGE:
            return true;
        default:
            return false;
    }
}

[[noreturn]] void raise_message(stripline_status code, const std::string &message) {
    if (is_mistake(code)) {
        throw std::invalid_argument(message);
    }
    throw std::runtime_error(message);
}

}  // namespace

sample_kind sample_kind::of(const std::string &type) {
    std::string name = type;
    for (const auto &[theirs, ours] : names) {
        if (type == theirs) {
            name = ours;
        }
    }
    const bool is_complex = !name.empty() && name[0] == 'c';
    const std::string number = is_complex ? name.substr(1) : name;
    for (const auto &[known, bytes] : numbers) {
        if (number == known) {
            return {name, is_complex ? 2 * bytes : bytes};
        }
    }
    throw std::invalid_argument(
        "stripline: `" + type + "` is not a sample type; use byte, short, int, float, complex, sc8, sc16, " +
        "or a type of Stripline: s8 to u64, f32, f64, or one of them with a c in front");
}

stripline_sample_type sample_kind::c_type() const noexcept {
    stripline_sample_type type{};
    type.size = sizeof type;
    type.name = name.c_str();
    return type;
}

std::size_t item_bytes_of(const sample_kind &kind, const options &settings) {
    if (settings.vlen == 0 || settings.vlen > item_bytes_max / kind.bytes) {
        throw std::invalid_argument(
            "stripline: `vlen` is " + std::to_string(settings.vlen) + "; a vector of " + kind.name + " has 1 to " +
            std::to_string(item_bytes_max / kind.bytes) + " samples");
    }
    return settings.vlen * kind.bytes;
}

std::string message_of(stripline_status code, const detail::c_error &error) {
    const char *message = stripline_error_message(error.get());
    return message[0] != '\0' ? std::string(message) : std::string(detail::view(stripline_status_word(code)));
}

void raise(stripline_status code, const detail::c_error &error, const std::string &where) {
    raise_message(code, where + ": " + message_of(code, error));
}

std::string block_name(const char *kind, const std::string &topic) {
    std::string shown = topic.substr(0, topic.find('\0'));
    for (char &symbol : shown) {
        // The topic may be invalid UTF-8. The library refuses such a topic later, but the message
        // must be valid UTF-8.
        if (static_cast<unsigned char>(symbol) >= 0x80) {
            symbol = '?';
        }
    }
    return std::string("stripline ") + kind + " of `" + shown + "`";
}

void check_text(const std::string &where, const char *option, const std::string &text) {
    if (text.find('\0') != std::string::npos) {
        throw std::invalid_argument(where + ": `" + option + "` has a NUL within; leave it out");
    }
}

std::optional<node> make_node(const std::string &where, const std::string &topic, const topic_options &settings) {
    check_text(where, "topic", topic);
    check_text(where, "policy", settings.policy);
    check_text(where, "domain", settings.domain);
    if (topic.empty()) {
        throw std::invalid_argument(where + ": the topic is empty; give it a name, as `iq`");
    }
    if (settings.is_port) {
        const auto is_set = [](const std::string &text) { return text.find_first_not_of(" \t\n") != std::string::npos; };
        if (is_set(settings.policy) || is_set(settings.domain)) {
            throw std::invalid_argument(
                where + ": `policy` and `domain` are for topics, and this is a port; set the options of its" +
                " connection in the waveform file");
        }
        return std::nullopt;
    }
    node_options from;
    if (!settings.domain.empty()) {
        from.domain = settings.domain;
    }
    if (settings.policy.find_first_not_of(" \t\n") != std::string::npos) {
        from.topics = topics_of(topic, settings.policy);
    }
    try {
        return node(from);
    } catch (const error &failed) {
        raise_message(static_cast<stripline_status>(failed.code()), where + ": " + failed.what());
    }
}

void check_port(const std::string &where, const topic_options &settings, bool is_joined) {
    if (!settings.is_port) {
        throw std::invalid_argument(where + ": it is a block of a topic; make it as one of a port");
    }
    if (is_joined) {
        throw std::invalid_argument(where + ": it has its port already; attach it once");
    }
}

void raise_apart(const std::string &where) {
    throw std::runtime_error(where + ": its port does not exist; a waveform runs the flowgraph by `stripline.main`");
}

bool is_being_stopped() { return boost::this_thread::interruption_requested(); }

std::vector<std::string> refused_by(const std::optional<node> &at) {
    std::vector<std::string> found;
    if (!at) {
        return found;
    }
    const auto report = at->report(std::nothrow);
    if (report.has_value()) {
        for (const auto &one : (*report).refused) {
            found.push_back(one.connection + ": " + one.reason);
        }
    }
    return found;
}

}  // namespace stripline::gr
