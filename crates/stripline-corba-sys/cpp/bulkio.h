// The common parts of both kinds of BulkIO data ports.
#pragma once

#include <omniORB4/CORBA.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string>

#include "bulkio.hh"
#include "guard.h"
#include "stripline_bulkio.h"

namespace stripline {

// The longest wait for another program, for calls that should not take long.
const CORBA::ULong TIMEOUT_MS = 10000;

// Limits the time of calls that this thread makes during the life of this object.
class CallTimeout {
 public:
  explicit CallTimeout(CORBA::ULong milliseconds = TIMEOUT_MS) { omniORB::setClientThreadCallTimeout(milliseconds); }
  ~CallTimeout() { omniORB::setClientThreadCallTimeout(0); }
  CallTimeout(const CallTimeout &) = delete;

 private:
  // Registers a thread that omniORB has not created.
  omni_thread::ensure_self self;
};

// Statistics of calls received or sent.
class Traffic {
 public:
  void count(size_t elements, size_t bytes, double fill) {
    std::lock_guard<std::mutex> turn(lock);
    last = std::chrono::steady_clock::now();
    if (!calls++) first = last;
    this->elements += static_cast<double>(elements);
    this->bytes += static_cast<double>(bytes);
    average += (fill - average) / 16;
  }

  // Returns rates since the first call.
  BULKIO::PortStatistics statistics(const std::string &name, const std::set<std::string> &streams) const {
    BULKIO::PortStatistics result;
    std::lock_guard<std::mutex> turn(lock);
    auto now = std::chrono::steady_clock::now();
    auto seconds = [&](std::chrono::steady_clock::time_point since) {
      return calls ? std::chrono::duration<double>(now - since).count() : 0.0;
    };
    double period = seconds(first);
    auto rate = [&](double count) { return static_cast<CORBA::Float>(period > 0 ? count / period : 0); };
    result.portName = name.c_str();
    result.elementsPerSecond = rate(elements);
    result.bitsPerSecond = rate(8 * bytes);
    result.callsPerSecond = rate(static_cast<double>(calls));
    result.averageQueueDepth = static_cast<CORBA::Float>(100 * average);
    result.timeSinceLastCall = static_cast<CORBA::Float>(seconds(last));
    result.streamIDs.length(static_cast<CORBA::ULong>(streams.size()));
    CORBA::ULong index = 0;
    for (const auto &stream : streams) result.streamIDs[index++] = stream.c_str();
    return result;
  }

 private:
  mutable std::mutex lock;
  unsigned long long calls = 0;
  double elements = 0, bytes = 0, average = 0;
  std::chrono::steady_clock::time_point first, last;
};

// A port of this process.
class BulkioPort {
 public:
  virtual ~BulkioPort() = default;
  // Returns the servant, which counts references to it.
  virtual PortableServer::ServantBase *servant() = 0;

  // Activates the port with an object key.
  void activate(const char *key);
  void deactivate();

  CORBA::Object_var object;
  std::string name;
  // Whether the port was activated, so that the context must be ended.
  bool is_active = false;
};

// Returns the object of a reference. Raises an exception with the reason.
CORBA::Object_ptr object_of(const char *reference);

// Returns the repository id in a reference.
const char *type_of(CORBA::Object_ptr object);

// The types that belong to a data port.
template <class Port>
struct Data;

#define STRIPLINE_DATA(NAME, SEQUENCE)                  \
  template <>                                           \
  struct Data<BULKIO::NAME> {                           \
    using Sequence = SEQUENCE;                          \
    using Servant = POA_BULKIO::NAME;                   \
    using Implementation = BULKIO::_impl_##NAME;        \
    static const char *id() { return BULKIO::NAME::_PD_repoId; } \
  };
STRIPLINE_DATA(dataOctet, CF::OctetSequence)
STRIPLINE_DATA(dataShort, PortTypes::ShortSequence)
STRIPLINE_DATA(dataUshort, PortTypes::UshortSequence)
STRIPLINE_DATA(dataLong, PortTypes::LongSequence)
STRIPLINE_DATA(dataUlong, PortTypes::UlongSequence)
STRIPLINE_DATA(dataFloat, PortTypes::FloatSequence)
STRIPLINE_DATA(dataDouble, PortTypes::DoubleSequence)
#undef STRIPLINE_DATA

// Creates the port of a type: `Port<BULKIO::dataFloat>` and so on.
template <template <class> class Port, class... Arguments>
typename Port<BULKIO::dataOctet>::Base *make_port(int type, Arguments... arguments) {
  switch (type) {
    case STRIPLINE_BULKIO_OCTET: return new Port<BULKIO::dataOctet>(arguments...);
    case STRIPLINE_BULKIO_SHORT: return new Port<BULKIO::dataShort>(arguments...);
    case STRIPLINE_BULKIO_USHORT: return new Port<BULKIO::dataUshort>(arguments...);
    case STRIPLINE_BULKIO_LONG: return new Port<BULKIO::dataLong>(arguments...);
    case STRIPLINE_BULKIO_ULONG: return new Port<BULKIO::dataUlong>(arguments...);
    case STRIPLINE_BULKIO_FLOAT: return new Port<BULKIO::dataFloat>(arguments...);
    case STRIPLINE_BULKIO_DOUBLE: return new Port<BULKIO::dataDouble>(arguments...);
    default: throw CORBA::BAD_PARAM(0, CORBA::COMPLETED_NO);
  }
}

}  // namespace stripline
