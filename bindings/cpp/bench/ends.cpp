// An end in C++ for `stripline bench bindings`, which builds and starts it: `ends ping|pong BYTES
// DOMAIN`.
//
// The program prints `ready`. Then it reads lines `WARM COUNT`, and prints for each the nanoseconds
// of COUNT round trips, after WARM round trips that are not timed. The other end returns each
// packet over `shm`, and both ends spin. Each payload is written and read.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <stripline.hpp>

namespace {

struct ends {
    stripline::publisher<std::uint8_t> out;
    stripline::subscriber<std::uint8_t> in;
    std::vector<std::uint8_t> source;
    unsigned sum = 0;

    void send() {
        auto loan = out.loan(source.size());
        std::memcpy(loan.data(), source.data(), source.size());
        loan.send();
    }

    // Reads one byte of each cache line. The loop takes four at a time, because the compiler of the
    // end in Rust does that by itself. The sum is a local variable: a byte may alias any object, so
    // the compiler would store a member after each addition.
    void receive() {
        const auto packet = *in.receive();
        const auto samples = packet.samples();
        unsigned read = 0;
        std::size_t at = 0;
        for (; at + 256 <= samples.size(); at += 256) {
            read += samples[at] + samples[at + 64] + samples[at + 128] + samples[at + 192];
        }
        for (; at < samples.size(); at += 64) {
            read += samples[at];
        }
        sum += read;
    }

    void pass(bool is_first) {
        if (is_first) {
            send();
            receive();
        } else {
            receive();
            send();
        }
    }
};

int run(bool is_first, std::size_t bytes, const std::string &domain) {
    stripline::node_options options;
    options.domain = domain;
    options.topics = "[default]\ntransport = 'shm'\nwait = 'spin'";
    const stripline::node node(options);
    ends with{node.publisher<std::uint8_t>(is_first ? "to" : "from"),
              node.subscriber<std::uint8_t>(is_first ? "from" : "to"), std::vector<std::uint8_t>(bytes, 1)};
    with.out.wait_for_receivers(1);
    std::printf("ready\n");
    std::fflush(stdout);
    unsigned long warm = 0, timed = 0;
    while (std::scanf("%lu %lu", &warm, &timed) == 2) {
        for (; warm > 0; warm--) {
            with.pass(is_first);
        }
        const auto start = std::chrono::steady_clock::now();
        for (; timed > 0; timed--) {
            with.pass(is_first);
        }
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
        std::printf("%.0f\n", took.count());
        std::fflush(stdout);
    }
    return with.sum == 0 && bytes != 0;
}

}  // namespace

int main(int count, char **arguments) {
    const std::string role = count == 4 ? arguments[1] : "";
    if (role != "ping" && role != "pong") {
        std::fprintf(stderr, "usage: ends ping|pong BYTES DOMAIN\n");
        return 2;
    }
    try {
        return run(role == "ping", std::strtoul(arguments[2], nullptr, 10), arguments[3]);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
