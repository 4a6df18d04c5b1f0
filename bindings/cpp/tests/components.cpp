// Components in a harness, by the forms without exceptions. This file is compiled with and without
// exceptions.
#include <memory>
#include <optional>
#include <string>

#include "check.hpp"

using stripline::component_spec;
using stripline::failure;
using stripline::harness;
using stripline::result;
using stripline::status;
using stripline::test_result;
constexpr auto nt = std::nothrow;

static int alive = 0;

class gain {
public:
    static component_spec describe() {
        return component_spec("gain", "Multiplies every sample by a factor.")
            .input({"in", "f32", "samples"})
            .output({"out", "f32", "samples times the factor"})
            .property(stripline::float_property("factor", 1, "linear gain").range(0, 10).unit("dB").changeable())
            .property(stripline::integer_property("count", 3, "a number").range(-100, 1000))
            .property(stripline::boolean_property("is_set", true, "a switch"))
            .property(stripline::choice_property("mode", "able | unable | fail | stop", "the behaviour"))
            .property(stripline::text_property("title", "a title", "a text"))
            .property(stripline::path_property("file", "a file"))
            .property(stripline::integer_property("packets", 0, "packets so far").read_only())
            .property(stripline::float_property("level", 0, "level").read_only())
            .property(stripline::boolean_property("is_busy", false, "whether it works").read_only())
            .property(stripline::text_property("state", "", "state").read_only())
            .test("unity", "a one becomes the factor")
            .test("noise", "how loud it is");
    }

    static result<std::unique_ptr<gain>> make(const stripline::properties &properties) {
        CHECK(TAKE(properties.get<int>("count", nt)) == 3);
        CHECK(TAKE(properties.get<bool>("is_set", nt)));
        CHECK(TAKE(properties.get<std::string>("title", nt)) == "a title");
        CHECK(TAKE(properties.get<std::string>("file", nt)).empty());
        CHECK(!TAKE(properties.is_changed("factor", nt)));
        FAILS(invalid_argument, "declares no property", properties.get<double>("other", nt));
        FAILS(invalid_argument, "not declared as a float", properties.get<double>("count", nt));
        FAILS(invalid_argument, "NUL", properties.get<double>(std::string("a\0", 2), nt));
        const auto mode = TAKE(properties.get<std::string>("mode", nt));
        if (mode == "unable") {
            return failure(status::failed, "it is unable to begin");
        }
        return std::make_unique<gain>(TAKE(properties.get<float>("factor", nt)), mode);
    }

    gain(float factor, std::string mode) : factor_(factor), mode_(std::move(mode)) { alive += 1; }
    gain(const gain &) = delete;
    ~gain() { alive -= 1; }

    static result<void> validate(const stripline::properties &properties) {
        if (TAKE(properties.get<double>("factor", nt)) == 9) {
            return failure(status::failed, "nine does not fit");
        }
        return {};
    }

    result<void> run(stripline::ports &ports) {
        CHECK(ports.component() == "component" && ports.is_quiet());
        CHECK(TAKE(ports.type("in", nt)) == "f32");
        FAILS(port, "f32", ports.input<double>("in", nt));
        auto in = TAKE(ports.input<float>("in", nt));
        FAILS(port, "taken before", ports.windowed_input<float>("in", nt));
        auto out = TAKE(ports.output<float>("out", nt));
        FAILS(port, "has no such port; did you mean `out`?", ports.output<float>("outt", nt));
        FAILS(port, "is described as f32, but the component opens it as message/cbor",
              ports.message_output("out", "message/cbor", nt));
        FAILS(port, "f32", ports.message_input("in", "message/cbor", nt));
        const auto packets = TAKE(ports.readout("packets", nt));
        TAKE(packets.set(std::int64_t(0), nt));
        TAKE(TAKE(ports.readout("level", nt)).set(0.5, nt));
        TAKE(TAKE(ports.readout("is_busy", nt)).set(true, nt));
        TAKE(TAKE(ports.readout("state", nt)).set("at work", nt));
        FAILS(invalid_argument, "not declared as a text", packets.set("x", nt));
        FAILS(invalid_argument, "read-only", ports.readout("factor", nt));
        if (mode_ == "stop") {
            FAILS(invalid_argument, "start_pace", ports.wait_for_pace(1, nt));
            FAILS(invalid_argument, "the rate of the pace is -1", ports.start_pace(-1, nt));
            TAKE(ports.start_pace(1e-3, nt));
            FAILS(stopped, "", ports.wait_for_pace(1, nt));
            auto stopped = ports.sleep(std::chrono::hours(24 * 365 * 1000L), nt);
            CHECK(stopped.code() == status::stopped);
            FAILS(stopped, "", ports.poll(nt));
            return stopped;
        }
        for (;;) {
            auto packet = ports.receive(in, nt);
            if (!packet) {
                return packet.error();
            }
            if (packet->ended()) {
                return {};
            }
            if (mode_ == "fail") {
                return failure(status::too_large, "it is broken");
            }
            auto loan = TAKE(out.loan((*packet)->size(), nt));
            for (std::size_t index = 0; index < loan.size(); index++) {
                loan[index] = factor_ * (**packet)[index];
            }
            TAKE(loan.send_like(**packet, nt));
            TAKE(packets.add(1, nt));
        }
    }

