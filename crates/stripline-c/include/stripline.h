/* Stripline for C: low-loss links between radio components.
 *
 * Made of the source of the crate stripline-c by its tests: change it there.
 *
 * These rules hold for all functions:
 *
 * - **Pointers.** A handle or text that is NULL is refused with `STRIPLINE_INVALID_ARGUMENT`,
 *   unless its function allows NULL. Any other pointer must be valid: of the type, not freed, and
 *   aligned. Texts that are passed in are UTF-8 and end with NUL.
 * - **Results.** They are written only where the function returns `STRIPLINE_OK`, unless it
 *   documents more.
 * - **Panics.** None leaves this library: the call returns `STRIPLINE_PANICKED`, and so does each
 *   later call of the same handle, which can only be freed.
 * - **Forks.** Handles belong to the process that made them. In a child, their functions return
 *   `STRIPLINE_FORKED`.
 * - **Structures** with `size` as the first member grow. A program sets it to `sizeof`. A program
 *   that is older than the library gets the default of what it lacks. One that is newer is served
 *   unless it sets what this library does not have. 0 is the default of each member.
 */
#ifndef STRIPLINE_H
#define STRIPLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Texts across the border: UTF-8 with a length, and texts that C programs pass in ------------ */

/* A text in UTF-8. It has no NUL at its end: print it with `"%.*s", (int)text.length, text.data`. */
typedef struct stripline_text {
    /* The first byte; never NULL. */
    const char *data;
    /* The number of bytes. */
    size_t length;
} stripline_text;

/* The version of the library, beside that of the header -------------------------------------- */

/* The major version of this header. */
#define STRIPLINE_VERSION_MAJOR 0

/* The minor version of this header. */
#define STRIPLINE_VERSION_MINOR 1

/* The patch level of this header. */
#define STRIPLINE_VERSION_PATCH 0

/* A timeout without end, for functions with a `timeout_ns`. */
#define STRIPLINE_FOREVER ((int64_t)-1)

/* Returns the version of the library that runs, as `0.1.0` or `0.1.0-alpha.1`. The header that a
 * program was compiled with has its version in `STRIPLINE_VERSION_MAJOR`, `_MINOR` and `_PATCH`,
 * without what follows the numbers.
 *
 * - Ownership: the text is static.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_text stripline_version(void);

/* The outcomes of calls, with numbers that never change -------------------------------------- */

/* The outcome of a call.
 *
 * 0 is success, a negative number an outcome that is no error, and a positive one an error. The
 * numbers up to 999 are those of `docs/errors.md`. A number never gets another meaning. A later
 * library only adds some: treat one that is not in this header as `STRIPLINE_FAILED`.
 */
enum stripline_status_number {
    /* The call has done what it is for. */
    STRIPLINE_OK = 0,
    /* Nothing was there in the time that the call waits. */
    STRIPLINE_EMPTY = -1,
    /* End of stream: no packet follows. */
    STRIPLINE_ENDED = -2,
    /* The component or node was stopped. */
    STRIPLINE_STOPPED = 1,
    /* A receiver's queue is full, and the send does not wait. */
    STRIPLINE_FULL = 2,
    /* A receiver had no room for as long as the send waits. Nothing was sent. */
    STRIPLINE_STALLED = 3,
    /* The packet exceeds a limit. */
    STRIPLINE_TOO_LARGE = 4,
    /* The receiver fell behind, and its policy is `eject`. */
    STRIPLINE_EJECTED = 5,
    /* A transport cannot keep an option. */
    STRIPLINE_UNSUPPORTED = 6,
    /* The other end broke the protocol, and its connection was closed. */
    STRIPLINE_PEER_MISBEHAVED = 7,
    /* The other end refused the connection. */
    STRIPLINE_REFUSED = 8,
    /* A port or topic was used in a way that it does not allow. */
    STRIPLINE_PORT = 9,
    /* A message does not decode as its type. */
    STRIPLINE_DECODE = 10,
    /* A handler failed or panicked. No further packet is handled. */
    STRIPLINE_HANDLER = 11,
    /* A receiver did not acknowledge a packet in time. The packet stays sent. */
    STRIPLINE_UNANSWERED = 12,
    /* A receiver left before it acknowledged a packet. */
    STRIPLINE_RECEIVER_GONE = 13,
    /* A receiver refused a packet. */
    STRIPLINE_PACKET_REFUSED = 14,
    /* Too many packets wait behind a missing one. They count as lost. */
    STRIPLINE_WINDOW_OVERFLOW = 15,
    /* Two packets have the same place in the sequence. */
    STRIPLINE_DUPLICATE_PACKET = 16,
    /* The operating system reported an error. */
    STRIPLINE_SYSTEM = 17,
    /* A child of a fork used what its parent had made. */
    STRIPLINE_FORKED = 18,
    /* A component rejects its properties. */
    STRIPLINE_INVALID_PROPERTIES = 19,
    /* A component's own failure, in its own words. */
    STRIPLINE_FAILED = 20,
    /* All packets that a port may hold are in use. Nothing is lost. */
    STRIPLINE_TOO_MANY_HELD = 21,
    /* A waker ended the wait. Nothing is lost. */
    STRIPLINE_INTERRUPTED = 22,
    /* The operation's own error, as its reply. */
    STRIPLINE_USER_ERROR = 100,
    /* There was no server until the deadline. The call was not made. */
    STRIPLINE_NO_SERVER = 101,
    /* The reply did not arrive in time. */
    STRIPLINE_CALL_UNANSWERED = 102,
    /* The server left with the call outstanding, carried out or not. */
    STRIPLINE_SERVER_GONE = 103,
    /* This side cancelled the call. */
    STRIPLINE_CALL_CANCELLED = 104,
    /* The limit of outstanding calls is reached. The call was not made. */
    STRIPLINE_TOO_MANY_CALLS = 105,
    /* The reply has another type. */
    STRIPLINE_REPLY_DECODE = 106,
    /* The server does not have the operation. */
    STRIPLINE_UNKNOWN_OPERATION = 110,
    /* Request, reply or error of the operation has another type. */
    STRIPLINE_WRONG_TYPE = 111,
    /* The operation's handler panicked; the server goes on. */
    STRIPLINE_HANDLER_PANICKED = 112,
    /* The deadline had passed before the handler began. */
    STRIPLINE_DEADLINE_PASSED = 113,
    /* The client cancelled before the handler began. */
    STRIPLINE_CANCELLED_EARLY = 114,
    /* Too many calls wait at the server. */
    STRIPLINE_OVERLOADED = 115,
    /* The server waits in this chain of calls itself. */
    STRIPLINE_CALL_CYCLE = 116,
    /* The server could not send its reply. */
    STRIPLINE_REPLY_FAILED = 117,
    /* An argument is wrong: NULL, no UTF-8, out of range, or of a newer header. Nothing was done. */
    STRIPLINE_INVALID_ARGUMENT = 1001,
    /* This library has failed. The handle of the call can only be freed from then on. */
    STRIPLINE_PANICKED = 1002,
    /* The handle is in use: by a handler that runs, or by another thread. Nothing was done. */
    STRIPLINE_IN_USE = 1003,
};
typedef int32_t stripline_status;

/* Returns the word of an outcome in lower case, as `too-large`. It is `unknown` for a number that
 * this library does not have.
 *
 * - Ownership: the text is static.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_text stripline_status_word(int32_t status);

/* Returns what usually mends an outcome, in one sentence. It is empty where there is nothing to
 * mend. `stripline_error_message` has the remedy of the case at hand.
 *
 * - Ownership: the text is static.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_text stripline_status_remedy(int32_t status);

/* The error object, and how failures become one ---------------------------------------------- */

/* The description of a failed call. Functions write one to `*error` when they fail, and leave
 * `*error` alone when they do not. Pass NULL where the status is enough.
 */
typedef struct stripline_error stripline_error;

/* Returns the status that the failed call returned; `STRIPLINE_OK` for NULL.
 *
 * - Ownership: the error stays the caller's.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_error_status(const stripline_error *error);

/* Returns one sentence that names what failed, where, and the remedy. Never NULL.
 *
 * - Ownership: the text is valid until the error is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
const char *stripline_error_message(const stripline_error *error);

/* Returns what usually mends an error of this status. Never NULL, and empty for NULL.
 *
 * - Ownership: the text is valid until the error is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
const char *stripline_error_remedy(const stripline_error *error);

/* Returns the connection, or the other end, that the error is about, as `from -> to`. Never NULL,
 * and empty where it is about none.
 *
 * - Ownership: the text is valid until the error is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
const char *stripline_error_connection(const stripline_error *error);

/* Returns the number that the operating system gave (`errno`), or 0 where it gave none.
 *
 * - Ownership: the error stays the caller's.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
int32_t stripline_error_os_code(const stripline_error *error);

/* Returns 1 if the packet or the call of a wait that was interrupted has been sent, and must not
 * be sent again; otherwise 0.
 *
 * - Ownership: the error stays the caller's.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
int32_t stripline_error_is_sent(const stripline_error *error);

/* Frees an error; NULL is allowed.
 *
 * - Ownership: ends here, with that of its texts. A second call with the same error is undefined.
 * - Blocking: never.
 * - Threads: any.
 */
void stripline_error_free(stripline_error *error);

/* The log of the library, for a function of the program -------------------------------------- */

/* A function that gets the records of the log: its context, the level, the part of the library as
 * `stripline::node`, and the text.
 *
 * Level 1 is an error that ends a service of this process, level 2 is about another process, and
 * 3 to 5 are information. Both texts are valid until it returns. It is called on any thread,
 * on several at once, and sometimes with a lock of the library held. It calls no function of this
 * library.
 */
typedef void (*stripline_log_callback)(
    void *context,
    int32_t level,
    stripline_text target,
    stripline_text text);

/* Sets the function that gets the records of the log, up to a level from 1 (errors) to 5 (all).
 * There is one for the process; a second call replaces it, and NULL removes it.
 *
 * Errors that no call can return go to the log. Without a function, they go nowhere.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a level out of range, and with `STRIPLINE_IN_USE`
 * within the function. In a Rust program with a logger of its own, it fails with
 * `STRIPLINE_FAILED`.
 *
 * - Ownership: `context` stays the caller's. When this returns, the function before is not running
 *   and not called again.
 * - Blocking: until the function before has returned.
 * - Threads: any.
 */
stripline_status stripline_log_set(
    stripline_log_callback callback,
    void *context,
    int32_t level,
    stripline_error **error);

/* Wakers, which end waits -------------------------------------------------------------------- */

/* Ends waits of one publisher, subscriber, client or server: of the thread that waits now, or of
 * the next call that may wait. That call returns `STRIPLINE_INTERRUPTED`, and can be repeated:
 * nothing is lost. Several wakes before it are one.
 */
typedef struct stripline_waker stripline_waker;

/* Ends one wait: the one under way, or else the next. Calls that never wait, as those with a
 * timeout of 0 and `try` in their name, leave it to the next one that may.
 *
 * After a send, `stripline_error_is_sent` is 1 if its packet was sent, for a wait for
 * acknowledgements. Where the owner of the waker was freed, and in a child of a fork, this does
 * nothing. Fails only for NULL.
 *
 * - Ownership: the waker stays the caller's.
 * - Blocking: never.
 * - Threads: any, several at once, and signal handlers: for a waker that is not NULL, it is
 *   async-signal-safe, and leaves `errno` alone.
 */
stripline_status stripline_waker_wake(const stripline_waker *waker, stripline_error **error);

/* Frees a waker; NULL is allowed. A wake that has not ended a wait yet still does.
 *
 * - Ownership: ends here. A second call with the same waker is undefined.
 * - Blocking: never.
 * - Threads: any, once no thread or signal handler uses it. Not in a signal handler.
 */
void stripline_waker_free(stripline_waker *waker);

/* Nodes -------------------------------------------------------------------------------------- */

/* A node: what a program's publishers and subscribers belong to. Nodes of the same domain find
 * each other without a daemon. It may be used by several threads at once.
 */
typedef struct stripline_node stripline_node;

/* Options of a node. Without any, it is that of the environment: the domain of `STRIPLINE_DOMAIN`
 * (`default` if it is unset), and the topics of the file `STRIPLINE_TOPICS`.
 */
typedef struct stripline_node_options {
    /* `sizeof(stripline_node_options)`. */
    size_t size;
    /* The domain: 1 to 64 letters, digits, `-` and `_`. NULL: that of the environment. */
    const char *domain;
    /* Options of topics, as the text of a topics file. NULL: those of the environment, or none if
     * `domain` is set.
     */
    const char *topics;
    /* Not 0: a domain of its own, so that nothing outside this node is connected. For tests. The
     * other members must not be set.
     */
    uint32_t isolated;
} stripline_node_options;

