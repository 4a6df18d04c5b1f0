/// @file
/// The end of a wait when GNU Radio stops the flowgraph.
#ifndef STRIPLINE_GR_STOP_WATCH_HPP
#define STRIPLINE_GR_STOP_WATCH_HPP

#include "link.hpp"

#include <boost/thread/thread.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace stripline::gr {

/// Ends the waits of one port as soon as GNU Radio stops the thread that waits.
///
/// GNU Radio interrupts the threads of its blocks. That wakes a thread at once where it waits for a
/// condition of Boost, and nowhere else. So a call here names such a condition as that of its
/// thread. A thread of its own waits for the condition, and wakes the call through Stripline.
class stop_watch {
public:
    explicit stop_watch(owned<stripline_waker> waker);
    stop_watch(const stop_watch &) = delete;
    stop_watch &operator=(const stop_watch &) = delete;
    ~stop_watch();

    /// Ends the call under way, or the next one. From any thread.
    void wake() const { stripline_waker_wake(waker_.get(), nullptr); }

    /// Runs a call that a stop of its thread ends. Returns STRIPLINE_INTERRUPTED without the call
    /// where the thread is being stopped already. One thread at a time.
    template <class Call>
    stripline_status guard(Call call) {
        const named_condition here(*this);
        return here.is_stopped ? STRIPLINE_INTERRUPTED : call();
    }

private:
    /// The condition, as that of the thread that calls.
    struct named_condition {
        explicit named_condition(stop_watch &watch);
        ~named_condition();

        // None for a thread that Boost has not made, which is never interrupted.
        boost::detail::thread_data_base *const thread = boost::detail::get_current_thread_data();
        bool is_stopped = false;
    };

    void run();

    owned<stripline_waker> waker_;
    std::mutex mutex_;
    std::condition_variable interrupted_;
    std::condition_variable started_;
    bool has_started_ = false;
    bool is_over_ = false;
    std::thread thread_;
};

}  // namespace stripline::gr

#endif
