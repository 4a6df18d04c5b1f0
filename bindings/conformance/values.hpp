// The values that the end in C++ sends and checks: payloads, and messages and whole numbers in CBOR
// (RFC 8949).
#ifndef VALUES_HPP
#define VALUES_HPP

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <stripline.hpp>

inline std::uint64_t number(const std::string &word) { return std::stoull(word); }

// The payload: each byte is a function of the index in the stream, and of the topic.
inline std::uint8_t byte_of(std::uint64_t number, std::uint64_t seed) {
    return static_cast<std::uint8_t>(number * 167 + (number >> 8) * 13 + seed);
}

template <class T>
void fill(stripline::span<T> samples, std::uint64_t index, std::uint64_t seed) {
    std::vector<std::uint8_t> bytes(samples.size() * sizeof(T));
    for (std::size_t place = 0; place < bytes.size(); place++) {
        bytes[place] = byte_of(index * sizeof(T) + place, seed);
    }
    if (!bytes.empty()) {
        std::memcpy(static_cast<void *>(samples.data()), bytes.data(), bytes.size());
    }
}

template <class T>
bool is_sound(stripline::span<const T> samples, std::uint64_t index, std::uint64_t seed) {
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(samples.data());
    for (std::size_t place = 0; place < samples.size() * sizeof(T); place++) {
        if (bytes[place] != byte_of(index * sizeof(T) + place, seed)) {
            return false;
        }
    }
    return true;
}

inline std::uint64_t seed_of(const std::string &topic) {
    std::uint64_t seed = 0;
    for (const char symbol : topic) {
        seed += static_cast<std::uint8_t>(symbol);
    }
    return seed;
}

// Returns the bytes of a message from a command: in hexadecimal, or `bytes:` and the length of a
// byte string.
inline std::vector<std::uint8_t> encoded(const std::string &word) {
    std::vector<std::uint8_t> message;
    if (word.rfind("bytes:", 0) == 0) {
        const std::uint64_t length = number(word.substr(6));
        message.push_back(0x5a);
        for (unsigned place = 4; place > 0; place--) {
            message.push_back(static_cast<std::uint8_t>(length >> 8 * (place - 1)));
        }
        for (std::uint64_t place = 0; place < length; place++) {
            message.push_back(static_cast<std::uint8_t>(place * 7 % 256));
        }
        return message;
    }
    for (std::size_t place = 0; place < word.size(); place += 2) {
        message.push_back(static_cast<std::uint8_t>(std::stoul(word.substr(place, 2), nullptr, 16)));
    }
    return message;
}

// Returns the printed form of a message: in hexadecimal, or the length and the sum of the bytes.
template <class T>
std::string printed(stripline::span<const T> samples) {
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(samples.data());
    const std::size_t length = samples.size() * sizeof(T);
    std::uint64_t sum = 0;
    std::string text;
    for (std::size_t place = 0; place < length; place++) {
        std::array<char, 3> digits{};
        std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned>(bytes[place]));
        text += digits.data();
        sum += bytes[place];
    }
    return length > 64 ? "#" + std::to_string(length) + "." + std::to_string(sum) : text;
}

// Whole numbers in CBOR (RFC 8949), written in the shortest form, and read in every form.
inline std::vector<std::uint8_t> encode(std::uint64_t number) {
    const unsigned width = number < 24 ? 0 : number < 1 << 8 ? 1 : number < 1 << 16 ? 2 : number >> 32 == 0 ? 4 : 8;
    std::vector<std::uint8_t> bytes = {static_cast<std::uint8_t>(
        width == 0 ? number : width == 1 ? 24 : width == 2 ? 25 : width == 4 ? 26 : 27)};
    for (unsigned place = width; place > 0; place--) {
        bytes.push_back(static_cast<std::uint8_t>(number >> 8 * (place - 1)));
    }
    return bytes;
}

inline std::uint64_t decode(stripline::span<const std::uint8_t> bytes) {
    if (bytes.size() == 0 || bytes[0] > 27 || bytes.size() != 1 + (bytes[0] < 24 ? 0 : 1U << (bytes[0] - 24))) {
        throw std::runtime_error("this is not a whole number in CBOR");
    }
    std::uint64_t number = bytes[0] < 24 ? bytes[0] : 0;
    for (std::size_t place = 1; place < bytes.size(); place++) {
        number = number << 8 | bytes[place];
    }
    return number;
}

#endif
