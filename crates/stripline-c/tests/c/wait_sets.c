/* Handles in a program's own loop, and wait sets: `wait_sets DOMAIN`. */
#include <poll.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "check.h"

enum { SUBSCRIBER = 1, WINDOW, PUBLISHER, CLIENT, SERVER, PIPE, OTHER };

static int is_ready(int descriptor, int timeout_ms) {
    struct pollfd one = {descriptor, POLLIN, 0};
    return poll(&one, 1, timeout_ms) == 1;
}

static void take_all(stripline_subscriber *subscriber) {
    stripline_packet *packet = NULL;
    while (stripline_subscriber_receive(subscriber, 0, &packet, NULL) == STRIPLINE_OK) {
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    }
}

/* Sends without waiting until there is no room, and arms the publisher. */
static void fill(stripline_publisher *publisher) {
    stripline_loan *loan = NULL;
    void *memory = NULL;
    do {
        while (stripline_publisher_try_loan(publisher, 100, &memory, &loan, NULL) == STRIPLINE_OK) {
            memset(memory, 0, 400);
            IS(STRIPLINE_OK, stripline_loan_commit(loan, NULL, &error));
        }
    } while (stripline_publisher_arm(publisher, 100, NULL) != STRIPLINE_EMPTY);
}

static void descriptors(stripline_node *node) {
    stripline_publisher *publisher = publisher_of(node, "numbers", "u32");
    int of_publisher = -1, of_subscriber = -1, again = -1;
    IS(STRIPLINE_OK, stripline_publisher_ready_descriptor(publisher, &of_publisher, &error));
    IS(STRIPLINE_OK, stripline_publisher_arm_for_receivers(publisher, 0, &error));
    IS(STRIPLINE_EMPTY, stripline_publisher_arm_for_receivers(publisher, 1, &error));
    stripline_subscriber *subscriber = subscriber_of(node, "numbers", "u32", NULL);
    IS(STRIPLINE_OK, stripline_subscriber_ready_descriptor(subscriber, &of_subscriber, &error));
    IS(STRIPLINE_OK, stripline_subscriber_ready_descriptor(subscriber, &again, &error));
    CHECK(of_subscriber >= 0 && of_subscriber == again && of_subscriber != of_publisher);
    while (stripline_publisher_arm_for_receivers(publisher, 1, NULL) == STRIPLINE_EMPTY) {
        CHECK(is_ready(of_publisher, -1));
    }
    send_u32(publisher, 7, 1);
    while (stripline_subscriber_arm(subscriber, 0, NULL) == STRIPLINE_EMPTY) {
        CHECK(is_ready(of_subscriber, -1));
    }
    FAILS(STRIPLINE_INVALID_ARGUMENT, "windowed", stripline_subscriber_arm(subscriber, 9, &error));
    stripline_packet *packet = receive(subscriber);
    FAILS(STRIPLINE_TOO_MANY_HELD, "release", stripline_subscriber_arm(subscriber, 0, &error));
    FAILS(STRIPLINE_TOO_MANY_HELD, "release",
          stripline_subscriber_ready_descriptor(subscriber, &of_subscriber, &error));
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    /* Now there is room. */
    size_t in_place = 0;
    IS(STRIPLINE_OK, stripline_publisher_samples_in_place(publisher, &in_place, &error));
    IS(STRIPLINE_TOO_LARGE, stripline_publisher_arm(publisher, in_place + 1, &error));
    IS(STRIPLINE_OK, stripline_publisher_arm(publisher, in_place, &error));
    fill(publisher);
    take_all(subscriber);
    while (stripline_publisher_arm(publisher, 100, NULL) == STRIPLINE_EMPTY) {
        CHECK(is_ready(of_publisher, -1));
    }
    stripline_loan *loan = NULL;
    void *memory = NULL;
    IS(STRIPLINE_OK, stripline_publisher_loan(publisher, 1, &memory, &loan, &error));
    FAILS(STRIPLINE_PORT, "loan", stripline_publisher_arm(publisher, 1, &error));
    IS(STRIPLINE_OK, stripline_loan_cancel(loan, &error));
    /* Invalid pointers, and the end of the stream. */
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_publisher_arm(NULL, 1, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_publisher_arm_for_receivers(NULL, 1, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_publisher_ready_descriptor(publisher, NULL, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_subscriber_arm(NULL, 0, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_subscriber_ready_descriptor(subscriber, NULL, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_client_arm(NULL, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_client_ready_descriptor(NULL, &again, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_server_arm(NULL, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_server_ready_descriptor(NULL, &again, &error));
    IS(STRIPLINE_OK, stripline_publisher_finish(publisher, TIMEOUT_NS, &error));
    IS(STRIPLINE_PORT, stripline_publisher_arm(publisher, 1, &error));
    stripline_publisher_free(publisher);
    stripline_subscriber_free(subscriber);
}

static void echo(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context;
    IS(STRIPLINE_OK, stripline_responder_reply(responder, request, bytes, &error));
    stripline_responder_free(responder);
}

static stripline_wait_set *set_of(void) {
    stripline_wait_set *set = NULL;
    IS(STRIPLINE_OK, stripline_wait_set_new(&set, &error));
    return set;
}

/* Waits once, and returns the way that the key is ready; 0: not ready. */
static uint64_t wait_for(const stripline_wait_set *set, uint64_t key, int64_t timeout_ns) {
    stripline_wait_event events[8];
    size_t count = 99;
    stripline_status status = stripline_wait_set_wait(set, events, 8, &count, timeout_ns, NULL);
    CHECK(status == (count > 0 ? STRIPLINE_OK : STRIPLINE_EMPTY));
    for (size_t index = 0; index < count; index++) {
        if (events[index].key == key) {
            return events[index].ready;
        }
    }
    return 0;
}

static void calls(stripline_node *node, const stripline_wait_set *set) {
    stripline_service *service = NULL;
    stripline_operation_type type = {sizeof type, "echo", NULL, NULL, NULL};
    IS(STRIPLINE_OK, stripline_service_new("text", &service, &error));
    IS(STRIPLINE_OK, stripline_service_add(service, &type, echo, NULL, "Echoes.", &error));
    stripline_server *server = NULL;
    stripline_client *client = NULL;
    stripline_operation *operation = NULL;
    IS(STRIPLINE_OK, stripline_server_new(node, service, NULL, &server, &error));
    IS(STRIPLINE_OK, stripline_client_new(node, "text", NULL, &client, &error));
    IS(STRIPLINE_OK, stripline_client_wait_for_servers(client, 1, TIMEOUT_NS, &error));
    IS(STRIPLINE_OK, stripline_client_operation(client, &type, &operation, &error));
    int of_client = -1, of_server = -1;
    IS(STRIPLINE_OK, stripline_client_ready_descriptor(client, &of_client, &error));
    IS(STRIPLINE_OK, stripline_server_ready_descriptor(server, &of_server, &error));
    CHECK(of_client >= 0 && of_server >= 0 && of_client != of_server);
    IS(STRIPLINE_OK, stripline_wait_set_add_client(set, CLIENT, client, &error));
    IS(STRIPLINE_OK, stripline_wait_set_add_server(set, SERVER, server, &error));
    FAILS(STRIPLINE_PORT, "key 5", stripline_wait_set_add_server(set, SERVER, server, &error));
    for (int round = 0; round < 10; round++) {
        stripline_pending *pending = NULL;
        stripline_reply *reply = NULL;
        IS(STRIPLINE_OK, stripline_operation_start(operation, "\x61x", 2, NULL, &pending, &error));
        while (stripline_pending_wait(pending, 0, &reply, NULL) == STRIPLINE_EMPTY) {
            if (wait_for(set, SERVER, TIMEOUT_NS) != 0) {
                stripline_server_serve_one(server, 0, NULL);
            }
        }
        stripline_reply_free(reply);
        stripline_pending_free(pending);
    }
    while (stripline_server_arm(server, NULL) == STRIPLINE_OK) {
        stripline_server_serve_one(server, 0, NULL);
    }
    while (stripline_client_arm(client, NULL) == STRIPLINE_OK) {
    }
    /* Handles that are freed in the set are not ready any more. */
    stripline_operation_free(operation);
    stripline_server_free(server);
    stripline_client_free(client);
    stripline_service_free(service);
    CHECK(wait_for(set, SERVER, 0) == 0 && wait_for(set, CLIENT, 0) == 0);
    IS(STRIPLINE_OK, stripline_wait_set_remove(set, SERVER, &error));
    IS(STRIPLINE_OK, stripline_wait_set_remove(set, CLIENT, &error));
    IS(STRIPLINE_EMPTY, stripline_wait_set_remove(set, CLIENT, &error));
}

static void ports(stripline_node *node, const stripline_wait_set *set) {
    stripline_publisher *publisher = publisher_of(node, "ports", "u32");
    IS(STRIPLINE_OK, stripline_wait_set_add_publisher_for_receivers(set, PUBLISHER, publisher, 2, &error));
    FAILS(STRIPLINE_PORT, "already", stripline_wait_set_add_publisher(set, OTHER, publisher, 1, &error));
    CHECK(wait_for(set, PUBLISHER, 0) == 0);
    stripline_subscriber_options windowed = {.size = sizeof windowed, .windowed = 1};
    stripline_subscriber *subscriber = subscriber_of(node, "ports", "u32", NULL);
    stripline_subscriber *windows = subscriber_of(node, "ports", "u32", &windowed);
    while (wait_for(set, PUBLISHER, TIMEOUT_NS) != STRIPLINE_READY_READABLE) {
    }
    IS(STRIPLINE_OK, stripline_wait_set_remove(set, PUBLISHER, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "windowed",
          stripline_wait_set_add_subscriber(set, SUBSCRIBER, subscriber, 4, &error));
    IS(STRIPLINE_OK, stripline_wait_set_add_subscriber(set, SUBSCRIBER, subscriber, 0, &error));
    IS(STRIPLINE_OK, stripline_wait_set_add_subscriber(set, WINDOW, windows, 4, &error));
    /* The same subscriber again, under another key. */
    IS(STRIPLINE_OK, stripline_wait_set_add_subscriber(set, OTHER, subscriber, 0, &error));
    send_u32(publisher, 1, 2);
    while (wait_for(set, SUBSCRIBER, TIMEOUT_NS) == 0) {
    }
    CHECK(wait_for(set, OTHER, TIMEOUT_NS) != 0 && wait_for(set, WINDOW, 0) == 0);
    /* With room for one event at a time, each member gets its turn. */
    uint64_t seen = 0;
    for (int round = 0; round < 8; round++) {
        stripline_wait_event event = {0, 0};
        size_t count = 0;
        IS(STRIPLINE_OK, stripline_wait_set_wait(set, &event, 1, &count, TIMEOUT_NS, &error));
        CHECK(count == 1);
        seen |= UINT64_C(1) << event.key;
    }
    CHECK(seen == (UINT64_C(1) << SUBSCRIBER | UINT64_C(1) << OTHER));
    send_u32(publisher, 3, 2);
    while (wait_for(set, WINDOW, TIMEOUT_NS) == 0) {
    }
    /* A lent packet ends the wait, and the error names it. */
    stripline_packet *packet = receive(subscriber);
    stripline_wait_event event = {0, 0};
    size_t count = 0;
    FAILS(STRIPLINE_TOO_MANY_HELD, "release",
          stripline_wait_set_wait(set, &event, 1, &count, TIMEOUT_NS, &error));
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    take_all(subscriber);
    /* A subscriber freed without being removed, and a new one under the old key. */
    stripline_subscriber_free(windows);
    stripline_wait_set_remove(set, WINDOW, NULL);
    IS(STRIPLINE_OK, stripline_wait_set_remove(set, OTHER, &error));
    fill(publisher);
    IS(STRIPLINE_OK, stripline_wait_set_add_publisher(set, PUBLISHER, publisher, 100, &error));
    CHECK(wait_for(set, SUBSCRIBER, TIMEOUT_NS) != 0);
    take_all(subscriber);
    while (wait_for(set, PUBLISHER, TIMEOUT_NS) == 0) {
    }
    stripline_subscriber_free(subscriber);
    CHECK(wait_for(set, SUBSCRIBER, 0) == 0);
    IS(STRIPLINE_OK, stripline_wait_set_remove(set, SUBSCRIBER, &error));
    stripline_publisher_free(publisher);
    IS(STRIPLINE_OK, stripline_wait_set_remove(set, PUBLISHER, &error));
}

static int wake_later(void *context) {
    IS(STRIPLINE_OK, stripline_waker_wake(context, &error));
    return 0;
}

static int write_later(void *context) {
    CHECK(write(*(int *)context, "x", 1) == 1);
    return 0;
}

static void foreign(const stripline_wait_set *set) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_descriptor(set, PIPE, -1, 1, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_descriptor(set, PIPE, ends[0], 0, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_descriptor(set, PIPE, ends[0], 8, &error));
    IS(STRIPLINE_OK, stripline_wait_set_add_descriptor(set, PIPE, ends[0], STRIPLINE_READY_READABLE, &error));
    IS(STRIPLINE_OK, stripline_wait_set_add_descriptor(set, OTHER, ends[1], STRIPLINE_READY_WRITABLE, &error));
    CHECK(wait_for(set, OTHER, TIMEOUT_NS) == STRIPLINE_READY_WRITABLE);
    IS(STRIPLINE_OK, stripline_wait_set_remove(set, OTHER, &error));
    CHECK(wait_for(set, PIPE, 1000000) == 0);
    thrd_t thread;
    CHECK(thrd_create(&thread, write_later, &ends[1]) == thrd_success);
    CHECK(wait_for(set, PIPE, TIMEOUT_NS) == STRIPLINE_READY_READABLE);
    CHECK(thrd_join(thread, NULL) == thrd_success);
    /* The descriptor is level-triggered, and closed ones are reported. */
    CHECK(wait_for(set, PIPE, TIMEOUT_NS) == STRIPLINE_READY_READABLE);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    CHECK(wait_for(set, PIPE, TIMEOUT_NS) == STRIPLINE_READY_CLOSED);
    IS(STRIPLINE_OK, stripline_wait_set_remove(set, PIPE, &error));
    CHECK(wait_for(set, PIPE, 0) == 0);
}

static void bad_input(const stripline_wait_set *set) {
    stripline_wait_event event;
    size_t count;
    stripline_waker *waker = NULL;
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_new(NULL, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_wait(NULL, &event, 1, &count, 0, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_wait(set, NULL, 1, &count, 0, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_wait(set, &event, 0, &count, 0, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_wait(set, &event, 1, NULL, 0, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_remove(NULL, 1, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_subscriber(set, 1, NULL, 0, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_publisher(set, 1, NULL, 1, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_publisher_for_receivers(set, 1, NULL, 1, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_client(set, 1, NULL, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_server(set, 1, NULL, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_add_descriptor(NULL, 1, 0, 1, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_waker(NULL, &waker, &error));
    IS(STRIPLINE_INVALID_ARGUMENT, stripline_wait_set_waker(set, NULL, &error));
    stripline_wait_set_free(NULL);
    IS(STRIPLINE_EMPTY, stripline_wait_set_wait(set, &event, 1, &count, 0, &error));
    CHECK(count == 0);
    /* A waker, and a child process. */
    IS(STRIPLINE_OK, stripline_wait_set_waker(set, &waker, &error));
    thrd_t thread;
    CHECK(thrd_create(&thread, wake_later, waker) == thrd_success);
    IS(STRIPLINE_INTERRUPTED, stripline_wait_set_wait(set, &event, 1, &count, STRIPLINE_FOREVER, &error));
    CHECK(thrd_join(thread, NULL) == thrd_success);
    stripline_waker_free(waker);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int is_right = stripline_wait_set_wait(set, &event, 1, &count, 0, NULL) == STRIPLINE_FORKED &&
                       stripline_wait_set_add_descriptor(set, 1, 0, 1, NULL) == STRIPLINE_FORKED &&
                       stripline_wait_set_remove(set, 1, NULL) == STRIPLINE_FORKED;
        _exit(is_right ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    stripline_node *node = isolated_node();
    stripline_wait_set *set = set_of();
    descriptors(node);
    calls(node, set);
    ports(node, set);
    foreign(set);
    bad_input(set);
    /* A stop ends a wait, and a set may be freed with handles in it. */
    stripline_subscriber *subscriber = subscriber_of(node, "last", "u32", NULL);
    IS(STRIPLINE_OK, stripline_wait_set_add_subscriber(set, SUBSCRIBER, subscriber, 0, &error));
    IS(STRIPLINE_OK, stripline_node_stop(node, &error));
    stripline_wait_event event;
    size_t count;
    IS(STRIPLINE_STOPPED, stripline_wait_set_wait(set, &event, 1, &count, STRIPLINE_FOREVER, &error));
    stripline_wait_set_free(set);
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
    printf("wait_sets: done\n");
    return 0;
}
