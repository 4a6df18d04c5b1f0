/// @file
/// A watchdog, which ends calls that wait long.
#ifndef STRIPLINE_GR_WATCHDOG_HPP
#define STRIPLINE_GR_WATCHDOG_HPP

#include "link.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace stripline::gr {

/// Ends a call that waits longer than one or two slices, again and again, so that its block can
/// check whether the flowgraph is being stopped. Calls of a publisher have no timeout of their own.
///
/// A call costs two writes to a word that only this thread reads.
class watchdog {
public:
    explicit watchdog(owned<stripline_waker> waker) : waker_(std::move(waker)), thread_([this] { run(); }) {}
    watchdog(const watchdog &) = delete;
    watchdog &operator=(const watchdog &) = delete;
    ~watchdog() {
        {
            const std::lock_guard<std::mutex> guard(mutex_);
            is_over_ = true;
        }
        over_.notify_one();
        thread_.join();
    }

    /// Ends the call under way, or the next one.
    void wake() const { stripline_waker_wake(waker_.get(), nullptr); }

    /// Runs a call under the watchdog. One thread at a time.
    template <class Call>
    stripline_status guard(Call call) {
        // Relaxed: the number orders nothing; a tick that reads it late wakes one slice later.
        const std::uint64_t number = calls_.load(std::memory_order_relaxed);
        calls_.store(number + 1, std::memory_order_relaxed);
        const stripline_status code = call();
        calls_.store(number + 2, std::memory_order_relaxed);
        return code;
    }

private:
    void run() {
        std::uint64_t before = 0;
        std::unique_lock<std::mutex> lock(mutex_);
        while (!over_.wait_for(lock, watchdog_slice, [this] { return is_over_; })) {
            const std::uint64_t now = calls_.load(std::memory_order_relaxed);
            if (now % 2 == 1 && now == before) {
                wake();
            }
            before = now;
        }
    }

    owned<stripline_waker> waker_;
    std::mutex mutex_;
    std::condition_variable over_;
    bool is_over_ = false;
    // Odd while a call is under way.
    std::atomic<std::uint64_t> calls_{0};
    std::thread thread_;
};

}  // namespace stripline::gr

#endif
