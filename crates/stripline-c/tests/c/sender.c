/* Sends to a receiver in another process: `sender DOMAIN TOPICS PACKETS SAMPLES`. Each sample is
 * its own index in the stream. With `hold` as the fifth argument, it then opens a loan and waits to
 * be killed.
 */
#include "check.h"

int main(int count, char **arguments) {
    CHECK(count == 5 || count == 6);
    stripline_node_options options = {sizeof options, arguments[1], arguments[2], 0};
    stripline_node *node = NULL;
    IS(STRIPLINE_OK, stripline_node_new(&options, &node, &error));
    stripline_publisher *publisher = publisher_of(node, "numbers", "u32");
    stripline_stream_description stream = {sizeof stream, STRIPLINE_STREAM_SET_SAMPLE_RATE, "of C", 5e5, 0, 0, NULL, 0, 0, NULL, 0, 0};
    IS(STRIPLINE_OK, stripline_publisher_set_stream(publisher, &stream, &error));
    wait_for_receiver(publisher);
    uint32_t packets = (uint32_t)strtoul(arguments[3], NULL, 10);
    uint32_t samples = (uint32_t)strtoul(arguments[4], NULL, 10);
    for (uint32_t number = 0; number < packets; number++) {
        send_u32(publisher, number * samples, samples);
    }
    if (count == 6) {
        stripline_loan *loan = NULL;
        void *memory = NULL;
        IS(STRIPLINE_OK, stripline_publisher_loan(publisher, samples, &memory, &loan, &error));
        printf("holds a loan\n");
        fflush(stdout);
        getchar();
    }
    IS(STRIPLINE_OK, stripline_publisher_finish(publisher, TIMEOUT_NS, &error));
    printf("sent %u\n", packets);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    return 0;
}
