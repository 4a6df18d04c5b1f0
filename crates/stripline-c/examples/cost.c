/* Measures a packet through the C functions: `cost BYTES PACKETS`. `cost.rs` measures the same in
 * Rust.
 *
 * Prints the nanoseconds of a packet, from loan to release, on one thread over `inproc`. Statistics
 * are off: this is the path of a packet between two samples of the statistics. `stripline bench
 * bindings` compares both with statistics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stripline.h>

static void check(stripline_status status, stripline_error *error) {
    if (status != STRIPLINE_OK) {
        fprintf(stderr, "error: %s\n", stripline_error_message(error));
        exit(1);
    }
}

static void pass(
    stripline_publisher *publisher, stripline_subscriber *subscriber, const char *source, char *sink, size_t bytes) {
    stripline_error *error = NULL;
    stripline_loan *loan = NULL;
    stripline_packet *packet = NULL;
    void *memory = NULL;
    check(stripline_publisher_loan(publisher, bytes, &memory, &loan, &error), error);
    memcpy(memory, source, bytes);
    check(stripline_loan_commit(loan, NULL, &error), error);
    check(stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, &error), error);
    memcpy(sink, stripline_packet_samples(packet), bytes);
    __asm__ volatile("" : : "r"(sink) : "memory");
    check(stripline_packet_release(packet, &error), error);
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: cost BYTES PACKETS\n");
        return 2;
    }
    size_t bytes = strtoul(arguments[1], NULL, 10);
    long packets = strtol(arguments[2], NULL, 10);
    char domain[40];
    snprintf(domain, sizeof domain, "cost-%ld", (long)getpid());
    stripline_node_options options = {
        .size = sizeof options, .domain = domain, .topics = "[default]\ntransport = 'inproc'\nsampling = 'off'"};
    stripline_sample_type type = {.size = sizeof type, .name = "u8"};
    stripline_error *error = NULL;
    stripline_node *node = NULL;
    stripline_publisher *publisher = NULL;
    stripline_subscriber *subscriber = NULL;
    check(stripline_node_new(&options, &node, &error), error);
    check(stripline_publisher_new(node, "t", &type, &publisher, &error), error);
    check(stripline_subscriber_new(node, "t", &type, NULL, &subscriber, &error), error);
    check(stripline_publisher_wait_for_receivers(publisher, 1, STRIPLINE_FOREVER, &error), error);
    char *source = malloc(bytes + 1), *sink = malloc(bytes + 1);
    memset(source, 1, bytes);
    for (long number = 0; number < packets / 10; number++) {
        pass(publisher, subscriber, source, sink, bytes);
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long number = 0; number < packets; number++) {
        pass(publisher, subscriber, source, sink, bytes);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = 1e9 * (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec);
    printf("%.2f\n", ns / (double)packets);
    free(source);
    free(sink);
    stripline_subscriber_free(subscriber);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    return 0;
}
