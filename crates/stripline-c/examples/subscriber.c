/* Receives the packets of `publisher` in another terminal, and prints the losses. `docs/c.md`
 * explains both.
 *
 *     ./subscriber       waits for room: nothing is lost
 *     ./subscriber 50    takes 50 ms over each packet, and drops packets without room
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stripline.h>

/* The number of packets between two lines of output. */
#define EVERY 100

static void check(stripline_status status, stripline_error *error) {
    if (status > 0) {
        fprintf(stderr, "error: %s\n", stripline_error_message(error));
        exit(1);
    }
}

/* Stops the node on Ctrl-C: calls that block in it, or start later, return STRIPLINE_STOPPED. */
static void *stop_on_ctrl_c(void *node) {
    sigset_t signals;
    int signal;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigwait(&signals, &signal);
    stripline_node_stop(node, NULL);
    return NULL;
}

/* Prints the content of a packet. */
static void look_at(const stripline_packet *packet) {
    stripline_packet_info info = {.size = sizeof info};
    stripline_stream_view stream = {.size = sizeof stream};
    stripline_error *error = NULL;
    check(stripline_packet_get_info(packet, &info, &error), error);
    check(stripline_packet_get_stream(packet, &stream, &error), error);
    /* A loss is reported with the next packet, at its place in the stream. */
    if (info.gap_reason == STRIPLINE_GAP_REASON_PEER_RESTART && info.gap_packets == 0) {
        printf("the publisher before this one died; its unsent packets are unknown\n");
    } else if (info.gap_reason != STRIPLINE_GAP_REASON_NONE) {
        printf("lost %" PRIu64 " packets from %" PRIu64 " on (reason %" PRIu32 "): %" PRIu64 " samples\n",
               info.gap_packets, info.gap_first, info.gap_reason, info.gap_samples);
    }
    if (info.sequence % EVERY == 0) {
        /* The samples stay in the publisher's memory until the packet is released. */
        const float *samples = stripline_packet_samples(packet);
        size_t length = stripline_packet_length(packet);
        double power = 0;
        for (size_t index = 0; index < 2 * length; index++) {
            power += (double)samples[index] * samples[index];
        }
        printf("packet %" PRIu64 " of `%.*s`: %zu samples, power %.3f\n", info.sequence, (int)stream.id.length,
               stream.id.data, length, length > 0 ? power / (double)length : 0);
    }
    fflush(stdout);
}

int main(int count, char **arguments) {
    stripline_error *error = NULL;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    /* The receiver chooses the policy for packets that arrive faster than it takes them. */
    long pause_ms = count > 1 ? strtol(arguments[1], NULL, 10) : 0;
    stripline_node_options options = {.size = sizeof options};
    options.topics = pause_ms > 0 ? "[topic.iq]\noverflow = 'drop-oldest'\ndepth = 8" : NULL;
    stripline_node *node = NULL;
    check(stripline_node_new(&options, &node, &error), error);
    pthread_t thread;
    pthread_create(&thread, NULL, stop_on_ctrl_c, node);
    pthread_detach(thread);

    stripline_sample_type type = {.size = sizeof type, .name = "cf32"};
    stripline_subscriber *subscriber = NULL;
    check(stripline_subscriber_new(node, "iq", &type, NULL, &subscriber, &error), error);
    printf("waiting for `iq`; Ctrl-C ends it\n");
    fflush(stdout);
    for (;;) {
        stripline_packet *packet = NULL;
        stripline_status status =
            stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, &error);
        if (status == STRIPLINE_ENDED) {
            printf("end of the stream\n");
            break;
        }
        if (status == STRIPLINE_STOPPED) {
            stripline_error_free(error);
            error = NULL;
            break;
        }
        check(status, error);
        look_at(packet);
        nanosleep(&(struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000}, NULL);
        check(stripline_packet_release(packet, &error), error);
    }

    stripline_report *report = NULL;
    check(stripline_node_report(node, &report, &error), error);
    for (size_t index = 0; index < stripline_report_connections(report); index++) {
        stripline_connection_report connection = {.size = sizeof connection};
        check(stripline_report_connection(report, index, &connection, &error), error);
        printf("took %" PRIu64 " packets, lost %" PRIu64 "\n", connection.packets, connection.lost);
    }
    stripline_report_free(report);
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
    return 0;
}
