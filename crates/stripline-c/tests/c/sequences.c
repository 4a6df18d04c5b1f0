/* Random sequences of calls, checked against a model of the result of each: `sequences DOMAIN
 * TRANSPORT SEED COUNT [EVERY]`.
 *
 * The handles are made anew after every EVERY sequences (1), and ended as rarely. Making them takes
 * a hundred times as long as the calls of a sequence, so long runs set EVERY. */
#include "check.h"

#define PUBLISHERS 2
#define SUBSCRIBERS 3
#define HELD_MAX 2
#define CALLS 60

/* A publisher in the model. */
struct publisher {
    stripline_publisher *handle; /* NULL: freed */
    stripline_loan *loan;        /* the last loan */
    uint32_t *memory;
    int is_open, has_ended, is_freed_with_loan;
};

/* A subscriber: without held packets, with held packets, or windowed. */
struct subscriber {
    stripline_subscriber *handle;
    stripline_packet *packets[HELD_MAX]; /* NULL: not lent */
    stripline_packet *released;          /* a packet that may be released again: this is refused */
    stripline_waker *waker;              /* it outlives the subscriber */
    int kind, is_woken;
};

static uint64_t state;
static uint32_t every = 1;

static uint32_t below(uint32_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % limit;
}

/* Checks that the status is one of the two. */
#define ONE_OF(first, second, call) \
    do { \
        stripline_error *error = NULL; \
        got = (call); \
        if (got != (first) && got != (second)) { \
            fprintf(stderr, "%s:%d: %s returned %d: %s\n", __FILE__, __LINE__, #call, (int)got, \
                    stripline_error_message(error)); \
            exit(1); \
        } \
        CHECK((got > 0) == (error != NULL)); \
        stripline_error_free(error); \
    } while (0)

static int32_t write_nothing(void *context, size_t index, void *samples) {
    CHECK(context == NULL && index == 0 && samples == NULL && "a refused call writes nothing");
    return 0;
}

static void step_publisher(stripline_node *node, struct publisher *it) {
    stripline_status got;
    stripline_loan *loan = NULL;
    void *memory = NULL;
    uint32_t samples[2] = {below(1000), 0};
    samples[1] = ~samples[0];
    int is_usable = it->handle != NULL && !it->is_open && !it->has_ended;
    stripline_status refusal = it->handle == NULL ? STRIPLINE_INVALID_ARGUMENT : STRIPLINE_PORT;
    switch (below(9)) {
    case 0:
    case 1:
        if (is_usable) {
            ONE_OF(STRIPLINE_OK, STRIPLINE_FULL, stripline_publisher_try_loan(it->handle, 2, &memory, &loan, &error));
            if (got == STRIPLINE_OK) {
                it->loan = loan;
                it->memory = memory;
                it->is_open = 1;
                memcpy(memory, samples, sizeof samples);
            }
        } else {
            IS(refusal, stripline_publisher_try_loan(it->handle, 2, &memory, &loan, &error));
        }
        break;
    case 2:
    case 3:
        if (it->is_open) {
            CHECK(it->memory[0] == ~it->memory[1]);
            IS(it->is_freed_with_loan ? STRIPLINE_PORT : STRIPLINE_OK, stripline_loan_commit(it->loan, NULL, &error));
        } else if (it->handle != NULL && it->loan != NULL) {
            IS(STRIPLINE_PORT, stripline_loan_commit(it->loan, NULL, &error));
        }
        it->is_open = it->is_freed_with_loan = 0;
        if (it->handle == NULL) {
            it->loan = NULL;
        }
        break;
    case 4:
        if (it->is_open) {
            IS(STRIPLINE_OK, stripline_loan_cancel(it->loan, &error));
        } else if (it->handle != NULL && it->loan != NULL) {
            IS(STRIPLINE_PORT, stripline_loan_cancel(it->loan, &error));
        }
        it->is_open = it->is_freed_with_loan = 0;
        if (it->handle == NULL) {
            it->loan = NULL;
        }
        break;
    case 5:
        if (is_usable) {
            ONE_OF(STRIPLINE_OK, STRIPLINE_FULL, stripline_publisher_try_send(it->handle, samples, 2, NULL, &error));
        } else {
            IS(refusal, stripline_publisher_try_send(it->handle, samples, 2, NULL, &error));
            IS(refusal, stripline_publisher_send_many(it->handle, 1, 2, write_nothing, NULL, &error));
        }
        break;
    case 6:
        if (is_usable && below(3 * every) == 0) {
            IS(STRIPLINE_OK, stripline_publisher_abandon(it->handle, &error));
            it->has_ended = 1;
        } else if (!is_usable) {
            IS(refusal, stripline_publisher_abandon(it->handle, &error));
        }
        break;
    case 7:
        if (is_usable && below(3 * every) == 0) {
            IS(STRIPLINE_OK, stripline_publisher_finish(it->handle, TIMEOUT_NS, &error));
            it->has_ended = 1;
        } else if (!is_usable) {
            IS(refusal, stripline_publisher_finish(it->handle, 0, &error));
        }
        break;
    default:
        if (it->handle == NULL && !it->is_open) {
            it->handle = publisher_of(node, "t", "u32");
            it->has_ended = 0;
            it->loan = NULL;
        } else if (it->handle != NULL && below(2 * every) == 0) {
            stripline_publisher_free(it->handle);
            it->handle = NULL;
            it->is_freed_with_loan = it->is_open;
            if (!it->is_open) {
                it->loan = NULL;
            }
        }
    }
}

