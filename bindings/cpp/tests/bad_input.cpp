// Misuse is a failure with a message, or harmless. This file is compiled with and without
// exceptions, and run under AddressSanitizer.
#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

using stripline::node;
constexpr auto nt = std::nothrow;
using bytes = std::array<std::uint8_t, 1>;

static void moved_from_objects() {
    node of = isolated_node();
    auto out = TAKE(of.publisher<std::uint8_t>("x", nt));
    auto in = TAKE(of.subscriber<std::uint8_t>("x", nt));
    auto windowed = TAKE(of.windowed_subscriber<std::uint8_t>("x", nt));
    CHECK(TAKE(out.wait_for_receivers(2, test_timeout, nt)));
    TAKE(out.send(bytes{1}, nt));
    auto packet = *TAKE(in.receive(nt));
    auto window = *TAKE(windowed.receive(1, nt));
    auto loan = TAKE(out.loan(1, nt));

    auto kept_packet = std::move(packet);
    auto kept_window = std::move(window);
    auto kept_loan = std::move(loan);
    CHECK(!packet && !window && !loan && packet.samples().empty() && loan.samples().empty());
    CHECK(packet.connection().empty() && packet.size() == 0 && loan.begin() == loan.end());
    FAILS(invalid_argument, "moved", packet.info(nt));
    FAILS(invalid_argument, "moved", loan.send(nt));
    FAILS(invalid_argument, "moved", loan.truncate(1, nt));
    FAILS(invalid_argument, "moved", window.consume(1, nt));
    FAILS(invalid_argument, "moved", packet.refuse("reason", nt));
    FAILS(port, "empty", kept_loan.send_like(packet, nt));
    CHECK(!kept_loan);
    loan.cancel();
    packet.release();
    window.release();
    packet = std::move(kept_packet);
    auto &self = packet;
    packet = std::move(self);
    CHECK(packet.size() == 1);
    packet.release();
    kept_window.release();

    auto kept_out = std::move(out);
    auto kept_in = std::move(in);
    auto kept_windowed = std::move(windowed);
    CHECK(!out && !in && !windowed);
    FAILS(invalid_argument, "moved", out.loan(1, nt));
    FAILS(invalid_argument, "moved", out.try_loan(1, nt));
    FAILS(invalid_argument, "moved", out.send(bytes{1}, nt));
    FAILS(invalid_argument, "moved", out.try_send(bytes{1}, nt));
    FAILS(invalid_argument, "moved", out.receivers(nt));
    FAILS(invalid_argument, "moved", out.wait_for_receivers(1, nt));
    FAILS(invalid_argument, "moved", out.sequence(nt));
    FAILS(invalid_argument, "moved", out.samples_max(nt));
    FAILS(invalid_argument, "moved", out.set_stream(stripline::stream_description(), nt));
    FAILS(invalid_argument, "moved", out.finish(nt));
    FAILS(invalid_argument, "moved", out.abandon(nt));
    FAILS(invalid_argument, "moved", in.receive(nt));
    FAILS(invalid_argument, "moved", in.senders(nt));
    FAILS(invalid_argument, "moved", in.gap_at_end(nt));
    FAILS(invalid_argument, "moved", windowed.receive(1, nt));
    stripline::result<void> outcome;
    for (auto &each : in.packets(outcome)) {
        CHECK(each.empty() && false);
    }
    FAILS(invalid_argument, "moved", outcome);
    FAILS(invalid_argument, "moved", stripline::wait_any(test_timeout, nt, in));
    std::array<stripline::served_port, 1> ports{
        stripline::on(in, [](const stripline::packet_view<std::uint8_t> &) {})};
    FAILS(invalid_argument, "moved", stripline::serve(ports, nt));
    in = std::move(kept_in);
    TAKE(kept_out.send(bytes{2}, nt));
    CHECK((*TAKE(in.receive(nt)))[0] == 2);

    auto kept_node = std::move(of);
    CHECK(!of);
    FAILS(invalid_argument, "moved", of.publisher<float>("x", nt));
    FAILS(invalid_argument, "moved", of.subscriber<float>("x", nt));
    FAILS(invalid_argument, "moved", of.report(nt));
    FAILS(invalid_argument, "moved", of.stop(nt));
}

