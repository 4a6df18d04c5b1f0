// The uses ports of BulkIO: pushing to provides ports, and the servants that connect them.

#include <omniORB4/CORBA.h>
#include <omniORB4/callDescriptor.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <vector>

#include "bulkio.h"
#include "connection.h"

using stripline::guarded;

namespace {

// The maximum number of connections of a port.
const size_t CONNECTIONS_MAX = 256;
// The time for which a disconnection waits for the running call.
const std::chrono::seconds LAST_CALL(1);

// A call that another thread can end, through the socket of the connection.
class Call {
 public:
  ~Call() { finish(); }

  // Called when the call is about to be sent. Throws if the call was ended before.
  void begin(cdrStream &stream) {
    int fd = stripline::descriptor_of(stripline::connection_of(stream));
    std::lock_guard<std::mutex> turn(lock);
    if (is_ended) throw CORBA::NO_PERMISSION(0, CORBA::COMPLETED_NO);
    close_copy();
    // The descriptor is duplicated, because omniORB may close the original at any time.
    if (fd >= 0) copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  }

  void finish() {
    std::lock_guard<std::mutex> turn(lock);
    close_copy();
  }

  void end() {
    std::lock_guard<std::mutex> turn(lock);
    is_ended = true;
    if (copy >= 0) shutdown(copy, SHUT_RDWR);
  }

 private:
  void close_copy() {
    if (copy >= 0) close(copy);
    copy = -1;
  }

  std::mutex lock;
  int copy = -1;
  bool is_ended = false;
};

class StreamPush : public omniCallDescriptor {
 public:
  StreamPush(Call &call, const BULKIO::StreamSRI &sri)
      : omniCallDescriptor(local, "pushSRI", 8, 0, nullptr, 0, 0), call(call), sri(sri) {}

  void marshalArguments(cdrStream &stream) override {
    call.begin(stream);
    sri >>= stream;
  }

 private:
  static void local(omniCallDescriptor *descriptor, omniServant *servant) {
    auto port = static_cast<BULKIO::_impl_updateSRI *>(servant->_ptrToInterface(BULKIO::updateSRI::_PD_repoId));
    port->pushSRI(static_cast<StreamPush *>(descriptor)->sri);
  }

  Call &call;
  const BULKIO::StreamSRI &sri;
};

template <class Port>
class PacketPush : public omniCallDescriptor {
 public:
  using Sequence = typename stripline::Data<Port>::Sequence;

  PacketPush(Call &call, const Sequence &data, const BULKIO::PrecisionUTCTime &time, bool ends, const char *stream)
      : omniCallDescriptor(local, "pushPacket", 11, 0, nullptr, 0, 0),
        call(call),
        data(data),
        time(time),
        ends(ends),
        name(stream) {}

  void marshalArguments(cdrStream &stream) override {
    call.begin(stream);
    data >>= stream;
    time >>= stream;
    stream.marshalBoolean(ends);
    stream.marshalString(name, 0);
  }

 private:
  static void local(omniCallDescriptor *descriptor, omniServant *servant) {
    using Implementation = typename stripline::Data<Port>::Implementation;
    auto port = static_cast<Implementation *>(servant->_ptrToInterface(stripline::Data<Port>::id()));
    auto push = static_cast<PacketPush *>(descriptor);
    port->pushPacket(push->data, push->time, push->ends, push->name);
  }

  Call &call;
  const Sequence &data;
  const BULKIO::PrecisionUTCTime &time;
  bool ends;
  const char *name;
};

// The description of a stream that has not ended, and the version of the description.
struct Stream {
  BULKIO::StreamSRI sri;
  unsigned long long version;
};

// A connection to a provides port.
struct Connection {
  std::string id;
  CORBA::Object_var object;
  Call call;
  stripline::Traffic traffic;
  // The versions of the descriptions that the connection has. Used only by the thread that has set
  // `is_busy`.
  std::map<std::string, unsigned long long> has;
  // Whether a thread is in a call, and whether the connection was disconnected. Protected by the
  // lock of the port.
  bool is_busy = false, is_leaving = false;
};

// A packet to push.
struct Packet {
  const uint8_t *bytes;
  size_t elements;
  BULKIO::PrecisionUTCTime time;
  bool ends;
  const char *stream;
};

class UsesPort : public stripline::BulkioPort {
 public:
  UsesPort(const StriplineBulkioEvents &events, void *context) : events(events), context(context) {}

