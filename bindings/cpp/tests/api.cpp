// Tests of the forms without exceptions. This file is compiled with and without exceptions.
#include <array>
#include <atomic>
#include <complex>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

struct detection {
    std::uint32_t range_bin;
    std::int32_t doppler_bin;
    float level_db;
};
STRIPLINE_SAMPLE(detection, "det", range_bin, doppler_bin, level_db)

namespace radar {
struct point {
    float x, y;
};
struct track {
    std::uint32_t id;
    point at[2];
};
struct map {
    float gain[2][2];
    std::array<std::array<std::uint8_t, 4>, 2> flags;
    std::complex<float> first;
    std::uint64_t at;
};
struct handle {
    std::uint16_t a, b;
};
}  // namespace radar
STRIPLINE_SAMPLE(radar::point, "point", x, y)
STRIPLINE_SAMPLE(radar::track, "track", id, at)
STRIPLINE_SAMPLE(radar::map, "map", gain, flags, first, at)
STRIPLINE_SAMPLE_NAMED(radar::handle, "handle")

using stripline::node;
using stripline::status;
constexpr auto nt = std::nothrow;

static void types() {
    const auto is = [](const char *found, const char *expected) {
        if (std::strcmp(found, expected) != 0) {
            std::fprintf(stderr, "layout %s, expected %s\n", found, expected);
            std::exit(1);
        }
    };
    is(stripline::sample<float>::name(), "f32");
    is(stripline::sample<std::int8_t>::name(), "s8");
    is(stripline::sample<unsigned long long>::name(), "u64");
    is(stripline::sample<std::complex<std::int16_t>>::name(), "cs16");
    is(stripline::sample<std::complex<double>>::name(), "cf64");
    is(stripline::sample<detection>::name(), "det{range_bin:u32,doppler_bin:s32,level_db:f32}");
    is(stripline::sample<radar::track>::name(), "track{id:u32,at:point{x:f32,y:f32}[2]}");
    is(stripline::sample<radar::map>::name(), "map{gain:f32[2][2],flags:u8[2][4],first:cf32,at:u64}");
    is(stripline::sample<radar::handle>::name(), "handle");
    // The library computes the same sizes from the texts, so it accepts each type.
    const node of = isolated_node();
    TAKE(of.publisher<detection>("a", nt));
    TAKE(of.publisher<radar::track>("b", nt));
    TAKE(of.publisher<radar::map>("c", nt));
    TAKE(of.publisher<radar::handle>("d", nt));
    TAKE(of.publisher<std::complex<std::int16_t>>("e", nt));
}

