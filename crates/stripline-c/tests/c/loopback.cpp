// The header in C++: one packet from a publisher to a subscriber.
#include <cstdio>
#include <stripline.h>

#define CHECK(condition) \
    if (!(condition)) { \
        std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
        return 1; \
    }

int main() {
    stripline_node_options options{};
    options.size = sizeof options;
    options.isolated = 1;
    stripline_sample_type type{};
    type.size = sizeof type;
    type.name = "f64";
    stripline_node *node = nullptr;
    stripline_publisher *publisher = nullptr;
    stripline_subscriber *subscriber = nullptr;
    stripline_packet *packet = nullptr;
    CHECK(stripline_node_new(&options, &node, nullptr) == STRIPLINE_OK);
    CHECK(stripline_publisher_new(node, "x", &type, &publisher, nullptr) == STRIPLINE_OK);
    CHECK(stripline_subscriber_new(node, "x", &type, nullptr, &subscriber, nullptr) == STRIPLINE_OK);
    CHECK(stripline_publisher_wait_for_receivers(publisher, 1, STRIPLINE_FOREVER, nullptr) == STRIPLINE_OK);
    const double sample = 2.5;
    CHECK(stripline_publisher_send(publisher, &sample, 1, nullptr, nullptr) == STRIPLINE_OK);
    CHECK(stripline_subscriber_receive(subscriber, STRIPLINE_FOREVER, &packet, nullptr) == STRIPLINE_OK);
    CHECK(*static_cast<const double *>(stripline_packet_samples(packet)) == 2.5);
    CHECK(stripline_packet_release(packet, nullptr) == STRIPLINE_OK);
    stripline_subscriber_free(subscriber);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    std::puts("loopback: done");
}
