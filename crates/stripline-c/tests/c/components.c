/* Components, each in a harness. */
#include <math.h>

#include "check.h"

/* The calls of the component's functions, and the behaviour of `run`. */
struct counts {
    int created, destroyed, changed, tested;
    const char *mode;
    /* The ports of a component that waits for its pace. */
    stripline_ports *waiting;
};

static int32_t create(void *context, const stripline_properties *properties, void **instance, stripline_reason *reason) {
    struct counts *counts = context;
    stripline_text mode = {NULL, 0};
    double number = 0;
    int64_t whole = 0;
    int32_t flag = 0;
    IS(STRIPLINE_OK, stripline_properties_text(properties, "mode", &mode, &error));
    CHECK(mode.data[mode.length] == '\0');
    IS(STRIPLINE_OK, stripline_properties_float(properties, "factor", &number, &error));
    IS(STRIPLINE_OK, stripline_properties_integer(properties, "count", &whole, &error));
    IS(STRIPLINE_OK, stripline_properties_boolean(properties, "is_set", &flag, &error));
    CHECK(whole == 3 && flag == 1);
    FAILS(STRIPLINE_INVALID_ARGUMENT, "declares no property `other`",
          stripline_properties_float(properties, "other", &number, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "not declared as a float",
          stripline_properties_float(properties, "count", &number, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "NULL", stripline_properties_integer(properties, "count", NULL, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "NULL", stripline_properties_boolean(NULL, "is_set", &flag, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "not declared as a text",
          stripline_properties_text(properties, "count", &mode, &error));
    IS(STRIPLINE_OK, stripline_properties_is_changed(properties, "factor", &flag, &error));
    CHECK(flag == 0);
    if (strcmp(mode.data, "unable") == 0) {
        return stripline_reason_set(reason, "it is unable to begin");
    }
    counts->created++;
    *instance = counts;
    return STRIPLINE_OK;
}

static void destroy(void *instance) {
    ((struct counts *)instance)->destroyed++;
}

static int32_t change(void *instance, const stripline_properties *properties, stripline_reason *reason) {
    struct counts *counts = instance;
    double factor = 0;
    int32_t is_changed = 0;
    IS(STRIPLINE_OK, stripline_properties_float(properties, "factor", &factor, &error));
    IS(STRIPLINE_OK, stripline_properties_is_changed(properties, "factor", &is_changed, &error));
    CHECK(is_changed == 1);
    counts->changed++;
    if (counts->waiting != NULL) {
        FAILS(STRIPLINE_INVALID_ARGUMENT, "no wait within a wait",
              stripline_ports_wait_for_pace(counts->waiting, 1, NULL, &error));
        IS(STRIPLINE_OK, stripline_ports_start_pace(counts->waiting, 1e9, &error));
    }
    if (factor == 8) {
        return STRIPLINE_FAILED;
    }
    return factor == 7 ? stripline_reason_set(reason, "not seven") : STRIPLINE_OK;
}

static int32_t test(void *instance, const char *name, double *value, stripline_reason *remark) {
    ((struct counts *)instance)->tested++;
    CHECK(isnan(*value));
    if (strcmp(name, "level") == 0) {
        *value = -98.5;
        stripline_reason_set(remark, "quiet");
        return STRIPLINE_OK;
    }
    return stripline_reason_set(remark, "it is loud");
}

static int32_t validate(void *context, const stripline_properties *properties, stripline_reason *reason) {
    (void)context;
    double factor = 0;
    IS(STRIPLINE_OK, stripline_properties_float(properties, "factor", &factor, &error));
    return factor == 9 ? stripline_reason_set(reason, "nine does not fit the rest") : STRIPLINE_OK;
}

/* Copies `in` to `out`, and sends a message for each packet. */
static int32_t run(void *instance, stripline_ports *ports, stripline_reason *reason) {
    struct counts *counts = instance;
    stripline_error *failed = NULL;
    stripline_subscriber *in = NULL, *again = NULL;
    stripline_publisher *out = NULL, *words = NULL;
    const stripline_readout *packets = NULL, *level = NULL, *state = NULL, *is_busy = NULL;
    stripline_sample_type wrong = {sizeof wrong, "f64", 0, 0};
    stripline_text type = {NULL, 0};
    CHECK(text_is(stripline_ports_component(ports), "component") && stripline_ports_is_quiet(ports) == 1);
    IS(STRIPLINE_OK, stripline_ports_type(ports, "in", &type, &error));
    CHECK(text_is(type, "u32"));
    IS(STRIPLINE_OK, stripline_ports_type(ports, "unknown", &type, &error));
    CHECK(text_is(type, ""));
    FAILS(STRIPLINE_PORT, "u32", stripline_ports_input(ports, "in", &wrong, NULL, &in, &error));
    FAILS(STRIPLINE_PORT, "has no such port", stripline_ports_input(ports, "inn", NULL, NULL, &in, &error));
    FAILS(STRIPLINE_PORT, "other direction", stripline_ports_output(ports, "in", NULL, &out, &error));
    stripline_subscriber_options options = {sizeof options, strcmp(counts->mode, "hold") == 0 ? 2 : 0,
                                            strcmp(counts->mode, "window") == 0, 0, 0};
    IS(STRIPLINE_OK, stripline_ports_input(ports, "in", NULL, &options, &in, &error));
    FAILS(STRIPLINE_PORT, "taken before", stripline_ports_input(ports, "in", NULL, NULL, &again, &error));
    IS(STRIPLINE_OK, stripline_ports_output(ports, "out", NULL, &out, &error));
    IS(STRIPLINE_OK, stripline_ports_type(ports, "words", &type, &error));
    if (!text_is(type, "")) {
        FAILS(STRIPLINE_PORT, "message/word",
              stripline_ports_message_output(ports, "words", "message/other", &words, &error));
    }
    /* Without a type, it is the declared one. */
    IS(STRIPLINE_OK, stripline_ports_message_output(ports, "words", NULL, &words, &error));
    IS(STRIPLINE_OK, stripline_ports_readout(ports, "packets", &packets, &error));
    IS(STRIPLINE_OK, stripline_ports_readout(ports, "level", &level, &error));
    IS(STRIPLINE_OK, stripline_ports_readout(ports, "state", &state, &error));
    IS(STRIPLINE_OK, stripline_ports_readout(ports, "is_busy", &is_busy, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "read-only", stripline_ports_readout(ports, "factor", &level, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "not declared", stripline_ports_readout(ports, "none", &level, &error));
    IS(STRIPLINE_OK, stripline_readout_set_integer(packets, -1, &error));
    IS(STRIPLINE_OK, stripline_readout_add(packets, 1, &error));
    IS(STRIPLINE_OK, stripline_readout_set_float(level, 0.5, &error));
    IS(STRIPLINE_OK, stripline_readout_set_boolean(is_busy, 7, &error));
    IS(STRIPLINE_OK, stripline_readout_set_text(state, "at work", &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "not declared as an integer", stripline_readout_add(level, 1, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "not declared as a float", stripline_readout_set_float(packets, 1, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "NULL", stripline_readout_set_float(NULL, 1, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "UTF-8", stripline_readout_set_text(state, "\xff", &error));
    if (strcmp(counts->mode, "hold") == 0) {
        /* The other calls may find the component stopped already. */
        IS(STRIPLINE_OK, stripline_ports_poll(ports, &error));
        IS(STRIPLINE_OK, stripline_ports_sleep(ports, 1, &error));
        uint64_t due_ns[] = {1, 1};
        IS(STRIPLINE_OK, stripline_ports_start_pace(ports, 0, &error));
        IS(STRIPLINE_OK, stripline_ports_wait_for_pace(ports, UINT64_MAX, due_ns, &error));
        CHECK(due_ns[0] == 0);
        IS(STRIPLINE_OK, stripline_ports_start_pace(ports, 1e9, &error));
        IS(STRIPLINE_OK, stripline_ports_wait_for_pace(ports, 1, &due_ns[0], &error));
        IS(STRIPLINE_OK, stripline_ports_wait_for_pace(ports, 1000, &due_ns[1], &error));
        CHECK(due_ns[1] - due_ns[0] == 999);
    }
    if (strcmp(counts->mode, "early") == 0) {
        /* Everything taken from the ports ends with this function, including a packet and a
         * loan. */
        stripline_packet *packet = NULL;
        stripline_loan *loan = NULL;
        void *memory = NULL;
        IS(STRIPLINE_OK, stripline_ports_receive(ports, in, &packet, &error));
        IS(STRIPLINE_OK, stripline_publisher_loan(out, 1, &memory, &loan, &error));
        return STRIPLINE_OK;
    }
    if (strcmp(counts->mode, "pace") == 0) {
        uint64_t due_ns = 1;
        FAILS(STRIPLINE_INVALID_ARGUMENT, "`stripline_ports_start_pace` before",
              stripline_ports_wait_for_pace(ports, 1, &due_ns, &error));
        FAILS(STRIPLINE_INVALID_ARGUMENT, "the rate of the pace is -1", stripline_ports_start_pace(ports, -1, &error));
        FAILS(STRIPLINE_INVALID_ARGUMENT, "NaN", stripline_ports_start_pace(ports, NAN, &error));
        /* The wait has no end, and the test changes the factor. `change` starts a quicker pace. */
        IS(STRIPLINE_OK, stripline_ports_start_pace(ports, 1e-3, &error));
        counts->waiting = ports;
        stripline_status status = stripline_ports_wait_for_pace(ports, 1, NULL, &failed);
        counts->waiting = NULL;
        CHECK(status == STRIPLINE_STOPPED && counts->changed == 1);
        IS(STRIPLINE_STOPPED, stripline_ports_wait_for_pace(ports, 1, &due_ns, &error));
        CHECK(due_ns == 1);
        return stripline_reason_take(reason, failed);
    }
    if (strcmp(counts->mode, "sleep") == 0) {
        stripline_status status = stripline_ports_sleep(ports, STRIPLINE_FOREVER, &failed);
        CHECK(status == STRIPLINE_STOPPED);
        IS(STRIPLINE_STOPPED, stripline_ports_poll(ports, &error));
        return stripline_reason_take(reason, failed);
    }
    for (;;) {
        stripline_packet *packet = NULL;
        stripline_status status = options.windowed ? stripline_ports_window(ports, in, 3, &packet, &failed)
                                                   : stripline_ports_receive(ports, in, &packet, &failed);
        if (status == STRIPLINE_ENDED) {
            break;
        }
        if (status > 0) {
            return stripline_reason_take(reason, failed);
        }
        if (strcmp(counts->mode, "fail") == 0 && *(const uint32_t *)stripline_packet_samples(packet) == 99) {
            return stripline_reason_set(reason, "it is broken");
        }
        if (strcmp(counts->mode, "number") == 0) {
            return STRIPLINE_TOO_LARGE;
        }
        size_t length = stripline_packet_length(packet);
        stripline_loan *loan = NULL;
        void *memory = NULL;
        IS(STRIPLINE_OK, stripline_publisher_loan(out, length, &memory, &loan, &error));
        memcpy(memory, stripline_packet_samples(packet), 4 * length);
        IS(STRIPLINE_OK, stripline_loan_commit_like(loan, packet, &error));
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
        /* The number 24 in CBOR takes two bytes. */
        IS(STRIPLINE_OK, stripline_publisher_send(words, "\x18\x18", 2, NULL, &error));
        IS(STRIPLINE_OK, stripline_readout_add(packets, 1, &error));
    }
    if (strcmp(counts->mode, "free") == 0) {
        stripline_subscriber_free(in);
        stripline_publisher_free(out);
    }
    return stripline_reason_take(reason, NULL);
}

static void add_property(stripline_component *component, stripline_property property) {
    property.size = sizeof property;
    IS(STRIPLINE_OK, stripline_component_add_property(component, &property, &error));
}

static stripline_component *component_of(struct counts *counts) {
    stripline_component *component = NULL;
    IS(STRIPLINE_OK, stripline_component_new("mixed", "Has everything.", &component, &error));
    stripline_port in = {.size = sizeof in, .name = "in"};
    stripline_port out = {.size = sizeof out, .name = "out", .same_as = "in", .direction = STRIPLINE_PORT_DIRECTION_OUTPUT};
    stripline_port words = {.size = sizeof words, .name = "words", .types = "message/word", .optional = 1,
                            .direction = STRIPLINE_PORT_DIRECTION_OUTPUT};
    IS(STRIPLINE_OK, stripline_component_add_port(component, &in, &error));
    IS(STRIPLINE_OK, stripline_component_add_port(component, &out, &error));
    IS(STRIPLINE_OK, stripline_component_add_port(component, &words, &error));
    add_property(component, (stripline_property){.name = "factor", .kind = STRIPLINE_PROPERTY_KIND_FLOAT, .float_default = 1,
                                                 .access = STRIPLINE_PROPERTY_ACCESS_CHANGEABLE, .has_range = 1, .float_max = 10, .unit = "dB"});
    add_property(component, (stripline_property){.name = "count", .kind = STRIPLINE_PROPERTY_KIND_INTEGER, .integer_default = 3});
    add_property(component, (stripline_property){.name = "is_set", .kind = STRIPLINE_PROPERTY_KIND_BOOLEAN, .integer_default = 1});
    add_property(component, (stripline_property){.name = "mode", .kind = STRIPLINE_PROPERTY_KIND_CHOICE, .choices = "able | unable"});
    add_property(component, (stripline_property){.name = "file", .kind = STRIPLINE_PROPERTY_KIND_PATH});
    stripline_property read_only = {.access = STRIPLINE_PROPERTY_ACCESS_READ_ONLY};
    read_only.name = "packets", read_only.kind = STRIPLINE_PROPERTY_KIND_INTEGER, add_property(component, read_only);
    read_only.name = "level", read_only.kind = STRIPLINE_PROPERTY_KIND_FLOAT, add_property(component, read_only);
    read_only.name = "is_busy", read_only.kind = STRIPLINE_PROPERTY_KIND_BOOLEAN, add_property(component, read_only);
    read_only.name = "state", read_only.kind = STRIPLINE_PROPERTY_KIND_TEXT, add_property(component, read_only);
    IS(STRIPLINE_OK, stripline_component_add_test(component, "level", "how loud it is", &error));
    IS(STRIPLINE_OK, stripline_component_add_test(component, "noise", NULL, &error));
    stripline_component_functions functions = {.size = sizeof functions, .context = counts, .create = create, .run = run,
                                               .change = change, .test = test, .validate = validate, .destroy = destroy};
    IS(STRIPLINE_OK, stripline_component_set_functions(component, &functions, &error));
    return component;
}

static stripline_harness *harness_of(stripline_component *component) {
    stripline_harness *harness = NULL;
    IS(STRIPLINE_OK, stripline_harness_new(component, &harness, &error));
    IS(STRIPLINE_OK, stripline_harness_set_type(harness, "in", "u32", &error));
    return harness;
}

static stripline_publisher *input_of(stripline_harness *harness, const char *name) {
    stripline_sample_type type = {sizeof type, name, 0, 0};
    stripline_publisher *publisher = NULL;
    IS(STRIPLINE_OK, stripline_harness_input(harness, "in", &type, &publisher, &error));
    return publisher;
}

static stripline_subscriber *output_of(stripline_harness *harness, const char *name) {
    stripline_sample_type type = {sizeof type, name, 0, 0};
    stripline_subscriber *subscriber = NULL;
    IS(STRIPLINE_OK, stripline_harness_output(harness, "out", &type, NULL, &subscriber, &error));
    return subscriber;
}

static void value_is(stripline_harness *harness, const char *property, const char *expected) {
    stripline_text value = {NULL, 0};
    IS(STRIPLINE_OK, stripline_harness_get(harness, property, &value, &error));
    CHECK(text_is(value, expected));
}

/* Runs the component with inputs, changes and self-tests. */
static void runs(const char *mode) {
    struct counts counts = {.mode = mode};
    stripline_component *component = component_of(&counts);
    stripline_harness *harness = harness_of(component);
    stripline_component_free(component);
    IS(STRIPLINE_OK, stripline_harness_set(harness, "factor", "2", &error));
    IS(STRIPLINE_OK, stripline_harness_start(harness, &error));
    stripline_publisher *in = input_of(harness, "u32");
    stripline_subscriber *out = output_of(harness, "u32"), *words = NULL;
    IS(STRIPLINE_OK, stripline_harness_message_output(harness, "words", "message/word", NULL, &words, &error));
    send_u32(in, 10, 3);
    stripline_packet *packet = receive(out);
    CHECK(first_u32(packet) == 10 && stripline_packet_length(packet) == 3);
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    packet = receive(words);
    CHECK(stripline_packet_length(packet) == 2 && memcmp(stripline_packet_samples(packet), "\x18\x18", 2) == 0);
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));

    /* No packet arrives: the functions are called while the component waits. */
    stripline_test_outcome outcome = {.size = sizeof outcome};
    IS(STRIPLINE_OK, stripline_harness_set(harness, "factor", "3.5", &error));
    FAILS(STRIPLINE_INVALID_PROPERTIES, "not seven", stripline_harness_set(harness, "factor", "7", &error));
    FAILS(STRIPLINE_INVALID_PROPERTIES, "it returned 20 (failed)", stripline_harness_set(harness, "factor", "8", &error));
    /* `validate` refuses before `change` is called. */
    FAILS(STRIPLINE_INVALID_PROPERTIES, "nine does not fit the rest", stripline_harness_set(harness, "factor", "9", &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "did you mean `factor`?", stripline_harness_set(harness, "facter", "9", &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "from 0 to 10", stripline_harness_set(harness, "factor", "11", &error));
    FAILS(STRIPLINE_INVALID_PROPERTIES, "cannot be changed", stripline_harness_set(harness, "count", "4", &error));
    IS(STRIPLINE_OK, stripline_harness_test(harness, "level", &outcome, &error));
    CHECK(outcome.passed == 1 && outcome.has_value == 1 && outcome.value == -98.5 && text_is(outcome.text, "quiet"));
    IS(STRIPLINE_OK, stripline_harness_test(harness, "noise", &outcome, &error));
    CHECK(outcome.passed == 0 && outcome.has_value == 0 && text_is(outcome.text, "it is loud"));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "no self-test `other`", stripline_harness_test(harness, "other", &outcome, &error));
    CHECK(counts.changed == 3 && counts.tested == 2);
    value_is(harness, "level", "0.5");
    value_is(harness, "state", "at work");
    value_is(harness, "is_busy", "true");
    FAILS(STRIPLINE_INVALID_ARGUMENT, "no read-only property", stripline_harness_get(harness, "factor", &outcome.text, &error));

    send_u32(in, 20, 3);
    stripline_publisher_free(in);
    packet = receive(out);
    CHECK(first_u32(packet) == 20);
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    IS(STRIPLINE_ENDED, stripline_subscriber_receive(out, TIMEOUT_NS, &packet, &error));
    IS(STRIPLINE_OK, stripline_harness_finish(harness, 0, &error));
    value_is(harness, "packets", "2");
    CHECK(counts.created == 1 && counts.destroyed == 1);
    FAILS(STRIPLINE_PORT, "has ended", stripline_harness_finish(harness, 0, &error));
    stripline_subscriber_free(out);
    stripline_subscriber_free(words);
    stripline_harness_free(harness);
}

/* Ends the component in other ways than by the end of its input. */
static void ends(void) {
    /* The last component is destroyed after this function has returned. */
    static struct counts counts = {.mode = "fail"};
    stripline_component *component = component_of(&counts);
    const char *const words[] = {"it is broken", "it returned 4 (too-large)"};
    for (int index = 0; index < 2; index++) {
        counts.mode = index == 0 ? "fail" : "number";
        stripline_harness *harness = harness_of(component);
        IS(STRIPLINE_OK, stripline_harness_leave_unconnected(harness, "words", &error));
        IS(STRIPLINE_OK, stripline_harness_start(harness, &error));
        stripline_publisher *in = input_of(harness, "u32");
        stripline_subscriber *out = output_of(harness, "u32");
        stripline_packet *packet = NULL;
        stripline_test_outcome outcome = {.size = sizeof outcome};
        const uint32_t sample = 1;
        if (index == 0) {
            send_u32(in, 1, 1);
        }
        send_u32(in, 99, 1);
        /* The test gets the packets before the failure, and then the failure from each call. */
        if (index == 0) {
            packet = receive(out);
            CHECK(first_u32(packet) == 1);
            IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
        }
        FAILS(STRIPLINE_FAILED, words[index], stripline_subscriber_receive(out, STRIPLINE_FOREVER, &packet, &error));
        FAILS(STRIPLINE_FAILED, "the component ended with an error: it ",
              stripline_subscriber_receive(out, 0, &packet, &error));
        FAILS(STRIPLINE_FAILED, words[index], stripline_publisher_send(in, &sample, 1, NULL, &error));
        FAILS(STRIPLINE_FAILED, words[index], stripline_harness_set(harness, "factor", "2", &error));
        FAILS(STRIPLINE_FAILED, words[index], stripline_harness_test(harness, "level", &outcome, &error));
        FAILS(STRIPLINE_FAILED, words[index], stripline_harness_finish(harness, TIMEOUT_NS, &error));
        stripline_publisher_free(in);
        stripline_subscriber_free(out);
        stripline_harness_free(harness);
    }
    counts.mode = "early";
    stripline_harness *harness = harness_of(component);
    IS(STRIPLINE_OK, stripline_harness_start(harness, &error));
    stripline_publisher *in = input_of(harness, "u32");
    stripline_subscriber *out = output_of(harness, "u32");
    stripline_packet *packet = NULL;
    send_u32(in, 1, 1);
    IS(STRIPLINE_OK, stripline_harness_finish(harness, 0, &error));
    IS(STRIPLINE_ENDED, stripline_subscriber_receive(out, TIMEOUT_NS, &packet, &error));
    stripline_publisher_free(in);
    stripline_subscriber_free(out);
    stripline_harness_free(harness);

    /* A change is taken during a wait, which ends at a stop. */
    counts.mode = "pace";
    counts.changed = 0;
    harness = harness_of(component);
    IS(STRIPLINE_OK, stripline_harness_start(harness, &error));
    IS(STRIPLINE_OK, stripline_harness_set(harness, "factor", "2", &error));
    IS(STRIPLINE_OK, stripline_harness_stop(harness, &error));
    IS(STRIPLINE_OK, stripline_harness_finish(harness, 0, &error));
    stripline_harness_free(harness);

    counts.mode = "sleep";
    harness = harness_of(component);
    IS(STRIPLINE_OK, stripline_harness_start(harness, &error));
    IS(STRIPLINE_OK, stripline_harness_stop(harness, &error));
    IS(STRIPLINE_OK, stripline_harness_finish(harness, 0, &error));
    stripline_harness_free(harness);

    /* The error names a component that does not end in time. The component is stopped, and ends
     * later. */
    counts.mode = "run";
    harness = harness_of(component);
    IS(STRIPLINE_OK, stripline_harness_start(harness, &error));
    in = input_of(harness, "u32");
    FAILS(STRIPLINE_FAILED, "not ended within", stripline_harness_finish(harness, 1, &error));
    for (size_t receivers = 1; receivers > 0;) {
        IS(STRIPLINE_OK, stripline_publisher_receivers(in, &receivers, &error));
    }
    stripline_publisher_free(in);
    stripline_harness_free(harness);
    stripline_component_free(component);
}

/* Doubles the samples of each packet. */
static int32_t doubled(void *instance, stripline_packet *packet, stripline_made *made, stripline_reason *reason) {
    size_t length = stripline_packet_length(packet);
    const uint32_t *samples = stripline_packet_samples(packet);
    void *memory = NULL;
    CHECK(instance == NULL);
    FAILS(STRIPLINE_TOO_LARGE, "no memory", stripline_made_resize(made, SIZE_MAX, &memory, &error));
    FAILS(STRIPLINE_PORT, "ends when the handler returns", stripline_packet_release(packet, &error));
    IS(STRIPLINE_OK, stripline_made_resize(made, length, &memory, &error));
    CHECK((uintptr_t)memory % 16 == 0);
    for (size_t index = 0; index < length; index++) {
        ((uint32_t *)memory)[index] = 2 * samples[index];
    }
    return samples[0] == 99 ? stripline_reason_set(reason, "not ninety-nine") : STRIPLINE_OK;
}

static void handlers(const char *options) {
    stripline_component *component = NULL;
    stripline_harness *harness = NULL;
    IS(STRIPLINE_OK, stripline_component_new("double", "Doubles.", &component, &error));
    stripline_port port = {.size = sizeof port, .name = "in", .types = "u32"};
    IS(STRIPLINE_OK, stripline_component_add_port(component, &port, &error));
    port.name = "out", port.direction = STRIPLINE_PORT_DIRECTION_OUTPUT;
    IS(STRIPLINE_OK, stripline_component_add_port(component, &port, &error));
    stripline_component_functions functions = {.size = sizeof functions, .handle = doubled};
    IS(STRIPLINE_OK, stripline_component_set_functions(component, &functions, &error));
    for (int run = 0; run < 2; run++) {
        IS(STRIPLINE_OK, stripline_harness_new(component, &harness, &error));
        IS(STRIPLINE_OK, stripline_harness_set_options(harness, options, &error));
        IS(STRIPLINE_OK, stripline_harness_start(harness, &error));
        stripline_publisher *in = input_of(harness, "u32");
        stripline_subscriber *out = output_of(harness, "u32");
        for (uint32_t number = 0; number < 5; number++) {
            send_u32(in, number, number + 1);
        }
        for (uint32_t number = 0; number < 5; number++) {
            stripline_packet *packet = receive(out);
            CHECK(first_u32(packet) == 2 * number && stripline_packet_length(packet) == number + 1);
            IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
        }
        if (run == 1) {
            stripline_packet *packet = NULL;
            send_u32(in, 99, 1);
            FAILS(STRIPLINE_FAILED, "not ninety-nine",
                  stripline_subscriber_receive(out, STRIPLINE_FOREVER, &packet, &error));
            FAILS(STRIPLINE_HANDLER, "not ninety-nine", stripline_harness_finish(harness, TIMEOUT_NS, &error));
        }
        stripline_publisher_free(in);
        if (run == 0) {
            IS(STRIPLINE_OK, stripline_harness_finish(harness, 0, &error));
        }
        stripline_subscriber_free(out);
        stripline_harness_free(harness);
    }
    stripline_component_free(component);
}

int main(void) {
    const char *const modes[] = {"run", "hold", "window", "free"};
    for (int index = 0; index < 4; index++) {
        runs(modes[index]);
    }
    ends();
    handlers("[default]\ndepth = 8");
    handlers("[default]\ndispatch = 'pool(3, resequence)'");
    printf("components: done\n");
    return 0;
}
