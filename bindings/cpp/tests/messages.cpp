// Messages as structures: the schema, the bytes, and what a decoder refuses. This file is compiled
// with and without exceptions.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "check.hpp"

using stripline::from_cbor;
using stripline::status;
using stripline::to_cbor;
constexpr auto nt = std::nothrow;

struct point {
    float x = 0;
    float y = 0;
};
STRIPLINE_MESSAGE(point, "point", x, y)

struct detection {
    std::uint64_t sample = 0;
    double level_db = 0;
};
STRIPLINE_MESSAGE(detection, "detection", sample, level_db)

struct everything {
    bool is_new = false;
    std::int8_t small = 0;
    std::int64_t large = 0;
    std::string note;
    std::optional<std::uint8_t> count;
    std::vector<point> path;
    std::array<double, 3> place{};
    std::uint16_t table[2][3] = {};
    std::vector<bool> bits;
    std::vector<std::optional<std::string>> names;
};
STRIPLINE_MESSAGE(everything, "every/thing", is_new, small, large, note, count, path, place, table, bits, names)

using bytes = std::vector<std::uint8_t>;

static void schemas() {
    CHECK(stripline::type_text<float>() == "f32");
    CHECK(stripline::type_text<std::complex<std::int16_t>>() == "cs16");
    CHECK(stripline::type_text<detection>() == "message/detection{sample:u64,level_db:f64}");
    CHECK(
        stripline::type_text<everything>() ==
        "message/every/thing{is_new:bool,small:s8,large:s64,note:text,count:u8?,path:point{x:f32,y:f32}[],"
        "place:f64[3],table:u16[3][2],bits:bool[],names:text?[]}");
}

static void values() {
    everything value;
    value.is_new = true;
    value.small = -128;
    value.large = std::numeric_limits<std::int64_t>::min();
    value.note = std::string(300, 'n');
    value.count = 200;
    value.path = {{1, -2}, {0.5F, 0}};
    value.place = {1e300, -0.0, std::numeric_limits<double>::infinity()};
    value.table[1][2] = 65535;
    value.bits = {true, false};
    value.names = {"a", std::nullopt};
    const auto found = TAKE(from_cbor<everything>(to_cbor(value), nt));
    CHECK(found.is_new && found.small == -128 && found.large == value.large && found.note == value.note);
    CHECK(found.count == value.count && found.path.size() == 2 && found.path[0].y == -2);
    CHECK(found.place == value.place && found.table[1][2] == 65535 && found.table[1][1] == 0);
    CHECK(found.bits == value.bits && found.names == value.names);
    // The same bytes as the other languages make.
    const bytes expected = {0xa2, 0x66, 's', 'a', 'm', 'p', 'l', 'e', 0x19, 0x01, 0x00, 0x68, 'l', 'e',
                            'v',  'e',  'l', '_', 'd', 'b', 0xfb, 0x3f, 0xe0, 0, 0, 0, 0, 0, 0};
    CHECK(to_cbor(detection{256, 0.5}) == expected);
}

// {"x": VALUE, "y": 1.0 as half a float}
static stripline::result<point> point_of(const bytes &value) {
    bytes all = {0xa2, 0x61, 'x'};
    all.insert(all.end(), value.begin(), value.end());
    all.insert(all.end(), {0x61, 'y', 0xf9, 0x3c, 0x00});
    return from_cbor<point>(all, nt);
}

static void other_forms_of_the_same_value() {
    CHECK(TAKE(point_of({0xfa, 0x3f, 0x80, 0, 0})).x == 1 && TAKE(point_of({0xf9, 0xc0, 0x00})).x == -2);
    CHECK(TAKE(point_of({0xf9, 0x00, 0x01})).x == std::ldexp(1.0F, -24));
    CHECK(std::isinf(TAKE(point_of({0xf9, 0x7c, 0x00})).x) && std::isnan(TAKE(point_of({0xf9, 0x7e, 0x00})).x));
    // A tag, a map and a text of open length, another order, and a field that is not there.
    const bytes open = {0xd9, 0xd9, 0xf7, 0xbf, 0x7f, 0x61, 'l', 0x67, 'e',  'v',  'e', 'l', '_', 'd', 'b',
                        0xff, 0xf9, 0x40, 0x00, 0x61, 'n',  0x9f, 0xa1, 0x01, 0xf6, 0xff, 0x66, 's', 'a',
                        'm',  'p',  'l',  'e',  0x07, 0xff};
    const auto found = TAKE(from_cbor<detection>(open, nt));
    CHECK(found.sample == 7 && found.level_db == 2);
    // An optional field that is missing has no value.
    auto without = to_cbor(everything());
    const char key[] = "count";
    const auto place = std::search(without.begin(), without.end(), key, key + 5);
    without.erase(place - 1, place + 6);
    without[0] -= 1;
    CHECK(!TAKE(from_cbor<everything>(without, nt)).count);
}

