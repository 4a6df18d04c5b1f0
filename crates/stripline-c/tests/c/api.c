/* Tests of the functions within one process. */
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "check.h"

struct detection {
    uint32_t range_bin;
    float level_db;
};

#define DETECTION "det{range_bin:u32,level_db:f32}"

/* The version of the running library begins with the numbers of the header, followed by nothing or
 * by `-`. */
static void version(void) {
    char numbers[32];
    const int length = snprintf(
        numbers, sizeof numbers, "%d.%d.%d", STRIPLINE_VERSION_MAJOR, STRIPLINE_VERSION_MINOR, STRIPLINE_VERSION_PATCH);
    const stripline_text found = stripline_version();
    CHECK(length > 0 && found.length >= (size_t)length && memcmp(found.data, numbers, (size_t)length) == 0);
    CHECK(found.length == (size_t)length || found.data[length] == '-');
}

static void words(void) {
    CHECK(text_is(stripline_status_word(STRIPLINE_TOO_LARGE), "too-large"));
    CHECK(text_is(stripline_status_word(STRIPLINE_PANICKED), "panicked"));
    CHECK(text_is(stripline_status_word(12345), "unknown"));
    CHECK(stripline_status_remedy(STRIPLINE_FULL).length > 0);
    CHECK(stripline_error_status(NULL) == STRIPLINE_OK && stripline_error_os_code(NULL) == 0);
    CHECK(stripline_error_connection(NULL)[0] == '\0' && stripline_error_remedy(NULL)[0] == '\0');
    stripline_error_free(NULL);
}

