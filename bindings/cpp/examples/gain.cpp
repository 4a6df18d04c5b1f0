// A component: multiplies every sample by a factor, which can be changed while it runs. docs/cpp.md
// explains it.
//
//     [component.gain]
//     exec = "./gain"
//     properties = { factor = 2.0 }
#include <complex>
#include <stdexcept>

#include <stripline.hpp>

using sample = std::complex<float>;

class gain {
public:
    static stripline::component_spec describe() {
        return stripline::component_spec("gain", "Multiplies every sample by a factor.")
            .input<sample>("in", "samples")
            .output<sample>("out", "samples times the factor")
            .property(stripline::float_property("factor", 1, "linear gain").range(0, 1e6).changeable())
            .property(stripline::integer_property("packets", 0, "packets so far").read_only())
            .test("unity", "a one becomes the factor");
    }

    explicit gain(const stripline::properties &properties) : factor_(properties.get<float>("factor")) {}

    void run(stripline::ports &ports) {
        auto in = ports.input<sample>("in");
        auto out = ports.output<sample>("out");
        const auto packets = ports.readout("packets");
        // `change` and `test` are called in `receive`.
        while (auto packet = ports.receive(in)) {
            auto loan = out.loan(packet->size());
            for (std::size_t index = 0; index < loan.size(); index++) {
                loan[index] = factor_ * (*packet)[index];
            }
            loan.send_like(*packet);
            packets.add(1);
        }
    }

    // The range has been checked. An exception refuses the value, and the message is the reason.
    void change(const stripline::properties &properties) {
        const auto factor = properties.get<float>("factor");
        if (factor == 0) {
            throw std::invalid_argument("a factor of 0 would hide the signal");
        }
        factor_ = factor;
    }

    stripline::test_result test(std::string_view) {
        const sample one(1, 0);
        return {factor_ * one == sample(factor_, 0), "a one becomes the factor", factor_};
    }

private:
    float factor_;
};

int main(int argc, char **argv) { return stripline::component_main<gain>(argc, argv); }
