// A program with BulkIO data ports, built only from the IDL with omniidl and g++: a client, a
// servant, and an implementation of `CF::Port`. `bulkio_peer.py` builds and runs it.
//
//     peer [omniORB's options] push REFERENCE TYPE COUNT ELEMENTS way FILE
//     peer serve TYPE IOR_FILE FILE
//     peer stall TYPE IOR_FILE
//     peer uses TYPE IOR_FILE COUNT ELEMENTS FILE
//     peer join USES_REFERENCE TYPE COUNT FILE
//     peer faults PROVIDES_REFERENCE
//     peer bad-uses USES_REFERENCE

#include <omniORB4/CORBA.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "bulkio.hh"

namespace {

CORBA::ORB_var orb;

// A single insertion, because several threads print at the same time.
void say(const std::string &line) { std::cout << line + "\n" << std::flush; }

[[noreturn]] void fail(const std::string &why) {
  say("failed: " + why);
  std::_Exit(1);
}

std::string name_of(const CORBA::SystemException &e) { return e._name(); }

// The same numbers in each run.
class Random {
 public:
  explicit Random(uint64_t seed) : state(seed * 2654435761u + 88172645463325252u) {}
  uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  }

 private:
  uint64_t state;
};

template <class P, class S>
struct Kind {
  using Port = P;
  using Sequence = S;
};

const double PERIOD = 5e-7;
const double FREQUENCY = 1.09e9;
const double BEGIN = 1700000000;

BULKIO::StreamSRI description(const char *stream, bool is_complex) {
  BULKIO::StreamSRI sri;
  sri.hversion = 1;
  sri.xstart = 0;
  sri.xdelta = PERIOD;
  sri.xunits = 1;
  sri.subsize = 0;
  sri.ystart = sri.ydelta = 0;
  sri.yunits = 0;
  sri.mode = is_complex;
  sri.streamID = stream;
  sri.blocking = true;
  sri.keywords.length(3);
  sri.keywords[0].id = "CHAN_RF";
  sri.keywords[0].value <<= CORBA::Double(FREQUENCY);
  sri.keywords[1].id = "GAIN";
  sri.keywords[1].value <<= CORBA::Long(-7);
  sri.keywords[2].id = "SITE";
  sri.keywords[2].value <<= "hill";
  return sri;
}

BULKIO::PrecisionUTCTime time_of(uint64_t number) {
  BULKIO::PrecisionUTCTime time;
  time.tcmode = BULKIO::TCM_CPU;
  time.tcstatus = BULKIO::TCS_VALID;
  time.toff = 0;
  time.twsec = BEGIN + static_cast<double>(number / 1000);
  time.tfsec = static_cast<double>(number % 1000) / 1000 + 0.000000123;
  return time;
}

// Fills packet `number` with elements of any bits.
template <class Sequence>
void fill(Sequence &data, uint64_t number, CORBA::ULong elements) {
  data.length(elements);
  Random random(number + 1);
  auto bytes = reinterpret_cast<uint8_t *>(data.get_buffer());
  size_t size = elements * sizeof data[0];
  for (size_t place = 0; place < size; place += 8) {
    uint64_t word = random.next();
    std::memcpy(bytes + place, &word, std::min<size_t>(8, size - place));
  }
}

CORBA::Object_ptr find(const std::string &reference) {
  std::string text = reference;
  if (text.compare(0, 4, "IOR:") && text.compare(0, 5, "corba")) {
    std::ifstream file(text);
    if (!std::getline(file, text)) fail("no reference in " + reference);
  }
  return orb->string_to_object(text.c_str());
}

void publish(CORBA::Object_ptr object, const std::string &file) {
  CORBA::String_var text = orb->object_to_string(object);
  std::string unfinished = file + ".new";
  std::ofstream(unfinished) << text << "\n";
  if (std::rename(unfinished.c_str(), file.c_str())) fail("cannot write " + file);
}

