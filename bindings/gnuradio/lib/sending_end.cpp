#include "sending_end.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

namespace stripline::gr {
namespace {

/// The longest wait for room for the end of the stream, if the flowgraph ends by itself.
constexpr std::chrono::seconds finish_timeout{10};

/// The longest wait for room for the end of the stream, if the flowgraph is being stopped.
constexpr std::chrono::milliseconds stop_timeout{10};

}  // namespace

sending_end::~sending_end() {
    if (publisher_) {
        stripline_publisher_abandon(publisher_.get(), nullptr);
    }
}

void sending_end::open(owned<stripline_publisher> publisher, std::size_t receivers) {
    stripline_waker *waker = nullptr;
    detail::c_error failed;
    const stripline_status code = stripline_publisher_waker(publisher.get(), &waker, failed.place());
    if (code != STRIPLINE_OK) {
        raise(code, failed, where_);
    }
    publisher_ = std::move(publisher);
    awaited_ = receivers;
    has_ended_ = false;
    const std::lock_guard<std::mutex> guard(watch_mutex_);
    watch_ = std::make_unique<stop_watch>(owned<stripline_waker>(waker));
}

void sending_end::close() {
    {
        const std::lock_guard<std::mutex> guard(watch_mutex_);
        watch_.reset();
    }
    publisher_.reset();
}

bool sending_end::wait_for_receivers() {
    while (awaited_ != 0) {
        if (is_over() || is_stopped()) {
            return false;
        }
        detail::c_error failed;
        const stripline_status code = watch_->guard([&] {
            return stripline_publisher_wait_for_receivers(
                publisher_.get(), awaited_, STRIPLINE_FOREVER, failed.place());
        });
        if (code == STRIPLINE_OK) {
            awaited_ = 0;
        } else if (code == STRIPLINE_STOPPED && is_port_) {
            has_ended_ = true;
        } else if (code != STRIPLINE_EMPTY && code != STRIPLINE_INTERRUPTED) {
            fail(message_of(code, failed));
        }
    }
    return !is_over();
}

bool sending_end::send(
    const void *from, std::size_t samples, std::size_t bytes, const stripline_send_options &options) {
    while (!is_over() && !is_stopped()) {
        void *memory = nullptr;
        stripline_loan *loan = nullptr;
        detail::c_error failed;
        const stripline_status code = watch_->guard([&] {
            const stripline_status loaned =
                stripline_publisher_loan(publisher_.get(), samples, &memory, &loan, failed.place());
            if (loaned != STRIPLINE_OK) {
                return loaned;
            }
            std::memcpy(memory, from, bytes);
            return stripline_loan_commit(loan, &options, failed.place());
        });
        switch (code) {
            case STRIPLINE_UNANSWERED:
            case STRIPLINE_RECEIVER_GONE:
            case STRIPLINE_PACKET_REFUSED:
                // The packet counts as sent: the other receivers have it.
                logger_->warn("{}: {}", where_, message_of(code, failed));
                break;
            case STRIPLINE_OK:
                break;
            case STRIPLINE_INTERRUPTED:
                if (stripline_error_is_sent(failed.get()) == 0) {
                    continue;
                }
                break;
            case STRIPLINE_STOPPED:
                if (is_port_) {
                    has_ended_ = true;
                    return false;
                }
                [[fallthrough]];
            default:
                fail(message_of(code, failed));
                return false;
        }
        packets_ += 1;
        std::size_t connected = 0;
        if (stripline_publisher_receivers(publisher_.get(), &connected, nullptr) == STRIPLINE_OK) {
            receivers_ = connected;
        }
        return true;
    }
    return false;
}

void sending_end::restart() {
    is_stopping_ = false;
    abandons_ = false;
    const std::lock_guard<std::mutex> guard(failure_mutex_);
    failure_.clear();
}

void sending_end::stop() {
    is_stopping_ = true;
    const std::lock_guard<std::mutex> guard(watch_mutex_);
    if (watch_) {
        watch_->wake();
    }
}

void sending_end::finish() {
    // The stream of a port ends with the component.
    if (!publisher_ || (is_port_ && !abandons_)) {
        return;
    }
    if (abandons_ || !failure().empty()) {
        stripline_publisher_abandon(publisher_.get(), nullptr);
    } else if (!finish_stream()) {
        logger_->warn("{}: a receiver has not taken all packets; the stream has no end", where_);
    }
    close();
}

bool sending_end::finish_stream() {
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    while (true) {
        // A stop by GNU Radio interrupts the thread. The exception of the interrupt may be
        // unwinding the stack here.
        const bool hurries = is_being_stopped() || std::uncaught_exceptions() > 0;
        const auto timeout =
            hurries ? std::chrono::nanoseconds(stop_timeout) : std::chrono::nanoseconds(finish_timeout);
        const auto left = std::max(timeout - (clock::now() - begin), std::chrono::nanoseconds(0));
        const auto finish = [&] { return stripline_publisher_finish(publisher_.get(), left.count(), nullptr); };
        // Only the long wait must end at a stop. The loop then begins the short wait.
        const stripline_status code = hurries ? finish() : watch_->guard(finish);
        if (code != STRIPLINE_INTERRUPTED) {
            return code == STRIPLINE_OK;
        }
    }
}

std::string sending_end::failure() const {
    const std::lock_guard<std::mutex> guard(failure_mutex_);
    return failure_;
}

void sending_end::fail(const std::string &message) {
    logger_->error("{}: {}", where_, message);
    const std::lock_guard<std::mutex> guard(failure_mutex_);
    failure_ = message;
}

}  // namespace stripline::gr
