/* Messages in CBOR. `messages DOMAIN` runs checks of its own; `messages DOMAIN TOPICS` sends each
 * message of `commands` back on `status`, until the end of the stream. */
#include "check.h"

#define TUNE "message/tune{hz:f64}"

/* {"hz": 1090000000.0} */
static const uint8_t tune[] = {0xa1, 0x62, 'h', 'z', 0xfb, 0x41, 0xd0, 0x3e, 0x0b, 0x20, 0x00, 0x00, 0x00};

static stripline_publisher *sender(stripline_node *node, const char *topic, const char *type) {
    stripline_publisher *publisher = NULL;
    IS(STRIPLINE_OK, stripline_message_publisher_new(node, topic, type, &publisher, &error));
    return publisher;
}

static stripline_subscriber *receiver(
    stripline_node *node, const char *topic, const char *type, const stripline_subscriber_options *options) {
    stripline_subscriber *subscriber = NULL;
    IS(STRIPLINE_OK, stripline_message_subscriber_new(node, topic, type, options, &subscriber, &error));
    return subscriber;
}

static size_t refused(stripline_node *node, const char *words) {
    stripline_report *report = NULL;
    IS(STRIPLINE_OK, stripline_node_report(node, &report, &error));
    size_t count = stripline_report_refused_connections(report);
    stripline_text name, reason;
    if (count > 0) {
        char text[1000];
        IS(STRIPLINE_OK, stripline_report_refused_connection(report, 0, &name, &reason, &error));
        snprintf(text, sizeof text, "%.*s", (int)reason.length, reason.data);
        CHECK(strstr(text, words) != NULL);
    }
    stripline_report_free(report);
    return count;
}

/* Connections are made in the background, and refused there, too. */
static size_t await_refused(stripline_node *node, stripline_publisher *publisher, const char *words) {
    size_t count = 0;
    for (int round = 0; count == 0 && round < 3000; round++) {
        IS(STRIPLINE_EMPTY, stripline_publisher_wait_for_receivers(publisher, 1, 10 * 1000 * 1000, NULL));
        count = refused(node, words);
    }
    return count;
}

static void one_way(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = sender(node, "tune", TUNE);
    stripline_subscriber_options held = {.size = sizeof held, .hold = 2};
    stripline_subscriber *subscribers[] = {
        receiver(node, "tune", TUNE, NULL), receiver(node, "tune", NULL, &held),
        receiver(node, "tune", "message/cbor", NULL), receiver(node, "tune", "message/tune", NULL)};
    IS(STRIPLINE_OK, stripline_publisher_wait_for_receivers(publisher, 4, TIMEOUT_NS, &error));
    IS(STRIPLINE_OK, stripline_publisher_send(publisher, tune, sizeof tune, NULL, &error));
    /* {"hz": 1} */
    const uint8_t wrong[] = {0xa1, 0x62, 'h', 'z', 0x01};
    FAILS(STRIPLINE_INVALID_ARGUMENT, "`tune.hz`: a float must be here, as 1.0",
          stripline_publisher_send(publisher, wrong, sizeof wrong, NULL, &error));
    stripline_send_options options = {.size = sizeof options, .set = STRIPLINE_SEND_SET_TIME, .time_ns = 5};
    IS(STRIPLINE_OK, stripline_publisher_send(publisher, tune, sizeof tune, &options, &error));
    for (int index = 0; index < 4; index++) {
        for (uint64_t number = 0; number < 2; number++) {
            stripline_packet *packet = receive(subscribers[index]);
            CHECK(stripline_packet_length(packet) == sizeof tune);
            CHECK(memcmp(stripline_packet_samples(packet), tune, sizeof tune) == 0);
            stripline_packet_info info = {.size = sizeof info};
            IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
            CHECK(info.sequence == number && info.gap_packets == 0);
            CHECK(info.sample_index == number && info.time_ns == (number == 0 ? 0 : 5));
            IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
        }
        CHECK(refused(node, "") == 0);
    }
    for (int index = 0; index < 4; index++) {
        stripline_subscriber_free(subscribers[index]);
    }
    stripline_publisher_free(publisher);
    stripline_node_free(node);
}

