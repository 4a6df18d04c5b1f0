// Measures a packet through these headers and through the C functions, in one program: `cost
// BYTES`.
//
// Blocks of packets alternate: C, C++, C++ without exceptions, and C again for comparison. A packet
// goes from loan to release, on one thread over `inproc`. Prints the median of the blocks in
// nanoseconds, and each ratio as the median of the ratios within a round.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <stripline.hpp>

namespace {

constexpr int rounds = 201;

struct ends {
    stripline::publisher<std::uint8_t> out;
    stripline::subscriber<std::uint8_t> in;
};

void check(stripline_status status, stripline_error *error) {
    if (status != STRIPLINE_OK) {
        std::fprintf(stderr, "error: %s\n", stripline_error_message(error));
        std::exit(1);
    }
}

// Keeps the compiler from removing the reader's use of the samples.
void use(const void *memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

void pass_c(ends &with, const std::vector<std::uint8_t> &source, std::uint8_t *sink) {
    stripline_publisher *publisher = with.out.c_handle();
    stripline_subscriber *subscriber = with.in.c_handle();
    stripline_error *error = nullptr;
    stripline_loan *loan = nullptr;
    stripline_packet *packet = nullptr;
    void *memory = nullptr;
    check(stripline_publisher_loan(publisher, source.size(), &memory, &loan, &error), error);
    std::memcpy(memory, source.data(), source.size());
    check(stripline_loan_commit(loan, nullptr, &error), error);
    check(stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, &error), error);
    std::memcpy(sink, stripline_packet_samples(packet), stripline_packet_length(packet));
    use(sink);
    check(stripline_packet_release(packet, &error), error);
}

void pass_cpp(ends &with, const std::vector<std::uint8_t> &source, std::uint8_t *sink) {
    auto loan = with.out.loan(source.size());
    std::memcpy(loan.data(), source.data(), source.size());
    loan.send();
    const auto packet = *with.in.receive();
    const auto samples = packet.samples();
    std::memcpy(sink, samples.data(), samples.size());
    use(sink);
}

void pass_nothrow(ends &with, const std::vector<std::uint8_t> &source, std::uint8_t *sink) {
    auto loan = with.out.loan(source.size(), std::nothrow);
    if (!loan) {
        std::exit(1);
    }
    std::memcpy(loan->data(), source.data(), source.size());
    if (!loan->send(std::nothrow)) {
        std::exit(1);
    }
    auto packet = with.in.receive(std::nothrow);
    if (!packet || !*packet) {
        std::exit(1);
    }
    const auto samples = (**packet).samples();
    std::memcpy(sink, samples.data(), samples.size());
    use(sink);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

template <class Pass>
double block(Pass pass, long packets, ends &with, const std::vector<std::uint8_t> &source, std::uint8_t *sink) {
    const auto start = std::chrono::steady_clock::now();
    for (long number = 0; number < packets; number++) {
        pass(with, source, sink);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return took.count() / static_cast<double>(packets);
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: cost BYTES\n");
        return 2;
    }
    const std::size_t bytes = std::strtoul(arguments[1], nullptr, 10);
    stripline::node_options options;
    options.domain = "cost-" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
    options.topics = "[default]\ntransport = 'inproc'";
    const stripline::node node(options);
    ends with{node.publisher<std::uint8_t>("t"), node.subscriber<std::uint8_t>("t")};
    with.out.wait_for_receivers(1);
    const std::vector<std::uint8_t> source(bytes, 1);
    std::vector<std::uint8_t> sink(bytes);
    // A block takes about a millisecond.
    const long packets = bytes > 4096 ? 2000 : 10000;
    std::vector<double> times[4], ratios[3];
    for (int round = -5; round < rounds; round++) {
        double took[4];
        // Each of the four kinds comes first in turn.
        for (int step = 0; step < 4; step++) {
            const int which = (step + round + 8) % 4;
            took[which] = which == 1   ? block(pass_cpp, packets, with, source, sink.data())
                          : which == 2 ? block(pass_nothrow, packets, with, source, sink.data())
                                       : block(pass_c, packets, with, source, sink.data());
        }
        for (int which = 0; round >= 0 && which < 4; which++) {
            times[which].push_back(took[which]);
            if (which > 0) {
                ratios[which - 1].push_back(took[which] / took[0]);
            }
        }
    }
    std::printf("%zu B: C %.1f ns, C++ %.1f ns, without exceptions %.1f ns\n", bytes, median(times[0]),
                median(times[1]), median(times[2]));
    std::printf("C++ over C %.3f, without exceptions %.3f, null %.3f\n", median(ratios[0]), median(ratios[1]),
                median(ratios[2]));
}
