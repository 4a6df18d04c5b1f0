// Receives from a sender in another process, up to the end of stream: `receiver DOMAIN TOPICS`.
// Each sample must be its own index in the stream. With `hold` as the third argument, it keeps its
// first packet until killed.
#include "check.hpp"

int main(int count, char **arguments) try {
    CHECK(count == 3 || count == 4);
    const stripline::node node(stripline::node_options{arguments[1], arguments[2], false});
    auto in = node.subscriber<std::uint32_t>("numbers");
    std::uint64_t packets = 0, samples = 0;
    for (const auto &packet : in) {
        if (count == 4) {
            std::puts("holds a packet");
            std::fflush(stdout);
            std::getchar();
        }
        const auto info = packet.info();
        CHECK(!info.gap && info.sequence == packets && info.sample_index == samples);
        CHECK(packet.stream().id == "of Rust" && packet.stream().sample_rate_hz == 2.5e5);
        for (const auto sample : packet) {
            CHECK(sample == samples);
            samples += 1;
        }
        packets += 1;
    }
    std::printf("received %llu of %llu samples\n", static_cast<unsigned long long>(packets),
                static_cast<unsigned long long>(samples));
} catch (const stripline::error &error) {
    std::fprintf(stderr, "receiver: %s\n", error.what());
    return 1;
}
