/* Mistakes of a caller with components: each gives a status with a message, and no crash. */
#include "check.h"

#define BAD(words, call) FAILS(STRIPLINE_INVALID_ARGUMENT, words, call)

static int32_t run(void *instance, stripline_ports *ports, stripline_reason *reason) {
    (void)instance;
    stripline_subscriber *subscriber = NULL;
    stripline_publisher *publisher = NULL;
    stripline_packet *packet = NULL;
    const stripline_readout *readout = NULL;
    stripline_text text = {NULL, 0};
    stripline_subscriber_options both = {sizeof both, 1, 1, 0, 0}, windows = {sizeof windows, 0, 1, 0, 0};
    BAD("NULL", stripline_ports_input(NULL, "in", NULL, NULL, &subscriber, &error));
    BAD("NULL", stripline_ports_input(ports, NULL, NULL, NULL, &subscriber, &error));
    BAD("NULL", stripline_ports_output(ports, "out", NULL, NULL, &error));
    BAD("UTF-8", stripline_ports_input(ports, "\xff", NULL, NULL, &subscriber, &error));
    BAD("NULL", stripline_ports_readout(ports, "x", NULL, &error));
    BAD("NULL", stripline_ports_readout(NULL, "x", &readout, &error));
    BAD("NULL", stripline_ports_type(ports, "in", NULL, &error));
    BAD("NULL", stripline_ports_type(NULL, "in", &text, &error));
    BAD("NULL", stripline_ports_poll(NULL, &error));
    BAD("NULL", stripline_ports_sleep(NULL, 0, &error));
    BAD("NULL", stripline_ports_start_pace(NULL, 1, &error));
    BAD("NULL", stripline_ports_wait_for_pace(NULL, 1, NULL, &error));
    CHECK(text_is(stripline_ports_component(NULL), "") && stripline_ports_is_quiet(NULL) == 0);
    BAD("not a type of messages", stripline_ports_message_input(ports, "in", "u8", NULL, &subscriber, &error));
    FAILS(STRIPLINE_PORT, "u8", stripline_ports_message_input(ports, "in", NULL, NULL, &subscriber, &error));
    BAD("received whole", stripline_ports_message_input(ports, "in", NULL, &windows, &subscriber, &error));
    BAD("NULL", stripline_ports_input(ports, "in", NULL, NULL, NULL, &error));
    BAD("both set", stripline_ports_input(ports, "in", NULL, &both, &subscriber, &error));
    IS(STRIPLINE_OK, stripline_ports_input(ports, "in", NULL, &windows, &subscriber, &error));
    IS(STRIPLINE_OK, stripline_ports_output(ports, "out", NULL, &publisher, &error));
    FAILS(STRIPLINE_PORT, "windowed", stripline_ports_receive(ports, subscriber, &packet, &error));
    BAD("NULL", stripline_ports_window(ports, subscriber, 1, NULL, &error));
    BAD("NULL", stripline_ports_window(ports, NULL, 1, &packet, &error));
    BAD("NULL", stripline_ports_window(NULL, subscriber, 1, &packet, &error));
    BAD("NULL", stripline_ports_receive(NULL, subscriber, &packet, &error));
    stripline_reason_set(reason, NULL);
    stripline_reason_set(NULL, "words");
    CHECK(stripline_reason_take(NULL, NULL) == STRIPLINE_OK);
    return stripline_reason_set(reason, "no UTF-8: \xff");
}

static int32_t handle(void *instance, stripline_packet *packet, stripline_made *made, stripline_reason *reason) {
    (void)instance, (void)packet, (void)made, (void)reason;
    return STRIPLINE_OK;
}

static int32_t change(void *instance, const stripline_properties *properties, stripline_reason *reason) {
    (void)instance, (void)properties, (void)reason;
    return STRIPLINE_OK;
}

static stripline_component *component_of(const char *name) {
    stripline_component *component = NULL;
    IS(STRIPLINE_OK, stripline_component_new(name, "", &component, &error));
    return component;
}

static void add_port(stripline_component *component, const char *name, uint32_t direction) {
    stripline_port port = {.size = sizeof port, .name = name, .types = "u8", .direction = direction};
    IS(STRIPLINE_OK, stripline_component_add_port(component, &port, &error));
}

static void set_functions(stripline_component *component, stripline_component_functions functions) {
    functions.size = sizeof functions;
    IS(STRIPLINE_OK, stripline_component_set_functions(component, &functions, &error));
}