static void mistakes() {
    FAILS(decode, "`point.x`: a float must be here", point_of({0x01}));
    FAILS(decode, "`point.x`: a float must be here", point_of({0xf6}));
    FAILS(decode, "`point.x`: the bytes are not CBOR", point_of({0x1c}));
    FAILS(decode, "`point.x`: the message is cut off", from_cbor<point>(bytes{0xa2, 0x61, 'x', 0xfb, 0}, nt));
    FAILS(decode, "`point`: the message is cut off", from_cbor<point>(bytes{}, nt));
    FAILS(decode, "`point`: a structure must be here", from_cbor<point>(bytes{0x80}, nt));
    FAILS(decode, "`point.x`: the field is missing", from_cbor<point>(bytes{0xa0}, nt));
    FAILS(decode, "`point`: the name of a field", from_cbor<point>(bytes{0xa1, 0x01, 0x01}, nt));
    FAILS(
        decode, "`point.x`: this field is there twice",
        from_cbor<point>(bytes{0xa2, 0x61, 'x', 0xf9, 0, 0, 0x61, 'x', 0xf9, 0, 0}, nt));
    auto longer = to_cbor(point());
    longer.push_back(0);
    FAILS(decode, "`point`: 1 bytes follow the message", from_cbor<point>(longer, nt));
    // A length that no message has, and more levels than a program's stack has room for.
    FAILS(decode, "cut off", from_cbor<point>(bytes{0xbb, 255, 255, 255, 255, 255, 255, 255, 255}, nt));
    bytes deep = {0xa1, 0x61, 'z'};
    deep.insert(deep.end(), 100000, 0x81);
    FAILS(decode, "nested too deep", from_cbor<point>(deep, nt));

    // Each value of a message is replaced by null, or is cut off.
    everything value;
    value.path = {{}, {}};
    value.bits = {true};
    const auto all = to_cbor(value);
    for (std::size_t size = 0; size < all.size(); size++) {
        CHECK(!from_cbor<everything>(bytes(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size)), nt));
    }
    const auto with = [&](const char *field, const bytes &in_place) {
        bytes made = {0xa1, static_cast<std::uint8_t>(0x60 + std::strlen(field))};
        made.insert(made.end(), field, field + std::strlen(field));
        made.insert(made.end(), in_place.begin(), in_place.end());
        return from_cbor<everything>(made, nt);
    };
    FAILS(decode, "`every/thing.is_new`: a boolean must be here", with("is_new", {0x00}));
    FAILS(decode, "`every/thing.small`: a whole number from -128 to 127 must be here", with("small", {0x18, 128}));
    FAILS(decode, "`every/thing.small`: a whole number", with("small", {0x38, 128}));
    FAILS(decode, "`every/thing.count`: a whole number from 0 to 255 must be here", with("count", {0x20}));
    FAILS(decode, "`every/thing.note`: text must be here", with("note", {0x41, 'b'}));
    FAILS(decode, "`every/thing.place`: a list of 3 must be here", with("place", {0x81, 0xf9, 0, 0}));
    FAILS(decode, "`every/thing.place`: a list of 3 must be here", with("place", {0x9f, 0xf9, 0, 0, 0xff}));
    FAILS(decode, "`every/thing.table[1]`: a list of 3", with("table", {0x82, 0x83, 1, 2, 3, 0x82, 1, 2}));
    FAILS(
        decode, "`every/thing.path[1].y`: a float must be here",
        with("path", {0x82, 0xa2, 0x61, 'x', 0xf9, 0, 0, 0x61, 'y', 0xf9, 0, 0, 0xa1, 0x61, 'y', 0x00}));
}

