// A service of two operations, and its client, in two or more processes. docs/languages.md shows it
// beside the same program in other languages.
//
//     ./tuner serve          in one terminal: Ctrl-C ends it
//     ./tuner tune 433.92    in another
//     ./tuner status
//
// Requests and replies are CBOR. This program writes and reads only the few forms that it needs;
// stripline/json.hpp supports all.
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <stripline.hpp>

namespace {

using bytes = std::vector<std::uint8_t>;
using view = stripline::span<const std::uint8_t>;

void put_text(bytes &out, const std::string &text) {
    // The text is shorter than 24 bytes.
    out.push_back(static_cast<std::uint8_t>(0x60 + text.size()));
    out.insert(out.end(), text.begin(), text.end());
}

void put_number(bytes &out, double number) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    out.push_back(0xfb);
    for (int shift = 56; shift >= 0; shift -= 8) {
        out.push_back(static_cast<std::uint8_t>(bits >> shift));
    }
}

// Takes a number off the front: a float of any length, or a whole number.
double take_number(view &from) {
    if (from.empty()) {
        throw std::runtime_error("a number is missing");
    }
    const auto first = from[0];
    const std::size_t length = (first & 31) < 24 ? 0 : std::size_t(1) << ((first & 31) - 24);
    if (from.size() < 1 + length || (first >> 5 != 0 && first >> 5 != 7)) {
        throw std::runtime_error("it is not a number");
    }
    std::uint64_t bits = length == 0 ? first & 31 : 0;
    for (std::size_t at = 1; at <= length; at++) {
        bits = bits << 8 | from[at];
    }
    from = view(from.data() + 1 + length, from.size() - 1 - length);
    if (first >> 5 == 0) {
        return static_cast<double>(bits);
    }
    if (length == 8) {
        double number = 0;
        std::memcpy(&number, &bits, sizeof number);
        return number;
    }
    if (length == 4) {
        const auto low = static_cast<std::uint32_t>(bits);
        float number = 0;
        std::memcpy(&number, &low, sizeof number);
        return number;
    }
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double mantissa = static_cast<double>(bits & 1023);
    const double number = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
    return bits >> 15 != 0 ? -number : number;
}

bool take_text(view &from, const std::string &text) {
    bytes expected;
    put_text(expected, text);
    if (from.size() < expected.size() || std::memcmp(from.data(), expected.data(), expected.size()) != 0) {
        return false;
    }
    from = view(from.data() + expected.size(), from.size() - expected.size());
    return true;
}

int serve() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    static const stripline::node node;
    std::thread([signals] {
        int signal = 0;
        sigwait(&signals, &signal);
        node.stop();
    }).detach();

    double frequency_hz = 100e6;
    std::uint8_t tunings = 0;
    stripline::service service("tuner");
    service.add(
        {"tune"},
        [&](view request, stripline::responder &answer) {
            const double wanted_hz = take_number(request);
            bytes out;
            if (!(wanted_hz >= 1e6 && wanted_hz <= 6e9)) {
                out.push_back(0xa1);
                put_text(out, "OutOfRange");
                out.push_back(0xa1);
                put_text(out, "frequency_hz");
                put_number(out, wanted_hz);
                answer.fail(out);
                return;
            }
            frequency_hz = std::round(wanted_hz / 12.5e3) * 12.5e3;
            tunings += 1;
            put_number(out, frequency_hz);
            answer.reply(out);
        },
        "Tunes in steps of 12.5 kHz, and returns the frequency reached.");
    service.add(
        {"status"},
        [&](view, stripline::responder &answer) {
            bytes out{0xa2};
            put_text(out, "frequency_hz");
            put_number(out, frequency_hz);
            put_text(out, "tunings");
            out.push_back(tunings);
            answer.reply(out);
        },
        "Returns the state of the radio.");
    stripline::server server(node, service);
    std::cout << "serving `tuner`; Ctrl-C ends it" << std::endl;
    try {
        server.serve(0);
    } catch (const stripline::stopped_error &) {
    }
    std::cout << "answered " << server.counts().calls << " calls" << std::endl;
    return 0;
}

int tune(const std::string &mhz) {
    std::size_t end = 0;
    double frequency_hz = 0;
    try {
        frequency_hz = 1e6 * std::stod(mhz, &end);
    } catch (const std::exception &) {
    }
    if (end != mhz.size()) {
        std::cerr << "error: `" << mhz << "` is not a number of MHz" << std::endl;
        return 1;
    }
    const stripline::node node;
    const stripline::client client(node, "tuner");
    bytes request;
    put_number(request, frequency_hz);
    try {
        const auto reply = client.operation({"tune"}).call(request);
        view rest = reply.bytes();
        std::printf("%.4f MHz\n", take_number(rest) / 1e6);
        return 0;
    } catch (const stripline::user_error &error) {
        view rest = error.reason().user_error();
        rest = view(rest.data() + 1, rest.size() - 1);
        if (!take_text(rest, "OutOfRange")) {
            throw;
        }
        rest = view(rest.data() + 1, rest.size() - 1);
        take_text(rest, "frequency_hz");
        const double refused_mhz = take_number(rest) / 1e6;
        std::cerr << "error: " << refused_mhz << " MHz is not from 1 to 6000 MHz" << std::endl;
        return 1;
    }
}

int status() {
    const stripline::node node;
    const stripline::client client(node, "tuner");
    const bytes nothing{0xf6};
    const auto reply = client.operation({"status"}).call(nothing);
    view rest = reply.bytes();
    rest = view(rest.data() + 1, rest.size() - 1);
    take_text(rest, "frequency_hz");
    const double frequency_hz = take_number(rest);
    take_text(rest, "tunings");
    std::printf("%.4f MHz, tuned %.0f times\n", frequency_hz / 1e6, take_number(rest));
    return 0;
}

}  // namespace

int main(int count, char **arguments) try {
    const std::string what = count > 1 ? arguments[1] : "";
    if (what == "serve") {
        return serve();
    }
    if (what == "tune" && count > 2) {
        return tune(arguments[2]);
    }
    return status();
} catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
}