static void packets_and_metadata(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "iq", "cf32");
    stripline_stream_description tone = {sizeof tone, 0, "tone", 2e6, 433.92e6, 0, NULL, 0, 1, NULL, 0, 0};
    const stripline_axis seconds = {-1, 5e-7, "s"};
    tone.axes = &seconds;
    tone.set = STRIPLINE_STREAM_SET_SAMPLE_RATE | STRIPLINE_STREAM_SET_CENTER_FREQUENCY | STRIPLINE_STREAM_SET_CLOCK_ERROR;
    tone.clock_error_ns = 100;
    FAILS(STRIPLINE_INVALID_ARGUMENT, "without a clock", stripline_publisher_set_stream(publisher, &tone, &error));
    tone.clock_reference = 6;
    FAILS(STRIPLINE_INVALID_ARGUMENT, "clock_reference` is 6", stripline_publisher_set_stream(publisher, &tone, &error));
    tone.clock_reference = STRIPLINE_CLOCK_REFERENCE_GPS;
    IS(STRIPLINE_OK, stripline_publisher_set_stream(publisher, &tone, &error));
    stripline_subscriber *subscriber = subscriber_of(node, "iq", "cf32", NULL);
    wait_for_receiver(publisher);
    size_t count = 0;
    IS(STRIPLINE_OK, stripline_publisher_receivers(publisher, &count, &error));
    CHECK(count == 1);
    IS(STRIPLINE_OK, stripline_subscriber_senders(subscriber, &count, &error));
    CHECK(count == 1);
    IS(STRIPLINE_OK, stripline_publisher_samples_in_place(publisher, &count, &error));
    CHECK(count >= 4);
    size_t most = 0;
    IS(STRIPLINE_OK, stripline_publisher_samples_max(publisher, &most, &error));
    CHECK(most >= count);

    stripline_packet *packet = NULL;
    IS(STRIPLINE_EMPTY, stripline_subscriber_receive(subscriber, 0, &packet, &error));
    IS(STRIPLINE_EMPTY, stripline_subscriber_receive(subscriber, 1000, &packet, &error));

    /* A loan that is truncated, with a time of its own. */
    stripline_loan *loan = NULL;
    void *memory = NULL;
    IS(STRIPLINE_OK, stripline_publisher_loan(publisher, 4, &memory, &loan, &error));
    CHECK((uintptr_t)memory % alignof(float) == 0);
    for (int index = 0; index < 8; index++) {
        ((float *)memory)[index] = (float)index;
    }
    IS(STRIPLINE_OK, stripline_loan_truncate(loan, 3, &error));
    stripline_send_options options = {sizeof options, STRIPLINE_SEND_SET_TIME, 0, 1234567890, 0, 0, 0};
    IS(STRIPLINE_OK, stripline_loan_commit(loan, &options, &error));
    FAILS(STRIPLINE_PORT, "closed", stripline_loan_commit(loan, NULL, &error));

    /* A cancelled loan sends nothing. */
    IS(STRIPLINE_OK, stripline_publisher_try_loan(publisher, 4, &memory, &loan, &error));
    IS(STRIPLINE_OK, stripline_loan_cancel(loan, &error));
    uint64_t sequence = 0;
    IS(STRIPLINE_OK, stripline_publisher_sequence(publisher, &sequence, &error));
    CHECK(sequence == 1);
    float samples[4] = {10, 11, 12, 13};
    IS(STRIPLINE_OK, stripline_publisher_send(publisher, samples, 2, NULL, &error));
    IS(STRIPLINE_OK, stripline_publisher_try_send(publisher, samples, 1, NULL, &error));
    IS(STRIPLINE_OK, stripline_publisher_send(publisher, NULL, 0, NULL, &error));

    packet = receive(subscriber);
    CHECK(stripline_packet_length(packet) == 3);
    const float *received = stripline_packet_samples(packet);
    CHECK(received[0] == 0 && received[5] == 5);
    stripline_packet_info info = {.size = sizeof info};
    IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
    CHECK(info.sequence == 0 && info.sample_index == 0 && info.time_ns == 1234567890);
    CHECK(info.gap_reason == STRIPLINE_GAP_REASON_NONE && info.gap_packets == 0);
    stripline_stream_view stream = {.size = sizeof stream};
    IS(STRIPLINE_OK, stripline_packet_get_stream(packet, &stream, &error));
    CHECK(text_is(stream.id, "tone") && stream.set == tone.set);
    CHECK(stream.sample_rate_hz == 2e6 && stream.center_frequency_hz == 433.92e6 && stream.axis_count == 1);
    CHECK(stream.clock_reference == STRIPLINE_CLOCK_REFERENCE_GPS && stream.clock_error_ns == 100);
    stripline_axis_view axis = {.size = sizeof axis};
    IS(STRIPLINE_OK, stripline_packet_get_axis(packet, 0, &axis, &error));
    CHECK(axis.start == -1 && axis.step == 5e-7 && text_is(axis.unit, "s"));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "there is no axis 1", stripline_packet_get_axis(packet, 1, &axis, &error));
    size_t length = 0;
    FAILS(STRIPLINE_TOO_LARGE, "bytes with NUL", stripline_packet_get_stream_json(packet, NULL, 0, &length, &error));
    char *json = malloc(length + 1);
    IS(STRIPLINE_OK, stripline_packet_get_stream_json(packet, json, length + 1, &length, &error));
    CHECK(strlen(json) == length && strstr(json, "\"tone\"") != NULL);
    free(json);
    CHECK(stripline_packet_connection(packet).length > 0);
    stripline_packet *next = NULL;
    FAILS(STRIPLINE_TOO_MANY_HELD, "release it first", stripline_subscriber_receive(subscriber, 0, &next, &error));
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    FAILS(STRIPLINE_PORT, "released", stripline_packet_release(packet, &error));
    CHECK(stripline_packet_samples(packet) == NULL && stripline_packet_length(packet) == 0);

    for (uint64_t number = 1; number <= 3; number++) {
        static const uint64_t indexes[] = {0, 3, 5, 6};
        static const size_t lengths[] = {3, 2, 1, 0};
        packet = receive(subscriber);
        IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
        CHECK(info.sequence == number && info.sample_index == indexes[number]);
        CHECK(stripline_packet_length(packet) == lengths[number]);
        CHECK(stripline_packet_samples(packet) != NULL);
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    }

    IS(STRIPLINE_OK, stripline_publisher_finish(publisher, TIMEOUT_NS, &error));
    FAILS(STRIPLINE_PORT, "has ended", stripline_publisher_send(publisher, samples, 1, NULL, &error));
    FAILS(STRIPLINE_PORT, "has ended", stripline_publisher_finish(publisher, 0, &error));
    IS(STRIPLINE_ENDED, stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, &error));
    uint64_t packets = 1, lost = 1;
    IS(STRIPLINE_OK, stripline_subscriber_gap_at_end(subscriber, &packets, &lost, &error));
    CHECK(packets == 0 && lost == 0);

    stripline_report *report = NULL;
    IS(STRIPLINE_OK, stripline_node_report(node, &report, &error));
    CHECK(stripline_report_connections(report) == 1 && stripline_report_refused_connections(report) == 0);
    stripline_connection_report connection = {.size = sizeof connection};
    IS(STRIPLINE_OK, stripline_report_connection(report, 0, &connection, &error));
    CHECK(connection.packets == 4 && connection.lost == 0 && connection.connection.length > 0);
    CHECK(connection.age_samples == 1 && connection.age_last_ns > INT64_C(1000000000000000000));
    CHECK(connection.age_max_ns == connection.age_last_ns && connection.age_error_ns == 100);
    CHECK(connection.age_clock == STRIPLINE_CLOCK_REFERENCE_GPS);
    FAILS(STRIPLINE_INVALID_ARGUMENT, "index", stripline_report_connection(report, 1, &connection, &error));
    stripline_report_free(report);
    stripline_publisher_free(publisher);
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
}

