// One end of a link between two flowgraphs, which passes bursts. links.py runs it and compiles
// nothing.
//
//     stripline-gr-burst send|receive stripline|zeromq|spinning ADDRESS BURSTS SAMPLES
//
// Each burst begins with the time at which its block returned it. For each burst, the receiver
// prints the nanoseconds until a block has read the last sample. Both processes use the same clock.
#include <stripline/gr/sink.hpp>
#include <stripline/gr/source.hpp>

#include <gnuradio/io_signature.h>
#include <gnuradio/sync_block.h>
#include <gnuradio/top_block.h>
#include <gnuradio/zeromq/pull_source.h>
#include <gnuradio/zeromq/push_sink.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds pause{3};

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now().time_since_epoch()).count();
}

/// Makes a burst after each pause.
class bursts : public gr::sync_block {
public:
    bursts(std::size_t count, std::size_t samples)
        : gr::sync_block(
              "bursts", gr::io_signature::make(0, 0, 0), gr::io_signature::make(1, 1, sizeof(gr_complex))),
          left_(count),
          samples_(samples) {
        set_output_multiple(static_cast<int>(samples));
    }

    int work(int, gr_vector_const_void_star &, gr_vector_void_star &outputs) override {
        if (left_ == 0) {
            return WORK_DONE;
        }
        left_ -= 1;
        std::this_thread::sleep_for(pause);
        auto *const out = static_cast<gr_complex *>(outputs[0]);
        std::fill(out, out + samples_, gr_complex(1, -1));
        const std::int64_t stamp = now_ns();
        std::memcpy(static_cast<void *>(out), &stamp, sizeof stamp);
        return static_cast<int>(samples_);
    }

private:
    std::size_t left_;
    const std::size_t samples_;
};

/// Reads bursts, and stores their latencies.
class reader : public gr::sync_block {
public:
    reader(std::size_t count, std::size_t samples)
        : gr::sync_block("reader", gr::io_signature::make(1, 1, sizeof(gr_complex)), gr::io_signature::make(0, 0, 0)),
          left_(count),
          samples_(samples) {}

    int work(int items, gr_vector_const_void_star &inputs, gr_vector_void_star &) override {
        const auto *const in = static_cast<const gr_complex *>(inputs[0]);
        for (int index = 0; index < items; index++) {
            if (at_ == 0) {
                std::memcpy(&stamp_, &in[index], sizeof stamp_);
            } else {
                sum_ += in[index];
            }
            at_ += 1;
            if (at_ == samples_) {
                at_ = 0;
                latencies_.push_back(now_ns() - stamp_);
            }
        }
        if (latencies_.size() < left_) {
            return items;
        }
        done_.set_value();
        return WORK_DONE;
    }

    void wait() { done_.get_future().wait(); }

    bool is_whole() const {
        const auto read = static_cast<float>(left_ * (samples_ - 1));
        return latencies_.size() == left_ && sum_ == gr_complex(read, -read);
    }
    const std::vector<std::int64_t> &latencies() const { return latencies_; }

private:
    const std::size_t left_;
    const std::size_t samples_;
    std::size_t at_ = 0;
    std::int64_t stamp_ = 0;
    gr_complex sum_ = 0;
    std::vector<std::int64_t> latencies_;
    std::promise<void> done_;
};

}  // namespace

int main(int argc, char **argv) {
    if (argc != 6) {
        std::fputs("usage: stripline-gr-burst send|receive stripline|zeromq|spinning ADDRESS BURSTS SAMPLES\n", stderr);
        return 2;
    }
    const bool sends = std::string(argv[1]) == "send", is_ours = std::string(argv[2]) != "zeromq";
    const std::size_t count = std::strtoul(argv[4], nullptr, 10), samples = std::strtoul(argv[5], nullptr, 10);
    const std::string address = argv[3];
    std::string endpoint = "ipc:///tmp/" + address;
    auto graph = gr::make_top_block("burst");
    if (sends) {
        const auto from = gnuradio::make_block_sptr<bursts>(count, samples);
        if (is_ours) {
            stripline::gr::sink_options settings;
            settings.domain = address;
            settings.receivers = 1;
            graph->connect(from, 0, stripline::gr::sink::make("complex", "iq", settings), 0);
        } else {
            graph->connect(from, 0, gr::zeromq::push_sink::make(sizeof(gr_complex), 1, endpoint.data()), 0);
        }
        graph->run();
        // Packets that the peer library still has queued are lost when the process ends.
        std::getchar();
        return 0;
    }
    const auto into = gnuradio::make_block_sptr<reader>(count, samples);
    if (is_ours) {
        stripline::gr::source_options settings;
        // The time is longer than the pause.
        settings.spin_us = std::string(argv[2]) == "spinning" ? 10'000 : 0;
        settings.domain = address;
        graph->connect(stripline::gr::source::make("complex", "iq", settings), 0, into, 0);
    } else {
        graph->connect(gr::zeromq::pull_source::make(sizeof(gr_complex), 1, endpoint.data()), 0, into, 0);
    }
    graph->start();
    std::puts("ready");
    std::fflush(stdout);
    into->wait();
    // A source of gr-zeromq does not end with the block after it.
    graph->stop();
    graph->wait();
    if (!into->is_whole()) {
        std::fputs("samples are missing or wrong\n", stderr);
        return 1;
    }
    for (const std::int64_t latency : into->latencies()) {
        std::printf("%lld\n", static_cast<long long>(latency));
    }
    return 0;
}
