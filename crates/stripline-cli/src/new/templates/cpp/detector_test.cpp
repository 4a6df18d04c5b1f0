// Tests of the detector, with one component in this process. An exception fails the test.
#include "detector.hpp"

#include <cstdio>

static int failures = 0;

static void check(bool is_true, const char *what) {
    if (!is_true) {
        std::fprintf(stderr, "not true: %s\n", what);
        failures += 1;
    }
}

int main() {
    auto harness = stripline::harness::of<detector>();
    harness.set("length", 4);
    harness.start();
    auto in = harness.input<float>("in");
    auto out = harness.message_output("out");
    const auto next = [&] { return stripline::message_of<detection>(*out.receive()); };
    // The windows do not depend on the packets.
    const float first[] = {0, 0.4f, 0, 0, 0, 2};
    const float second[] = {3, 0, 0, 1};
    in.send(first);
    in.send(second);
    auto found = next();
    check(found.sample == 6 && found.level == 3, "the largest sample of a window is detected");
    harness.set("threshold", 5.0);
    const float third[] = {4, 4, 4, 6, 4, 4};
    in.send(third);
    in.finish();
    found = next();
    check(found.sample == 13 && found.level == 6, "the threshold changes while the component runs");
    check(out.receive().ended(), "nothing else is detected");
    harness.finish();
    return failures == 0 ? 0 : 1;
}
