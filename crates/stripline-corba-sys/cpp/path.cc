// The ends of a path: a servant that takes bytes, and a client that sends them. Both read and write
// the arguments in place, which the code that omniidl generates does not do.

#include <omniORB4/CORBA.h>
#include <omniORB4/callDescriptor.h>
#include <omniORB4/callHandle.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "connection.h"
#include "guard.h"
#include "path.hh"

using stripline::guarded;

namespace {

const char OPERATION[] = "packet";
// The number of calls that are not packets.
const CORBA::ULongLong PROBE = ~CORBA::ULongLong(0);

// Reads the arguments of a call into the memory of the receiver.
class Arrival : public omniCallDescriptor {
 public:
  Arrival(const StriplineCorbaReceiver &receiver, void *context)
      : omniCallDescriptor(call, OPERATION, sizeof OPERATION, 1, nullptr, 0, 1), receiver(receiver), context(context) {}

  ~Arrival() override {
    if (place) receiver.abandoned(context, place);
  }

  void unmarshalArguments(cdrStream &stream) override {
    CORBA::ULongLong key;
    key <<= stream;
    number <<= stream;
    frames <<= stream;
    size <<= stream;
    if (!stream.checkInputOverrun(1, size)) {
      OMNIORB_THROW(MARSHAL, _OMNI_NS(MARSHAL_SequenceIsTooLong), CORBA::COMPLETED_NO);
    }
    int descriptor = number == PROBE ? stripline::descriptor_of(stripline::connection_of(stream)) : -1;
    uint8_t *bytes = receiver.place(context, key, number, size, descriptor, &place);
    if (!bytes) OMNIORB_THROW(NO_PERMISSION, 0, CORBA::COMPLETED_NO);
    stream.get_octet_array(bytes, static_cast<int>(size));
  }

 private:
  static void call(omniCallDescriptor *descriptor, omniServant *) {
    auto arrival = static_cast<Arrival *>(descriptor);
    void *place = arrival->place;
    arrival->place = nullptr;
    if (place) {
      arrival->receiver.arrived(arrival->context, place, arrival->number, arrival->frames, arrival->size);
    }
  }

  const StriplineCorbaReceiver &receiver;
  void *context;
  void *place = nullptr;
  CORBA::ULongLong number = 0;
  CORBA::ULongLong frames = 0;
  CORBA::ULong size = 0;
};

class PathServant : public virtual POA_StriplineTransport::Path, public virtual PortableServer::RefCountServantBase {
 public:
  PathServant(const StriplineCorbaReceiver &receiver, void *context) : receiver(receiver), context(context) {}

  ~PathServant() override {
    if (is_active) receiver.ended(context);
  }

  _CORBA_Boolean _dispatch(omniCallHandle &handle) override {
    if (!omni::strMatch(handle.operation_name(), OPERATION)) return 0;
    Arrival arrival(receiver, context);
    handle.upcall(this, arrival);
    return 1;
  }

  // Called for a call within the process that does not come through `_dispatch`.
  void packet(CORBA::ULongLong, CORBA::ULongLong, CORBA::ULongLong, const StriplineTransport::Octets &) override {
    OMNIORB_THROW(NO_IMPLEMENT, 0, CORBA::COMPLETED_NO);
  }

  bool is_active = false;
  PortableServer::ObjectId_var id;

 private:
  const StriplineCorbaReceiver receiver;
  void *context;
};

PortableServer::POA_ptr poa() {
  CORBA::Object_var object = stripline::orb()->resolve_initial_references("omniINSPOA");
  return PortableServer::POA::_narrow(object);
}

// Writes the arguments of a call directly from their place in memory.
class Departure : public omniCallDescriptor {
 public:
  Departure() : omniCallDescriptor(nullptr, OPERATION, sizeof OPERATION, 1, nullptr, 0, 0) {}

