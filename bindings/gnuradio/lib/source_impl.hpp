/// @file
/// The source of a flowgraph.
#ifndef STRIPLINE_GR_SOURCE_IMPL_HPP
#define STRIPLINE_GR_SOURCE_IMPL_HPP

#include "receiving_end.hpp"
#include "stream_tags.hpp"

#include <stripline/gr/source.hpp>

#include <mutex>
#include <optional>
#include <string_view>

namespace stripline::gr {

class source_impl : public source {
public:
    source_impl(const std::string &type, const std::string &topic, const source_options &settings);

    std::uint64_t lost_packets() const override { return end_.lost_packets(); }
    std::uint64_t lost_samples() const override { return end_.lost_samples(); }
    std::vector<std::string> refused() const override { return refused_by(node_); }
    std::string failure() const override { return end_.failure(); }
    std::string type() const override { return kind_.name; }
    bool is_input() const override { return true; }
    void attach(stripline_ports *ports) override;
    void detach() override;

    bool start() override;
    bool stop() override;
    int work(int items, gr_vector_const_void_star &, gr_vector_void_star &outputs) override;

private:
    void join();
    void leave();
    bool has_no_reader();
    found receive(bool waits);
    void begin_packet(std::size_t &made);
    bool count_restart(stripline_packet_info &info, std::string_view id);
    void leave_to_sender(stripline_packet_info &info);
    std::string_view stream_json();

    const std::string where_;
    const std::string topic_;
    const source_options with_;
    const sample_kind kind_;
    const std::size_t item_bytes_;
    // Empty for a port.
    std::optional<node> node_;

    // Only one thread at a time uses the end. stop() first ends the wait of the thread in work().
    std::mutex mutex_;
    receiving_end end_;
    owned<stripline_packet> packet_;
    const char *samples_ = nullptr;
    std::size_t left_ = 0;
    // The bytes of an item that is not complete yet.
    std::vector<char> partial_;
    tag_maker tags_;
    std::vector<new_tag> new_tags_;
    std::vector<char> json_ = std::vector<char>(512);

    // The stream of the previous packet, and the sample index after that packet.
    std::optional<std::string> stream_id_;
    std::uint64_t next_index_ = 0;
    std::int64_t idle_ns_ = 0;
};

}  // namespace stripline::gr

#endif
