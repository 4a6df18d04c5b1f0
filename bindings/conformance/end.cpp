// The end in C++ of a link between languages: executes commands line by line (README.md).
#include <array>
#include <chrono>
#include <complex>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include <stripline.hpp>

#include "values.hpp"

struct detection {
    std::uint32_t range_bin;
    std::int32_t doppler_bin;
    float level_db;
};
STRIPLINE_SAMPLE(detection, "det", range_bin, doppler_bin, level_db)

namespace {

using milliseconds = std::chrono::milliseconds;
using words_t = std::vector<std::string>;

// A time limit that only ends a hang.
constexpr auto test_timeout = std::chrono::seconds(60);

void answer(const std::string &text) { std::cout << "@@ " << text << std::endl; }

std::string failed(const stripline::failure &failure) {
    std::string message = failure.message();
    for (char &symbol : message) {
        symbol = symbol == '\n' ? ' ' : symbol;
    }
    return "error " + std::string(stripline::word(failure.code())) + " " + message;
}

// Returns the token of a packet, or of a window without the last part.
template <class T>
std::string token_of(const stripline::packet_base<T> &packet, std::uint64_t seed) {
    static const std::array<const char *, 5> reasons = {"", "overflow", "peer-restart", "transport", "late"};
    const auto info = packet.info();
    std::ostringstream token;
    token << info.sequence << '/' << info.sample_index << '/' << packet.size();
    if (info.gap) {
        token << '/' << reasons.at(static_cast<std::size_t>(info.gap->reason)) << ':' << info.gap->first << ':'
              << info.gap->packets << ':' << info.gap->samples;
    }
    if (!is_sound(packet.samples(), info.sample_index, seed)) {
        token << "/bad";
    }
    return token.str();
}

// The way in which a packet is sent.
struct sending {
    std::string way;
    stripline::send_options options;
    bool is_plain = true;

    sending(std::size_t packet, const words_t &words, std::size_t from) : way(packet % 2 == 0 ? "loan" : "send") {
        for (std::size_t place = from; place < words.size(); place++) {
            const auto cut = words[place].find('=');
            const std::string key = words[place].substr(0, cut), value = words[place].substr(cut + 1);
            if (key == "way") {
                way = value;
                continue;
            }
            is_plain = false;
            if (key == "index") {
                options.sample_index = number(value);
            } else if (key == "time") {
                options.time = stripline::time_point(std::chrono::nanoseconds(number(value)));
            } else if (key == "intended") {
                options.intended = stripline::monotonic_point(std::chrono::nanoseconds(number(value)));
            } else if (key == "deadline") {
                options.deadline = milliseconds(number(value));
            } else {
                options.scope = value == "none"        ? stripline::scope::none
                                : value == "transport" ? stripline::scope::transport
                                : value == "server"    ? stripline::scope::server
                                                       : stripline::scope::target;
            }
        }
    }
};

// A publisher of any type.
struct output {
    virtual ~output() = default;
    virtual bool wait_for_receivers(std::size_t count) = 0;
    virtual std::size_t receivers() = 0;
    virtual std::uint64_t sequence() = 0;
    virtual void set_stream(const stripline::stream_description &stream) = 0;
    virtual void send(std::size_t samples, const sending &how) = 0;
    virtual void send_many(std::size_t packets, std::size_t samples) = 0;
    virtual void send_message(const std::vector<std::uint8_t> &message) = 0;
    // Opens a loan, and sends it after the function has returned.
    virtual void lend(std::size_t samples, const std::function<void()> &until) = 0;
    virtual void finish(milliseconds timeout) = 0;
    virtual void abandon() = 0;
    virtual stripline::waker waker() = 0;
};

// A packet that is held.
struct held {
    virtual ~held() = default;
    virtual std::string token() const = 0;
    virtual void refuse(const std::string &reason) = 0;
};

// A subscriber of any type.
struct input {
    virtual ~input() = default;
    virtual std::size_t senders() = 0;
    virtual stripline::waker waker() = 0;
    virtual std::string take_messages(std::size_t, milliseconds) { throw std::logic_error("a subscriber of windows"); }
    virtual std::string handle(std::optional<std::uint64_t>) { throw std::logic_error("a subscriber of windows"); }
    virtual std::string take(std::size_t, milliseconds) { throw std::logic_error("a subscriber of windows"); }
    virtual std::string hold(milliseconds, std::unique_ptr<held> &) { throw std::logic_error("it holds none"); }
    virtual std::string describe(milliseconds) { throw std::logic_error("a subscriber of windows"); }
    virtual std::string drain(std::size_t) { throw std::logic_error("no subscriber of packets"); }
    virtual std::string windows(std::size_t, std::size_t, std::size_t, milliseconds) {
        throw std::logic_error("no subscriber of windows");
    }
};

template <class T>
class output_of : public output {
public:
    output_of(stripline::publisher<T> publisher, const std::string &topic)
        : publisher_(std::move(publisher)), seed_(seed_of(topic)) {}
    output_of(const stripline::node &node, const std::string &topic) : output_of(node.publisher<T>(topic), topic) {}

