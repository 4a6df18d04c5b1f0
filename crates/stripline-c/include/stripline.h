/* Stripline for C: low-loss links between radio components.
 *
 * Made of the source of the crate stripline-c by its tests: change it there.
 *
 * These rules hold for all functions:
 *
 * - **Pointers.** A handle or text that is NULL is refused with `STRIPLINE_INVALID_ARGUMENT`,
 *   unless the function allows NULL. Any other pointer must be valid: of the right type, not
 *   freed, and aligned. Texts that a program passes are UTF-8 and end with NUL.
 * - **Results.** A function writes results only if it returns `STRIPLINE_OK`, unless it documents
 *   more.
 * - **Panics.** No panic leaves this library: the call returns `STRIPLINE_PANICKED`, and so does
 *   each later call of the same handle. Such a handle can only be freed.
 * - **Forks.** A handle belongs to the process that made it. In a child, its functions return
 *   `STRIPLINE_FORKED`.
 * - **Structures** with `size` as the first member may grow. A program sets `size` to `sizeof`. If
 *   the program is older than the library, members that it lacks have their defaults. If the
 *   program is newer, the call works unless the program sets a member that this library does not
 *   have. The default of each member is 0.
 */
#ifndef STRIPLINE_H
#define STRIPLINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Texts across the border: UTF-8 with a length, and texts that C programs pass in ------------ */

/* A text in UTF-8. The text has no NUL at the end: print it with
 * `"%.*s", (int)text.length, text.data`.
 */
typedef struct stripline_text {
    /* The first byte; never NULL. */
    const char *data;
    /* The number of bytes. */
    size_t length;
} stripline_text;

/* The version of the library, beside the version of the header ------------------------------- */

/* The major version of this header. */
#define STRIPLINE_VERSION_MAJOR 0

/* The minor version of this header. */
#define STRIPLINE_VERSION_MINOR 1

/* The patch level of this header. */
#define STRIPLINE_VERSION_PATCH 0

/* A timeout without end, for functions with a `timeout_ns`. */
#define STRIPLINE_FOREVER ((int64_t)-1)

/* Returns the version of the running library, such as `0.1.0` or `0.1.0-alpha.1`.
 * `STRIPLINE_VERSION_MAJOR`, `_MINOR` and `_PATCH` are the version of the header that a program
 * was compiled with, without the pre-release part.
 *
 * - Ownership: the text is static.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_text stripline_version(void);

/* The outcomes of calls, with numbers that never change -------------------------------------- */

/* The outcome of a call.
 *
 * 0 is success, a negative number is an outcome without an error, and a positive number is an
 * error. `docs/errors.md` lists the numbers up to 999. A number never gets another meaning. A
 * later library may add numbers: treat a number that is not in this header as `STRIPLINE_FAILED`.
 */
enum stripline_status_number {
    /* The call succeeded. */
    STRIPLINE_OK = 0,
    /* Nothing arrived within the time that the call waits. */
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
    /* A transport does not support an option. */
    STRIPLINE_UNSUPPORTED = 6,
    /* The other end broke the protocol, and the connection was closed. */
    STRIPLINE_PEER_MISBEHAVED = 7,
    /* The other end refused the connection. */
    STRIPLINE_REFUSED = 8,
    /* A port or topic was used in a way that it does not allow. */
    STRIPLINE_PORT = 9,
    /* A message does not decode as the expected type. */
    STRIPLINE_DECODE = 10,
    /* A handler failed or panicked. No further packet is handled. */
    STRIPLINE_HANDLER = 11,
    /* A receiver did not acknowledge a packet in time. The packet stays sent. */
    STRIPLINE_UNANSWERED = 12,
    /* A receiver left before it acknowledged a packet. */
    STRIPLINE_RECEIVER_GONE = 13,
    /* A receiver refused a packet. */
    STRIPLINE_PACKET_REFUSED = 14,
    /* Too many packets wait behind a missing one. The packets count as lost. */
    STRIPLINE_WINDOW_OVERFLOW = 15,
    /* Two packets have the same place in the sequence. */
    STRIPLINE_DUPLICATE_PACKET = 16,
    /* The operating system or a middleware's library reported an error. */
    STRIPLINE_SYSTEM = 17,
    /* A child process used a handle that its parent had made. */
    STRIPLINE_FORKED = 18,
    /* A component rejects the properties. */
    STRIPLINE_INVALID_PROPERTIES = 19,
    /* A component's own failure, in its own words. */
    STRIPLINE_FAILED = 20,
    /* All packets that a port may hold are in use. Nothing is lost. */
    STRIPLINE_TOO_MANY_HELD = 21,
    /* A waker ended the wait. Nothing is lost. */
    STRIPLINE_INTERRUPTED = 22,
    /* A setting does not fit: a variable, a topics file, an option. */
    STRIPLINE_CONFIGURATION = 23,
    /* The operation's own error, as its reply. */
    STRIPLINE_USER_ERROR = 100,
    /* No server was found until the deadline. The call was not sent. */
    STRIPLINE_NO_SERVER = 101,
    /* The reply did not arrive in time. */
    STRIPLINE_CALL_UNANSWERED = 102,
    /* The server left while the call was outstanding. The server may have run the call. */
    STRIPLINE_SERVER_GONE = 103,
    /* This side cancelled the call. */
    STRIPLINE_CALL_CANCELLED = 104,
    /* The limit of outstanding calls is reached. The call was not sent. */
    STRIPLINE_TOO_MANY_CALLS = 105,
    /* The reply has another type. */
    STRIPLINE_REPLY_DECODE = 106,
    /* The server does not have the operation. */
    STRIPLINE_UNKNOWN_OPERATION = 110,
    /* Request, reply or error of the operation has another type. */
    STRIPLINE_WRONG_TYPE = 111,
    /* The operation's handler panicked; the server continues. */
    STRIPLINE_HANDLER_PANICKED = 112,
    /* The deadline had passed before the handler began. */
    STRIPLINE_DEADLINE_PASSED = 113,
    /* The client cancelled before the handler began. */
    STRIPLINE_CANCELLED_EARLY = 114,
    /* Too many calls wait at the server. */
    STRIPLINE_OVERLOADED = 115,
    /* The server itself waits in this chain of calls. */
    STRIPLINE_CALL_CYCLE = 116,
    /* The server could not send the reply. */
    STRIPLINE_REPLY_FAILED = 117,
    /* An argument is wrong: NULL, not UTF-8, out of range, or from a newer header. Nothing was
     * done.
     */
    STRIPLINE_INVALID_ARGUMENT = 1001,
    /* This library has failed. From then on, the handle of the call can only be freed. */
    STRIPLINE_PANICKED = 1002,
    /* The handle is in use, by a running handler or by another thread. Nothing was done. */
    STRIPLINE_IN_USE = 1003,
};
typedef int32_t stripline_status;

/* Returns the word of an outcome in lower case, such as `too-large`. The word is `unknown` for a
 * number that this library does not have.
 *
 * - Ownership: the text is static.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_text stripline_status_word(int32_t status);

/* Returns the usual remedy for an outcome, in one sentence. The text is empty if nothing needs a
 * remedy. `stripline_error_message` has the remedy for the case at hand.
 *
 * - Ownership: the text is static.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_text stripline_status_remedy(int32_t status);

/* The error object, and the conversion of failures to it ------------------------------------- */

/* The description of a failed call. Functions write an error to `*error` when they fail, and leave
 * `*error` alone when they succeed. Pass NULL if the status is enough.
 */
typedef struct stripline_error stripline_error;

/* Returns the status that the failed call returned; `STRIPLINE_OK` for NULL.
 *
 * - Ownership: the caller keeps the error.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_error_status(const stripline_error *error);

/* Returns one sentence that names the failure, the place and the remedy. Never NULL.
 *
 * - Ownership: the text is valid until the error is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
const char *stripline_error_message(const stripline_error *error);

/* Returns the usual remedy for an error of this status. Never NULL, and empty for NULL.
 *
 * - Ownership: the text is valid until the error is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
const char *stripline_error_remedy(const stripline_error *error);

/* Returns the connection, or the peer, that the error is about, as `from -> to`. The text is never
 * NULL, and empty if the error is not about a connection.
 *
 * - Ownership: the text is valid until the error is freed.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
const char *stripline_error_connection(const stripline_error *error);

/* Returns the error number of the operating system (`errno`), or 0 without one.
 *
 * - Ownership: the caller keeps the error.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
int32_t stripline_error_os_code(const stripline_error *error);

/* Returns 1 if the wait was interrupted after the packet or call had been sent, so that it must
 * not be sent again; otherwise 0.
 *
 * - Ownership: the caller keeps the error.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
int32_t stripline_error_is_sent(const stripline_error *error);

/* Frees an error; NULL is allowed.
 *
 * - Ownership: ends with this call, also for the texts. A second call with the same error is
 *   undefined.
 * - Blocking: never.
 * - Threads: any.
 */
void stripline_error_free(stripline_error *error);

/* The log of the library, for a function of the program -------------------------------------- */

/* A function that gets the records of the log: the context, the level, the part of the library,
 * such as `stripline::node`, and the text.
 *
 * Level 1 is an error that ends a service of this process, level 2 is about another process, and 3
 * to 5 are information. Both texts are valid until the function returns. The library calls it on
 * any thread, on several at once, and sometimes with a lock of the library held. The function must
 * not call this library.
 */
typedef void (*stripline_log_callback)(
    void *context,
    int32_t level,
    stripline_text target,
    stripline_text text);

/* Sets the function that gets the records of the log, up to a level from 1 (errors) to 5 (all).
 * The process has one such function. A second call replaces it, and NULL removes it.
 *
 * Errors that no call can return go to the log. Without a function, they are lost.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a level out of range, and with `STRIPLINE_IN_USE`
 * within the function. In a Rust program with a logger of its own, it fails with
 * `STRIPLINE_FAILED`.
 *
 * - Ownership: the caller keeps `context`. When this returns, the previous function is not
 *   running, and is not called again.
 * - Blocking: until the previous function has returned.
 * - Threads: any.
 */
stripline_status stripline_log_set(
    stripline_log_callback callback,
    void *context,
    int32_t level,
    stripline_error **error);

/* Wakers, which end waits -------------------------------------------------------------------- */

/* A handle that ends waits of one publisher, subscriber, client or server. A wake interrupts the
 * call that waits now, or else the next call that may wait. The interrupted call returns
 * `STRIPLINE_INTERRUPTED`, and can be repeated: nothing is lost. Several wakes before such a call
 * count as one.
 */
typedef struct stripline_waker stripline_waker;

/* Ends one wait: the current wait, or else the next wait. Calls that never wait (with a timeout of
 * 0, or with `try` in the name) leave the wake to the next call that may wait.
 *
 * If the interrupted call was a send that waits for acknowledgements, `stripline_error_is_sent` is
 * 1 if the packet was sent. The function does nothing after the owner of the waker was freed, and
 * in a child of a fork. The function fails only if `waker` is NULL.
 *
 * - Ownership: the caller keeps the waker.
 * - Blocking: never.
 * - Threads: any, several at once, and signal handlers: for a waker that is not NULL, the function
 *   is async-signal-safe, and does not change `errno`.
 */
stripline_status stripline_waker_wake(const stripline_waker *waker, stripline_error **error);

/* Frees a waker; NULL is allowed. A wake that has not ended a wait yet stays in effect.
 *
 * - Ownership: ends with this call. A second call with the same waker is undefined.
 * - Blocking: never.
 * - Threads: any, once no thread or signal handler uses the waker. Not in a signal handler.
 */
void stripline_waker_free(stripline_waker *waker);

/* Nodes -------------------------------------------------------------------------------------- */

/* A node: a program's publishers and subscribers belong to it. Nodes of the same domain find each
 * other without a daemon. Several threads may use a node at once.
 */
typedef struct stripline_node stripline_node;

/* Options of a node. Without options, the environment sets the domain (`STRIPLINE_DOMAIN`, or
 * `default` if it is unset) and the topics (the file `STRIPLINE_TOPICS`).
 */
