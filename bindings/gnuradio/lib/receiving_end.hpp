/// @file
/// The common part of the blocks that receive.
#ifndef STRIPLINE_GR_RECEIVING_END_HPP
#define STRIPLINE_GR_RECEIVING_END_HPP

#include "stop_watch.hpp"

#include <gnuradio/logger.h>

#include <atomic>
#include <mutex>
#include <optional>

namespace stripline::gr {

/// The outcome of a receive.
enum class found { packet, nothing, end };

/// The receiving end of a block. Only one thread at a time uses it, except for functions that may
/// be called from any thread.
class receiving_end {
public:
    /// Makes an end. `unit` is the unit of losses, for messages.
    receiving_end(std::string where, const char *unit, ::gr::logger_ptr logger)
        : where_(std::move(where)), unit_(unit), logger_(std::move(logger)) {}

    /// Begins to receive from a subscriber. The end owns the subscriber from now on. Throws
    /// std::runtime_error.
    void open(stripline_subscriber *subscriber);
    bool is_open() const { return subscriber_ != nullptr; }
    void close();

    /// Lets the end receive again after a stop.
    void restart();
    /// Ends the current wait and all later waits, until `restart`. Any thread may call this
    /// function.
    void stop();
    bool is_stopping() const { return is_stopping_; }

    /// Receives a packet, and waits for it up to `timeout_ns`. Returns found::nothing after that
    /// time or an interruption. After the end of the stream or a failure, always returns
    /// found::end.
    found receive(std::int64_t timeout_ns, owned<stripline_packet> &packet);
    bool has_ended() const { return has_ended_; }

    /// Counts the losses at the end of the stream, plus `more` samples.
    void count_end(std::uint64_t more);
    void count_lost(std::uint64_t packets, std::uint64_t samples);
    /// Any thread may call these four functions.
    std::uint64_t lost_packets() const { return lost_packets_; }
    std::uint64_t lost_samples() const { return lost_samples_; }
    std::string failure() const;
    void fail(const std::string &message);

    /// Logs the publishers that a node has refused since the last call.
    void note_refused(const std::optional<node> &at);

private:
    const std::string where_;
    const char *const unit_;
    const ::gr::logger_ptr logger_;
    owned<stripline_subscriber> subscriber_;
    // Other threads use the watch while it exists.
    std::mutex watch_mutex_;
    std::unique_ptr<stop_watch> watch_;
    bool has_ended_ = false;
    std::size_t refused_noted_ = 0;
    mutable std::mutex failure_mutex_;
    std::string failure_;
    std::atomic<bool> is_stopping_{false};
    std::atomic<std::uint64_t> lost_packets_{0};
    std::atomic<std::uint64_t> lost_samples_{0};
};

}  // namespace stripline::gr

#endif