/* Makes a node, which joins its domain.
 *
 * Fails with `STRIPLINE_FAILED` for a domain or topics with a mistake, which the message names,
 * and with `STRIPLINE_SYSTEM` for a lack of descriptors or threads.
 *
 * - Ownership: the caller frees the node. `options` may be NULL and is not kept.
 * - Blocking: no longer than to start a thread.
 * - Threads: any.
 */
stripline_status stripline_node_new(
    const stripline_node_options *options,
    stripline_node **node,
    stripline_error **error);

/* Stops a node: calls of its publishers and subscribers that wait, and all later ones, return
 * `STRIPLINE_STOPPED`. It has no effect on a node of another process.
 *
 * - Ownership: the node stays the caller's.
 * - Blocking: never.
 * - Threads: any, also while others use the node or wait in its publishers and subscribers. Not in
 *   a signal handler.
 */
stripline_status stripline_node_stop(const stripline_node *node, stripline_error **error);

/* Frees a node, which leaves its domain; NULL is allowed. Its publishers and subscribers stay
 * connected, and are freed before or after it.
 *
 * - Ownership: ends here. A second call with the same node is undefined.
 * - Blocking: until the node's thread has ended.
 * - Threads: any, once no other thread uses the node.
 */
void stripline_node_free(stripline_node *node);

/* Counters of a node's connections ----------------------------------------------------------- */

/* The counters of all connections to a node's subscribers at one time, and the connections that
 * were refused.
 */
typedef struct stripline_report stripline_report;

/* The counters of one connection. */
typedef struct stripline_connection_report {
    /* `sizeof(stripline_connection_report)`, set by the caller. */
    size_t size;
    /* `from -> to`. */
    stripline_text connection;
    /* Packets that the receiver has taken. */
    uint64_t packets;
    /* Their payload, in bytes. */
    uint64_t bytes;
    /* Packets that were lost. */
    uint64_t lost;
    /* Samples that were lost. */
    uint64_t lost_samples;
    /* Gaps reported in band. */
    uint64_t gaps;
    /* Packets that arrived after a later one. */
    uint64_t reordered;
    /* How often the sender vanished without an end of stream. */
    uint64_t peer_deaths;
} stripline_connection_report;

/* Takes the counters of every connection to the node's subscribers now, and of those that ended
 * last.
 *
 * - Ownership: the caller frees the report.
 * - Blocking: no longer than for a lock of the node.
 * - Threads: any, several at once.
 */
stripline_status stripline_node_report(
    const stripline_node *node,
    stripline_report **report,
    stripline_error **error);

/* Returns the number of connections in a report; 0 for NULL.
 *
 * - Ownership: the report stays the caller's.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
size_t stripline_report_connections(const stripline_report *report);

/* Gives the counters of one connection of a report, by its index.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an index at or above the number of connections.
 *
 * - Ownership: the text is valid until the report is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_report_connection(
    const stripline_report *report,
    size_t index,
    stripline_connection_report *connection,
    stripline_error **error);

/* Returns the number of refused connections in a report; 0 for NULL.
 *
 * - Ownership: the report stays the caller's.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
size_t stripline_report_refused_connections(const stripline_report *report);

/* Gives the name of a refused connection of a report, by its index, and the reason.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an index at or above their number.
 *
 * - Ownership: the texts are valid until the report is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_report_refused_connection(
    const stripline_report *report,
    size_t index,
    stripline_text *connection,
    stripline_text *reason,
    stripline_error **error);

/* Frees a report; NULL is allowed.
 *
 * - Ownership: ends here, with that of its texts. A second call with the same report is undefined.
 * - Blocking: never.
 * - Threads: any.
 */
void stripline_report_free(stripline_report *report);

/* Sample types by value ---------------------------------------------------------------------- */

/* The type of a topic's samples. Both ends of a connection compare it.
 *
 * `name` is a built-in type or a layout as `det{range_bin:u32,level_db:f32}` (`docs/layouts.md`).
 * Built in are `s8` to `u64`, `f32` and `f64`, and the complex ones with a `c` in front: `cf32`.
 * With `sample_size` 0, size and alignment are those of the name. Otherwise they must equal them:
 * set both with `sizeof` and `alignof`, and a structure with another layout is refused at once.
 *
 * A name that is neither is compared alone, and needs both numbers.
 */
typedef struct stripline_sample_type {
    /* `sizeof(stripline_sample_type)`. */
    size_t size;
    /* The name, or the layout. */
    const char *name;
    /* The bytes of a sample, or 0. */
    size_t sample_size;
    /* The alignment of a sample in bytes: 1, 2, 4, 8 or 16; 0 with `sample_size` 0. */
    size_t sample_align;
} stripline_sample_type;

/* The description of a stream ---------------------------------------------------------------- */

/* Members of a stream's description that are set, as bits. */
enum stripline_stream_set {
    /* `sample_rate_hz`. */
    STRIPLINE_STREAM_SET_SAMPLE_RATE = 1,
    /* `center_frequency_hz`. */
    STRIPLINE_STREAM_SET_CENTER_FREQUENCY = 2,
    /* `row_length`. */
    STRIPLINE_STREAM_SET_ROW_LENGTH = 4,
};

/* The description of a stream, for a publisher. Receivers get it with every packet. */
typedef struct stripline_stream_description {
    /* `sizeof(stripline_stream_description)`. */
    size_t size;
    /* The members that are set: `STRIPLINE_STREAM_SET_…`, combined with `|`. Texts count as set
     * where they are not NULL.
     */
    uint64_t set;
    /* The name of the stream; NULL: no name. */
    const char *id;
    /* Samples a second, of all channels together. */
    double sample_rate_hz;
    /* The frequency that 0 Hz of the samples corresponds to. */
    double center_frequency_hz;
    /* Samples of a row, if the samples are rows of a table. */
    uint32_t row_length;
    /* A JSON object with further members as in `docs/wire.md`: `axes`, `channels`, `keywords`.
     * NULL: none.
     */
    const char *more;
} stripline_stream_description;

/* The description of the stream that a packet belongs to. */
typedef struct stripline_stream_view {
    /* `sizeof(stripline_stream_view)`, set by the caller. */
    size_t size;
    /* The members that are set: `STRIPLINE_STREAM_SET_…`, combined with `|`. */
    uint64_t set;
    /* The name of the stream. */
    stripline_text id;
    /* Samples a second, of all channels together. */
    double sample_rate_hz;
    /* The frequency that 0 Hz of the samples corresponds to. */
    double center_frequency_hz;
    /* Samples of a row, if the samples are rows of a table. */
    uint32_t row_length;
} stripline_stream_view;

/* Packets, and what comes with their samples ------------------------------------------------- */

/* Samples that were received, in place, until they are released.
 *
 * A held packet (`hold`) may be used and released on any thread, and several may read it at once.
 * Another one belongs to the thread of its subscriber. Both may be released after their subscriber
 * was freed; one that is not held keeps the subscriber's connections until then.
 */
typedef struct stripline_packet stripline_packet;

/* The cause of a gap. */
enum stripline_gap_reason {
    /* There is no gap. */
    STRIPLINE_GAP_REASON_NONE = 0,
    /* The receiver was slow and its policy drops packets. */
    STRIPLINE_GAP_REASON_OVERFLOW = 1,
    /* The sender or the receiver was restarted. */
    STRIPLINE_GAP_REASON_PEER_RESTART = 2,
    /* The transport lost them. */
    STRIPLINE_GAP_REASON_TRANSPORT = 3,
    /* They did not arrive in the time that a resequencing port waits. */
    STRIPLINE_GAP_REASON_LATE = 4,
};

/* The place of a packet in its stream, and the gap before it. */
typedef struct stripline_packet_info {
    /* `sizeof(stripline_packet_info)`, set by the caller. */
    size_t size;
    /* The number of the packet among those of its sender, from 0. */
    uint64_t sequence;
    /* The number of its first sample within its stream. */
    uint64_t sample_index;
    /* When its first sample was taken, in nanoseconds since the Unix epoch; 0: unknown. */
    int64_t time_ns;
    /* When it should have been sent, in monotonic nanoseconds of the host; 0: its sender has no
     * schedule.
     */
    uint64_t intended_ns;
    /* When it was sent, in monotonic nanoseconds of the host; 0: it was not measured. */
    uint64_t sent_ns;
    /* The cause of the gap just before it: a `stripline_gap_reason`, 0 where nothing is missing. */
    uint32_t gap_reason;
    /* The number of the first packet that is missing. */
    uint64_t gap_first;
    /* How many packets are missing; 0 after a restart, where the number is unknown. */
    uint64_t gap_packets;
    /* How many samples are missing; 0 where that is unknown. Messages count as one each. */
    uint64_t gap_samples;
} stripline_packet_info;

/* Returns the samples of a packet, aligned for their type. It is NULL for a packet that is NULL or
 * released, and not NULL for one without samples.
 *
 * - Ownership: the samples are read only, and valid until the packet is released.
 * - Blocking: never.
 * - Threads: that of the subscriber; of a held packet any, several at once.
 */
const void *stripline_packet_samples(const stripline_packet *packet);

/* Returns the number of samples of a packet; 0 for a packet that is NULL or released.
 *
 * - Ownership: the packet stays the caller's.
 * - Blocking: never.
 * - Threads: that of the subscriber; of a held packet any, several at once.
 */
size_t stripline_packet_length(const stripline_packet *packet);

/* Gives the numbers of a packet, and the gap before it.
 *
 * Fails with `STRIPLINE_PORT` for a packet that was released.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: that of the subscriber; of a held packet any, several at once.
 */
stripline_status stripline_packet_get_info(
    const stripline_packet *packet,
    stripline_packet_info *info,
    stripline_error **error);

/* Gives the description of a packet's stream.
 *
 * Fails with `STRIPLINE_PORT` for a packet that was released.
 *
 * - Ownership: the text is valid until the packet is released.
 * - Blocking: never.
 * - Threads: that of the subscriber; of a held packet any, several at once.
 */
stripline_status stripline_packet_get_stream(
    const stripline_packet *packet,
    stripline_stream_view *stream,
    stripline_error **error);

/* Writes the whole description of a packet's stream as JSON, with NUL at its end: also its axes,
 * channels and keywords (`docs/wire.md`). `length` is set to its bytes without NUL, also when they
 * do not fit: `buffer` may be NULL with `capacity` 0 to ask for it.
 *
 * Fails with `STRIPLINE_TOO_LARGE` if `capacity` is not above the length, and with
 * `STRIPLINE_PORT` for a packet that was released.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never. It allocates.
 * - Threads: that of the subscriber; of a held packet any, several at once.
 */
stripline_status stripline_packet_get_stream_json(
    const stripline_packet *packet,
    char *buffer,
    size_t capacity,
    size_t *length,
    stripline_error **error);

/* Returns the connection that a packet arrived on, as `from -> to`. It is empty for a packet that
 * is NULL or released.
 *
 * - Ownership: the text is valid until the packet is released.
 * - Blocking: never.
 * - Threads: that of the subscriber; of a held packet any, several at once.
 */
stripline_text stripline_packet_connection(const stripline_packet *packet);

/* Releases a packet: its memory goes back to the transport, and a sender that waits for it goes
 * on. NULL is allowed.
 *
 * A second release is refused with `STRIPLINE_PORT`, and harmless, until the next packet is
 * received or the subscriber is freed. That of a handler ends when the handler returns, and is
 * refused here.
 *
 * - Ownership: ends here, with that of its samples.
 * - Blocking: never.
 * - Threads: that of the subscriber; of a held packet any.
 */
stripline_status stripline_packet_release(stripline_packet *packet, stripline_error **error);

/* Refuses a packet with a reason of at most 256 bytes, and releases it. A sender that waits for it
 * (scope `target`) fails with `STRIPLINE_PACKET_REFUSED`.
 *
 * In a handler, the packet stays until the handler returns.
 *
 * - Ownership: ends here, but in a handler. `reason` is not kept.
 * - Blocking: never.
 * - Threads: that of the subscriber; of a held packet any.
 */
stripline_status stripline_packet_refuse(
    stripline_packet *packet,
    const char *reason,
    stripline_error **error);

