/// @file
/// Ends a wait when GNU Radio stops the flowgraph.
#ifndef STRIPLINE_GR_STOP_WATCH_HPP
#define STRIPLINE_GR_STOP_WATCH_HPP

#include "link.hpp"

#include <boost/thread/thread.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace stripline::gr {

/// Ends the waits of one port as soon as GNU Radio stops the waiting thread.
///
/// GNU Radio interrupts the threads of the blocks. An interrupt wakes a thread at once only if the
/// thread waits for a Boost condition. So a call here registers such a condition for its own
/// thread. Another thread waits for the condition, and wakes the call through Stripline.
class stop_watch {
public:
    explicit stop_watch(owned<stripline_waker> waker);
    stop_watch(const stop_watch &) = delete;
    stop_watch &operator=(const stop_watch &) = delete;
    ~stop_watch();

    /// Ends the current call, or else the next call. Any thread may call this function.
    void wake() const { stripline_waker_wake(waker_.get(), nullptr); }

    /// Runs a call that a stop of the thread ends. If the thread is being stopped already, returns
    /// STRIPLINE_INTERRUPTED without the call. Only one thread at a time may use it.
    template <class Call>
    stripline_status guard(Call call) {
        const named_condition here(*this);
        return here.is_stopped ? STRIPLINE_INTERRUPTED : call();
    }

private:
    /// Registers the condition for the calling thread.
    struct named_condition {
        explicit named_condition(stop_watch &watch);
        ~named_condition();

        // Null for a thread that Boost has not made. Such a thread is never interrupted.
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