static void declarations(void) {
    stripline_component *component = NULL, *it = component_of("it");
    BAD("NULL", stripline_component_new(NULL, "", &component, &error));
    BAD("NULL", stripline_component_new("a", NULL, &component, &error));
    BAD("NULL", stripline_component_new("a", "", NULL, &error));
    BAD("not a valid component name", stripline_component_new("a b", "", &component, &error));
    BAD("not a valid component name", stripline_component_new("", "", &component, &error));
    BAD("UTF-8", stripline_component_new("a", "\xff", &component, &error));

    stripline_port port = {.size = sizeof port, .name = "p", .types = "u8"};
    BAD("NULL", stripline_component_add_port(NULL, &port, &error));
    BAD("NULL", stripline_component_add_port(it, NULL, &error));
    port.name = "p.q";
    BAD("not a valid port name", stripline_component_add_port(it, &port, &error));
    port.name = "p", port.types = "u8 | ?";
    BAD("port->types", stripline_component_add_port(it, &port, &error));
    port.types = "u8", port.same_as = "q";
    BAD("set one of them", stripline_component_add_port(it, &port, &error));
    port.same_as = NULL, port.direction = 2;
    BAD("at most 1", stripline_component_add_port(it, &port, &error));
    port.direction = STRIPLINE_PORT_DIRECTION_OUTPUT, port.many_writers = 1;
    BAD("for inputs", stripline_component_add_port(it, &port, &error));
    port.many_writers = 0, port.shape = "rows";
    BAD("for inputs", stripline_component_add_port(it, &port, &error));
    port.shape = "row";
    BAD("one of signal, rows, frames", stripline_component_add_port(it, &port, &error));
    port.shape = NULL, port.size = 3;
    BAD("matches no version", stripline_component_add_port(it, &port, &error));
    add_port(it, "p", 0);
    port.size = sizeof port;
    BAD("already", stripline_component_add_port(it, &port, &error));

    stripline_property property = {.size = sizeof property, .name = "x", .kind = STRIPLINE_PROPERTY_KIND_FLOAT};
    BAD("NULL", stripline_component_add_property(NULL, &property, &error));
    BAD("NULL", stripline_component_add_property(it, NULL, &error));
    property.kind = 0;
    BAD("from 1 to 6", stripline_component_add_property(it, &property, &error));
    property.kind = STRIPLINE_PROPERTY_KIND_FLOAT, property.access = 3;
    BAD("at most 2", stripline_component_add_property(it, &property, &error));
    property.access = STRIPLINE_PROPERTY_ACCESS_READ_ONLY, property.required = 1;
    BAD("read-only and required", stripline_component_add_property(it, &property, &error));
    property.access = 0, property.required = 0, property.has_range = 1, property.float_min = 2, property.float_max = 1;
    BAD("no number in it", stripline_component_add_property(it, &property, &error));
    property.float_max = 3;
    BAD("the default of `x` is 0", stripline_component_add_property(it, &property, &error));
    property.kind = STRIPLINE_PROPERTY_KIND_INTEGER, property.integer_min = 1, property.integer_max = 0;
    BAD("no number in it", stripline_component_add_property(it, &property, &error));
    property.kind = STRIPLINE_PROPERTY_KIND_CHOICE, property.choices = "a||b";
    BAD("empty word", stripline_component_add_property(it, &property, &error));
    property.choices = "a|b", property.text_default = "c";
    BAD("must be one of a, b", stripline_component_add_property(it, &property, &error));
    property.text_default = "b";
    IS(STRIPLINE_OK, stripline_component_add_property(it, &property, &error));
    BAD("already", stripline_component_add_property(it, &property, &error));

    BAD("NULL", stripline_component_add_test(NULL, "t", "", &error));
    BAD("NULL", stripline_component_add_test(it, NULL, "", &error));
    BAD("not a valid self-test name", stripline_component_add_test(it, "", "", &error));
    BAD("NULL", stripline_component_set_functions(it, NULL, &error));
    BAD("NULL", stripline_component_set_functions(NULL, NULL, &error));
    stripline_component_free(it);
    stripline_component_free(NULL);
}