/* A structure of the program, and a packet that is forwarded with the place in the stream. */
static void structures_and_forwarding(void) {
    stripline_node *node = isolated_node();
    stripline_sample_type type = {sizeof type, DETECTION, sizeof(struct detection), alignof(struct detection)};
    stripline_publisher *first = NULL, *second = NULL;
    IS(STRIPLINE_OK, stripline_publisher_new(node, "one", &type, &first, &error));
    IS(STRIPLINE_OK, stripline_publisher_new(node, "two", &type, &second, &error));
    stripline_subscriber *middle = subscriber_of(node, "one", DETECTION, NULL);
    stripline_subscriber *last = subscriber_of(node, "two", DETECTION, NULL);
    wait_for_receiver(first);
    wait_for_receiver(second);
    struct detection found[2] = {{7, -3.5f}, {8, -4.5f}};
    stripline_send_options options = {sizeof options, STRIPLINE_SEND_SET_SAMPLE_INDEX, 1000, 0, 0, 0, 0};
    IS(STRIPLINE_OK, stripline_publisher_send(first, found, 2, &options, &error));
    stripline_packet *packet = receive(middle);
    stripline_loan *loan = NULL;
    void *memory = NULL;
    size_t length = stripline_packet_length(packet);
    CHECK(length == 2);
    IS(STRIPLINE_OK, stripline_publisher_loan(second, length, &memory, &loan, &error));
    memcpy(memory, stripline_packet_samples(packet), length * sizeof(struct detection));
    IS(STRIPLINE_OK, stripline_loan_commit_like(loan, packet, &error));
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    packet = receive(last);
    stripline_packet_info info = {.size = sizeof info};
    IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
    CHECK(info.sample_index == 1000);
    const struct detection *received = stripline_packet_samples(packet);
    CHECK(received[1].range_bin == 8 && received[1].level_db == -4.5f);
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    stripline_publisher_free(first);
    stripline_publisher_free(second);
    stripline_subscriber_free(middle);
    stripline_subscriber_free(last);
    stripline_node_free(node);
}

static void losses_are_counted(const char *domain) {
    // Neither the ring nor the queue can hold all packets, however early the queue is filled from
    // the ring.
    static const char topics[] = "[topic.fast]\noverflow = 'drop-oldest'\ndepth = 4\nbuffer = 4096";
    stripline_node_options options = {sizeof options, domain, topics, 0};
    stripline_node *node = NULL;
    IS(STRIPLINE_OK, stripline_node_new(&options, &node, &error));
    stripline_publisher *publisher = publisher_of(node, "fast", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "fast", "u32", NULL);
    wait_for_receiver(publisher);
    for (uint32_t number = 0; number < 500; number++) {
        send_u32(publisher, number * 8, 8);
    }
    IS(STRIPLINE_OK, stripline_publisher_finish(publisher, TIMEOUT_NS, &error));
    uint64_t received = 0, lost = 0, lost_samples = 0;
    for (;;) {
        stripline_packet *packet = NULL;
        stripline_status status = stripline_subscriber_receive(subscriber, TIMEOUT_NS, &packet, NULL);
        if (status == STRIPLINE_ENDED) {
            break;
        }
        CHECK(status == STRIPLINE_OK);
        stripline_packet_info info = {.size = sizeof info};
        IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
        CHECK(first_u32(packet) == info.sample_index);
        if (info.gap_reason != STRIPLINE_GAP_REASON_NONE) {
            CHECK(info.gap_reason == STRIPLINE_GAP_REASON_OVERFLOW);
            CHECK(info.gap_first + info.gap_packets == info.sequence);
            lost += info.gap_packets;
            lost_samples += info.gap_samples;
        }
        received += 1;
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    }
    uint64_t packets = 0, samples = 0;
    IS(STRIPLINE_OK, stripline_subscriber_gap_at_end(subscriber, &packets, &samples, &error));
    CHECK(received + lost + packets == 500 && lost + packets > 0);
    CHECK(lost_samples + samples == (lost + packets) * 8);
    stripline_publisher_free(publisher);
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
}

