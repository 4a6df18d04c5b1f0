// A detector: a message for each window with a sample above a threshold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <stripline.hpp>

// The largest sample of a window, as a message.
struct detection {
    // Number of the sample within its stream.
    std::uint64_t sample;
    float level;
};
// The schema of the message: all fields in their order.
STRIPLINE_MESSAGE(detection, "detection", sample, level)

class detector {
public:
    static stripline::component_spec describe() {
        using stripline::float_property;
        using stripline::integer_property;
        return stripline::component_spec("detector", "Detects windows with a sample above a threshold.")
            .input<float>("in", "samples")
            .output<detection>("out", "the largest sample of each such window")
            .property(float_property("threshold", 0.5, "level to exceed").changeable())
            .property(integer_property("length", 100, "samples in a window").range(1, 1 << 20).unit("samples"));
    }

    explicit detector(const stripline::properties &properties)
        : threshold_(properties.get<float>("threshold")), length_(properties.get<std::size_t>("length")) {}

    void run(stripline::ports &ports) {
        // For rows or frames of the stream: `stripline::window_unit::rows` behind the name.
        auto in = ports.windowed_input<float>("in");
        // The type of the messages is in `describe`.
        auto out = ports.message_output("out");
        // `change` is called in `receive`. Before a gap, a new stream or the end a window may be
        // shorter.
        while (auto window = ports.receive(in, length_)) {
            const float *largest = std::max_element(window->begin(), window->end());
            if (*largest > threshold_) {
                const auto place = static_cast<std::uint64_t>(largest - window->begin());
                const detection found{window->info().sample_index + place, *largest};
                // The same stream, sample index and time.
                stripline::send_message_like(out, found, *window);
            }
        }
    }

    void change(const stripline::properties &properties) { threshold_ = properties.get<float>("threshold"); }

private:
    float threshold_;
    std::size_t length_;
};
