/// @file
/// The sink of a flowgraph.
#ifndef STRIPLINE_GR_SINK_IMPL_HPP
#define STRIPLINE_GR_SINK_IMPL_HPP

#include "sending_end.hpp"
#include "stream_tags.hpp"

#include <stripline/gr/sink.hpp>

#include <mutex>
#include <optional>

namespace stripline::gr {

class sink_impl : public sink {
public:
    sink_impl(const std::string &type, const std::string &topic, const sink_options &settings);

    void abandon() override { end_.abandon(); }
    std::size_t receivers() const override { return end_.receivers(); }
    std::uint64_t packets() const override { return end_.packets(); }
    std::string failure() const override { return end_.failure(); }
    std::string type() const override { return kind_.name; }
    bool is_input() const override { return false; }
    void attach(stripline_ports *ports) override;
    void detach() override;

    bool start() override;
    bool stop() override;
    int work(int items, gr_vector_const_void_star &inputs, gr_vector_void_star &) override;

private:
    void open();
    void take(stripline_publisher *publisher);
    bool describe();
    bool send(const char *samples, std::size_t items, std::uint64_t first_item);
    std::size_t take_tags(std::vector<::gr::tag_t>::const_iterator &next, std::uint64_t first, std::size_t items);
    void take_tag(const ::gr::tag_t &tag);
    void note_tag(const ::gr::tag_t &tag);
    std::optional<std::int64_t> time_of_item(std::uint64_t item) const;

    const std::string where_;
    const std::string topic_;
    const sample_kind kind_;
    const sink_options with_;
    const std::size_t item_bytes_;
    // Empty for a port.
    std::optional<node> node_;

    // Only one thread at a time uses the end. stop() first ends the wait of the thread in work().
    std::mutex mutex_;
    sending_end end_;
    std::size_t packet_items_ = 0;
    bool is_described_ = false;
    std::optional<double> rate_;
    std::optional<double> frequency_;
    // The time of an item. The packets that follow continue it.
    std::optional<std::int64_t> time_ns_;
    std::uint64_t time_item_ = 0;
    std::vector<::gr::tag_t> tags_;
    // The tags of the current packet.
    std::vector<pmt::pmt_t> carried_;
    bool has_noted_tag_ = false;
};

}  // namespace stripline::gr

#endif