    result<void> change(const stripline::properties &properties) {
        const auto factor = TAKE(properties.get<float>("factor", nt));
        CHECK(TAKE(properties.is_changed("factor", nt)));
        if (factor == 7) {
            return failure(status::failed, "not seven");
        }
        factor_ = factor;
        return {};
    }

    test_result test(std::string_view name) {
        if (name == "unity") {
            return {true, "as it should be", factor_};
        }
        return {false, "it is loud", std::nullopt};
    }

private:
    float factor_;
    std::string mode_;
};

static harness start(const char *mode) {
    auto made = TAKE(harness::of<gain>(nt));
    TAKE(made.set("mode", mode, nt));
    TAKE(made.set("factor", 2.0, nt));
    TAKE(made.start(nt));
    return made;
}

static void runs() {
    auto run = start("able");
    std::optional<stripline::publisher<float>> in = TAKE(run.input<float>("in", nt));
    auto out = TAKE(run.output<float>("out", nt));
    const float samples[] = {1, 2, 3};
    TAKE(in->send(samples, nt));
    {
        const auto packet = *TAKE(out.receive(nt));
        CHECK(packet.size() == 3 && packet[2] == 6);
    }
    TAKE(run.set("factor", 3, nt));
    FAILS(invalid_properties, "not seven", run.set("factor", 7, nt));
    FAILS(invalid_properties, "nine does not fit", run.set("factor", 9, nt));
    FAILS(invalid_argument, "did you mean `factor`?", run.set("facter", 9, nt));
    FAILS(invalid_argument, "from 0 to 10", run.set("factor", 11, nt));
    FAILS(invalid_properties, "cannot be changed", run.set("is_set", false, nt));
    FAILS(invalid_argument, "NUL", run.set("factor", std::string("\0", 1), nt));
    auto test = TAKE(run.test("unity", nt));
    CHECK(test.passed && test.text == "as it should be" && test.value == 3.0);
    test = TAKE(run.test("noise", nt));
    CHECK(!test.passed && test.text == "it is loud" && !test.value);
    FAILS(invalid_argument, "no self-test", run.test("other", nt));
    CHECK(TAKE(run.get("level", nt)) == "0.5" && TAKE(run.get("is_busy", nt)) == "true");
    CHECK(TAKE(run.get("state", nt)) == "at work");
    FAILS(invalid_argument, "no read-only property", run.get("factor", nt));
    TAKE(in->send(samples, nt));
    in.reset();
    {
        const auto packet = *TAKE(out.receive(nt));
        CHECK(packet[2] == 9);
    }
    CHECK(TAKE(out.receive(nt)).ended());
    TAKE(run.finish(nt));
    CHECK(TAKE(run.get("packets", nt)) == "2" && alive == 0);
    FAILS(port, "has ended", run.finish(nt));
}

static void ends() {
    auto made = TAKE(harness::of<gain>(nt));
    TAKE(made.set("mode", "unable", nt));
    FAILS(failed, "it is unable to begin", made.start(nt));
    made = TAKE(harness::of<gain>(nt));
    TAKE(made.set("factor", 9, nt));
    FAILS(invalid_properties, "nine does not fit", made.start(nt));
    FAILS(port, "", made.input<float>("in", nt));

    auto run = start("fail");
    auto in = TAKE(run.input<float>("in", nt));
    const float one[] = {1};
    auto out = TAKE(run.output<float>("out", nt));
    TAKE(in.send(one, nt));
    FAILS(failed, "the component ended with an error: it is broken", out.receive(nt));
    FAILS(failed, "it is broken", out.try_receive(nt));
    FAILS(failed, "it is broken", in.send(one, nt));
    FAILS(failed, "it is broken", run.set("factor", 3, nt));
    FAILS(failed, "it is broken", run.test("unity", nt));
    FAILS(failed, "it is broken", run.finish(test_timeout, nt));
    CHECK(alive == 0);

    run = start("stop");
    TAKE(run.stop(nt));
    TAKE(run.finish(nt));

    auto moved = std::move(run);
    FAILS(invalid_argument, "moved from", run.start(nt));
    FAILS(invalid_argument, "moved from", run.set("factor", 1, nt));
}

class doubled {
public:
    using input_type = std::uint32_t;
    using output_type = std::uint32_t;

