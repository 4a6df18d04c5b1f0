/* Random sequences of calls of components and of calls, against a model: `more_sequences SEED
 * COUNT`. */
#include <stdatomic.h>
#include <threads.h>

#include "check.h"

#define CALLS 40
#define PENDING_MAX 3

static uint64_t state;

static uint32_t below(uint32_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % limit;
}

/* Checks that the status is in the list. */
#define ONE_OF(list, call) \
    do { \
        const stripline_status allowed[] = list; \
        stripline_error *error = NULL; \
        got = (call); \
        int is_allowed = 0; \
        for (size_t index = 0; index < sizeof allowed / sizeof *allowed; index++) { \
            is_allowed |= got == allowed[index]; \
        } \
        if (!is_allowed) { \
            fprintf(stderr, "%s:%d: %s returned %d: %s\n", __FILE__, __LINE__, #call, (int)got, \
                    stripline_error_message(error)); \
            exit(1); \
        } \
        CHECK((got > 0) == (error != NULL)); \
        stripline_error_free(error); \
    } while (0)
#define LIST(...) {__VA_ARGS__}

/* The number of components that are created and not destroyed. The components end on threads of
 * their own. */
static atomic_int alive;

static int32_t create(void *context, const stripline_properties *properties, void **instance, stripline_reason *reason) {
    (void)properties, (void)reason;
    atomic_fetch_add(&alive, 1);
    *instance = context;
    return STRIPLINE_OK;
}

static void destroy(void *instance) {
    (void)instance;
    atomic_fetch_sub(&alive, 1);
}

static int32_t change(void *instance, const stripline_properties *properties, stripline_reason *reason) {
    (void)instance;
    int64_t factor = 0;
    IS(STRIPLINE_OK, stripline_properties_integer(properties, "factor", &factor, &error));
    return factor == 7 ? stripline_reason_set(reason, "not seven") : STRIPLINE_OK;
}

static int32_t test(void *instance, const char *name, double *value, stripline_reason *remark) {
    (void)instance, (void)name, (void)remark;
    *value = 1;
    return STRIPLINE_OK;
}

/* Forwards each packet, and leaves open loans and received packets to the ports. */
static int32_t run(void *instance, stripline_ports *ports, stripline_reason *reason) {
    (void)instance;
    stripline_error *error = NULL;
    stripline_subscriber *in = NULL;
    stripline_publisher *out = NULL;
    const stripline_readout *packets = NULL;
    if (stripline_ports_input(ports, "in", NULL, NULL, &in, &error) > 0 ||
        stripline_ports_output(ports, "out", NULL, &out, &error) > 0 ||
        stripline_ports_readout(ports, "packets", &packets, &error) > 0) {
        return stripline_reason_take(reason, error);
    }
    for (;;) {
        stripline_packet *packet = NULL;
        stripline_loan *loan = NULL;
        void *memory = NULL;
        if (stripline_ports_receive(ports, in, &packet, &error) != STRIPLINE_OK ||
            stripline_publisher_loan(out, 1, &memory, &loan, &error) > 0) {
            return stripline_reason_take(reason, error);
        }
        memcpy(memory, stripline_packet_samples(packet), 4);
        if (stripline_loan_commit_like(loan, packet, &error) > 0 || stripline_packet_release(packet, &error) > 0 ||
            stripline_readout_add(packets, 1, &error) > 0) {
            return stripline_reason_take(reason, error);
        }
    }
}

static stripline_component *component_of(void) {
    stripline_component *component = NULL;
    IS(STRIPLINE_OK, stripline_component_new("copy", "Forwards.", &component, &error));
    stripline_port port = {.size = sizeof port, .name = "in", .types = "u32"};
    IS(STRIPLINE_OK, stripline_component_add_port(component, &port, &error));
    port.name = "out", port.direction = STRIPLINE_PORT_DIRECTION_OUTPUT;
    IS(STRIPLINE_OK, stripline_component_add_port(component, &port, &error));
    stripline_property property = {.size = sizeof property, .name = "factor", .kind = STRIPLINE_PROPERTY_KIND_INTEGER,
                                   .access = STRIPLINE_PROPERTY_ACCESS_CHANGEABLE, .has_range = 1, .integer_max = 10};
    IS(STRIPLINE_OK, stripline_component_add_property(component, &property, &error));
    property.name = "packets", property.access = STRIPLINE_PROPERTY_ACCESS_READ_ONLY, property.integer_max = INT64_MAX;
    IS(STRIPLINE_OK, stripline_component_add_property(component, &property, &error));
    IS(STRIPLINE_OK, stripline_component_add_test(component, "self", NULL, &error));
    stripline_component_functions functions = {.size = sizeof functions, .create = create, .run = run, .change = change,
                                               .test = test, .destroy = destroy};
    IS(STRIPLINE_OK, stripline_component_set_functions(component, &functions, &error));
    return component;
}