typedef struct stripline_node_options {
    /* `sizeof(stripline_node_options)`. */
    size_t size;
    /* The domain: 1 to 64 letters, digits, `-` and `_`. NULL: the domain of the environment. */
    const char *domain;
    /* Options of topics, as the text of a topics file. NULL: the topics of the environment, or
     * none if `domain` is set.
     */
    const char *topics;
    /* Not 0: the node has a domain of its own, so that nothing outside this node is connected. For
     * tests. The other members must not be set.
     */
    uint32_t isolated;
} stripline_node_options;

/* Makes a node, which joins the domain.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid domain, with `STRIPLINE_CONFIGURATION`
 * for invalid topics or variables (the message names the mistake), and with `STRIPLINE_SYSTEM` if
 * descriptors or threads run out.
 *
 * - Ownership: the caller frees the node. `options` may be NULL and is not kept.
 * - Blocking: only to start a thread.
 * - Threads: any.
 */
stripline_status stripline_node_new(
    const stripline_node_options *options,
    stripline_node **node,
    stripline_error **error);

/* Stops a node: all calls of the node's publishers and subscribers return `STRIPLINE_STOPPED`,
 * both the calls that wait now and all later calls. Nodes of other processes are not affected.
 *
 * - Ownership: the caller keeps the node.
 * - Blocking: never.
 * - Threads: any, also while other threads use the node or wait in publishers and subscribers of
 *   the node. Not in a signal handler.
 */
stripline_status stripline_node_stop(const stripline_node *node, stripline_error **error);

/* Frees a node, which leaves the domain; NULL is allowed. The publishers and subscribers of the
 * node stay connected. Both may be freed before or after the node.
 *
 * - Ownership: ends with this call. A second call with the same node is undefined.
 * - Blocking: until the node's thread has ended.
 * - Threads: any, once no other thread uses the node.
 */
void stripline_node_free(stripline_node *node);

/* Counters of a node's connections ----------------------------------------------------------- */

/* The counters of all connections to a node's subscribers at one time, and the refused
 * connections.
 */
typedef struct stripline_report stripline_report;

/* The counters of one connection. */
typedef struct stripline_connection_report {
    /* `sizeof(stripline_connection_report)`, set by the caller. */
    size_t size;
    /* The connection, as `from -> to`. */
    stripline_text connection;
    /* Packets that the receiver has taken. */
    uint64_t packets;
    /* The payload of these packets, in bytes. */
    uint64_t bytes;
    /* Packets that were lost. */
    uint64_t lost;
    /* Samples that were lost. */
    uint64_t lost_samples;
    /* Gaps reported in band. */
    uint64_t gaps;
    /* Packets that arrived after a later one. */
    uint64_t reordered;
    /* The number of times that a sender vanished without an end of stream. */
    uint64_t peer_deaths;
    /* The number of packets with a measured age; 0: no packet had a time, and the next members are
     * not set.
     */
    uint64_t age_samples;
    /* The age of the packet measured last, in nanoseconds: the time since the first sample was
     * taken. A negative age is of a time in the future.
     */
    int64_t age_last_ns;
    /* The largest age, in nanoseconds. */
    int64_t age_max_ns;
    /* The largest error of the stream's clock, in nanoseconds; `UINT64_MAX`: unknown. */
    uint64_t age_error_ns;
    /* The clock of the stream: one of `stripline_clock_reference`. */
    uint32_t age_clock;
} stripline_connection_report;

/* Reads the counters of every connection to the node's subscribers, and of the last connections
 * that ended.
 *
 * - Ownership: the caller frees the report.
 * - Blocking: only for a lock of the node.
 * - Threads: any, several at once.
 */
stripline_status stripline_node_report(
    const stripline_node *node,
    stripline_report **report,
    stripline_error **error);

/* Returns the number of connections in a report; 0 for NULL.
 *
 * - Ownership: the caller keeps the report.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
size_t stripline_report_connections(const stripline_report *report);

/* Gets the counters of one connection of a report, by index.
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
 * - Ownership: the caller keeps the report.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
size_t stripline_report_refused_connections(const stripline_report *report);

/* Gets the name of a refused connection of a report, by index, and the reason.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an index at or above the number of refused
 * connections.
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
 * - Ownership: ends with this call, also for the texts. A second call with the same report is
 *   undefined.
 * - Blocking: never.
 * - Threads: any.
 */
void stripline_report_free(stripline_report *report);

/* Sample types that are named at run time ---------------------------------------------------- */

/* The type of a topic's samples. Both ends of a connection compare it.
 *
 * `name` is a built-in type or a layout such as `det{range_bin:u32,level_db:f32}`
 * (`docs/layouts.md`). The built-in types are `s8` to `u64`, `f32` and `f64`, and the complex
 * types with a `c` in front, such as `cf32`. With `sample_size` 0, the name determines size and
 * alignment. Otherwise both numbers must match the name. Set them with `sizeof` and `alignof`, and
 * a structure with another layout is refused at once.
 *
 * A name that is neither a built-in type nor a layout is compared only as a name, and needs both
 * numbers.
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
    /* `frame_rows`. */
    STRIPLINE_STREAM_SET_FRAME_ROWS = 8,
    /* `clock_error_ns`. */
    STRIPLINE_STREAM_SET_CLOCK_ERROR = 16,
};

/* The clock on which the times of a stream stand. */
enum stripline_clock_reference {
    /* The stream does not state its clock. */
    STRIPLINE_CLOCK_REFERENCE_NONE = 0,
    /* The clock of the host that received the samples from the device. */
    STRIPLINE_CLOCK_REFERENCE_HOST = 1,
    /* A clock that follows the Precision Time Protocol. */
    STRIPLINE_CLOCK_REFERENCE_PTP = 2,
    /* A clock of the device that follows a pulse per second. */
    STRIPLINE_CLOCK_REFERENCE_PPS = 3,
    /* A clock of the device that follows GPS. */
    STRIPLINE_CLOCK_REFERENCE_GPS = 4,
    /* A counter of the device that follows nothing. */
    STRIPLINE_CLOCK_REFERENCE_DEVICE = 5,
};

/* An axis of a stream's description, for a publisher: evenly spaced values for the samples of a
 * row, for the rows, or for the frames.
 */
typedef struct stripline_axis {
    /* The value at the first place. */
    double start;
    /* The distance to the next value. */
    double step;
    /* The unit; NULL: none. */
    const char *unit;
} stripline_axis;

/* An axis of a received stream. */
typedef struct stripline_axis_view {
    /* `sizeof(stripline_axis_view)`, set by the caller. */
    size_t size;
    /* The value at the first place. */
    double start;
    /* The distance to the next value. */
    double step;
    /* The unit; empty: none. */
    stripline_text unit;
} stripline_axis_view;

/* The description of a stream, for a publisher. Receivers get it with every packet. */
typedef struct stripline_stream_description {
    /* `sizeof(stripline_stream_description)`. */
    size_t size;
    /* The members that are set: `STRIPLINE_STREAM_SET_…`, combined with `|`. Texts count as set if
     * they are not NULL.
     */
    uint64_t set;
    /* The name of the stream; NULL: no name. */
    const char *id;
    /* Samples a second, of all channels together. */
    double sample_rate_hz;
    /* The frequency that 0 Hz of the samples corresponds to. */
    double center_frequency_hz;
    /* The number of samples in a row, if the samples are rows of a table. */
    uint32_t row_length;
    /* A JSON object with the further members of `docs/wire.md`: `axes`, `channels`, `keywords`.
     * NULL: none.
     */
    const char *more;
    /* The number of rows in a frame, if the rows are frames: pulses of samples, for example. */
    uint32_t frame_rows;
    /* The number of axes, at most 3. */
    uint32_t axis_count;
    /* The axes along a row, from row to row, and from frame to frame, in place of `axes` in
     * `more`.
     */
    const stripline_axis *axes;
    /* The clock of the packets' times: a `stripline_clock_reference`. */
    uint32_t clock_reference;
    /* The largest difference between a time and UTC, in nanoseconds; only with a clock. */
    uint64_t clock_error_ns;
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
    /* The number of samples in a row, if the samples are rows of a table. */
    uint32_t row_length;
    /* The number of rows in a frame, if the rows are frames: pulses of samples, for example. */
    uint32_t frame_rows;
    /* The number of axes, for `stripline_packet_get_axis`. */
    uint32_t axis_count;
    /* The clock of the packets' times: a `stripline_clock_reference`, 0 if the stream does not
     * state it.
     */
    uint32_t clock_reference;
    /* The largest difference between a time and UTC, in nanoseconds. */
    uint64_t clock_error_ns;
} stripline_stream_view;

/* Packets, and the data that comes with their samples ---------------------------------------- */

/* Received samples, in place, until the packet is released.
 *
 * A held packet (`hold`) may be used and released on any thread, and several threads may read it
 * at once. Any other packet belongs to the thread of its subscriber. All packets may be released
 * after their subscriber was freed. A packet that is not held keeps the subscriber's connections
 * until then.
 */
typedef struct stripline_packet stripline_packet;

/* The cause of a gap. */
enum stripline_gap_reason {
    /* There is no gap. */
    STRIPLINE_GAP_REASON_NONE = 0,
    /* The receiver was slow, and its policy drops packets. */
    STRIPLINE_GAP_REASON_OVERFLOW = 1,
    /* The sender or the receiver was restarted. */
    STRIPLINE_GAP_REASON_PEER_RESTART = 2,
    /* The transport lost packets. */
    STRIPLINE_GAP_REASON_TRANSPORT = 3,
    /* Packets did not arrive within the time that a resequencing port waits. */
    STRIPLINE_GAP_REASON_LATE = 4,
};

/* The place of a packet in the stream, and the gap before it. */
typedef struct stripline_packet_info {
    /* `sizeof(stripline_packet_info)`, set by the caller. */
    size_t size;
    /* The number of the packet among all packets of the sender, from 0. */
    uint64_t sequence;
    /* The number of the first sample within the stream. */
    uint64_t sample_index;
    /* The time when the first sample was taken, in nanoseconds since the Unix epoch; 0: unknown. */
    int64_t time_ns;
    /* The time when the packet should have been sent, in monotonic nanoseconds of the host; 0: the
     * sender has no schedule.
     */
    uint64_t intended_ns;
    /* The time when the packet was sent, in monotonic nanoseconds of the host; 0: not measured. */
    uint64_t sent_ns;
    /* The cause of the gap just before the packet: a `stripline_gap_reason`, 0 if nothing is
     * missing.
     */
    uint32_t gap_reason;
    /* The number of the first missing packet. */
    uint64_t gap_first;
    /* The number of missing packets; 0 after a restart, because the number is unknown then. */
    uint64_t gap_packets;
    /* The number of missing samples; 0 if it is unknown. A message counts as one sample. */
    uint64_t gap_samples;
    /* 0: a window that has fewer samples than requested, because a boundary follows, or a window
     * that begins within a row or frame. Otherwise 1.
     */
    uint32_t is_whole;
} stripline_packet_info;

/* Returns the samples of a packet, aligned for their type. The result is NULL for a packet that is
 * NULL or released. For a packet without samples, it is not NULL.
 *
 * - Ownership: the samples are read only, and valid until the packet is released.
 * - Blocking: never.
 * - Threads: the thread of the subscriber; for a held packet any, several at once.
 */
const void *stripline_packet_samples(const stripline_packet *packet);

/* Returns the number of samples of a packet; 0 for a packet that is NULL or released.
 *
 * - Ownership: the caller keeps the packet.
 * - Blocking: never.
 * - Threads: the thread of the subscriber; for a held packet any, several at once.
 */
size_t stripline_packet_length(const stripline_packet *packet);

/* Gets the numbers of a packet, and the gap before it.
 *
 * Fails with `STRIPLINE_PORT` for a packet that was released.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: the thread of the subscriber; for a held packet any, several at once.
 */
stripline_status stripline_packet_get_info(
    const stripline_packet *packet,
    stripline_packet_info *info,
    stripline_error **error);

/* Gets the description of a packet's stream.
 *
 * Fails with `STRIPLINE_PORT` for a packet that was released.
 *
 * - Ownership: the text is valid until the packet is released.
 * - Blocking: never.
 * - Threads: the thread of the subscriber; for a held packet any, several at once.
 */
stripline_status stripline_packet_get_stream(
    const stripline_packet *packet,
    stripline_stream_view *stream,
    stripline_error **error);

