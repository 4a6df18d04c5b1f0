#include "stop_watch.hpp"

namespace stripline::gr {

stop_watch::stop_watch(owned<stripline_waker> waker) : waker_(std::move(waker)), thread_([this] { run(); }) {
    // An interrupt before the thread waits would be lost.
    std::unique_lock<std::mutex> lock(mutex_);
    started_.wait(lock, [this] { return has_started_; });
}

stop_watch::~stop_watch() {
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        is_over_ = true;
    }
    interrupted_.notify_all();
    thread_.join();
}

void stop_watch::run() {
    std::unique_lock<std::mutex> lock(mutex_);
    has_started_ = true;
    started_.notify_one();
    // The mutex is free only during this wait, so no interrupt is lost. An interrupt without a
    // reason makes the block call again.
    while (!is_over_) {
        interrupted_.wait(lock);
        if (!is_over_) {
            wake();
        }
    }
}

stop_watch::named_condition::named_condition(stop_watch &watch) {
    if (thread == nullptr || !thread->interrupt_enabled) {
        return;
    }
    const boost::lock_guard<boost::mutex> guard(thread->data_mutex);
    is_stopped = thread->interrupt_requested;
    thread->cond_mutex = watch.mutex_.native_handle();
    thread->current_cond = watch.interrupted_.native_handle();
}

stop_watch::named_condition::~named_condition() {
    if (thread == nullptr) {
        return;
    }
    // An interrupt under way uses the condition under this mutex.
    const boost::lock_guard<boost::mutex> guard(thread->data_mutex);
    thread->cond_mutex = nullptr;
    thread->current_cond = nullptr;
}

}  // namespace stripline::gr
