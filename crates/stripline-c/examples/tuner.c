/* A service of two operations, and its client, in two or more processes. `docs/languages.md` shows
 * it beside the same program in other languages.
 *
 *     ./tuner serve          in one terminal: Ctrl-C ends it
 *     ./tuner tune 433.92    in another
 *     ./tuner status
 *
 * Requests and replies are CBOR. This program writes and reads only the few forms that it needs.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stripline.h>

/* The rest of a message, to read or to write. */
struct cbor {
    uint8_t *at;
    uint8_t *end;
};

static void put(struct cbor *out, uint8_t first, const void *bytes, size_t length) {
    if ((size_t)(out->end - out->at) < 1 + length) {
        abort();
    }
    *out->at++ = first;
    if (length > 0) {
        memcpy(out->at, bytes, length);
    }
    out->at += length;
}

/* Writes a text of less than 24 bytes. */
static void put_text(struct cbor *out, const char *text) {
    put(out, (uint8_t)(0x60 + strlen(text)), text, strlen(text));
}

static void put_float(struct cbor *out, double number) {
    uint64_t bits;
    uint8_t bytes[8];
    memcpy(&bits, &number, sizeof bits);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    put(out, 0xfb, bytes, sizeof bytes);
}

/* Reads a float of any length, or a whole number; NAN for anything else. */
static double take_number(struct cbor *from) {
    if (from->at == from->end) {
        return NAN;
    }
    const uint8_t first = *from->at++;
    const unsigned kind = first >> 5, more = first & 31;
    if ((kind != 0 && kind != 7) || more > 27 || (kind == 7 && more < 25)) {
        return NAN;
    }
    const size_t length = more < 24 ? 0 : (size_t)1 << (more - 24);
    if ((size_t)(from->end - from->at) < length) {
        return NAN;
    }
    uint64_t bits = length == 0 ? more : 0;
    for (size_t i = 0; i < length; i++) {
        bits = bits << 8 | *from->at++;
    }
    if (kind == 0) {
        return (double)bits;
    }
    if (length == 8) {
        double number;
        memcpy(&number, &bits, sizeof number);
        return number;
    }
    if (length == 4) {
        const uint32_t low = (uint32_t)bits;
        float number;
        memcpy(&number, &low, sizeof number);
        return number;
    }
    const int exponent = (int)(bits >> 10 & 31);
    const double mantissa = (double)(bits & 1023);
    const double number = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    return bits >> 15 ? -number : number;
}

/* Reads the number of a key at any position in a map; NAN if the key is missing. */
static double number_of(const void *message, size_t length, const char *key) {
    const uint8_t *at = message;
    const size_t size = strlen(key);
    for (size_t i = 0; i + size < length; i++) {
        if (at[i] == 0x60 + size && memcmp(at + i + 1, key, size) == 0) {
            struct cbor rest = {(uint8_t *)at + i + 1 + size, (uint8_t *)at + length};
            return take_number(&rest);
        }
    }
    return NAN;
}

/* Ends the program for a status that is an error. */
static void check(stripline_status status, stripline_error *error) {
    if (status > 0) {
        fprintf(stderr, "error: %s\n", stripline_error_message(error));
        exit(1);
    }
}

/* The state of a radio. Only one thread serves, so that no two handlers run at once. */
struct radio {
    double frequency_hz;
    uint8_t tunings;
};

/* Tunes in steps of 12.5 kHz, and returns the frequency reached. */
static void tune_radio(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    struct radio *radio = context;
    uint8_t message[64];
    struct cbor in = {(uint8_t *)request, (uint8_t *)request + bytes};
    struct cbor out = {message, message + sizeof message};
    const double wanted_hz = take_number(&in);
    if (isnan(wanted_hz)) {
        stripline_responder_refuse(responder, "the request is not a number", NULL);
    } else if (wanted_hz < 1e6 || wanted_hz > 6e9) {
        put(&out, 0xa1, NULL, 0);
        put_text(&out, "OutOfRange");
        put(&out, 0xa1, NULL, 0);
        put_text(&out, "frequency_hz");
        put_float(&out, wanted_hz);
        stripline_responder_fail(responder, message, (size_t)(out.at - message), NULL);
    } else {
        radio->frequency_hz = round(wanted_hz / 12.5e3) * 12.5e3;
        radio->tunings += 1;
        put_float(&out, radio->frequency_hz);
        stripline_responder_reply(responder, message, (size_t)(out.at - message), NULL);
    }
    stripline_responder_free(responder);
}

/* Returns the state of the radio. */
static void show_radio(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    const struct radio *radio = context;
    uint8_t message[64];
    struct cbor out = {message, message + sizeof message};
    (void)request;
    (void)bytes;
    put(&out, 0xa2, NULL, 0);
    put_text(&out, "frequency_hz");
    put_float(&out, radio->frequency_hz);
    put_text(&out, "tunings");
    put(&out, radio->tunings < 24 ? radio->tunings : 0x18, &radio->tunings, radio->tunings < 24 ? 0 : 1);
    stripline_responder_reply(responder, message, (size_t)(out.at - message), NULL);
    stripline_responder_free(responder);
}

