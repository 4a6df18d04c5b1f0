// The one ORB of a process.

#include <cstring>
#include <string>

#include "guard.h"

namespace stripline {

namespace {

CORBA::ORB_ptr the_orb = nullptr;

// Returns whether the options took effect: an ORB that was there before ignores them.
bool is_ours(CORBA::ORB_ptr orb, const char *published) {
  CORBA::Object_var object = orb->resolve_initial_references("omniINSPOA");
  PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
  // The address is in the reference of any object.
  CORBA::Object_var any = poa->create_reference_with_id(
      PortableServer::ObjectId_var(PortableServer::string_to_ObjectId("stripline")), "IDL:omg.org/CORBA/Object:1.0");
  CORBA::String_var text = orb->object_to_string(any);
  // A stringified reference has its bytes in hexadecimal.
  std::string digits;
  char pair[3];
  for (const char *c = published; *c; ++c) {
    std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned char>(*c));
    digits += pair;
  }
  return std::strstr(text, digits.c_str()) != nullptr;
}

}  // namespace

CORBA::ORB_ptr orb() { return the_orb; }

}  // namespace stripline

using stripline::guarded;

const char *stripline_corba_version() noexcept { return omniORB::versionString(); }

uint32_t stripline_corba_message_max() noexcept { return omniORB::giopMaxMsgSize(); }

int stripline_corba_start(const char *const (*options)[2], StriplineCorbaText problem) noexcept {
  return guarded(2, problem, [&] {
    const char *published = "";
    for (auto option = options; (*option)[0]; ++option) {
      if (!std::strcmp((*option)[0], "endPoint") && !std::strncmp((*option)[1], "giop:unix:", 10)) {
        published = (*option)[1] + 10;
      }
    }
    // Arguments come last, and so before files and the environment.
    auto pairs = const_cast<const char *(*)[2]>(options);
    char *arguments[] = {const_cast<char *>("stripline"), const_cast<char *>("-ORBconfigFile"),
                         const_cast<char *>("/dev/null"), nullptr};
    int count = 3;
    CORBA::ORB_ptr orb = CORBA::ORB_init(count, arguments, "omniORB4", pairs);
    CORBA::Object_var object = orb->resolve_initial_references("omniINSPOA");
    PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = poa->the_POAManager();
    manager->activate();
    if (!stripline::is_ours(orb, published)) {
      CORBA::release(orb);
      return 1;
    }
    stripline::the_orb = orb;
    return 0;
  });
}
