/* A component: multiplies every sample by a factor, which can be changed while it runs. `docs/c.md`
 * explains it.
 *
 *     [component.gain]
 *     exec = "./gain"
 *     properties = { factor = 2.0 }
 */
#include <complex.h>
#include <stdio.h>
#include <stdlib.h>

#include <stripline.h>

struct gain {
    float factor;
};

/* Creates a gain from properties that have been checked. */
static int32_t create(void *context, const stripline_properties *properties, void **instance, stripline_reason *reason) {
    (void)context;
    stripline_error *error = NULL;
    double factor = 0;
    if (stripline_properties_float(properties, "factor", &factor, &error) > 0) {
        return stripline_reason_take(reason, error);
    }
    struct gain *gain = malloc(sizeof *gain);
    if (gain == NULL) {
        return stripline_reason_set(reason, "out of memory");
    }
    gain->factor = (float)factor;
    *instance = gain;
    return STRIPLINE_OK;
}

/* Runs until the end of the input. Ports and packets taken from `ports` end when this returns. */
static int32_t run(void *instance, stripline_ports *ports, stripline_reason *reason) {
    struct gain *gain = instance;
    stripline_error *error = NULL;
    stripline_sample_type type = {.size = sizeof type, .name = "cf32"};
    stripline_subscriber *in = NULL;
    stripline_publisher *out = NULL;
    const stripline_readout *packets = NULL;
    if (stripline_ports_input(ports, "in", &type, NULL, &in, &error) > 0 ||
        stripline_ports_output(ports, "out", &type, &out, &error) > 0 ||
        stripline_ports_readout(ports, "packets", &packets, &error) > 0) {
        return stripline_reason_take(reason, error);
    }
    for (;;) {
        stripline_packet *packet = NULL;
        stripline_loan *loan = NULL;
        void *memory = NULL;
        /* `change` and `test` are called within this call. */
        stripline_status status = stripline_ports_receive(ports, in, &packet, &error);
        if (status == STRIPLINE_ENDED) {
            return STRIPLINE_OK;
        }
        size_t length = stripline_packet_length(packet);
        if (status > 0 || stripline_publisher_loan(out, length, &memory, &loan, &error) > 0) {
            return stripline_reason_take(reason, error);
        }
        const float complex *x = stripline_packet_samples(packet);
        float complex *y = memory;
        for (size_t index = 0; index < length; index++) {
            y[index] = gain->factor * x[index];
        }
        if (stripline_loan_commit_like(loan, packet, &error) > 0 || stripline_packet_release(packet, &error) > 0 ||
            stripline_readout_add(packets, 1, &error) > 0) {
            return stripline_reason_take(reason, error);
        }
    }
}

/* Takes a new factor, between two packets. The range has been checked. */
static int32_t change(void *instance, const stripline_properties *properties, stripline_reason *reason) {
    struct gain *gain = instance;
    stripline_error *error = NULL;
    double factor = 0;
    if (stripline_properties_float(properties, "factor", &factor, &error) > 0) {
        return stripline_reason_take(reason, error);
    }
    if (factor == 0) {
        return stripline_reason_set(reason, "a factor of 0 would hide the signal");
    }
    gain->factor = (float)factor;
    return STRIPLINE_OK;
}

/* Runs the self-test: a sample of 1 becomes the factor. */
static int32_t test(void *instance, const char *name, double *value, stripline_reason *remark) {
    const struct gain *gain = instance;
    (void)name;
    *value = gain->factor * 1.0f;
    stripline_reason_set(remark, *value == gain->factor ? "a one becomes the factor" : "the arithmetic is broken");
    return *value == gain->factor ? STRIPLINE_OK : STRIPLINE_FAILED;
}

static void check(stripline_status status, stripline_error *error) {
    if (status > 0) {
        fprintf(stderr, "error: %s\n", stripline_error_message(error));
        exit(1);
    }
}

int main(int count, char **arguments) {
    stripline_error *error = NULL;
    stripline_component *component = NULL;
    check(stripline_component_new("gain", "Multiplies every sample by a factor.", &component, &error), error);
    stripline_port in = {.size = sizeof in, .name = "in", .types = "cf32", .summary = "samples"};
    stripline_port out = {.size = sizeof out, .name = "out", .types = "cf32", .summary = "samples times the factor"};
    out.direction = STRIPLINE_PORT_DIRECTION_OUTPUT;
    stripline_property factor = {
        .size = sizeof factor,
        .name = "factor",
        .kind = STRIPLINE_PROPERTY_KIND_FLOAT,
        .access = STRIPLINE_PROPERTY_ACCESS_CHANGEABLE,
        .float_default = 1,
        .has_range = 1,
        .float_max = 1e6,
        .summary = "linear gain",
    };
    stripline_property packets = {
        .size = sizeof packets,
        .name = "packets",
        .kind = STRIPLINE_PROPERTY_KIND_INTEGER,
        .access = STRIPLINE_PROPERTY_ACCESS_READ_ONLY,
        .summary = "packets so far",
    };
    stripline_component_functions functions = {
        .size = sizeof functions, .create = create, .run = run, .change = change, .test = test, .destroy = free};
    check(stripline_component_add_port(component, &in, &error), error);
    check(stripline_component_add_port(component, &out, &error), error);
    check(stripline_component_add_property(component, &factor, &error), error);
    check(stripline_component_add_property(component, &packets, &error), error);
    check(stripline_component_add_test(component, "unity", "a one becomes the factor", &error), error);
    check(stripline_component_set_functions(component, &functions, &error), error);
    return stripline_main(count, arguments, &component, 1);
}