    bool wait_for_receivers(std::size_t count) override {
        return publisher_.wait_for_receivers(count, test_timeout);
    }
    std::size_t receivers() override { return publisher_.receivers(); }
    std::uint64_t sequence() override { return publisher_.sequence(); }
    void set_stream(const stripline::stream_description &stream) override { publisher_.set_stream(stream); }

    void send(std::size_t samples, const sending &how) override {
        const std::uint64_t before = publisher_.sequence();
        const std::uint64_t index = how.options.sample_index.value_or(next_);
        // A packet without an acknowledgement is sent, too.
        struct count_on {
            output_of &of;
            std::uint64_t before, next;
            ~count_on() {
                const auto now = of.publisher_.sequence(std::nothrow);
                if (now && *now > before) {
                    of.next_ = next;
                }
            }
        } after{*this, before, index + samples};
        if (how.way == "loan") {
            auto loan = publisher_.loan(samples);
            fill(loan.samples(), index, seed_);
            if (how.is_plain) {
                loan.send();
            } else {
                loan.send(how.options);
            }
            return;
        }
        std::vector<T> payload(samples);
        fill(stripline::span<T>(payload.data(), payload.size()), index, seed_);
        const stripline::span<const T> from(payload.data(), payload.size());
        if (how.way == "try") {
            publisher_.try_send(from, how.options);
        } else if (how.is_plain) {
            publisher_.send(from);
        } else {
            publisher_.send(from, how.options);
        }
    }

    void send_many(std::size_t packets, std::size_t samples) override {
        const std::uint64_t before = publisher_.sequence();
        publisher_.send_many(packets, samples, [&](std::size_t index, stripline::span<T> place) {
            fill(place, next_ + index * samples, seed_);
        });
        next_ += (publisher_.sequence() - before) * samples;
    }

    void send_message(const std::vector<std::uint8_t> &message) override {
        if constexpr (std::is_same_v<T, std::uint8_t>) {
            publisher_.send(stripline::span<const std::uint8_t>(message.data(), message.size()));
        } else {
            throw std::logic_error("no publisher of messages");
        }
    }

    void lend(std::size_t samples, const std::function<void()> &until) override {
        auto loan = publisher_.loan(samples);
        fill(loan.samples(), next_, seed_);
        until();
        loan.send();
        next_ += samples;
    }
    void finish(milliseconds timeout) override { publisher_.finish(timeout); }
    void abandon() override { publisher_.abandon(); }
    stripline::waker waker() override { return publisher_.waker(); }

private:
    stripline::publisher<T> publisher_;
    std::uint64_t seed_;
    // The index of the next sample.
    std::uint64_t next_ = 0;
};

template <class T>
class held_of : public held {
public:
    held_of(stripline::packet<T> packet, std::uint64_t seed) : packet_(std::move(packet)), seed_(seed) {}
    std::string token() const override { return token_of(packet_, seed_); }
    void refuse(const std::string &reason) override { packet_.refuse(reason); }

private:
    stripline::packet<T> packet_;
    std::uint64_t seed_;
};

template <class Subscriber>
std::string ended(Subscriber &subscriber) {
    const auto gap = subscriber.gap_at_end();
    if (gap.packets == 0 && gap.samples == 0) {
        return "ended";
    }
    return "ended/" + std::to_string(gap.packets) + ":" + std::to_string(gap.samples);
}

template <class T>
class input_of : public input {
public:
    input_of(stripline::subscriber<T> subscriber, const std::string &topic)
        : subscriber_(std::move(subscriber)), seed_(seed_of(topic)) {}
    input_of(const stripline::node &node, const std::string &topic, std::uint32_t hold)
        : input_of(node.subscriber<T>(topic, options_of(hold)), topic) {}