static void windows(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "w", "u32");
    stripline_subscriber_options options = {sizeof options, 0, 1, 0, 0};
    stripline_subscriber *subscriber = subscriber_of(node, "w", "u32", &options);
    wait_for_receiver(publisher);
    stripline_packet *window = NULL;
    IS(STRIPLINE_EMPTY, stripline_subscriber_window(subscriber, 4, 0, &window, &error));
    FAILS(STRIPLINE_PORT, "windowed", stripline_subscriber_receive(subscriber, 0, &window, &error));
    for (uint32_t first = 0; first < 12; first += 3) {
        send_u32(publisher, first, 3);
    }
    /* Windows of 4 samples. Each begins 2 samples after the one before. */
    for (uint32_t first = 0; first <= 8; first += 2) {
        IS(STRIPLINE_OK, stripline_subscriber_window(subscriber, 4, TIMEOUT_NS, &window, &error));
        CHECK(stripline_packet_length(window) == 4 && first_u32(window) == first);
        IS(STRIPLINE_OK, stripline_packet_consume(window, 2, &error));
    }
    IS(STRIPLINE_OK, stripline_publisher_finish(publisher, TIMEOUT_NS, &error));
    IS(STRIPLINE_OK, stripline_subscriber_window(subscriber, 4, TIMEOUT_NS, &window, &error));
    CHECK(stripline_packet_length(window) == 2 && first_u32(window) == 10);
    IS(STRIPLINE_OK, stripline_packet_release(window, &error));
    IS(STRIPLINE_ENDED, stripline_subscriber_window(subscriber, 4, TIMEOUT_NS, &window, &error));
    stripline_publisher_free(publisher);
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
}

static int32_t sum(void *context, stripline_packet *packet) {
    /* The packet ends when the handler returns, and cannot be released. */
    CHECK(stripline_packet_release(packet, NULL) == STRIPLINE_PORT);
    *(uint64_t *)context += first_u32(packet);
    return STRIPLINE_OK;
}

static int32_t fail(void *context, stripline_packet *packet) {
    (void)context;
    (void)packet;
    return 42;
}

static int32_t free_own(void *context, stripline_packet *packet) {
    (void)packet;
    stripline_subscriber_free(context);
    return STRIPLINE_STOPPED;
}

static void handlers(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publishers[2] = {publisher_of(node, "a", "u32"), publisher_of(node, "b", "u32")};
    stripline_subscriber *subscribers[2] = {
        subscriber_of(node, "a", "u32", NULL), subscriber_of(node, "b", "u32", NULL)};
    uint64_t sums[2] = {0, 0};
    stripline_served ports[2] = {{subscribers[0], sum, &sums[0]}, {subscribers[1], sum, &sums[1]}};
    uint8_t ready[2] = {9, 9};
    IS(STRIPLINE_EMPTY, stripline_wait_any(subscribers, 2, 0, ready, &error));
    CHECK(ready[0] == 0 && ready[1] == 0);
    for (int port = 0; port < 2; port++) {
        wait_for_receiver(publishers[port]);
    }
    send_u32(publishers[1], 100, 1);
    IS(STRIPLINE_OK, stripline_wait_any(subscribers, 2, TIMEOUT_NS, ready, &error));
    CHECK(ready[0] == 0 && ready[1] == 1);
    for (uint32_t number = 1; number <= 4; number++) {
        send_u32(publishers[0], number, 1);
    }
    for (int port = 0; port < 2; port++) {
        IS(STRIPLINE_OK, stripline_publisher_finish(publishers[port], TIMEOUT_NS, &error));
        stripline_publisher_free(publishers[port]);
    }
    IS(STRIPLINE_ENDED, stripline_serve(ports, 2, &error));
    CHECK(sums[0] == 10 && sums[1] == 100);
    FAILS(STRIPLINE_IN_USE, "in use", stripline_wait_any((stripline_subscriber *[]){subscribers[0], subscribers[0]}, 2, 0, ready, &error));
    stripline_subscriber_free(subscribers[0]);
    stripline_subscriber_free(subscribers[1]);

    /* A handler that fails ends the call, and a handler that frees its own subscriber is
     * harmless. */
    stripline_publisher *publisher = publisher_of(node, "c", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "c", "u32", NULL);
    wait_for_receiver(publisher);
    send_u32(publisher, 1, 1);
    send_u32(publisher, 2, 1);
    stripline_served port = {subscriber, fail, NULL};
    FAILS(STRIPLINE_HANDLER, "42", stripline_serve(&port, 1, &error));
    port.handler = NULL;
    FAILS(STRIPLINE_INVALID_ARGUMENT, "handler", stripline_serve(&port, 1, &error));
    port.handler = free_own;
    port.context = subscriber;
    IS(STRIPLINE_STOPPED, stripline_serve(&port, 1, &error));
    stripline_publisher_free(publisher);
    stripline_node_free(node);
}