// Random bytes in a message never break the decoder: they are a value or a mistake.
static void damaged_messages() {
    everything value;
    value.note = "note";
    value.path = {{1, 2}};
    value.names = {"a", std::nullopt};
    const auto all = to_cbor(value);
    std::uint32_t random = 1;
    const auto next = [&] { return (random = random * 1664525 + 1013904223) >> 8; };
    for (int round = 0; round < 20000; round++) {
        auto damaged = all;
        for (std::uint32_t count = next() % 4; count-- > 0;) {
            damaged[next() % damaged.size()] = static_cast<std::uint8_t>(next());
        }
        damaged.erase(damaged.end() - static_cast<std::ptrdiff_t>(next() % 3), damaged.end());
        const auto found = from_cbor<everything>(damaged, nt);
        CHECK(found || found.code() == status::decode);
    }
}

static void topics() {
    const stripline::node of = isolated_node();
    auto out = TAKE(of.message_publisher("m", stripline::type_text<detection>(), nt));
    auto in = TAKE(of.message_subscriber("m", stripline::type_text<detection>(), nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    stripline::send_options options;
    options.time = stripline::time_point(std::chrono::seconds(5));
    TAKE(stripline::send_message(out, detection{7, 0.5}, options, nt));
    auto packet = *TAKE(in.receive(nt));
    CHECK(TAKE(packet.info(nt)).time == options.time);
    const auto found = TAKE(stripline::message_of<detection>(packet, nt));
    CHECK(found.sample == 7 && found.level_db == 0.5);
    TAKE(stripline::send_message_like(out, found, packet, nt));
    packet.release();
    CHECK(TAKE(TAKE(in.receive(nt))->info(nt)).time == options.time);
    FAILS(invalid_argument, "`detection`: the schema has no field `x`", stripline::send_message(out, point(), nt));
}

// The description of the ports is the only place that has the type.
class detector {
public:
    static stripline::component_spec describe() {
        return stripline::component_spec("detector", "Detects samples above a threshold.")
            .input<float>("in", "samples")
            .output<detection>("out", "detections");
    }

    static stripline::result<std::unique_ptr<detector>> make(const stripline::properties &) {
        return std::make_unique<detector>();
    }

    stripline::result<void> run(stripline::ports &ports) {
        auto in = TAKE(ports.input<float>("in", nt));
        auto out = TAKE(ports.message_output("out", nt));
        FAILS(port, "", ports.message_output("in", nt));
        FAILS(invalid_argument, "the schema has no field `x`", stripline::send_message(out, point(), nt));
        while (true) {
            auto packet = TAKE(ports.receive(in, nt));
            if (packet.ended()) {
                return {};
            }
            const auto info = TAKE(packet->info(nt));
            for (std::size_t index = 0; index < packet->size(); index++) {
                if ((*packet)[index] > 1) {
                    TAKE(stripline::send_message_like(
                        out, detection{info.sample_index + index, (*packet)[index]}, *packet, nt));
                }
            }
        }
    }
};

static void components() {
    auto harness = TAKE(stripline::harness::of<detector>(nt));
    TAKE(harness.start(nt));
    auto in = TAKE(harness.input<float>("in", nt));
    auto out = TAKE(harness.message_output("out", stripline::type_text<detection>(), nt));
    const float samples[] = {0, 2, 1, 3};
    TAKE(in.send(samples, nt));
    TAKE(in.finish(nt));
    for (const std::uint64_t sample : {1U, 3U}) {
        auto packet = *TAKE(out.receive(nt));
        CHECK(TAKE(stripline::message_of<detection>(packet, nt)).sample == sample);
    }
    CHECK(TAKE(out.receive(nt)).ended());
    TAKE(harness.finish(nt));
}

#if STRIPLINE_EXCEPTIONS
static void exceptions() {
    const stripline::node of = isolated_node();
    auto out = of.message_publisher("m", stripline::type_text<point>());
    auto in = of.message_subscriber("m", stripline::type_text<point>());
    CHECK(out.wait_for_receivers(1, test_timeout));
    stripline::send_message(out, point{1, 2});
    auto packet = *in.receive();
    CHECK(from_cbor<point>(packet.samples()).y == 2);
    try {
        (void)stripline::message_of<detection>(packet);
        CHECK(false);
    } catch (const stripline::error &error) {
        CHECK(error.code() == stripline::status::decode && std::strstr(error.what(), "`detection.sample`") != nullptr);
    }
    stripline::send_message_like(out, point{3, 4}, packet);
    packet.release();
    CHECK(stripline::message_of<point>(*in.receive()).x == 3);
}
#endif

int main() {
    schemas();
    values();
    other_forms_of_the_same_value();
    mistakes();
    damaged_messages();
    topics();
    components();
#if STRIPLINE_EXCEPTIONS
    exceptions();
#endif
    std::puts("messages: done");
}