// Pushes packets and the end of their stream, and writes their bytes to a file.
template <class K>
void push(CORBA::Object_ptr object, bool is_complex, uint64_t count, CORBA::ULong elements, bool is_oneway,
          const std::string &file) {
  typename K::Port::_var_type port = K::Port::_narrow(object);
  if (CORBA::is_nil(port)) fail("the object has another type");
  std::ofstream out(file, std::ios::binary | std::ios::app);
  port->pushSRI(description("there", is_complex));
  typename K::Sequence data;
  for (uint64_t number = 0; number < count; ++number) {
    fill(data, number, elements);
    auto time = time_of(number);
    if (is_oneway) {
      CORBA::Request_var request = port->_request("pushPacket");
      request->add_in_arg() <<= data;
      request->add_in_arg() <<= time;
      request->add_in_arg() <<= CORBA::Any::from_boolean(false);
      request->add_in_arg() <<= "there";
      request->send_oneway();
    } else {
      port->pushPacket(data, time, false, "there");
    }
    auto size = static_cast<std::streamsize>(elements * sizeof data[0]);
    out.write(reinterpret_cast<const char *>(data.get_buffer()), size);
  }
  data.length(0);
  BULKIO::PrecisionUTCTime none{};
  port->pushPacket(data, none, true, "there");
}

// The packets that have arrived at a provides port.
struct Arrivals {
  std::mutex lock;
  std::condition_variable changed;
  uint64_t packets = 0, bytes = 0;
  bool has_ended = false, stalls = false;
  std::map<std::string, BULKIO::StreamSRI> streams;
  std::string last_time;
  std::ofstream file;
};

std::string text_of(const BULKIO::StreamSRI &sri) {
  char text[256];
  std::snprintf(text, sizeof text, "stream %s mode %d rate %.0f", sri.streamID.in(), sri.mode, 1 / sri.xdelta);
  std::string result = text;
  for (CORBA::ULong index = 0; index < sri.keywords.length(); ++index) {
    CORBA::Double number;
    CORBA::Long whole;
    const char *word;
    result += std::string(" ") + sri.keywords[index].id.in() + "=";
    if (sri.keywords[index].value >>= number) {
      result += std::to_string(static_cast<long long>(number));
    } else if (sri.keywords[index].value >>= whole) {
      result += std::to_string(whole);
    } else if (sri.keywords[index].value >>= word) {
      result += word;
    }
  }
  return result;
}

#define SERVANT(NAME, SEQUENCE)                                                                                \
  class NAME##Servant : public POA_BULKIO::NAME, public PortableServer::RefCountServantBase {                  \
   public:                                                                                                     \
    explicit NAME##Servant(Arrivals &arrivals) : arrivals(arrivals) {}                                         \
    void pushSRI(const BULKIO::StreamSRI &sri) override {                                                      \
      std::lock_guard<std::mutex> turn(arrivals.lock);                                                         \
      arrivals.streams[sri.streamID.in()] = sri;                                                               \
      say(text_of(sri));                                                                                       \
    }                                                                                                          \
    void pushPacket(const SEQUENCE &data, const BULKIO::PrecisionUTCTime &time, CORBA::Boolean ends,           \
                    const char *stream) override {                                                             \
      take(arrivals, data.get_buffer(), data.length() * sizeof(data[0]), time, ends, stream);                  \
    }                                                                                                          \
    BULKIO::PortUsageType state() override { return BULKIO::IDLE; }                                            \
    BULKIO::PortStatistics *statistics() override { return new BULKIO::PortStatistics; }                       \
    BULKIO::StreamSRISequence *activeSRIs() override { return new BULKIO::StreamSRISequence; }                 \
                                                                                                               \
   private:                                                                                                    \
    Arrivals &arrivals;                                                                                        \
  };