/* Stops the node on Ctrl-C: calls that block in it, or start later, return STRIPLINE_STOPPED. */
static void *stop_on_ctrl_c(void *node) {
    sigset_t signals;
    int signal;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigwait(&signals, &signal);
    stripline_node_stop(node, NULL);
    return NULL;
}

static int serve(void) {
    stripline_error *error = NULL;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    stripline_node *node = NULL;
    check(stripline_node_new(NULL, &node, &error), error);
    pthread_t thread;
    pthread_create(&thread, NULL, stop_on_ctrl_c, node);

    struct radio radio = {.frequency_hz = 100e6};
    const stripline_operation_type tune = {.size = sizeof tune, .name = "tune"};
    const stripline_operation_type status = {.size = sizeof status, .name = "status"};
    stripline_service *service = NULL;
    check(stripline_service_new("tuner", &service, &error), error);
    const char *doc = "Tunes in steps of 12.5 kHz, and returns the frequency reached.";
    check(stripline_service_add(service, &tune, tune_radio, &radio, doc, &error), error);
    doc = "Returns the state of the radio.";
    check(stripline_service_add(service, &status, show_radio, &radio, doc, &error), error);
    stripline_server *server = NULL;
    check(stripline_server_new(node, service, NULL, &server, &error), error);
    printf("serving `tuner`; Ctrl-C ends it\n");
    fflush(stdout);
    const stripline_status ended = stripline_server_serve(server, 0, &error);
    if (ended != STRIPLINE_STOPPED) {
        check(ended, error);
    }
    stripline_error_free(error);
    stripline_server_counts counts = {.size = sizeof counts};
    check(stripline_server_get_counts(server, &counts, NULL), NULL);
    printf("answered %" PRIu64 " calls\n", counts.calls);
    stripline_server_free(server);
    stripline_service_free(service);
    pthread_join(thread, NULL);
    stripline_node_free(node);
    return 0;
}

/* Calls an operation of the tuner. Returns the status, and the reply or the operation's own
 * error. */
static stripline_status call(const char *name, const struct cbor *request, size_t length, stripline_reply **reply) {
    stripline_error *error = NULL;
    stripline_node *node = NULL;
    stripline_client *client = NULL;
    stripline_operation *operation = NULL;
    const stripline_operation_type type = {.size = sizeof type, .name = name};
    check(stripline_node_new(NULL, &node, &error), error);
    check(stripline_client_new(node, "tuner", NULL, &client, &error), error);
    check(stripline_client_operation(client, &type, &operation, &error), error);
    const stripline_status status =
        stripline_operation_call(operation, request->end - length, length, NULL, reply, &error);
    if (status != STRIPLINE_USER_ERROR) {
        check(status, error);
    }
    stripline_error_free(error);
    stripline_operation_free(operation);
    stripline_client_free(client);
    stripline_node_free(node);
    return status;
}

static int tune(const char *mhz) {
    char *end;
    const double frequency_hz = 1e6 * strtod(mhz, &end);
    if (end == mhz || *end != 0) {
        fprintf(stderr, "error: `%s` is not a number of MHz\n", mhz);
        return 1;
    }
    uint8_t message[9];
    struct cbor out = {message, message + sizeof message};
    put_float(&out, frequency_hz);
    stripline_reply *reply = NULL;
    const stripline_status status = call("tune", &out, sizeof message, &reply);
    const void *data = stripline_reply_data(reply);
    const size_t length = stripline_reply_length(reply);
    if (status == STRIPLINE_USER_ERROR) {
        const double refused_hz = number_of(data, length, "frequency_hz");
        fprintf(stderr, "error: %g MHz is not from 1 to 6000 MHz\n", refused_hz / 1e6);
    } else {
        struct cbor in = {(uint8_t *)data, (uint8_t *)data + length};
        printf("%.4f MHz\n", take_number(&in) / 1e6);
    }
    stripline_reply_free(reply);
    return status == STRIPLINE_USER_ERROR;
}

static int show_status(void) {
    /* The request without an argument: null. */
    uint8_t message[1] = {0xf6};
    const struct cbor out = {message, message + sizeof message};
    stripline_reply *reply = NULL;
    call("status", &out, sizeof message, &reply);
    const void *data = stripline_reply_data(reply);
    const size_t length = stripline_reply_length(reply);
    printf("%.4f MHz, tuned %.0f times\n", number_of(data, length, "frequency_hz") / 1e6,
           number_of(data, length, "tunings"));
    stripline_reply_free(reply);
    return 0;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (strcmp(what, "serve") == 0) {
        return serve();
    }
    if (strcmp(what, "tune") == 0 && count > 2) {
        return tune(arguments[2]);
    }
    if (strcmp(what, "status") == 0) {
        return show_status();
    }
    fprintf(stderr, "error: use `serve`, `tune MHZ` or `status`\n");
    return 1;
}