enum phase { FREED, PREPARED, RUNNING, ENDED };

/* A harness in the model. The ports taken from it outlive it. */
struct run {
    stripline_harness *handle;
    enum phase phase;
    stripline_publisher *in;
    stripline_subscriber *out;
    int has_taken_in, has_taken_out, may_have_ended, has_values;
    uint32_t sent, received;
};

static void free_ends(struct run *it) {
    stripline_publisher_free(it->in);
    stripline_subscriber_free(it->out);
    it->in = NULL;
    it->out = NULL;
}

static void step_component(stripline_component *component, struct run *it) {
    stripline_status got;
    stripline_sample_type type = {sizeof type, "u32", 0, 0};
    stripline_text text = {NULL, 0};
    stripline_test_outcome outcome = {.size = sizeof outcome};
    stripline_status out_of_order = it->phase == FREED ? STRIPLINE_INVALID_ARGUMENT : STRIPLINE_PORT;
    switch (below(14)) {
    case 0:
    case 1:
        if (it->phase == FREED) {
            free_ends(it);
            memset(it, 0, sizeof *it);
            IS(STRIPLINE_OK, stripline_harness_new(component, &it->handle, &error));
            it->phase = PREPARED;
        } else if (below(3) == 0) {
            stripline_harness_free(it->handle);
            it->handle = NULL;
            it->phase = FREED;
            it->may_have_ended = 1;
        }
        break;
    case 2: {
        const char *value = below(2) == 0 ? "2" : "7";
        stripline_status refused = value[0] == '7' ? STRIPLINE_INVALID_PROPERTIES : STRIPLINE_OK;
        if (it->phase == RUNNING) {
            ONE_OF(LIST(refused, it->may_have_ended ? STRIPLINE_FAILED : refused),
                   stripline_harness_set(it->handle, "factor", value, &error));
        } else {
            IS(it->phase == PREPARED ? STRIPLINE_OK : out_of_order, stripline_harness_set(it->handle, "factor", value, &error));
        }
        break;
    }
    case 3:
        IS(STRIPLINE_INVALID_ARGUMENT, stripline_harness_set(it->handle, "factor", "11", &error));
        break;
    case 4:
    case 5:
        IS(it->phase == PREPARED ? STRIPLINE_OK : out_of_order, stripline_harness_start(it->handle, &error));
        it->phase = it->phase == PREPARED ? RUNNING : it->phase;
        break;
    case 6: {
        int is_there = it->phase == RUNNING && !it->has_taken_in;
        stripline_publisher *taken = NULL;
        IS(is_there ? STRIPLINE_OK : out_of_order, stripline_harness_input(it->handle, "in", &type, &taken, &error));
        it->in = is_there ? taken : it->in;
        it->has_taken_in |= is_there;
        break;
    }
    case 7: {
        int is_there = it->phase == RUNNING && !it->has_taken_out;
        stripline_subscriber *taken = NULL;
        IS(is_there ? STRIPLINE_OK : out_of_order,
           stripline_harness_output(it->handle, "out", &type, NULL, &taken, &error));
        it->out = is_there ? taken : it->out;
        it->has_taken_out |= is_there;
        break;
    }
    case 8:
        if (it->in != NULL) {
            ONE_OF(LIST(STRIPLINE_OK, STRIPLINE_FULL), stripline_publisher_try_send(it->in, &it->sent, 1, NULL, &error));
            it->sent += got == STRIPLINE_OK;
        }
        break;
    case 9:
        if (it->out != NULL) {
            stripline_packet *packet = NULL;
            ONE_OF(LIST(STRIPLINE_OK, STRIPLINE_EMPTY, STRIPLINE_ENDED),
                   stripline_subscriber_receive(it->out, 0, &packet, &error));
            if (got == STRIPLINE_OK) {
                CHECK(it->received < it->sent && first_u32(packet) == it->received);
                it->received++;
                IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
            }
        }
        break;
    case 10:
        if (it->phase == RUNNING) {
            ONE_OF(LIST(STRIPLINE_OK, it->may_have_ended ? STRIPLINE_FAILED : STRIPLINE_OK),
                   stripline_harness_test(it->handle, "self", &outcome, &error));
            CHECK(got != STRIPLINE_OK || (outcome.passed == 1 && outcome.value == 1));
        } else {
            IS(out_of_order, stripline_harness_test(it->handle, "self", &outcome, &error));
        }
        break;
    case 11:
        if (it->phase == RUNNING || it->phase == ENDED) {
            IS(it->phase == RUNNING || it->has_values ? STRIPLINE_OK : STRIPLINE_FAILED,
               stripline_harness_get(it->handle, "packets", &text, &error));
        } else {
            IS(out_of_order, stripline_harness_get(it->handle, "packets", &text, &error));
        }
        break;
    case 12:
        IS(it->phase == RUNNING ? STRIPLINE_OK : out_of_order, stripline_harness_stop(it->handle, &error));
        it->may_have_ended |= it->phase == RUNNING;
        break;
    default:
        if (it->phase == RUNNING && it->in != NULL && below(2) == 0) {
            /* When its input ends, the component forwards the rest and ends. */
            stripline_publisher_free(it->in);
            it->in = NULL;
            it->may_have_ended = 1;
        } else if (it->phase == RUNNING && it->in == NULL) {
            IS(STRIPLINE_OK, stripline_harness_finish(it->handle, 0, &error));
            it->phase = ENDED;
            it->has_values = 1;
        } else if (it->phase != RUNNING) {
            IS(out_of_order, stripline_harness_finish(it->handle, 0, &error));
        }
    }
}

