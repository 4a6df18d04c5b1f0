/* Checks of the test programs. A check that fails prints the place, and ends the program with 1. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stripline.h>

/* A time limit that only ends a hang. */
#define TIMEOUT_NS INT64_C(60000000000)

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

/* Checks the status of a call. The macro declares the error object: write `&error` in the call. */
#define IS(expected, call) \
    do { \
        stripline_error *error = NULL; \
        stripline_status status = (call); \
        if (status != (expected)) { \
            fprintf(stderr, "%s:%d: %s returned %d: %s\n", __FILE__, __LINE__, #call, (int)status, \
                    stripline_error_message(error)); \
            exit(1); \
        } \
        CHECK((status > 0) == (error != NULL)); \
        if (error != NULL) { \
            CHECK(stripline_error_status(error) == status); \
            CHECK(stripline_error_message(error)[0] != '\0'); \
        } \
        stripline_error_free(error); \
    } while (0)

/* Like IS, for a call that fails: the message must contain these words. */
#define FAILS(expected, words, call) \
    do { \
        stripline_error *error = NULL; \
        stripline_status status = (call); \
        if (status != (expected) || strstr(stripline_error_message(error), (words)) == NULL) { \
            fprintf(stderr, "%s:%d: %s returned %d: %s\n", __FILE__, __LINE__, #call, (int)status, \
                    stripline_error_message(error)); \
            exit(1); \
        } \
        CHECK(stripline_error_status(error) == status); \
        stripline_error_free(error); \
    } while (0)

static inline int text_is(stripline_text text, const char *expected) {
    return text.length == strlen(expected) && memcmp(text.data, expected, text.length) == 0;
}

/* A node that nothing outside this program finds. */
static inline stripline_node *isolated_node(void) {
    stripline_node_options options = {sizeof options, NULL, NULL, 1};
    stripline_node *node = NULL;
    IS(STRIPLINE_OK, stripline_node_new(&options, &node, &error));
    return node;
}

static inline stripline_publisher *publisher_of(stripline_node *node, const char *topic, const char *name) {
    stripline_sample_type type = {sizeof type, name, 0, 0};
    stripline_publisher *publisher = NULL;
    IS(STRIPLINE_OK, stripline_publisher_new(node, topic, &type, &publisher, &error));
    return publisher;
}

static inline stripline_subscriber *subscriber_of(
    stripline_node *node, const char *topic, const char *name, const stripline_subscriber_options *options) {
    stripline_sample_type type = {sizeof type, name, 0, 0};
    stripline_subscriber *subscriber = NULL;
    IS(STRIPLINE_OK, stripline_subscriber_new(node, topic, &type, options, &subscriber, &error));
    return subscriber;
}

/* Sends `count` samples of type u32, from `first` on. */
static inline void send_u32(stripline_publisher *publisher, uint32_t first, size_t count) {
    stripline_loan *loan = NULL;
    void *memory = NULL;
    IS(STRIPLINE_OK, stripline_publisher_loan(publisher, count, &memory, &loan, &error));
    for (size_t index = 0; index < count; index++) {
        ((uint32_t *)memory)[index] = first + (uint32_t)index;
    }
    IS(STRIPLINE_OK, stripline_loan_commit(loan, NULL, &error));
}

static inline stripline_packet *receive(stripline_subscriber *subscriber) {
    stripline_packet *packet = NULL;
    IS(STRIPLINE_OK, stripline_subscriber_receive(subscriber, TIMEOUT_NS, &packet, &error));
    return packet;
}

static inline uint32_t first_u32(const stripline_packet *packet) {
    CHECK(stripline_packet_length(packet) > 0);
    return *(const uint32_t *)stripline_packet_samples(packet);
}

static inline void wait_for_receiver(stripline_publisher *publisher) {
    IS(STRIPLINE_OK, stripline_publisher_wait_for_receivers(publisher, 1, TIMEOUT_NS, &error));
}

#endif
