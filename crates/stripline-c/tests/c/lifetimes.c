/* Packets and loans that outlive their subscribers, publishers and nodes. Run under
 * AddressSanitizer. */
#include <threads.h>

#include "check.h"

static void a_packet_outlives_its_subscriber_and_node(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "t", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "t", "u32", NULL);
    wait_for_receiver(publisher);
    send_u32(publisher, 5, 1000);
    stripline_packet *packet = receive(subscriber);
    const uint32_t *samples = stripline_packet_samples(packet);
    stripline_node_free(node);
    stripline_subscriber_free(subscriber);
    stripline_publisher_free(publisher);
    CHECK(samples[0] == 5 && samples[999] == 1004);
    stripline_packet_info info = {.size = sizeof info};
    IS(STRIPLINE_OK, stripline_packet_get_info(packet, &info, &error));
    IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
}

static int release_on_this_thread(void *packet) {
    return stripline_packet_release(packet, NULL);
}

static void held_packets_outlive_their_subscriber(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "t", "u32");
    stripline_subscriber_options options = {sizeof options, 3, 0, 0, 0};
    stripline_subscriber *subscriber = subscriber_of(node, "t", "u32", &options);
    wait_for_receiver(publisher);
    for (uint32_t number = 0; number < 6; number++) {
        send_u32(publisher, number, 100);
    }
    stripline_packet *held[3];
    for (uint32_t number = 0; number < 3; number++) {
        held[number] = receive(subscriber);
    }
    stripline_packet *packet = NULL;
    FAILS(STRIPLINE_TOO_MANY_HELD, "", stripline_subscriber_receive(subscriber, 0, &packet, &error));
    /* Packets are released in any order, on any thread. */
    IS(STRIPLINE_OK, stripline_packet_release(held[1], &error));
    FAILS(STRIPLINE_PORT, "released", stripline_packet_release(held[1], &error));
    held[1] = receive(subscriber);
    CHECK(first_u32(held[0]) == 0 && first_u32(held[1]) == 3 && first_u32(held[2]) == 2);
    thrd_t thread;
    int status = -1;
    CHECK(thrd_create(&thread, release_on_this_thread, held[2]) == thrd_success);
    thrd_join(thread, &status);
    CHECK(status == STRIPLINE_OK);
    held[2] = receive(subscriber);
    CHECK(first_u32(held[2]) == 4);
    stripline_subscriber_free(subscriber);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    for (int number = 2; number >= 0; number--) {
        CHECK(stripline_packet_length(held[number]) == 100);
        IS(STRIPLINE_OK, stripline_packet_release(held[number], &error));
    }
}

static void a_window_outlives_its_subscriber(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "t", "u32");
    stripline_subscriber_options options = {sizeof options, 0, 1, 0, 0};
    stripline_subscriber *subscriber = subscriber_of(node, "t", "u32", &options);
    wait_for_receiver(publisher);
    send_u32(publisher, 0, 10);
    send_u32(publisher, 10, 10);
    stripline_packet *window = NULL;
    IS(STRIPLINE_OK, stripline_subscriber_window(subscriber, 15, TIMEOUT_NS, &window, &error));
    stripline_subscriber_free(subscriber);
    CHECK(((const uint32_t *)stripline_packet_samples(window))[14] == 14);
    IS(STRIPLINE_OK, stripline_packet_consume(window, 5, &error));
    stripline_publisher_free(publisher);
    stripline_node_free(node);
}

static void a_loan_outlives_its_publisher(int is_committed) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "t", "u32");
    stripline_subscriber *subscriber = subscriber_of(node, "t", "u32", NULL);
    wait_for_receiver(publisher);
    stripline_loan *loan = NULL;
    void *memory = NULL;
    IS(STRIPLINE_OK, stripline_publisher_loan(publisher, 1000, &memory, &loan, &error));
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    memset(memory, 1, 4000);
    if (is_committed) {
        FAILS(STRIPLINE_PORT, "nothing was sent", stripline_loan_commit(loan, NULL, &error));
    } else {
        IS(STRIPLINE_OK, stripline_loan_cancel(loan, &error));
    }
    stripline_packet *packet = NULL;
    IS(STRIPLINE_ENDED, stripline_subscriber_receive(subscriber, TIMEOUT_NS, &packet, &error));
    stripline_subscriber_free(subscriber);
}

/* Two publishers of one program have a loan each. */
static void two_loans(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publishers[2] = {publisher_of(node, "t", "u32"), publisher_of(node, "t", "u32")};
    stripline_subscriber *subscriber = subscriber_of(node, "t", "u32", NULL);
    stripline_loan *loans[2];
    void *memories[2];
    for (int index = 0; index < 2; index++) {
        wait_for_receiver(publishers[index]);
        IS(STRIPLINE_OK, stripline_publisher_loan(publishers[index], 10, &memories[index], &loans[index], &error));
        memset(memories[index], index + 1, 40);
    }
    CHECK(memories[0] != memories[1]);
    IS(STRIPLINE_OK, stripline_loan_commit(loans[1], NULL, &error));
    IS(STRIPLINE_OK, stripline_loan_commit(loans[0], NULL, &error));
    uint32_t seen = 0;
    for (int index = 0; index < 2; index++) {
        stripline_packet *packet = receive(subscriber);
        seen += first_u32(packet);
        IS(STRIPLINE_OK, stripline_packet_release(packet, &error));
    }
    CHECK(seen == 0x03030303);
    stripline_publisher_free(publishers[1]);
    stripline_publisher_free(publishers[0]);
    stripline_subscriber_free(subscriber);
    stripline_node_free(node);
}

static void frees_in_every_order(void) {
    for (int order = 0; order < 6; order++) {
        stripline_node *node = isolated_node();
        stripline_publisher *publisher = publisher_of(node, "t", "u32");
        stripline_subscriber *subscriber = subscriber_of(node, "t", "u32", NULL);
        wait_for_receiver(publisher);
        send_u32(publisher, 1, 1);
        static const char orders[6][4] = {"nps", "nsp", "pns", "psn", "snp", "spn"};
        for (const char *what = orders[order]; *what != '\0'; what++) {
            switch (*what) {
            case 'n': stripline_node_free(node); break;
            case 'p': stripline_publisher_free(publisher); break;
            default: stripline_subscriber_free(subscriber);
            }
        }
    }
}

/* An error outlives the handle that it is about. */
static void errors_are_their_own(void) {
    stripline_node *node = isolated_node();
    stripline_publisher *publisher = publisher_of(node, "t", "u32");
    stripline_error *error = NULL;
    CHECK(stripline_publisher_send(publisher, NULL, 1, NULL, &error) == STRIPLINE_INVALID_ARGUMENT);
    stripline_publisher_free(publisher);
    stripline_node_free(node);
    CHECK(strstr(stripline_error_message(error), "samples") != NULL);
    CHECK(stripline_error_remedy(error)[0] != '\0');
    stripline_error_free(error);
}

int main(void) {
    a_packet_outlives_its_subscriber_and_node();
    held_packets_outlive_their_subscriber();
    a_window_outlives_its_subscriber();
    a_loan_outlives_its_publisher(1);
    a_loan_outlives_its_publisher(0);
    two_loans();
    frees_in_every_order();
    errors_are_their_own();
    printf("lifetimes: done\n");
    return 0;
}
