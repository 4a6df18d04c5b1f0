/* An end in C for `stripline bench bindings`, which builds and starts it: `ends one-thread BYTES
 * DOMAIN`.
 *
 * The program prints `ready`. Then it reads lines `WARM COUNT`, and prints for each the nanoseconds
 * of COUNT packets, after WARM packets that are not timed. A packet goes from loan to release on
 * one thread over `inproc`. The payload is written and read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stripline.h>

enum { line_bytes = 64 };

static void check(stripline_status status, stripline_error *error) {
    if (status != STRIPLINE_OK) {
        fprintf(stderr, "%s\n", stripline_error_message(error));
        exit(1);
    }
}

/* Reads one byte of each cache line. The loop takes four at a time, because the compiler of the end
 * in Rust does that by itself. */
static unsigned read_lines(const unsigned char *samples, size_t bytes) {
    unsigned sum = 0;
    size_t at = 0;
    for (; at + 4 * line_bytes <= bytes; at += 4 * line_bytes) {
        sum += samples[at] + samples[at + line_bytes] + samples[at + 2 * line_bytes] + samples[at + 3 * line_bytes];
    }
    for (; at < bytes; at += line_bytes) {
        sum += samples[at];
    }
    return sum;
}

static unsigned pass(
    stripline_publisher *publisher, stripline_subscriber *subscriber, const unsigned char *source, size_t bytes) {
    stripline_error *error = NULL;
    stripline_loan *loan = NULL;
    stripline_packet *packet = NULL;
    void *memory = NULL;
    check(stripline_publisher_loan(publisher, bytes, &memory, &loan, &error), error);
    memcpy(memory, source, bytes);
    check(stripline_loan_commit(loan, NULL, &error), error);
    check(stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, &error), error);
    unsigned sum = read_lines(stripline_packet_samples(packet), stripline_packet_length(packet));
    check(stripline_packet_release(packet, &error), error);
    return sum;
}

int main(int count, char **arguments) {
    if (count != 4 || strcmp(arguments[1], "one-thread") != 0) {
        fprintf(stderr, "usage: ends one-thread BYTES DOMAIN\n");
        return 2;
    }
    size_t bytes = strtoul(arguments[2], NULL, 10);
    stripline_node_options options = {
        .size = sizeof options, .domain = arguments[3], .topics = "[default]\ntransport = 'inproc'"};
    stripline_sample_type type = {.size = sizeof type, .name = "u8"};
    stripline_error *error = NULL;
    stripline_node *node = NULL;
    stripline_publisher *publisher = NULL;
    stripline_subscriber *subscriber = NULL;
    check(stripline_node_new(&options, &node, &error), error);
    check(stripline_publisher_new(node, "packets", &type, &publisher, &error), error);
    check(stripline_subscriber_new(node, "packets", &type, NULL, &subscriber, &error), error);
    check(stripline_publisher_wait_for_receivers(publisher, 1, STRIPLINE_FOREVER, &error), error);
    unsigned char *source = malloc(bytes + 1);
    if (source == NULL) {
        fprintf(stderr, "no memory\n");
        return 1;
    }
    memset(source, 1, bytes);
    printf("ready\n");
    fflush(stdout);
    unsigned long warm, timed, sum = 0;
    while (scanf("%lu %lu", &warm, &timed) == 2) {
        for (; warm > 0; warm--) {
            sum += pass(publisher, subscriber, source, bytes);
        }
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (; timed > 0; timed--) {
            sum += pass(publisher, subscriber, source, bytes);
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.0f\n", 1e9 * (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec));
        fflush(stdout);
    }
    free(source);
    stripline_subscriber_free(subscriber);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    return sum == 0 && bytes != 0;
}
