// A source of pulses.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <stripline.hpp>

class source {
public:
    static stripline::component_spec describe() {
        using stripline::float_property;
        using stripline::integer_property;
        return stripline::component_spec("source", "Sends pulses of 10 samples.")
            .output<float>("out", "1 within a pulse, 0 between")
            .property(integer_property("period", 1000, "from pulse to pulse").range(10, 1 << 30).unit("samples"))
            .property(float_property("sample_rate", 48e3, "of the stream").range(1, 1e12).unit("Hz"))
            .property(float_property("duration_s", 0, "length of the signal; 0: for ever").range(0, 1e9).unit("s"))
            .property(float_property("rate", 0, "pace; 0: as fast as the receivers take them")
                          .range(0, 1e12)
                          .unit("samples/s"))
            .property(integer_property("packet", 480, "samples in a packet").range(1, 1 << 27).unit("samples"));
    }

    explicit source(const stripline::properties &properties)
        : period_(properties.get<std::uint64_t>("period")),
          packet_(properties.get<std::uint64_t>("packet")),
          sample_rate_(properties.get<double>("sample_rate")),
          duration_s_(properties.get<double>("duration_s")),
          rate_(properties.get<double>("rate")) {}

    void run(stripline::ports &ports) {
        auto out = ports.output<float>("out");
        stripline::stream_description stream;
        stream.id = std::string(ports.component());
        stream.sample_rate_hz = sample_rate_;
        out.set_stream(stream);
        ports.start_pace(rate_);
        std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
        if (duration_s_ > 0) {
            end = static_cast<std::uint64_t>(std::min(std::round(duration_s_ * sample_rate_), 1e19));
        }
        for (std::uint64_t next = 0; next < end;) {
            auto loan = out.loan(static_cast<std::size_t>(std::min(packet_, end - next)));
            for (float &sample : loan) {
                sample = next % period_ < 10 ? 1.0f : 0.0f;
                next += 1;
            }
            // Each packet is sent when its last sample is due. The wait throws `stopped_error` when
            // the component must stop.
            stripline::send_options options;
            options.intended = ports.wait_for_pace(next);
            loan.send(options);
        }
    }

private:
    std::uint64_t period_;
    std::uint64_t packet_;
    double sample_rate_;
    double duration_s_;
    double rate_;
};
