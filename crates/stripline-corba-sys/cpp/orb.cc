// The single ORB of a process.

#include <omniORB4/CORBA.h>
#include <omniORB4/internal/giopServer.h>

#include "guard.h"

namespace stripline {

namespace {

CORBA::ORB_ptr the_orb = nullptr;

}  // namespace

CORBA::ORB_ptr orb() { return the_orb; }

}  // namespace stripline

using stripline::guarded;

const char *stripline_corba_version() noexcept { return omniORB::versionString(); }

uint32_t stripline_corba_message_max() noexcept { return omniORB::giopMaxMsgSize(); }

int stripline_corba_start(const char *const (*options)[2], StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    // omniORB reads arguments last, so they have precedence over files and the environment.
    auto pairs = const_cast<const char *(*)[2]>(options);
    char *arguments[] = {const_cast<char *>("stripline"), const_cast<char *>("-ORBconfigFile"),
                         const_cast<char *>("/dev/null"), nullptr};
    int count = 3;
    CORBA::ORB_ptr orb = CORBA::ORB_init(count, arguments, "omniORB4", pairs);
    CORBA::Object_var object = orb->resolve_initial_references("omniINSPOA");
    PortableServer::POA_var poa = PortableServer::POA::_narrow(object);
    PortableServer::POAManager_var manager = poa->the_POAManager();
    manager->activate();
    stripline::the_orb = orb;
    return 0;
  });
}

int stripline_corba_listen(const char *endpoint, StriplineCorbaText address, StriplineCorbaText problem) noexcept {
  return guarded(1, problem, [&] {
    omni::orbServer::EndpointList addresses;
    // The address is not published in references: references to paths contain their address
    // themselves.
    const CORBA::Boolean no_publish = 1;
    auto server = omni::giopServer::singleton();
    if (!server || !server->instantiate(endpoint, no_publish, addresses) || addresses.length() == 0) {
      stripline::write_text(problem, "%s%s", "the address cannot be listened at");
      return 1;
    }
    stripline::write_text(address, "%s%s", addresses[0]);
    return 0;
  });
}
