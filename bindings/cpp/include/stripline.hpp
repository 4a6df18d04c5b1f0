/// @file
/// Stripline for C++17 and later: low-loss links between radio components. Includes all headers
/// except `stripline/json.hpp`, which needs nlohmann-json.
///
/// The headers need only `stripline.h` and the library. docs/cpp.md has two programs and the rules.
#ifndef STRIPLINE_HPP
#define STRIPLINE_HPP

#include "stripline/call.hpp"
#include "stripline/callback.hpp"
#include "stripline/cbor.hpp"
#include "stripline/component.hpp"
#include "stripline/config.hpp"
#include "stripline/error.hpp"
#include "stripline/harness.hpp"
#include "stripline/log.hpp"
#include "stripline/message.hpp"
#include "stripline/node.hpp"
#include "stripline/packet.hpp"
#include "stripline/ports.hpp"
#include "stripline/publisher.hpp"
#include "stripline/sample.hpp"
#include "stripline/serve.hpp"
#include "stripline/span.hpp"
#include "stripline/subscriber.hpp"
#include "stripline/time.hpp"
#include "stripline/wait_set.hpp"
#include "stripline/waker.hpp"

#endif
