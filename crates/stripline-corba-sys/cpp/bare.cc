// Plain use of omniORB: the code that omniidl generates, and a queue. For benchmarks, which compare
// paths with it.

#include <omniORB4/CORBA.h>

#include <condition_variable>
#include <deque>
#include <mutex>

#include "guard.h"
#include "path.hh"

using stripline::guarded;

namespace {

class QueueServant : public POA_StriplineTransport::Path {
 public:
  explicit QueueServant(size_t depth) : depth(depth) {}

  void packet(CORBA::ULongLong, CORBA::ULongLong, CORBA::ULongLong,
              const StriplineTransport::Octets &bytes) override {
    // The sequence belongs to the call, so its memory may be taken.
    auto &octets = const_cast<StriplineTransport::Octets &>(bytes);
    CORBA::ULong size = octets.length();
    Packet packet{octets.get_buffer(1), size};
    std::unique_lock<std::mutex> turn(lock);
    room.wait(turn, [&] { return packets.size() < depth; });
    packets.push_back(packet);
    turn.unlock();
    arrived.notify_one();
  }

  struct Packet {
    CORBA::Octet *bytes;
    CORBA::ULong size;
  };

  Packet take() {
    std::unique_lock<std::mutex> turn(lock);
    arrived.wait(turn, [&] { return !packets.empty(); });
    Packet packet = packets.front();
    packets.pop_front();
    turn.unlock();
    room.notify_one();
    return packet;
  }

 private:
  const size_t depth;
  std::mutex lock;
  std::condition_variable arrived, room;
  std::deque<Packet> packets;
};

class CallbackServant : public POA_StriplineTransport::Path {
 public:
  CallbackServant(void (*take)(void *, const uint8_t *, uint32_t), void *context) : take(take), context(context) {}

  void packet(CORBA::ULongLong, CORBA::ULongLong, CORBA::ULongLong,
              const StriplineTransport::Octets &bytes) override {
    take(context, bytes.get_buffer(), bytes.length());
  }

 private:
  void (*const take)(void *, const uint8_t *, uint32_t);
  void *const context;
};

// Activates a servant. The servant stays until the process ends.
template <class Servant>
Servant *activate(const char *object, Servant *servant) {
  CORBA::Object_var found = stripline::orb()->resolve_initial_references("omniINSPOA");
  PortableServer::POA_var poa = PortableServer::POA::_narrow(found);
  PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId(object);
  poa->activate_object_with_id(id, servant);
  return servant;
}

}  // namespace

void *stripline_corba_bare_serve(const char *object, size_t depth, StriplineCorbaText problem) noexcept {
  return guarded(static_cast<void *>(nullptr), problem,
                 [&]() -> void * { return activate(object, new QueueServant(depth)); });
}

void *stripline_corba_bare_call_back(const char *object, void (*take)(void *, const uint8_t *, uint32_t), void *context,
                                     StriplineCorbaText problem) noexcept {
  return guarded(static_cast<void *>(nullptr), problem,
                 [&]() -> void * { return activate(object, new CallbackServant(take, context)); });
}

uint8_t *stripline_corba_bare_receive(void *servant, uint32_t *size) noexcept {
  return guarded(static_cast<uint8_t *>(nullptr), StriplineCorbaText{nullptr, 0}, [&] {
    auto packet = static_cast<QueueServant *>(servant)->take();
    *size = packet.size;
    return packet.bytes;
  });
}

void stripline_corba_bare_release(uint8_t *packet) noexcept { StriplineTransport::Octets::freebuf(packet); }

void *stripline_corba_bare_connect(const char *reference, StriplineCorbaText problem) noexcept {
  return guarded(static_cast<void *>(nullptr), problem, [&]() -> void * {
    CORBA::Object_var object = stripline::orb()->string_to_object(reference);
    return StriplineTransport::Path::_unchecked_narrow(object);
  });
}

int stripline_corba_bare_send(void *client, const uint8_t *bytes, uint32_t size, StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    // The sequence borrows the caller's memory, as omniORB allows.
    const StriplineTransport::Octets borrowed(size, size, const_cast<CORBA::Octet *>(bytes), 0);
    static_cast<StriplineTransport::Path_ptr>(client)->packet(0, 0, 0, borrowed);
    return 0;
  });
}
