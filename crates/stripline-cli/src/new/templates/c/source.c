/* A source of pulses. */
#include "source.h"

#include <stdlib.h>

struct source {
    int64_t period, packet;
    double sample_rate, duration_s, rate;
};

static int32_t create(void *context, const stripline_properties *properties, void **instance, stripline_reason *reason) {
    (void)context;
    stripline_error *error = NULL;
    struct source *source = calloc(1, sizeof *source);
    if (source == NULL) {
        return stripline_reason_set(reason, "out of memory");
    }
    if (stripline_properties_integer(properties, "period", &source->period, &error) > 0 ||
        stripline_properties_integer(properties, "packet", &source->packet, &error) > 0 ||
        stripline_properties_float(properties, "sample_rate", &source->sample_rate, &error) > 0 ||
        stripline_properties_float(properties, "duration_s", &source->duration_s, &error) > 0 ||
        stripline_properties_float(properties, "rate", &source->rate, &error) > 0) {
        free(source);
        return stripline_reason_take(reason, error);
    }
    *instance = source;
    return STRIPLINE_OK;
}

/* Sends the samples before number `end`, in packets that are sent when their last sample is due. */
static int32_t run(void *instance, stripline_ports *ports, stripline_reason *reason) {
    const struct source *source = instance;
    stripline_error *error = NULL;
    stripline_publisher *out = NULL;
    stripline_stream_description stream = {
        .size = sizeof stream,
        .set = STRIPLINE_STREAM_SET_SAMPLE_RATE,
        .id = "pulses",
        .sample_rate_hz = source->sample_rate,
    };
    if (stripline_ports_output(ports, "out", NULL, &out, &error) > 0 ||
        stripline_publisher_set_stream(out, &stream, &error) > 0 ||
        stripline_ports_start_pace(ports, source->rate, &error) > 0) {
        return stripline_reason_take(reason, error);
    }
    const double samples = source->duration_s * source->sample_rate;
    const uint64_t end = samples > 0 && samples < 1e19 ? (uint64_t)(samples + 0.5) : UINT64_MAX;
    for (uint64_t next = 0; next < end;) {
        uint64_t length = end - next < (uint64_t)source->packet ? end - next : (uint64_t)source->packet;
        stripline_loan *loan = NULL;
        void *memory = NULL;
        if (stripline_publisher_loan(out, length, &memory, &loan, &error) > 0) {
            return stripline_reason_take(reason, error);
        }
        for (uint64_t index = 0; index < length; index++, next++) {
            ((float *)memory)[index] = next % (uint64_t)source->period < 10 ? 1.0f : 0.0f;
        }
        stripline_send_options options = {.size = sizeof options, .set = STRIPLINE_SEND_SET_INTENDED};
        if (stripline_ports_wait_for_pace(ports, next, &options.intended_ns, &error) > 0 ||
            stripline_loan_commit(loan, &options, &error) > 0) {
            return stripline_reason_take(reason, error);
        }
    }
    return STRIPLINE_OK;
}

/* Returns a property that is a number. */
static stripline_property number(const char *name, double initial, double min, double max, const char *unit) {
    return (stripline_property){
        .size = sizeof(stripline_property),
        .name = name,
        .kind = STRIPLINE_PROPERTY_KIND_FLOAT,
        .has_range = 1,
        .float_default = initial,
        .float_min = min,
        .float_max = max,
        .integer_default = (int64_t)initial,
        .integer_min = (int64_t)min,
        .integer_max = (int64_t)max,
        .unit = unit,
    };
}

stripline_status source_new(stripline_component **component, stripline_error **error) {
    stripline_port out = {.size = sizeof out, .name = "out", .types = "f32", .summary = "1 within a pulse, 0 between"};
    out.direction = STRIPLINE_PORT_DIRECTION_OUTPUT;
    stripline_property properties[] = {
        number("period", 1000, 10, 1 << 30, "samples"),
        number("packet", 480, 1, 1 << 27, "samples"),
        number("sample_rate", 48e3, 1, 1e12, "Hz"),
        number("duration_s", 0, 0, 1e9, "s"),
        number("rate", 0, 0, 1e12, "samples/s"),
    };
    properties[0].kind = properties[1].kind = STRIPLINE_PROPERTY_KIND_INTEGER;
    properties[0].summary = "from pulse to pulse";
    properties[1].summary = "samples in a packet";
    properties[2].summary = "of the stream";
    properties[3].summary = "length of the signal; 0: for ever";
    properties[4].summary = "pace; 0: as fast as the receivers take them";
    stripline_component_functions functions = {
        .size = sizeof functions, .create = create, .run = run, .destroy = free};
    stripline_status status = stripline_component_new("source", "Sends pulses of 10 samples.", component, error);
    if (status == STRIPLINE_OK) {
        status = stripline_component_add_port(*component, &out, error);
    }
    for (size_t index = 0; status == STRIPLINE_OK && index < sizeof properties / sizeof *properties; index++) {
        status = stripline_component_add_property(*component, &properties[index], error);
    }
    return status == STRIPLINE_OK ? stripline_component_set_functions(*component, &functions, error) : status;
}
