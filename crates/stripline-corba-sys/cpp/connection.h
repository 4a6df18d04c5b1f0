// The connection that carries a call.
#pragma once

#include <omniORB4/CORBA.h>
// Other headers of omniORB include this header without its folder.
#include <SocketCollection.h>
#include <omniORB4/internal/giopStrand.h>
#include <omniORB4/internal/giopStream.h>

namespace stripline {

// Returns the connection of a call that is writing its arguments; null if the call stays within the
// process.
inline omni::giopConnection *connection_of(cdrStream &stream) {
  auto giop = omni::giopStream::downcast(&stream);
  return giop ? giop->strand().connection : nullptr;
}

// Returns the descriptor of a connection; -1 if the connection does not use a socket.
inline int descriptor_of(omni::giopConnection *connection) {
  struct SocketOf : omni::SocketHolder {
    static int fd(omni::SocketHolder *holder) { return holder->*(&SocketOf::pd_socket); }
  };
  auto holder = connection ? dynamic_cast<omni::SocketHolder *>(connection) : nullptr;
  return holder ? SocketOf::fd(holder) : -1;
}

}  // namespace stripline