static void packets_outlive_what_they_came_from() {
    for (const std::uint32_t hold : {0U, 3U}) {
        std::optional<node> of(isolated_node());
        std::optional<stripline::publisher<std::uint8_t>> out(TAKE(of->publisher<std::uint8_t>("x", nt)));
        stripline::subscriber_options options;
        options.hold = hold;
        std::optional<stripline::subscriber<std::uint8_t>> in(
            TAKE(of->subscriber<std::uint8_t>("x", options, nt)));
        CHECK(TAKE(out->wait_for_receivers(1, test_timeout, nt)));
        TAKE(out->send(bytes{42}, nt));
        auto packet = *TAKE(in->receive(nt));
        in.reset();
        CHECK(packet[0] == 42);
        of.reset();
        out.reset();
        CHECK(packet[0] == 42 && TAKE(packet.info(nt)).sequence == 0 && !packet.connection().empty());
    }
    // A loan may be kept as well. The loan then sends nothing.
    std::optional<node> of(isolated_node());
    std::optional<stripline::publisher<std::uint8_t>> out(TAKE(of->publisher<std::uint8_t>("x", nt)));
    auto loan = TAKE(out->loan(3, nt));
    auto unsent = std::move(loan);
    out.reset();
    of.reset();
    unsent[2] = 1;
    FAILS(port, "", unsent.send(nt));
    FAILS(invalid_argument, "closed", unsent.send(nt));
}

