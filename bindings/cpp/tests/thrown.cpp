// Components, calls, messages and wakers by the forms that throw, with functions that throw.
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

using stripline::component_spec;
using stripline::harness;
using stripline::node;
using bytes = std::vector<std::uint8_t>;
using view = stripline::span<const std::uint8_t>;

template <class Error, class Call>
void throws(const char *words, Call call, int line) {
    try {
        call();
    } catch (const Error &error) {
        if (std::strstr(error.what(), words) != nullptr) {
            return;
        }
        std::fprintf(stderr, "line %d: %s\n", line, error.what());
        std::exit(1);
    }
    std::fprintf(stderr, "line %d: nothing was thrown\n", line);
    std::exit(1);
}
#define THROWS(type, words, ...) throws<stripline::type>(words, [&] { __VA_ARGS__; }, __LINE__)

// Throws in the function that the properties select.
class thrower {
public:
    static component_spec describe() {
        return component_spec("thrower", "Throws.")
            .input({"in", "f32", "samples"})
            .output({"out", "f32", "the same"})
            .output({"words", "message/word", "messages", "", "", true})
            .property(stripline::choice_property("mode", "none | create | run | strange | window", "where"))
            .property(stripline::float_property("level", 1, "a level").changeable())
            .property(stripline::integer_property("small", 300, "a number that fits no byte"))
            .test("throws", "throws");
    }
    explicit thrower(const stripline::properties &properties) : mode_(properties.get<std::string>("mode")) {
        THROWS(usage_error, "declares no property", (void)properties.get<bool>("none"));
        THROWS(usage_error, "does not fit", (void)properties.get<std::int8_t>("small"));
        if (mode_ == "create") {
            throw std::runtime_error("the constructor threw");
        }
    }
    void run(stripline::ports &ports) {
        CHECK(ports.type("in") == "f32");
        std::optional<stripline::subscriber<float>> in;
        std::optional<stripline::windowed_subscriber<float>> windows;
        if (mode_ == "window") {
            windows = ports.windowed_input<float>("in");
        } else {
            in = ports.input<float>("in");
        }
        auto out = ports.output<float>("out");
        auto words = ports.message_output("words", "message/word");
        ports.poll();
        ports.sleep(std::chrono::nanoseconds(1));
        ports.start_pace(0);
        CHECK(!ports.wait_for_pace(1));
        ports.start_pace(1e9);
        const auto first = ports.wait_for_pace(1);
        CHECK(first && ports.wait_for_pace(2) == *first + std::chrono::nanoseconds(1));
        if (windows) {
            while (auto window = ports.receive(*windows, 2)) {
                out.send(window->samples());
            }
            return;
        }
        while (auto packet = ports.receive(*in)) {
            out.send(packet->samples());
            words.send(bytes{0x01});
            if (mode_ == "run") {
                throw std::runtime_error("run threw");
            }
            if (mode_ == "strange") {
                throw 7;
            }
        }
    }
    void change(const stripline::properties &properties) {
        if (properties.get<double>("level") == 2) {
            throw std::invalid_argument("not two");
        }
    }
    stripline::test_result test(std::string_view) { throw std::logic_error("the test threw"); }

private:
    std::string mode_;
};

static void components() {
    for (const char *mode : {"none", "run", "strange", "window"}) {
        auto run = harness::of<thrower>();
        run.set("mode", mode);
        run.start();
        std::optional<stripline::publisher<float>> in = run.input<float>("in");
        auto out = run.output<float>("out");
        auto words = run.message_output("words", "message/word");
        THROWS(error, "not two", run.set("level", 2));
        run.set("level", 2.5);
        const auto test = run.test("throws");
        CHECK(!test.passed && test.text == "the test threw");
        in->send(std::array<float, 2>{1, 2});
        CHECK((*out.receive())[1] == 2);
        const bool is_strange = mode == std::string("strange");
        if (is_strange || mode == std::string("run")) {
            const char *const text = is_strange ? "something other than a std::exception" : "run threw";
            // Behind the packets, each call has the failure.
            THROWS(error, text, for (auto &each : out) { each.release(); });
            CHECK(words.receive()->size() == 1);
            THROWS(error, text, (void)words.receive_for(test_timeout));
            THROWS(error, text, (void)out.try_receive());
            THROWS(error, text, in->send(std::array<float, 1>{1}));
            THROWS(error, text, run.set("level", 3));
            THROWS(error, text, run.finish(test_timeout));
        } else {
            in.reset();
            CHECK(out.receive().ended());
            run.finish();
        }
    }
    auto run = harness::of<thrower>();
    run.set("mode", "create");
    THROWS(error, "the constructor threw", run.start());
}