/* Gets an axis of a packet's stream: 0 is the axis along a row, 1 from row to row, and 2 from
 * frame to frame. `axis_count` of `stripline_stream_view` has the number of axes.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an axis that the stream does not have, and with
 * `STRIPLINE_PORT` for a packet that was released.
 *
 * - Ownership: the text is valid until the packet is released.
 * - Blocking: never.
 * - Threads: the thread of the subscriber; for a held packet any, several at once.
 */
stripline_status stripline_packet_get_axis(
    const stripline_packet *packet,
    size_t index,
    stripline_axis_view *axis,
    stripline_error **error);

/* Writes the whole description of a packet's stream as JSON, with a NUL at the end. The
 * description includes the axes, channels and keywords (`docs/wire.md`). `length` is set to the
 * number of bytes without the NUL, even if they do not fit. To get only the length, pass NULL as
 * `buffer` and 0 as `capacity`.
 *
 * Fails with `STRIPLINE_TOO_LARGE` if `capacity` is not above the length, and with
 * `STRIPLINE_PORT` for a packet that was released.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never. The call allocates.
 * - Threads: the thread of the subscriber; for a held packet any, several at once.
 */
stripline_status stripline_packet_get_stream_json(
    const stripline_packet *packet,
    char *buffer,
    size_t capacity,
    size_t *length,
    stripline_error **error);

/* Returns the connection that a packet arrived on, as `from -> to`. The text is empty for a packet
 * that is NULL or released.
 *
 * - Ownership: the text is valid until the packet is released.
 * - Blocking: never.
 * - Threads: the thread of the subscriber; for a held packet any, several at once.
 */
stripline_text stripline_packet_connection(const stripline_packet *packet);

/* Releases a packet: the memory goes back to the transport, and a sender that waits for it
 * continues. NULL is allowed.
 *
 * A second release is refused with `STRIPLINE_PORT`, and is harmless until the next packet is
 * received or the subscriber is freed. The packet of a handler ends when the handler returns. To
 * release it here is refused.
 *
 * - Ownership: ends with this call, also for the samples.
 * - Blocking: never.
 * - Threads: the thread of the subscriber; for a held packet any.
 */
stripline_status stripline_packet_release(stripline_packet *packet, stripline_error **error);

/* Refuses a packet with a reason of at most 256 bytes, and releases it. A sender that waits for it
 * (scope `target`) fails with `STRIPLINE_PACKET_REFUSED`.
 *
 * In a handler, the packet stays until the handler returns.
 *
 * - Ownership: ends with this call, except in a handler. `reason` is not kept.
 * - Blocking: never.
 * - Threads: the thread of the subscriber; for a held packet any.
 */
stripline_status stripline_packet_refuse(
    stripline_packet *packet,
    const char *reason,
    stripline_error **error);

/* Releases a window, but consumes only the first `samples` samples: the next window begins after
 * them. A number smaller than the length of the window makes windows that overlap. At least one
 * sample is consumed.
 *
 * Fails with `STRIPLINE_PORT` for a packet that is not a window. Such a packet is not released.
 *
 * - Ownership: ends with this call, also for the samples.
 * - Blocking: never.
 * - Threads: the thread of the subscriber.
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
    /* The number of the packet's first sample within the stream. By default, it continues the
     * previous packet.
     */
    uint64_t sample_index;
    /* The time when the first sample was taken, in nanoseconds since the Unix epoch. */
    int64_t time_ns;
    /* The time when the packet should have been sent, in monotonic nanoseconds of the host. */
    uint64_t intended_ns;
    /* The event after which the send returns, instead of the connection's scope: 0 `none`, 1
     * `transport`, 2 `server`, 3 `target` (`docs/glossary.md`).
     */
    uint32_t scope;
    /* The time limit for receivers in the scopes `server` and `target`. */
    uint64_t deadline_ns;
} stripline_send_options;

/* Publishers --------------------------------------------------------------------------------- */

/* A publisher, which sends packets of samples to every receiver of a topic. Only one thread at a
 * time may use it.
 */
typedef struct stripline_publisher stripline_publisher;

/* Makes a publisher of samples on a topic.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid type, and with `STRIPLINE_SYSTEM` or
 * `STRIPLINE_UNSUPPORTED` if the transport cannot be opened.
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

/* Makes a publisher of messages on a topic. Each packet is one message in CBOR (RFC 8949), and the
 * samples are the bytes of the message.
 *
 * `type` is `message/` and a name, or `message/` and a schema such as `tune{hz:f64}`
 * (`docs/layouts.md`); NULL is `message/cbor`, the type of any message. A subscriber with another
 * schema is refused. An end with `message/cbor` connects to an end with any schema.
 *
 * With a schema, each message is checked when it is sent: a send or commit of another message
 * fails with `STRIPLINE_INVALID_ARGUMENT`, the error names the place, and nothing is sent.
 * Otherwise the bytes are not checked. Messages have times, sample indexes and scopes as samples
 * do (`stripline_send_options`, `stripline_loan_commit_like`).
 *
 * Fails like `stripline_publisher_new`.
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

/* Sets the description of the samples that follow. With another `id`, the sample index begins at
 * 0. With other rows, frames or channels of the same `id`, the index goes on at the next multiple
 * of the new frame.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid description. The message names the
 * mistake. If the description is too large, the next send fails.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never. The call allocates.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_set_stream(
    stripline_publisher *publisher,
    const stripline_stream_description *stream,
    stripline_error **error);

/* Gets the number of receivers that are connected now.
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
 * Returns `STRIPLINE_OK` if they are connected in time, and `STRIPLINE_EMPTY` if not.
 *
 * - Ownership: nothing is kept.
 * - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) waits without end.
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

/* Gets the number of the next packet.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_sequence(
    stripline_publisher *publisher,
    uint64_t *sequence,
    stripline_error **error);

/* Gets the maximum number of samples in a packet.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_samples_max(
    stripline_publisher *publisher,
    size_t *samples,
    stripline_error **error);

/* Gets the maximum number of samples in a packet of one frame. Only such a packet is written in
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

/* Ends the stream. Later calls of the publisher fail with `STRIPLINE_PORT`. The caller still frees
 * it.
 *
 * Fails with `STRIPLINE_FULL` when a receiver does not take the remaining packets in time. For
 * that receiver, the stream ends as after `stripline_publisher_abandon`. After
 * `STRIPLINE_INTERRUPTED`, another call continues to end the stream.
 *
 * - Ownership: the caller keeps the publisher.
 * - Blocking: until the remaining packets have left this process, up to `timeout_ns`;
 *   `STRIPLINE_FOREVER` (or any negative number) waits without end.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_finish(
    stripline_publisher *publisher,
    int64_t timeout_ns,
    stripline_error **error);

/* Disconnects without an end of stream, for a stream that is not complete. Receivers get all
 * packets that were sent, and then wait for another publisher. The stream of that publisher begins
 * with a gap. Later calls fail with `STRIPLINE_PORT`. The caller still frees the publisher.
 *
 * - Ownership: the caller keeps the publisher.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_abandon(
    stripline_publisher *publisher,
    stripline_error **error);

/* Frees a publisher; NULL is allowed. The call ends the stream, unless it has ended before. An
 * error at the end of the stream goes only to the log (`stripline_publisher_finish` returns it).
 *
 * If a loan is open, the memory of the loan stays valid, and the publisher ends when the loan is
 * closed. A commit then sends nothing and fails.
 *
 * - Ownership: ends with this call. A second call with the same publisher is undefined.
 * - Blocking: until the remaining packets have left this process, ten seconds at most.
 * - Threads: one at a time.
 */
void stripline_publisher_free(stripline_publisher *publisher);

/* Loans: room for a packet, written in place ------------------------------------------------- */

/* Room for the samples of one packet, to be written in place. The loan belongs to the thread of
 * its publisher. A publisher has one loan at a time.
 */
typedef struct stripline_loan stripline_loan;

/* Lends room for `samples` samples. On shared memory, they are written where the receivers read
 * them. The initial content is unspecified.
 *
 * Waits while a receiver with policy `block` has no room. Fails with `STRIPLINE_PORT` while
 * another loan is open or after the end of the stream, and with `STRIPLINE_TOO_LARGE`,
 * `STRIPLINE_STALLED`, `STRIPLINE_STOPPED` and `STRIPLINE_SYSTEM`.
 *
 * - Ownership: the caller commits or cancels the loan. `memory` gets the address of the samples.
 *   The address is aligned for their type, and valid until then.
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
 * `STRIPLINE_TOO_LARGE` above `stripline_publisher_samples_in_place`; otherwise like
 * `stripline_publisher_loan`.
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

/* Sends the samples of a loan as a packet, and closes the loan, even if it fails.
 *
 * Waits while a receiver with policy `block` has no room, if the loan may wait, and then until the
 * scope is reached. Fails like `stripline_publisher_loan`, and with `STRIPLINE_UNSUPPORTED` for a
 * scope that the transport does not support. If the scope is not reached, the packet stays sent,
 * and the status is `STRIPLINE_UNANSWERED`, `STRIPLINE_RECEIVER_GONE` or
 * `STRIPLINE_PACKET_REFUSED`.
 *
 * - Ownership: ends with this call, for the loan and the memory. `options` may be NULL and is not
 *   kept.
 * - Blocking: as described above.
 * - Threads: the thread of the publisher.
 */
stripline_status stripline_loan_commit(
    stripline_loan *loan,
    const stripline_send_options *options,
    stripline_error **error);

/* Sends the samples of a loan as `stripline_loan_commit` does, with the stream, sample index, time
 * and order of a received packet.
 *
 * Fails with `STRIPLINE_PORT` for a packet that was released; otherwise like
 * `stripline_loan_commit`.
 *
 * - Ownership: ends with this call, for the loan and the memory. The caller keeps the packet.
 * - Blocking: as for `stripline_loan_commit`.
 * - Threads: the thread of the publisher, which must also own the packet.
 */
stripline_status stripline_loan_commit_like(
    stripline_loan *loan,
    const stripline_packet *packet,
    stripline_error **error);

/* Keeps only the first `samples` samples of a loan. A number above the length of the loan changes
 * nothing.
 *
 * Fails with `STRIPLINE_PORT` for a loan that is closed.
 *
 * - Ownership: the caller keeps the loan.
 * - Blocking: never.
 * - Threads: the thread of the publisher.
 */
stripline_status stripline_loan_truncate(
    stripline_loan *loan,
    size_t samples,
    stripline_error **error);

/* Closes a loan without sending anything; NULL is allowed.
 *
 * - Ownership: ends with this call, for the loan and the memory.
 * - Blocking: never, unless the publisher was freed before: then the publisher ends in this call,
 *   which may block as `stripline_publisher_free` does.
 * - Threads: the thread of the publisher.
 */
stripline_status stripline_loan_cancel(stripline_loan *loan, stripline_error **error);

/* Packets that are copied and sent by one call ----------------------------------------------- */

/* Sends a copy of `count` samples as a packet.
 *
 * Fails like `stripline_publisher_loan` and `stripline_loan_commit`.
 *
 * - Ownership: nothing is kept. `samples` may be NULL if `count` is 0. `options` may be NULL.
 * - Blocking: while a receiver with policy `block` has no room, and until the scope is reached.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_send(
    stripline_publisher *publisher,
    const void *samples,
    size_t count,
    const stripline_send_options *options,
    stripline_error **error);

/* Sends like `stripline_publisher_send`, but does not wait for room: either all receivers get the
 * packet, or none.
 *
 * Fails like `stripline_publisher_try_loan` and `stripline_loan_commit`.
 *
 * - Ownership: as for `stripline_publisher_send`.
 * - Blocking: only until the scope is reached, for the scopes `server` and `target`.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_try_send(
    stripline_publisher *publisher,
    const void *samples,
    size_t count,
    const stripline_send_options *options,
    stripline_error **error);

/* Subscribers -------------------------------------------------------------------------------- */

/* A subscriber, which receives packets of samples from every publisher of a topic. Only one thread
 * at a time may use it.
 */
typedef struct stripline_subscriber stripline_subscriber;

/* The unit of the lengths of windows. */
enum stripline_window_unit {
    /* Samples. */
    STRIPLINE_WINDOW_UNIT_SAMPLES = 1,
    /* Rows of a stream with `row_length`. */
    STRIPLINE_WINDOW_UNIT_ROWS = 2,
    /* Frames of a stream with `row_length` or channels, with all channels. */
    STRIPLINE_WINDOW_UNIT_FRAMES = 3,
};