void take(Arrivals &arrivals, const void *bytes, size_t size, const BULKIO::PrecisionUTCTime &time, bool ends,
          const char *stream) {
  std::unique_lock<std::mutex> turn(arrivals.lock);
  if (!arrivals.streams.count(stream)) fail("a packet of a stream without a description");
  if (arrivals.stalls) {
    say("stalls");
    // Waits until the process ends.
    arrivals.changed.wait(turn, [] { return false; });
  }
  if (size) {
    ++arrivals.packets;
    arrivals.bytes += size;
    arrivals.file.write(static_cast<const char *>(bytes), static_cast<std::streamsize>(size));
    char text[128];
    std::snprintf(text, sizeof text, "%d %.0f %.9f", time.tcstatus, time.twsec, time.tfsec);
    arrivals.last_time = text;
  }
  arrivals.has_ended |= ends;
  arrivals.changed.notify_all();
}

SERVANT(dataOctet, CF::OctetSequence)
SERVANT(dataShort, PortTypes::ShortSequence)
SERVANT(dataUshort, PortTypes::UshortSequence)
SERVANT(dataLong, PortTypes::LongSequence)
SERVANT(dataUlong, PortTypes::UlongSequence)
SERVANT(dataFloat, PortTypes::FloatSequence)
SERVANT(dataDouble, PortTypes::DoubleSequence)