class square {
public:
    using input_type = float;
    using output_type = float;
    static component_spec describe() {
        return component_spec("square", "Squares.").input({"in", "f32", ""}).output({"out", "f32", ""});
    }
    explicit square(const stripline::properties &) {}
    void handle(const stripline::packet_view<float> &packet, stripline::made<float> &made) {
        auto out = made.resize(packet.size());
        for (std::size_t index = 0; index < packet.size(); index++) {
            out[index] = packet[index] * packet[index];
        }
        if (packet[0] < 0) {
            throw std::domain_error("a negative sample");
        }
    }
};

static void handlers() {
    auto run = harness::of<square>();
    run.set_options("[default]\ndispatch = 'pool(2)'");
    run.start();
    auto in = run.input<float>("in");
    auto out = run.output<float>("out");
    in.send(std::array<float, 1>{3});
    CHECK((*out.receive())[0] == 9);
    in.send(std::array<float, 1>{-3});
    THROWS(error, "a negative sample", (void)out.receive());
    THROWS(error, "a negative sample", run.finish(test_timeout));
}

static void calls() {
    stripline::node_options options;
    options.isolated = true;
    const node of(options);
    stripline::service from("text");
    from.add({"echo"}, [](view request, stripline::responder &answer) { answer.reply(request); });
    from.add({"fail"}, [](view request, stripline::responder &answer) { answer.fail(request); });
    from.add({"throw"}, [](view, stripline::responder &) { throw std::runtime_error("the antenna is gone"); });
    from.add({"strange"}, [](view, stripline::responder &) { throw 7; });
    THROWS(usage_error, "already", from.add({"echo"}, [](view, stripline::responder &) {}));
    stripline::server serving(of, from);
    const auto waker = serving.waker();
    std::thread thread([&] { THROWS(interrupted_error, "", serving.serve()); });
    const stripline::client caller(of, "text");
    CHECK(caller.wait_for_servers(1, test_timeout));
    const bytes request{0x01};
    CHECK(caller.operation({"echo"}).call(request).bytes()[0] == 0x01);
    CHECK(caller.operation({"echo"}).start(request).wait().bytes().size() == 1);
    CHECK(caller.operation({"echo"}).start(request).wait_for(test_timeout).has_value());
    THROWS(user_error, "own error", (void)caller.operation({"fail"}).call(request));
    THROWS(call_error, "the antenna is gone", (void)caller.operation({"throw"}).call(request));
    THROWS(call_error, "other than a std::exception", (void)caller.operation({"strange"}).call(request));
    const auto mine = caller.waker();
    mine.wake();
    THROWS(interrupted_error, "", (void)caller.operation({"echo"}).call(request));
    waker.wake();
    thread.join();
    CHECK(serving.counts().calls >= 6 && !serving.serve_one(std::chrono::nanoseconds(1)));

    auto out = of.message_publisher("m");
    auto in = of.message_subscriber("m");
    CHECK(out.wait_for_receivers(1, test_timeout));
    out.send(bytes{0x01});
    CHECK(in.receive()->size() == 1);
    const auto of_in = in.waker();
    of_in.wake();
    THROWS(interrupted_error, "", (void)in.receive());
    out.waker().wake();
}

int main() {
    components();
    handlers();
    calls();
    std::puts("thrown: done");
}
