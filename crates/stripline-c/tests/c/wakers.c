/* Waits that another thread or a signal handler ends, without losses: `wakers DOMAIN`. */
#include <signal.h>
#include <stdatomic.h>
#include <threads.h>
#include <unistd.h>

#include "check.h"

static stripline_waker *volatile handler_waker;
static atomic_int wakes;

static void on_signal(int number) {
    (void)number;
    stripline_waker_wake(handler_waker, NULL);
    atomic_fetch_add(&wakes, 1);
}

static int wake_from_thread(void *context) {
    IS(STRIPLINE_OK, stripline_waker_wake(context, &error));
    return 0;
}

static int raise_to_process(void *context) {
    (void)context;
    CHECK(kill(getpid(), SIGUSR1) == 0);
    return 0;
}

/* Ends a call that waits without end: once from a thread, and once by a wake before it begins. */
#define ENDS(waker, call) \
    do { \
        thrd_t thread; \
        CHECK(thrd_create(&thread, wake_from_thread, (waker)) == thrd_success); \
        IS(STRIPLINE_INTERRUPTED, (call)); \
        CHECK(thrd_join(thread, NULL) == thrd_success); \
        IS(STRIPLINE_OK, stripline_waker_wake((waker), &error)); \
        IS(STRIPLINE_OK, stripline_waker_wake((waker), &error)); \
        IS(STRIPLINE_INTERRUPTED, (call)); \
    } while (0)

static stripline_waker *waker_of(stripline_subscriber *subscriber) {
    stripline_waker *waker = NULL;
    IS(STRIPLINE_OK, stripline_subscriber_waker(subscriber, &waker, &error));
    return waker;
}

static void subscribers(stripline_node *node) {
    stripline_publisher *publisher = publisher_of(node, "numbers", "u32");
    stripline_subscriber_options kinds[3] = {{.size = sizeof *kinds}, {.size = sizeof *kinds, .hold = 2},
                                             {.size = sizeof *kinds, .windowed = 1}};
    for (int kind = 0; kind < 3; kind++) {
        stripline_subscriber *subscriber = subscriber_of(node, "numbers", "u32", &kinds[kind]);
        wait_for_receiver(publisher);
        stripline_waker *waker = waker_of(subscriber);
        stripline_packet *packet = NULL;
        if (kind == 2) {
            ENDS(waker, stripline_subscriber_window(subscriber, 4, STRIPLINE_FOREVER, &packet, &error));
        } else {
            ENDS(waker, stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, &error));
            uint8_t ready = 0;
            ENDS(waker, stripline_wait_any(&subscriber, 1, STRIPLINE_FOREVER, &ready, &error));
        }
        /* A wake before a packet, and a call that does not wait. */
        send_u32(publisher, 7, 4);
        IS(STRIPLINE_OK, stripline_waker_wake(waker, &error));
        stripline_status (*take)(stripline_subscriber *, int64_t, stripline_packet **, stripline_error **) =
            stripline_subscriber_receive;
        if (kind == 2) {
            IS(STRIPLINE_INTERRUPTED,
               stripline_subscriber_window(subscriber, 4, STRIPLINE_FOREVER, &packet, &error));
            IS(STRIPLINE_OK, stripline_subscriber_window(subscriber, 4, STRIPLINE_FOREVER, &packet, &error));
        } else {
            IS(STRIPLINE_OK, take(subscriber, 0, &packet, &error));
            CHECK(first_u32(packet) == 7);
            if (kind == 0) {
                stripline_waker *refused = NULL;
                IS(STRIPLINE_TOO_MANY_HELD, stripline_subscriber_waker(subscriber, &refused, &error));
            }
            IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
            send_u32(publisher, 8, 4);
            IS(STRIPLINE_INTERRUPTED, take(subscriber, STRIPLINE_FOREVER, &packet, &error));
            IS(STRIPLINE_OK, take(subscriber, STRIPLINE_FOREVER, &packet, &error));
            CHECK(first_u32(packet) == 8);
        }
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
        /* A waker outlives its subscriber. */
        stripline_subscriber_free(subscriber);
        IS(STRIPLINE_OK, stripline_waker_wake(waker, &error));
        stripline_waker_free(waker);
    }
    stripline_publisher_free(publisher);
}

static int refuse_all(void *context, stripline_packet *packet) {
    (void)packet;
    return *(int *)context;
}

static void handlers(stripline_node *node) {
    stripline_subscriber *subscriber = subscriber_of(node, "served", "u32", NULL);
    stripline_waker *waker = waker_of(subscriber);
    int status = STRIPLINE_FAILED;
    stripline_served port = {subscriber, refuse_all, &status};
    ENDS(waker, stripline_serve(&port, 1, &error));
    stripline_waker_free(waker);
    stripline_subscriber_free(subscriber);
}

/* An acknowledgement that does not arrive: the error states whether the packet was sent. */
static void acknowledgements(
    stripline_publisher *publisher, stripline_subscriber *subscriber, stripline_waker *waker) {
    stripline_send_options options = {.size = sizeof options, .set = STRIPLINE_SEND_SET_SCOPE, .scope = 3};
    uint32_t sample = 0;
    stripline_packet *packet = NULL;
    thrd_t thread;
    CHECK(thrd_create(&thread, wake_from_thread, waker) == thrd_success);
    stripline_error *error = NULL;
    CHECK(stripline_publisher_send(publisher, &sample, 1, &options, &error) == STRIPLINE_INTERRUPTED);
    CHECK(thrd_join(thread, NULL) == thrd_success);
    int is_sent = stripline_error_is_sent(error);
    stripline_error_free(error);
    CHECK(stripline_error_is_sent(NULL) == 0);
    if (is_sent) {
        IS(STRIPLINE_OK, stripline_packet_release(receive(subscriber), &error));
    } else {
        IS(STRIPLINE_EMPTY, stripline_subscriber_receive(subscriber, 0, &packet, &error));
    }
}