// Calls a function with the kind and the servant of a type, such as `float` or `cfloat`.
template <class Function>
auto with_type(std::string type, Function function) {
  bool is_complex = type[0] == 'c';
  if (is_complex) type.erase(0, 1);
#define TYPE(WORD, NAME, SEQUENCE) \
  if (type == WORD) return function(Kind<BULKIO::NAME, SEQUENCE>(), static_cast<NAME##Servant *>(nullptr), is_complex)
  TYPE("octet", dataOctet, CF::OctetSequence);
  TYPE("short", dataShort, PortTypes::ShortSequence);
  TYPE("ushort", dataUshort, PortTypes::UshortSequence);
  TYPE("long", dataLong, PortTypes::LongSequence);
  TYPE("ulong", dataUlong, PortTypes::UlongSequence);
  TYPE("float", dataFloat, PortTypes::FloatSequence);
  TYPE("double", dataDouble, PortTypes::DoubleSequence);
#undef TYPE
  fail("no type " + type);
}

template <class Servant, class... Arguments>
CORBA::Object_ptr activate(Arguments &&...arguments) {
  CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
  PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
  auto servant = new Servant(std::forward<Arguments>(arguments)...);
  PortableServer::ObjectId_var id = poa->activate_object(servant);
  servant->_remove_ref();
  return poa->id_to_reference(id);
}

// Waits for the end of the stream, or for `count` packets, and prints the packets that have
// arrived.
void await(Arrivals &arrivals, uint64_t count) {
  std::unique_lock<std::mutex> turn(arrivals.lock);
  arrivals.changed.wait(turn, [&] { return arrivals.has_ended || (count && arrivals.packets >= count); });
  arrivals.file.flush();
  const char *end = arrivals.has_ended ? " ended" : "";
  say("received " + std::to_string(arrivals.packets) + end + " time " + arrivals.last_time);
}

// A uses port of this program.
class Uses : public POA_CF::Port, public PortableServer::RefCountServantBase {
 public:
  using Push = std::function<void(CORBA::Object_ptr)>;

  explicit Uses(Push push) : push(std::move(push)) {}

  void connectPort(CORBA::Object_ptr object, const char *id) override {
    if (CORBA::is_nil(object)) throw CF::Port::InvalidPort(1, "nothing");
    say(std::string("connected ") + id);
    CORBA::Object_var target = CORBA::Object::_duplicate(object);
    connection = id;
    std::thread([this, target] {
      push(target);
      say("pushed");
    }).detach();
  }

  void disconnectPort(const char *id) override {
    if (connection != id) throw CF::Port::InvalidPort(2, "not connected");
    say(std::string("disconnected ") + id);
  }

 private:
  Push push;
  std::string connection;
};

// Makes a call that must fail, with one of these exceptions.
void expect(const char *what, const char *name, const std::function<void()> &call) {
  try {
    call();
  } catch (const CORBA::SystemException &e) {
    if (std::string(name).find(name_of(e)) == std::string::npos) fail(std::string(what) + " gives " + name_of(e));
    return say(std::string("refused: ") + what);
  } catch (const CF::Port::InvalidPort &e) {
    if (std::strcmp(name, "InvalidPort")) fail(std::string(what) + " gives InvalidPort");
    return say(std::string("refused: ") + what + ": " + e.msg.in());
  }
  fail(std::string(what) + " is taken");
}

void faults(CORBA::Object_ptr object) {
  BULKIO::dataFloat_var port = BULKIO::dataFloat::_narrow(object);
  if (CORBA::is_nil(port)) fail("the object has another type");
  BULKIO::dataShort_var other = BULKIO::dataShort::_narrow(object);
  if (!CORBA::is_nil(other)) fail("it is a dataShort, too");
  other = BULKIO::dataShort::_unchecked_narrow(object);
  PortTypes::FloatSequence data;
  auto time = time_of(0);
  auto sri = description("there", true);
  data.length(3);
  expect("an odd number of elements", "BAD_PARAM", [&] { port->pushPacket(data, time, false, "there"); });
  data.length(4);
  expect("a packet of another type", "MARSHAL", [&] {
    PortTypes::ShortSequence shorts;
    shorts.length(1000);
    other->pushPacket(shorts, time, false, "there");
  });
  sri.mode = 0;
  expect("the mode of scalars", "BAD_PARAM", [&] { port->pushSRI(sri); });
  sri.mode = 7;
  expect("the mode 7", "BAD_PARAM", [&] { port->pushSRI(sri); });
  sri.mode = 1;
  sri.subsize = -1;
  expect("rows of less than nothing", "BAD_PARAM", [&] { port->pushSRI(sri); });
  sri.subsize = 0;
  expect("a name of 2000 bytes", "BAD_PARAM", [&] {
    port->pushPacket(data, time, false, std::string(2000, 'x').c_str());
  });
  expect("more than a message may have", "MARSHAL TRANSIENT COMM_FAILURE", [&] {
    PortTypes::FloatSequence large;
    large.length(1000000);
    port->pushPacket(large, time, false, "there");
  });
  for (double step : {0.0, -1.0, 0.0 / 0.0}) {
    sri.xdelta = step;
    port->pushSRI(sri);
  }
  BULKIO::StreamSRISequence_var active = port->activeSRIs();
  if (active->length() != 1) fail("there are " + std::to_string(active->length()) + " streams");
  BULKIO::PortStatistics_var statistics = port->statistics();
  if (statistics->streamIDs.length() != 1) fail("the statistics name no stream");
  time.tcstatus = BULKIO::TCS_INVALID;
  port->pushPacket(data, time, true, "there");
  active = port->activeSRIs();
  if (active->length() != 0) fail("an ended stream is active");
  say("done");
}

void bad_uses(CORBA::Object_ptr object) {
  CF::Port_var port = CF::Port::_narrow(object);
  if (CORBA::is_nil(port)) fail("it is not a CF::Port");
  Arrivals arrivals;
  CORBA::Object_var shorts = activate<dataShortServant>(arrivals);
  CORBA::Object_var floats = activate<dataFloatServant>(arrivals);
  expect("nothing", "InvalidPort", [&] { port->connectPort(CORBA::Object::_nil(), "a"); });
  expect("a port of another type", "InvalidPort", [&] { port->connectPort(shorts, "a"); });
  expect("itself", "InvalidPort", [&] { port->connectPort(object, "a"); });
  CORBA::Object_var dead = orb->string_to_object("corbaloc::127.0.0.1:9/none");
  omniORB::setClientCallTimeout(dead, 1000);
  expect("a dead object", "InvalidPort", [&] { port->connectPort(dead, "a"); });
  CORBA::Object_var remote = orb->string_to_object("corbaloc::192.0.2.1:9/none");
  expect("an object of another host", "InvalidPort", [&] { port->connectPort(remote, "a"); });
  expect("a connection that does not exist", "InvalidPort", [&] { port->disconnectPort("a"); });
  port->connectPort(floats, "a");
  expect("a name that is taken", "InvalidPort", [&] { port->connectPort(floats, "a"); });
  BULKIO::UsesPortStatisticsProvider_var list = BULKIO::UsesPortStatisticsProvider::_narrow(object);
  ExtendedCF::UsesConnectionSequence_var connections = list->connections();
  if (connections->length() != 1 || std::strcmp(connections[0].connectionId, "a")) fail("the connection is not listed");
  BULKIO::UsesPortStatisticsSequence_var statistics = list->statistics();
  if (statistics->length() != 1) fail("there are no statistics");
  port->disconnectPort("a");
  say("done");
}

}  // namespace

