// The C interface of the C++ side. No exception leaves it, and no function holds a lock while it
// calls back.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// The place to which a function writes a message that ends with a zero byte.
struct StriplineCorbaText {
  char *start;
  size_t size;
};

const char *stripline_corba_version() noexcept;

// Returns the maximum size of a GIOP message in bytes, once the ORB is running.
uint32_t stripline_corba_message_max() noexcept;

// Starts the ORB of this process with pairs of options that end with a pair of nulls. Returns 0 if
// the ORB is running. An ORB that the program had started before ignores the options.
int stripline_corba_start(const char *const (*options)[2], StriplineCorbaText problem) noexcept;

// Makes the running ORB listen at one more address, such as `giop:tcp:127.0.0.1:0`. Writes the
// address with the port. Returns 0 if the ORB listens there, which it does until the process ends.
int stripline_corba_listen(const char *endpoint, StriplineCorbaText address, StriplineCorbaText problem) noexcept;

// Returns nonzero if this program has the TLS support of omniORB.
int stripline_corba_has_tls() noexcept;

// Makes the ORB use TLS, with these PEM files: the certificates for verifying peers, the
// certificate of this process, and the private key of this certificate. Call this once, before the
// start. Returns 0 if the ORB will use TLS.
int stripline_corba_use_tls(const char *ca, const char *certificate, const char *private_key,
                            StriplineCorbaText problem) noexcept;

// The receiving end of a path: the functions that the servant calls, on threads of omniORB.
struct StriplineCorbaReceiver {
  // Returns memory for the bytes of a call, and a handle for the memory; null drops the call.
  // `descriptor` is the descriptor of the connection, for calls with the highest number; -1 if none
  // was found.
  uint8_t *(*place)(void *context, uint64_t key, uint64_t number, uint32_t bytes, int descriptor, void **place);
  // All bytes have been received.
  void (*arrived)(void *context, void *place, uint64_t number, uint64_t frames, uint32_t bytes);
  // The bytes were not received completely.
  void (*abandoned)(void *context, void *place);
  // The servant has ended and makes no more calls.
  void (*ended)(void *context);
};

// Activates a servant with an object key that must not be in use. Returns null if this failed, in
// which case `ended` was not called.
void *stripline_corba_serve(const char *object, const StriplineCorbaReceiver *receiver, void *context,
                            StriplineCorbaText problem) noexcept;

// Deactivates the servant. Running calls continue; `ended` follows the last one.
void stripline_corba_stop_serving(void *servant) noexcept;

// Takes a reference without connecting. Returns null if the reference is refused.
void *stripline_corba_connect(const char *reference, StriplineCorbaText problem) noexcept;

// The sender's socket of a path.
struct StriplineCorbaSocket {
  // The requested size of the socket's buffer in bytes; 0 leaves the size as it is.
  int enlarge_to;
  // The size of the socket's buffer in bytes; -1 if unknown, as before the first call.
  int buffer;
  // Bytes in the socket's buffer before this call, including the kernel's overhead; -1 if unknown.
  int queued;
  // Nonzero for TCP. `queued` is then either 0 or `buffer`, depending on whether a third of the
  // buffer is free, because the count of TCP leaves out the kernel's overhead.
  int is_tcp;
};

// Calls the servant. The bytes may change once this returns. Only one thread at a time may use a
// path. `socket` may be null; otherwise it receives the state of the socket. Returns 0 if the
// kernel has all bytes.
int stripline_corba_send(void *path, uint64_t key, uint64_t number, uint64_t frames, const uint8_t *bytes,
                         uint32_t size, StriplineCorbaSocket *socket, StriplineCorbaText problem) noexcept;

// Closes the connection and frees the path.
void stripline_corba_disconnect(void *path) noexcept;

// Plain use of omniORB with the code that omniidl generates: a servant that passes each packet to a
// waiting thread, and blocks while `depth` packets are queued. Returns null, or nonzero, if this
// failed.
void *stripline_corba_bare_serve(const char *object, size_t depth, StriplineCorbaText problem) noexcept;
// Activates a servant that passes each packet to a function, on a thread of omniORB.
void *stripline_corba_bare_call_back(const char *object, void (*take)(void *, const uint8_t *, uint32_t), void *context,
                                     StriplineCorbaText problem) noexcept;
// Waits for a packet, and returns the bytes. The bytes stay valid until they are released.
uint8_t *stripline_corba_bare_receive(void *servant, uint32_t *size) noexcept;
void stripline_corba_bare_release(uint8_t *packet) noexcept;
void *stripline_corba_bare_connect(const char *reference, StriplineCorbaText problem) noexcept;
int stripline_corba_bare_send(void *client, const uint8_t *bytes, uint32_t size, StriplineCorbaText problem) noexcept;
}
