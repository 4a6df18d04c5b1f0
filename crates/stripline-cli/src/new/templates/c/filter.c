/* A component that multiplies every sample by a factor. */
#include "filter.h"

#include <stdlib.h>

struct filter {
    float factor;
};

/* Takes a new factor, between two packets. The range has been checked. */
static int32_t change(void *instance, const stripline_properties *properties, stripline_reason *reason) {
    struct filter *filter = instance;
    stripline_error *error = NULL;
    double factor = 0;
    if (stripline_properties_float(properties, "factor", &factor, &error) > 0) {
        return stripline_reason_take(reason, error);
    }
    filter->factor = (float)factor;
    return STRIPLINE_OK;
}

static int32_t create(void *context, const stripline_properties *properties, void **instance, stripline_reason *reason) {
    (void)context;
    *instance = calloc(1, sizeof(struct filter));
    return *instance == NULL ? (int32_t)stripline_reason_set(reason, "out of memory") : change(*instance, properties, reason);
}

/* Runs until the end of the input. Ports and packets taken from `ports` end when this returns. */
static int32_t run(void *instance, stripline_ports *ports, stripline_reason *reason) {
    const struct filter *filter = instance;
    stripline_error *error = NULL;
    stripline_subscriber *in = NULL;
    stripline_publisher *out = NULL;
    if (stripline_ports_input(ports, "in", NULL, NULL, &in, &error) > 0 ||
        stripline_ports_output(ports, "out", NULL, &out, &error) > 0) {
        return stripline_reason_take(reason, error);
    }
    for (;;) {
        stripline_packet *packet = NULL;
        stripline_loan *loan = NULL;
        void *memory = NULL;
        /* `change` is called within this call. */
        stripline_status status = stripline_ports_receive(ports, in, &packet, &error);
        if (status == STRIPLINE_ENDED) {
            return STRIPLINE_OK;
        }
        size_t length = stripline_packet_length(packet);
        if (status > 0 || stripline_publisher_loan(out, length, &memory, &loan, &error) > 0) {
            return stripline_reason_take(reason, error);
        }
        const float *x = stripline_packet_samples(packet);
        float *y = memory;
        for (size_t index = 0; index < length; index++) {
            y[index] = filter->factor * x[index];
        }
        /* The same stream, sample index and time. */
        if (stripline_loan_commit_like(loan, packet, &error) > 0 || stripline_packet_release(packet, &error) > 0) {
            return stripline_reason_take(reason, error);
        }
    }
}

stripline_status filter_new(stripline_component **component, stripline_error **error) {
    stripline_port in = {.size = sizeof in, .name = "in", .types = "f32", .summary = "samples"};
    stripline_port out = {.size = sizeof out, .name = "out", .types = "f32", .summary = "samples times the factor"};
    out.direction = STRIPLINE_PORT_DIRECTION_OUTPUT;
    stripline_property factor = {
        .size = sizeof factor,
        .name = "factor",
        .kind = STRIPLINE_PROPERTY_KIND_FLOAT,
        .access = STRIPLINE_PROPERTY_ACCESS_CHANGEABLE,
        .float_default = 2,
        .has_range = 1,
        .float_max = 1e6,
        .summary = "linear gain",
    };
    stripline_component_functions functions = {
        .size = sizeof functions, .create = create, .run = run, .change = change, .destroy = free};
    stripline_status status = stripline_component_new("filter", "Multiplies every sample by a factor.", component, error);
    if (status == STRIPLINE_OK) {
        status = stripline_component_add_port(*component, &in, error);
    }
    if (status == STRIPLINE_OK) {
        status = stripline_component_add_port(*component, &out, error);
    }
    if (status == STRIPLINE_OK) {
        status = stripline_component_add_property(*component, &factor, error);
    }
    return status == STRIPLINE_OK ? stripline_component_set_functions(*component, &functions, error) : status;
}
