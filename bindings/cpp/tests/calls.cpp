// Messages, wakers and calls, by the forms without exceptions. This file is compiled with and
// without exceptions.
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

using stripline::client;
using stripline::node;
using stripline::server;
using stripline::service;
using stripline::status;
using bytes = std::vector<std::uint8_t>;
using view = stripline::span<const std::uint8_t>;
constexpr auto nt = std::nothrow;

static bytes copy(view from) { return bytes(from.begin(), from.end()); }

static void messages() {
    const node of = isolated_node();
    auto out = TAKE(of.message_publisher("m", "message/tune{hz:f64}", nt));
    auto in = TAKE(of.message_subscriber("m", "message/tune{hz:f64}", nt));
    CHECK(TAKE(out.wait_for_receivers(1, test_timeout, nt)));
    const std::array<std::uint8_t, 2> wrong{0x18, 0x2a};
    FAILS(invalid_argument, "`tune`: a structure must be here, not a whole number", out.send(wrong, nt));
    const std::array<std::uint8_t, 7> value{0xa1, 0x62, 'h', 'z', 0xf9, 0x3c, 0x00};
    TAKE(out.send(value, nt));
    auto found = TAKE(in.receive(nt));
    CHECK(found && copy(found->samples()) == bytes(value.begin(), value.end()));
    FAILS(invalid_argument, "not a type of messages", of.message_publisher("m", "u8", nt));
    FAILS(invalid_argument, "NUL", of.message_subscriber("m", std::string("a\0b", 3), nt));
    FAILS(invalid_argument, "NUL", of.message_publisher(std::string("a\0b", 3), "message/cbor", nt));
}

static void wakers() {
    const node of = isolated_node();
    auto in = TAKE(of.subscriber<float>("x", nt));
    auto windows = TAKE(of.windowed_subscriber<float>("x", nt));
    auto out = TAKE(of.publisher<float>("y", nt));
    auto of_in = TAKE(in.waker(nt));
    of_in.wake();
    of_in.wake();
    FAILS(interrupted, "", in.receive(nt));
    CHECK(TAKE(in.try_receive(nt)).empty());
    const auto of_windows = TAKE(windows.waker(nt));
    of_windows.wake();
    FAILS(interrupted, "", windows.receive(3, nt));
    // Ends the wait that is under way, from another thread.
    const auto of_out = TAKE(out.waker(nt));
    std::thread other([&] { of_out.wake(); });
    const auto outcome = out.wait_for_receivers(1, nt);
    other.join();
    CHECK(outcome.code() == status::interrupted && !outcome.error().is_sent());
    auto moved = std::move(of_in);
    CHECK(moved && !of_in);
    of_in.wake();
    moved = TAKE(in.waker(nt));
    auto &same = in;
    in = std::move(same);
    {
        const auto gone = std::move(in);
    }
    moved.wake();
    FAILS(invalid_argument, "moved from", in.waker(nt));
}

static service service_of(std::optional<stripline::responder> &kept) {
    service made = TAKE(service::make("text", nt));
    TAKE(made.add(
        {"echo"},
        [](view request, stripline::responder &answer) {
            CHECK(answer.deadline().count() > 0);
            TAKE(answer.reply(request, nt));
            CHECK(answer.deadline().count() == 0);
            FAILS(port, "answered", answer.reply(request, nt));
        },
        "What it does.", nt));
    TAKE(made.add({"fail"}, [](view request, stripline::responder &answer) { TAKE(answer.fail(request, nt)); }, nt));
    TAKE(made.add(
        {"refuse"}, [](view, stripline::responder &answer) { TAKE(answer.refuse("not plugged in", nt)); }, nt));
    TAKE(made.add(
        {"refuse-as"},
        [](view, stripline::responder &answer) {
            FAILS(invalid_argument, "refuses no call", answer.refuse_as(status::ended, "no", nt));
            TAKE(answer.refuse_as(status::wrong_type, "no map", nt));
        },
        nt));
    TAKE(made.add({"drop"}, [](view, stripline::responder &) {}, nt));
    TAKE(made.add(
        {"keep"},
        [&](view, stripline::responder &answer) {
            static std::mutex lock;
            const std::lock_guard<std::mutex> guard(lock);
            kept = std::move(answer);
        },
        nt));
    return made;
}

static stripline::operation operation_of(const client &from, const char *name) {
    return TAKE(from.operation({name}, nt));
}

