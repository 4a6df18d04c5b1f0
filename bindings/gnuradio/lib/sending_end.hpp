/// @file
/// The common part of the blocks that send.
#ifndef STRIPLINE_GR_SENDING_END_HPP
#define STRIPLINE_GR_SENDING_END_HPP

#include "stop_watch.hpp"

#include <gnuradio/logger.h>

#include <atomic>
#include <mutex>

namespace stripline::gr {

/// The sending end of a block. Only one thread at a time uses it, except for functions that may be
/// called from any thread.
class sending_end {
public:
    sending_end(std::string where, bool is_port, ::gr::logger_ptr logger)
        : where_(std::move(where)), is_port_(is_port), logger_(std::move(logger)) {}
    /// Abandons the stream: without a stop, it is not complete.
    ~sending_end();

    /// Begins to send on a publisher. The end owns the publisher from now on. The first packet
    /// waits for `receivers` receivers. Throws std::runtime_error.
    void open(owned<stripline_publisher> publisher, std::size_t receivers);
    bool is_open() const { return publisher_ != nullptr; }
    stripline_publisher *publisher() const { return publisher_.get(); }
    void close();

    /// Returns whether nothing can be sent any more.
    bool is_over() const { return !is_open() || has_ended_ || !failure().empty(); }

    /// Waits for the receivers of the first packet. Returns false if it is stopped or over before.
    bool wait_for_receivers();
    /// Sends samples as a packet. Returns false if it is stopped or over before.
    bool send(const void *from, std::size_t samples, std::size_t bytes, const stripline_send_options &options);

    /// Lets the end send again after a stop.
    void restart();
    /// Ends the current wait and all later waits, until `restart`. Any thread may call this
    /// function.
    void stop();
    /// Makes `finish` abandon the stream. Any thread may call this function.
    void abandon() { abandons_ = true; }
    /// Ends the stream of a topic in the same way as its flowgraph has ended, and closes. The
    /// stream of a port stays open for the component.
    void finish();

    /// Any thread may call these four functions.
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
    // Other threads use the watch while it exists.
    std::mutex watch_mutex_;
    std::unique_ptr<stop_watch> watch_;
    std::size_t awaited_ = 0;
    // Whether the component is being stopped.
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
