/// @file
/// The source of a flowgraph.
#ifndef STRIPLINE_GR_SOURCE_IMPL_HPP
#define STRIPLINE_GR_SOURCE_IMPL_HPP

#include "link.hpp"
#include "stream_tags.hpp"

#include <stripline/gr/source.hpp>

#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>

namespace stripline::gr {

class source_impl : public source {
public:
    source_impl(const std::string &type, const std::string &topic, const options &with);

    std::uint64_t lost_packets() const override { return lost_packets_; }
    std::uint64_t lost_samples() const override { return lost_samples_; }
    std::vector<std::string> refused() const override { return refused_by(node_); }
    std::string failure() const override;
    std::string sample_type() const override { return kind_.name; }
    void attach(stripline_ports *ports) override;
    void detach() override;

    bool start() override;
    bool stop() override;
    int work(int items, gr_vector_const_void_star &, gr_vector_void_star &outputs) override;

private:
    enum class next { packet, nothing, end };

    void join();
    void take(stripline_subscriber *subscriber);
    void leave();
    bool has_no_reader();
    next receive(bool waits);
    void begin_packet(std::size_t &made);
    std::string_view stream_json();
    void end_stream();
    void fail(const std::string &message);
    void note_refused();

    const std::string where_;
    const std::string topic_;
    const options with_;
    const sample_kind kind_;
    const std::size_t item_bytes_;
    // None for a port.
    std::optional<node> node_;

    // One thread at a time uses the subscriber; stop() wakes the one in work() first.
    mutable std::mutex mutex_;
    owned<stripline_subscriber> subscriber_;
    std::mutex waker_mutex_;
    owned<stripline_waker> waker_;
    owned<stripline_packet> packet_;
    const char *samples_ = nullptr;
    std::size_t left_ = 0;
    // The bytes of an item that is not complete yet.
    std::vector<char> partial_;
    bool has_ended_ = false;
    std::string failure_;
    tag_maker tags_;
    std::vector<new_tag> found_;
    std::vector<char> json_ = std::vector<char>(512);

    std::atomic<bool> is_stopping_{false};
    std::atomic<std::uint64_t> lost_packets_{0};
    std::atomic<std::uint64_t> lost_samples_{0};
    unsigned idle_slices_ = 0;
    std::size_t refused_noted_ = 0;
};

}  // namespace stripline::gr

#endif