/* Releases a window and consumes only its first `samples` samples: the next window begins behind
 * them. A smaller number than the window has makes windows that overlap; at least one is
 * consumed.
 *
 * Fails with `STRIPLINE_PORT` for a packet that is no window, which then stays.
 *
 * - Ownership: ends here, with that of its samples.
 * - Blocking: never.
 * - Threads: that of the subscriber.
 */
stripline_status stripline_packet_consume(
    stripline_packet *packet,
    size_t samples,
    stripline_error **error);

/* Options of one packet that is sent --------------------------------------------------------- */

/* Members of `stripline_send_options` that are set, as bits. */
enum stripline_send_set {
    /* `sample_index`. */
    STRIPLINE_SEND_SET_SAMPLE_INDEX = 1,
    /* `time_ns`. */
    STRIPLINE_SEND_SET_TIME = 2,
    /* `intended_ns`. */
    STRIPLINE_SEND_SET_INTENDED = 4,
    /* `scope`. */
    STRIPLINE_SEND_SET_SCOPE = 8,
    /* `deadline_ns`. */
    STRIPLINE_SEND_SET_DEADLINE = 16,
};

/* Options of one packet. */
typedef struct stripline_send_options {
    /* `sizeof(stripline_send_options)`. */
    size_t size;
    /* The members that are set: `STRIPLINE_SEND_SET_…`, combined with `|`. */
    uint64_t set;
    /* The number of the packet's first sample within its stream; by default it continues the
     * packet before.
     */
    uint64_t sample_index;
    /* When the first sample was taken, in nanoseconds since the Unix epoch. */
    int64_t time_ns;
    /* When the packet should have been sent, in monotonic nanoseconds of the host. */
    uint64_t intended_ns;
    /* When the send returns, instead of the connection's scope: 0 `none`, 1 `transport`, 2
     * `server`, 3 `target` (`docs/glossary.md`).
     */
    uint32_t scope;
    /* How long a receiver is waited for in the scopes `server` and `target`. */
    uint64_t deadline_ns;
} stripline_send_options;

/* Publishers --------------------------------------------------------------------------------- */

/* A publisher, which sends packets of samples to every receiver of a topic. One thread at a time
 * may use it.
 */
typedef struct stripline_publisher stripline_publisher;

/* Makes a publisher of samples on a topic.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a type with a mistake, and with `STRIPLINE_SYSTEM`
 * or `STRIPLINE_UNSUPPORTED` if its transport cannot be opened.
 *
 * - Ownership: the caller frees the publisher, before or after the node. Nothing else is kept.
 * - Blocking: until the node's own subscribers are connected.
 * - Threads: any.
 */
stripline_status stripline_publisher_new(
    const stripline_node *node,
    const char *topic,
    const stripline_sample_type *type,
    stripline_publisher **publisher,
    stripline_error **error);

/* Makes a publisher of messages on a topic. Each packet is one message in CBOR (RFC 8949), and its
 * samples are bytes. They are not checked.
 *
 * `type` is `message/` and a name, or `message/` and a schema as `tune{hz:f64}`
 * (`docs/layouts.md`); NULL is `message/cbor`, the type of any message. A subscriber with another
 * schema is refused. One end without a schema is connected to the other one with `message/cbor`.
 *
 * Fails as `stripline_publisher_new`.
 *
 * - Ownership: the caller frees the publisher, before or after the node. Nothing else is kept.
 * - Blocking: until the node's own subscribers are connected.
 * - Threads: any.
 */
stripline_status stripline_message_publisher_new(
    const stripline_node *node,
    const char *topic,
    const char *type,
    stripline_publisher **publisher,
    stripline_error **error);

/* Sets the description of the samples that follow.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a description with a mistake, which the message
 * names. One that is too large makes the next send fail.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never. It allocates.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_set_stream(
    stripline_publisher *publisher,
    const stripline_stream_description *stream,
    stripline_error **error);

/* Gives the number of receivers that are connected now.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_receivers(
    stripline_publisher *publisher,
    size_t *receivers,
    stripline_error **error);

/* Waits until at least `count` receivers are connected.
 *
 * Returns `STRIPLINE_OK` if they are, and `STRIPLINE_EMPTY` if not in time.
 *
 * - Ownership: nothing is kept.
 * - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) is without end.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_wait_for_receivers(
    stripline_publisher *publisher,
    size_t count,
    int64_t timeout_ns,
    stripline_error **error);

/* Makes a waker, which ends waits of the publisher: in a loan, a send or a commit, in
 * `stripline_publisher_wait_for_receivers` and in `stripline_publisher_finish`.
 *
 * Fails with `STRIPLINE_SYSTEM` if the process has no descriptor left.
 *
 * - Ownership: the caller frees the waker, before or after the publisher.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_waker(
    stripline_publisher *publisher,
    stripline_waker **waker,
    stripline_error **error);

/* Gives the number of the next packet.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_sequence(
    stripline_publisher *publisher,
    uint64_t *sequence,
    stripline_error **error);

/* Gives the most samples that a packet can have.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_samples_max(
    stripline_publisher *publisher,
    size_t *samples,
    stripline_error **error);

/* Gives the most samples of a packet that goes in one frame. Only such a packet is written in
 * place, and can be sent without waiting.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_samples_in_place(
    stripline_publisher *publisher,
    size_t *samples,
    stripline_error **error);

/* Ends the stream. Later calls of the publisher fail with `STRIPLINE_PORT`; it is still freed.
 *
 * Fails with `STRIPLINE_FULL` when a receiver does not take the remaining packets in time. To it,
 * the end is that of `stripline_publisher_abandon`. After `STRIPLINE_INTERRUPTED`, another call
 * goes on with the end.
 *
 * - Ownership: the publisher stays the caller's.
 * - Blocking: until the remaining packets have left this process, up to `timeout_ns`;
 *   `STRIPLINE_FOREVER` (or any negative number) is without end.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_finish(
    stripline_publisher *publisher,
    int64_t timeout_ns,
    stripline_error **error);

/* Leaves without an end of stream, as for a stream that is not complete. Receivers get all packets
 * that were sent, and then wait for another publisher, which comes with a gap. Later calls fail
 * with `STRIPLINE_PORT`; the publisher is still freed.
 *
 * - Ownership: the publisher stays the caller's.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_abandon(
    stripline_publisher *publisher,
    stripline_error **error);

/* Frees a publisher; NULL is allowed. It ends the stream, unless that has ended before. An error
 * of that goes to the log only (`stripline_publisher_finish` returns it).
 *
 * With a loan open, the loan's memory stays, and the publisher ends when the loan is closed. A
 * commit then sends nothing and fails.
 *
 * - Ownership: ends here. A second call with the same publisher is undefined.
 * - Blocking: until the remaining packets have left this process, ten seconds at most.
 * - Threads: one at a time.
 */
void stripline_publisher_free(stripline_publisher *publisher);

/* Loans: room for a packet, written in place ------------------------------------------------- */

/* Room for the samples of one packet, to be written in place. It belongs to the thread of its
 * publisher, which has one at a time.
 */
typedef struct stripline_loan stripline_loan;

/* Lends room for `samples` samples. On shared memory, they are written where the receivers read
 * them. The initial content is unspecified.
 *
 * Waits while a receiver with policy `block` has no room. Fails with `STRIPLINE_PORT` while
 * another loan is open or after the end of the stream, and with `STRIPLINE_TOO_LARGE`,
 * `STRIPLINE_STALLED`, `STRIPLINE_STOPPED` and `STRIPLINE_SYSTEM`.
 *
 * - Ownership: the caller commits or cancels the loan. `memory` gets the place of the samples,
 *   aligned for their type and valid until then.
 * - Blocking: while a receiver has no room.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_loan(
    stripline_publisher *publisher,
    size_t samples,
    void **memory,
    stripline_loan **loan,
    stripline_error **error);

/* Lends room as `stripline_publisher_loan` does, without waiting.
 *
 * Fails with `STRIPLINE_FULL` when a receiver with policy `block` has no room, and with
 * `STRIPLINE_TOO_LARGE` above `stripline_publisher_samples_in_place`; otherwise as that.
 *
 * - Ownership: as for `stripline_publisher_loan`.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_try_loan(
    stripline_publisher *publisher,
    size_t samples,
    void **memory,
    stripline_loan **loan,
    stripline_error **error);

/* Sends the samples of a loan as a packet, and closes the loan, also when it fails.
 *
 * Waits while a receiver with policy `block` has no room, if the loan may, and then until the
 * scope is reached. Fails as `stripline_publisher_loan`, and with `STRIPLINE_UNSUPPORTED` for a
 * scope that the transport cannot keep. Where the scope was not reached, the packet stays sent;
 * that is `STRIPLINE_UNANSWERED`, `STRIPLINE_RECEIVER_GONE` or `STRIPLINE_PACKET_REFUSED`.
 *
 * - Ownership: that of the loan and its memory ends here. `options` may be NULL and is not kept.
 * - Blocking: as written above.
 * - Threads: that of the publisher.
 */
stripline_status stripline_loan_commit(
    stripline_loan *loan,
    const stripline_send_options *options,
    stripline_error **error);

/* Sends the samples of a loan as `stripline_loan_commit` does, with the stream, sample index, time
 * and order of a packet that was received.
 *
 * Fails with `STRIPLINE_PORT` for a packet that was released; otherwise as that.
 *
 * - Ownership: that of the loan and its memory ends here. The packet stays the caller's.
 * - Blocking: as for `stripline_loan_commit`.
 * - Threads: that of the publisher, which has the packet.
 */
stripline_status stripline_loan_commit_like(
    stripline_loan *loan,
    const stripline_packet *packet,
    stripline_error **error);

/* Keeps only the first `samples` samples of a loan. A number above its own changes nothing.
 *
 * Fails with `STRIPLINE_PORT` for a loan that is closed.
 *
 * - Ownership: the loan stays the caller's.
 * - Blocking: never.
 * - Threads: that of the publisher.
 */
stripline_status stripline_loan_truncate(
    stripline_loan *loan,
    size_t samples,
    stripline_error **error);

/* Closes a loan without sending anything; NULL is allowed.
 *
 * - Ownership: that of the loan and its memory ends here.
 * - Blocking: never. If its publisher was freed, that ends here: see `stripline_publisher_free`.
 * - Threads: that of the publisher.
 */
stripline_status stripline_loan_cancel(stripline_loan *loan, stripline_error **error);

/* Samples that are sent by one call ---------------------------------------------------------- */

/* Sends a copy of `count` samples as a packet.
 *
 * Fails as `stripline_publisher_loan` and `stripline_loan_commit`.
 *
 * - Ownership: nothing is kept. `samples` may be NULL if `count` is 0, `options` always.
 * - Blocking: while a receiver with policy `block` has no room, and until the scope is reached.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_send(
    stripline_publisher *publisher,
    const void *samples,
    size_t count,
    const stripline_send_options *options,
    stripline_error **error);

/* Sends as `stripline_publisher_send` does, without waiting for room: all receivers get the
 * packet, or none.
 *
 * Fails as `stripline_publisher_try_loan` and `stripline_loan_commit`.
 *
 * - Ownership: as for `stripline_publisher_send`.
 * - Blocking: only until the scope is reached, where that is `server` or `target`.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_try_send(
    stripline_publisher *publisher,
    const void *samples,
    size_t count,
    const stripline_send_options *options,
    stripline_error **error);

/* Subscribers -------------------------------------------------------------------------------- */

/* A subscriber, which receives packets of samples from every publisher of a topic. One thread at a
 * time may use it.
 */
typedef struct stripline_subscriber stripline_subscriber;

/* Options of a subscriber. */
typedef struct stripline_subscriber_options {
    /* `sizeof(stripline_subscriber_options)`. */
    size_t size;
    /* Not 0: how many packets may be held at once, from 1 to 4096. They may be released in any
     * order and on any thread, also after the subscriber was freed. 0: one at a time, which costs
     * least.
     */
    uint32_t hold;
    /* Not 0: samples are received in windows of any length (`stripline_subscriber_window`) instead
     * of packets. Not with `hold`.
     */
    uint32_t windowed;
    /* Not 0: packets that several threads of an earlier stage have forwarded are put back in
     * sequence. So many wait behind a missing one, at most 65536.
     */
    uint32_t resequence_window;
    /* How long a missing packet is waited for, in milliseconds. */
    uint32_t resequence_skip_after_ms;
} stripline_subscriber_options;

