/// @file
/// The sink of a flowgraph.
#ifndef STRIPLINE_GR_SINK_IMPL_HPP
#define STRIPLINE_GR_SINK_IMPL_HPP

#include "link.hpp"
#include "stream_tags.hpp"
#include "watchdog.hpp"

#include <stripline/gr/sink.hpp>

#include <atomic>
#include <mutex>
#include <optional>

namespace stripline::gr {

class sink_impl : public sink {
public:
    sink_impl(const std::string &type, const std::string &topic, const sink_options &with);
    ~sink_impl() override;

    void abandon() override { abandons_ = true; }
    std::size_t receivers() const override { return receivers_; }
    std::uint64_t packets() const override { return packets_; }
    std::string failure() const override;
    std::string sample_type() const override { return kind_.name; }
    void attach(stripline_ports *ports) override;
    void detach() override;

    bool start() override;
    bool stop() override;
    int work(int items, gr_vector_const_void_star &inputs, gr_vector_void_star &) override;

private:
    void open();
    void take(stripline_publisher *publisher);
    void leave();
    bool wait_for_receivers();
    bool describe();
    bool send(const char *samples, std::size_t items, std::uint64_t first_item);
    bool is_over() const { return is_stopping_ || has_ended_ || !failure_.empty() || is_being_stopped(); }
    std::size_t take_tags(std::vector<::gr::tag_t>::const_iterator &next, std::uint64_t first, std::size_t items);
    void take_tag(const ::gr::tag_t &tag);
    void note_tag(const ::gr::tag_t &tag);
    std::optional<std::int64_t> time_of_item(std::uint64_t item) const;
    void fail(const std::string &message);

    const std::string where_;
    const std::string topic_;
    const sample_kind kind_;
    const sink_options with_;
    const std::size_t item_bytes_;
    // None for a port.
    std::optional<node> node_;

    // One thread at a time uses the publisher; stop() wakes the one in work() first.
    mutable std::mutex mutex_;
    owned<stripline_publisher> publisher_;
    std::mutex watchdog_mutex_;
    std::unique_ptr<watchdog> watchdog_;
    std::size_t packet_items_ = 0;
    bool has_receivers_ = false;
    // The component is being stopped.
    bool has_ended_ = false;
    bool is_described_ = false;
    std::optional<double> rate_;
    std::optional<double> frequency_;
    // The time of an item, which the packets that follow continue.
    std::optional<std::int64_t> time_ns_;
    std::uint64_t time_item_ = 0;
    std::string failure_;
    std::vector<::gr::tag_t> tags_;
    // Those of the packet at hand.
    std::vector<pmt::pmt_t> carried_;
    bool has_noted_tag_ = false;

    std::atomic<bool> is_stopping_{false};
    std::atomic<bool> abandons_{false};
    std::atomic<std::size_t> receivers_{0};
    std::atomic<std::uint64_t> packets_{0};
};

}  // namespace stripline::gr

#endif