/* A server, a client, and pending calls. */
struct calls {
    stripline_server *server;
    stripline_client *client;
    stripline_operation *operation;
    stripline_pending *pending[PENDING_MAX];
    uint32_t request[PENDING_MAX];
    int is_over[PENDING_MAX];
    uint32_t next;
};

/* Calls with a responder that the handler has kept, and their requests. */
static stripline_responder *kept[PENDING_MAX];
static uint32_t kept_request[PENDING_MAX];

static void handle(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context;
    CHECK(bytes == 4);
    for (int place = 0; place < PENDING_MAX; place++) {
        if (kept[place] == NULL) {
            kept[place] = responder;
            memcpy(&kept_request[place], request, 4);
            return;
        }
    }
    stripline_responder_free(responder);
}

static void step_calls(stripline_node *node, stripline_service *service, struct calls *it) {
    stripline_status got;
    stripline_reply *reply = NULL;
    int place = (int)below(PENDING_MAX);
    stripline_operation_type type = {sizeof type, "keep", "u32", "u32", "u32"};
    switch (below(9)) {
    case 0:
        if (it->server == NULL) {
            IS(STRIPLINE_OK, stripline_server_new(node, service, NULL, &it->server, &error));
        } else if (below(3) == 0) {
            stripline_server_free(it->server);
            it->server = NULL;
        }
        break;
    case 1:
        if (it->client == NULL) {
            stripline_client_options options = {.size = sizeof options, .deadline_ns = 200000000};
            IS(STRIPLINE_OK, stripline_client_new(node, "keeper", &options, &it->client, &error));
        } else if (it->operation == NULL) {
            IS(STRIPLINE_OK, stripline_client_operation(it->client, &type, &it->operation, &error));
        } else if (below(4) == 0) {
            /* Operations and pending calls continue. */
            stripline_client_free(it->client);
            it->client = NULL;
        }
        break;
    case 2:
    case 3:
        /* Without a server, the start would wait. */
        if (it->operation != NULL && it->server != NULL && it->pending[place] == NULL) {
            stripline_pending *made = NULL;
            ONE_OF(LIST(STRIPLINE_OK, STRIPLINE_NO_SERVER), stripline_operation_start(it->operation, &it->next, 4, NULL, &made, &error));
            it->pending[place] = made;
            it->request[place] = it->next++;
            it->is_over[place] = 0;
        }
        break;
    case 4:
        if (it->server != NULL) {
            ONE_OF(LIST(STRIPLINE_OK, STRIPLINE_EMPTY), stripline_server_serve_one(it->server, 0, &error));
        }
        break;
    case 5:
        if (it->pending[place] == NULL) {
            break;
        }
        if (it->is_over[place]) {
            IS(STRIPLINE_PORT, stripline_pending_wait(it->pending[place], 0, &reply, &error));
            break;
        }
        ONE_OF(LIST(STRIPLINE_OK, STRIPLINE_EMPTY, STRIPLINE_USER_ERROR, STRIPLINE_SERVER_GONE, STRIPLINE_REPLY_FAILED,
                    STRIPLINE_CALL_UNANSWERED, STRIPLINE_DEADLINE_PASSED),
               stripline_pending_wait(it->pending[place], 0, &reply, &error));
        if (got == STRIPLINE_OK || got == STRIPLINE_USER_ERROR) {
            uint32_t found = 0;
            CHECK(stripline_reply_length(reply) == 4);
            memcpy(&found, stripline_reply_data(reply), 4);
            CHECK(found == (got == STRIPLINE_OK ? it->request[place] : ~it->request[place]));
        } else {
            CHECK(reply == NULL);
        }
        stripline_reply_free(reply);
        it->is_over[place] = got != STRIPLINE_EMPTY;
        break;
    case 6:
        if (kept[place] != NULL) {
            uint32_t answer = below(2) == 0 ? kept_request[place] : ~kept_request[place];
            if (answer == kept_request[place]) {
                IS(STRIPLINE_OK, stripline_responder_reply(kept[place], &answer, 4, &error));
            } else {
                IS(STRIPLINE_OK, stripline_responder_fail(kept[place], &answer, 4, &error));
            }
            IS(STRIPLINE_PORT, stripline_responder_reply(kept[place], &answer, 4, &error));
            stripline_responder_free(kept[place]);
            kept[place] = NULL;
        }
        break;
    case 7:
        /* A call without an answer is refused. */
        stripline_responder_free(kept[place]);
        kept[place] = NULL;
        break;
    default:
        stripline_pending_free(it->pending[place]);
        it->pending[place] = NULL;
        if (it->operation != NULL && below(6) == 0) {
            stripline_operation_free(it->operation);
            it->operation = NULL;
        }
    }
}

