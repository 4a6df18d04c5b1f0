/// @file
/// What the blocks that send have in common.
#ifndef STRIPLINE_GR_SENDING_END_HPP
#define STRIPLINE_GR_SENDING_END_HPP

#include "stop_watch.hpp"

#include <gnuradio/logger.h>

#include <atomic>
#include <mutex>

namespace stripline::gr {

/// The sending end of a block. One thread at a time uses it, but for what is from any thread.
class sending_end {
public:
    sending_end(std::string where, bool is_port, ::gr::logger_ptr logger)
        : where_(std::move(where)), is_port_(is_port), logger_(std::move(logger)) {}
    /// Abandons the stream: without a stop, it is not complete.
    ~sending_end();

    /// Begins to send on a publisher, which it owns from now on. The first packet waits for so many
    /// receivers. Throws std::runtime_error.
    void open(owned<stripline_publisher> publisher, std::size_t receivers);
    bool is_open() const { return publisher_ != nullptr; }
    stripline_publisher *publisher() const { return publisher_.get(); }
    void close();

    /// Whether nothing can be sent any more.
    bool is_over() const { return !is_open() || has_ended_ || !failure().empty(); }

    /// Waits for the receivers of the first packet. Returns false if it is stopped or over before.
    bool wait_for_receivers();
    /// Sends samples as a packet. Returns false if it is stopped or over before.
    bool send(const void *from, std::size_t samples, std::size_t bytes, const stripline_send_options &options);

    /// Lets it send again after a stop.
    void restart();
    /// Ends its wait and all later ones, until it restarts. From any thread.
    void stop();
    /// Makes the end of the stream none. From any thread.
    void abandon() { abandons_ = true; }
    /// Ends the stream of a topic as its flowgraph has ended, and closes. The stream of a port stays
    /// open for its component.
    void finish();

    /// From any thread.
    std::size_t receivers() const { return receivers_; }
    std::uint64_t packets() const { return packets_; }
    std::string failure() const;
    void fail(const std::string &message);

private:
    bool is_stopped() const { return is_stopping_ || is_being_stopped(); }
    bool finish_stream();

    const std::string where_;
    const bool is_port_;
    const ::gr::logger_ptr logger_;
    owned<stripline_publisher> publisher_;
    // Other threads use the watch while it is there.
    std::mutex watch_mutex_;
    std::unique_ptr<stop_watch> watch_;
    std::size_t awaited_ = 0;
    // The component is being stopped.
    bool has_ended_ = false;
    mutable std::mutex failure_mutex_;
    std::string failure_;
    std::atomic<bool> is_stopping_{false};
    std::atomic<bool> abandons_{false};
    std::atomic<std::size_t> receivers_{0};
    std::atomic<std::uint64_t> packets_{0};
};

}  // namespace stripline::gr

#endif