  ~UsesPort() override {
    if (is_active) events.ended(context);
  }

  virtual const char *type() const = 0;
  virtual size_t element_bytes() const = 0;
  virtual void call(Connection &connection, const Packet &packet) = 0;

  // Connects the port to a provides port of the same type, which must answer.
  void add(CORBA::Object_ptr object, const char *id) {
    {
      std::lock_guard<std::mutex> turn(lock);
      check_room(id);
    }
    if (CORBA::is_nil(object)) throw CF::Port::InvalidPort(1, "there is no object");
    auto connection = std::make_shared<Connection>();
    connection->id = id;
    // A separate reference with separate state.
    CORBA::String_var text = stripline::orb()->object_to_string(object);
    connection->object = stripline::object_of(text);
    try {
      stripline::CallTimeout timeout;
      if (!connection->object->_is_a(type()) || connection->object->_non_existent()) {
        std::string problem = std::string("it is not ") + type() + " but " + stripline::type_of(object);
        throw CF::Port::InvalidPort(1, problem.c_str());
      }
    } catch (const CORBA::SystemException &e) {
      const char *minor = e.NP_minorString();
      std::string problem = std::string("it does not answer: ") + e._name() + " (" + (minor ? minor : "") + ")";
      throw CF::Port::InvalidPort(1, problem.c_str());
    }
    {
      std::lock_guard<std::mutex> turn(lock);
      check_room(id);
      connections.push_back(connection);
    }
    events.connected(context, id);
  }

  // Disconnects. The streams end at the other side, if it answers in time.
  void remove(const char *id) {
    std::shared_ptr<Connection> connection;
    {
      std::unique_lock<std::mutex> turn(lock);
      for (auto each = connections.begin(); each != connections.end(); ++each) {
        if ((*each)->id != id) continue;
        connection = *each;
        connections.erase(each);
        break;
      }
      if (!connection) throw CF::Port::InvalidPort(2, "there is no connection of that name");
      connection->is_leaving = true;
      if (!changed.wait_for(turn, LAST_CALL, [&] { return !connection->is_busy; })) connection->call.end();
      changed.wait(turn, [&] { return !connection->is_busy; });
      connection->is_busy = true;
    }
    end_streams(*connection);
    events.disconnected(context, id, nullptr);
  }

  void set_stream(const BULKIO::StreamSRI &sri) {
    std::lock_guard<std::mutex> turn(lock);
    streams[std::string(sri.streamID)] = std::make_shared<const Stream>(Stream{sri, ++versions});
  }

  // Returns how many connections have taken a packet; -1 if pushing was ended.
  int push(const Packet &packet) {
    std::vector<std::shared_ptr<Connection>> all;
    std::shared_ptr<const Stream> stream;
    {
      std::lock_guard<std::mutex> turn(lock);
      if (is_ended) return -1;
      all = connections;
      auto found = streams.find(packet.stream);
      if (found == streams.end()) throw CORBA::BAD_INV_ORDER(0, CORBA::COMPLETED_NO);
      stream = found->second;
      if (packet.ends) streams.erase(found);
    }
    int taken = 0;
    for (const auto &connection : all) {
      if (!begin(*connection)) continue;
      std::string reason;
      bool is_taken = call_safely(reason, [&] {
        auto &has = connection->has[packet.stream];
        if (has != stream->version) {
          StreamPush push(connection->call, stream->sri);
          connection->object->_PR_getobj()->_invoke(push, 0);
          has = stream->version;
        }
        call(*connection, packet);
      });
      if (packet.ends) connection->has.erase(packet.stream);
      connection->call.finish();
      if (is_taken) {
        connection->traffic.count(packet.elements, packet.elements * element_bytes(), 0);
        ++taken;
      }
      if (finish(connection, is_taken)) events.disconnected(context, connection->id.c_str(), reason.c_str());
    }
    std::lock_guard<std::mutex> turn(lock);
    return is_ended ? -1 : taken;
  }