    std::size_t senders() override { return subscriber_.senders(); }
    stripline::waker waker() override { return subscriber_.waker(); }

    std::string take(std::size_t count, milliseconds timeout) override {
        std::string tokens;
        for (; count > 0; count--) {
            const auto outcome = receive(timeout, [&](stripline::packet<T> packet) {
                tokens += token_of(packet, seed_) + " ";
            });
            if (outcome) {
                return tokens + *outcome;
            }
        }
        return tokens + "done";
    }

    std::string take_messages(std::size_t count, milliseconds timeout) override {
        std::string tokens;
        for (; count > 0; count--) {
            const auto outcome = receive(timeout, [&](stripline::packet<T> packet) {
                tokens += std::to_string(packet.info().sequence) + "/" + printed(packet.samples()) + " ";
            });
            if (outcome) {
                return tokens + *outcome;
            }
        }
        return tokens + "done";
    }

    std::string handle(std::optional<std::uint64_t> fails_at) override {
        std::string tokens;
        const auto each = [&](const stripline::packet_view<T> &packet) {
            tokens += token_of(packet, seed_) + " ";
            if (packet.info().sequence == fails_at) {
                throw std::runtime_error("the antenna has fallen over");
            }
        };
        std::array<stripline::served_port, 1> ports{stripline::on(subscriber_, each)};
        const auto outcome = stripline::serve(ports, std::nothrow);
        return tokens + (outcome ? ended(subscriber_) : failed(outcome.error()));
    }

    std::string drain(std::size_t limit) override {
        std::string tokens;
        const auto each = [&](const stripline::packet_view<T> &packet) { tokens += token_of(packet, seed_) + " "; };
        const auto drained = subscriber_.drain(limit, each, std::nothrow);
        return drained ? tokens + "done" : failed(drained.error());
    }

    std::string hold(milliseconds timeout, std::unique_ptr<held> &into) override {
        const auto outcome = receive(timeout, [&](stripline::packet<T> packet) {
            into = std::make_unique<held_of<T>>(std::move(packet), seed_);
        });
        return outcome ? *outcome : into->token();
    }

    std::string describe(milliseconds timeout) override {
        std::ostringstream text;
        text.precision(17);
        const auto outcome = receive(timeout, [&](stripline::packet<T> packet) {
            const auto info = packet.info();
            const auto stream = packet.stream();
            const auto put = [&](const auto &number) {
                if (number) {
                    text << ' ' << *number;
                } else {
                    text << " -";
                }
            };
            text << "ok " << (info.time ? info.time->time_since_epoch().count() : 0) << ' '
                 << (info.intended ? info.intended->time_since_epoch().count() : 0) << ' ' << stream.id;
            put(stream.sample_rate_hz);
            put(stream.center_frequency_hz);
            put(stream.row_length);
            text << ' ' << packet.stream_json();
        });
        return outcome ? *outcome : text.str();
    }

private:
    static stripline::subscriber_options options_of(std::uint32_t hold) {
        stripline::subscriber_options options;
        options.hold = hold;
        return options;
    }

    // Receives one packet for a function. Returns the outcome that replaces a packet.
    template <class Each>
    std::optional<std::string> receive(milliseconds timeout, Each each) {
        auto found = subscriber_.receive_for(timeout, std::nothrow);
        if (!found) {
            return failed(found.error());
        }
        if (found->empty()) {
            return "empty";
        }
        if (found->ended()) {
            return ended(subscriber_);
        }
        each(*std::move(*found));
        return std::nullopt;
    }

    stripline::subscriber<T> subscriber_;
    std::uint64_t seed_;
};

template <class T>
class windows_of : public input {
public:
    windows_of(const stripline::node &node, const std::string &topic)
        : subscriber_(node.windowed_subscriber<T>(topic)), seed_(seed_of(topic)) {}