static void calls(std::size_t threads) {
    const node of = isolated_node();
    std::optional<stripline::responder> kept;
    std::optional<service> from = service_of(kept);
    auto serving = TAKE(server::make(of, *from, nt));
    // The server keeps the parts of the service that it needs.
    from.reset();
    const auto caller = TAKE(client::make(of, "text", nt));
    CHECK(TAKE(caller.wait_for_servers(1, test_timeout, nt)));
    CHECK(!TAKE(serving.serve_one(std::chrono::nanoseconds(1), nt)));
    const auto waker = TAKE(serving.waker(nt));
    std::thread thread([&] { FAILS(interrupted, "", serving.serve(threads, nt)); });

    const bytes request{0x63, 'a', 'b', 'c'};
    CHECK(copy(TAKE(operation_of(caller, "echo").call(request, nt)).bytes()) == request);
    const auto failed = operation_of(caller, "fail").call(request, nt);
    CHECK(failed.code() == status::user_error && copy(failed.error().user_error()) == request);
    const auto refused = operation_of(caller, "refuse").call(request, nt);
    CHECK(refused.code() == status::reply_failed && refused.error().user_error().empty());
    CHECK(std::strstr(refused.error().message(), "not plugged in") != nullptr);
    FAILS(wrong_type, "no map", operation_of(caller, "refuse-as").call(request, nt));
    CHECK(operation_of(caller, "drop").call(request, nt).code() == status::reply_failed);
    FAILS(unknown_operation, "", operation_of(caller, "none").call(request, nt));

    auto outstanding = TAKE(operation_of(caller, "keep").start(request, nt));
    CHECK(!TAKE(outstanding.wait_for(std::chrono::nanoseconds(0), nt)));
    // One call is served after the other here, so the answer of this call comes after `keep`.
    CHECK(copy(TAKE(operation_of(caller, "echo").call(request, nt)).bytes()) == request);
    if (threads == 0) {
        CHECK(kept.has_value());
        TAKE(kept->reply(request, nt));
        CHECK(copy(TAKE(outstanding.wait(nt)).bytes()) == request);
        FAILS(port, "", outstanding.wait(nt));
    }

    stripline::call_options options;
    options.deadline = std::chrono::nanoseconds(1);
    options.key = 7;
    CHECK(operation_of(caller, "keep").call(request, options, nt).code() != status::ok);
    waker.wake();
    thread.join();
    CHECK(TAKE(serving.counts(nt)).calls >= 6 && TAKE(serving.counts(nt)).clients == 1);
    kept.reset();
}

static void bad_input() {
    const node of = isolated_node();
    std::optional<stripline::responder> kept;
    service from = service_of(kept);
    const std::string nul("a\0b", 3);
    FAILS(invalid_argument, "NUL", service::make(nul, nt));
    FAILS(invalid_argument, "", service::make("a b", nt));
    FAILS(invalid_argument, "already", from.add({"echo"}, [](view, stripline::responder &) {}, nt));
    FAILS(invalid_argument, "empty", from.add({"new"}, nullptr, nt));
    FAILS(invalid_argument, "NUL", from.add({nul}, [](view, stripline::responder &) {}, nt));
    FAILS(invalid_argument, "NUL", from.add({"new"}, [](view, stripline::responder &) {}, nul, nt));
    FAILS(invalid_argument, "NUL", client::make(of, nul, nt));
    FAILS(invalid_argument, "", client::make(of, "a b", nt));
    stripline::server_options options;
    options.name = nul;
    FAILS(invalid_argument, "NUL", server::make(of, from, options, nt));
    options.name.clear();
    options.clients = 1'000'000;
    FAILS(invalid_argument, "", server::make(of, from, options, nt));
    stripline::client_options deadline;
    deadline.deadline = std::chrono::milliseconds(1);
    const auto caller = TAKE(client::make(of, "nothing", deadline, nt));
    CHECK(!TAKE(caller.wait_for_servers(1, std::chrono::nanoseconds(1), nt)));
    FAILS(no_server, "nothing", operation_of(caller, "echo").call(bytes(), nt));
    FAILS(invalid_argument, "", caller.operation({"echo", "no type"}, nt));
    FAILS(invalid_argument, "NUL", caller.operation({nul}, nt));
    const auto waker = TAKE(caller.waker(nt));
    waker.wake();
    FAILS(interrupted, "", operation_of(caller, "echo").call(bytes(), nt));
    service moved = std::move(from);
    FAILS(invalid_argument, "moved from", from.add({"new"}, [](view, stripline::responder &) {}, nt));
    FAILS(invalid_argument, "moved from", server::make(of, from, nt));
    auto serving = TAKE(server::make(of, moved, nt));
    auto other = std::move(serving);
    FAILS(invalid_argument, "moved from", serving.serve(0, nt));
    FAILS(invalid_argument, "moved from", serving.counts(nt));
    of.stop(nt).value();
    FAILS(stopped, "", other.serve(0, nt));
}

// A handler destroys the object that contains its own server, and continues.
static void ends_its_server() {
    const node of = isolated_node();
    std::optional<server> serving;
    service from = TAKE(service::make("ends", nt));
    const std::string words = "more than fits into a short string: it is elsewhere";
    TAKE(from.add(
        {"end"},
        [&serving, words](view, stripline::responder &answer) {
            serving.reset();
            const bytes reply(words.begin(), words.end());
            (void)answer.reply(reply, nt);
        },
        nt));
    serving = TAKE(server::make(of, from, nt));
    {
        const service gone = std::move(from);
    }
    const auto caller = TAKE(client::make(of, "ends", nt));
    CHECK(TAKE(caller.wait_for_servers(1, test_timeout, nt)));
    auto outstanding = TAKE(operation_of(caller, "end").start(bytes(), nt));
    CHECK(TAKE(serving->serve_one(test_timeout, nt)));
    CHECK(!serving.has_value());
    (void)outstanding.wait_for(test_timeout, nt);
}

int main() {
    messages();
    wakers();
    calls(0);
    calls(3);
    bad_input();
    ends_its_server();
    std::puts("calls: done");
}