  void end_pushing() {
    std::lock_guard<std::mutex> turn(lock);
    is_ended = true;
    for (const auto &connection : connections) connection->call.end();
  }

  size_t count() {
    std::lock_guard<std::mutex> turn(lock);
    return connections.size();
  }

  ExtendedCF::UsesConnectionSequence *list() {
    std::lock_guard<std::mutex> turn(lock);
    ExtendedCF::UsesConnectionSequence_var result = new ExtendedCF::UsesConnectionSequence;
    result->length(static_cast<CORBA::ULong>(connections.size()));
    CORBA::ULong index = 0;
    for (const auto &connection : connections) {
      result[index].connectionId = connection->id.c_str();
      result[index++].port = connection->object;
    }
    return result._retn();
  }

  BULKIO::UsesPortStatisticsSequence *statistics_of_it() {
    std::lock_guard<std::mutex> turn(lock);
    std::set<std::string> names;
    for (const auto &stream : streams) names.insert(stream.first);
    BULKIO::UsesPortStatisticsSequence_var result = new BULKIO::UsesPortStatisticsSequence;
    result->length(static_cast<CORBA::ULong>(connections.size()));
    CORBA::ULong index = 0;
    for (const auto &connection : connections) {
      result[index].connectionId = connection->id.c_str();
      result[index++].statistics = connection->traffic.statistics(name, names);
    }
    return result._retn();
  }

 private:
  void check_room(const char *id) const {
    for (const auto &connection : connections) {
      if (connection->id == id) throw CF::Port::InvalidPort(2, "there is a connection of that name");
    }
    if (connections.size() >= CONNECTIONS_MAX) throw CF::Port::OccupiedPort();
  }

  bool begin(Connection &connection) {
    std::lock_guard<std::mutex> turn(lock);
    if (is_ended || connection.is_leaving) return false;
    return connection.is_busy = true;
  }

  // Ends a call. Returns whether the connection was lost.
  bool finish(const std::shared_ptr<Connection> &connection, bool is_taken) {
    std::lock_guard<std::mutex> turn(lock);
    connection->is_busy = false;
    changed.notify_all();
    if (is_taken || is_ended || connection->is_leaving) return false;
    for (auto each = connections.begin(); each != connections.end(); ++each) {
      if (*each != connection) continue;
      connections.erase(each);
      return true;
    }
    return false;
  }

  template <class Function>
  static bool call_safely(std::string &reason, Function function) {
    char text[256] = "";
    bool is_taken = guarded(false, StriplineCorbaText{text, sizeof text}, [&] {
      function();
      return true;
    });
    reason = text;
    return is_taken;
  }

  void end_streams(Connection &connection) {
    stripline::CallTimeout timeout(1000);
    for (const auto &stream : connection.has) {
      Packet last{nullptr, 0, BULKIO::PrecisionUTCTime{}, true, stream.first.c_str()};
      std::string reason;
      // The other side may be dead.
      if (!call_safely(reason, [&] { call(connection, last); })) break;
    }
    connection.call.finish();
  }