    std::size_t senders() override { return subscriber_.senders(); }
    stripline::waker waker() override { return subscriber_.waker(); }

    std::string windows(std::size_t count, std::size_t samples, std::size_t hop, milliseconds timeout) override {
        std::string tokens;
        for (; count > 0; count--) {
            auto found = subscriber_.receive_for(samples, timeout, std::nothrow);
            if (!found) {
                return tokens + failed(found.error());
            }
            if (found->empty()) {
                return tokens + "empty";
            }
            if (found->ended()) {
                return tokens + ended(subscriber_);
            }
            auto window = *std::move(*found);
            tokens += token_of(window, seed_) + (window.size() == samples ? "/whole " : "/short ");
            window.consume(hop);
        }
        return tokens + "done";
    }

private:
    stripline::windowed_subscriber<T> subscriber_;
    std::uint64_t seed_;
};

// Runs a function with an object of the named type.
template <class Run>
auto with_type(const std::string &name, Run run) {
    if (name == "u8") {
        return run(std::uint8_t());
    } else if (name == "s16") {
        return run(std::int16_t());
    } else if (name == "f32") {
        return run(float());
    } else if (name == "u64") {
        return run(std::uint64_t());
    } else if (name == "cf32") {
        return run(std::complex<float>());
    } else if (name == "cf64") {
        return run(std::complex<double>());
    } else if (name == "cs16") {
        return run(std::complex<std::int16_t>());
    }
    return run(detection());
}

stripline::span<const std::uint8_t> view(const std::vector<std::uint8_t> &bytes) {
    return stripline::span<const std::uint8_t>(bytes.data(), bytes.size());
}

stripline::operation_type operation_of(const std::string &name) {
    stripline::operation_type type;
    type.name = name;
    return type;
}

stripline::service service_of(const std::string &name) {
    stripline::service service(name);
    service.add(operation_of("double"), [](auto request, stripline::responder &responder) {
        responder.reply(view(encode(2 * decode(request))));
    });
    service.add(operation_of("fail"), [](auto request, stripline::responder &responder) { responder.fail(request); });
    service.add(operation_of("refuse"), [](auto, stripline::responder &responder) {
        responder.refuse("the antenna is not plugged in");
    });
    service.add(operation_of("throw"), [](auto, stripline::responder &) {
        throw std::runtime_error("the antenna has fallen over");
    });
    stripline::operation_type typed = operation_of("typed");
    typed.request = "message/cbor(u64)";
    service.add(typed, [](auto request, stripline::responder &responder) {
        responder.reply(view(encode(2 * decode(request))));
    });
    service.add(operation_of("stick"), [](auto, stripline::responder &) {
        answer("stuck");
        for (;;) {
            pause();
        }
    });
    return service;
}

// The waker for `wake_up`, the handler of SIGINT.
const stripline::waker *volatile watched = nullptr;

void wake_up(int) { watched->wake(); }

class end {
public:
    std::string perform(const std::string &line) {
        const words_t words = split(line);
        const std::string &command = words[0];
        if (command == "node") {
            stripline::node_options options;
            options.domain = words[1];
            std::string topics = rest(line, 2);
            for (char &symbol : topics) {
                symbol = symbol == ';' ? '\n' : symbol;
            }
            options.topics = topics;
            node_.emplace(options);
        } else if (command == "close") {
            close();
        } else if (command == "publish") {
            outputs_[words[1]] = with_type(words[3], [&](auto sample) -> std::unique_ptr<output> {
                return std::make_unique<output_of<decltype(sample)>>(*node_, words[2]);
            });
        } else if (command == "subscribe") {
            inputs_[words[1]] = with_type(words[3], [&](auto sample) -> std::unique_ptr<input> {
                const auto hold = static_cast<std::uint32_t>(number(words[4]));
                return std::make_unique<input_of<decltype(sample)>>(*node_, words[2], hold);
            });
        } else if (command == "windows") {
            inputs_[words[1]] = with_type(words[3], [&](auto sample) -> std::unique_ptr<input> {
                return std::make_unique<windows_of<decltype(sample)>>(*node_, words[2]);
            });
        } else if (command == "publish-messages") {
            auto made = node_->message_publisher(words[2], words[3]);
            outputs_[words[1]] = std::make_unique<output_of<std::uint8_t>>(std::move(made), words[2]);
        } else if (command == "subscribe-messages") {
            auto made = node_->message_subscriber(words[2], words[3]);
            inputs_[words[1]] = std::make_unique<input_of<std::uint8_t>>(std::move(made), words[2]);
        } else if (command == "send-messages") {
            for (std::size_t place = 2; place < words.size(); place++) {
                outputs_.at(words[1])->send_message(encoded(words[place]));
            }
            return "ok " + std::to_string(outputs_.at(words[1])->sequence());
        } else if (command == "take-messages") {
            return inputs_.at(words[1])->take_messages(number(words[2]), milliseconds(number(words[3])));
        } else if (command == "handle") {
            const auto fails_at = words[2] == "-" ? std::nullopt : std::optional(number(words[2]));
            return inputs_.at(words[1])->handle(fails_at);
        } else if (command == "many") {
            outputs_.at(words[1])->send_many(number(words[2]), number(words[3]));
            return "ok " + std::to_string(outputs_.at(words[1])->sequence());
        } else if (command == "drain") {
            return inputs_.at(words[1])->drain(number(words[2]));
        } else if (command == "receivers") {
            return outputs_.at(words[1])->wait_for_receivers(number(words[2])) ? "ok" : "empty";
        } else if (command == "peers") {
            const auto found = outputs_.find(words[1]);
            return "ok " + std::to_string(found != outputs_.end() ? found->second->receivers()
                                                                  : inputs_.at(words[1])->senders());
        } else if (command == "stream") {
            set_stream(words, rest(line, 6));
        } else if (command == "send") {
            return send(words);
        } else if (command == "fill") {
            return fill_up(words);
        } else if (command == "loan") {
            output &out = *outputs_.at(words[1]);
            out.lend(number(words[2]), [] {
                answer("lent");
                std::string next;
                std::getline(std::cin, next);
            });
            return "ok " + std::to_string(out.sequence());
        } else if (command == "finish") {
            outputs_.at(words[1])->finish(milliseconds(number(words[2])));
        } else if (command == "abandon") {
            outputs_.at(words[1])->abandon();
            outputs_.erase(words[1]);
        } else if (command == "drop") {
            outputs_.erase(words[1]);
            inputs_.erase(words[1]);
            clients_.erase(words[1]);
            servers_.erase(words[1]);
        } else if (command == "take") {
            return inputs_.at(words[1])->take(number(words[2]), milliseconds(number(words[3])));
        } else if (command == "hold") {
            std::unique_ptr<held> found;
            const std::string token = inputs_.at(words[1])->hold(milliseconds(number(words[3])), found);
            if (found != nullptr) {
                held_[words[2]] = std::move(found);
            }
            return token;
        } else if (command == "check") {
            return held_.at(words[1])->token();
        } else if (command == "release") {
            held_.erase(words[1]);
        } else if (command == "refuse") {
            held_.at(words[1])->refuse(rest(line, 2));
            held_.erase(words[1]);
        } else if (command == "window") {
            const auto samples = number(words[3]), hop = number(words[4]);
            return inputs_.at(words[1])->windows(number(words[2]), samples, hop, milliseconds(number(words[5])));
        } else if (command == "describe") {
            return inputs_.at(words[1])->describe(milliseconds(number(words[2])));
        } else if (command == "refusals") {
            return refusals();
        } else if (command == "watch") {
            watch(words[1]);
        } else if (command == "client") {
            stripline::client_options options;
            options.deadline = milliseconds(number(words[3]));
            clients_.emplace(words[1], stripline::client(*node_, words[2], options));
        } else if (command == "servers") {
            return clients_.at(words[1]).wait_for_servers(number(words[2]), test_timeout) ? "ok" : "empty";
        } else if (command == "call") {
            return call(words);
        } else if (command == "server") {
            servers_.emplace(words[1], stripline::server(*node_, service_of(words[2])));
        } else if (command == "serve") {
            for (auto left = number(words[2]); left > 0; left--) {
                if (!servers_.at(words[1]).serve_one(milliseconds(number(words[3])))) {
                    return "empty";
                }
            }
        } else {
            throw std::logic_error("unknown command: " + line);
        }
        return "ok";
    }