static void loans() {
    const node of = isolated_node("[default]\ndepth = 2\ntransport = 'shm'");
    auto out = TAKE(of.publisher<std::uint8_t>("x", nt));
    auto in = TAKE(of.subscriber<std::uint8_t>("x", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    auto loan = TAKE(out.loan(1, nt));
    FAILS(port, "loan open", out.loan(1, nt));
    FAILS(port, "loan open", out.try_loan(1, nt));
    FAILS(port, "loan open", out.send(bytes{1}, nt));
    FAILS(port, "loan open", out.finish(nt));
    loan[0] = 9;
    TAKE(loan.send(nt));
    FAILS(invalid_argument, "closed", loan.send(nt));
    loan.cancel();
    FAILS(too_large, "", out.loan(TAKE(out.samples_max(nt)) + 1, nt));
    FAILS(too_large, "", out.try_loan(TAKE(out.samples_max(nt)) + 1, nt));
    bool is_full = false;
    for (int number = 0; number < 1000000 && !is_full; number++) {
        const auto sent = out.try_send(bytes{1}, nt);
        is_full = !sent;
        if (is_full) {
            FAILS(full, "", sent);
        }
    }
    CHECK(is_full);
    // Only one packet at a time.
    auto packet = *TAKE(in.receive(nt));
    FAILS(too_many_held, "hold", in.receive(nt));
    packet.release();
    while (TAKE(in.try_receive(nt))) {
    }
    stripline::send_options options;
    options.scope = static_cast<stripline::scope>(4);
    FAILS(invalid_argument, "scope", out.send(bytes{1}, options, nt));
    options.scope = stripline::scope::target;
    options.deadline = std::chrono::milliseconds(1);
    FAILS(unanswered, "", out.send(bytes{1}, options, nt));
    TAKE(out.finish(nt));
    FAILS(port, "ended", out.loan(1, nt));
    FAILS(port, "ended", out.send(bytes{1}, nt));
    FAILS(port, "ended", out.finish(nt));
}

static void arguments() {
    const node of = isolated_node();
    const std::string nul("a\0b", 3), no_utf8("\xff");
    FAILS(invalid_argument, "NUL", of.publisher<float>(nul, nt));
    FAILS(invalid_argument, "NUL", of.subscriber<float>(nul, nt));
    FAILS(invalid_argument, "UTF-8", of.publisher<float>(no_utf8, nt));
    FAILS(invalid_argument, "UTF-8", of.subscriber<float>(no_utf8, nt));
    stripline::subscriber_options options;
    options.hold = 5000;
    CHECK(!of.subscriber<float>("x", options, nt));
    options = stripline::subscriber_options();
    options.resequence_window = 4;
    options.resequence_skip_after = std::chrono::milliseconds(-1);
    FAILS(invalid_argument, "resequence", of.subscriber<float>("x", options, nt));
    options.resequence_skip_after = std::chrono::hours(24 * 365);
    FAILS(invalid_argument, "resequence", of.subscriber<float>("x", options, nt));
    options.resequence_skip_after = std::chrono::milliseconds(10);
    TAKE(of.subscriber<float>("x", options, nt));
    stripline::node_options wrong;
    wrong.domain = "no domain";
    FAILS(invalid_argument, "domain", node::make(wrong, nt));
    wrong.domain = nul;
    FAILS(invalid_argument, "NUL", node::make(wrong, nt));
    wrong.domain = "here";
    wrong.isolated = true;
    CHECK(!node::make(wrong, nt));
    wrong = stripline::node_options();
    wrong.topics = "[topic";
    CHECK(!node::make(wrong, nt));

    auto out = TAKE(of.publisher<float>("x", nt));
    stripline::stream_description stream;
    stream.id = nul;
    FAILS(invalid_argument, "NUL", out.set_stream(stream, nt));
    stream.id = "tone";
    stream.more = "no JSON";
    FAILS(invalid_argument, "", out.set_stream(stream, nt));
    stream.more.clear();
    stream.axes = {{0, 0, "m"}};
    FAILS(invalid_argument, "the axis in `m` has the step 0", out.set_stream(stream, nt));
    stream.axes[0] = {0, 1, nul};
    FAILS(invalid_argument, "NUL", out.set_stream(stream, nt));
    stream.axes.assign(4, stripline::axis());
    FAILS(invalid_argument, "`stream->axis_count` is 4", out.set_stream(stream, nt));
    stream.axes.resize(2);
    FAILS(invalid_argument, "it has 2 axes", out.set_stream(stream, nt));
    stream.axes.clear();
    for (const double rate : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
        stream.sample_rate_hz = rate;
        FAILS(invalid_argument, "finite and above 0", out.set_stream(stream, nt));
    }

    auto in = TAKE(of.subscriber<float>("x", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    TAKE(out.send(std::array<float, 1>{1}, nt));
    auto packet = *TAKE(in.receive(nt));
    FAILS(invalid_argument, "UTF-8", packet.refuse(no_utf8, nt));
    FAILS(invalid_argument, "NUL", packet.refuse(nul, nt));
    CHECK(packet[0] == 1.0F);
    TAKE(packet.refuse(std::string(1000, 'x'), nt));
    CHECK(!packet);
    auto nothing = TAKE(in.try_receive(nt));
    CHECK(!nothing && nothing.empty());

    // A windowed subscriber supports neither handlers nor waits.
    auto windowed = TAKE(of.windowed_subscriber<float>("x", nt));
    options = stripline::subscriber_options();
    options.hold = 2;
    auto holding = TAKE(of.subscriber<float>("x", options, nt));
    std::array<stripline::served_port, 1> ports{
        stripline::on(holding, [](const stripline::packet_view<float> &) {})};
    FAILS(port, "hold", stripline::serve(ports, nt));
    FAILS(invalid_argument, "count", stripline::serve(std::vector<stripline::served_port>(), nt));
    std::vector<stripline::subscriber<float>> none;
    FAILS(invalid_argument, "count", stripline::wait_any(test_timeout, nt, none));
}

static void handlers_and_their_own_subscriber() {
    const node of = isolated_node();
    auto out = TAKE(of.publisher<std::uint8_t>("x", nt));
    std::optional<stripline::subscriber<std::uint8_t>> in(TAKE(of.subscriber<std::uint8_t>("x", nt)));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    TAKE(out.send(bytes{1}, nt));
    TAKE(out.send(bytes{2}, nt));
    TAKE(out.finish(nt));
    int seen = 0;
    std::array<stripline::served_port, 1> ports{
        stripline::on(*in, [&](const stripline::packet_view<std::uint8_t> &packet) {
            seen += packet[0];
            if (in) {
                FAILS(in_use, "", in->receive(nt));
                FAILS(in_use, "", stripline::wait_any(test_timeout, nt, *in));
                in.reset();
            }
            CHECK(packet.size() == 1);
            // A handler may not run `serve` with its own subscriber.
            FAILS(in_use, "own", stripline::serve(ports, nt));
        })};
    CHECK(TAKE(stripline::serve(ports, nt)) == stripline::served::ended);
    CHECK(seen == 3);

    // A handler that destroys itself: it lives until the call ends.
    auto other = TAKE(of.publisher<std::uint8_t>("y", nt));
    auto from_other = TAKE(of.subscriber<std::uint8_t>("y", nt));
    CHECK(TAKE(other.wait_for_receivers(1, test_timeout, nt)));
    TAKE(other.send(bytes{1}, nt));
    TAKE(other.finish(nt));
    std::vector<stripline::served_port> gone;
    const std::string kept(100, 'x');
    gone.push_back(stripline::on(from_other, [&gone, kept](const stripline::packet_view<std::uint8_t> &) {
        gone.clear();
        CHECK(kept.size() == 100);
    }));
    CHECK(TAKE(stripline::serve(gone, nt)) == stripline::served::ended && gone.empty());
}

int main() {
    moved_from_objects();
    packets_outlive_what_they_came_from();
    loans();
    arguments();
    handlers_and_their_own_subscriber();
    std::puts("bad_input: done");
}