  const StriplineBulkioEvents events;
  void *const context;
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Connection>> connections;
  std::map<std::string, std::shared_ptr<const Stream>> streams;
  unsigned long long versions = 0;
  bool is_ended = false;
};

template <class Interface>
class UsesServant : public virtual POA_BULKIO::UsesPortStatisticsProvider,
                    public virtual PortableServer::RefCountServantBase,
                    public UsesPort {
 public:
  using Base = UsesPort;
  using Sequence = typename stripline::Data<Interface>::Sequence;
  using Element = typename std::remove_pointer<decltype(std::declval<Sequence>().get_buffer(0))>::type;

  UsesServant(const StriplineBulkioEvents *events, void *context) : UsesPort(*events, context) {}

  PortableServer::ServantBase *servant() override { return this; }
  const char *type() const override { return stripline::Data<Interface>::id(); }
  size_t element_bytes() const override { return sizeof(Element); }

  void call(Connection &connection, const Packet &packet) override {
    auto count = static_cast<CORBA::ULong>(packet.elements);
    auto elements = reinterpret_cast<Element *>(const_cast<uint8_t *>(packet.bytes));
    // The sequence borrows the caller's memory, as omniORB allows.
    const Sequence data(count, count, elements, 0);
    PacketPush<Interface> push(connection.call, data, packet.time, packet.ends, packet.stream);
    connection.object->_PR_getobj()->_invoke(push, 0);
  }

  void connectPort(CORBA::Object_ptr object, const char *id) override { add(object, id); }
  void disconnectPort(const char *id) override { remove(id); }
  ExtendedCF::UsesConnectionSequence *connections() override { return list(); }
  BULKIO::UsesPortStatisticsSequence *statistics() override { return statistics_of_it(); }
};

UsesPort *uses(void *port) { return static_cast<UsesPort *>(static_cast<stripline::BulkioPort *>(port)); }

void put(const StriplineBulkioKeyword &keyword, CF::DataType &into) {
  into.id = keyword.name;
  switch (keyword.kind) {
    case STRIPLINE_BULKIO_NUMBER: into.value <<= keyword.number; break;
    case STRIPLINE_BULKIO_TRUTH: into.value <<= CORBA::Any::from_boolean(keyword.whole != 0); break;
    case STRIPLINE_BULKIO_TEXT: into.value <<= keyword.text; break;
    default:
      if (keyword.whole >= INT32_MIN && keyword.whole <= INT32_MAX) {
        into.value <<= static_cast<CORBA::Long>(keyword.whole);
      } else {
        into.value <<= static_cast<CORBA::LongLong>(keyword.whole);
      }
  }
}

}  // namespace

void *stripline_bulkio_use(int type, const char *object, const StriplineBulkioEvents *events, void *context,
                           StriplineCorbaText problem) noexcept {
  return guarded(static_cast<void *>(nullptr), problem, [&]() -> void * {
    auto port = stripline::make_port<UsesServant>(type, events, context);
    PortableServer::ServantBase_var keeper(port->servant());
    port->activate(object);
    port->servant()->_add_ref();
    return static_cast<stripline::BulkioPort *>(port);
  });
}

int stripline_bulkio_connect(void *port, const char *reference, const char *connection,
                             StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    try {
      CORBA::Object_var object;
      {
        stripline::CallTimeout timeout;
        object = stripline::object_of(reference);
      }
      uses(port)->add(object, connection);
      return 0;
    } catch (const CF::Port::InvalidPort &e) {
      stripline::write_text(problem, "%s%s", e.msg);
    }
    return 1;
  });
}

size_t stripline_bulkio_connections(void *port) noexcept {
  return guarded(size_t{0}, StriplineCorbaText{nullptr, 0}, [&] { return uses(port)->count(); });
}

int stripline_bulkio_push_sri(void *port, const StriplineBulkioSri *sri, StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    BULKIO::StreamSRI parts;
    parts.hversion = 1;
    parts.xstart = sri->xstart;
    parts.xdelta = sri->xdelta;
    parts.xunits = sri->xunits;
    parts.subsize = sri->subsize;
    parts.ystart = sri->ystart;
    parts.ydelta = sri->ydelta;
    parts.yunits = sri->yunits;
    parts.mode = sri->mode;
    parts.streamID = sri->stream;
    parts.blocking = sri->blocking != 0;
    parts.keywords.length(static_cast<CORBA::ULong>(sri->keyword_count));
    for (CORBA::ULong index = 0; index < parts.keywords.length(); ++index) {
      put(sri->keywords[index], parts.keywords[index]);
    }
    uses(port)->set_stream(parts);
    return 0;
  });
}

int stripline_bulkio_push_packet(void *port, const char *stream, const uint8_t *bytes, size_t elements,
                                 const StriplineBulkioTime *time, int ends, StriplineCorbaText problem) noexcept {
  return guarded(-1, problem, [&] {
    Packet packet{bytes, elements, {}, ends != 0, stream};
    packet.time.tcmode = time->mode;
    packet.time.tcstatus = time->status;
    packet.time.toff = time->offset;
    packet.time.twsec = time->whole;
    packet.time.tfsec = time->fraction;
    return uses(port)->push(packet);
  });
}

void stripline_bulkio_end_pushing(void *port) noexcept {
  guarded(0, StriplineCorbaText{nullptr, 0}, [&] {
    uses(port)->end_pushing();
    return 0;
  });
}
