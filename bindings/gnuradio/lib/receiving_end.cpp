#include "receiving_end.hpp"

namespace stripline::gr {

void receiving_end::open(stripline_subscriber *subscriber) {
    subscriber_.reset(subscriber);
    stripline_waker *waker = nullptr;
    detail::c_error failed;
    const stripline_status code = stripline_subscriber_waker(subscriber, &waker, failed.place());
    if (code != STRIPLINE_OK) {
        subscriber_.reset();
        raise(code, failed, where_);
    }
    has_ended_ = false;
    const std::lock_guard<std::mutex> guard(watch_mutex_);
    watch_ = std::make_unique<stop_watch>(owned<stripline_waker>(waker));
}

void receiving_end::close() {
    {
        const std::lock_guard<std::mutex> guard(watch_mutex_);
        watch_.reset();
    }
    subscriber_.reset();
    has_ended_ = false;
}

void receiving_end::restart() {
    is_stopping_ = false;
    const std::lock_guard<std::mutex> guard(failure_mutex_);
    failure_.clear();
}

void receiving_end::stop() {
    is_stopping_ = true;
    const std::lock_guard<std::mutex> guard(watch_mutex_);
    if (watch_) {
        watch_->wake();
    }
}

found receiving_end::receive(std::int64_t timeout_ns, owned<stripline_packet> &packet) {
    while (subscriber_ && !has_ended_ && !is_stopping_) {
        stripline_packet *received = nullptr;
        detail::c_error failed;
        const stripline_status code = watch_->guard([&] {
            return stripline_subscriber_receive(subscriber_.get(), timeout_ns, &received, failed.place());
        });
        switch (code) {
            case STRIPLINE_OK:
                packet.reset(received);
                return found::packet;
            case STRIPLINE_EMPTY:
            case STRIPLINE_INTERRUPTED:
                return found::nothing;
            case STRIPLINE_ENDED:
            case STRIPLINE_STOPPED:
                has_ended_ = true;
                break;
            case STRIPLINE_PEER_MISBEHAVED:
                logger_->warn("{}: {}", where_, message_of(code, failed));
                break;
            default:
                fail(message_of(code, failed));
        }
    }
    return found::end;
}

void receiving_end::count_end(std::uint64_t more) {
    std::uint64_t packets = 0, samples = 0;
    if (subscriber_) {
        stripline_subscriber_gap_at_end(subscriber_.get(), &packets, &samples, nullptr);
    }
    samples += more;
    if (packets != 0 || samples != 0) {
        count_lost(packets, samples);
        logger_->warn("{}: {} packets and {} {} are missing at the end", where_, packets, samples, unit_);
    }
}

void receiving_end::count_lost(std::uint64_t packets, std::uint64_t samples) {
    lost_packets_ += packets;
    lost_samples_ += samples;
}

std::string receiving_end::failure() const {
    const std::lock_guard<std::mutex> guard(failure_mutex_);
    return failure_;
}

void receiving_end::fail(const std::string &message) {
    has_ended_ = true;
    logger_->error("{}: {}", where_, message);
    const std::lock_guard<std::mutex> guard(failure_mutex_);
    failure_ = message;
}

void receiving_end::note_refused(const std::optional<node> &at) {
    const auto refused = refused_by(at);
    for (; refused_noted_ < refused.size(); refused_noted_++) {
        logger_->warn("{}: refused {}", where_, refused[refused_noted_]);
    }
}

}  // namespace stripline::gr