int main(int count, char **arguments) {
  try {
    orb = CORBA::ORB_init(count, arguments);
    CORBA::Object_var object = orb->resolve_initial_references("RootPOA");
    PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = poa->the_POAManager();
    manager->activate();
    std::vector<std::string> words(arguments + 1, arguments + count);
    words.resize(8);
    const std::string &command = words[0];
    auto number = [&](size_t index) { return static_cast<CORBA::ULong>(std::stoul(words[index])); };
    if (command == "push") {
      object = find(words[1]);
      with_type(words[2], [&](auto kind, auto *, bool is_complex) {
        push<decltype(kind)>(object, is_complex, number(3), number(4), words[5] == "one-way", words[6]);
      });
      say("pushed");
    } else if (command == "serve" || command == "stall") {
      with_type(words[1], [&](auto, auto *servant, bool) {
        using Servant = typename std::remove_pointer<decltype(servant)>::type;
        Arrivals arrivals;
        arrivals.stalls = command == "stall";
        if (!words[3].empty()) arrivals.file.open(words[3], std::ios::binary);
        object = activate<Servant>(arrivals);
        publish(object, words[2]);
        await(arrivals, 0);
        // Waits for calls that have not returned.
        orb->shutdown(true);
      });
    } else if (command == "uses") {
      with_type(words[1], [&](auto kind, auto *, bool is_complex) {
        object = activate<Uses>([&, is_complex](CORBA::Object_ptr target) {
          push<decltype(kind)>(target, is_complex, number(3), number(4), false, words[5]);
        });
        publish(object, words[2]);
        orb->run();
      });
    } else if (command == "join") {
      with_type(words[2], [&](auto, auto *servant, bool) {
        using Servant = typename std::remove_pointer<decltype(servant)>::type;
        Arrivals arrivals;
        arrivals.file.open(words[4], std::ios::binary | std::ios::app);
        CORBA::Object_var target = activate<Servant>(arrivals);
        object = find(words[1]);
        CF::Port_var uses = CF::Port::_narrow(object);
        if (CORBA::is_nil(uses)) fail("it is not a CF::Port");
        uses->connectPort(target, "joined");
        await(arrivals, number(3));
        if (!arrivals.has_ended) uses->disconnectPort("joined");
        await(arrivals, 0);
        orb->shutdown(true);
      });
    } else if (command == "faults") {
      object = find(words[1]);
      faults(object);
    } else if (command == "bad-uses") {
      object = find(words[1]);
      bad_uses(object);
    } else {
      fail("no command " + command);
    }
  } catch (const CORBA::SystemException &e) {
    fail(name_of(e) + " (" + (e.NP_minorString() ? e.NP_minorString() : "") + ")");
  } catch (const CORBA::UserException &e) {
    fail(e._name());
  }
  return 0;
}