static void other_types(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = sender(node, "tune", TUNE);
    stripline_subscriber *other = receiver(node, "tune", "message/tune{mhz:f64}", NULL);
    CHECK(await_refused(node, publisher, "message/tune{hz:f64}, not message/tune{mhz:f64}") == 1);
    stripline_subscriber_free(other);
    stripline_publisher_free(publisher);
    stripline_node_free(node);

    node = isolated_node();
    publisher = sender(node, "tune", TUNE);
    stripline_subscriber *samples = subscriber_of(node, "tune", "u8", NULL);
    CHECK(await_refused(node, publisher, "message/tune") == 1);
    stripline_subscriber_free(samples);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
}

static void bad_input(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = NULL;
    stripline_subscriber *subscriber = NULL;
    FAILS(STRIPLINE_INVALID_ARGUMENT, "node", stripline_message_publisher_new(NULL, "t", NULL, &publisher, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "topic", stripline_message_publisher_new(node, NULL, NULL, &publisher, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "publisher", stripline_message_publisher_new(node, "t", NULL, NULL, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "node",
          stripline_message_subscriber_new(NULL, "t", NULL, NULL, &subscriber, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "topic",
          stripline_message_subscriber_new(node, NULL, NULL, NULL, &subscriber, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "subscriber",
          stripline_message_subscriber_new(node, "t", NULL, NULL, NULL, &error));
    static const char *const types[] = {"f32", "", "message/", "message/tune{hz:i64}", "message/{hz:f64}",
                                        "message/tune{hz:f64", "tune{hz:f64}", "message/\xff"};
    for (size_t index = 0; index < sizeof types / sizeof *types; index++) {
        FAILS(STRIPLINE_INVALID_ARGUMENT, "type",
              stripline_message_publisher_new(node, "t", types[index], &publisher, &error));
        FAILS(STRIPLINE_INVALID_ARGUMENT, "type",
              stripline_message_subscriber_new(node, "t", types[index], NULL, &subscriber, &error));
    }
    stripline_subscriber_options options = {.size = sizeof options, .windowed = 1};
    FAILS(STRIPLINE_INVALID_ARGUMENT, "windowed",
          stripline_message_subscriber_new(node, "t", NULL, &options, &subscriber, &error));
    /* Samples cannot have the name of a message. */
    stripline_sample_type samples = {sizeof samples, "message/tune", 1, 1};
    FAILS(STRIPLINE_INVALID_ARGUMENT, "type", stripline_publisher_new(node, "t", &samples, &publisher, &error));
    stripline_node_free(node);
}

static void echo(const char *domain, const char *topics) {
    stripline_node_options options = {sizeof options, domain, topics, 0};
    stripline_node *node = NULL;
    IS(STRIPLINE_OK, stripline_node_new(&options, &node, &error));
    stripline_subscriber *commands = receiver(node, "commands", TUNE, NULL);
    stripline_publisher *answers = sender(node, "status", TUNE);
    wait_for_receiver(answers);
    stripline_packet *packet = NULL;
    while (stripline_subscriber_receive(commands, TIMEOUT_NS, &packet, NULL) == STRIPLINE_OK) {
        size_t bytes = stripline_packet_length(packet);
        IS(STRIPLINE_OK, stripline_publisher_send(answers, stripline_packet_samples(packet), bytes, NULL, &error));
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    }
    IS(STRIPLINE_OK, stripline_publisher_finish(answers, TIMEOUT_NS, &error));
    stripline_publisher_free(answers);
    stripline_subscriber_free(commands);
    stripline_node_free(node);
}

int main(int count, char **arguments) {
    if (count == 3) {
        echo(arguments[1], arguments[2]);
    } else {
        one_way();
        other_types();
        bad_input();
    }
    printf("messages: done\n");
    return 0;
}
