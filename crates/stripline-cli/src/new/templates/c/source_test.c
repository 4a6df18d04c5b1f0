/* Tests of the source, with one component in this process. */
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The time limit of a wait only ends a hang. */
static const int64_t limit_ns = INT64_C(60000000000);

static stripline_error *error = NULL;

static void check(int is_true, const char *what) {
    if (!is_true) {
        fprintf(stderr, "not true: %s; %s\n", what, error == NULL ? "no error" : stripline_error_message(error));
        exit(1);
    }
}

int main(void) {
    stripline_component *component = NULL;
    stripline_harness *harness = NULL;
    stripline_subscriber *out = NULL;
    stripline_sample_type type = {.size = sizeof type, .name = "f32"};
    check(source_new(&component, &error) == STRIPLINE_OK, "the type is valid");
    check(stripline_harness_new(component, &harness, &error) == STRIPLINE_OK, "there is a harness");
    check(stripline_harness_set(harness, "sample_rate", "3000", &error) == STRIPLINE_OK, "it takes a sample rate");
    check(stripline_harness_set(harness, "duration_s", "1", &error) == STRIPLINE_OK, "it takes a duration");
    check(stripline_harness_set(harness, "packet", "7", &error) == STRIPLINE_OK, "it takes a packet size");
    check(stripline_harness_start(harness, &error) == STRIPLINE_OK, "the component starts");
    check(stripline_harness_output(harness, "out", &type, NULL, &out, &error) == STRIPLINE_OK, "it has an output");
    float samples[3000];
    size_t count = 0;
    stripline_packet *packet = NULL;
    while (stripline_subscriber_receive(out, limit_ns, &packet, &error) == STRIPLINE_OK) {
        size_t length = stripline_packet_length(packet);
        check(count + length <= 3000, "it ends after a second");
        memcpy(&samples[count], stripline_packet_samples(packet), length * sizeof *samples);
        count += length;
        check(stripline_packet_release(packet, &error) == STRIPLINE_OK, "the packet is released");
    }
    check(count == 3000 && samples[1009] == 1 && samples[1010] == 0, "pulses do not depend on packets");
    check(stripline_harness_finish(harness, 0, &error) == STRIPLINE_OK, "the component ends");
    stripline_subscriber_free(out);
    stripline_harness_free(harness);
    stripline_component_free(component);
    return 0;
}
