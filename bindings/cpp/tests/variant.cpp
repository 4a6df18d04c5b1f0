// One file of a program with files that are compiled differently. VARIANT is the name of the
// function.
#include <array>

#include <stripline.hpp>

bool VARIANT();

bool VARIANT() {
    stripline::node_options options;
    options.isolated = true;
    auto node = stripline::node::make(options, std::nothrow);
    auto out = node->publisher<float>("x", std::nothrow);
    auto in = node->subscriber<float>("x", std::nothrow);
    const std::array<float, 2> samples{1, 2};
    float sum = 0;
    if (!out->send(samples, std::nothrow) || !out->finish(std::nothrow)) {
        return false;
    }
    const std::array<stripline::served_port, 1> ports{stripline::on(*in, [&](const auto &packet) {
        for (const float sample : packet.samples()) {
            sum += sample;
        }
    })};
    const auto served = stripline::serve(ports, std::nothrow);
    return served.has_value() && sum > 2.9F;
}
