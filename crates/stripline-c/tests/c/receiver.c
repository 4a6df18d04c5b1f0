/* Receives from a sender in another process, up to the end of stream: `receiver DOMAIN TOPICS`.
 * Each sample must be its own index in the stream. With `hold` as the third argument, it keeps the
 * first packet and waits to be killed.
 */
#include "check.h"

int main(int count, char **arguments) {
    CHECK(count == 3 || count == 4);
    stripline_node_options options = {sizeof options, arguments[1], arguments[2], 0};
    stripline_node *node = NULL;
    IS(STRIPLINE_OK, stripline_node_new(&options, &node, &error));
    stripline_subscriber *subscriber = subscriber_of(node, "numbers", "u32", NULL);
    uint64_t packets = 0, samples = 0;
    for (;;) {
        stripline_packet *packet = NULL;
        stripline_error *error = NULL;
        stripline_status status = stripline_subscriber_receive(subscriber, TIMEOUT_NS, &packet, &error);
        if (status == STRIPLINE_ENDED) {
            break;
        }
        if (status != STRIPLINE_OK) {
            fprintf(stderr, "receive: %d: %s\n", (int)status, stripline_error_message(error));
            return 1;
        }
        if (count == 4) {
            printf("holds a packet\n");
            fflush(stdout);
            getchar();
        }
        stripline_packet_info info = {.size = sizeof info};
        IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
        CHECK(info.gap_reason == STRIPLINE_GAP_REASON_NONE);
        CHECK(info.sequence == packets && info.sample_index == samples);
        stripline_stream_view stream = {.size = sizeof stream};
        IS(STRIPLINE_OK, stripline_packet_get_stream(packet, &stream, &error));
        CHECK(text_is(stream.id, "of Rust") && stream.sample_rate_hz == 2.5e5);
        const uint32_t *memory = stripline_packet_samples(packet);
        size_t length = stripline_packet_length(packet);
        for (size_t index = 0; index < length; index++) {
            CHECK(memory[index] == samples + index);
        }
        packets += 1;
        samples += length;
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    }
    printf("received %u of %u samples\n", (unsigned)packets, (unsigned)samples);
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
    return 0;
}
