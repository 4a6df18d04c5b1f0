/* Tests of the filter, with one component in this process. */
#include "filter.h"

#include <stdio.h>
#include <stdlib.h>

/* The time limit of a wait only ends a hang. */
static const int64_t limit_ns = INT64_C(60000000000);

static stripline_error *error = NULL;

static void check(int is_true, const char *what) {
    if (!is_true) {
        fprintf(stderr, "not true: %s; %s\n", what, error == NULL ? "no error" : stripline_error_message(error));
        exit(1);
    }
}

/* Sends three samples, and checks the last one behind the filter. */
static void becomes(stripline_publisher *in, stripline_subscriber *out, float expected) {
    const float samples[] = {1, 2, 3};
    stripline_packet *packet = NULL;
    check(stripline_publisher_send(in, samples, 3, NULL, &error) == STRIPLINE_OK, "samples are sent");
    check(stripline_subscriber_receive(out, limit_ns, &packet, &error) == STRIPLINE_OK, "a packet arrives");
    check(stripline_packet_length(packet) == 3, "it has three samples");
    check(((const float *)stripline_packet_samples(packet))[2] == expected, "samples are multiplied");
    check(stripline_packet_release(packet, &error) == STRIPLINE_OK, "the packet is released");
}

int main(void) {
    stripline_component *component = NULL;
    stripline_harness *harness = NULL;
    stripline_publisher *in = NULL;
    stripline_subscriber *out = NULL;
    stripline_sample_type type = {.size = sizeof type, .name = "f32"};
    check(filter_new(&component, &error) == STRIPLINE_OK, "the type is valid");
    check(stripline_harness_new(component, &harness, &error) == STRIPLINE_OK, "there is a harness");
    check(stripline_harness_start(harness, &error) == STRIPLINE_OK, "the component starts");
    check(stripline_harness_input(harness, "in", &type, &in, &error) == STRIPLINE_OK, "it has an input");
    check(stripline_harness_output(harness, "out", &type, NULL, &out, &error) == STRIPLINE_OK, "it has an output");
    becomes(in, out, 6);
    check(stripline_harness_set(harness, "factor", "3", &error) == STRIPLINE_OK, "the factor can be changed");
    becomes(in, out, 9);
    stripline_publisher_free(in);
    check(stripline_harness_finish(harness, 0, &error) == STRIPLINE_OK, "the component ends");
    stripline_subscriber_free(out);
    stripline_harness_free(harness);
    stripline_component_free(component);
    return 0;
}