/* Options of a subscriber. */
typedef struct stripline_subscriber_options {
    /* `sizeof(stripline_subscriber_options)`. */
    size_t size;
    /* Not 0: the number of packets that may be held at once, from 1 to 4096. The packets may be
     * released in any order and on any thread, even after the subscriber was freed. 0: one packet
     * at a time, which costs least.
     */
    uint32_t hold;
    /* Not 0: samples are received in windows of any length (`stripline_subscriber_window`) instead
     * of packets, and the value is the unit of the lengths: `STRIPLINE_WINDOW_UNIT_…`. Not with
     * `hold`. An input that declares the shape `rows` or `frames` has no windows in samples.
     */
    uint32_t windowed;
    /* Not 0: packets that several threads of an earlier stage have forwarded are put back in
     * sequence. The value is the number of packets that wait behind a missing one, at most 65536.
     */
    uint32_t resequence_window;
    /* The time to wait for a missing packet, in milliseconds. */
    uint32_t resequence_skip_after_ms;
} stripline_subscriber_options;

/* Makes a subscriber to samples on a topic, which connects to every present and future publisher
 * of the topic.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid type or option, and with
 * `STRIPLINE_SYSTEM` or `STRIPLINE_UNSUPPORTED` if it cannot be connected. A publisher with
 * another type is listed in the node's report.
 *
 * - Ownership: the caller frees the subscriber, before or after the node. Nothing else is kept.
 * - Blocking: until the publishers that are present have answered, or for a few seconds.
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
 * the samples are the bytes of the message. The bytes are not checked: the program can refuse a
 * message that does not decode (`stripline_packet_refuse`).
 *
 * `type` is the same as for `stripline_message_publisher_new`. A publisher with another schema is
 * refused, and is listed in the node's report.
 *
 * Fails like `stripline_subscriber_new`, and for the option `windowed`, because a message is not
 * divided.
 *
 * - Ownership: the caller frees the subscriber, before or after the node. Nothing else is kept.
 * - Blocking: until the publishers that are present have answered, or for a few seconds.
 * - Threads: any.
 */
