// The C interface of BulkIO data ports, with the rules of `stripline_corba.h`.
#pragma once

#include "stripline_corba.h"

extern "C" {

// The types of the elements of a data port.
enum StriplineBulkioType {
  STRIPLINE_BULKIO_OCTET,
  STRIPLINE_BULKIO_SHORT,
  STRIPLINE_BULKIO_USHORT,
  STRIPLINE_BULKIO_LONG,
  STRIPLINE_BULKIO_ULONG,
  STRIPLINE_BULKIO_FLOAT,
  STRIPLINE_BULKIO_DOUBLE,
};

// The kinds of the value of a keyword.
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

// The description of a stream. The values are unchecked.
struct StriplineBulkioSri {
  const char *stream;
  const StriplineBulkioKeyword *keywords;
  size_t keyword_count;
  double xstart, xdelta, ystart, ydelta;
  int32_t subsize;
  int16_t xunits, yunits, mode;
  uint8_t blocking;
};

// The time of a packet. The values are unchecked.
struct StriplineBulkioTime {
  double offset, whole, fraction;
  int16_t mode, status;
};

// The functions that a provides port calls, on threads of omniORB. The functions may block, and
// return 0 if the data was taken, 1 if it was refused, and 2 if the port ends.
struct StriplineBulkioReceiver {
  int (*stream)(void *context, const StriplineBulkioSri *sri);
  // `bytes` are the elements in the byte order of this host; null if there are none.
  int (*packet)(void *context, const char *stream, const uint8_t *bytes, size_t elements,
                const StriplineBulkioTime *time, int ends);
  // Returns how full the queue is, from 0 to 1.
  double (*fill)(void *context);
  // The port has ended and makes no more calls.
  void (*ended)(void *context);
};

// The functions that a uses port calls, on threads of omniORB and on threads that push.
struct StriplineBulkioEvents {
  void (*connected)(void *context, const char *connection);
  // `reason` is null if `disconnectPort` was called.
  void (*disconnected)(void *context, const char *connection, const char *reason);
  void (*ended)(void *context);
};

// Activates a provides port with an object key that must not be in use. Returns null if this
// failed, in which case `ended` was not called.
void *stripline_bulkio_provide(int type, const char *object, const StriplineBulkioReceiver *receiver, void *context,
                               StriplineCorbaText problem) noexcept;

// Activates a uses port in the same way.
void *stripline_bulkio_use(int type, const char *object, const StriplineBulkioEvents *events, void *context,
                           StriplineCorbaText problem) noexcept;

// Deactivates a port of either kind. Running calls continue; `ended` follows the last one.
void stripline_bulkio_end(void *port) noexcept;

// Writes the reference of a port. Returns 0 if the complete reference was written.
int stripline_bulkio_reference(void *port, StriplineCorbaText into, StriplineCorbaText problem) noexcept;

// Calls `connectPort` of the uses port with this reference, with the provides port and a name for
// the connection. Returns 0 if it is connected.
int stripline_bulkio_connect_to(void *port, const char *reference, const char *connection,
                                StriplineCorbaText problem) noexcept;
// Calls `disconnectPort` of the uses port with this reference.
int stripline_bulkio_disconnect_from(const char *reference, const char *connection,
                                     StriplineCorbaText problem) noexcept;

// Connects a uses port to the provides port with this reference. Returns 0 if it is connected.
int stripline_bulkio_connect(void *port, const char *reference, const char *connection,
                             StriplineCorbaText problem) noexcept;
// Returns the number of connections of a uses port.
size_t stripline_bulkio_connections(void *port) noexcept;
// Sets the description of a stream. The connections get the description before the next packet.
// Returns 0 if it was set.
int stripline_bulkio_push_sri(void *port, const StriplineBulkioSri *sri, StriplineCorbaText problem) noexcept;
// Calls the connections one after the other, and waits for each. Only one thread at a time may
// push. Returns how many connections have taken the packet; -1 if pushing was ended.
int stripline_bulkio_push_packet(void *port, const char *stream, const uint8_t *bytes, size_t elements,
                                 const StriplineBulkioTime *time, int ends, StriplineCorbaText problem) noexcept;
// Ends pushing: waiting calls fail at once, and no more follow. May be called from any thread.
void stripline_bulkio_end_pushing(void *port) noexcept;

// Gives a port a name, such as `corbaname:…#…`, in a naming service. Returns 0 if the port has the
// name, 1 if another object that is alive has it, and 2 if this failed.
int stripline_bulkio_bind(void *port, const char *name, StriplineCorbaText problem) noexcept;
// Removes the name, if it belongs to this port.
void stripline_bulkio_unbind(void *port, const char *name) noexcept;
}
