// Tests of the source, with one component in this process. An exception fails the test.
#include "source.hpp"

#include <cstdio>
#include <vector>

int main() {
    auto harness = stripline::harness::of<source>();
    harness.set("sample_rate", 3000.0);
    harness.set("duration_s", 1.0);
    harness.set("packet", 7);
    harness.start();
    auto out = harness.output<float>("out");
    std::vector<float> samples;
    while (auto packet = out.receive()) {
        samples.insert(samples.end(), packet->begin(), packet->end());
    }
    harness.finish();
    if (samples.size() != 3000 || samples[1009] != 1 || samples[1010] != 0) {
        std::fputs("the pulses depend on the packets\n", stderr);
        return 1;
    }
    return 0;
}