/* Declared items without a function. */
static void functions(void) {
    stripline_component *it = component_of("it");
    stripline_harness *harness = NULL;
    BAD("NULL", stripline_harness_new(NULL, &harness, &error));
    BAD("NULL", stripline_harness_new(it, NULL, &error));
    BAD("no function that runs it", stripline_harness_new(it, &harness, &error));
    set_functions(it, (stripline_component_functions){.run = run, .handle = handle});
    BAD("set one of them", stripline_harness_new(it, &harness, &error));
    set_functions(it, (stripline_component_functions){.handle = handle});
    BAD("has 0 inputs and 0 outputs", stripline_harness_new(it, &harness, &error));
    add_port(it, "in", 0);
    stripline_property count = {.size = sizeof count, .name = "count", .kind = STRIPLINE_PROPERTY_KIND_INTEGER,
                                .access = STRIPLINE_PROPERTY_ACCESS_READ_ONLY};
    IS(STRIPLINE_OK, stripline_component_add_property(it, &count, &error));
    BAD("which only `run` can set", stripline_harness_new(it, &harness, &error));
    set_functions(it, (stripline_component_functions){.run = run});
    count.name = "level", count.access = STRIPLINE_PROPERTY_ACCESS_CHANGEABLE;
    IS(STRIPLINE_OK, stripline_component_add_property(it, &count, &error));
    BAD("no function `change` for its property `level`", stripline_harness_new(it, &harness, &error));
    set_functions(it, (stripline_component_functions){.run = run, .change = change});
    IS(STRIPLINE_OK, stripline_component_add_test(it, "unity", NULL, &error));
    BAD("no function `test` for its self-test `unity`", stripline_harness_new(it, &harness, &error));

    char *arguments[] = {"program", "--describe", NULL};
    CHECK(stripline_main(2, arguments, NULL, 1) == 1);
    CHECK(stripline_main(2, arguments, &it, 0) == 1);
    CHECK(stripline_main(2, NULL, &it, 1) == 1);
    CHECK(stripline_main(2, arguments, &it, 1) == 1);
    stripline_component *two[] = {component_of("a"), component_of("a")};
    set_functions(two[0], (stripline_component_functions){.run = run});
    set_functions(two[1], (stripline_component_functions){.run = run});
    CHECK(stripline_main(2, arguments, two, 2) == 1);
    arguments[1] = "--no-such-option";
    CHECK(stripline_main(2, arguments, two, 1) == 2);
    CHECK(stripline_main(1, arguments, two, 1) == 2);
    stripline_component_free(two[0]);
    stripline_component_free(two[1]);
    stripline_component_free(it);
}

static void harnesses(void) {
    stripline_component *it = component_of("it");
    stripline_harness *harness = NULL;
    stripline_publisher *publisher = NULL;
    stripline_subscriber *subscriber = NULL;
    stripline_text text = {NULL, 0};
    stripline_test_outcome outcome = {.size = sizeof outcome};
    stripline_sample_type type = {sizeof type, "u8", 0, 0};
    add_port(it, "in", 0);
    add_port(it, "out", 1);
    set_functions(it, (stripline_component_functions){.run = run});
    IS(STRIPLINE_OK, stripline_harness_new(it, &harness, &error));
    BAD("no property `x`", stripline_harness_set(harness, "x", "1", &error));
    BAD("NULL", stripline_harness_set(harness, NULL, "1", &error));
    BAD("NULL", stripline_harness_set(NULL, "x", "1", &error));
    BAD("type", stripline_harness_set_type(harness, "in", "?", &error));
    FAILS(STRIPLINE_CONFIGURATION, "depht", stripline_harness_set_options(harness, "[default]\ndepht = 1", &error));
    BAD("NULL", stripline_harness_leave_unconnected(harness, NULL, &error));
    FAILS(STRIPLINE_PORT, "not started", stripline_harness_input(harness, "in", &type, &publisher, &error));
    FAILS(STRIPLINE_PORT, "not started", stripline_harness_output(harness, "out", &type, NULL, &subscriber, &error));
    FAILS(STRIPLINE_PORT, "not started", stripline_harness_message_input(harness, "in", NULL, &publisher, &error));
    FAILS(STRIPLINE_PORT, "not started", stripline_harness_message_output(harness, "out", NULL, NULL, &subscriber, &error));
    FAILS(STRIPLINE_PORT, "not started", stripline_harness_test(harness, "t", &outcome, &error));
    FAILS(STRIPLINE_PORT, "not started", stripline_harness_stop(harness, &error));
    FAILS(STRIPLINE_PORT, "not started", stripline_harness_finish(harness, 0, &error));
    BAD("no read-only property", stripline_harness_get(harness, "x", &text, &error));
    IS(STRIPLINE_OK, stripline_harness_start(harness, &error));
    FAILS(STRIPLINE_PORT, "started before", stripline_harness_start(harness, &error));
    FAILS(STRIPLINE_PORT, "started before", stripline_harness_set_type(harness, "in", "u8", &error));
    BAD("NULL", stripline_harness_input(harness, "in", NULL, &publisher, &error));
    BAD("NULL", stripline_harness_input(harness, "in", &type, NULL, &error));
    BAD("NULL", stripline_harness_output(harness, "out", &type, NULL, NULL, &error));
    BAD("NULL", stripline_harness_test(harness, "t", NULL, &error));
    FAILS(STRIPLINE_PORT, "has no such port", stripline_harness_input(harness, "inn", &type, &publisher, &error));
    FAILS(STRIPLINE_PORT, "u8", stripline_harness_message_input(harness, "in", NULL, &publisher, &error));
    /* The words of the component, with the invalid byte replaced. */
    FAILS(STRIPLINE_FAILED, "no UTF-8: \xef\xbf\xbd", stripline_harness_finish(harness, 0, &error));
    stripline_harness_free(harness);
    stripline_harness_free(NULL);
    /* A harness that is never started. */
    IS(STRIPLINE_OK, stripline_harness_new(it, &harness, &error));
    stripline_component_free(it);
    stripline_harness_free(harness);
}

int main(void) {
    declarations();
    functions();
    harnesses();
    printf("bad_components: done\n");
    return 0;
}