static void publishers(stripline_node *node, int has_scopes) {
    stripline_publisher *publisher = publisher_of(node, "full", "u32");
    stripline_waker *waker = NULL;
    IS(STRIPLINE_OK, stripline_publisher_waker(publisher, &waker, &error));
    ENDS(waker, stripline_publisher_wait_for_receivers(publisher, 1, STRIPLINE_FOREVER, &error));
    stripline_subscriber *subscriber = subscriber_of(node, "full", "u32", NULL);
    wait_for_receiver(publisher);
    /* Sends until there is no room. */
    uint32_t sent = 0, sample = 0;
    stripline_status status;
    while ((status = stripline_publisher_try_send(publisher, &sample, 1, NULL, NULL)) == STRIPLINE_OK) {
        sample = ++sent;
    }
    CHECK(status == STRIPLINE_FULL);
    stripline_loan *loan = NULL;
    void *memory = NULL;
    ENDS(waker, stripline_publisher_loan(publisher, 1, &memory, &loan, &error));
    ENDS(waker, stripline_publisher_send(publisher, &sample, 1, NULL, &error));
    stripline_packet *packet = NULL;
    for (uint32_t number = 0; number < sent; number++) {
        packet = receive(subscriber);
        CHECK(first_u32(packet) == number);
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    }
    IS(STRIPLINE_EMPTY, stripline_subscriber_receive(subscriber, 0, &packet, &error));

    if (has_scopes) {
        acknowledgements(publisher, subscriber, waker);
    }

    /* The end of a stream continues after a wake, if it must wait at all. */
    IS(STRIPLINE_OK, stripline_waker_wake(waker, &error));
    while ((status = stripline_publisher_finish(publisher, STRIPLINE_FOREVER, NULL)) == STRIPLINE_INTERRUPTED) {
    }
    CHECK(status == STRIPLINE_OK);
    FAILS(STRIPLINE_PORT, "has ended", stripline_publisher_finish(publisher, 0, &error));
    stripline_waker *refused = NULL;
    FAILS(STRIPLINE_PORT, "has ended", stripline_publisher_waker(publisher, &refused, &error));
    IS(STRIPLINE_ENDED, stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, &error));
    stripline_publisher_free(publisher);
    IS(STRIPLINE_OK, stripline_waker_wake(waker, &error));
    stripline_waker_free(waker);
    stripline_subscriber_free(subscriber);
}

/* A signal ends each of many waits, and no packet is lost. */
static void signal_handlers(stripline_node *node) {
    stripline_publisher *publisher = publisher_of(node, "signals", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "signals", "u32", NULL);
    wait_for_receiver(publisher);
    handler_waker = waker_of(subscriber);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    stripline_packet *packet = NULL;
    for (uint32_t round = 0; round < 100; round++) {
        thrd_t thread;
        CHECK(thrd_create(&thread, raise_to_process, NULL) == thrd_success);
        IS(STRIPLINE_INTERRUPTED, stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, &error));
        CHECK(thrd_join(thread, NULL) == thrd_success);
        /* The handler may run on any thread, and may still be in its last instructions. */
        while (atomic_load(&wakes) == (int)round) {
            thrd_yield();
        }
        CHECK(atomic_load(&wakes) == (int)round + 1);
        send_u32(publisher, round, 1);
        packet = receive(subscriber);
        CHECK(first_u32(packet) == round);
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    }
    stripline_waker *waker = handler_waker;
    handler_waker = NULL;
    stripline_waker_free(waker);
    stripline_publisher_free(publisher);
    stripline_subscriber_free(subscriber);
}

static void bad_input(stripline_node *node) {
    stripline_publisher *publisher = publisher_of(node, "bad", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "bad", "u32", NULL);
    stripline_waker *waker = NULL;
    FAILS(STRIPLINE_INVALID_ARGUMENT, "waker", stripline_publisher_waker(publisher, NULL, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "publisher", stripline_publisher_waker(NULL, &waker, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "waker", stripline_subscriber_waker(subscriber, NULL, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "subscriber", stripline_subscriber_waker(NULL, &waker, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "waker", stripline_waker_wake(NULL, &error));
    stripline_waker_free(NULL);
    stripline_publisher_free(publisher);
    stripline_subscriber_free(subscriber);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *transports[] = {"inproc", "shm", "uds"};
    for (int index = 0; index < 3; index++) {
        char topics[120];
        snprintf(topics, sizeof topics, "[default]\ntransport = '%s'\ndepth = 4\nbuffer = 4096", transports[index]);
        stripline_node_options options = {sizeof options, arguments[1], topics, 0};
        stripline_node *node = NULL;
        IS(STRIPLINE_OK, stripline_node_new(&options, &node, &error));
        atomic_store(&wakes, 0);
        bad_input(node);
        subscribers(node);
        handlers(node);
        /* Over `uds`, the scope of a topic's connection is fixed when it is made. */
        publishers(node, index < 2);
        signal_handlers(node);
        stripline_node_free(node);
    }
    printf("wakers: done\n");
    return 0;
}
