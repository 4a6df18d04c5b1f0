// Tests of the forms with exceptions: exception classes, handlers that throw, and streams that
// unwind.
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"

using stripline::node;
using bytes = std::array<std::uint8_t, 1>;
using view = stripline::packet_view<std::uint8_t>;

template <class Error, class Call>
Error thrown_by(Call call, int line) {
    try {
        call();
    } catch (const Error &error) {
        return error;
    }
    std::fprintf(stderr, "line %d: nothing was thrown\n", line);
    std::exit(1);
}
#define THROWN(type, ...) thrown_by<stripline::type>([&] { __VA_ARGS__; }, __LINE__)

static node isolated() {
    stripline::node_options options;
    options.isolated = true;
    return node(options);
}

static void classes() {
    const node of = isolated();
    auto out = of.publisher<std::uint8_t>("x");
    auto in = of.subscriber<std::uint8_t>("x");
    CHECK(out.wait_for_receivers(1, test_timeout));
    auto loan = out.loan(1);
    const auto error = THROWN(usage_error, out.loan(1));
    CHECK(error.code() == stripline::status::port && std::string(error.what()).find("loan") != std::string::npos);
    CHECK(error.os_code() == 0 && !error.remedy().empty() && error.reason().code() == error.code());
    loan[0] = 1;
    loan.send();
    THROWN(usage_error, loan.send());
    CHECK(in.receive()->size() == 1);
    stripline::send_options options;
    options.scope = stripline::scope::target;
    options.deadline = std::chrono::milliseconds(1);
    const auto late = THROWN(not_acknowledged_error, out.send(bytes{1}, options));
    CHECK(late.code() == stripline::status::unanswered && late.connection()[0] != '\0');
    CHECK(in.senders() == 1 && out.receivers() == 1 && out.sequence() == 2);
    auto packet = *in.receive();
    THROWN(too_many_held_error, (void)in.receive());
    packet.release();
    THROWN(usage_error, (void)*in.try_receive());
    THROWN(usage_error, packet.info());
    of.stop();
    THROWN(stopped_error, (void)in.receive());
    THROWN(stopped_error, for (auto &each : in) { each.release(); });
    THROWN(stopped_error, out.send(bytes{1}));
    THROWN(usage_error, node(stripline::node_options{"no domain", {}, false}));
}

static void loops() {
    const node of = isolated();
    auto out = of.publisher<std::uint8_t>("x");
    stripline::subscriber_options options;
    options.hold = 4;
    auto in = of.subscriber<std::uint8_t>("x", options);
    CHECK(out.wait_for_receivers(1, test_timeout));
    for (std::uint8_t number = 0; number < 3; number++) {
        out.send(bytes{number});
    }
    out.finish();
    std::vector<stripline::packet<std::uint8_t>> kept;
    for (auto &packet : in) {
        kept.push_back(std::move(packet));
    }
    CHECK(kept.size() == 3 && kept[2][0] == 2);
}

struct of_the_program : std::runtime_error {
    using std::runtime_error::runtime_error;
};