    static component_spec describe() {
        return component_spec("double", "Doubles.").input({"in", "u32", ""}).output({"out", "u32", ""});
    }
    explicit doubled(const stripline::properties &) {}
    result<void> handle(
        const stripline::packet_view<std::uint32_t> &packet, stripline::made<std::uint32_t> &made) const {
        const auto samples = TAKE(made.resize(packet.size(), nt));
        for (std::size_t index = 0; index < packet.size(); index++) {
            samples[index] = 2 * packet[index];
        }
        if (packet[0] == 99) {
            return failure(status::failed, "not ninety-nine");
        }
        return {};
    }
};

/// A handler of another type than it declares.
class unlike {
public:
    using input_type = float;
    using output_type = float;

    static component_spec describe() {
        return component_spec("unlike", "Is refused.").input({"in", "f32 | u32", ""}).output({"out", "f32", ""});
    }
    explicit unlike(const stripline::properties &) {}
    result<void> handle(const stripline::packet_view<float> &, stripline::made<float> &) const { return {}; }
};

static void handlers(const char *options) {
    FAILS(invalid_argument, "port `in` is declared as f32 | u32, but the class handles f32; correct `describe`",
          harness::of<unlike>(nt));
    auto run = TAKE(harness::of<doubled>(nt));
    TAKE(run.set_options(options, nt));
    TAKE(run.start(nt));
    auto in = TAKE(run.input<std::uint32_t>("in", nt));
    auto out = TAKE(run.output<std::uint32_t>("out", nt));
    for (std::uint32_t number = 0; number < 5; number++) {
        const std::uint32_t samples[] = {number, number};
        TAKE(in.send(samples, nt));
    }
    for (std::uint32_t number = 0; number < 5; number++) {
        const auto packet = *TAKE(out.receive(nt));
        CHECK(packet.size() == 2 && packet[1] == 2 * number);
    }
    const std::uint32_t last[] = {99};
    TAKE(in.send(last, nt));
    FAILS(failed, "not ninety-nine", out.receive(nt));
    FAILS(handler, "not ninety-nine", run.finish(test_timeout, nt));
}

struct nameless : doubled {
    static component_spec describe() { return component_spec("no name", "Wrong."); }
    using doubled::doubled;
};

/// Takes only frames of rows.
struct framed : doubled {
    static component_spec describe() {
        stripline::port in{"in", "u32", "frames"};
        in.shape = "frames";
        return component_spec("framed", "Doubles frames.").input(in).output({"out", "u32", "the doubles"});
    }
    using doubled::doubled;
};

/// Takes frames, and forgets the unit of the windows.
class forgetful {
public:
    static component_spec describe() {
        return component_spec("forgetful", "Is refused.").input<float>("in", "maps", "frames");
    }
    explicit forgetful(const stripline::properties &) {}
    result<void> run(stripline::ports &ports) {
        FAILS(invalid_argument, "a window of `in` counts samples, but the input takes frames",
              ports.windowed_input<float>("in", nt));
        TAKE(ports.windowed_input<float>("in", stripline::window_unit::rows, nt));
        return {};
    }
};

static void units() {
    auto run = TAKE(harness::of<forgetful>(nt));
    TAKE(run.start(nt));
    TAKE(run.finish(test_timeout, nt));
}

static void shapes(bool has_frames) {
    auto run = TAKE(harness::of<framed>(nt));
    TAKE(run.start(nt));
    auto in = TAKE(run.input<std::uint32_t>("in", nt));
    stripline::stream_description stream;
    stream.id = "maps";
    stream.row_length = 2;
    if (has_frames) {
        stream.frame_rows = 1;
    }
    TAKE(in.set_stream(stream, nt));
    const std::uint32_t row[] = {1, 2};
    TAKE(in.send(row, nt));
    if (has_frames) {
        auto out = TAKE(run.output<std::uint32_t>("out", nt));
        CHECK((*TAKE(out.receive(nt)))[1] == 4);
        TAKE(in.finish(nt));
        TAKE(run.finish(test_timeout, nt));
    } else {
        FAILS(port, "takes frames of rows, and the stream `maps` has rows of 2", run.finish(test_timeout, nt));
    }
}

int main() {
    runs();
    units();
    shapes(true);
    shapes(false);
    ends();
    handlers("[default]\ndepth = 8");
    handlers("[default]\ndispatch = 'pool(3, resequence)'");
    FAILS(invalid_argument, "not a valid component name", harness::of<nameless>(nt));
    char program[] = "program", option[] = "--what";
    char *arguments[] = {program, option, nullptr};
    CHECK(stripline::component_main<gain>(2, arguments) == 2);
    CHECK(stripline::component_main<nameless>(1, arguments) == 1);
    std::puts("components: done");
}