static int wait_for_stop(void *subscriber) {
    stripline_packet *packet = NULL;
    return stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, NULL);
}

static void a_stop_ends_a_wait_of_another_thread(void) {
    stripline_node *node = isolated_node();
    stripline_subscriber *subscriber = subscriber_of(node, "x", "u32", NULL);
    thrd_t thread;
    CHECK(thrd_create(&thread, wait_for_stop, subscriber) == thrd_success);
    IS(STRIPLINE_OK, stripline_node_stop(node, &error));
    int status = 0;
    thrd_join(thread, &status);
    CHECK(status == STRIPLINE_STOPPED);
    stripline_packet *packet = NULL;
    IS(STRIPLINE_STOPPED, stripline_subscriber_receive(subscriber, 0, &packet, &error));
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
}

static void a_child_of_a_fork_is_refused(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "f", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "f", "u32", NULL);
    wait_for_receiver(publisher);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        stripline_packet *packet = NULL;
        uint32_t sample = 5;
        int is_refused = stripline_publisher_send(publisher, &sample, 1, NULL, NULL) == STRIPLINE_FORKED
            && stripline_subscriber_receive(subscriber, 0, &packet, NULL) == STRIPLINE_FORKED;
        stripline_publisher_free(publisher);
        stripline_subscriber_free(subscriber);
        _exit(is_refused ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    /* The parent's stream continues. */
    send_u32(publisher, 6, 1);
    stripline_packet *packet = receive(subscriber);
    CHECK(first_u32(packet) == 6);
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    stripline_subscriber_free(subscriber);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
}

static void abandoned_streams_go_on(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "r", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "r", "u32", NULL);
    wait_for_receiver(publisher);
    send_u32(publisher, 1, 1);
    IS(STRIPLINE_OK, stripline_publisher_abandon(publisher, &error));
    stripline_publisher_free(publisher);
    publisher = publisher_of(node, "r", "u32");
    wait_for_receiver(publisher);
    send_u32(publisher, 2, 1);
    stripline_packet *packet = receive(subscriber);
    CHECK(first_u32(packet) == 1);
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    packet = receive(subscriber);
    stripline_packet_info info = {.size = sizeof info};
    IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
    CHECK(first_u32(packet) == 2 && info.gap_reason == STRIPLINE_GAP_REASON_PEER_RESTART);
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    stripline_publisher_free(publisher);
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
}

/* The context of the batch functions, and the condition under which they end the batch. */
struct batch {
    uint32_t written, found, sum, ends_at;
    int32_t outcome;
    stripline_subscriber *frees;
};

static int32_t write_number(void *context, size_t index, void *samples) {
    struct batch *batch = context;
    CHECK(index == batch->written);
    if (index == batch->ends_at) {
        return batch->outcome;
    }
    ((uint32_t *)samples)[0] = ((uint32_t *)samples)[1] = batch->written++;
    return 0;
}

static int32_t add_number(void *context, stripline_packet *packet) {
    struct batch *batch = context;
    CHECK(stripline_packet_length(packet) == 2 && stripline_packet_release(packet, NULL) == STRIPLINE_PORT);
    batch->sum += first_u32(packet);
    if (batch->found++ == batch->ends_at) {
        stripline_subscriber_free(batch->frees);
        return batch->outcome;
    }
    return 0;
}