    void close() {
        clients_.clear();
        servers_.clear();
        held_.clear();
        inputs_.clear();
        outputs_.clear();
        watched = nullptr;
        waker_.reset();
        node_.reset();
    }

private:
    static words_t split(const std::string &line) {
        std::istringstream from(line);
        words_t words;
        for (std::string word; std::getline(from, word, ' ');) {
            words.push_back(word);
        }
        return words;
    }

    // Returns the rest of a line after `count` words.
    static std::string rest(const std::string &line, std::size_t count) {
        std::size_t at = 0;
        for (; count > 0; count--) {
            at = line.find(' ', at) + 1;
        }
        return line.substr(at);
    }

    void set_stream(const words_t &words, const std::string &more) {
        stripline::stream_description stream;
        stream.id = words[2];
        if (words[3] != "-") {
            stream.sample_rate_hz = std::stod(words[3]);
        }
        if (words[4] != "-") {
            stream.center_frequency_hz = std::stod(words[4]);
        }
        if (words[5] != "-") {
            stream.row_length = static_cast<std::uint32_t>(number(words[5]));
        }
        stream.more = more;
        outputs_.at(words[1])->set_stream(stream);
    }

    std::string send(const words_t &words) {
        output &out = *outputs_.at(words[1]);
        std::vector<std::size_t> sizes;
        std::istringstream from(words[3]);
        for (std::string size; std::getline(from, size, ',');) {
            sizes.push_back(number(size));
        }
        for (std::size_t packet = 0; packet < number(words[2]); packet++) {
            out.send(sizes[packet % sizes.size()], sending(packet, words, 4));
        }
        return "ok " + std::to_string(out.sequence());
    }

