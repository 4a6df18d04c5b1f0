// The two ends of omniORB for stopped_receiver.py, which compiles them with the output of omniidl.
// Both use the defaults of the library, over TCP on this host.
//
//     stopped_omniorb receive PORT    prints `ready`, counts packets until a line comes, and prints their number
//     stopped_omniorb send PORT       sends a packet for each line with its number, and prints a line after it

#include <omniORB4/CORBA.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <mutex>
#include <set>
#include <string>

#include "stopped_omniorb.hh"

namespace {

constexpr CORBA::ULong kBytes = 1024;

class Counter : public POA_Stopped::Packets {
 public:
  void packet(const Stopped::Octets &bytes) override {
    uint64_t number = 0;
    if (bytes.length() < sizeof number) return;
    std::memcpy(&number, bytes.get_buffer(), sizeof number);
    std::lock_guard<std::mutex> turn(lock);
    numbers.insert(number);
  }

  size_t count() {
    std::lock_guard<std::mutex> turn(lock);
    return numbers.size();
  }

 private:
  std::mutex lock;
  std::set<uint64_t> numbers;
};

int receive(CORBA::ORB_ptr orb) {
  CORBA::Object_var found = orb->resolve_initial_references("omniINSPOA");
  PortableServer::POA_var poa = PortableServer::POA::_narrow(found);
  Counter counter;
  PortableServer::ObjectId_var id = PortableServer::string_to_ObjectId("packets");
  poa->activate_object_with_id(id, &counter);
  PortableServer::POAManager_var manager = poa->the_POAManager();
  manager->activate();
  std::cout << "ready" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  std::cout << counter.count() << std::endl;
  // The servant is on the stack, so nothing may call it after this.
  std::_Exit(0);
}

int send(CORBA::ORB_ptr orb, const std::string &port) {
  CORBA::Object_var object = orb->string_to_object(("corbaloc:iiop:1.2@127.0.0.1:" + port + "/packets").c_str());
  Stopped::Packets_var packets = Stopped::Packets::_unchecked_narrow(object);
  Stopped::Octets bytes;
  bytes.length(kBytes);
  std::string line;
  while (std::getline(std::cin, line)) {
    const uint64_t number = std::stoull(line);
    std::memcpy(bytes.get_buffer(), &number, sizeof number);
    try {
      packets->packet(bytes);
      std::cout << "sent" << std::endl;
    } catch (const CORBA::Exception &exception) {
      std::cout << exception._name() << std::endl;
    }
  }
  return 0;
}

}  // namespace

int main(int count, char **arguments) {
  if (count != 3) {
    std::cerr << "usage: stopped_omniorb receive|send PORT\n";
    return 2;
  }
  const std::string role = arguments[1], port = arguments[2], place = "giop:tcp:127.0.0.1:" + port;
  const char *endpoint[][2] = {{"endPoint", place.c_str()}, {nullptr, nullptr}};
  const char *none[][2] = {{nullptr, nullptr}};
  try {
    int no_arguments = 0;
    CORBA::ORB_var orb = CORBA::ORB_init(no_arguments, nullptr, "omniORB4", role == "receive" ? endpoint : none);
    return role == "receive" ? receive(orb) : send(orb, port);
  } catch (const CORBA::Exception &exception) {
    std::cerr << "stopped_omniorb: " << exception._name() << '\n';
    return 1;
  }
}
