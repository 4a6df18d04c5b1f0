/* Mistakes of a caller: each gives a status with a message, and no crash. */
#include "check.h"

#include <math.h>

#define NULL_ARGUMENT(call) FAILS(STRIPLINE_INVALID_ARGUMENT, "NULL", call)
#define BAD(words, call) FAILS(STRIPLINE_INVALID_ARGUMENT, words, call)

/* Bytes that do not begin a UTF-8 character. */
static const char *const NO_UTF8 = "ab\xff";

static void null_everywhere(stripline_node *node, stripline_publisher *publisher, stripline_subscriber *subscriber) {
    stripline_sample_type type = {sizeof type, "u32", 0, 0};
    stripline_publisher *made_publisher = NULL;
    stripline_subscriber *made_subscriber = NULL;
    stripline_report *report = NULL;
    stripline_packet *packet = NULL;
    stripline_loan *loan = NULL;
    void *memory = NULL;
    size_t count = 0;
    uint64_t number = 0;
    uint8_t ready = 0;
    stripline_text text = {NULL, 0};
    stripline_connection_report connection = {.size = sizeof connection};
    stripline_packet_info info = {.size = sizeof info};
    stripline_stream_view stream = {.size = sizeof stream};

    NULL_ARGUMENT(stripline_node_new(NULL, NULL, &error));
    NULL_ARGUMENT(stripline_node_stop(NULL, &error));
    NULL_ARGUMENT(stripline_node_report(NULL, &report, &error));
    NULL_ARGUMENT(stripline_node_report(node, NULL, &error));
    NULL_ARGUMENT(stripline_report_connection(NULL, 0, &connection, &error));
    NULL_ARGUMENT(stripline_report_refused_connection(NULL, 0, &text, &text, &error));
    CHECK(stripline_report_connections(NULL) == 0 && stripline_report_refused_connections(NULL) == 0);

    NULL_ARGUMENT(stripline_publisher_new(NULL, "t", &type, &made_publisher, &error));
    NULL_ARGUMENT(stripline_publisher_new(node, NULL, &type, &made_publisher, &error));
    NULL_ARGUMENT(stripline_publisher_new(node, "t", NULL, &made_publisher, &error));
    NULL_ARGUMENT(stripline_publisher_new(node, "t", &type, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_loan(NULL, 1, &memory, &loan, &error));
    NULL_ARGUMENT(stripline_publisher_loan(publisher, 1, NULL, &loan, &error));
    NULL_ARGUMENT(stripline_publisher_loan(publisher, 1, &memory, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_try_loan(NULL, 1, &memory, &loan, &error));
    NULL_ARGUMENT(stripline_publisher_try_loan(publisher, 1, NULL, &loan, &error));
    NULL_ARGUMENT(stripline_publisher_try_loan(publisher, 1, &memory, NULL, &error));
    NULL_ARGUMENT(stripline_loan_commit(NULL, NULL, &error));
    NULL_ARGUMENT(stripline_loan_commit_like(NULL, NULL, &error));
    NULL_ARGUMENT(stripline_loan_truncate(NULL, 1, &error));
    NULL_ARGUMENT(stripline_publisher_send(NULL, &count, 1, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_send(publisher, NULL, 1, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_try_send(NULL, &count, 1, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_try_send(publisher, NULL, 1, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_set_stream(NULL, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_set_stream(publisher, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_receivers(NULL, &count, &error));
    NULL_ARGUMENT(stripline_publisher_receivers(publisher, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_wait_for_receivers(NULL, 1, 0, &error));
    NULL_ARGUMENT(stripline_publisher_sequence(NULL, &number, &error));
    NULL_ARGUMENT(stripline_publisher_sequence(publisher, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_samples_max(NULL, &count, &error));
    NULL_ARGUMENT(stripline_publisher_samples_max(publisher, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_samples_in_place(NULL, &count, &error));
    NULL_ARGUMENT(stripline_publisher_samples_in_place(publisher, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_send_many(NULL, 1, 1, NULL, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_send_many(publisher, 1, 1, NULL, NULL, &error));
    NULL_ARGUMENT(stripline_publisher_finish(NULL, 0, &error));
    NULL_ARGUMENT(stripline_publisher_abandon(NULL, &error));

    NULL_ARGUMENT(stripline_subscriber_new(NULL, "t", &type, NULL, &made_subscriber, &error));
    NULL_ARGUMENT(stripline_subscriber_new(node, NULL, &type, NULL, &made_subscriber, &error));
    NULL_ARGUMENT(stripline_subscriber_new(node, "t", NULL, NULL, &made_subscriber, &error));
    NULL_ARGUMENT(stripline_subscriber_new(node, "t", &type, NULL, NULL, &error));
    NULL_ARGUMENT(stripline_subscriber_receive(NULL, 0, &packet, &error));
    NULL_ARGUMENT(stripline_subscriber_receive(subscriber, 0, NULL, &error));
    NULL_ARGUMENT(stripline_subscriber_window(NULL, 1, 0, &packet, &error));
    NULL_ARGUMENT(stripline_subscriber_window(subscriber, 1, 0, NULL, &error));
    NULL_ARGUMENT(stripline_subscriber_senders(NULL, &count, &error));
    NULL_ARGUMENT(stripline_subscriber_senders(subscriber, NULL, &error));
    NULL_ARGUMENT(stripline_subscriber_gap_at_end(NULL, &number, &number, &error));
    NULL_ARGUMENT(stripline_subscriber_gap_at_end(subscriber, NULL, &number, &error));
    NULL_ARGUMENT(stripline_subscriber_gap_at_end(subscriber, &number, NULL, &error));
    NULL_ARGUMENT(stripline_subscriber_drain(NULL, 1, NULL, NULL, NULL, &error));
    NULL_ARGUMENT(stripline_subscriber_drain(subscriber, 1, NULL, NULL, &count, &error));
    NULL_ARGUMENT(stripline_serve(NULL, 1, &error));
    stripline_served port = {NULL, NULL, NULL};
    NULL_ARGUMENT(stripline_serve(&port, 1, &error));
    port.subscriber = subscriber;
    NULL_ARGUMENT(stripline_serve(&port, 1, &error));
    BAD("from 1 to", stripline_serve(&port, 0, &error));
    BAD("from 1 to", stripline_serve(&port, SIZE_MAX, &error));
    NULL_ARGUMENT(stripline_wait_any(NULL, 1, 0, &ready, &error));
    NULL_ARGUMENT(stripline_wait_any(&made_subscriber, 1, 0, &ready, &error));
    NULL_ARGUMENT(stripline_wait_any(&subscriber, 1, 0, NULL, &error));
    BAD("from 1 to", stripline_wait_any(&subscriber, 0, 0, &ready, &error));

    NULL_ARGUMENT(stripline_packet_get_info(NULL, &info, &error));
    NULL_ARGUMENT(stripline_packet_get_stream(NULL, &stream, &error));
    NULL_ARGUMENT(stripline_packet_get_stream_json(NULL, NULL, 0, &count, &error));
    NULL_ARGUMENT(stripline_packet_get_axis(NULL, 0, &(stripline_axis_view){.size = sizeof(stripline_axis_view)}, &error));
    NULL_ARGUMENT(stripline_packet_refuse(NULL, "why", &error));
    NULL_ARGUMENT(stripline_packet_consume(NULL, 1, &error));
    CHECK(stripline_packet_samples(NULL) == NULL && stripline_packet_length(NULL) == 0);
    CHECK(stripline_packet_connection(NULL).length == 0);

    /* To free NULL does nothing. */
    IS(STRIPLINE_OK, stripline_packet_release(NULL, &error));
    IS(STRIPLINE_OK, stripline_loan_cancel(NULL, &error));
    stripline_node_free(NULL);
    stripline_publisher_free(NULL);
    stripline_subscriber_free(NULL);
    stripline_report_free(NULL);
    stripline_error_free(NULL);

    /* Without an error object, the status is enough. */
    CHECK(stripline_publisher_send(NULL, NULL, 0, NULL, NULL) == STRIPLINE_INVALID_ARGUMENT);
    CHECK(made_publisher == NULL && made_subscriber == NULL && packet == NULL);
}

static void texts_and_types(stripline_node *node) {
    stripline_publisher *publisher = NULL;
    stripline_subscriber *subscriber = NULL;
    stripline_node *other = NULL;
    stripline_sample_type type = {sizeof type, "u32", 0, 0};
    BAD("UTF-8", stripline_publisher_new(node, NO_UTF8, &type, &publisher, &error));
    BAD("UTF-8", stripline_subscriber_new(node, NO_UTF8, &type, NULL, &subscriber, &error));
    stripline_node_options options = {sizeof options, NO_UTF8, NULL, 0};
    BAD("UTF-8", stripline_node_new(&options, &other, &error));
    options.domain = "no domain!";
    FAILS(STRIPLINE_INVALID_ARGUMENT, "no domain!", stripline_node_new(&options, &other, &error));
    options.domain = "d";
    options.topics = "[topic.x]\noverflo = 'drop-oldest'";
    FAILS(STRIPLINE_CONFIGURATION, "overflo", stripline_node_new(&options, &other, &error));
    options.topics = NO_UTF8;
    BAD("UTF-8", stripline_node_new(&options, &other, &error));
    stripline_node_options both = {sizeof both, "d", NULL, 1};
    BAD("isolated", stripline_node_new(&both, &other, &error));
    CHECK(other == NULL);

    static const struct {
        const char *name;
        size_t size, align;
    } mistakes[] = {
        {NULL, 0, 0}, {"", 0, 0}, {NO_UTF8, 0, 0}, {"no-such-type", 0, 0}, {"u32", 8, 4}, {"u32", 4, 3},
        {"u32", 4, 0}, {"mine", 12, 32}, {"mine", SIZE_MAX, 4}, {"d{a:u32,", 0, 0},
        {"det{range_bin:u32,level_db:f32}", 12, 4},
    };
    for (size_t index = 0; index < sizeof mistakes / sizeof mistakes[0]; index++) {
        stripline_sample_type wrong = {sizeof wrong, mistakes[index].name, mistakes[index].size, mistakes[index].align};
        BAD("", stripline_publisher_new(node, "t", &wrong, &publisher, &error));
        BAD("", stripline_subscriber_new(node, "t", &wrong, NULL, &subscriber, &error));
    }
    CHECK(publisher == NULL && subscriber == NULL);
}

/* The options of a later header, with a member that this library does not have. */
struct newer_options {
    stripline_node_options now;
    uint64_t later;
};

static void sizes(stripline_node *node, stripline_publisher *publisher) {
    stripline_node *other = NULL;
    struct newer_options newer = {{sizeof newer, NULL, NULL, 1}, 0};
    IS(STRIPLINE_OK, stripline_node_new(&newer.now, &other, &error));
    stripline_node_free(other);
    newer.later = 1;
    BAD("does not have", stripline_node_new(&newer.now, &other, &error));
    /* The options of an older header, which ends before `isolated`. */
    stripline_node_options options = {offsetof(stripline_node_options, isolated), "older", "", 77};
    IS(STRIPLINE_OK, stripline_node_new(&options, &other, &error));
    stripline_node_free(other);
    static const size_t wrong[] = {0, 1, 7, 9, 4097, SIZE_MAX};
    for (size_t index = 0; index < sizeof wrong / sizeof wrong[0]; index++) {
        stripline_node_options bad = {wrong[index], NULL, NULL, 1};
        BAD("sizeof", stripline_node_new(&bad, &other, &error));
        stripline_subscriber_options subscription = {wrong[index], 0, 0, 0, 0};
        stripline_sample_type type = {sizeof type, "u32", 0, 0};
        stripline_subscriber *subscriber = NULL;
        BAD("sizeof", stripline_subscriber_new(node, "t", &type, &subscription, &subscriber, &error));
        type.size = wrong[index];
        BAD("sizeof", stripline_subscriber_new(node, "t", &type, NULL, &subscriber, &error));
        stripline_send_options send = {wrong[index], 0, 0, 0, 0, 0, 0};
        uint32_t sample = 0;
        BAD("sizeof", stripline_publisher_send(publisher, &sample, 1, &send, &error));
        stripline_stream_description stream = {wrong[index], 0, NULL, 0, 0, 0, NULL, 0, 0, NULL, 0, 0};
        BAD("sizeof", stripline_publisher_set_stream(publisher, &stream, &error));
    }
}

static void options_out_of_range(stripline_node *node, stripline_publisher *publisher) {
    stripline_sample_type type = {sizeof type, "u32", 0, 0};
    stripline_subscriber *subscriber = NULL;
    static const stripline_subscriber_options mistakes[] = {
        {sizeof(stripline_subscriber_options), 4097, 0, 0, 0},
        {sizeof(stripline_subscriber_options), UINT32_MAX, 0, 0, 0},
        {sizeof(stripline_subscriber_options), 1, 1, 0, 0},
        {sizeof(stripline_subscriber_options), 0, 0, 65537, 1},
    };
    for (size_t index = 0; index < sizeof mistakes / sizeof mistakes[0]; index++) {
        CHECK(stripline_subscriber_new(node, "o", &type, &mistakes[index], &subscriber, NULL) > 0);
    }
    CHECK(subscriber == NULL);
    uint32_t sample = 0;
    stripline_send_options send = {sizeof send, STRIPLINE_SEND_SET_SCOPE, 0, 0, 0, 4, 0};
    BAD("scope", stripline_publisher_send(publisher, &sample, 1, &send, &error));
    send.set = 32;
    BAD("bits", stripline_publisher_send(publisher, &sample, 1, &send, &error));
    stripline_stream_description stream = {sizeof stream, 32, NULL, 0, 0, 0, NULL, 0, 0, NULL, 0, 0};
    BAD("", stripline_publisher_set_stream(publisher, &stream, &error));
    stream.set = STRIPLINE_STREAM_SET_CLOCK_ERROR;
    BAD("clock", stripline_publisher_set_stream(publisher, &stream, &error));
    stream.set = 0;
    stream.more = "{\"axes\": 5";
    BAD("", stripline_publisher_set_stream(publisher, &stream, &error));
    stream.more = NO_UTF8;
    BAD("UTF-8", stripline_publisher_set_stream(publisher, &stream, &error));
    stripline_axis axes[] = {{0, 1, "m"}, {0, 1, NULL}, {0, 1, NULL}, {0, 1, NULL}};
    stream.more = NULL;
    stream.axis_count = 1;
    BAD("`stream->axes` is NULL", stripline_publisher_set_stream(publisher, &stream, &error));
    stream.axes = axes;
    stream.axis_count = 4;
    BAD("`stream->axis_count` is 4; at most 3", stripline_publisher_set_stream(publisher, &stream, &error));
    stream.axis_count = 3;
    BAD("it has 3 axes", stripline_publisher_set_stream(publisher, &stream, &error));
    stream.axis_count = 1;
    stream.more = "{\"axes\": [{\"start\": 0.0, \"step\": 1.0}]}";
    BAD("leave one out", stripline_publisher_set_stream(publisher, &stream, &error));
    stream.more = NULL;
    axes[0].unit = NO_UTF8;
    BAD("UTF-8", stripline_publisher_set_stream(publisher, &stream, &error));
    axes[0].unit = NULL;
    axes[0].step = 0;
    BAD("has the step 0", stripline_publisher_set_stream(publisher, &stream, &error));
    stream.axis_count = 0;
    stream.more = NULL;
    for (int index = 0; index < 4; index++) {
        const double wrong[] = {0, -1, NAN, INFINITY};
        stream.set = STRIPLINE_STREAM_SET_SAMPLE_RATE;
        stream.sample_rate_hz = wrong[index];
        BAD("finite and above 0", stripline_publisher_set_stream(publisher, &stream, &error));
        stream.set = STRIPLINE_STREAM_SET_CENTER_FREQUENCY;
        stream.center_frequency_hz = wrong[2 + index % 2];
        BAD("finite", stripline_publisher_set_stream(publisher, &stream, &error));
    }

    /* More samples than any packet can have, also a number that overflows in bytes. */
    stripline_loan *loan = NULL;
    void *memory = NULL;
    FAILS(STRIPLINE_TOO_LARGE, "", stripline_publisher_loan(publisher, SIZE_MAX, &memory, &loan, &error));
    FAILS(STRIPLINE_TOO_LARGE, "", stripline_publisher_loan(publisher, SIZE_MAX / 4 + 2, &memory, &loan, &error));
    FAILS(STRIPLINE_TOO_LARGE, "", stripline_publisher_try_loan(publisher, SIZE_MAX / 8, &memory, &loan, &error));
    CHECK(loan == NULL);
}

static void wrong_order(stripline_publisher *publisher) {
    stripline_loan *loan = NULL, *second = NULL;
    void *memory = NULL;
    uint32_t sample = 1;
    IS(STRIPLINE_OK, stripline_publisher_loan(publisher, 2, &memory, &loan, &error));
    FAILS(STRIPLINE_PORT, "loan open", stripline_publisher_loan(publisher, 2, &memory, &second, &error));
    FAILS(STRIPLINE_PORT, "loan open", stripline_publisher_send(publisher, &sample, 1, NULL, &error));
    FAILS(STRIPLINE_PORT, "loan open", stripline_publisher_finish(publisher, 0, &error));
    FAILS(STRIPLINE_PORT, "loan open", stripline_publisher_abandon(publisher, &error));
    IS(STRIPLINE_OK, stripline_loan_truncate(loan, 100, &error));
    /* A commit that fails closes the loan: nothing was sent. */
    FAILS(STRIPLINE_INVALID_ARGUMENT, "NULL", stripline_loan_commit_like(loan, NULL, &error));
    FAILS(STRIPLINE_PORT, "closed", stripline_loan_commit(loan, NULL, &error));
    FAILS(STRIPLINE_PORT, "closed", stripline_loan_cancel(loan, &error));
    FAILS(STRIPLINE_PORT, "closed", stripline_loan_truncate(loan, 1, &error));
    uint64_t sequence = 9;
    IS(STRIPLINE_OK, stripline_publisher_sequence(publisher, &sequence, &error));
    CHECK(sequence == 0);
}

/* A different type at one end of a topic is refused, and listed. */
static void another_type(stripline_node *node) {
    stripline_publisher *publisher = publisher_of(node, "typed", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "typed", "cf32", NULL);
    stripline_report *report = NULL;
    /* Another thread connects the ends. */
    do {
        stripline_report_free(report);
        report = NULL;
        IS(STRIPLINE_OK, stripline_node_report(node, &report, &error));
    } while (stripline_report_refused_connections(report) == 0);
    CHECK(stripline_report_refused_connections(report) == 1);
    stripline_text connection, reason;
    IS(STRIPLINE_OK, stripline_report_refused_connection(report, 0, &connection, &reason, &error));
    CHECK(connection.length > 0 && reason.length > 0);
    BAD("index", stripline_report_refused_connection(report, 1, &connection, &reason, &error));
    NULL_ARGUMENT(stripline_report_refused_connection(report, 0, NULL, &reason, &error));
    NULL_ARGUMENT(stripline_report_refused_connection(report, 0, &connection, NULL, &error));
    NULL_ARGUMENT(stripline_report_connection(report, 0, NULL, &error));
    stripline_report_free(report);
    stripline_publisher_free(publisher);
    stripline_subscriber_free(subscriber);
}

int main(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "t", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "t", "u32", NULL);
    wait_for_receiver(publisher);
    null_everywhere(node, publisher, subscriber);
    texts_and_types(node);
    sizes(node, publisher);
    options_out_of_range(node, publisher);
    wrong_order(publisher);
    another_type(node);
    /* After all these mistakes, the link works. */
    send_u32(publisher, 77, 2);
    stripline_packet *packet = receive(subscriber);
    CHECK(first_u32(packet) == 77);
    NULL_ARGUMENT(stripline_packet_get_info(packet, NULL, &error));
    NULL_ARGUMENT(stripline_packet_get_stream(packet, NULL, &error));
    NULL_ARGUMENT(stripline_packet_get_stream_json(packet, NULL, 0, NULL, &error));
    NULL_ARGUMENT(stripline_packet_get_stream_json(packet, NULL, 4096, &(size_t){0}, &error));
    NULL_ARGUMENT(stripline_packet_refuse(packet, NULL, &error));
    BAD("UTF-8", stripline_packet_refuse(packet, NO_UTF8, &error));
    FAILS(STRIPLINE_PORT, "not a window", stripline_packet_consume(packet, 1, &error));
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    stripline_subscriber_free(subscriber);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    printf("bad_input: done\n");
    return 0;
}