    std::string fill_up(const words_t &words) {
        output &out = *outputs_.at(words[1]);
        try {
            for (;;) {
                out.send(number(words[2]), sending(0, {"way=try"}, 0));
            }
        } catch (const stripline::no_room_error &) {
            return "ok " + std::to_string(out.sequence());
        }
    }

    std::string refusals() {
        std::string text = "ok ";
        for (const auto &refused : node_->report().refused) {
            text += (text == "ok " ? "" : " | ") + refused.connection + ": " + refused.reason;
        }
        return text;
    }

    void watch(const std::string &name) {
        const auto out = outputs_.find(name);
        const auto in = inputs_.find(name);
        auto made = std::make_unique<stripline::waker>(
            out != outputs_.end()  ? out->second->waker()
            : in != inputs_.end() ? in->second->waker()
                                   : clients_.at(name).waker());
        watched = made.get();
        waker_ = std::move(made);
    }

    std::string call(const words_t &words) {
        stripline::operation_type type = operation_of(words[2]);
        if (words.size() > 4) {
            type.request = words[4];
        }
        const auto operation = clients_.at(words[1]).operation(type);
        auto request = encode(number(words[3]));
        if (words.size() > 4 && words[4].find("(text)") != std::string::npos) {
            // A text of one digit.
            request = {0x61, static_cast<std::uint8_t>(words[3].at(0))};
        }
        const auto reply = operation.call(view(request), std::nothrow);
        if (reply) {
            return "ok " + std::to_string(decode(reply->bytes()));
        }
        if (reply.code() == stripline::status::user_error) {
            return "error user-error " + std::to_string(decode(reply.error().user_error()));
        }
        return failed(reply.error());
    }

    std::optional<stripline::node> node_;
    std::map<std::string, std::unique_ptr<output>> outputs_;
    std::map<std::string, std::unique_ptr<input>> inputs_;
    std::map<std::string, std::unique_ptr<held>> held_;
    std::map<std::string, stripline::client> clients_;
    std::map<std::string, stripline::server> servers_;
    std::unique_ptr<stripline::waker> waker_;
};

}  // namespace

int main() {
    struct sigaction action {};
    action.sa_handler = wake_up;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, nullptr);
    end here;
    answer("ready");
    for (std::string line; std::getline(std::cin, line);) {
        try {
            answer(here.perform(line));
        } catch (const stripline::error &error) {
            answer(failed(error.reason()));
        }
    }
    here.close();
}