stripline_status stripline_message_subscriber_new(
    const stripline_node *node,
    const char *topic,
    const char *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Receives the next packet. `timeout_ns` is the time to wait for it: 0 does not wait, and
 * `STRIPLINE_FOREVER` (or any negative number) waits without end.
 *
 * Returns `STRIPLINE_OK` with a packet, `STRIPLINE_EMPTY` if no packet arrived in time, and
 * `STRIPLINE_ENDED` after every publisher has ended its stream. If a publisher dies, the
 * subscriber waits for another. Fails with `STRIPLINE_STOPPED` when the node is stopped, and with
 * `STRIPLINE_TOO_MANY_HELD` if no more packets may be held. Also fails with `STRIPLINE_EJECTED`
 * and `STRIPLINE_PEER_MISBEHAVED`. After `STRIPLINE_PEER_MISBEHAVED`, the program may continue to
 * receive.
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

/* Receives the next `length` samples, rows or frames of a windowed subscriber as a packet, across
 * packet boundaries. A window has fewer samples before a gap, a new stream and the end of the
 * stream, and where it begins within a row or frame.
 *
 * Returns and fails like `stripline_subscriber_receive`.
 *
 * - Ownership: the caller releases the packet, or consumes a part of it
 *   (`stripline_packet_consume`).
 * - Blocking: up to the timeout.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_window(
    stripline_subscriber *subscriber,
    size_t length,
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

/* Gets the number of publishers that are connected now.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_senders(
    stripline_subscriber *subscriber,
    size_t *senders,
    stripline_error **error);

/* Gets, after the end of stream, the numbers of packets and samples that were missing at the very
 * end. Both are 0 if nothing was missing, and for a second call.
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

/* Frees a subscriber, which closes the connections; NULL is allowed.
 *
 * Held packets stay valid until they are released. So does a lent packet: then the connections
 * stay open until the release. If a handler of the subscriber frees it, it is freed when the call
 * that runs the handler returns.
 *
 * - Ownership: ends with this call. A second call with the same subscriber is undefined.
 * - Blocking: never.
 * - Threads: one at a time.
 */
void stripline_subscriber_free(stripline_subscriber *subscriber);

/* Handlers, and waits for several subscribers ------------------------------------------------ */

/* A handler of packets: gets the context and a packet. The packet is valid until the handler
 * returns.
 *
 * The handler returns 0 to continue, and `STRIPLINE_STOPPED` to end the call that runs it. Any
 * other number is a failure: a sender that waits for the packet fails, and the call ends with
 * `STRIPLINE_HANDLER`. The handler must return: no `longjmp`, no exception of C++. The handler may
 * use other handles. The only thing that it may do with the subscriber that called it is to free
 * it. The subscriber is then freed at the end of the call.
 */
typedef int32_t (*stripline_packet_handler)(void *context, stripline_packet *packet);

/* A subscriber and a handler for the packets. */
typedef struct stripline_served {
    /* The subscriber, made without `hold` and `windowed`. */
    stripline_subscriber *subscriber;
    /* The handler. */
    stripline_packet_handler handler;
    /* The context of the handler; may be NULL. */
    void *context;
} stripline_served;

/* Runs handlers for the packets of `count` subscribers on this thread, until the stream of each
 * has ended. Two handlers never run at the same time. The subscribers take turns, packet by
 * packet.
 *
 * Returns `STRIPLINE_ENDED` at the end. Fails with `STRIPLINE_HANDLER` if a handler fails, with
 * `STRIPLINE_STOPPED` if the node is stopped or a handler returns it, and otherwise like
 * `stripline_subscriber_receive`. Packets that were not handled stay for a later call.
 *
 * - Ownership: the caller keeps the subscribers, unless their handler frees them. `ports` is not
 *   kept.
 * - Blocking: until the end of all streams.
 * - Threads: one at a time for each of the subscribers. Handlers run on the calling thread.
 */
stripline_status stripline_serve(
    const stripline_served *ports,
    size_t count,
    stripline_error **error);

/* Waits until one of `count` subscribers has a packet or the end of stream. `ready` has `count`
 * bytes. Each gets 1 if its subscriber is ready, and 0 if not.
 *
 * Returns `STRIPLINE_OK` if a subscriber is ready, and `STRIPLINE_EMPTY` if none is ready in time.
 * Fails like `stripline_subscriber_receive`.
 *
 * - Ownership: nothing is kept. `ready` is written for `STRIPLINE_OK` and `STRIPLINE_EMPTY`.
 * - Blocking: up to `timeout_ns`, as for `stripline_subscriber_receive`. The call allocates.
 * - Threads: one at a time for each of the subscribers.
 */
stripline_status stripline_wait_any(
    stripline_subscriber *const *subscribers,
    size_t count,
    int64_t timeout_ns,
    uint8_t *ready,
    stripline_error **error);

/* Many packets at a time --------------------------------------------------------------------- */

/* A function that writes the packets of `stripline_publisher_send_many`. The function gets the
 * context, the index of the packet in this call, from 0, and the memory for the samples.
 *
 * The function returns 0 to continue. Any other number ends the call with `STRIPLINE_HANDLER`, and
 * this packet is not sent. The function must return: no `longjmp`, no exception of C++. The
 * function may use other handles, but not the publisher that called it.
 */
typedef int32_t (*stripline_packet_writer)(void *context, size_t index, void *samples);

/* Sends `packets` packets of `samples` samples each. `writer` writes them in place. The effect
 * equals a loan and a commit in a loop, at a lower cost for each packet. A receiver that sleeps is
 * woken once, and over sockets many packets leave with one system call.
 *
 * Fails like `stripline_publisher_loan` and `stripline_loan_commit`, and with `STRIPLINE_HANDLER`
 * if the writer fails. The packets before the failure stay sent. Their number is the increase of
 * `stripline_publisher_sequence`.
 *
 * - Ownership: nothing is kept. `context` may be NULL.
 * - Blocking: as `stripline_publisher_send`, for each packet.
 * - Threads: one at a time. The writer runs on the calling thread.
 */
stripline_status stripline_publisher_send_many(
    stripline_publisher *publisher,
    size_t packets,
    size_t samples,
    stripline_packet_writer writer,
    void *context,
    stripline_error **error);

/* Waits until a packet arrives, as `stripline_subscriber_receive` does without a time limit. Then
 * passes this packet, and the packets behind it that have already arrived, to `handler`: up to
 * `limit` packets.
 *
 * Returns `STRIPLINE_OK`, and `STRIPLINE_ENDED` at the end of the stream. The handler returns
 * `STRIPLINE_STOPPED` to leave later packets for the next call. If the handler fails, the call
 * fails with `STRIPLINE_HANDLER`: the packet of the failure is finished, and later packets stay.
 * Fails with `STRIPLINE_PORT` for a limit of 0, or for a subscriber with `hold` or `windowed`, and
 * otherwise like `stripline_subscriber_receive`. A receiver that is killed in this call loses up
 * to a quarter of the ring or depth.
 *
 * - Ownership: `packets` gets the number of packets passed to the handler, in every outcome.
 *   `packets` and `context` may be NULL. The handler may free the subscriber that called it. The
 *   subscriber is then freed at the end of the call.
 * - Blocking: until a packet arrives.
 * - Threads: one at a time. The handler runs on the calling thread.
 */
stripline_status stripline_subscriber_drain(
    stripline_subscriber *subscriber,
    size_t limit,
    stripline_packet_handler handler,
    void *context,
    size_t *packets,
    stripline_error **error);

/* Shared parts of clients and servers of calls: operations with types named at run time ------ */

/* An operation of a service: the name, and the types that client and server compare.
 *
 * A type is `message/cbor` for any value in CBOR (the meaning of NULL), or `message/` and a
 * schema. The type may also be a type of samples: then the bytes are samples as plain memory.
 */
typedef struct stripline_operation_type {
    /* `sizeof(stripline_operation_type)`. */
    size_t size;
    /* The name of the operation: 1 to 64 letters, digits, hyphens, underscores and dots. */
    const char *name;
    /* The type of the requests. */
    const char *request;
    /* The type of the replies. */
    const char *reply;
    /* The type of the operation's own errors. */
    const char *error;
} stripline_operation_type;

/* Pending calls, and replies ----------------------------------------------------------------- */

/* A call that was started. Only one thread at a time may use it. */
typedef struct stripline_pending stripline_pending;

/* The bytes of a reply, or of an operation's own error. */
typedef struct stripline_reply stripline_reply;

/* Waits for the reply of a call.
 *
 * Returns `STRIPLINE_EMPTY` if the reply does not arrive in time: the call then stays outstanding,
 * and so it does after `STRIPLINE_INTERRUPTED`. In all other cases, it returns the statuses of
 * `stripline_operation_call`, and later calls of this function fail with `STRIPLINE_PORT`.
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

/* Frees a pending call; NULL is allowed. An outstanding call is cancelled: a server that has not
 * started it never starts it.
 *
 * - Ownership: ends with this call. A second call with the same pending call is undefined.
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
 * - Ownership: the caller keeps the reply.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
size_t stripline_reply_length(const stripline_reply *reply);

/* Frees a reply; NULL is allowed.
 *
 * - Ownership: ends with this call. A second call with the same reply is undefined.
 * - Blocking: never.
 * - Threads: any.
 */
void stripline_reply_free(stripline_reply *reply);

/* Clients of calls --------------------------------------------------------------------------- */

/* A client of a service, which calls the servers of the service in turn. Several threads may use
 * it at once.
 */
typedef struct stripline_client stripline_client;

/* An operation of a client's service, for calls. Several threads may call it at once. */
typedef struct stripline_operation stripline_operation;

/* Options of a client. */
typedef struct stripline_client_options {
    /* `sizeof(stripline_client_options)`. */
    size_t size;
    /* The time limit of a call, which includes the wait for a server: at most an hour; 0: five
     * seconds.
     */
    uint64_t deadline_ns;
    /* The number of calls that may be outstanding at each server: 1 to 16384; 0: 1024. */
    uint32_t outstanding;
    /* The size of the buffer for requests, in bytes; 0: 256 KiB. Larger requests are sent in
     * fragments.
     */
    uint32_t buffer;
} stripline_client_options;

/* Options of one call. */
typedef struct stripline_call_options {
    /* `sizeof(stripline_call_options)`. */
    size_t size;
    /* The time limit of the call: at most an hour; 0: the client's limit. */
    uint64_t deadline_ns;
    /* Not 0: `key` selects the server, and the same key selects the same server each time. 0: the
     * servers take turns.
     */
    uint32_t has_key;
    /* The key. */
    uint64_t key;
} stripline_call_options;

/* Makes a client of a service, which connects to every present and future server of the service.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid name or option. The message names the
 * mistake.
 *
 * - Ownership: the caller frees the client, before or after the node. `options` may be NULL.
 * - Blocking: until the servers that are present have answered, or for a few seconds.
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
 * Returns `STRIPLINE_OK` if they are connected in time, and `STRIPLINE_EMPTY` if not.
 *
 * - Ownership: nothing is kept.
 * - Blocking: up to `timeout_ns`, but at most an hour, even for `STRIPLINE_FOREVER`.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_wait_for_servers(
    const stripline_client *client,
    size_t count,
    int64_t timeout_ns,
    stripline_error **error);

/* Makes a waker, which ends waits of the client: in calls, in pending calls, and in
 * `stripline_client_wait_for_servers`. One wake ends one wait, even if several threads wait.
 *
 * An interrupted `stripline_operation_call` is cancelled: `stripline_error_is_sent` is 1 if the
 * call had been sent. An interrupted `stripline_pending_wait` can be repeated.
 *
 * - Ownership: the caller frees the waker, before or after the client.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_waker(
    const stripline_client *client,
    stripline_waker **waker,
    stripline_error **error);

/* Makes a handle for an operation of the service. The first call checks that the server has the
 * operation with these types.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid name or type.
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

/* Calls an operation, and waits for the reply. `request` has `bytes` bytes, which are a request of
 * the operation's type. `request` may be NULL if `bytes` is 0.
 *
 * Returns `STRIPLINE_OK` with the reply. For `STRIPLINE_USER_ERROR`, `reply` is written as well:
 * it contains the operation's own error. All other failures have no reply: `STRIPLINE_NO_SERVER`
 * and the statuses that follow it.
 *
 * - Ownership: the caller frees the reply. Nothing else is kept.
 * - Blocking: until the reply arrives, up to the deadline.
 * - Threads: any, several at once.
 */
stripline_status stripline_operation_call(
    const stripline_operation *operation,
    const void *request,
    size_t bytes,
    const stripline_call_options *options,
    stripline_reply **reply,
    stripline_error **error);

/* Starts a call without waiting for the reply. `request` is the same as for
 * `stripline_operation_call`.
 *
 * If the call cannot be sent, fails like `stripline_operation_call`.
 *
 * - Ownership: the caller frees the pending call, which cancels a call that is outstanding.
 *   Nothing else is kept.
 * - Blocking: while no server is connected or there is no room, up to the deadline.
 * - Threads: any, several at once.
 */
stripline_status stripline_operation_start(
    const stripline_operation *operation,
    const void *request,
    size_t bytes,
    const stripline_call_options *options,
    stripline_pending **pending,
    stripline_error **error);

/* Frees an operation; NULL is allowed. Pending calls of the operation continue.
 *
 * - Ownership: ends with this call. A second call with the same operation is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_operation_free(stripline_operation *operation);

/* Frees a client; NULL is allowed. The connections end with the last of the client's operations
 * and pending calls.
 *
 * - Ownership: ends with this call. A second call with the same client is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_client_free(stripline_client *client);

/* The answer to one call, given at once or later --------------------------------------------- */

/* The right and the duty to answer one call, on any thread and at any time, even after the handler
 * has returned. An answer never blocks, and has no effect if the client has left, or the server
 * was freed.
 */
typedef struct stripline_responder stripline_responder;

/* A handler of calls: gets the context, the bytes of the request, and the responder for the
 * answer.
 *
 * The request is valid until the handler returns. The responder belongs to the program, which
 * frees it in the handler or later. The handler must return: no `longjmp`, no exception of C++.
 * The handler may use other handles. The only thing that it may do with the server that called it
 * is to free it. The server is then freed at the end of the serving call.
 */
typedef void (*stripline_call_handler)(
    void *context,
    const void *request,
    size_t bytes,
    stripline_responder *responder);

/* Sends the reply of a call: `bytes` bytes, which are a reply of the operation's type.
 *
 * Fails with `STRIPLINE_PORT` for a call that was answered before.
 *
 * - Ownership: nothing is kept. The caller still frees the responder.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_responder_reply(
    stripline_responder *responder,
    const void *reply,
    size_t bytes,
    stripline_error **error);

/* Sends the operation's own error: `bytes` bytes, which are an error of the operation's type. The
 * client gets `STRIPLINE_USER_ERROR`.
 *
 * Fails like `stripline_responder_reply`.
 *
 * - Ownership: nothing is kept. The caller still frees the responder.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_responder_fail(
    stripline_responder *responder,
    const void *failed,
    size_t bytes,
    stripline_error **error);

/* Refuses a call, with a reason for people to read. The client gets `STRIPLINE_REPLY_FAILED`.
 *
 * Fails like `stripline_responder_reply`.
 *
 * - Ownership: nothing is kept. The caller still frees the responder.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_responder_refuse(
    stripline_responder *responder,
    const char *reason,
    stripline_error **error);

/* Refuses a call, with a kind of refusal and a reason for people to read. The client gets `kind`
 * as the status. Use `STRIPLINE_WRONG_TYPE` for a request that does not decode, and
 * `STRIPLINE_HANDLER_PANICKED` for a handler that failed by an exception. `STRIPLINE_REPLY_FAILED`
 * has the effect of `stripline_responder_refuse`.
 *
 * Fails like `stripline_responder_reply`, and with `STRIPLINE_INVALID_ARGUMENT` for any other
 * kind.
 *
 * - Ownership: nothing is kept. The caller still frees the responder.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_responder_refuse_as(
    stripline_responder *responder,
    int32_t kind,
    const char *reason,
    stripline_error **error);

/* Returns the time that the client waits for the reply, in nanoseconds from the start of the call.
 * Returns 0 for NULL, and after the answer.
 *
 * - Ownership: the program keeps the responder.
 * - Blocking: never.
 * - Threads: any.
 */
uint64_t stripline_responder_deadline_ns(const stripline_responder *responder);

/* Frees a responder; NULL is allowed. A call without an answer is refused, so that the client does
 * not wait until the deadline.
 *
 * - Ownership: ends with this call. A second call with the same responder is undefined.
 * - Blocking: never.
 * - Threads: any.
 */
void stripline_responder_free(stripline_responder *responder);

/* Services: operations that are named at run time, and their handlers ------------------------ */

/* A service: a name, operations and their handlers. Any number of servers can be made from it. */
typedef struct stripline_service stripline_service;

/* Makes a service without operations. Clients find it by name: 1 to 64 letters, digits, `-`, `_`,
 * `.`.
 *
 * - Ownership: the caller frees the service, before or after the servers. `name` is not kept.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_service_new(
    const char *name,
    stripline_service **service,
    stripline_error **error);

/* Adds an operation and a handler, for servers that are made from the service later. `doc` is a
 * description that clients can show, or NULL.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid name or type, for a second operation of
 * the same name, and for more than 128 operations.
 *
 * - Ownership: the program keeps `context`, which must be valid until the servers of the service
 *   are freed. NULL is allowed. Nothing else is kept.
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

/* Frees a service; NULL is allowed. Servers made from it continue.
 *
 * - Ownership: ends with this call. A second call with the same service is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_service_free(stripline_service *service);

/* Servers of calls --------------------------------------------------------------------------- */

/* A server, which answers the calls of any number of clients. Only one thread at a time may use
 * it.
 */
typedef struct stripline_server stripline_server;

/* Options of a server. */
typedef struct stripline_server_options {
    /* `sizeof(stripline_server_options)`. */
    size_t size;
    /* The name of the transport. NULL: the transport that the domain's topics set for the name of
     * the service.
     */
    const char *transport;
    /* The name of the server, 1 to 64 bytes. NULL: a unique name. */
    const char *name;
    /* The size of the buffer for the replies to each client, in bytes; 0: 256 KiB. */
    uint32_t buffer;
    /* The number of clients at a time: 1 to 4096; 0: 256. */
    uint32_t clients;
    /* The number of calls that may wait behind the next one, at most 4096. Further calls are
     * refused with `STRIPLINE_OVERLOADED`. 0: no limit.
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
    /* Calls that their clients cancelled, whether in time or too late. */
    uint64_t cancelled;
    /* Clients that were disconnected because they broke the protocol. */
    uint64_t evicted;
    /* Replies that a client did not take in time, and replies to clients that had left. */
    uint64_t replies_dropped;
    /* Clients that are connected now. */
    uint64_t clients;
} stripline_server_counts;

/* Makes a server of a service. Clients find it from now on. Their calls wait until the server
 * serves.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an option out of range, and with `STRIPLINE_SYSTEM`
 * or `STRIPLINE_UNSUPPORTED` if the transport cannot be opened.
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

/* Answers calls until the node is stopped. `threads` is the number of threads that run handlers,
 * at most 64; 0 runs the handlers on this thread, one after the other.
 *
 * Returns `STRIPLINE_STOPPED` when the node is stopped, and `STRIPLINE_INTERRUPTED` when a waker
 * ends the wait. Calls that still wait are kept for the next call of this function.
 *
 * - Ownership: the caller keeps the server, unless a handler frees it.
 * - Blocking: until the node is stopped or a waker ends the wait.
 * - Threads: one at a time. Handlers run on the calling thread, or on threads of the library.
 */
stripline_status stripline_server_serve(
    stripline_server *server,
    size_t threads,
    stripline_error **error);

/* Answers one call on this thread.
 *
 * Returns `STRIPLINE_EMPTY` if no call arrives in time. Fails like `stripline_server_serve`.
 *
 * - Ownership: as for `stripline_server_serve`.
 * - Blocking: up to `timeout_ns`, and then until the handler returns. `STRIPLINE_FOREVER` (or any
 *   negative number) waits without end.
 * - Threads: one at a time. The handler runs on the calling thread.
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

/* Gets the counters of a server.
 *
 * - Ownership: nothing is kept.
 * - Blocking: only for a lock of the server.
 * - Threads: one at a time.
 */
stripline_status stripline_server_get_counts(
    stripline_server *server,
    stripline_server_counts *counts,
    stripline_error **error);

/* Frees a server; NULL is allowed. Clients with an outstanding call get `STRIPLINE_SERVER_GONE`.
 * If a handler of the server frees it, it is freed when the serving call returns.
 *
 * - Ownership: ends with this call. A second call with the same server is undefined. The program
 *   still frees the responders. Their answers have no effect.
 * - Blocking: only for the replies that are being sent.
 * - Threads: one at a time.
 */
void stripline_server_free(stripline_server *server);

/* Handles in a program's own loop: a descriptor for each handle, and functions to arm it ----- */

/* Gets a subscriber's descriptor, for `poll`, epoll or a toolkit. Every call gets the same one.
 * Once `stripline_subscriber_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable
 * when the subscriber needs a call. The descriptor is level-triggered. The program only waits for
 * it and never reads from it.
 *
 * Fails with `STRIPLINE_SYSTEM` if the process has too few descriptors left: this function needs
 * four.
 *
 * - Ownership: the descriptor belongs to the subscriber, and is closed with it. Do not close it.
 * - Blocking: never.
 * - Threads: one at a time. Any thread may wait for the descriptor.
 */
stripline_status stripline_subscriber_ready_descriptor(
    stripline_subscriber *subscriber,
    int32_t *descriptor,
    stripline_error **error);

/* Makes a subscriber's descriptor ready once there may be a packet, the end of the stream or an
 * error. For a windowed subscriber, `samples` is the length of the window to wait for. For any
 * other subscriber it is 0.
 *
 * Returns `STRIPLINE_EMPTY` if nothing has arrived yet: wait for the descriptor. Returns
 * `STRIPLINE_OK` if something has arrived already: receive it first. Call this function each time
 * before the loop waits. The descriptor stays ready until the next call of this function. Any
 * other call of the subscriber may undo the preparation.
 *
 * Fails with `STRIPLINE_STOPPED` when the node is stopped, and with `STRIPLINE_INTERRUPTED` when a
 * waker ends the wait. Both also make the descriptor ready. For a subscriber made without `hold`,
 * it fails with `STRIPLINE_TOO_MANY_HELD` until the program releases the packet that it has.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_subscriber_arm(
    stripline_subscriber *subscriber,
    size_t samples,
    stripline_error **error);

/* Gets a publisher's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
 * Once `stripline_publisher_arm` or `stripline_publisher_arm_for_receivers` has returned
 * `STRIPLINE_EMPTY`, the descriptor becomes readable when the publisher needs a call.
 *
 * - Ownership: the descriptor belongs to the publisher, and is closed with it. Do not close it.
 * - Blocking: never.
 * - Threads: one at a time. Any thread may wait for the descriptor.
 */
stripline_status stripline_publisher_ready_descriptor(
    stripline_publisher *publisher,
    int32_t *descriptor,
    stripline_error **error);

/* Makes a publisher's descriptor ready once there may be room for a packet of `samples` samples,
 * or an error.
 *
 * Returns `STRIPLINE_EMPTY` if there is no room yet: wait for the descriptor. Returns
 * `STRIPLINE_OK` if there is room already: call `stripline_publisher_try_loan` first. Call this
 * function each time before the loop waits. The descriptor stays ready until the next call of this
 * function. Any other call of the publisher may undo the preparation. A receiver that was full has
 * room again at the low watermark.
 *
 * Fails with `STRIPLINE_TOO_LARGE` above `stripline_publisher_samples_in_place`, and with
 * `STRIPLINE_PORT` while a loan is open and after the end of the stream. Fails with
 * `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` like `stripline_subscriber_arm`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_arm(
    stripline_publisher *publisher,
    size_t samples,
    stripline_error **error);

/* Makes a publisher's descriptor ready once at least `count` receivers may be connected. The call
 * replaces an earlier `stripline_publisher_arm`.
 *
 * Returns `STRIPLINE_OK` if they are connected already, and `STRIPLINE_EMPTY` if not. In all other
 * respects, it is like `stripline_publisher_arm`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_publisher_arm_for_receivers(
    stripline_publisher *publisher,
    size_t count,
    stripline_error **error);

/* Gets a client's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
 * Once `stripline_client_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable when
 * the program must check the pending calls.
 *
 * - Ownership: the descriptor belongs to the client. Do not close it.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_ready_descriptor(
    const stripline_client *client,
    int32_t *descriptor,
    stripline_error **error);

/* Makes a client's descriptor ready once a reply may have arrived, or a server has connected or
 * left.
 *
 * Returns `STRIPLINE_EMPTY` if nothing has arrived yet: wait for the descriptor. Returns
 * `STRIPLINE_OK` if something has: check the pending calls first. Call this function each time
 * before the loop waits, and after each call that was started. Deadlines do not make the
 * descriptor ready.
 *
 * Fails with `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` like `stripline_subscriber_arm`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_client_arm(const stripline_client *client, stripline_error **error);

/* Gets a server's descriptor, as `stripline_subscriber_ready_descriptor` does for a subscriber.
 * Once `stripline_server_arm` has returned `STRIPLINE_EMPTY`, the descriptor becomes readable when
 * `stripline_server_serve_one` has something to do.
 *
 * - Ownership: the descriptor belongs to the server, and is closed with it. Do not close it.
 * - Blocking: never.
 * - Threads: one at a time. Any thread may wait for the descriptor.
 */
stripline_status stripline_server_ready_descriptor(
    stripline_server *server,
    int32_t *descriptor,
    stripline_error **error);

/* Makes a server's descriptor ready once there may be a call.
 *
 * Returns `STRIPLINE_EMPTY` if no call has arrived yet: wait for the descriptor. Returns
 * `STRIPLINE_OK` if a call has arrived: serve it first. Call this function each time before the
 * loop waits.
 *
 * Fails with `STRIPLINE_STOPPED` and `STRIPLINE_INTERRUPTED` like `stripline_subscriber_arm`.
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
 * A wait does not consume packets: a handle that you do not read is ready again in the next wait.
 */
typedef struct stripline_wait_set stripline_wait_set;

/* The ways to be ready in a wait set, as bits. The first two also select the events to wait for on
 * a descriptor.
 */
enum stripline_ready {
    /* A handle needs a call, or a descriptor can be read or has ended. */
    STRIPLINE_READY_READABLE = 1,
    /* A descriptor can be written or has ended. */
    STRIPLINE_READY_WRITABLE = 2,
    /* A descriptor was closed without being removed. The descriptor stays in this state until it
     * is removed.
     */
    STRIPLINE_READY_CLOSED = 4,
};

/* A thing that is ready in a wait set. */
typedef struct stripline_wait_event {
    /* The key that the member was added with. */
    uint64_t key;
    /* The way that the member is ready: `STRIPLINE_READY_…`, combined with `|`. */
    uint64_t ready;
} stripline_wait_event;

/* Makes an empty wait set.
 *
 * Fails with `STRIPLINE_SYSTEM` if the process has too few descriptors left: a wait set needs two.
 *
 * - Ownership: the caller frees the wait set.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_wait_set_new(stripline_wait_set **set, stripline_error **error);

/* Adds a subscriber to a wait set, under a key that the caller selects. The subscriber is ready
 * when `stripline_subscriber_receive` has a packet, the end of stream or an error. For a windowed
 * subscriber, `samples` is the length of the window to wait for. For any other subscriber it is 0.
 *
 * Fails with `STRIPLINE_PORT` for a key that is in use, and otherwise like
 * `stripline_subscriber_ready_descriptor`.
 *
 * - Ownership: the caller keeps the subscriber. The subscriber may be freed before the set, and is
 *   then never ready. While another thread waits with the set, remove the subscriber first.
 * - Blocking: never.
 * - Threads: the thread of the subscriber. From then on, this must be the thread that waits with
 *   the set.
 */
stripline_status stripline_wait_set_add_subscriber(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_subscriber *subscriber,
    size_t samples,
    stripline_error **error);

/* Adds a publisher to a wait set. The publisher is ready when there is room for a packet of
 * `samples` samples, or an error.
 *
 * A publisher has one descriptor, so add it only once to a set, by this function or by
 * `stripline_wait_set_add_publisher_for_receivers`. Fails with `STRIPLINE_PORT` for a key that is
 * in use, and otherwise like `stripline_publisher_ready_descriptor`. While the loan of the
 * publisher is open, it is always ready.
 *
 * - Ownership: as for `stripline_wait_set_add_subscriber`.
 * - Blocking: never.
 * - Threads: as for `stripline_wait_set_add_subscriber`.
 */
stripline_status stripline_wait_set_add_publisher(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_publisher *publisher,
    size_t samples,
    stripline_error **error);

/* Adds a publisher to a wait set. The publisher is ready when at least `count` receivers are
 * connected.
 *
 * Fails like `stripline_wait_set_add_publisher`.
 *
 * - Ownership: as for `stripline_wait_set_add_subscriber`.
 * - Blocking: never.
 * - Threads: as for `stripline_wait_set_add_subscriber`.
 */
stripline_status stripline_wait_set_add_publisher_for_receivers(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_publisher *publisher,
    size_t count,
    stripline_error **error);

/* Adds a client to a wait set. The client is ready when the program must check the pending calls,
 * as after `stripline_client_arm`.
 *
 * Fails with `STRIPLINE_PORT` for a key that is in use, and otherwise like
 * `stripline_client_ready_descriptor`.
 *
 * - Ownership: as for `stripline_wait_set_add_subscriber`.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_wait_set_add_client(
    const stripline_wait_set *set,
    uint64_t key,
    const stripline_client *client,
    stripline_error **error);

/* Adds a server to a wait set. The server is ready when `stripline_server_serve_one` has something
 * to do.
 *
 * Fails with `STRIPLINE_PORT` for a key that is in use, and otherwise like
 * `stripline_server_ready_descriptor`.
 *
 * - Ownership: as for `stripline_wait_set_add_subscriber`.
 * - Blocking: never.
 * - Threads: as for `stripline_wait_set_add_subscriber`.
 */
stripline_status stripline_wait_set_add_server(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_server *server,
    stripline_error **error);

/* Adds a descriptor of the program to a wait set. `interest` is the event to wait for:
 * `STRIPLINE_READY_READABLE`, `STRIPLINE_READY_WRITABLE` or both.
 *
 * Fails with `STRIPLINE_PORT` for a key that is in use, and with `STRIPLINE_INVALID_ARGUMENT` for
 * a negative descriptor or another interest.
 *
 * - Ownership: the caller keeps the descriptor. Remove it before it is closed. A closed descriptor
 *   is reported with `STRIPLINE_READY_CLOSED`, unless the number is in use again.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_wait_set_add_descriptor(
    const stripline_wait_set *set,
    uint64_t key,
    int32_t descriptor,
    uint64_t interest,
    stripline_error **error);

/* Removes the member that was added with a key. When this returns, no wait uses the member or
 * returns the key any more.
 *
 * Returns `STRIPLINE_EMPTY` if there is no member with that key.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once.
 */
stripline_status stripline_wait_set_remove(
    const stripline_wait_set *set,
    uint64_t key,
    stripline_error **error);

/* Waits until something in the set is ready, and writes up to `capacity` events. `count` is set to
 * their number. The next wait begins with events that did not fit.
 *
 * Returns `STRIPLINE_OK` with at least one event, and `STRIPLINE_EMPTY` if nothing was ready in
 * time. Fails with `STRIPLINE_INTERRUPTED` by a waker of the set or of a handle in it, and with
 * `STRIPLINE_STOPPED` when the node of a handle is stopped. Fails with `STRIPLINE_TOO_MANY_HELD`
 * for a subscriber with a lent packet, and with `STRIPLINE_PORT` while another thread waits. A
 * handle with any other error is ready: the next call of the handle returns the error. Nothing is
 * lost.
 *
 * - Ownership: nothing is kept.
 * - Blocking: up to `timeout_ns`; `STRIPLINE_FOREVER` (or any negative number) waits without end.
 * - Threads: one at a time. The waiting thread uses the handles of the set.
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

/* Frees a wait set; NULL is allowed. The members are not freed.
 *
 * - Ownership: ends with this call. A second call with the same set is undefined.
 * - Blocking: never.
 * - Threads: any, once no other thread uses it.
 */
void stripline_wait_set_free(stripline_wait_set *set);

/* The reason why a component's function failed ----------------------------------------------- */

/* The place for the reason, in words for the user, why a component's function fails. The place is
 * valid until the function returns.
 */
typedef struct stripline_reason stripline_reason;

/* Sets the reason for a failure, or the remark of a self-test. The text replaces any earlier text.
 * Invalid UTF-8 is replaced. NULL for either argument has no effect.
 *
 * Returns `STRIPLINE_FAILED`, for the function to return.
 *
 * - Ownership: `text` is not kept.
 * - Blocking: never.
 * - Threads: the thread of the component's function.
 */
stripline_status stripline_reason_set(stripline_reason *reason, const char *text);

/* Sets the reason to the message of an error, and frees the error.
 *
 * Returns the error's status, for the function to return: `STRIPLINE_OK` for NULL. A function that
 * returns `STRIPLINE_STOPPED` ends cleanly.
 *
 * - Ownership: ends with this call, for the error.
 * - Blocking: never.
 * - Threads: the thread of the component's function.
 */
stripline_status stripline_reason_take(stripline_reason *reason, stripline_error *error);

/* The values of a component's properties ----------------------------------------------------- */

/* The values of all properties of a component. The values conform to the specification, and are
 * valid until the function that got them returns.
 */
typedef struct stripline_properties stripline_properties;

/* Gets the value of a real number.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not declared, or has another
 * kind.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: the thread of the function that got the properties.
 */
stripline_status stripline_properties_float(
    const stripline_properties *properties,
    const char *name,
    double *value,
    stripline_error **error);

/* Gets the value of a whole number, like `stripline_properties_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: the thread of the function that got the properties.
 */
stripline_status stripline_properties_integer(
    const stripline_properties *properties,
    const char *name,
    int64_t *value,
    stripline_error **error);

/* Gets the value of a boolean, 0 or 1, like `stripline_properties_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: the thread of the function that got the properties.
 */
stripline_status stripline_properties_boolean(
    const stripline_properties *properties,
    const char *name,
    int32_t *value,
    stripline_error **error);

/* Gets the value of a text, a choice or a path, like `stripline_properties_float`. The text has a
 * NUL after the last byte. An empty path names no file.
 *
 * - Ownership: the text is valid until the function that got the properties returns.
 * - Blocking: never.
 * - Threads: the thread of the function that got the properties.
 */
stripline_status stripline_properties_text(
    const stripline_properties *properties,
    const char *name,
    stripline_text *value,
    stripline_error **error);

/* Gets 1 if a change at run time names the property, even with the old value, and otherwise 0.
 *
 * Fails like `stripline_properties_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: the thread of the function that got the properties.
 */
stripline_status stripline_properties_is_changed(
    const stripline_properties *properties,
    const char *name,
    int32_t *is_changed,
    stripline_error **error);

/* Read-only properties, which a component sets while it runs --------------------------------- */

/* A read-only property that a component sets: `stripline get` prints the last value. Setting a
 * number costs one store. A value out of the property's range is shown as unknown.
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

/* Sets a whole number, like `stripline_readout_set_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_set_integer(
    const stripline_readout *readout,
    int64_t value,
    stripline_error **error);

/* Adds to a whole number, like `stripline_readout_set_float`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_add(
    const stripline_readout *readout,
    uint64_t count,
    stripline_error **error);

/* Sets a boolean, like `stripline_readout_set_float`: 0 is false, any other number is true.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_set_boolean(
    const stripline_readout *readout,
    int32_t value,
    stripline_error **error);

/* Sets a text of at most 4096 bytes, like `stripline_readout_set_float`. A longer text is cut.
 *
 * - Ownership: nothing is kept.
 * - Blocking: only for a lock. The call allocates.
 * - Threads: any, several at once, until the component's function returns.
 */
stripline_status stripline_readout_set_text(
    const stripline_readout *readout,
    const char *value,
    stripline_error **error);

/* The ports of a running component ----------------------------------------------------------- */

/* The ports of a component, already connected, and other facts about the waveform. The ports are
 * valid until the component's function returns.
 *
 * Publishers, subscribers and readouts taken from the ports end then as well, and so do an open
 * loan and a received packet. The program may free publishers and subscribers earlier.
 */
typedef struct stripline_ports stripline_ports;

/* Returns the component's name in the waveform, and an empty text for NULL.
 *
 * - Ownership: the text is valid as long as the ports.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
stripline_text stripline_ports_component(const stripline_ports *ports);

/* Returns 1 if the user wants only warnings and errors (`stripline run --quiet`), and otherwise 0.
 * In this case, a component prints nothing on the terminal.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
int32_t stripline_ports_is_quiet(const stripline_ports *ports);

/* Gets the type of a port in this waveform, with the layout or schema. The text is empty for a
 * port that is not connected or does not exist.
 *
 * - Ownership: the text is valid as long as the ports.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
stripline_status stripline_ports_type(
    const stripline_ports *ports,
    const char *port,
    stripline_text *type,
    stripline_error **error);

/* Takes an input. `type` is the type of the samples. NULL selects the type that the waveform gives
 * the input, or else the type that the component declares. `type` may also be a message type. An
 * input that is not connected is at its end of stream.
 *
 * Fails with `STRIPLINE_PORT` if there is no such input, if it was taken before, or if the
 * waveform gives it another type. Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid type or
 * option. If an option is invalid, the input still counts as taken.
 *
 * - Ownership: the subscriber belongs to the ports. `type` and `options` may be NULL and are not
 *   kept.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
stripline_status stripline_ports_input(
    stripline_ports *ports,
    const char *port,
    const stripline_sample_type *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Takes an output, as `stripline_ports_input` takes an input. Packets sent to an output that is
 * not connected are discarded.
 *
 * When the component's function returns 0, the stream ends. After a failure it does not, because
 * the component may be started again.
 *
 * - Ownership: the publisher belongs to the ports. `type` may be NULL and is not kept.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
stripline_status stripline_ports_output(
    stripline_ports *ports,
    const char *port,
    const stripline_sample_type *type,
    stripline_publisher **publisher,
    stripline_error **error);

/* Takes an input of messages, as bytes of CBOR. `type` is the same as for
 * `stripline_message_subscriber_new`, but NULL selects the type that the waveform gives the input,
 * or else the type that the component declares: the schema is written once, in the declaration.
 *
 * Fails like `stripline_ports_input`, and for the option `windowed`.
 *
 * - Ownership: the subscriber belongs to the ports. `type` and `options` may be NULL and are not
 *   kept.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
stripline_status stripline_ports_message_input(
    stripline_ports *ports,
    const char *port,
    const char *type,
    const stripline_subscriber_options *options,
    stripline_subscriber **subscriber,
    stripline_error **error);

/* Takes an output of messages, as bytes of CBOR. `type` is the same as for
 * `stripline_message_publisher_new`, but NULL selects the type as `stripline_ports_message_input`
 * does. Fails like `stripline_ports_output`.
 *
 * - Ownership: the publisher belongs to the ports. `type` may be NULL and is not kept.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
stripline_status stripline_ports_message_output(
    stripline_ports *ports,
    const char *port,
    const char *type,
    stripline_publisher **publisher,
    stripline_error **error);

/* Gets a read-only property of the component, to set the value. Two readouts of the same property
 * set the same value.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not declared read-only.
 *
 * - Ownership: the readout belongs to the ports.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
stripline_status stripline_ports_readout(
    stripline_ports *ports,
    const char *property,
    const stripline_readout **readout,
    stripline_error **error);

/* Receives the next packet of an input, as `stripline_subscriber_receive` does without a timeout.
 * The call also runs the component's functions for changes and self-tests: before it takes a
 * packet, and at once if a request arrives while it waits.
 *
 * - Ownership: the caller releases the packet.
 * - Blocking: until a packet or the end of the stream.
 * - Threads: the thread of the ports. The functions run on it.
 */
stripline_status stripline_ports_receive(
    stripline_ports *ports,
    stripline_subscriber *subscriber,
    stripline_packet **packet,
    stripline_error **error);

/* Receives the next window of a windowed input, as `stripline_subscriber_window` does without a
 * timeout, and handles requests like `stripline_ports_receive`.
 *
 * - Ownership: the caller releases the packet, or consumes a part of it.
 * - Blocking: until the samples, a gap or the end of the stream.
 * - Threads: the thread of the ports. The functions run on it.
 */
stripline_status stripline_ports_window(
    stripline_ports *ports,
    stripline_subscriber *subscriber,
    size_t length,
    stripline_packet **window,
    stripline_error **error);

/* Runs the component's functions for the requests that wait. Components that do not wait in
 * `stripline_ports_receive` call it between packets.
 *
 * Fails with `STRIPLINE_STOPPED` when the component must stop.
 *
 * - Ownership: nothing is kept.
 * - Blocking: until the functions return.
 * - Threads: the thread of the ports. The functions run on it.
 */
stripline_status stripline_ports_poll(stripline_ports *ports, stripline_error **error);

/* Sleeps. Fails at once with `STRIPLINE_STOPPED` when the component must stop. Requests wait until
 * the next `stripline_ports_poll`.
 *
 * - Ownership: nothing is kept.
 * - Blocking: for `time_ns`; `STRIPLINE_FOREVER` (or any negative number) sleeps without end.
 * - Threads: any, until the component's function returns.
 */
stripline_status stripline_ports_sleep(
    const stripline_ports *ports,
    int64_t time_ns,
    stripline_error **error);

/* Starts a clock of `rate` samples per second, by which a source waits in
 * `stripline_ports_wait_for_pace`; 0: no limit. The clock takes the place of an earlier one, and
 * begins with the first wait. The report of a run shows how far a source was behind the clock.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a rate that is negative or not a number.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: the thread of the ports.
 */
stripline_status stripline_ports_start_pace(
    stripline_ports *ports,
    double rate,
    stripline_error **error);

/* Waits until `samples` samples are due since the first wait for the pace. Times are counted from
 * there, so delays do not add up, and a late source catches up. The component's functions for
 * changes and self-tests run before the wait, and at most 100 ms after a request during the wait.
 *
 * `due_ns`, which may be NULL, gets the time at which the samples are due, in nanoseconds of the
 * monotonic clock, for `stripline_send_options.intended_ns`; 0 without a limit.
 *
 * Fails at once with `STRIPLINE_STOPPED` when the component must stop. Fails with
 * `STRIPLINE_INVALID_ARGUMENT` before `stripline_ports_start_pace`, and for a wait within a wait.
 *
 * - Ownership: nothing is kept.
 * - Blocking: until the samples are due.
 * - Threads: the thread of the ports. The functions run on it.
 */
stripline_status stripline_ports_wait_for_pace(
    stripline_ports *ports,
    uint64_t samples,
    uint64_t *due_ns,
    stripline_error **error);

/* Components with a handler: the waveform selects the threads that run it -------------------- */

/* The packet that a handler makes. The packet is empty at first, and valid until the handler
 * returns.
 */
typedef struct stripline_made stripline_made;

/* Sets the number of samples of the packet that a handler makes, and gets their memory. Samples
 * that were there before stay. The content of new samples is unspecified.
 *
 * Fails with `STRIPLINE_TOO_LARGE` if there is no memory for them. A packet above the output's
 * limit fails when it is sent.
 *
 * - Ownership: the memory is valid until the next call of this function, and until the handler
 *   returns.
 * - Blocking: never. The call allocates if no earlier packet had as many samples.
 * - Threads: the thread of the handler.
 */
stripline_status stripline_made_resize(
    stripline_made *made,
    size_t samples,
    void **memory,
    stripline_error **error);

/* Components: their specification, and the functions that make and run them ------------------ */

/* A component type: a name, ports, properties, self-tests and functions. Programs run it by
 * `stripline_main` and `stripline_harness_new`.
 */
typedef struct stripline_component stripline_component;

/* A function that creates a component from properties that were checked. The function gets the
 * context of the functions, and sets `instance`, which all other functions get.
 *
 * The function returns 0, or `STRIPLINE_FAILED` with the cause in `reason`. Detect failures here
 * if they can be found before the first packet.
 */
typedef int32_t (*stripline_component_create)(
    void *context,
    const stripline_properties *properties,
    void **instance,
    stripline_reason *reason);

/* A function that runs a component until the end of the input, or until the component has
 * finished.
 *
 * The function returns 0 when the component has finished, which also ends the output streams.
 * `STRIPLINE_STOPPED` is a clean end as well: when a port returns this status, the function
 * returns it, too. Any other positive number is a failure, with the cause in `reason`
 * (`stripline_reason_take`).
 */
typedef int32_t (*stripline_component_run)(
    void *instance,
    stripline_ports *ports,
    stripline_reason *reason);

/* A function that makes one packet from each received packet. The packet that it makes is sent
 * with the stream, sample index and time of `packet`, even if it is empty. Without an output,
 * `made` is NULL.
 *
 * The waveform selects the threads that run the function. With a pool, it runs on several threads
 * at once. The function returns the same numbers as a `stripline_packet_handler`, with the cause
 * in `reason`.
 */
typedef int32_t (*stripline_component_handler)(
    void *instance,
    stripline_packet *packet,
    stripline_made *made,
    stripline_reason *reason);

/* A function that takes new values of changeable properties. The function gets all properties. The
 * changed ones have their new values, which are within their ranges.
 *
 * The function returns 0, or `STRIPLINE_FAILED` with the cause in `reason`. Then the old values
 * stay.
 */
typedef int32_t (*stripline_component_change)(
    void *instance,
    const stripline_properties *properties,
    stripline_reason *reason);

/* A function that runs the named self-test.
 *
 * The function returns 0 if the test passed, and otherwise `STRIPLINE_FAILED`. In both cases,
 * `reason` is a remark for the user. The function may set `value` to the number that it has
 * measured, which must be finite.
 */
typedef int32_t (*stripline_component_test)(
    void *instance,
    const char *test,
    double *value,
    stripline_reason *reason);

/* A function that checks the properties together: before any part of a waveform starts, and before
 * each `change`, on the same thread. Each property is valid on its own. The function may read
 * files, changes nothing, and returns 0, or `STRIPLINE_FAILED` with the cause in `reason`.
 */
typedef int32_t (*stripline_component_validate)(
    void *context,
    const stripline_properties *properties,
    stripline_reason *reason);

/* A function that destroys a component, after all other functions have returned. */
typedef void (*stripline_component_destroy)(void *instance);

/* The functions of a component type. Set either `run` or `handle`. The others may be NULL.
 *
 * The functions are called on threads of the library. For one component, `change` and `test` run
 * on the thread that runs the component; with a pool, they run beside `handle`. All functions must
 * return: no `longjmp`, no exception of C++.
 */
typedef struct stripline_component_functions {
    /* `sizeof(stripline_component_functions)`. */
    size_t size;
    /* The context for `create` and `validate`. Without `create`, it is also the instance. */
    void *context;
    /* Creates a component. */
    stripline_component_create create;
    /* Runs the component. */
    stripline_component_run run;
    /* Makes one packet from each received packet. The type must have one input and at most one
     * output.
     */
    stripline_component_handler handle;
    /* Takes new values. Required for changeable properties. */
    stripline_component_change change;
    /* Runs self-tests. Required if self-tests are declared. */
    stripline_component_test test;
    /* Checks the properties together. */
    stripline_component_validate validate;
    /* Destroys the instance that `create` has made. */
    stripline_component_destroy destroy;
} stripline_component_functions;

/* Makes a component type without ports, properties and functions. `name` is the name in waveform
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

/* Sets the functions of a component type, in place of any that were set before.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for NULL and for members that this library does not
 * have. A declared item without a function is reported later, by `stripline_main` and
 * `stripline_harness_start`.
 *
 * - Ownership: the program keeps the context. The context must be valid until all components of
 *   the type are destroyed.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_component_set_functions(
    stripline_component *component,
    const stripline_component_functions *functions,
    stripline_error **error);

/* Frees a component type; NULL is allowed. Running components of the type continue.
 *
 * - Ownership: ends with this call. A second call with the same component is undefined.
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
    /* A finite real number. The members are `float_default`, and with `has_range` `float_min` and
     * `float_max`.
     */
    STRIPLINE_PROPERTY_KIND_FLOAT = 1,
    /* A whole number. The members are `integer_default`, and with `has_range` `integer_min` and
     * `integer_max`.
     */
    STRIPLINE_PROPERTY_KIND_INTEGER = 2,
    /* A boolean. The member is `integer_default`: 0 is false, any other number is true. */
    STRIPLINE_PROPERTY_KIND_BOOLEAN = 3,
    /* A text. The member is `text_default`. */
    STRIPLINE_PROPERTY_KIND_TEXT = 4,
    /* One of `choices`. The default is `text_default`, or the first choice if that is NULL. */
    STRIPLINE_PROPERTY_KIND_CHOICE = 5,
    /* A path, relative to the waveform file. By default it is empty, which names no file. */
    STRIPLINE_PROPERTY_KIND_PATH = 6,
};