static void packets() {
    const node of = isolated_node();
    auto out = TAKE(of.publisher<std::uint32_t>("x", nt));
    auto in = TAKE(of.subscriber<std::uint32_t>("x", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    CHECK(TAKE(out.receivers(nt)) == 1 && TAKE(in.senders(nt)) == 1);
    CHECK(TAKE(out.samples_max(nt)) >= TAKE(out.samples_in_place(nt)));
    CHECK(TAKE(in.try_receive(nt)).empty());
    CHECK(TAKE(in.receive_for(std::chrono::nanoseconds(1), nt)).empty());
    CHECK(TAKE(in.receive_for(std::chrono::hours(-1), nt)).empty());
    CHECK(TAKE(in.receive_until(std::chrono::steady_clock::now(), nt)).empty());
    CHECK(TAKE(in.receive_until(std::chrono::system_clock::time_point::min(), nt)).empty());

    stripline::stream_description stream;
    stream.id = "tone";
    stream.sample_rate_hz = 1e6;
    stream.center_frequency_hz = 433e6;
    stream.row_length = 3;
    stream.frame_rows = 2;
    stream.axes = {{0, 15, "m"}, {-1e3, 7.8125, "Hz"}};
    stream.clock = {stripline::clock_reference::gps, 100};
    stream.more = R"({"keywords":{"antenna":")" + std::string(600, 'x') + R"("}})";
    TAKE(out.set_stream(stream, nt));

    auto loan = TAKE(out.loan(4, nt));
    CHECK(loan && loan.size() == 4 && loan.samples().size() == 4 && !loan.empty());
    std::uint32_t value = 7;
    for (auto &sample : loan) {
        sample = value++;
    }
    TAKE(loan.truncate(3, nt));
    TAKE(loan.truncate(9, nt));
    CHECK(loan.size() == 3);
    stripline::send_options options;
    options.sample_index = 100;
    options.time = stripline::time_point(std::chrono::seconds(5));
    options.intended = stripline::monotonic_point(std::chrono::seconds(6));
    TAKE(loan.send(options, nt));
    CHECK(!loan && loan.empty() && loan.samples().empty());

    auto found = TAKE(in.receive(nt));
    CHECK(found && !found.ended() && !found.empty());
    auto packet = *std::move(found);
    CHECK(packet.size() == 3 && packet[0] == 7 && packet.samples()[2] == 9 && !packet.empty());
    std::uint32_t sum = 0;
    for (const std::uint32_t sample : packet) {
        sum += sample;
    }
    CHECK(sum == 24);
    const auto info = TAKE(packet.info(nt));
    CHECK(info.sequence == 0 && info.sample_index == 100 && !info.gap);
    CHECK(info.time == options.time && info.intended == options.intended);
    const auto view = TAKE(packet.stream(nt));
    CHECK(view.id == "tone" && view.sample_rate_hz == 1e6 && view.center_frequency_hz == 433e6);
    CHECK(view.row_length == 3U);
    CHECK(view.frame_rows == 2U);
    CHECK(view.clock && view.clock->reference == stripline::clock_reference::gps && view.clock->error_ns == 100U);
    CHECK(view.axes == stream.axes && view.axes[0].at(4) == 60 && view.axes[1] != stripline::axis{});
    const std::string json = TAKE(packet.stream_json(nt));
    CHECK(json.find(std::string(600, 'x')) != std::string::npos && json.back() == '}');
    CHECK(packet.connection().find("->") != std::string_view::npos);

    // A received packet is forwarded with the place in the stream.
    auto forward = TAKE(of.publisher<std::uint32_t>("y", nt));
    auto further = TAKE(of.subscriber<std::uint32_t>("y", nt));
    CHECK(TAKE(forward.wait_for_receivers(1, test_timeout, nt)));
    auto copy = TAKE(forward.loan(1, nt));
    copy[0] = packet[1];
    TAKE(copy.send_like(packet, nt));
    auto forwarded = *TAKE(further.receive(nt));
    CHECK(forwarded[0] == 8 && TAKE(forwarded.info(nt)).sample_index == 100);
    CHECK(TAKE(forwarded.stream(nt)).id == "tone");
    forwarded.release();
    packet.release();
    packet.release();
    CHECK(!packet && packet.samples().empty() && packet.begin() == packet.end());

    // A vector, an array, part of either; nothing.
    const std::vector<std::uint32_t> vector{1, 2, 3};
    const std::array<std::uint32_t, 2> array{4, 5};
    const std::uint32_t plain[] = {6};
    TAKE(out.send(vector, nt));
    TAKE(out.try_send(array, nt));
    TAKE(out.send(plain, stripline::send_options(), nt));
    TAKE(out.try_send(stripline::span<const std::uint32_t>(vector).subspan(1, 1), stripline::send_options(), nt));
    TAKE(out.send({}, nt));
    CHECK(TAKE(out.sequence(nt)) == 6);
    {
        auto unsent = TAKE(out.try_loan(1, nt));
        auto moved = std::move(unsent);
        moved[0] = 1;
    }
    TAKE(out.finish(test_timeout, nt));
    std::size_t count = 0, samples = 0;
    stripline::result<void> outcome;
    for (auto &each : in.packets(outcome)) {
        count += 1;
        samples += each.size();
    }
    TAKE(outcome);
    CHECK(count == 5 && samples == 7);
    CHECK(TAKE(in.receive(nt)).ended());
    const auto gap = TAKE(in.gap_at_end(nt));
    CHECK(gap.packets == 0 && gap.samples == 0);

    const auto report = TAKE(of.report(nt));
    CHECK(report.connections.size() == 2 && report.refused.empty());
    CHECK(report.connections[0].packets + report.connections[1].packets == 7);
    const auto &age = report.connections[0].age;
    CHECK(age && age->samples > 0 && age->last_ns > 1'000'000'000'000'000'000 && age->max_ns == age->last_ns);
    CHECK(age->clock && age->clock->error_ns == 100U);
    CHECK(report.connections[0].lost == 0 && report.connections[0].connection.find("->") != std::string::npos);
}

static void held_packets() {
    const node of = isolated_node();
    auto out = TAKE(of.publisher<std::uint32_t>("x", nt));
    stripline::subscriber_options options;
    options.hold = 4;
    auto in = TAKE(of.subscriber<std::uint32_t>("x", options, nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    for (int round = 0; round < 100; round++) {
        std::vector<stripline::packet<std::uint32_t>> held;
        for (std::uint32_t number = 0; number < 4; number++) {
            TAKE(out.send(std::array<std::uint32_t, 1>{number}, nt));
            held.push_back(*TAKE(in.receive(nt)));
        }
        FAILS(too_many_held, "", in.receive(nt));
        for (std::uint32_t number = 0; number < 4; number++) {
            CHECK(held[number][0] == number);
        }
        // Packets are released in any order, and on another thread.
        held.erase(held.begin() + 2);
        std::thread([last = std::move(held.back())]() mutable { last.release(); }).join();
        held.pop_back();
        std::swap(held[0], held[1]);
        held.pop_back();
    }
}

static void windows() {
    const node of = isolated_node();
    auto out = TAKE(of.publisher<float>("x", nt));
    auto in = TAKE(of.windowed_subscriber<float>("x", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    TAKE(out.send(std::array<float, 3>{0, 1, 2}, nt));
    TAKE(out.send(std::array<float, 3>{3, 4, 5}, nt));
    auto first = *TAKE(in.receive(4, nt));
    CHECK(first.size() == 4 && first[3] == 3.0F && TAKE(first.info(nt)).sample_index == 0);
    CHECK(TAKE(first.info(nt)).is_whole);
    TAKE(first.consume(2, nt));
    CHECK(!first);
    auto second = *TAKE(in.receive_for(4, test_timeout, nt));
    CHECK(second[0] == 2.0F && second[3] == 5.0F);
    second.release();
    CHECK(TAKE(in.receive_for(1, std::chrono::seconds(0), nt)).empty());
    TAKE(out.finish(nt));
    CHECK(TAKE(in.receive(4, nt)).ended());

    auto rows = TAKE(of.publisher<float>("rows", nt));
    auto by_row = TAKE(of.windowed_subscriber<float>("rows", stripline::window_unit::rows, nt));
    CHECK(TAKE(rows.wait_for_receivers(1, test_timeout, nt)));
    stripline::stream_description stream;
    stream.row_length = 3;
    TAKE(rows.set_stream(stream, nt));
    TAKE(rows.send(std::array<float, 4>{0, 1, 2, 3}, nt));
    TAKE(rows.send(std::array<float, 2>{4, 5}, nt));
    auto pair = *TAKE(by_row.receive(2, nt));
    CHECK(pair.size() == 6 && pair[5] == 5.0F && TAKE(pair.info(nt)).is_whole);
    pair.release();
    TAKE(rows.send(std::array<float, 2>{6, 7}, nt));
    TAKE(rows.finish(nt));
    const auto rest = *TAKE(by_row.receive(1, nt));
    CHECK(rest.size() == 2 && !TAKE(rest.info(nt)).is_whole);
}

static void handlers() {
    const node of = isolated_node();
    auto first = TAKE(of.publisher<std::uint32_t>("a", nt));
    auto second = TAKE(of.publisher<detection>("b", nt));
    auto from_first = TAKE(of.subscriber<std::uint32_t>("a", nt));
    auto from_second = TAKE(of.subscriber<detection>("b", nt));
    CHECK(TAKE(first.wait_for_receivers(1, test_timeout, nt)));
    CHECK(TAKE(second.wait_for_receivers(1, test_timeout, nt)));
    TAKE(first.send(std::array<std::uint32_t, 1>{1}, nt));
    TAKE(second.send(std::array<detection, 1>{{{1, 2, 3.0F}}}, nt));
    const auto ready = TAKE(stripline::wait_any(test_timeout, nt, from_first, from_second));
    CHECK(ready.size() == 2 && (ready[0] || ready[1]));

    int seen = 0, stops = 0;
    std::vector<stripline::served_port> ports;
    ports.push_back(stripline::on(from_first, [&](const stripline::packet_view<std::uint32_t> &packet) {
        seen += static_cast<int>(packet[0]);
        return seen == 100 ? stripline::next::stop : stripline::next::go_on;
    }));
    ports.push_back(stripline::on(from_second, [&](const stripline::packet_view<detection> &packet) {
        stops += packet.samples()[0].doppler_bin;
    }));
    TAKE(first.send(std::array<std::uint32_t, 1>{99}, nt));
    CHECK(TAKE(stripline::serve(ports, nt)) == stripline::served::stopped);
    CHECK(seen == 100);
    TAKE(first.finish(nt));
    TAKE(second.finish(nt));
    CHECK(TAKE(stripline::serve(ports, nt)) == stripline::served::ended);
    CHECK(stops == 2);

    // A handler that fails with its own message.
    auto out = TAKE(of.publisher<float>("c", nt));
    auto in = TAKE(of.subscriber<float>("c", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    TAKE(out.send(std::array<float, 1>{1}, nt));
    std::array<stripline::served_port, 1> failing{
        stripline::on(in, [](const stripline::packet_view<float> &packet) -> stripline::result<void> {
            CHECK(packet.refuse("not today", nt).has_value());
            return stripline::failure(status::failed, "the filter has no taps");
        })};
    FAILS(failed, "no taps", stripline::serve(failing, nt));
    std::vector<stripline::subscriber<float>> several;
    several.push_back(std::move(in));
    TAKE(out.finish(nt));
    CHECK(TAKE(stripline::wait_any(test_timeout, nt, several)).at(0));
}

static void batches() {
    node of = isolated_node();
    auto out = TAKE(of.publisher<std::uint32_t>("batches", nt));
    auto in = TAKE(of.subscriber<std::uint32_t>("batches", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    const auto write = [](std::size_t index, stripline::span<std::uint32_t> place) {
        CHECK(place.size() == 2);
        place[0] = place[1] = static_cast<std::uint32_t>(index);
    };
    TAKE(out.send_many(10, 2, write, nt));
    // The packet of a writer that fails is not sent.
    const auto fails = [&](std::size_t index, stripline::span<std::uint32_t> place) -> stripline::result<void> {
        if (index == 3) {
            return stripline::failure(status::failed, "the filter has no taps");
        }
        return write(index, place), stripline::result<void>();
    };
    FAILS(failed, "no taps", out.send_many(9, 2, fails, nt));
    CHECK(TAKE(out.sequence(nt)) == 13);
    TAKE(out.finish(nt));
    FAILS(port, "ended", out.send_many(1, 2, write, nt));

    std::uint32_t sum = 0;
    const auto add = [&](const stripline::packet_view<std::uint32_t> &packet) { sum += packet[1]; };
    CHECK(TAKE(in.drain(4, add, nt)) == 4 && sum == 6);
    const auto stop = [](const stripline::packet_view<std::uint32_t> &) { return stripline::next::stop; };
    CHECK(TAKE(in.drain(100, stop, nt)) == 1);
    const auto refuse = [](const stripline::packet_view<std::uint32_t> &) -> stripline::result<void> {
        return stripline::failure(status::failed, "the filter has no taps");
    };
    FAILS(failed, "no taps", in.drain(100, refuse, nt));
    FAILS(port, "limit", in.drain(0, add, nt));
    sum = 0;
    for (std::size_t left = 7; left > 0;) {
        const std::size_t found = TAKE(in.drain(100, add, nt));
        CHECK(found >= 1 && found <= left);
        left -= found;
    }
    CHECK(sum == 6 + 7 + 8 + 9 + 0 + 1 + 2);
    CHECK(TAKE(in.drain(100, add, nt)) == 0);
    auto moved = std::move(in);
    FAILS(invalid_argument, "moved", in.drain(1, add, nt));
}

static void ends() {
    const node of = isolated_node();
    std::atomic<int> records{0};
    TAKE(stripline::set_log(
        stripline::log_level::trace,
        [&](stripline::log_level, std::string_view target, std::string_view) {
            FAILS(in_use, "outside", stripline::set_log(stripline::log_level::info, nullptr, nt));
            records += target.empty() ? 0 : 1;
        },
        nt));
    auto other = TAKE(of.publisher<float>("other", nt));
    auto mistyped = TAKE(of.subscriber<double>("other", nt));
    wait_until([&] { return records > 0 && !TAKE(of.report(nt)).refused.empty(); });
    const auto refused = TAKE(of.report(nt)).refused[0];
    CHECK(!refused.connection.empty() && refused.reason.find("f64") != std::string::npos);
    auto out = TAKE(of.publisher<std::uint8_t>("x", nt));
    auto in = TAKE(of.subscriber<std::uint8_t>("x", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    TAKE(out.send(std::vector<std::uint8_t>{1}, nt));
    TAKE(out.abandon(nt));
    CHECK(TAKE(in.receive(nt)));
    // Abandoned: the stream has no end.
    CHECK(TAKE(in.receive_for(std::chrono::milliseconds(20), nt)).empty());
    TAKE(stripline::set_log(stripline::log_level::info, nullptr, nt));
    FAILS(invalid_argument, "from 1 to 5", stripline::set_log(stripline::log_level(9), [](auto, auto, auto) {}, nt));
    std::thread stopping([&] { TAKE(of.stop(nt)); });
    FAILS(stopped, "", in.receive(nt));
    stopping.join();
    CHECK(stripline::word(status::too_large) == "too-large" && !stripline::remedy(status::too_large).empty());
    CHECK(stripline::library_version().find('.') != std::string_view::npos);
}

static void wait_sets() {
    const node of = isolated_node();
    auto set = TAKE(stripline::wait_set::make(nt));
    auto out = TAKE(of.publisher<std::uint32_t>("x", nt));
    TAKE(set.add_for_receivers(1, out, 1, nt));
    FAILS(port, "already", set.add(2, out, 4, nt));
    CHECK(TAKE(set.wait(std::chrono::nanoseconds(0), nt)).empty());
    CHECK(TAKE(out.ready_descriptor(nt)) >= 0 && TAKE(out.arm_for_receivers(1, nt)));
    auto in = TAKE(of.subscriber<std::uint32_t>("x", nt));
    CHECK(TAKE(set.wait(test_timeout, nt))[0].key == 1);
    CHECK(TAKE(set.remove(1, nt)) && !TAKE(set.remove(1, nt)));
    wait_until([&] { return !TAKE(out.arm_for_receivers(1, nt)); });
    TAKE(set.add(3, in, nt));
    TAKE(set.add(4, out, 2, nt));
    const auto room = TAKE(set.wait(test_timeout, nt));
    CHECK(room.size() == 1 && room[0].key == 4 && room[0].readable && !room[0].closed);
    TAKE(out.send(std::vector<std::uint32_t>{1, 2}, nt));
    wait_until([&] { return TAKE(set.wait(test_timeout, nt)).size() == 2; });
    CHECK(!TAKE(in.arm(nt)) && !TAKE(out.arm(2, nt)) && TAKE(in.ready_descriptor(nt)) >= 0);
    FAILS(invalid_argument, "windowed", in.arm(2, nt));
    // A member of the set may be moved, and may end first.
    auto moved = std::move(in);
    FAILS(invalid_argument, "moved", in.arm(nt));
    FAILS(invalid_argument, "moved", set.add(5, in, nt));
    CHECK(TAKE(set.wait(test_timeout, nt)).size() == 2);
    CHECK(TAKE(moved.receive(nt)));
    { const auto ended = std::move(moved); }
    CHECK(TAKE(set.wait(test_timeout, nt)).size() == 1 && TAKE(set.remove(4, nt)));
    FAILS(invalid_argument, "descriptor", set.add_descriptor(6, -1, stripline::interest::readable, nt));
    TAKE(set.add_descriptor(6, TAKE(out.ready_descriptor(nt)), stripline::interest::readable, nt));
    // A wake ends a wait, and moving a set leaves it empty.
    const auto waker = TAKE(set.waker(nt));
    waker.wake();
    FAILS(interrupted, "", set.wait(nt));
    auto other = std::move(set);
    FAILS(invalid_argument, "moved", set.wait(nt));
    FAILS(invalid_argument, "moved", set.remove(6, nt));
    CHECK(TAKE(other.remove(6, nt)));
}

int main() {
    types();
    packets();
    held_packets();
    windows();
    handlers();
    batches();
    wait_sets();
    ends();
    std::puts("api: done");
}