static void batches(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "batches", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "batches", "u32", NULL);
    wait_for_receiver(publisher);
    struct batch out = {.ends_at = 10, .outcome = 42};
    uint64_t sequence = 0;
    size_t packets = 99;
    /* The packet that is not written is not sent; the packets before it are sent. */
    FAILS(STRIPLINE_HANDLER, "42", stripline_publisher_send_many(publisher, 20, 2, write_number, &out, &error));
    IS(STRIPLINE_OK, stripline_publisher_sequence(publisher, &sequence, &error));
    CHECK(sequence == 10);
    out = (struct batch){.ends_at = UINT32_MAX};
    IS(STRIPLINE_OK, stripline_publisher_send_many(publisher, 0, 2, write_number, &out, &error));
    IS(STRIPLINE_OK, stripline_publisher_send_many(publisher, 5, 2, write_number, &out, &error));
    IS(STRIPLINE_OK, stripline_publisher_finish(publisher, TIMEOUT_NS, &error));
    FAILS(STRIPLINE_PORT, "ended", stripline_publisher_send_many(publisher, 1, 2, write_number, &out, &error));

    struct batch in = {.ends_at = UINT32_MAX};
    IS(STRIPLINE_OK, stripline_subscriber_drain(subscriber, 4, add_number, &in, &packets, &error));
    CHECK(packets == 4 && in.found == 4 && in.sum == 6);
    /* A stop leaves the later packets, and so does a failure. */
    in = (struct batch){.ends_at = 1, .outcome = STRIPLINE_STOPPED};
    IS(STRIPLINE_OK, stripline_subscriber_drain(subscriber, 100, add_number, &in, NULL, &error));
    CHECK(in.found == 2 && in.sum == 9);
    in = (struct batch){.ends_at = 0, .outcome = 42};
    FAILS(STRIPLINE_HANDLER, "42", stripline_subscriber_drain(subscriber, 100, add_number, &in, &packets, &error));
    CHECK(packets == 1 && in.sum == 6);
    FAILS(STRIPLINE_PORT, "limit", stripline_subscriber_drain(subscriber, 0, add_number, &in, &packets, &error));
    CHECK(packets == 0);
    uint32_t sum_left = 0;
    for (size_t left = 8; left > 0; left -= packets) {
        in = (struct batch){.ends_at = UINT32_MAX};
        IS(STRIPLINE_OK, stripline_subscriber_drain(subscriber, 100, add_number, &in, &packets, &error));
        CHECK(packets == in.found && packets >= 1 && packets <= left);
        sum_left += in.sum;
    }
    CHECK(sum_left == 7 + 8 + 9 + 10);
    IS(STRIPLINE_ENDED, stripline_subscriber_drain(subscriber, 100, add_number, &in, &packets, &error));
    CHECK(packets == 0);
    stripline_subscriber_free(subscriber);
    stripline_publisher_free(publisher);

    /* The handler may free its own subscriber. A subscriber with `hold` takes no handler. */
    publisher = publisher_of(node, "freed", "u32");
    subscriber = subscriber_of(node, "freed", "u32", NULL);
    stripline_subscriber_options options = {sizeof options, 2, 0, 0, 0};
    stripline_subscriber *holding = subscriber_of(node, "freed", "u32", &options);
    IS(STRIPLINE_OK, stripline_publisher_wait_for_receivers(publisher, 2, TIMEOUT_NS, &error));
    out = (struct batch){.ends_at = UINT32_MAX};
    IS(STRIPLINE_OK, stripline_publisher_send_many(publisher, 2, 2, write_number, &out, &error));
    in = (struct batch){.ends_at = 0, .outcome = STRIPLINE_STOPPED, .frees = subscriber};
    IS(STRIPLINE_OK, stripline_subscriber_drain(subscriber, 100, add_number, &in, &packets, &error));
    CHECK(packets == 1);
    FAILS(STRIPLINE_PORT, "hold", stripline_subscriber_drain(holding, 1, add_number, &in, &packets, &error));
    stripline_subscriber_free(holding);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
}

static void count_records(void *context, int32_t level, stripline_text target, stripline_text text) {
    CHECK(level >= 1 && level <= 5 && target.length > 0 && text.length > 0);
    /* The function of the log may not replace itself. */
    CHECK(stripline_log_set(NULL, NULL, 0, NULL) == STRIPLINE_IN_USE);
    atomic_int *records = context;
    *records += 1;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    static atomic_int records;
    FAILS(STRIPLINE_INVALID_ARGUMENT, "from 1 to 5", stripline_log_set(count_records, &records, 6, &error));
    IS(STRIPLINE_OK, stripline_log_set(count_records, &records, 5, &error));
    version();
    words();
    packets_and_metadata();
    structures_and_forwarding();
    losses_are_counted(arguments[1]);
    windows();
    handlers();
    batches();
    a_stop_ends_a_wait_of_another_thread();
    abandoned_streams_go_on();
    a_child_of_a_fork_is_refused();
    IS(STRIPLINE_OK, stripline_log_set(NULL, NULL, 0, &error));
    printf("api: done\n");
    return 0;
}