/* The writer of a property, and the time when it writes. */
enum stripline_property_access {
    /* The waveform sets it before the start. */
    STRIPLINE_PROPERTY_ACCESS_FIXED = 0,
    /* The waveform sets it, and users may change it while the component runs. */
    STRIPLINE_PROPERTY_ACCESS_CHANGEABLE = 1,
    /* Only the component sets it, while it runs (`stripline_ports_readout`). */
    STRIPLINE_PROPERTY_ACCESS_READ_ONLY = 2,
};

/* A port of a component type. Set at most one of `types`, `same_as` and `type_property`. If none
 * is set, the port takes any type.
 */
typedef struct stripline_port {
    /* `sizeof(stripline_port)`. */
    size_t size;
    /* The name of the port: 1 to 64 letters, digits, `-` and `_`. */
    const char *name;
    /* The direction of the packets: a `stripline_port_direction`. */
    uint32_t direction;
    /* Not 0: a waveform may leave the port unconnected. */
    uint32_t optional;
    /* Not 0: an input takes packets of any number of senders. */
    uint32_t many_writers;
    /* The types that the port takes, with `|` between them: `cf32` or `cf32 | cs16`. Each is a
     * built-in type, a layout, a name, or a message type such as `message/tune{hz:f64}`.
     */
    const char *types;
    /* The input of this component that has the same type. */
    const char *same_as;
    /* The text or choice property that contains the name of the type. */
    const char *type_property;
    /* A line for users; may be NULL. */
    const char *summary;
    /* The shape of the streams that an input takes: `signal`, `rows`, or `frames` of rows. NULL:
     * any shape. A receive fails with `STRIPLINE_PORT` when a stream of another shape arrives.
     */
    const char *shape;
} stripline_port;