static stripline_subscriber *subscriber_of_kind(stripline_node *node, int kind) {
    stripline_subscriber_options options = {sizeof options, kind == 1 ? HELD_MAX : 0, kind == 2, 0, 0};
    return subscriber_of(node, "t", "u32", &options);
}

static void check_packet(const stripline_packet *packet) {
    size_t length = stripline_packet_length(packet);
    const uint32_t *samples = stripline_packet_samples(packet);
    CHECK(length > 0 && length % 2 == 0);
    for (size_t index = 0; index < length; index += 2) {
        CHECK(samples[index] == ~samples[index + 1]);
    }
    stripline_packet_info info = {.size = sizeof info};
    IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
}

static void step_subscriber(stripline_node *node, struct subscriber *it) {
    stripline_status got;
    stripline_packet *packet = NULL;
    int places = it->kind == 1 ? HELD_MAX : 1, free_place = -1;
    for (int place = 0; place < places; place++) {
        free_place = it->packets[place] == NULL ? place : free_place;
    }
    int place = (int)below((uint32_t)places);
    switch (below(10)) {
    case 7:
        if (it->waker != NULL) {
            IS(STRIPLINE_OK, stripline_waker_wake(it->waker, &error));
            it->is_woken = it->handle != NULL;
        } else if (it->handle == NULL || (places == 1 && free_place < 0)) {
            IS(it->handle == NULL ? STRIPLINE_INVALID_ARGUMENT : STRIPLINE_TOO_MANY_HELD,
               stripline_subscriber_waker(it->handle, &it->waker, &error));
        } else {
            IS(STRIPLINE_OK, stripline_subscriber_waker(it->handle, &it->waker, &error));
        }
        break;
    case 8:
        if (it->is_woken && free_place >= 0) {
            /* A call that may wait consumes the wake, and nothing else. */
            it->released = NULL;
            IS(STRIPLINE_INTERRUPTED,
               it->kind == 2 ? stripline_subscriber_window(it->handle, 2, STRIPLINE_FOREVER, &packet, &error)
                             : stripline_subscriber_receive(it->handle, STRIPLINE_FOREVER, &packet, &error));
            it->is_woken = 0;
        }
        break;
    case 9:
        if (it->handle == NULL || below(4) == 0) {
            stripline_waker_free(it->waker);
            it->waker = NULL;
        }
        break;
    case 0:
    case 1:
    case 2:
        if (it->handle == NULL) {
            IS(STRIPLINE_INVALID_ARGUMENT, stripline_subscriber_receive(it->handle, 0, &packet, &error));
            break;
        }
        it->released = NULL;
        stripline_error *error = NULL;
        got = it->kind == 2 ? stripline_subscriber_window(it->handle, 2 + 2 * below(3), 0, &packet, &error)
                            : stripline_subscriber_receive(it->handle, 0, &packet, &error);
        if (free_place < 0) {
            CHECK(got == STRIPLINE_TOO_MANY_HELD);
        } else if (got == STRIPLINE_OK) {
            it->packets[free_place] = packet;
            check_packet(packet);
        } else {
            CHECK(got == STRIPLINE_EMPTY || got == STRIPLINE_ENDED);
        }
        stripline_error_free(error);
        break;
    case 3:
    case 4:
        if (it->packets[place] != NULL) {
            check_packet(it->packets[place]);
            IS(STRIPLINE_OK, it->kind == 2 && below(2) == 0 ? stripline_packet_consume(it->packets[place], 2, &error)
                                                            : stripline_packet_release(it->packets[place], &error));
            it->released = it->handle != NULL ? it->packets[place] : NULL;
            it->packets[place] = NULL;
        }
        break;
    case 5:
        if (it->released != NULL && it->handle != NULL) {
            IS(STRIPLINE_PORT, stripline_packet_release(it->released, &error));
            CHECK(stripline_packet_samples(it->released) == NULL);
        }
        break;
    default:
        if (it->handle == NULL) {
            /* A waker of the previous subscriber stays with that subscriber. */
            if (it->waker == NULL && free_place >= 0 && (places == 1 || (it->packets[0] == NULL && it->packets[1] == NULL))) {
                it->handle = subscriber_of_kind(node, it->kind);
            }
        } else if (below(4 * every) == 0) {
            stripline_subscriber_free(it->handle);
            it->handle = NULL;
            it->released = NULL;
            it->is_woken = 0;
        }
    }
}

