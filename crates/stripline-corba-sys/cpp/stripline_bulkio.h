// The C interface of data ports of BulkIO, with the rules of `stripline_corba.h`.
#pragma once

#include "stripline_corba.h"

extern "C" {

// The elements of a data port.
enum StriplineBulkioType {
  STRIPLINE_BULKIO_OCTET,
  STRIPLINE_BULKIO_SHORT,
  STRIPLINE_BULKIO_USHORT,
  STRIPLINE_BULKIO_LONG,
  STRIPLINE_BULKIO_ULONG,
  STRIPLINE_BULKIO_FLOAT,
  STRIPLINE_BULKIO_DOUBLE,
};

// What a keyword's value is.
enum StriplineBulkioKind {
  STRIPLINE_BULKIO_NUMBER,
  STRIPLINE_BULKIO_WHOLE,
  // `whole` is 0 or 1.
  STRIPLINE_BULKIO_TRUTH,
  STRIPLINE_BULKIO_TEXT,
};

struct StriplineBulkioKeyword {
  const char *name;
  const char *text;
  double number;
  int64_t whole;
  int kind;
};

// The description of a stream, unchecked.
struct StriplineBulkioSri {
  const char *stream;
  const StriplineBulkioKeyword *keywords;
  size_t keyword_count;
  double xstart, xdelta, ystart, ydelta;
  int32_t subsize;
  int16_t xunits, yunits, mode;
  uint8_t blocking;
};

// The time of a packet, unchecked.
struct StriplineBulkioTime {
  double offset, whole, fraction;
  int16_t mode, status;
};

// What a provides port calls on threads of omniORB, which may wait in it. 0: it is taken. 1: it is
// refused. 2: the port ends.
struct StriplineBulkioReceiver {
  int (*stream)(void *context, const StriplineBulkioSri *sri);
  // `bytes` are the elements in this host's order; null if there are none.
  int (*packet)(void *context, const char *stream, const uint8_t *bytes, size_t elements,
                const StriplineBulkioTime *time, int ends);
  // Returns how full the queue is, from 0 to 1.
  double (*fill)(void *context);
  // The port has ended, and makes no more calls.
  void (*ended)(void *context);
};

// What a uses port calls, on threads of omniORB and on those that push.
struct StriplineBulkioEvents {
  void (*connected)(void *context, const char *connection);
  // `reason` is null where `disconnectPort` was called.
  void (*disconnected)(void *context, const char *connection, const char *reason);
  void (*ended)(void *context);
};

// Activates a provides port with an object key and a name of its own; null: it failed, and `ended`
// was not called.
void *stripline_bulkio_provide(int type, const char *object, const StriplineBulkioReceiver *receiver, void *context,
                               StriplineCorbaText problem) noexcept;

// Activates a uses port, likewise.
void *stripline_bulkio_use(int type, const char *object, const StriplineBulkioEvents *events, void *context,
                           StriplineCorbaText problem) noexcept;

// Deactivates a port of either kind. Calls that run go on; `ended` comes behind the last.
void stripline_bulkio_end(void *port) noexcept;

// Writes the reference of a port. 0: it is there whole.
int stripline_bulkio_reference(void *port, StriplineCorbaText into, StriplineCorbaText problem) noexcept;

// Calls `connectPort` of the uses port of that reference, with the provides port and a name of the
// connection. 0: it is connected.
int stripline_bulkio_connect_to(void *port, const char *reference, const char *connection,
                                StriplineCorbaText problem) noexcept;
// Calls its `disconnectPort`.
int stripline_bulkio_disconnect_from(const char *reference, const char *connection,
                                     StriplineCorbaText problem) noexcept;

// Connects a uses port to the provides port of a reference. 0: it is connected.
int stripline_bulkio_connect(void *port, const char *reference, const char *connection,
                             StriplineCorbaText problem) noexcept;
// Returns how many connections a uses port has.
size_t stripline_bulkio_connections(void *port) noexcept;
// Sets the description of a stream, which its connections get before the next packet. 0: it is set.
int stripline_bulkio_push_sri(void *port, const StriplineBulkioSri *sri, StriplineCorbaText problem) noexcept;
// Calls each connection, one after the other, and waits for each. One thread at a time pushes.
// Returns how many have taken it; -1: pushing was ended.
int stripline_bulkio_push_packet(void *port, const char *stream, const uint8_t *bytes, size_t elements,
                                 const StriplineBulkioTime *time, int ends, StriplineCorbaText problem) noexcept;
// Ends pushing: calls that wait fail at once, and there are no more. From any thread.
void stripline_bulkio_end_pushing(void *port) noexcept;

// Gives a port a name, as `corbaname:…#…`, in a naming service. 0: it has it. 1: another object that
// is there has it. 2: it failed.
int stripline_bulkio_bind(void *port, const char *name, StriplineCorbaText problem) noexcept;
// Removes the name, if it is that of this port.
void stripline_bulkio_unbind(void *port, const char *name) noexcept;
}
