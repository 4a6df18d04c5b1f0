/// @file
/// The sink of messages of a flowgraph.
#ifndef STRIPLINE_GR_MESSAGE_SINK_IMPL_HPP
#define STRIPLINE_GR_MESSAGE_SINK_IMPL_HPP

#include "pmt_message.hpp"
#include "refusals.hpp"
#include "sending_end.hpp"

#include <stripline/gr/message_sink.hpp>

namespace stripline::gr {

class message_sink_impl : public message_sink {
public:
    message_sink_impl(const std::string &topic, const message_sink_options &settings);

    void abandon() override { end_.abandon(); }
    std::size_t receivers() const override { return end_.receivers(); }
    std::uint64_t messages() const override { return end_.packets(); }
    std::uint64_t refused_messages() const override { return refusals_.count(); }
    std::string last_refusal() const override { return refusals_.last(); }
    std::string failure() const override { return end_.failure(); }
    std::string type() const override { return message_type_of(with_); }
    bool is_input() const override { return false; }
    void attach(stripline_ports *ports) override;
    void detach() override;

    bool start() override;
    bool stop() override;

private:
    void open();
    bool send(const pmt::pmt_t &message);
    void send_rest();

    const std::string where_;
    const std::string topic_;
    const message_sink_options with_;
    // Empty for a port.
    std::optional<node> node_;

    // Only one thread at a time uses the end. stop() first ends the wait of the thread in send().
    std::mutex mutex_;
    sending_end end_;
    refusals refusals_;
    std::uint64_t unsent_ = 0;
};

}  // namespace stripline::gr

#endif
