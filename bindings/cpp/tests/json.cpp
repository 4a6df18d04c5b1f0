// Messages and calls as values of nlohmann-json, with and without exceptions.
#include <optional>
#include <string>
#include <thread>

#include <stripline/json.hpp>

#include "check.hpp"

using stripline::json;
using stripline::json_answer;
using stripline::node;
using stripline::status;
constexpr auto nt = std::nothrow;

static void messages() {
    const node of = isolated_node();
    auto out = TAKE(of.message_publisher("m", "message/cbor", nt));
    auto in = TAKE(of.message_subscriber("m", "message/cbor", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    const json value = {{"hz", 433.92e6}, {"names", {"a", "b"}}, {"none", nullptr}};
    TAKE(stripline::send_json(out, value, nt));
    {
        const auto found = TAKE(in.receive(nt));
        CHECK(found);
    }
    TAKE(stripline::send_json(out, value, nt));
    auto found = TAKE(in.receive(nt));
    CHECK(TAKE(stripline::json_of(*found, nt)) == value);
    found->release();
    const std::uint8_t broken[] = {0x82, 0x01};
    TAKE(out.send(broken, nt));
    found = TAKE(in.receive(nt));
    FAILS(decode, "CBOR", stripline::json_of(*found, nt));
}

static void checked_and_stamped_messages() {
    const node of = isolated_node();
    auto out = TAKE(of.message_publisher("m", "message/detection{a:f64,n:u8?}", nt));
    auto in = TAKE(of.message_subscriber("m", "message/detection{a:f64,n:u8?}", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    FAILS(invalid_argument, "`detection.a`: a float is missing", stripline::send_json(out, {{"n", nullptr}}, nt));
    FAILS(
        invalid_argument, "`detection.n`: a whole number from 0 to 255 must be here, not 256",
        stripline::send_json(out, {{"a", 0.5}, {"n", 256}}, nt));
    const json value = {{"a", 0.5}, {"n", 255}};
    stripline::send_options options;
    options.time = stripline::time_point(std::chrono::seconds(5));
    options.sample_index = 77;
    TAKE(stripline::send_json(out, value, options, nt));
    auto found = TAKE(in.receive(nt));
    auto info = TAKE(found->info(nt));
    CHECK(info.sequence == 0 && info.time == options.time && info.sample_index == 77);
    FAILS(
        invalid_argument, "`detection`: the schema has no field `b`",
        stripline::send_json_like(out, {{"b", 1}}, *found, nt));
    TAKE(stripline::send_json_like(out, value, *found, nt));
    found->release();
    found = TAKE(in.receive(nt));
    CHECK(TAKE(stripline::json_of(*found, nt)) == value);
    info = TAKE(found->info(nt));
    CHECK(info.sequence == 1 && info.time == options.time && info.sample_index == 77);
}

static void calls() {
    const node of = isolated_node();
    auto from = TAKE(stripline::service::make("tuner", nt));
    const auto tune = [](const json &request) -> json_answer {
        if (!request.contains("hz")) {
            return json_answer::error({{"missing", "hz"}});
        }
        return json{{"tuned", request["hz"]}};
    };
    TAKE(stripline::add_json(from, {"tune"}, tune, "Tunes.", nt));
    FAILS(invalid_argument, "empty", stripline::add_json(from, {"none"}, nullptr, "", nt));
#if STRIPLINE_EXCEPTIONS
    stripline::add_json(from, {"throw"}, [](const json &request) -> json { return request.at("none"); });
#endif
    auto serving = TAKE(stripline::server::make(of, from, nt));
    const auto waker = TAKE(serving.waker(nt));
    std::thread thread([&] { FAILS(interrupted, "", serving.serve(0, nt)); });
    const auto caller = TAKE(stripline::client::make(of, "tuner", nt));
    const auto operation = TAKE(caller.operation({"tune"}, nt));
    const json expected = {{"tuned", 1e6}};
    CHECK(TAKE(stripline::call_json(operation, {{"hz", 1e6}}, nt)) == expected);
    const auto failed = stripline::call_json(operation, json::object(), nt);
    const json missing = {{"missing", "hz"}};
    CHECK(failed.code() == status::user_error && stripline::user_error_of(failed.error()) == missing);
    CHECK(stripline::user_error_of(stripline::failure()).is_null());
    const std::uint8_t broken[] = {0x82, 0x01};
    FAILS(wrong_type, "not one value", operation.call(broken, nt));
#if STRIPLINE_EXCEPTIONS
    try {
        (void)stripline::call_json(caller.operation({"throw"}), json::object());
        CHECK(false);
    } catch (const stripline::call_error &error) {
        CHECK(error.code() == status::handler_panicked && std::strstr(error.what(), "none") != nullptr);
    }
    try {
        (void)stripline::call_json(operation, json::object());
        CHECK(false);
    } catch (const stripline::user_error &error) {
        CHECK(stripline::user_error_of(error.reason()) == missing);
    }
#endif
    waker.wake();
    thread.join();
}

int main() {
    messages();
    checked_and_stamped_messages();
    calls();
    std::puts("json: done");
}
