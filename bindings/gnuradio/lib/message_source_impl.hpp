/// @file
/// The source of messages of a flowgraph.
#ifndef STRIPLINE_GR_MESSAGE_SOURCE_IMPL_HPP
#define STRIPLINE_GR_MESSAGE_SOURCE_IMPL_HPP

#include "pmt_message.hpp"
#include "receiving_end.hpp"
#include "refusals.hpp"

#include <stripline/gr/message_source.hpp>

#include <atomic>
#include <thread>

namespace stripline::gr {

class message_source_impl : public message_source {
public:
    message_source_impl(const std::string &topic, const message_source_options &settings);
    ~message_source_impl() override;

    std::uint64_t messages() const override { return messages_; }
    std::uint64_t lost_messages() const override { return end_.lost_packets(); }
    std::uint64_t refused_messages() const override { return refusals_.count(); }
    std::string last_refusal() const override { return refusals_.last(); }
    std::vector<std::string> refused() const override { return refused_by(node_); }
    std::string failure() const override { return end_.failure(); }
    std::string type() const override { return message_type_of(with_); }
    bool is_input() const override { return true; }
    void attach(stripline_ports *ports) override;
    void detach() override;

    bool start() override;
    bool stop() override;

private:
    void join();
    void run();
    void receive_all();
    bool waits_for_readers();
    void pass_on(owned<stripline_packet> packet);

    const std::string where_;
    const std::string topic_;
    const message_source_options with_;
    const message_form form_;
    // Empty for a port.
    std::optional<node> node_;
    receiving_end end_;
    refusals refusals_;
    std::atomic<std::uint64_t> messages_{0};
    // Receives while the flowgraph runs. GNU Radio's thread of the block waits for the end of this
    // thread.
    std::thread thread_;
};

}  // namespace stripline::gr

#endif
