// The C interface of the C++ side. No exception leaves it, and none of its functions keeps a lock
// while it calls back.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// Where a function writes a message that ends with a zero byte.
struct StriplineCorbaText {
  char *start;
  size_t size;
};

const char *stripline_corba_version() noexcept;

// Returns the bytes of the largest message of GIOP, once the ORB runs.
uint32_t stripline_corba_message_max() noexcept;

// Starts the ORB of this process with pairs of options, behind which comes a pair of nulls. 0: it
// runs. One that the program had started before ignores the options.
int stripline_corba_start(const char *const (*options)[2], StriplineCorbaText problem) noexcept;

// Makes the ORB, which runs, listen at one more address, as `giop:tcp:127.0.0.1:0`. Writes that with
// its port. 0: it does, until the process ends.
int stripline_corba_listen(const char *endpoint, StriplineCorbaText address, StriplineCorbaText problem) noexcept;

// Whether this program has omniORB's TLS. Not 0: it has.
int stripline_corba_has_tls() noexcept;

// Makes the ORB speak TLS, with these files in PEM: the certificates that those of peers are checked
// by, the own one, and its key. Before the start, once. 0: it will.
int stripline_corba_use_tls(const char *ca, const char *certificate, const char *private_key,
                            StriplineCorbaText problem) noexcept;

// The receiving end of a path: what its servant calls, on threads of omniORB.
struct StriplineCorbaReceiver {
  // Returns memory for the bytes of a call, and what stands for it; null: the call is dropped.
  // `descriptor` is that of the connection, for calls with the highest number; -1: none was found.
  uint8_t *(*place)(void *context, uint64_t key, uint64_t number, uint32_t bytes, int descriptor, void **place);
  // The bytes are there.
  void (*arrived)(void *context, void *place, uint64_t number, uint64_t frames, uint32_t bytes);
  // They did not come whole.
  void (*abandoned)(void *context, void *place);
  // The servant has ended, and makes no more calls.
  void (*ended)(void *context);
};

// Activates a servant with an object key of its own; null: it failed, and `ended` was not called.
void *stripline_corba_serve(const char *object, const StriplineCorbaReceiver *receiver, void *context,
                            StriplineCorbaText problem) noexcept;

// Deactivates it. Calls that run go on; `ended` comes behind the last.
void stripline_corba_stop_serving(void *servant) noexcept;

// Takes a reference, without connecting; null: it is refused.
void *stripline_corba_connect(const char *reference, StriplineCorbaText problem) noexcept;

// The sender's socket of a path.
struct StriplineCorbaSocket {
  // Bytes that its buffer is to have; 0: as it is.
  int enlarge_to;
  // Bytes that it has; -1: unknown, as before the first call.
  int buffer;
  // Bytes that it had before this call, the kernel's own included; -1: unknown.
  int queued;
  // Whether `queued` is 0 or `buffer`, by whether the kernel has a third of that free. TCP counts
  // bytes without its own.
  int is_tcp;
};

// Calls the servant. The bytes may change once it returns. One thread at a time uses a path.
// `socket` is null, or takes what it is like. 0: the kernel has it all.
int stripline_corba_send(void *path, uint64_t key, uint64_t number, uint64_t frames, const uint8_t *bytes,
                         uint32_t size, StriplineCorbaSocket *socket, StriplineCorbaText problem) noexcept;

// Closes the connection and frees the path.
void stripline_corba_disconnect(void *path) noexcept;

// omniORB as its users take it, with what omniidl generates: a servant that hands each packet to a
// waiting thread, and waits while so many are there. Null, or not 0: it failed.
void *stripline_corba_bare_serve(const char *object, size_t depth, StriplineCorbaText problem) noexcept;
// Activates a servant that gives each packet to a function, on omniORB's thread.
void *stripline_corba_bare_call_back(const char *object, void (*take)(void *, const uint8_t *, uint32_t), void *context,
                                     StriplineCorbaText problem) noexcept;
// Waits for a packet, and returns its bytes, until they are released.
uint8_t *stripline_corba_bare_receive(void *servant, uint32_t *size) noexcept;
void stripline_corba_bare_release(uint8_t *packet) noexcept;
void *stripline_corba_bare_connect(const char *reference, StriplineCorbaText problem) noexcept;
int stripline_corba_bare_send(void *client, const uint8_t *bytes, uint32_t size, StriplineCorbaText problem) noexcept;
}
