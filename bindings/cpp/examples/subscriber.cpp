// Receives the packets of `publisher` in another terminal, and prints the losses. docs/cpp.md
// explains both.
//
//     ./subscriber       waits for room: nothing is lost
//     ./subscriber 50    takes 50 ms over each packet, and drops packets without room
#include <chrono>
#include <complex>
#include <csignal>
#include <iomanip>
#include <iostream>
#include <string>
#include <thread>

#include <stripline.hpp>

namespace {

using sample = std::complex<float>;
// The number of packets between two lines of output.
constexpr unsigned every = 100;

// Prints the content of a packet.
void print(const stripline::packet<sample> &packet) {
    const auto info = packet.info();
    // A loss is reported with the next packet, at its place in the stream.
    if (const auto &gap = info.gap) {
        if (gap->reason == stripline::gap_reason::peer_restart && gap->packets == 0) {
            std::cout << "the publisher before this one died; its unsent packets are unknown" << std::endl;
        } else {
            std::cout << "lost " << gap->packets << " packets from " << gap->first << " on (reason "
                      << static_cast<unsigned>(gap->reason) << "): " << gap->samples << " samples" << std::endl;
        }
    }
    if (info.sequence % every == 0) {
        // The samples stay in the publisher's memory until the packet is released.
        double power = 0;
        for (const sample value : packet) {
            power += static_cast<double>(std::norm(value));
        }
        std::cout << "packet " << info.sequence << " of `" << packet.stream().id << "`: " << packet.size()
                  << " samples, power " << std::fixed << std::setprecision(3)
                  << power / static_cast<double>(packet.size()) << std::endl;
    }
}

}  // namespace

int main(int count, char **arguments) try {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    // The receiver chooses the policy for packets that arrive faster than it takes them.
    const std::chrono::milliseconds pause(count > 1 ? std::stol(arguments[1]) : 0);
    stripline::node_options options;
    if (pause.count() > 0) {
        options.topics = "[topic.iq]\noverflow = 'drop-oldest'\ndepth = 8";
    }
    static const stripline::node node(options);
    // Ctrl-C stops the node: calls that block in it, or start later, throw a stopped_error.
    std::thread([signals] {
        int signal = 0;
        sigwait(&signals, &signal);
        node.stop();
    }).detach();

    auto in = node.subscriber<sample>("iq");
    std::cout << "waiting for `iq`; Ctrl-C ends it" << std::endl;
    try {
        for (const auto &packet : in) {
            print(packet);
            std::this_thread::sleep_for(pause);
        }
        std::cout << "end of the stream" << std::endl;
    } catch (const stripline::stopped_error &) {
    }
    for (const auto &connection : node.report().connections) {
        std::cout << "took " << connection.packets << " packets, lost " << connection.lost << std::endl;
    }
} catch (const stripline::error &error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
}
