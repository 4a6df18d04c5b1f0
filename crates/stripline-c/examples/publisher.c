/* Publishes a tone, for `subscriber` in another terminal. `docs/c.md` explains both.
 *
 *     ./publisher        over the transport that the topics' rules name: `shm`
 *     ./publisher tcp    over this one
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <stripline.h>

#define SAMPLE_RATE_HZ 100e3
#define TONE_HZ 1e3
/* The number of samples in a packet: a hundredth of a second. */
#define PACKET_SAMPLES 1000

/* Ends the program for a status that is an error. */
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

int main(int count, char **arguments) {
    stripline_error *error = NULL;
    /* The mask comes before any thread is started: all threads leave the signals to one. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    /* Without options, the environment sets the domain and the topics. */
    stripline_node_options options = {.size = sizeof options};
    char topics[100];
    if (count > 1) {
        snprintf(topics, sizeof topics, "[topic.iq]\ntransport = '%s'", arguments[1]);
        options.topics = topics;
    }
    stripline_node *node = NULL;
    check(stripline_node_new(&options, &node, &error), error);
    pthread_t thread;
    pthread_create(&thread, NULL, stop_on_ctrl_c, node);
    pthread_detach(thread);

    stripline_sample_type type = {.size = sizeof type, .name = "cf32"};
    stripline_publisher *publisher = NULL;
    check(stripline_publisher_new(node, "iq", &type, &publisher, &error), error);
    stripline_stream_description stream = {
        .size = sizeof stream,
        .set = STRIPLINE_STREAM_SET_SAMPLE_RATE,
        .id = "tone",
        .sample_rate_hz = SAMPLE_RATE_HZ,
    };
    check(stripline_publisher_set_stream(publisher, &stream, &error), error);
    printf("publishing `iq`; Ctrl-C ends it\n");
    fflush(stdout);

    const double turn = 2 * 3.14159265358979 * TONE_HZ / SAMPLE_RATE_HZ;
    for (uint64_t first = 0;; first += PACKET_SAMPLES) {
        /* The samples are written where the subscribers will read them. No subscriber need be
         * connected. */
        stripline_loan *loan = NULL;
        void *memory = NULL;
        stripline_status status =
            stripline_publisher_loan(publisher, PACKET_SAMPLES, &memory, &loan, &error);
        if (status == STRIPLINE_OK) {
            float *samples = memory;
            for (size_t index = 0; index < PACKET_SAMPLES; index++) {
                samples[2 * index] = (float)cos(turn * (double)(first + index));
                samples[2 * index + 1] = (float)sin(turn * (double)(first + index));
            }
            status = stripline_loan_commit(loan, NULL, &error);
        }
        if (status == STRIPLINE_STOPPED) {
            stripline_error_free(error);
            error = NULL;
            break;
        }
        check(status, error);
        nanosleep(&(struct timespec){0, (long)(1e9 * PACKET_SAMPLES / SAMPLE_RATE_HZ)}, NULL);
    }
    uint64_t sequence = 0;
    check(stripline_publisher_sequence(publisher, &sequence, &error), error);
    printf("published %" PRIu64 " packets\n", sequence);
    /* The end of the stream, after the last packet. By it, a subscriber distinguishes the end from
     * a crash. */
    check(stripline_publisher_finish(publisher, STRIPLINE_FOREVER, &error), error);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    return 0;
}