/* Makes a subscriber to samples on a topic, which is connected to every present and future
 * publisher of the topic.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a type or option with a mistake, and with
 * `STRIPLINE_SYSTEM` or `STRIPLINE_UNSUPPORTED` if it cannot be connected. A publisher with
 * another type is listed in the node's report.
 *
 * - Ownership: the caller frees the subscriber, before or after the node. Nothing else is kept.
 * - Blocking: until the publishers that are there have answered, or for a few seconds.
 * - Threads: any.
 */
stripline_status stripline_subscriber_new(
    const stripline_node *node,
    const char *topic,
    const stripline_sample_type *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Makes a subscriber to messages on a topic. Each packet is one message in CBOR (RFC 8949), and
 * its samples are bytes. They are not checked: a message that does not decode can be refused
 * (`stripline_packet_refuse`).
 *
 * `type` is that of `stripline_message_publisher_new`. A publisher with another schema is refused,
 * and is listed in the node's report.
 *
 * Fails as `stripline_subscriber_new`, and for `windowed`, because a message is whole.
 *
 * - Ownership: the caller frees the subscriber, before or after the node. Nothing else is kept.
 * - Blocking: until the publishers that are there have answered, or for a few seconds.
 * - Threads: any.
 */
stripline_status stripline_message_subscriber_new(
    const stripline_node *node,
    const char *topic,
    const char *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Receives the next packet. `timeout_ns` is how long it waits for one: 0 not at all, and
 * `STRIPLINE_FOREVER` (or any negative number) without end.
 *
 * Returns `STRIPLINE_OK` with a packet, `STRIPLINE_EMPTY` if there was none in time, and
 * `STRIPLINE_ENDED` after every publisher has ended its stream. A publisher that died is waited
 * for. Fails with `STRIPLINE_STOPPED` when the node is stopped, and with `STRIPLINE_TOO_MANY_HELD`
 * if no more packets may be out. Fails as well with `STRIPLINE_EJECTED`, and with
 * `STRIPLINE_PEER_MISBEHAVED`. Receiving goes on after the latter.
 *
 * - Ownership: the caller releases the packet.
 * - Blocking: up to the timeout.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_receive(
    stripline_subscriber *subscriber,
    int64_t timeout_ns,
    stripline_packet **packet,
    stripline_error **error);

/* Receives the next `samples` samples of a windowed subscriber, across borders of packets, as a
 * packet. A window has fewer samples before a gap, a new stream and the end of stream.
 *
 * Returns and fails as `stripline_subscriber_receive` does.
 *
 * - Ownership: the caller releases the packet, or consumes a part of it
 *   (`stripline_packet_consume`).
 * - Blocking: up to the timeout.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_window(
    stripline_subscriber *subscriber,
    size_t samples,
    int64_t timeout_ns,
    stripline_packet **window,
    stripline_error **error);

/* Makes a waker, which ends waits of the subscriber, also in `stripline_serve` and
 * `stripline_wait_any`. Packets stay in their queue.
 *
 * Fails with `STRIPLINE_SYSTEM` if the process has no descriptor left.
 *
 * - Ownership: the caller frees the waker, before or after the subscriber.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_waker(
    stripline_subscriber *subscriber,
    stripline_waker **waker,
    stripline_error **error);

/* Gives the number of publishers that are connected now.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_senders(
    stripline_subscriber *subscriber,
    size_t *senders,
    stripline_error **error);

/* Gives, after the end of stream, how many packets and samples were missing at its very end. Both
 * are 0 where nothing was missing, and 0 at a second call.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_gap_at_end(
    stripline_subscriber *subscriber,
    uint64_t *packets,
    uint64_t *samples,
    stripline_error **error);

/* Frees a subscriber, which leaves its connections; NULL is allowed.
 *
 * Packets that it holds stay until they are released. One that it lends does, too: then the
 * connections stay until its release. From its own handler, it is freed when the handler's call
 * returns.
 *
 * - Ownership: ends here. A second call with the same subscriber is undefined.
 * - Blocking: never.
 * - Threads: one at a time.
 */
void stripline_subscriber_free(stripline_subscriber *subscriber);

/* Handlers, and waits for several subscribers ------------------------------------------------ */

/* A handler of packets: gets its context and a packet, which ends when the handler returns.
 *
 * It returns 0 to go on, and `STRIPLINE_STOPPED` to end the call that runs it. Any other number is
 * its failure: a sender that waits for the packet fails, and the call ends with
 * `STRIPLINE_HANDLER`. It must return: no `longjmp`, no exception of C++. It may use other
 * handles. Its own subscriber it may only free, which then happens at the end of the call.
 */
typedef int32_t (*stripline_packet_handler)(void *context, stripline_packet *packet);

/* A subscriber and the handler of its packets. */
typedef struct stripline_served {
    /* The subscriber, made without `hold` and `windowed`. */
    stripline_subscriber *subscriber;
    /* The handler. */
    stripline_packet_handler handler;
    /* What the handler gets; may be NULL. */
    void *context;
} stripline_served;

/* Runs handlers for the packets of `count` subscribers on this thread, until the end of stream of
 * each. Two of them never run at the same time. The subscribers take turns, packet by packet.
 *
 * Returns `STRIPLINE_ENDED` at the end. Fails with `STRIPLINE_HANDLER` if a handler fails, with
 * `STRIPLINE_STOPPED` if the node is stopped or a handler returns it, and otherwise as
 * `stripline_subscriber_receive`. Packets that were not taken are kept: one may serve again.
 *
 * - Ownership: the subscribers stay the caller's, unless their handler frees them. `ports` is not
 *   kept.
 * - Blocking: until the end.
 * - Threads: one at a time for each of the subscribers. Handlers run on it.
 */
stripline_status stripline_serve(
    const stripline_served *ports,
    size_t count,
    stripline_error **error);

/* Waits until one of `count` subscribers has a packet or its end of stream. `ready`, of `count`
 * bytes, gets 1 for each that has, and 0 for the others.
 *
 * Returns `STRIPLINE_OK` if one has, and `STRIPLINE_EMPTY` if none has in time. Fails as
 * `stripline_subscriber_receive` does.
 *
 * - Ownership: nothing is kept. `ready` is written for `STRIPLINE_OK` and `STRIPLINE_EMPTY`.
 * - Blocking: up to `timeout_ns`, as for `stripline_subscriber_receive`. It allocates.
 * - Threads: one at a time for each of the subscribers.
 */
stripline_status stripline_wait_any(
    stripline_subscriber *const *subscribers,
    size_t count,
    int64_t timeout_ns,
    uint8_t *ready,
    stripline_error **error);

/* Many packets at a time --------------------------------------------------------------------- */

/* A function that writes the packets of `stripline_publisher_send_many`. It gets its context, the
 * index of the packet in this call, from 0, and the place of its samples.
 *
 * It returns 0 to go on. Any other number ends the call with `STRIPLINE_HANDLER`, and this packet
 * is not sent. It must return: no `longjmp`, no exception of C++. It may use other handles, and
 * not its own publisher.
 */
typedef int32_t (*stripline_packet_writer)(void *context, size_t index, void *samples);

/* Sends `packets` packets of `samples` samples each, which `writer` writes in place. It is a loan
 * and a commit in a loop, and costs less for each packet. A receiver that sleeps is woken once,
 * and over sockets many packets leave with one system call.
 *
 * Fails as `stripline_publisher_loan` and `stripline_loan_commit`, and with `STRIPLINE_HANDLER` if
 * the writer fails. The packets before the failure stay sent: the increase of
 * `stripline_publisher_sequence` is their number.
 *
 * - Ownership: nothing is kept. `context` may be NULL.
 * - Blocking: as `stripline_publisher_send`, for each packet.
 * - Threads: one at a time. The writer runs on it.
 */
stripline_status stripline_publisher_send_many(
    stripline_publisher *publisher,
    size_t packets,
    size_t samples,
    stripline_packet_writer writer,
    void *context,
    stripline_error **error);

/* Waits until a packet is there, as `stripline_subscriber_receive` does without a time limit. Then
 * passes it, and those behind it that are there already, to `handler`: up to `limit` packets.
 *
 * Returns `STRIPLINE_OK`, and `STRIPLINE_ENDED` at the end of the stream. The handler returns
 * `STRIPLINE_STOPPED` to leave later packets for the next call. Fails with `STRIPLINE_HANDLER` if
 * it fails; its packet is finished, and later ones stay. Otherwise fails as
 * `stripline_subscriber_receive`; with `STRIPLINE_PORT` for a limit of 0, or for a subscriber with
 * `hold` or `windowed`. A receiver that is killed in this call has lost up to a quarter of its
 * ring or depth.
 *
 * - Ownership: `packets` gets the number of packets that the handler got, in every outcome; it may
 *   be NULL, and `context` too. The handler may free its own subscriber, which happens at the end
 *   of the call.
 * - Blocking: until a packet is there.
 * - Threads: one at a time. The handler runs on it.
 */
stripline_status stripline_subscriber_drain(
    stripline_subscriber *subscriber,
    size_t limit,
    stripline_packet_handler handler,
    void *context,
    size_t *packets,
    stripline_error **error);

/* What clients and servers of calls share: operations with types by value -------------------- */

/* An operation of a service: its name, and the types that client and server compare.
 *
 * A type is `message/cbor` for any value in CBOR, which is that of NULL, or `message/` and a
 * schema. It may also be a type of samples: then the bytes are samples as plain memory.
 */
typedef struct stripline_operation_type {
    /* `sizeof(stripline_operation_type)`. */
    size_t size;
    /* Its name: 1 to 64 letters, digits, hyphens, underscores and dots. */
    const char *name;
    /* The type of its requests. */
    const char *request;
    /* The type of its replies. */
    const char *reply;
    /* The type of its own errors. */
    const char *error;
} stripline_operation_type;

/* Calls under way, and replies --------------------------------------------------------------- */

/* A call that was made. One thread at a time may use it. */
typedef struct stripline_pending stripline_pending;

/* The bytes of a reply, or of an operation's own error. */
typedef struct stripline_reply stripline_reply;

/* Waits for the reply of a call.
 *
 * Returns `STRIPLINE_EMPTY` if it has not arrived in time: the call then stays outstanding, as it
 * does after `STRIPLINE_INTERRUPTED`. Otherwise it returns and fails as
 * `stripline_operation_call`, and later calls fail with `STRIPLINE_PORT`.
 *
 * - Ownership: the caller frees the reply, and still frees the pending call.
 * - Blocking: up to `timeout_ns` (0: not at all), and up to the deadline of the call.
 * - Threads: one at a time.
 */
stripline_status stripline_pending_wait(
    stripline_pending *pending,
    int64_t timeout_ns,
    stripline_reply **reply,
    stripline_error **error);

/* Frees a pending call; NULL is allowed. One that is outstanding is cancelled: a server that has
 * not begun with it does not begin.
 *
 * - Ownership: ends here. A second call with the same pending call is undefined.
 * - Blocking: never.
 * - Threads: one at a time.
 */
void stripline_pending_free(stripline_pending *pending);

/* Returns the bytes of a reply; NULL for NULL.
 *
 * - Ownership: the bytes are read only, and valid until the reply is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
const void *stripline_reply_data(const stripline_reply *reply);

/* Returns the number of bytes of a reply; 0 for NULL.
 *
 * - Ownership: the reply stays the caller's.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
size_t stripline_reply_length(const stripline_reply *reply);

/* Frees a reply; NULL is allowed.
 *
 * - Ownership: ends here. A second call with the same reply is undefined.
 * - Blocking: never.
 * - Threads: any.
 */
void stripline_reply_free(stripline_reply *reply);

/* Clients of calls --------------------------------------------------------------------------- */

/* A client of a service, which calls all servers of it in turn. Several threads may use it at
 * once.
 */
typedef struct stripline_client stripline_client;

/* An operation of a client's service, to be called. Several threads may call at once. */
typedef struct stripline_operation stripline_operation;

/* Options of a client. */
typedef struct stripline_client_options {
    /* `sizeof(stripline_client_options)`. */
    size_t size;
    /* How long a call may take, with the wait for a server: at most an hour; 0: five seconds. */
    uint64_t deadline_ns;
    /* Calls that may be outstanding at each server: 1 to 16384; 0: 1024. */
    uint32_t outstanding;
    /* Bytes of the buffer for requests; 0: 256 KiB. Larger requests go in fragments. */
    uint32_t buffer;
} stripline_client_options;

/* Options of one call. */
typedef struct stripline_call_options {
    /* `sizeof(stripline_call_options)`. */
    size_t size;
    /* How long the call may take: at most an hour; 0: that of the client. */
    uint64_t deadline_ns;
    /* Not 0: `key` selects the server, the same one each time. 0: the servers take turns. */
    uint32_t has_key;
    /* The key. */
    uint64_t key;
} stripline_call_options;

/* Makes a client of a service, which is connected to every present and future server of it.
 *
 * Fails with `STRIPLINE_FAILED` for a name or an option with a mistake, which the message names.
 *
 * - Ownership: the caller frees the client, before or after the node. `options` may be NULL.
 * - Blocking: until the servers that are there have answered, or for a few seconds.
 * - Threads: any.
 */
stripline_status stripline_client_new(
    const stripline_node *node,
    const char *service,
    const stripline_client_options *options,
    stripline_client **client,
    stripline_error **error);

/* Waits until at least `count` servers of the service are connected.
 *
 * Returns `STRIPLINE_OK` if they are, and `STRIPLINE_EMPTY` if not in time.
 *
 * - Ownership: nothing is kept.
 * - Blocking: up to `timeout_ns`, and at most an hour, also for `STRIPLINE_FOREVER`.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_wait_for_servers(
    const stripline_client *client,
    size_t count,
    int64_t timeout_ns,
    stripline_error **error);

/* Makes a waker, which ends waits of the client: calls, pending calls of it, and
 * `stripline_client_wait_for_servers`. One wake ends one wait, though several threads may wait.
 *
 * An interrupted `stripline_operation_call` is cancelled: `stripline_error_is_sent` is 1 if it was
 * made. An interrupted `stripline_pending_wait` can be repeated.
 *
 * - Ownership: the caller frees the waker, before or after the client.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_waker(
    const stripline_client *client,
    stripline_waker **waker,
    stripline_error **error);

/* Makes a handle for an operation of the service. The first call checks that the server has it
 * with these types.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a name or a type with a mistake.
 *
 * - Ownership: the caller frees the operation, before or after the client. Nothing else is kept.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_operation(
    const stripline_client *client,
    const stripline_operation_type *type,
    stripline_operation **operation,
    stripline_error **error);

/* Calls an operation, and waits for its reply. `request` has `bytes` bytes of the operation's type
 * of request, and may be NULL if `bytes` is 0.
 *
 * Returns `STRIPLINE_OK` with the reply. For `STRIPLINE_USER_ERROR`, `reply` is written as well:
 * it has the operation's own error. All other failures have no reply: `STRIPLINE_NO_SERVER` and
 * the statuses that follow it.
 *
 * - Ownership: the caller frees the reply. Nothing else is kept.
 * - Blocking: until the reply, up to the deadline.
 * - Threads: any, several at once.
 */
stripline_status stripline_operation_call(
    const stripline_operation *operation,
    const void *request,
    size_t bytes,
    const stripline_call_options *options,
    stripline_reply **reply,
    stripline_error **error);

/* Makes a call without waiting for its reply. `request` is that of `stripline_operation_call`.
 *
 * Fails as that does before the call is made.
 *
 * - Ownership: the caller frees the pending call, which cancels it if it is outstanding. Nothing
 *   else is kept.
 * - Blocking: while there is no server or no room, up to the deadline.
 * - Threads: any, several at once.
 */
stripline_status stripline_operation_start(
    const stripline_operation *operation,
    const void *request,
    size_t bytes,
    const stripline_call_options *options,
    stripline_pending **pending,
    stripline_error **error);

/* Frees an operation; NULL is allowed. Pending calls of it go on.
 *
 * - Ownership: ends here. A second call with the same operation is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_operation_free(stripline_operation *operation);

/* Frees a client; NULL is allowed. Its connections end with the last of its operations and pending
 * calls.
 *
 * - Ownership: ends here. A second call with the same client is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_client_free(stripline_client *client);

/* The answer to one call, given at once or later --------------------------------------------- */

/* The right and the duty to answer one call, on any thread and at any time, also after its handler
 * has returned. An answer never blocks. It has no effect once the client has gone, or the server
 * was freed.
 */
typedef struct stripline_responder stripline_responder;

/* A handler of calls: gets its context, the bytes of the request, and what answers the call.
 *
 * The request ends when the handler returns. The responder is the program's: it frees it, in the
 * handler or later. It must return: no `longjmp`, no exception of C++. It may use other handles.
 * Its own server it may only free, which then happens at the end of the call that serves.
 */
typedef void (*stripline_call_handler)(
    void *context,
    const void *request,
    size_t bytes,
    stripline_responder *responder);

/* Sends the reply of a call: `bytes` bytes of the operation's type of reply.
 *
 * Fails with `STRIPLINE_PORT` for a call that was answered before.
 *
 * - Ownership: nothing is kept; the responder is still freed.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_responder_reply(
    stripline_responder *responder,
    const void *reply,
    size_t bytes,
    stripline_error **error);

/* Sends the operation's own error, which is `STRIPLINE_USER_ERROR` at the client: `bytes` bytes of
 * the operation's type of error.
 *
 * Fails as `stripline_responder_reply`.
 *
 * - Ownership: nothing is kept; the responder is still freed.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_responder_fail(
    stripline_responder *responder,
    const void *failed,
    size_t bytes,
    stripline_error **error);

/* Refuses a call with a reason in words, which is `STRIPLINE_REPLY_FAILED` at the client.
 *
 * Fails as `stripline_responder_reply`.
 *
 * - Ownership: nothing is kept; the responder is still freed.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_responder_refuse(
    stripline_responder *responder,
    const char *reason,
    stripline_error **error);

/* Refuses a call with a kind of refusal and a reason in words. The client gets `kind` as its
 * status. `STRIPLINE_WRONG_TYPE` is for a request that does not decode, and
 * `STRIPLINE_HANDLER_PANICKED` for a handler that has failed by an exception.
 * `STRIPLINE_REPLY_FAILED` is that of `stripline_responder_refuse`.
 *
 * Fails as `stripline_responder_reply`, and with `STRIPLINE_INVALID_ARGUMENT` for another kind.
 *
 * - Ownership: nothing is kept; the responder is still freed.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_responder_refuse_as(
    stripline_responder *responder,
    int32_t kind,
    const char *reason,
    stripline_error **error);

/* Returns how long the client waits for the reply, in nanoseconds counted from the call; 0 for
 * NULL, and after the answer.
 *
 * - Ownership: the responder stays the program's.
 * - Blocking: never.
 * - Threads: any.
 */
uint64_t stripline_responder_deadline_ns(const stripline_responder *responder);

/* Frees a responder; NULL is allowed. A call without an answer is refused, so that its client does
 * not wait for nothing.
 *
 * - Ownership: ends here. A second call with the same responder is undefined.
 * - Blocking: never.
 * - Threads: any.
 */
void stripline_responder_free(stripline_responder *responder);

/* Services: operations that are named at run time, and their handlers ------------------------ */

/* A service: its name, its operations and their handlers. Any number of servers are made of it. */
typedef struct stripline_service stripline_service;

/* Makes a service without operations. Clients find it by its name: 1 to 64 letters, digits, `-`,
 * `_`, `.`.
 *
 * - Ownership: the caller frees the service, before or after its servers. `name` is not kept.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_service_new(
    const char *name,
    stripline_service **service,
    stripline_error **error);

/* Adds an operation and its handler, for servers that are made of the service later. `doc` is what
 * clients can show of it, or NULL.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a name or a type with a mistake, a second operation
 * of that name, and one beyond 128.
 *
 * - Ownership: `context` stays the program's, and must be valid until the servers of the service
 *   are freed. It may be NULL. Nothing else is kept.
 * - Blocking: never.
 * - Threads: any. The handler runs on the threads that serve.
 */
stripline_status stripline_service_add(
    stripline_service *service,
    const stripline_operation_type *operation,
    stripline_call_handler handler,
    void *context,
    const char *doc,
    stripline_error **error);

/* Frees a service; NULL is allowed. Its servers go on.
 *
 * - Ownership: ends here. A second call with the same service is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_service_free(stripline_service *service);

/* Servers of calls --------------------------------------------------------------------------- */

/* A server, which answers the calls of any number of clients. One thread at a time may use it. */
typedef struct stripline_server stripline_server;

/* Options of a server. */
typedef struct stripline_server_options {
    /* `sizeof(stripline_server_options)`. */
    size_t size;
    /* The transport's name. NULL: as the domain's topics have it for the name of the service. */
    const char *transport;
    /* The server's own name, 1 to 64 bytes. NULL: a unique one. */
    const char *name;
    /* Bytes of the buffer for the replies to each client; 0: 256 KiB. */
    uint32_t buffer;
    /* Clients at a time: 1 to 4096; 0: 256. */
    uint32_t clients;
    /* Calls that may wait behind the next one, at most 4096; others are refused with
     * `STRIPLINE_OVERLOADED`. 0: all wait.
     */
    uint32_t waiting;
} stripline_server_options;

/* The counters of a server. */
typedef struct stripline_server_counts {
    /* `sizeof(stripline_server_counts)`, set by the caller. */
    size_t size;
    /* Calls for which a handler was run. */
    uint64_t calls;
    /* Calls that were answered without running a handler. */
    uint64_t refused;
    /* Calls that their clients cancelled, in time or not. */
    uint64_t cancelled;
    /* Clients that were disconnected because they broke the protocol. */
    uint64_t evicted;
    /* Replies that a client did not take in time, or that had no client any more. */
    uint64_t replies_dropped;
    /* Clients connected now. */
    uint64_t clients;
} stripline_server_counts;

/* Makes a server of a service. Clients find it from now on; their calls wait until it serves.
 *
 * Fails with `STRIPLINE_FAILED` for an option out of range, and with `STRIPLINE_SYSTEM` or
 * `STRIPLINE_UNSUPPORTED` if its transport cannot be opened.
 *
 * - Ownership: the caller frees the server, before or after the node and the service. `options`
 *   may be NULL and is not kept.
 * - Blocking: until the node's own clients are connected.
 * - Threads: any.
 */
stripline_status stripline_server_new(
    const stripline_node *node,
    const stripline_service *service,
    const stripline_server_options *options,
    stripline_server **server,
    stripline_error **error);

/* Answers calls until the node is stopped. `threads` is how many run handlers at once, at most 64;
 * 0 runs them on this thread, one by one.
 *
 * Returns `STRIPLINE_STOPPED` when the node is stopped, and `STRIPLINE_INTERRUPTED` when a waker
 * ends it. Calls that wait then are kept for the next one.
 *
 * - Ownership: the server stays the caller's, unless a handler frees it.
 * - Blocking: until then.
 * - Threads: one at a time. Handlers run on it, or on threads of the library.
 */
stripline_status stripline_server_serve(
    stripline_server *server,
    size_t threads,
    stripline_error **error);

/* Answers one call on this thread.
 *
 * Returns `STRIPLINE_EMPTY` if none arrives in time. Fails as `stripline_server_serve`.
 *
 * - Ownership: as for `stripline_server_serve`.
 * - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) is without end.
 *   Then until the handler returns.
 * - Threads: one at a time. The handler runs on it.
 */
stripline_status stripline_server_serve_one(
    stripline_server *server,
    int64_t timeout_ns,
    stripline_error **error);

/* Makes a waker, which ends waits of the server. Handlers that have begun finish first.
 *
 * - Ownership: the caller frees the waker, before or after the server.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_server_waker(
    stripline_server *server,
    stripline_waker **waker,
    stripline_error **error);

/* Gives the counters of a server.
 *
 * - Ownership: nothing is kept.
 * - Blocking: no longer than for a lock of the server.
 * - Threads: one at a time.
 */
stripline_status stripline_server_get_counts(
    stripline_server *server,
    stripline_server_counts *counts,
    stripline_error **error);

/* Frees a server; NULL is allowed. Its clients get `STRIPLINE_SERVER_GONE` for calls without an
 * answer. From its own handler, it is freed when the call that serves returns.
 *
 * - Ownership: ends here. A second call with the same server is undefined. Responders are still
 *   freed; their answers have no effect.
 * - Blocking: no longer than for the replies that are being sent.
 * - Threads: one at a time.
 */
void stripline_server_free(stripline_server *server);

/* Handles in a program's own loop: one descriptor each, and what makes it ready -------------- */

/* Gives a subscriber's descriptor, for `poll`, epoll or a toolkit. It is the same each time. It
 * can be read when the subscriber has to be asked, once `stripline_subscriber_arm` has returned
 * `STRIPLINE_EMPTY`. It is level-triggered, and nothing is ever read from it.
 *
 * Fails with `STRIPLINE_SYSTEM` if the process has no descriptors left: it takes four.
 *
 * - Ownership: the descriptor is the subscriber's, and is closed with it. Do not close it.
 * - Blocking: never.
 * - Threads: one at a time. Any may wait for the descriptor.
 */
stripline_status stripline_subscriber_ready_descriptor(
    stripline_subscriber *subscriber,
    int32_t *descriptor,
    stripline_error **error);

/* Makes a subscriber's descriptor ready once there may be a packet, the end of stream or an error.
 * For a windowed one, `samples` is the length of the window that is awaited; for others it is 0.
 *
 * Returns `STRIPLINE_EMPTY` if there is nothing so far: wait for the descriptor. Returns
 * `STRIPLINE_OK` if there is something already: receive it first. Call this each time before the
 * loop waits. The descriptor stays ready until the next call of this. Any other call of the
 * subscriber may end what this has prepared.
 *
 * Fails with `STRIPLINE_STOPPED` when the node is stopped and with `STRIPLINE_INTERRUPTED` by a
 * waker, which make the descriptor ready as well. Fails with `STRIPLINE_TOO_MANY_HELD` while a
 * packet is out, of a subscriber made without `hold`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_arm(
    stripline_subscriber *subscriber,
    size_t samples,
    stripline_error **error);

/* Gives a publisher's descriptor, as `stripline_subscriber_ready_descriptor` does. It can be read
 * when the publisher has to be asked, once `stripline_publisher_arm` or
 * `stripline_publisher_arm_for_receivers` has returned `STRIPLINE_EMPTY`.
 *
 * - Ownership: the descriptor is the publisher's, and is closed with it. Do not close it.
 * - Blocking: never.
 * - Threads: one at a time. Any may wait for the descriptor.
 */
stripline_status stripline_publisher_ready_descriptor(
    stripline_publisher *publisher,
    int32_t *descriptor,
    stripline_error **error);

/* Makes a publisher's descriptor ready once there may be room for a packet of `samples` samples,
 * or an error.
 *
 * Returns `STRIPLINE_EMPTY` if there is no room so far: wait for the descriptor. Returns
 * `STRIPLINE_OK` if there is some already: call `stripline_publisher_try_loan` first. Call this
 * each time before the loop waits. The descriptor stays ready until the next call of this. Any
 * other call of the publisher may end what this has prepared. A receiver that was full has room
 * again at its low watermark.
 *
 * Fails with `STRIPLINE_TOO_LARGE` above `stripline_publisher_samples_in_place`, with
 * `STRIPLINE_PORT` while a loan is open and after the end of the stream. Fails with
 * `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` as `stripline_subscriber_arm`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_arm(
    stripline_publisher *publisher,
    size_t samples,
    stripline_error **error);

/* Makes a publisher's descriptor ready once at least `count` receivers may be connected. It takes
 * the place of what `stripline_publisher_arm` has prepared.
 *
 * Returns `STRIPLINE_OK` if they are connected already, and `STRIPLINE_EMPTY` if not. Otherwise as
 * `stripline_publisher_arm`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_arm_for_receivers(
    stripline_publisher *publisher,
    size_t count,
    stripline_error **error);

/* Gives a client's descriptor, as `stripline_subscriber_ready_descriptor` does. It can be read
 * when pending calls have to be asked, once `stripline_client_arm` has returned `STRIPLINE_EMPTY`.
 *
 * - Ownership: the descriptor is the client's. Do not close it.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_ready_descriptor(
    const stripline_client *client,
    int32_t *descriptor,
    stripline_error **error);

/* Makes a client's descriptor ready once a reply may have arrived, or a server has come or gone.
 *
 * Returns `STRIPLINE_EMPTY` if nothing has come so far: wait for the descriptor. Returns
 * `STRIPLINE_OK` if something has: ask the pending calls first. Call this each time before the
 * loop waits, and after each call that was started. Deadlines do not make it ready.
 *
 * Fails with `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` as `stripline_subscriber_arm`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_arm(const stripline_client *client, stripline_error **error);

/* Gives a server's descriptor, as `stripline_subscriber_ready_descriptor` does. It can be read
 * when `stripline_server_serve_one` has something to do, once `stripline_server_arm` has returned
 * `STRIPLINE_EMPTY`.
 *
 * - Ownership: the descriptor is the server's, and is closed with it. Do not close it.
 * - Blocking: never.
 * - Threads: one at a time. Any may wait for the descriptor.
 */
stripline_status stripline_server_ready_descriptor(
    stripline_server *server,
    int32_t *descriptor,
    stripline_error **error);

/* Makes a server's descriptor ready once there may be a call.
 *
 * Returns `STRIPLINE_EMPTY` if no call is there so far: wait for the descriptor. Returns
 * `STRIPLINE_OK` if there is something already: serve it first. Call this each time before the
 * loop waits.
 *
 * Fails with `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` as `stripline_subscriber_arm`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_server_arm(stripline_server *server, stripline_error **error);

/* Wait sets: one wait for any number of handles, and for descriptors of the program ---------- */

/* One wait for any number of subscribers, publishers, clients and servers, and for descriptors of
 * the program. Each has a key. One thread waits at a time; others may add, remove and wake.
 *
 * A wait takes nothing: what is not asked then is ready again in the next wait.
 */
typedef struct stripline_wait_set stripline_wait_set;

/* The ways to be ready in a wait set, as bits. The first two are also what a descriptor is waited
 * for.
 */
enum stripline_ready {
    /* A handle has to be asked, or a descriptor can be read or has ended. */
    STRIPLINE_READY_READABLE = 1,
    /* A descriptor can be written or has ended. */
    STRIPLINE_READY_WRITABLE = 2,
    /* A descriptor was closed without being removed. It stays so until it is removed. */
    STRIPLINE_READY_CLOSED = 4,
};

/* A thing that is ready in a wait set. */
typedef struct stripline_wait_event {
    /* The key that it was added with. */
    uint64_t key;
    /* How it is ready: `STRIPLINE_READY_…`, combined with `|`. */
    uint64_t ready;
} stripline_wait_event;

/* Makes an empty wait set.
 *
 * Fails with `STRIPLINE_SYSTEM` if the process has no descriptors left: it takes two.
 *
 * - Ownership: the caller frees the wait set.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_wait_set_new(stripline_wait_set **set, stripline_error **error);

/* Adds a subscriber to a wait set, under a key of the caller's choice. It is ready when
 * `stripline_subscriber_receive` has a packet, the end of stream or an error. For a windowed one,
 * `samples` is the length of the window that is awaited; for others it is 0.
 *
 * Fails with `STRIPLINE_PORT` for a key that is in use, and as
 * `stripline_subscriber_ready_descriptor`.
 *
 * - Ownership: the subscriber stays the caller's. It may be freed before the set, and is then
 *   never ready. While another thread waits with the set, remove it first.
 * - Blocking: never.
 * - Threads: the one of the subscriber, which from then on is the one that waits with the set.
 */
stripline_status stripline_wait_set_add_subscriber(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_subscriber *subscriber,
    size_t samples,
    stripline_error **error);

/* Adds a publisher to a wait set. It is ready when there is room for a packet of `samples`
 * samples, or an error.
 *
 * A publisher has one descriptor: add it once to a set, by this or by
 * `stripline_wait_set_add_publisher_for_receivers`. Fails with `STRIPLINE_PORT` for a key that is
 * in use, and as `stripline_publisher_ready_descriptor`. A wait while its loan is open is ready at
 * once.
 *
 * - Ownership: as `stripline_wait_set_add_subscriber`.
 * - Blocking: never.
 * - Threads: as `stripline_wait_set_add_subscriber`.
 */
stripline_status stripline_wait_set_add_publisher(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_publisher *publisher,
    size_t samples,
    stripline_error **error);

/* Adds a publisher to a wait set. It is ready when at least `count` receivers are connected.
 *
 * Fails as `stripline_wait_set_add_publisher`.
 *
 * - Ownership: as `stripline_wait_set_add_subscriber`.
 * - Blocking: never.
 * - Threads: as `stripline_wait_set_add_subscriber`.
 */
stripline_status stripline_wait_set_add_publisher_for_receivers(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_publisher *publisher,
    size_t count,
    stripline_error **error);

/* Adds a client to a wait set. It is ready when pending calls have to be asked, as after
 * `stripline_client_arm`.
 *
 * Fails with `STRIPLINE_PORT` for a key that is in use, and as
 * `stripline_client_ready_descriptor`.
 *
 * - Ownership: as `stripline_wait_set_add_subscriber`.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_wait_set_add_client(
    const stripline_wait_set *set,
    uint64_t key,
    const stripline_client *client,
    stripline_error **error);

/* Adds a server to a wait set. It is ready when `stripline_server_serve_one` has something to do.
 *
 * Fails with `STRIPLINE_PORT` for a key that is in use, and as
 * `stripline_server_ready_descriptor`.
 *
 * - Ownership: as `stripline_wait_set_add_subscriber`.
 * - Blocking: never.
 * - Threads: as `stripline_wait_set_add_subscriber`.
 */
stripline_status stripline_wait_set_add_server(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_server *server,
    stripline_error **error);

/* Adds a descriptor of the program to a wait set. `interest` is what it is waited for:
 * `STRIPLINE_READY_READABLE`, `STRIPLINE_READY_WRITABLE` or both.
 *
 * Fails with `STRIPLINE_PORT` for a key that is in use, and with `STRIPLINE_INVALID_ARGUMENT` for
 * a negative descriptor or another interest.
 *
 * - Ownership: the descriptor stays the caller's. Remove it before it is closed. One that was
 *   closed is reported with `STRIPLINE_READY_CLOSED`, unless its number has been used again.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_wait_set_add_descriptor(
    const stripline_wait_set *set,
    uint64_t key,
    int32_t descriptor,
    uint64_t interest,
    stripline_error **error);

/* Removes what was added with a key. When this returns, no wait uses it any more or gives its key.
 *
 * Returns `STRIPLINE_EMPTY` if there is nothing with that key.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_wait_set_remove(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_error **error);

/* Waits until something in the set is ready, and gives up to `capacity` events. `count` is set to
 * their number. What does not fit is given first by the next wait.
 *
 * Returns `STRIPLINE_OK` with at least one event, and `STRIPLINE_EMPTY` if nothing was ready in
 * time. Fails with `STRIPLINE_INTERRUPTED` by a waker of the set or of a handle in it, and with
 * `STRIPLINE_STOPPED` when the node of one is stopped. Fails with `STRIPLINE_TOO_MANY_HELD` for a
 * subscriber with its packet out, and with `STRIPLINE_PORT` while another thread waits. A handle
 * with another error is ready: the call that asks it has the error. Nothing is lost.
 *
 * - Ownership: nothing is kept.
 * - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) is without end.
 * - Threads: one at a time, which uses the handles of the set meanwhile.
 */
stripline_status stripline_wait_set_wait(
    const stripline_wait_set *set,
    stripline_wait_event *events,
    size_t capacity,
    size_t *count,
    int64_t timeout_ns,
    stripline_error **error);

/* Makes a waker, which ends a wait of the set.
 *
 * - Ownership: the caller frees the waker, before or after the set.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_wait_set_waker(
    const stripline_wait_set *set,
    stripline_waker **waker,
    stripline_error **error);

/* Frees a wait set; NULL is allowed. What is in it stays.
 *
 * - Ownership: ends here. A second call with the same set is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_wait_set_free(stripline_wait_set *set);

/* The words of a component's function that fails --------------------------------------------- */

/* The place for the words of a function of a component, for its user to read. It is valid until
 * the function returns.
 */
typedef struct stripline_reason stripline_reason;

/* Sets the words of a function that fails, or those of a self-test. They replace the words before.
 * Bytes that are no UTF-8 are replaced. NULL for either has no effect.
 *
 * Returns `STRIPLINE_FAILED`, for the function to return.
 *
 * - Ownership: `text` is not kept.
 * - Blocking: never.
 * - Threads: that of the function.
 */
stripline_status stripline_reason_set(stripline_reason *reason, const char *text);

/* Sets the words to the message of an error, and frees the error.
 *
 * Returns the error's status, for the function to return: `STRIPLINE_OK` for NULL. A function that
 * returns `STRIPLINE_STOPPED` has ended as its component should.
 *
 * - Ownership: that of the error ends here.
 * - Blocking: never.
 * - Threads: that of the function.
 */
stripline_status stripline_reason_take(stripline_reason *reason, stripline_error *error);

/* The values of a component's properties ----------------------------------------------------- */

/* The values of all properties of a component. They fit the specification. They are valid until
 * the function that gets them returns.
 */
typedef struct stripline_properties stripline_properties;

/* Gives the value of a real number.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not declared, or with another
 * kind.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: that of the function that got the properties.
 */
stripline_status stripline_properties_float(
    const stripline_properties *properties,
    const char *name,
    double *value,
    stripline_error **error);

/* Gives the value of a whole number, as `stripline_properties_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: that of the function that got the properties.
 */
stripline_status stripline_properties_integer(
    const stripline_properties *properties,
    const char *name,
    int64_t *value,
    stripline_error **error);

/* Gives the value of a boolean, 0 or 1, as `stripline_properties_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: that of the function that got the properties.
 */
stripline_status stripline_properties_boolean(
    const stripline_properties *properties,
    const char *name,
    int32_t *value,
    stripline_error **error);

/* Gives the value of a text, a choice or a path, as `stripline_properties_float`. It has a NUL
 * behind its last byte. A path that is empty names no file.
 *
 * - Ownership: the text is valid until the function that got the properties returns.
 * - Blocking: never.
 * - Threads: that of the function that got the properties.
 */
stripline_status stripline_properties_text(
    const stripline_properties *properties,
    const char *name,
    stripline_text *value,
    stripline_error **error);

/* Gives 1 if a change at run time names the property, even with its old value, and otherwise 0.
 *
 * Fails as `stripline_properties_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: that of the function that got the properties.
 */
stripline_status stripline_properties_is_changed(
    const stripline_properties *properties,
    const char *name,
    int32_t *is_changed,
    stripline_error **error);

/* Read-only properties, which a component sets while it runs --------------------------------- */

/* A read-only property of a component, for the component to set: `stripline get` prints its last
 * value. A number costs one store. A value out of the property's range is shown as unknown.
 */
typedef struct stripline_readout stripline_readout;

/* Sets a real number.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a property of another kind.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_set_float(
    const stripline_readout *readout,
    double value,
    stripline_error **error);

/* Sets a whole number, as `stripline_readout_set_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_set_integer(
    const stripline_readout *readout,
    int64_t value,
    stripline_error **error);

/* Adds to a whole number, as `stripline_readout_set_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_add(
    const stripline_readout *readout,
    uint64_t count,
    stripline_error **error);

/* Sets a boolean, as `stripline_readout_set_float`: 0 is false, any other number true.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_set_boolean(
    const stripline_readout *readout,
    int32_t value,
    stripline_error **error);

/* Sets a text of at most 4096 bytes, as `stripline_readout_set_float`. A longer one is cut.
 *
 * - Ownership: nothing is kept.
 * - Blocking: no longer than for a lock. It allocates.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_set_text(
    const stripline_readout *readout,
    const char *value,
    stripline_error **error);

/* The ports of a component that runs --------------------------------------------------------- */

/* The ports of a component, already connected, and what else it has of its waveform. They are
 * valid until the function that gets them returns.
 *
 * Publishers, subscribers and readouts that they give end then, too, with an open loan and a
 * packet that is out. The program may free publishers and subscribers before.
 */
typedef struct stripline_ports stripline_ports;

/* Returns the component's name in the waveform. It is empty for NULL.
 *
 * - Ownership: the text is valid as long as the ports.
 * - Blocking: never.
 * - Threads: that of the ports.
 */
stripline_text stripline_ports_component(const stripline_ports *ports);

/* Returns 1 if the user wants warnings and errors only (`stripline run --quiet`), and otherwise 0.
 * A component prints nothing on the terminal then.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: that of the ports.
 */
int32_t stripline_ports_is_quiet(const stripline_ports *ports);

/* Gives the type of a port in this waveform, with its layout or schema. It is empty for a port
 * that is not connected, or not there.
 *
 * - Ownership: the text is valid as long as the ports.
 * - Blocking: never.
 * - Threads: that of the ports.
 */
stripline_status stripline_ports_type(
    const stripline_ports *ports,
    const char *port,
    stripline_text *type,
    stripline_error **error);

/* Takes an input. `type` is that of its samples. NULL is the type that the waveform gives it, or
 * else the one that the component declares; also one of messages. An input that is not connected
 * is at its end of stream.
 *
 * Fails with `STRIPLINE_PORT` if there is no such input, if it was taken before, or if the
 * waveform gives it another type. Fails with `STRIPLINE_INVALID_ARGUMENT` for a type or option
 * with a mistake. A mistake in the options takes the input nevertheless.
 *
 * - Ownership: the subscriber is the ports'. `type` and `options` may be NULL and are not kept.
 * - Blocking: never.
 * - Threads: that of the ports.
 */
stripline_status stripline_ports_input(
    stripline_ports *ports,
    const char *port,
    const stripline_sample_type *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Takes an output, as `stripline_ports_input` takes an input. Packets that are sent to an output
 * that is not connected are discarded.
 *
 * When the component's function returns 0, the stream ends. After a failure it does not, because
 * the component may be started again.
 *
 * - Ownership: the publisher is the ports'. `type` may be NULL and is not kept.
 * - Blocking: never.
 * - Threads: that of the ports.
 */
stripline_status stripline_ports_output(
    stripline_ports *ports,
    const char *port,
    const stripline_sample_type *type,
    stripline_publisher **publisher,
    stripline_error **error);

/* Takes an input of messages, as bytes of CBOR. `type` is that of
 * `stripline_message_subscriber_new`.
 *
 * Fails as `stripline_ports_input`, and for `windowed`.
 *
 * - Ownership: the subscriber is the ports'. `type` and `options` may be NULL and are not kept.
 * - Blocking: never.
 * - Threads: that of the ports.
 */
stripline_status stripline_ports_message_input(
    stripline_ports *ports,
    const char *port,
    const char *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Takes an output of messages, as bytes of CBOR. `type` is that of
 * `stripline_message_publisher_new`. Fails as `stripline_ports_output`.
 *
 * - Ownership: the publisher is the ports'. `type` may be NULL and is not kept.
 * - Blocking: never.
 * - Threads: that of the ports.
 */
stripline_status stripline_ports_message_output(
    stripline_ports *ports,
    const char *port,
    const char *type,
    stripline_publisher **publisher,
    stripline_error **error);

/* Gives a property that the component declares as read-only, for the component to set. Two of the
 * same property set the same value.
 *
 * Fails with `STRIPLINE_FAILED` for a property that is not declared so.
 *
 * - Ownership: the readout is the ports'.
 * - Blocking: never.
 * - Threads: that of the ports.
 */
stripline_status stripline_ports_readout(
    stripline_ports *ports,
    const char *property,
    const stripline_readout **readout,
    stripline_error **error);

/* Receives the next packet of an input, as `stripline_subscriber_receive` does without a timeout.
 * Meanwhile it runs the component's functions for changes and self-tests: before the packet, and
 * at once when a request arrives while none is there.
 *
 * - Ownership: the caller releases the packet.
 * - Blocking: until a packet or the end of stream.
 * - Threads: that of the ports. The functions run on it.
 */
stripline_status stripline_ports_receive(
    stripline_ports *ports,
    stripline_subscriber *subscriber,
    stripline_packet **packet,
    stripline_error **error);

/* Receives the next window of a windowed input, as `stripline_subscriber_window` does without a
 * timeout, and serves requests as `stripline_ports_receive`.
 *
 * - Ownership: the caller releases the packet, or consumes a part of it.
 * - Blocking: until the samples, a gap or the end of stream are there.
 * - Threads: that of the ports. The functions run on it.
 */
stripline_status stripline_ports_window(
    stripline_ports *ports,
    stripline_subscriber *subscriber,
    size_t samples,
    stripline_packet **window,
    stripline_error **error);

/* Runs the component's functions for the requests that wait. For components that do not wait in
 * `stripline_ports_receive`, between their packets.
 *
 * Fails with `STRIPLINE_STOPPED` when the component must stop.
 *
 * - Ownership: nothing is kept.
 * - Blocking: until the functions return.
 * - Threads: that of the ports. The functions run on it.
 */
stripline_status stripline_ports_poll(stripline_ports *ports, stripline_error **error);

/* Sleeps. Fails at once with `STRIPLINE_STOPPED` when the component must stop. Requests wait until
 * `stripline_ports_poll`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: for `time_ns`; `STRIPLINE_FOREVER` (or any negative number) is without end.
 * - Threads: any, until the component's function returns.
 */
stripline_status stripline_ports_sleep(
    const stripline_ports *ports,
    int64_t time_ns,
    stripline_error **error);

/* Components that are handlers: the waveform selects the threads that run them --------------- */

/* The packet that a handler makes. It is empty at first, and valid until the handler returns. */
typedef struct stripline_made stripline_made;

/* Sets the number of samples of the packet that a handler makes, and gives their place. Those that
 * were there before stay. The content of new ones is unspecified.
 *
 * Fails with `STRIPLINE_TOO_LARGE` if there is no memory for them. A packet above the output's
 * largest fails when it is sent.
 *
 * - Ownership: the memory is valid until the next call, and until the handler returns.
 * - Blocking: never. It allocates where no packet before had as many.
 * - Threads: that of the handler.
 */
stripline_status stripline_made_resize(
    stripline_made *made,
    size_t samples,
    void **memory,
    stripline_error **error);

/* Components: their specification, and the functions that make and run them ------------------ */

/* A component type: its name, ports, properties, self-tests and functions. Programs run it by
 * `stripline_main` and `stripline_harness_new`.
 */
typedef struct stripline_component stripline_component;

/* A function that creates a component of checked properties. It gets the context of the functions,
 * and gives its result in `instance`, which the other functions get.
 *
 * It returns 0, or `STRIPLINE_FAILED` and its words in `reason`. Failures that can be found before
 * the first packet belong here.
 */
typedef int32_t (*stripline_component_create)(
    void *context,
    const stripline_properties *properties,
    void **instance,
    stripline_reason *reason);

/* A function that runs a component until the end of its input or of its own work.
 *
 * It returns 0 at its end, which then is the end of its streams. `STRIPLINE_STOPPED` is a clean
 * end as well: it returns what its ports return when it must stop. Any other positive number is
 * its failure, with its words in `reason` (`stripline_reason_take`).
 */
typedef int32_t (*stripline_component_run)(
    void *instance,
    stripline_ports *ports,
    stripline_reason *reason);

/* A function that makes one packet of each received packet. What it makes is sent with the stream,
 * sample index and time of `packet`; also an empty packet. Without an output, `made` is NULL.
 *
 * The waveform selects the threads that run it. With a pool, it runs on several at once. It
 * returns as a `stripline_packet_handler` does, with its words in `reason`.
 */
typedef int32_t (*stripline_component_handler)(
    void *instance,
    stripline_packet *packet,
    stripline_made *made,
    stripline_reason *reason);

/* A function that takes new values of changeable properties. It gets all properties, the changed
 * ones with their new values, which fit their ranges.
 *
 * It returns 0, or `STRIPLINE_FAILED` and the reason against them. Then the old values stay.
 */
typedef int32_t (*stripline_component_change)(
    void *instance,
    const stripline_properties *properties,
    stripline_reason *reason);

/* A function that runs the self-test of that name.
 *
 * It returns 0 if the test passed, and otherwise `STRIPLINE_FAILED`. `reason` is a remark for the
 * user in both cases. It may set `value` to what it has measured, a finite number.
 */
typedef int32_t (*stripline_component_test)(
    void *instance,
    const char *test,
    double *value,
    stripline_reason *reason);

/* A function that checks properties which are valid one by one, before any part of a waveform
 * starts. It may read files, and changes nothing. It returns 0, or `STRIPLINE_FAILED` and the
 * problem.
 */
typedef int32_t (*stripline_component_validate)(
    void *context,
    const stripline_properties *properties,
    stripline_reason *reason);

/* A function that destroys a component, after all its other functions have returned. */
typedef void (*stripline_component_destroy)(void *instance);

/* The functions of a component type. One of `run` and `handle` is set, and the others may be NULL.
 *
 * They are called on threads of the library. Of one component, `change` and `test` run on the
 * thread that runs it; with a pool, beside `handle`. They must return: no `longjmp`, no exception
 * of C++.
 */
typedef struct stripline_component_functions {
    /* `sizeof(stripline_component_functions)`. */
    size_t size;
    /* What `create` and `validate` get. Without `create`, also the instance. */
    void *context;
    /* Creates a component. */
    stripline_component_create create;
    /* Runs it. */
    stripline_component_run run;
    /* Makes one packet of each; the type has one input and at most one output. */
    stripline_component_handler handle;
    /* Takes new values; needed for properties that are changeable. */
    stripline_component_change change;
    /* Runs self-tests; needed where some are declared. */
    stripline_component_test test;
    /* Checks the properties together. */
    stripline_component_validate validate;
    /* Destroys what `create` has created. */
    stripline_component_destroy destroy;
} stripline_component_functions;

/* Makes a component type without ports, properties and functions. `name` is that in waveform
 * files: 1 to 64 letters, digits, `-` and `_`. `summary` is one sentence for users.
 *
 * - Ownership: the caller frees the component. Nothing else is kept.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_component_new(
    const char *name,
    const char *summary,
    stripline_component **component,
    stripline_error **error);

/* Sets the functions of a component type, in place of those before.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for NULL and for members that this library does not
 * have. What is declared without a function is found by `stripline_main` and
 * `stripline_harness_start`.
 *
 * - Ownership: the context stays the program's. It is valid until all components of the type are
 *   destroyed.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_component_set_functions(
    stripline_component *component,
    const stripline_component_functions *functions,
    stripline_error **error);

/* Frees a component type; NULL is allowed. Components of it go on.
 *
 * - Ownership: ends here. A second call with the same component is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_component_free(stripline_component *component);

/* Ports, properties and self-tests of a component type --------------------------------------- */

/* The direction of packets through a port. */
enum stripline_port_direction {
    /* The component receives. */
    STRIPLINE_PORT_DIRECTION_INPUT = 0,
    /* The component sends. */
    STRIPLINE_PORT_DIRECTION_OUTPUT = 1,
};

/* The kind of a property's values. */
enum stripline_property_kind {
    /* A finite real number: `float_default`, and with `has_range` `float_min` and `float_max`. */
    STRIPLINE_PROPERTY_KIND_FLOAT = 1,
    /* A whole number: `integer_default`, and with `has_range` `integer_min` and `integer_max`. */
    STRIPLINE_PROPERTY_KIND_INTEGER = 2,
    /* A boolean: `integer_default`, where any number but 0 is true. */
    STRIPLINE_PROPERTY_KIND_BOOLEAN = 3,
    /* A text: `text_default`. */
    STRIPLINE_PROPERTY_KIND_TEXT = 4,
    /* One of `choices`: `text_default`, or the first of them where that is NULL. */
    STRIPLINE_PROPERTY_KIND_CHOICE = 5,
    /* A path, relative to the waveform file. By default it is empty, which names no file. */
    STRIPLINE_PROPERTY_KIND_PATH = 6,
};

/* The source of a property's value, and its time. */
enum stripline_property_access {
    /* By the waveform, before the start. */
    STRIPLINE_PROPERTY_ACCESS_FIXED = 0,
    /* Also by users while the component runs. */
    STRIPLINE_PROPERTY_ACCESS_CHANGEABLE = 1,
    /* By the component alone, while it runs (`stripline_ports_readout`). */
    STRIPLINE_PROPERTY_ACCESS_READ_ONLY = 2,
};

/* A port of a component type. Of `types`, `same_as` and `type_property`, at most one is set. With
 * none, the port takes any type.
 */
typedef struct stripline_port {
    /* `sizeof(stripline_port)`. */
    size_t size;
    /* Its name: 1 to 64 letters, digits, `-` and `_`. */
    const char *name;
    /* The direction of its packets: a `stripline_port_direction`. */
    uint32_t direction;
    /* Not 0: a waveform need not connect it. */
    uint32_t optional;
    /* Not 0: an input takes packets of any number of senders. */
    uint32_t many_writers;
    /* The types that it takes, with `|` between them: `cf32` or `cf32 | cs16`. Each is a built-in
     * type, a layout, a name, or one of messages as `message/tune{hz:f64}`.
     */
    const char *types;
    /* The input of the component that has the same type. */
    const char *same_as;
    /* The text or choice property that names its type. */
    const char *type_property;
    /* One line for users; may be NULL. */
    const char *summary;
} stripline_port;

/* A property of a component type. */
typedef struct stripline_property {
    /* `sizeof(stripline_property)`. */
    size_t size;
    /* Its name: 1 to 64 letters, digits, `-` and `_`. */
    const char *name;
    /* The kind of its values: a `stripline_property_kind`. */
    uint32_t kind;
    /* When it gets its value: a `stripline_property_access`. */
    uint32_t access;
    /* Not 0: the waveform must set it, and the default is not used. */
    uint32_t required;
    /* Not 0: the smallest and the largest number are set. Both belong to the range. */
    uint32_t has_range;
    /* The default of a float. */
    double float_default;
    /* The smallest float. */
    double float_min;
    /* The largest float. */
    double float_max;
    /* The default of an integer or a boolean. */
    int64_t integer_default;
    /* The smallest integer. */
    int64_t integer_min;
    /* The largest integer. */
    int64_t integer_max;
    /* The default of a text or a choice; NULL is the empty text. */
    const char *text_default;
    /* The words of a choice, with `|` between them. */
    const char *choices;
    /* The unit for users, as `Hz`; may be NULL. */
    const char *unit;
    /* One line for users; may be NULL. */
    const char *summary;
} stripline_property;

/* Adds a port to a component type.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a mistake, which the message names, and for a second
 * port of that name.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_component_add_port(
    stripline_component *component,
    const stripline_port *port,
    stripline_error **error);

/* Adds a property to a component type.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a mistake, which the message names, as a default out
 * of its range, and for a second property of that name.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_component_add_property(
    stripline_component *component,
    const stripline_property *property,
    stripline_error **error);

/* Adds a self-test to a component type, which users run by `stripline test`. `summary` is one line
 * for them, and may be NULL.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a name with a mistake, and for a second test of that
 * name.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_component_add_test(
    stripline_component *component,
    const char *name,
    const char *summary,
    stripline_error **error);

/* The `main` of a program with components ---------------------------------------------------- */

/* Runs `count` component types as the `main` of a program, which a waveform file names by `exec`.
 * It follows a launcher, prints the specifications (`--describe`), checks properties (`--check`),
 * or prints the usage. To be called before the program starts threads.
 *
 * `argc` and `argv` are those of `main`, with the program's own name first. A program with
 * arguments of its own leaves those out.
 *
 * Returns the exit code for `main`: 0, 1 for a failure, 2 for wrong arguments. Failures are
 * printed on standard error, and so is the log, unless `stripline_log_set` was called before.
 *
 * - Ownership: the components stay the caller's.
 * - Blocking: until the launcher has ended the program.
 * - Threads: one, once in a process.
 */
int32_t stripline_main(
    int32_t argc,
    char **argv,
    stripline_component *const *components,
    size_t count);

/* One component in this process, with ports that a test feeds and reads ---------------------- */

/* A harness, which runs one component in this process: a test feeds its inputs, reads its outputs,
 * and changes its properties. Its connections are over `inproc`. One thread at a time may use it.
 */
typedef struct stripline_harness stripline_harness;

/* The result of a self-test. */
typedef struct stripline_test_outcome {
    /* `sizeof(stripline_test_outcome)`, set by the caller. */
    size_t size;
    /* 1 if the test passed, and otherwise 0. */
    uint32_t passed;
    /* 1 if it has measured `value`. */
    uint32_t has_value;
    /* The measured value. */
    double value;
    /* One line for users, valid until the next test and the free of the harness. */
    stripline_text text;
} stripline_test_outcome;

/* Makes a harness of a component type.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a type that declares what it has no function for.
 *
 * - Ownership: the caller frees the harness, before or after the component.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_harness_new(
    const stripline_component *component,
    stripline_harness **harness,
    stripline_error **error);

/* Sets a property to the value in a text, as `stripline set` takes it. Before the start, that is
 * its value; the others have their defaults. Later it changes the property of the component that
 * runs.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not there, and for a value that
 * does not fit it. Fails with `STRIPLINE_FAILED` if the component refuses it: the message has its
 * reason.
 *
 * - Ownership: nothing is kept.
 * - Blocking: until the component has taken or refused it, ten seconds at most.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_set(
    stripline_harness *harness,
    const char *property,
    const char *value,
    stripline_error **error);

/* Sets the type of a port, for one that takes several. `type` is as one of `stripline_port.types`.
 * Before the start.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_set_type(
    stripline_harness *harness,
    const char *port,
    const char *type,
    stripline_error **error);

/* Leaves an optional port unconnected. All others are connected. Before the start.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_leave_unconnected(
    stripline_harness *harness,
    const char *port,
    stripline_error **error);

/* Sets the options of all connections, and the threads of a handler. The text is that of a topics
 * file with its table `[default]`: `depth = 2`, `dispatch = "pool(4)"` (`docs/waveform-file.md`).
 * Before the start.
 *
 * Fails with `STRIPLINE_FAILED` for a text with a mistake.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_set_options(
    stripline_harness *harness,
    const char *topics,
    stripline_error **error);

/* Creates the component, connects its ports, and runs it on a thread of its own.
 *
 * Fails with `STRIPLINE_FAILED` if the specification or the component refuses its properties.
 * Fails with `STRIPLINE_PORT` for a port that has no type, and for one that must be connected.
 *
 * - Ownership: the harness stays the caller's.
 * - Blocking: until the component is created.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_start(stripline_harness *harness, stripline_error **error);

/* Takes the sending end of an input, once. `type` is that of its samples.
 *
 * Fails with `STRIPLINE_PORT` if there is no such input, if it was taken before, or if it has
 * another type.
 *
 * - Ownership: the caller frees the publisher, which ends the input's stream. It does so before
 *   `stripline_harness_finish`. `type` is not kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_input(
    stripline_harness *harness,
    const char *port,
    const stripline_sample_type *type,
    stripline_publisher **publisher,
    stripline_error **error);

/* Takes the receiving end of an output, once, as `stripline_harness_input` does of an input. The
 * packets of an output that is not taken wait, and may hold the component up.
 *
 * - Ownership: the caller frees the subscriber. `type` and `options` are not kept; `options` may
 *   be NULL.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_output(
    stripline_harness *harness,
    const char *port,
    const stripline_sample_type *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Takes the sending end of an input of messages, as `stripline_harness_input`. `type` is that of
 * `stripline_message_publisher_new`.
 *
 * - Ownership: as for `stripline_harness_input`. `type` may be NULL.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_message_input(
    stripline_harness *harness,
    const char *port,
    const char *type,
    stripline_publisher **publisher,
    stripline_error **error);

/* Takes the receiving end of an output of messages, as `stripline_harness_output`. `type` is that
 * of `stripline_message_subscriber_new`.
 *
 * - Ownership: the caller frees the subscriber. `type` and `options` may be NULL.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_message_output(
    stripline_harness *harness,
    const char *port,
    const char *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Runs a self-test of the component. A test that fails is an outcome, and no error.
 *
 * Fails with `STRIPLINE_FAILED` for a test that is not there, and if the component has ended or
 * takes no requests.
 *
 * - Ownership: the text of the outcome is the harness's.
 * - Blocking: until the test has ended, ten seconds at most.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_test(
    stripline_harness *harness,
    const char *test,
    stripline_test_outcome *outcome,
    stripline_error **error);

/* Gives the value of a read-only property as a text, as `stripline get` prints it: that of now,
 * and after the end the last one.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not read-only, and with
 * `STRIPLINE_FAILED` for a value out of the property's range.
 *
 * - Ownership: the text is valid until the next call of this, and the free of the harness.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_get(
    stripline_harness *harness,
    const char *property,
    stripline_text *value,
    stripline_error **error);

/* Stops the component: its ports return `STRIPLINE_STOPPED` from now on.
 *
 * - Ownership: the harness stays the caller's.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_stop(stripline_harness *harness, stripline_error **error);

/* Ends the ports that were not taken, and waits for the end of the component. The program ends the
 * inputs that it took before.
 *
 * Fails with the failure of the component. Fails with `STRIPLINE_FAILED` if it has not ended in
 * time; it is stopped then.
 *
 * - Ownership: the harness stays the caller's.
 * - Blocking: up to `timeout_ns`; 0 (or any negative number) is a minute.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_finish(
    stripline_harness *harness,
    int64_t timeout_ns,
    stripline_error **error);

/* Frees a harness; NULL is allowed. A component that runs is stopped, and ends later.
 *
 * - Ownership: ends here. A second call with the same harness is undefined.
 * - Blocking: never.
 * - Threads: one at a time.
 */
void stripline_harness_free(stripline_harness *harness);

#ifdef __cplusplus
}
#endif

#endif