  void marshalArguments(cdrStream &stream) override {
    if (auto connection = stripline::connection_of(stream)) {
      if (closes) {
        // A call that fails here ends the connection. omniORB would keep a connection that nothing
        // refers to.
        connection->Shutdown();
        OMNIORB_THROW(NO_PERMISSION, 0, CORBA::COMPLETED_NO);
      }
      if (socket) look_at(*socket, stripline::descriptor_of(connection));
    }
    key >>= stream;
    number >>= stream;
    frames >>= stream;
    size >>= stream;
    if (size) stream.put_octet_array(bytes, static_cast<int>(size));
  }

  // Enlarges the socket's buffer, and reads how much of it the kernel uses.
  static void look_at(StriplineCorbaSocket &socket, int fd) {
    if (fd < 0) return;
    int value = 0;
    socklen_t bytes = sizeof value;
    if (socket.enlarge_to > 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &socket.enlarge_to, sizeof socket.enlarge_to);
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &bytes) == 0) socket.buffer = value;
    if (socket.is_tcp) {
      pollfd ready = {fd, POLLOUT, 0};
      if (poll(&ready, 1, 0) >= 0) socket.queued = ready.revents & POLLOUT ? 0 : socket.buffer;
    } else if (ioctl(fd, SIOCOUTQ, &value) == 0) {
      socket.queued = value;
    }
  }

  bool closes = false;
  StriplineCorbaSocket *socket = nullptr;
  CORBA::ULongLong key = 0, number = 0, frames = 0;
  const CORBA::Octet *bytes = nullptr;
  CORBA::ULong size = 0;
};

struct Path {
  CORBA::Object_var object;
};

// A call that fails is reported. omniORB must not repeat it for half a minute.
CORBA::Boolean never(void *, CORBA::ULong, const CORBA::TRANSIENT &) { return 0; }

}  // namespace

void *stripline_corba_serve(const char *object, const StriplineCorbaReceiver *receiver, void *context,
                            StriplineCorbaText problem) noexcept {
  return guarded(static_cast<void *>(nullptr), problem, [&]() -> void * {
    PortableServer::POA_var adapter = poa();
    PortableServer::ServantBase_var keeper;
    auto servant = new PathServant(*receiver, context);
    keeper = servant;
    servant->id = PortableServer::string_to_ObjectId(object);
    adapter->activate_object_with_id(servant->id, servant);
    servant->is_active = true;
    servant->_add_ref();
    return servant;
  });
}

void stripline_corba_stop_serving(void *servant) noexcept {
  auto path = static_cast<PathServant *>(servant);
  guarded(0, StriplineCorbaText{nullptr, 0}, [&] {
    PortableServer::POA_var adapter = poa();
    adapter->deactivate_object(path->id);
    return 0;
  });
  path->_remove_ref();
}

void *stripline_corba_connect(const char *reference, StriplineCorbaText problem) noexcept {
  return guarded(static_cast<void *>(nullptr), problem, [&]() -> void * {
    CORBA::Object_var object = stripline::orb()->string_to_object(reference);
    if (CORBA::is_nil(object)) {
      stripline::write_text(problem, "%s%s", "the reference names no object");
      return nullptr;
    }
    omniORB::installTransientExceptionHandler(object, nullptr, never);
    auto path = new Path;
    path->object = object._retn();
    return path;
  });
}

int stripline_corba_send(void *path, uint64_t key, uint64_t number, uint64_t frames, const uint8_t *bytes,
                         uint32_t size, StriplineCorbaSocket *socket, StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    auto open_path = static_cast<Path *>(path);
    Departure departure;
    departure.key = key;
    departure.number = number;
    departure.frames = frames;
    departure.bytes = bytes;
    departure.size = size;
    departure.socket = socket;
    open_path->object->_PR_getobj()->_invoke(departure, 0);
    return 0;
  });
}

void stripline_corba_disconnect(void *path) noexcept {
  auto open_path = static_cast<Path *>(path);
  guarded(0, StriplineCorbaText{nullptr, 0}, [&] {
    Departure last;
    last.closes = true;
    open_path->object->_PR_getobj()->_invoke(last, 0);
    return 0;
  });
  delete open_path;
}