static void handlers_that_throw() {
    const node of = isolated();
    auto out = of.publisher<std::uint8_t>("x");
    auto in = of.subscriber<std::uint8_t>("x");
    CHECK(out.wait_for_receivers(1, test_timeout));
    for (std::uint8_t number = 0; number < 5; number++) {
        out.send(bytes{number});
    }
    out.finish();
    // The exception has the program's own class when the call that runs the handler throws it
    // again.
    int seen = 0;
    const auto handler = [&](const view &packet) {
        seen += 1;
        if (packet[0] == 1) {
            throw of_the_program("out of taps");
        }
        if (packet[0] == 2) {
            throw 7;
        }
        return packet[0] == 3 ? stripline::next::stop : stripline::next::go_on;
    };
    const auto serve = [&] { return stripline::serve(stripline::on(in, handler)); };
    bool is_thrown = false;
    try {
        serve();
    } catch (const of_the_program &error) {
        is_thrown = std::string(error.what()) == "out of taps";
    }
    CHECK(is_thrown && seen == 2);
    // Without exceptions, the failure contains it.
    std::vector<stripline::served_port> ports;
    ports.push_back(stripline::on(in, handler));
    const auto failed = stripline::serve(ports, std::nothrow);
    FAILS(handler, "other than a std::exception", failed);
    CHECK(failed.error().thrown() != nullptr && seen == 3);
    CHECK(serve() == stripline::served::stopped && serve() == stripline::served::ended && seen == 5);

    // The handler throws after it has destroyed its own subscriber.
    auto second = of.publisher<std::uint8_t>("y");
    std::optional<stripline::subscriber<std::uint8_t>> own(of.subscriber<std::uint8_t>("y"));
    CHECK(second.wait_for_receivers(1, test_timeout));
    second.send(bytes{1});
    is_thrown = false;
    try {
        stripline::serve(stripline::on(*own, [&](const view &) {
            own.reset();
            throw of_the_program("and gone");
        }));
    } catch (const of_the_program &) {
        is_thrown = true;
    }
    CHECK(is_thrown && !own);
    // In a batch, the packet of a writer that throws is not sent.
    const auto write = [](std::size_t index, stripline::span<std::uint8_t> place) {
        if (index == 2) {
            throw of_the_program("out of ink");
        }
        place[0] = 1;
    };
    auto batched = of.subscriber<std::uint8_t>("y");
    CHECK(second.wait_for_receivers(1, test_timeout));
    for (int round = 0; round < 2; round++) {
        is_thrown = false;
        try {
            if (round == 0) {
                second.send_many(5, 1, write);
            } else {
                batched.drain(5, [&](const view &) { throw of_the_program("out of taps"); });
            }
        } catch (const of_the_program &) {
            is_thrown = true;
        }
        CHECK(is_thrown);
    }
    CHECK(second.sequence() == 3 && batched.drain(5, [](const view &) {}) == 1);
    // Exceptions with two subscribers, and in a log function, which drops them.
    stripline::set_log(stripline::log_level::trace, [](auto, auto, auto) { throw 1; });
    auto mistyped = of.subscriber<float>("y");
    wait_until([&] { return !of.report().refused.empty(); });
    stripline::set_log(stripline::log_level::info, nullptr);
}

// Returns whether a stream has an end after the publisher is gone.
template <class Scope>
static bool ends_after(Scope scope) {
    const node of = isolated();
    auto in = of.subscriber<std::uint8_t>("x");
    try {
        scope(of);
    } catch (const of_the_program &) {
    }
    auto packet = in.receive();
    CHECK(packet && (*packet)[0] == 1);
    packet->release();
    return in.receive_for(std::chrono::milliseconds(20)).ended();
}

static void unwinding() {
    CHECK(ends_after([](const node &of) {
        auto out = of.publisher<std::uint8_t>("x");
        out.send(bytes{1});
    }));
    CHECK(!ends_after([](const node &of) {
        auto out = of.publisher<std::uint8_t>("x");
        out.send(bytes{1});
        throw of_the_program("half way");
    }));
    // With a loan open, which is cancelled first.
    CHECK(!ends_after([](const node &of) {
        auto out = of.publisher<std::uint8_t>("x");
        out.send(bytes{1});
        auto loan = out.loan(1);
        throw of_the_program("half way");
    }));
    // In a container, and moved.
    CHECK(!ends_after([](const node &of) {
        std::vector<stripline::publisher<std::uint8_t>> all;
        all.push_back(of.publisher<std::uint8_t>("x"));
        all[0].send(bytes{1});
        throw of_the_program("half way");
    }));
    // A publisher in a destructor that runs while another exception unwinds: its own stream is
    // complete.
    struct at_end {
        const node &of;
        ~at_end() {
            auto out = of.publisher<std::uint8_t>("x");
            out.send(bytes{1});
        }
    };
    CHECK(ends_after([](const node &of) {
        const at_end late{of};
        throw of_the_program("another one");
    }));
    // The exception is caught within, so nothing unwinds when the publisher ends.
    CHECK(ends_after([](const node &of) {
        auto out = of.publisher<std::uint8_t>("x");
        try {
            throw of_the_program("within");
        } catch (const of_the_program &) {
        }
        out.send(bytes{1});
    }));
}

int main() {
    classes();
    loops();
    handlers_that_throw();
    unwinding();
    std::puts("exceptions: done");
}