/* A property of a component type. */
typedef struct stripline_property {
    /* `sizeof(stripline_property)`. */
    size_t size;
    /* The name of the property: 1 to 64 letters, digits, `-` and `_`. */
    const char *name;
    /* The kind of the values: a `stripline_property_kind`. */
    uint32_t kind;
    /* The writer of the property, and the time: a `stripline_property_access`. */
    uint32_t access;
    /* Not 0: the waveform must set it, and the default is not used. */
    uint32_t required;
    /* Not 0: the smallest and the largest number are set. Both are part of the range. */
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
    /* The values of a choice, with `|` between them. */
    const char *choices;
    /* The unit for users, such as `Hz`; may be NULL. */
    const char *unit;
    /* A line for users; may be NULL. */
    const char *summary;
} stripline_property;

/* Adds a port to a component type.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid port (the message names the mistake) and
 * for a second port of the same name.
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
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid property, such as a default out of range
 * (the message names the mistake), and for a second property of the same name.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_component_add_property(
    stripline_component *component,
    const stripline_property *property,
    stripline_error **error);

/* Adds a self-test to a component type. Users run it by `stripline test`. `summary` is one line
 * for users, and may be NULL.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid name, and for a second test of the same
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

/* Runs `count` component types as the `main` of a program that a waveform file names by `exec`.
 * The function follows a launcher, prints the specifications (`--describe`), checks properties
 * (`--check`), or prints the usage. Call it before the program starts threads.
 *
 * `argc` and `argv` are the arguments of `main`, with the program's own name first. A program with
 * additional arguments removes them first.
 *
 * Returns the exit code for `main`: 0, 1 for a failure, 2 for wrong arguments. Failures are
 * printed on standard error. The log is printed there as well, unless `stripline_log_set` was
 * called before.
 *
 * - Ownership: the caller keeps the components.
 * - Blocking: until the launcher has ended the program.
 * - Threads: one, once in a process.
 */
