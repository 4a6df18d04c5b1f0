// A component that multiplies every sample by a factor.
#pragma once

#include <cstddef>

#include <stripline.hpp>

class filter {
public:
    static stripline::component_spec describe() {
        return stripline::component_spec("filter", "Multiplies every sample by a factor.")
            .input<float>("in", "samples")
            .output<float>("out", "samples times the factor")
            .property(stripline::float_property("factor", 2, "linear gain").range(0, 1e6).changeable());
    }

    explicit filter(const stripline::properties &properties) : factor_(properties.get<float>("factor")) {}

    void run(stripline::ports &ports) {
        auto in = ports.input<float>("in");
        auto out = ports.output<float>("out");
        // `change` is called in `receive`.
        while (auto packet = ports.receive(in)) {
            auto loan = out.loan(packet->size());
            for (std::size_t index = 0; index < loan.size(); index++) {
                loan[index] = factor_ * (*packet)[index];
            }
            // The same stream, sample index and time.
            loan.send_like(*packet);
        }
    }

    void change(const stripline::properties &properties) { factor_ = properties.get<float>("factor"); }

private:
    float factor_;
};