static void begin(stripline_node *node, struct publisher *publishers, struct subscriber *subscribers) {
    memset(publishers, 0, PUBLISHERS * sizeof *publishers);
    memset(subscribers, 0, SUBSCRIBERS * sizeof *subscribers);
    for (int index = 0; index < PUBLISHERS; index++) {
        publishers[index].handle = publisher_of(node, "t", "u32");
    }
    for (int index = 0; index < SUBSCRIBERS; index++) {
        subscribers[index].kind = index;
        subscribers[index].handle = subscriber_of_kind(node, index);
    }
}

static void end(struct publisher *publishers, struct subscriber *subscribers) {
    for (int index = 0; index < SUBSCRIBERS; index++) {
        stripline_subscriber_free(subscribers[index].handle);
        stripline_waker_free(subscribers[index].waker);
        for (int place = 0; place < HELD_MAX; place++) {
            IS(STRIPLINE_OK, stripline_packet_release(subscribers[index].packets[place], &error));
        }
    }
    for (int index = 0; index < PUBLISHERS; index++) {
        if (publishers[index].is_open) {
            IS(STRIPLINE_OK, stripline_loan_cancel(publishers[index].loan, &error));
        }
        stripline_publisher_free(publishers[index].handle);
    }
}

int main(int count, char **arguments) {
    CHECK(count == 5 || count == 6);
    char topics[100];
    snprintf(topics, sizeof topics, "[default]\ntransport = '%s'\noverflow = 'drop-oldest'\ndepth = 4", arguments[2]);
    stripline_node_options options = {sizeof options, arguments[1], topics, 0};
    state = strtoull(arguments[3], NULL, 10) | 1;
    stripline_node *node = NULL;
    IS(STRIPLINE_OK, stripline_node_new(&options, &node, &error));
    long sequences = strtol(arguments[4], NULL, 10);
    every = count == 6 ? (uint32_t)strtoul(arguments[5], NULL, 10) : 1;
    CHECK(every > 0);
    struct publisher publishers[PUBLISHERS];
    struct subscriber subscribers[SUBSCRIBERS];
    for (long sequence = 0; sequence < sequences; sequence++) {
        if (sequence % (long)every == 0) {
            begin(node, publishers, subscribers);
        }
        for (int call = 0; call < CALLS; call++) {
            if (below(2) == 0) {
                step_publisher(node, &publishers[below(PUBLISHERS)]);
            } else {
                step_subscriber(node, &subscribers[below(SUBSCRIBERS)]);
            }
        }
        if ((sequence + 1) % (long)every == 0 || sequence + 1 == sequences) {
            end(publishers, subscribers);
        }
    }
    stripline_node_free(node);
    printf("sequences: done\n");
    return 0;
}
