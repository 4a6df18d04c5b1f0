// Tests of the filter, with one component in this process. An exception fails the test.
#include "filter.hpp"

#include <cstdio>

static int failures = 0;

static void check(bool is_true, const char *what) {
    if (!is_true) {
        std::fprintf(stderr, "not true: %s\n", what);
        failures += 1;
    }
}

int main() {
    auto harness = stripline::harness::of<filter>();
    harness.start();
    auto out = harness.output<float>("out");
    auto in = harness.input<float>("in");
    const float samples[] = {1, 2, 3};
    in.send(samples);
    {
        auto packet = out.receive();
        check(packet->size() == 3 && (*packet)[2] == 6, "samples are multiplied");
    }
    harness.set("factor", 3.0);
    in.send(samples);
    {
        auto packet = out.receive();
        check((*packet)[2] == 9, "the factor changes while the component runs");
    }
    in.finish();
    harness.finish();
    return failures == 0 ? 0 : 1;
}
