/// @file
/// The common part of the blocks for messages.
#ifndef STRIPLINE_GR_REFUSALS_HPP
#define STRIPLINE_GR_REFUSALS_HPP

#include "link.hpp"

#include <cstdint>
#include <mutex>
#include <string>

namespace stripline::gr {

/// The messages that a block has refused. Any thread may call the functions.
class refusals {
public:
    void add(const std::string &reason) {
        const std::lock_guard<std::mutex> guard(mutex_);
        count_ += 1;
        last_ = reason;
    }
    std::uint64_t count() const {
        const std::lock_guard<std::mutex> guard(mutex_);
        return count_;
    }
    std::string last() const {
        const std::lock_guard<std::mutex> guard(mutex_);
        return last_;
    }

private:
    mutable std::mutex mutex_;
    std::uint64_t count_ = 0;
    std::string last_;
};

/// Returns the type of a block's messages.
inline std::string message_type_of(const message_options &settings) {
    return settings.type.empty() ? std::string("message/cbor") : settings.type;
}

}  // namespace stripline::gr

#endif