static void end_calls(struct calls *it) {
    stripline_client_free(it->client);
    stripline_operation_free(it->operation);
    for (int place = 0; place < PENDING_MAX; place++) {
        stripline_pending_free(it->pending[place]);
        stripline_responder_free(kept[place]);
        kept[place] = NULL;
    }
    stripline_server_free(it->server);
}

/* A message as CBOR passes unchanged, whichever end is made first. */
static void messages(stripline_node *node) {
    stripline_publisher *out = NULL;
    stripline_subscriber *in = NULL;
    stripline_subscriber_options options = {.size = sizeof options, .hold = below(3)};
    uint8_t bytes[64];
    size_t count = 1 + below(sizeof bytes - 1);
    for (size_t index = 0; index < count; index++) {
        bytes[index] = (uint8_t)below(256);
    }
    if (below(2) == 0) {
        IS(STRIPLINE_OK, stripline_message_subscriber_new(node, "m", NULL, &options, &in, &error));
        IS(STRIPLINE_OK, stripline_message_publisher_new(node, "m", "message/cbor", &out, &error));
    } else {
        IS(STRIPLINE_OK, stripline_message_publisher_new(node, "m", NULL, &out, &error));
        IS(STRIPLINE_OK, stripline_message_subscriber_new(node, "m", "message/cbor", &options, &in, &error));
    }
    wait_for_receiver(out);
    IS(STRIPLINE_OK, stripline_publisher_send(out, bytes, count, NULL, &error));
    stripline_packet *packet = receive(in);
    CHECK(stripline_packet_length(packet) == count && memcmp(stripline_packet_samples(packet), bytes, count) == 0);
    if (below(2) == 0) {
        stripline_subscriber_free(in);
        in = NULL;
    }
    IS(STRIPLINE_OK, stripline_packet_refuse(packet, "no", &error));
    stripline_publisher_free(out);
    stripline_subscriber_free(in);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    state = strtoull(arguments[1], NULL, 10) | 1;
    long sequences = strtol(arguments[2], NULL, 10);
    stripline_node *node = isolated_node();
    stripline_component *component = component_of();
    stripline_service *service = NULL;
    stripline_operation_type type = {sizeof type, "keep", "u32", "u32", "u32"};
    IS(STRIPLINE_OK, stripline_service_new("keeper", &service, &error));
    IS(STRIPLINE_OK, stripline_service_add(service, &type, handle, NULL, NULL, &error));
    for (long sequence = 0; sequence < sequences; sequence++) {
        struct run runs[2] = {{0}};
        struct calls calls = {0};
        for (int call = 0; call < CALLS; call++) {
            step_component(component, &runs[below(2)]);
            step_calls(node, service, &calls);
        }
        for (int index = 0; index < 2; index++) {
            stripline_harness_free(runs[index].handle);
            free_ends(&runs[index]);
        }
        end_calls(&calls);
        messages(node);
    }
    stripline_component_free(component);
    stripline_service_free(service);
    stripline_node_free(node);
    /* The last components end on their own threads. */
    struct timespec now, start;
    timespec_get(&start, TIME_UTC);
    while (atomic_load(&alive) > 0) {
        timespec_get(&now, TIME_UTC);
        CHECK(now.tv_sec - start.tv_sec < 60);
        thrd_yield();
    }
    printf("more_sequences: done\n");
    return 0;
}
