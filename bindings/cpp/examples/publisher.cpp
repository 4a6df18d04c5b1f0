// Publishes a tone, for `subscriber` in another terminal. docs/cpp.md explains both.
//
//     ./publisher        over the transport that the topics' rules name: `shm`
//     ./publisher tcp    over this one
#include <chrono>
#include <cmath>
#include <complex>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>

#include <stripline.hpp>

namespace {

constexpr double sample_rate_hz = 100e3;
constexpr double tone_hz = 1e3;
// The number of samples in a packet: a hundredth of a second.
constexpr std::size_t packet_samples = 1000;

}  // namespace

int main(int count, char **arguments) try {
    // Block the signals before any thread starts, because new threads inherit the mask. Only one
    // thread handles the signals.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    // Without options, the environment sets the domain and the topics.
    stripline::node_options options;
    if (count > 1) {
        options.topics = "[topic.iq]\ntransport = '" + std::string(arguments[1]) + "'";
    }
    static const stripline::node node(options);
    // Ctrl-C stops the node: calls that block in it, or start later, throw a stopped_error.
    std::thread([signals] {
        int signal = 0;
        sigwait(&signals, &signal);
        node.stop();
    }).detach();

    auto out = node.publisher<std::complex<float>>("iq");
    stripline::stream_description stream;
    stream.id = "tone";
    stream.sample_rate_hz = sample_rate_hz;
    out.set_stream(stream);
    std::cout << "publishing `iq`; Ctrl-C ends it" << std::endl;

    const double turn = 2 * 3.14159265358979 * tone_hz / sample_rate_hz;
    try {
        for (std::uint64_t sample = 0;;) {
            // The samples are written where the subscribers will read them. No subscriber need be
            // connected.
            auto loan = out.loan(packet_samples);
            for (auto &value : loan) {
                value = std::complex<float>(std::polar(1.0, turn * static_cast<double>(sample)));
                sample += 1;
            }
            loan.send();
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    } catch (const stripline::stopped_error &) {
    }
    std::cout << "published " << out.sequence() << " packets" << std::endl;
    // The end of the stream. By it, a subscriber distinguishes the end from a crash.
    out.finish();
} catch (const stripline::error &error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
}
