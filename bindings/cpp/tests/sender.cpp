// Sends to a receiver in another process: `sender DOMAIN TOPICS PACKETS SAMPLES`. Each sample is
// its own index in the stream. With `hold` as the fifth argument, it keeps a loan until killed.
// With `throw`, an exception unwinds after the last packet.
#include "check.hpp"

int main(int count, char **arguments) try {
    CHECK(count == 5 || count == 6);
    const stripline::node node(stripline::node_options{arguments[1], arguments[2], false});
    auto out = node.publisher<std::uint32_t>("numbers");
    stripline::stream_description stream;
    stream.id = "of C++";
    stream.sample_rate_hz = 5e5;
    out.set_stream(stream);
    CHECK(out.wait_for_receivers(1, test_timeout));
    const std::string mode = count == 6 ? arguments[5] : "";
    const auto packets = std::stoul(arguments[3]), samples = std::stoul(arguments[4]);
    std::uint32_t value = 0;
    for (unsigned long number = 0; number < packets; number++) {
        auto loan = out.loan(samples);
        for (auto &sample : loan) {
            sample = value++;
        }
        loan.send();
    }
    if (mode == "throw") {
        throw 1;
    }
    if (mode == "hold") {
        const auto loan = out.loan(samples);
        std::puts("holds a loan");
        std::fflush(stdout);
        std::getchar();
    }
    out.finish(test_timeout);
    std::printf("sent %lu\n", packets);
} catch (const stripline::error &error) {
    std::fprintf(stderr, "sender: %s\n", error.what());
    return 1;
} catch (int) {
    std::puts("abandoned");
}