int32_t stripline_main(
    int32_t argc,
    char **argv,
    stripline_component *const *components,
    size_t count);

/* One component in this process, with ports that a test feeds and reads ---------------------- */

/* A harness, which runs one component in this process, for a test that feeds the inputs, reads the
 * outputs, and changes the properties. The connections use `inproc`. Only one thread at a time may
 * use it.
 */
typedef struct stripline_harness stripline_harness;

/* The result of a self-test. */
typedef struct stripline_test_outcome {
    /* `sizeof(stripline_test_outcome)`, set by the caller. */
    size_t size;
    /* 1 if the test passed, and otherwise 0. */
    uint32_t passed;
    /* 1 if the test has measured `value`. */
    uint32_t has_value;
    /* The measured value. */
    double value;
    /* A line for users, valid until the next test and until the harness is freed. */
    stripline_text text;
} stripline_test_outcome;

/* Makes a harness of a component type.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` if the type declares an item without a function.
 *
 * - Ownership: the caller frees the harness, before or after the component.
 * - Blocking: never.
 * - Threads: any.
 */
stripline_status stripline_harness_new(
    const stripline_component *component,
    stripline_harness **harness,
    stripline_error **error);

/* Sets a property to the value in a text, in the format of `stripline set`. Before the start, this
 * sets the initial value; properties that are not set have their defaults. Later it changes the
 * property of the running component: packets that were sent to its inputs before this call are
 * handled with the old value, and later ones with the new value.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that does not exist, and for an invalid
 * value. Fails with `STRIPLINE_INVALID_PROPERTIES` if the component refuses the value: the
 * message contains the reason.
 *
 * - Ownership: nothing is kept.
 * - Blocking: until the component has taken or refused the value, ten seconds at most.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_set(
    stripline_harness *harness,
    const char *property,
    const char *value,
    stripline_error **error);

/* Sets the type of a port that takes several. `type` has the format of an item of
 * `stripline_port.types`. Only before the start.
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

/* Leaves an optional port unconnected. All other ports are connected. Only before the start.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_leave_unconnected(
    stripline_harness *harness,
    const char *port,
    stripline_error **error);

/* Sets the options of all connections, and the threads of a handler. The text is a topics file
 * with the table `[default]`: `depth = 2`, `dispatch = "pool(4)"` (`docs/waveform-file.md`).
 * Only before the start.
 *
 * Fails with `STRIPLINE_CONFIGURATION` for an invalid text.
 *
 * - Ownership: nothing is kept.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_set_options(
    stripline_harness *harness,
    const char *topics,
    stripline_error **error);

/* Creates the component, connects the ports, and runs it on another thread. If the component fails
 * later, calls of the harness's publishers and subscribers fail with `STRIPLINE_FAILED` and the
 * reason. Packets that the component sent before the failure are received first.
 *
 * Fails with `STRIPLINE_INVALID_PROPERTIES` if the specification refuses the properties, and with
 * `STRIPLINE_FAILED` if the component does.
 * Fails with `STRIPLINE_PORT` for a port without a type, and for an unconnected port that is not
 * optional.
 *
 * - Ownership: the caller keeps the harness.
 * - Blocking: until the component is created.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_start(stripline_harness *harness, stripline_error **error);

/* Takes the sending end of an input, once. `type` is the type of the samples.
 *
 * Fails with `STRIPLINE_PORT` if there is no such input, if it was taken before, or if it has
 * another type.
 *
 * - Ownership: the caller frees the publisher, which ends the input's stream, before it calls
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

/* Takes the receiving end of an output, once, as `stripline_harness_input` takes the sending end
 * of an input. If an output is not taken, the packets wait, and may block the component.
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

/* Takes the sending end of an input of messages, like `stripline_harness_input`. `type` is the
 * same as for `stripline_message_publisher_new`.
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

/* Takes the receiving end of an output of messages, like `stripline_harness_output`. `type` is the
 * same as for `stripline_message_subscriber_new`.
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

/* Runs a self-test of the component. A failed test is an outcome, not an error.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a test that does not exist, and with
 * `STRIPLINE_FAILED` if the component has ended or takes no requests.
 *
 * - Ownership: the text of the outcome belongs to the harness.
 * - Blocking: until the test has ended, ten seconds at most.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_test(
    stripline_harness *harness,
    const char *test,
    stripline_test_outcome *outcome,
    stripline_error **error);

/* Gets the current value of a read-only property as a text, in the format of `stripline get`.
 * After the end of the component, this is the last value.
 *
 * Fails with `STRIPLINE_INVALID_ARGUMENT` for a property that is not read-only, and with
 * `STRIPLINE_FAILED` for a value out of the property's range.
 *
 * - Ownership: the text is valid until the next call of this function, and until the harness is
 *   freed.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_get(
    stripline_harness *harness,
    const char *property,
    stripline_text *value,
    stripline_error **error);

/* Stops the component: from now on the ports return `STRIPLINE_STOPPED`.
 *
 * - Ownership: the caller keeps the harness.
 * - Blocking: never.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_stop(stripline_harness *harness, stripline_error **error);

/* Ends the ports that were not taken, and waits for the end of the component. The program must
 * first end the inputs that it has taken.
 *
 * Fails with the failure of the component. Fails with `STRIPLINE_FAILED` if the component does not
 * end in time; it is then stopped.
 *
 * - Ownership: the caller keeps the harness.
 * - Blocking: up to `timeout_ns`; 0 (or any negative number) waits up to a minute.
 * - Threads: one at a time.
 */
stripline_status stripline_harness_finish(
    stripline_harness *harness,
    int64_t timeout_ns,
    stripline_error **error);

/* Frees a harness; NULL is allowed. A running component is stopped, and ends later.
 *
 * - Ownership: ends with this call. A second call with the same harness is undefined.
 * - Blocking: never.
 * - Threads: one at a time.
 */
void stripline_harness_free(stripline_harness *harness);

#ifdef __cplusplus
}
#endif

#endif
