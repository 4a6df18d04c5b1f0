/* The end in C of a link between languages: executes commands line by line (README.md). */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stripline.h>

/* A time limit that only ends a hang. */
#define TIMEOUT_NS INT64_C(60000000000)

enum { objects_max = 32, words_max = 64, line_max = 1 << 16 };

/* The kind of object that a name refers to. */
enum kind { none, publisher, subscriber, windows, packet, client, server };

struct object {
    enum kind kind;
    char name[64];
    /* The handle of this kind. */
    void *handle;
    /* For a port: the number that the topic adds to each byte, and the size of a sample in
     * bytes. */
    uint64_t seed;
    size_t sample_bytes;
    /* For a publisher: the index of the next sample. */
    uint64_t next;
};

static stripline_node *node;
static struct object objects[objects_max];
static stripline_waker *volatile waker;

static _Noreturn void give_up(const char *problem, const char *what) {
    fprintf(stderr, "%s: %s\n", problem, what);
    exit(1);
}

static void answer_begins(void) { printf("@@ "); }

static void answer(const char *text) {
    printf("@@ %s\n", text);
    fflush(stdout);
}

/* Prints a failure, in one line, and frees the error. */
static void print_failure(stripline_status status, stripline_error *error) {
    stripline_text word = stripline_status_word(status);
    printf("error %.*s ", (int)word.length, word.data);
    for (const char *symbol = stripline_error_message(error); *symbol != '\0'; symbol++) {
        putchar(*symbol == '\n' ? ' ' : *symbol);
    }
    putchar('\n');
    fflush(stdout);
    stripline_error_free(error);
}

/* Answers with the result of a call. */
static void answer_status(stripline_status status, stripline_error *error) {
    if (status == STRIPLINE_OK) {
        answer("ok");
    } else if (status == STRIPLINE_EMPTY) {
        answer("empty");
    } else {
        answer_begins();
        print_failure(status, error);
    }
}

/* Answers with the result of a call: write `&error` for the error. */
#define ANSWER(call) \
    do { \
        stripline_error *error = NULL; \
        const stripline_status status = (call); \
        answer_status(status, error); \
    } while (0)

static struct object *find(const char *name) {
    for (int place = 0; place < objects_max; place++) {
        if (objects[place].kind != none && strcmp(objects[place].name, name) == 0) {
            return &objects[place];
        }
    }
    give_up("nothing has the name", name);
}

static struct object *add(enum kind kind, const char *name, void *handle) {
    for (int place = 0; place < objects_max; place++) {
        if (objects[place].kind == none) {
            objects[place] = (struct object){.kind = kind, .handle = handle, .sample_bytes = 1};
            snprintf(objects[place].name, sizeof objects[place].name, "%s", name);
            return &objects[place];
        }
    }
    give_up("too many objects", name);
}

/* Frees the object of a name. */
static void drop(struct object *object) {
    switch (object->kind) {
        case publisher: stripline_publisher_free(object->handle); break;
        case subscriber:
        case windows: stripline_subscriber_free(object->handle); break;
        case packet: stripline_packet_release(object->handle, NULL); break;
        case client: stripline_client_free(object->handle); break;
        case server: stripline_server_free(object->handle); break;
        case none: break;
    }
    object->kind = none;
}

static void close_all(void) {
    for (int place = 0; place < objects_max; place++) {
        drop(&objects[place]);
    }
    stripline_waker *last = waker;
    waker = NULL;
    stripline_waker_free(last);
    stripline_node_free(node);
    node = NULL;
}

/* The payload: each byte is a function of the index in the stream, and of the topic. */
static unsigned char byte_of(uint64_t number, uint64_t seed) {
    return (unsigned char)(number * 167 + (number >> 8) * 13 + seed);
}

static void fill(void *memory, size_t bytes, uint64_t first, uint64_t seed) {
    for (size_t place = 0; place < bytes; place++) {
        ((unsigned char *)memory)[place] = byte_of(first + place, seed);
    }
}

static int is_sound(const void *memory, size_t bytes, uint64_t first, uint64_t seed) {
    for (size_t place = 0; place < bytes; place++) {
        if (((const unsigned char *)memory)[place] != byte_of(first + place, seed)) {
            return 0;
        }
    }
    return 1;
}

/* Returns the size of a sample in bytes, for the types that the driver uses. */
static size_t bytes_of(const char *type) {
    static const struct {
        const char *name;
        size_t bytes;
    } all[] = {{"u8", 1},   {"s16", 2},  {"f32", 4}, {"u64", 8},
               {"cf32", 8}, {"cf64", 16}, {"cs16", 4}, {"det{range_bin:u32,doppler_bin:s32,level_db:f32}", 12}};
    for (size_t place = 0; place < sizeof all / sizeof *all; place++) {
        if (strcmp(all[place].name, type) == 0) {
            return all[place].bytes;
        }
    }
    return 0;
}

/* Makes a port with a name and a type, or answers with the reason why it cannot. */
static void open_port(enum kind kind, char **words, uint32_t hold) {
    stripline_sample_type type = {.size = sizeof type, .name = words[3]};
    /* Size and alignment are checked: this program and the library have the same structures. */
    type.sample_size = bytes_of(words[3]);
    type.sample_align = type.sample_size == 0 ? 0 : strchr(words[3], '{') != NULL ? 4
                        : *words[3] == 'c'    ? type.sample_size / 2
                                              : type.sample_size;
    stripline_subscriber_options options = {.size = sizeof options, .hold = hold, .windowed = kind == windows};
    stripline_error *error = NULL;
    void *handle = NULL;
    stripline_publisher *made = NULL;
    stripline_subscriber *other = NULL;
    stripline_status status;
    if (kind == publisher) {
        status = stripline_publisher_new(node, words[2], &type, &made, &error);
        handle = made;
    } else {
        status = stripline_subscriber_new(node, words[2], &type, &options, &other, &error);
        handle = other;
    }
    if (status == STRIPLINE_OK) {
        struct object *object = add(kind, words[1], handle);
        object->sample_bytes = type.sample_size;
        for (const char *symbol = words[2]; *symbol != '\0'; symbol++) {
            object->seed += (unsigned char)*symbol;
        }
    }
    answer_status(status, error);
}

static void set_stream(char **words) {
    stripline_stream_description stream = {.size = sizeof stream, .id = words[2], .more = words[6]};
    if (strcmp(words[3], "-") != 0) {
        stream.set |= STRIPLINE_STREAM_SET_SAMPLE_RATE;
        stream.sample_rate_hz = strtod(words[3], NULL);
    }
    if (strcmp(words[4], "-") != 0) {
        stream.set |= STRIPLINE_STREAM_SET_CENTER_FREQUENCY;
        stream.center_frequency_hz = strtod(words[4], NULL);
    }
    if (strcmp(words[5], "-") != 0) {
        stream.set |= STRIPLINE_STREAM_SET_ROW_LENGTH;
        stream.row_length = (uint32_t)strtoul(words[5], NULL, 10);
    }
    ANSWER(stripline_publisher_set_stream(find(words[1])->handle, &stream, &error));
}

/* Reads `KEY=VALUE` into the options of a packet. Returns the new way, or the previous one. */
static const char *read_option(char *word, stripline_send_options *options, const char *way) {
    static const char *const scopes[] = {"none", "transport", "server", "target"};
    char *value = strchr(word, '=');
    *value++ = '\0';
    if (strcmp(word, "way") == 0) {
        way = value;
    } else if (strcmp(word, "index") == 0) {
        options->set |= STRIPLINE_SEND_SET_SAMPLE_INDEX;
        options->sample_index = strtoull(value, NULL, 10);
    } else if (strcmp(word, "time") == 0) {
        options->set |= STRIPLINE_SEND_SET_TIME;
        options->time_ns = strtoll(value, NULL, 10);
    } else if (strcmp(word, "intended") == 0) {
        options->set |= STRIPLINE_SEND_SET_INTENDED;
        options->intended_ns = strtoull(value, NULL, 10);
    } else if (strcmp(word, "deadline") == 0) {
        options->set |= STRIPLINE_SEND_SET_DEADLINE;
        options->deadline_ns = strtoull(value, NULL, 10) * 1000000;
    } else {
        options->set |= STRIPLINE_SEND_SET_SCOPE;
        while (strcmp(scopes[options->scope], value) != 0) {
            options->scope++;
        }
    }
    return way;
}

/* Sends a packet in a way: `loan`, `send` or `try`. */
static stripline_status send_one(
    struct object *out, size_t samples, const char *way, const stripline_send_options *options,
    stripline_error **error) {
    uint64_t before = 0, after = 0;
    uint64_t index = (options->set & STRIPLINE_SEND_SET_SAMPLE_INDEX) != 0 ? options->sample_index : out->next;
    size_t bytes = samples * out->sample_bytes;
    stripline_publisher_sequence(out->handle, &before, NULL);
    stripline_status status;
    if (strcmp(way, "loan") == 0) {
        stripline_loan *loan = NULL;
        void *memory = NULL;
        status = stripline_publisher_loan(out->handle, samples, &memory, &loan, error);
        if (status == STRIPLINE_OK) {
            fill(memory, bytes, index * out->sample_bytes, out->seed);
            status = stripline_loan_commit(loan, options, error);
        }
    } else {
        /* The memory is aligned for any type. */
        void *memory = malloc(bytes + 1);
        if (memory == NULL) {
            give_up("no memory for", "a packet");
        }
        fill(memory, bytes, index * out->sample_bytes, out->seed);
        status = strcmp(way, "try") == 0
                     ? stripline_publisher_try_send(out->handle, memory, samples, options, error)
                     : stripline_publisher_send(out->handle, memory, samples, options, error);
        free(memory);
    }
    /* A packet without an acknowledgement is sent, too. */
    stripline_publisher_sequence(out->handle, &after, NULL);
    if (after > before) {
        out->next = index + samples;
    }
    return status;
}

static void answer_sequence(struct object *out) {
    uint64_t sequence = 0;
    stripline_publisher_sequence(out->handle, &sequence, NULL);
    printf("@@ ok %" PRIu64 "\n", sequence);
    fflush(stdout);
}

static void send_packets(char **words, int count) {
    struct object *out = find(words[1]);
    unsigned long packets = strtoul(words[2], NULL, 10), sizes = 0;
    size_t size[words_max];
    for (char *rest = words[3]; *rest != '\0' && sizes < words_max; rest += *rest == ',') {
        size[sizes++] = strtoul(rest, &rest, 10);
    }
    stripline_send_options options = {.size = sizeof options};
    const char *chosen = NULL;
    for (int word = 4; word < count; word++) {
        chosen = read_option(words[word], &options, chosen);
    }
    for (unsigned long number = 0; number < packets; number++) {
        const char *way = chosen != NULL ? chosen : number % 2 == 0 ? "loan" : "send";
        stripline_error *error = NULL;
        stripline_status status = send_one(out, size[number % sizes], way, &options, &error);
        if (status != STRIPLINE_OK) {
            answer_status(status, error);
            return;
        }
    }
    answer_sequence(out);
}

/* The context for writing the packets of a batch. */
struct batch {
    const struct object *out;
    size_t samples;
};

static int32_t write_packet(void *context, size_t index, void *samples) {
    const struct batch *batch = context;
    const struct object *out = batch->out;
    const uint64_t first = out->next + index * batch->samples;
    fill(samples, batch->samples * out->sample_bytes, first * out->sample_bytes, out->seed);
    return 0;
}

/* Sends many packets by one call. */
static void send_many(char **words) {
    struct object *out = find(words[1]);
    const struct batch batch = {.out = out, .samples = strtoul(words[3], NULL, 10)};
    const size_t packets = strtoul(words[2], NULL, 10);
    uint64_t before = 0, after = 0;
    stripline_error *error = NULL;
    stripline_publisher_sequence(out->handle, &before, NULL);
    const stripline_status status =
        stripline_publisher_send_many(out->handle, packets, batch.samples, write_packet, (void *)&batch, &error);
    stripline_publisher_sequence(out->handle, &after, NULL);
    out->next += (after - before) * batch.samples;
    if (status == STRIPLINE_OK) {
        answer_sequence(out);
    } else {
        answer_status(status, error);
    }
}

/* Opens a loan, and sends it at the next line. */
static void lend(char **words) {
    struct object *out = find(words[1]);
    stripline_error *error = NULL;
    stripline_loan *loan = NULL;
    void *memory = NULL;
    size_t samples = strtoul(words[2], NULL, 10);
    char line[16];
    stripline_status status = stripline_publisher_loan(out->handle, samples, &memory, &loan, &error);
    if (status == STRIPLINE_OK) {
        fill(memory, samples * out->sample_bytes, out->next * out->sample_bytes, out->seed);
        answer("lent");
        if (fgets(line, sizeof line, stdin) == NULL) {
            exit(0);
        }
        status = stripline_loan_commit(loan, NULL, &error);
    }
    if (status == STRIPLINE_OK) {
        out->next += samples;
        answer_sequence(out);
    } else {
        answer_status(status, error);
    }
}

static void fill_up(char **words) {
    struct object *out = find(words[1]);
    stripline_send_options options = {.size = sizeof options};
    stripline_error *error = NULL;
    stripline_status status;
    do {
        status = send_one(out, strtoul(words[2], NULL, 10), "try", &options, &error);
    } while (status == STRIPLINE_OK);
    if (status == STRIPLINE_FULL) {
        stripline_error_free(error);
        answer_sequence(out);
    } else {
        answer_status(status, error);
    }
}

/* Prints the token of a packet, or of a window without the last part. */
static void print_token(const struct object *in, const stripline_packet *packet) {
    static const char *const reasons[] = {"", "overflow", "peer-restart", "transport", "late"};
    stripline_packet_info info = {.size = sizeof info};
    stripline_error *error = NULL;
    stripline_status status = stripline_packet_get_info(packet, &info, &error);
    if (status != STRIPLINE_OK) {
        give_up("a packet without its numbers", stripline_error_message(error));
    }
    size_t samples = stripline_packet_length(packet);
    printf("%" PRIu64 "/%" PRIu64 "/%zu", info.sequence, info.sample_index, samples);
    if (info.gap_reason != STRIPLINE_GAP_REASON_NONE) {
        printf("/%s:%" PRIu64 ":%" PRIu64 ":%" PRIu64, reasons[info.gap_reason], info.gap_first, info.gap_packets,
               info.gap_samples);
    }
    if (!is_sound(stripline_packet_samples(packet), samples * in->sample_bytes, info.sample_index * in->sample_bytes,
                  in->seed)) {
        printf("/bad");
    }
}

/* Prints the outcome that replaces a packet, and ends the line. */
static void print_outcome(const struct object *in, stripline_status status, stripline_error *error) {
    uint64_t packets = 0, samples = 0;
    if (status == STRIPLINE_EMPTY) {
        puts("empty");
    } else if (status == STRIPLINE_ENDED) {
        stripline_subscriber_gap_at_end(in->handle, &packets, &samples, NULL);
        if (packets == 0 && samples == 0) {
            puts("ended");
        } else {
            printf("ended/%" PRIu64 ":%" PRIu64 "\n", packets, samples);
        }
    } else {
        print_failure(status, error);
    }
    fflush(stdout);
}

static int64_t nanoseconds(const char *ms) { return strtoll(ms, NULL, 10) * 1000000; }

/* Takes packets, and prints each with the function for its kind. */
static void take_each(char **words, void (*print)(const struct object *in, const stripline_packet *found)) {
    struct object *in = find(words[1]);
    answer_begins();
    for (unsigned long left = strtoul(words[2], NULL, 10); left > 0; left--) {
        stripline_error *error = NULL;
        stripline_packet *found = NULL;
        stripline_status status = stripline_subscriber_receive(in->handle, nanoseconds(words[3]), &found, &error);
        if (status != STRIPLINE_OK) {
            print_outcome(in, status, error);
            return;
        }
        print(in, found);
        putchar(' ');
        stripline_packet_release(found, NULL);
    }
    puts("done");
    fflush(stdout);
}

static void take(char **words) { take_each(words, print_token); }

static void take_windows(char **words) {
    struct object *in = find(words[1]);
    size_t samples = strtoul(words[3], NULL, 10), hop = strtoul(words[4], NULL, 10);
    answer_begins();
    for (unsigned long left = strtoul(words[2], NULL, 10); left > 0; left--) {
        stripline_error *error = NULL;
        stripline_packet *found = NULL;
        stripline_status status =
            stripline_subscriber_window(in->handle, samples, nanoseconds(words[5]), &found, &error);
        if (status != STRIPLINE_OK) {
            print_outcome(in, status, error);
            return;
        }
        print_token(in, found);
        printf(stripline_packet_length(found) == samples ? "/whole " : "/short ");
        stripline_packet_consume(found, hop, NULL);
    }
    puts("done");
    fflush(stdout);
}

static void hold(char **words) {
    struct object *in = find(words[1]);
    stripline_error *error = NULL;
    stripline_packet *found = NULL;
    stripline_status status = stripline_subscriber_receive(in->handle, nanoseconds(words[3]), &found, &error);
    answer_begins();
    if (status != STRIPLINE_OK) {
        print_outcome(in, status, error);
        return;
    }
    struct object *held = add(packet, words[2], found);
    held->seed = in->seed;
    held->sample_bytes = in->sample_bytes;
    print_token(held, found);
    putchar('\n');
    fflush(stdout);
}

static void print_number(uint64_t set, uint64_t bit, double number) {
    printf((set & bit) != 0 ? "%.17g " : "- ", number);
}

static void describe(char **words) {
    struct object *in = find(words[1]);
    stripline_error *error = NULL;
    stripline_packet *found = NULL;
    stripline_status status = stripline_subscriber_receive(in->handle, nanoseconds(words[2]), &found, &error);
    answer_begins();
    if (status != STRIPLINE_OK) {
        print_outcome(in, status, error);
        return;
    }
    stripline_packet_info info = {.size = sizeof info};
    stripline_stream_view stream = {.size = sizeof stream};
    size_t length = 0;
    stripline_packet_get_info(found, &info, NULL);
    stripline_packet_get_stream(found, &stream, NULL);
    printf("ok %" PRId64 " %" PRIu64 " %.*s ", info.time_ns, info.intended_ns, (int)stream.id.length, stream.id.data);
    print_number(stream.set, STRIPLINE_STREAM_SET_SAMPLE_RATE, stream.sample_rate_hz);
    print_number(stream.set, STRIPLINE_STREAM_SET_CENTER_FREQUENCY, stream.center_frequency_hz);
    print_number(stream.set, STRIPLINE_STREAM_SET_ROW_LENGTH, stream.row_length);
    stripline_packet_get_stream_json(found, NULL, 0, &length, NULL);
    char *json = malloc(length + 1);
    if (json == NULL || stripline_packet_get_stream_json(found, json, length + 1, &length, NULL) != STRIPLINE_OK) {
        give_up("no description of", words[1]);
    }
    puts(json);
    fflush(stdout);
    free(json);
    stripline_packet_release(found, NULL);
}

static void list_refusals(void) {
    stripline_report *report = NULL;
    stripline_node_report(node, &report, NULL);
    printf("@@ ok ");
    for (size_t index = 0; index < stripline_report_refused_connections(report); index++) {
        stripline_text name, reason;
        stripline_report_refused_connection(report, index, &name, &reason, NULL);
        printf("%s%.*s: %.*s", index == 0 ? "" : " | ", (int)name.length, name.data, (int)reason.length, reason.data);
    }
    putchar('\n');
    fflush(stdout);
    stripline_report_free(report);
}

/* Returns the bytes of a message from a command: in hexadecimal, or `bytes:` and the length of a
 * byte string. The caller frees them. */
static unsigned char *encoded(const char *word, size_t *bytes) {
    const int is_large = strncmp(word, "bytes:", 6) == 0;
    const size_t length = is_large ? strtoul(word + 6, NULL, 10) : strlen(word) / 2;
    unsigned char *message = malloc(length + 5);
    if (message == NULL) {
        give_up("no memory for", "a message");
    }
    *bytes = is_large ? length + 5 : length;
    if (is_large) {
        message[0] = 0x5a;
        for (size_t place = 0; place < 4; place++) {
            message[1 + place] = (unsigned char)(length >> 8 * (3 - place));
        }
    }
    for (size_t place = 0; place < length; place++) {
        unsigned value = (unsigned)(place * 7 % 256);
        if (!is_large) {
            sscanf(word + 2 * place, "%2x", &value);
        }
        message[(is_large ? 5 : 0) + place] = (unsigned char)value;
    }
    return message;
}

static void send_messages(char **words, int count) {
    struct object *out = find(words[1]);
    for (int word = 2; word < count; word++) {
        stripline_error *error = NULL;
        size_t bytes = 0;
        unsigned char *message = encoded(words[word], &bytes);
        const stripline_status status = stripline_publisher_send(out->handle, message, bytes, NULL, &error);
        free(message);
        if (status != STRIPLINE_OK) {
            answer_status(status, error);
            return;
        }
    }
    answer_sequence(out);
}

/* Prints a message: in hexadecimal, or the length and the sum of the bytes. */
static void print_message(const struct object *in, const stripline_packet *message) {
    (void)in;
    stripline_packet_info info = {.size = sizeof info};
    stripline_packet_get_info(message, &info, NULL);
    const unsigned char *bytes = stripline_packet_samples(message);
    const size_t length = stripline_packet_length(message);
    uint64_t sum = 0;
    printf("%" PRIu64 "/", info.sequence);
    for (size_t place = 0; place < length; place++) {
        sum += bytes[place];
        if (length <= 64) {
            printf("%02x", bytes[place]);
        }
    }
    if (length > 64) {
        printf("#%zu.%" PRIu64, length, sum);
    }
}

static void take_messages(char **words) { take_each(words, print_message); }

static void open_messages(enum kind kind, char **words) {
    stripline_subscriber_options options = {.size = sizeof options};
    stripline_error *error = NULL;
    stripline_publisher *out = NULL;
    stripline_subscriber *in = NULL;
    const stripline_status status =
        kind == publisher ? stripline_message_publisher_new(node, words[2], words[3], &out, &error)
                          : stripline_message_subscriber_new(node, words[2], words[3], &options, &in, &error);
    if (status == STRIPLINE_OK) {
        add(kind, words[1], kind == publisher ? (void *)out : (void *)in);
    }
    answer_status(status, error);
}

/* The context of a handler: its output, and the packet at which it fails. */
struct handling {
    const struct object *in;
    const char *fails_at;
};

static int32_t handle_packet(void *context, stripline_packet *packet) {
    const struct handling *how = context;
    stripline_packet_info info = {.size = sizeof info};
    stripline_packet_get_info(packet, &info, NULL);
    print_token(how->in, packet);
    putchar(' ');
    return *how->fails_at != '-' && strtoull(how->fails_at, NULL, 10) == info.sequence ? 77 : 0;
}

static void handle(char **words) {
    struct object *in = find(words[1]);
    struct handling how = {.in = in, .fails_at = words[2]};
    const stripline_served port = {.subscriber = in->handle, .handler = handle_packet, .context = &how};
    stripline_error *error = NULL;
    answer_begins();
    const stripline_status status = stripline_serve(&port, 1, &error);
    print_outcome(in, status, error);
}

/* Takes the packets that have arrived. */
static void drain(char **words) {
    struct object *in = find(words[1]);
    struct handling how = {.in = in, .fails_at = "-"};
    stripline_error *error = NULL;
    answer_begins();
    const stripline_status status =
        stripline_subscriber_drain(in->handle, strtoul(words[2], NULL, 10), handle_packet, &how, NULL, &error);
    if (status == STRIPLINE_OK || status == STRIPLINE_ENDED) {
        printf("done\n");
        fflush(stdout);
    } else {
        print_failure(status, error);
    }
}

static void count_peers(const struct object *object) {
    size_t peers = 0;
    if (object->kind == publisher) {
        stripline_publisher_receivers(object->handle, &peers, NULL);
    } else {
        stripline_subscriber_senders(object->handle, &peers, NULL);
    }
    printf("@@ ok %zu\n", peers);
    fflush(stdout);
}

/* The object's waker. `wake_up`, the handler of SIGINT, uses it. */
static void watch(const struct object *object) {
    stripline_error *error = NULL;
    stripline_waker *made = NULL, *last = waker;
    stripline_status status =
        object->kind == publisher    ? stripline_publisher_waker(object->handle, &made, &error)
        : object->kind == subscriber ? stripline_subscriber_waker(object->handle, &made, &error)
                                     : stripline_client_waker(object->handle, &made, &error);
    waker = made;
    stripline_waker_free(last);
    answer_status(status, error);
}

static void wake_up(int signal) {
    (void)signal;
    stripline_waker_wake(waker, NULL);
}

/* Whole numbers in CBOR (RFC 8949), written in the shortest form, and read in every form. */
static size_t encode(uint64_t number, unsigned char *bytes) {
    size_t width = number < 24 ? 0 : number < 1 << 8 ? 1 : number < 1 << 16 ? 2 : number >> 32 == 0 ? 4 : 8;
    bytes[0] = (unsigned char)(width == 0 ? number : width == 1 ? 24 : width == 2 ? 25 : width == 4 ? 26 : 27);
    for (size_t place = 0; place < width; place++) {
        bytes[width - place] = (unsigned char)(number >> 8 * place);
    }
    return width + 1;
}

static uint64_t decode(const unsigned char *bytes, size_t count) {
    if (count == 0 || bytes[0] > 27 || count != 1 + (bytes[0] < 24 ? 0 : (size_t)1 << (bytes[0] - 24))) {
        give_up("this is not a whole number", "in CBOR");
    }
    uint64_t number = bytes[0] < 24 ? bytes[0] : 0;
    for (size_t place = 1; place < count; place++) {
        number = number << 8 | bytes[place];
    }
    return number;
}

static void call(char **words, int count) {
    stripline_operation_type type = {.size = sizeof type, .name = words[2], .request = count > 4 ? words[4] : NULL};
    stripline_operation *operation = NULL;
    stripline_reply *reply = NULL;
    stripline_error *error = NULL;
    unsigned char request[9];
    size_t bytes = encode(strtoull(words[3], NULL, 10), request);
    if (count > 4 && strstr(words[4], "(text)") != NULL) {
        /* A text of one digit. */
        request[0] = 0x61;
        request[1] = (unsigned char)*words[3];
        bytes = 2;
    }
    stripline_status status = stripline_client_operation(find(words[1])->handle, &type, &operation, &error);
    if (status == STRIPLINE_OK) {
        status = stripline_operation_call(operation, request, bytes, NULL, &reply, &error);
    }
    if (status == STRIPLINE_OK || status == STRIPLINE_USER_ERROR) {
        uint64_t number = decode(stripline_reply_data(reply), stripline_reply_length(reply));
        printf("@@ %s %" PRIu64 "\n", status == STRIPLINE_OK ? "ok" : "error user-error", number);
        fflush(stdout);
        stripline_error_free(error);
    } else {
        answer_status(status, error);
    }
    stripline_reply_free(reply);
    stripline_operation_free(operation);
}

static void double_it(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context;
    unsigned char reply[9];
    stripline_responder_reply(responder, reply, encode(2 * decode(request, bytes), reply), NULL);
    stripline_responder_free(responder);
}

static void fail(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context;
    stripline_responder_fail(responder, request, bytes, NULL);
    stripline_responder_free(responder);
}

static void refuse(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context, (void)request, (void)bytes;
    stripline_responder_refuse(responder, "the antenna is not plugged in", NULL);
    stripline_responder_free(responder);
}

/* A program reports a mistake of its own in this way. */
static void throw_it(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context, (void)request, (void)bytes;
    stripline_responder_refuse_as(responder, STRIPLINE_HANDLER_PANICKED, "the antenna has fallen over", NULL);
    stripline_responder_free(responder);
}

static void stick(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context, (void)request, (void)bytes, (void)responder;
    answer("stuck");
    for (;;) {
        pause();
    }
}

static void open_server(char **words) {
    static const struct {
        const char *name;
        stripline_call_handler handler;
        const char *request;
    } all[] = {{"double", double_it, NULL}, {"fail", fail, NULL},   {"refuse", refuse, NULL},
               {"throw", throw_it, NULL},   {"stick", stick, NULL}, {"typed", double_it, "message/cbor(u64)"}};
    stripline_error *error = NULL;
    stripline_service *service = NULL;
    stripline_server *made = NULL;
    stripline_status status = stripline_service_new(words[2], &service, &error);
    for (size_t place = 0; status == STRIPLINE_OK && place < sizeof all / sizeof *all; place++) {
        stripline_operation_type type = {.size = sizeof type, .name = all[place].name, .request = all[place].request};
        status = stripline_service_add(service, &type, all[place].handler, NULL, NULL, &error);
    }
    if (status == STRIPLINE_OK) {
        status = stripline_server_new(node, service, NULL, &made, &error);
    }
    stripline_service_free(service);
    if (status == STRIPLINE_OK) {
        add(server, words[1], made);
    }
    answer_status(status, error);
}

static void serve(char **words) {
    stripline_error *error = NULL;
    stripline_status status = STRIPLINE_OK;
    for (unsigned long left = strtoul(words[2], NULL, 10); status == STRIPLINE_OK && left > 0; left--) {
        status = stripline_server_serve_one(find(words[1])->handle, nanoseconds(words[3]), &error);
    }
    answer_status(status, error);
}

static void open_client(char **words) {
    stripline_client_options options = {
        .size = sizeof options, .deadline_ns = strtoull(words[3], NULL, 10) * 1000000};
    stripline_error *error = NULL;
    stripline_client *made = NULL;
    stripline_status status = stripline_client_new(node, words[2], &options, &made, &error);
    if (status == STRIPLINE_OK) {
        add(client, words[1], made);
    }
    answer_status(status, error);
}

static void open_node(char **words) {
    for (char *symbol = words[2]; *symbol != '\0'; symbol++) {
        *symbol = *symbol == ';' ? '\n' : *symbol;
    }
    stripline_node_options options = {.size = sizeof options, .domain = words[1], .topics = words[2]};
    ANSWER(stripline_node_new(&options, &node, &error));
}

/* Splits a line into at most `most` words. The last word has the rest of the line. */
static int split(char *line, char **words, int most) {
    int count = 0;
    while (count < most) {
        words[count++] = line;
        line = strchr(line, ' ');
        if (line == NULL || count == most) {
            break;
        }
        *line++ = '\0';
    }
    return count;
}

/* Returns the number of words of each command with a last word that may contain blanks. */
static int words_of(const char *line) {
    return strncmp(line, "node ", 5) == 0 ? 3 : strncmp(line, "stream ", 7) == 0 ? 7
           : strncmp(line, "refuse ", 7) == 0                                      ? 3
                                                                                   : words_max;
}

static void perform(char *line) {
    char *words[words_max];
    int count = split(line, words, words_of(line));
    const char *command = words[0];
    if (strcmp(command, "node") == 0) {
        open_node(words);
    } else if (strcmp(command, "close") == 0) {
        close_all();
        answer("ok");
    } else if (strcmp(command, "publish") == 0) {
        open_port(publisher, words, 0);
    } else if (strcmp(command, "subscribe") == 0) {
        open_port(subscriber, words, (uint32_t)strtoul(words[4], NULL, 10));
    } else if (strcmp(command, "windows") == 0) {
        open_port(windows, words, 0);
    } else if (strcmp(command, "publish-messages") == 0) {
        open_messages(publisher, words);
    } else if (strcmp(command, "subscribe-messages") == 0) {
        open_messages(subscriber, words);
    } else if (strcmp(command, "send-messages") == 0) {
        send_messages(words, count);
    } else if (strcmp(command, "take-messages") == 0) {
        take_messages(words);
    } else if (strcmp(command, "handle") == 0) {
        handle(words);
    } else if (strcmp(command, "many") == 0) {
        send_many(words);
    } else if (strcmp(command, "drain") == 0) {
        drain(words);
    } else if (strcmp(command, "receivers") == 0) {
        size_t wanted = strtoul(words[2], NULL, 10);
        stripline_publisher *out = find(words[1])->handle;
        ANSWER(stripline_publisher_wait_for_receivers(out, wanted, TIMEOUT_NS, &error));
    } else if (strcmp(command, "peers") == 0) {
        count_peers(find(words[1]));
    } else if (strcmp(command, "stream") == 0) {
        set_stream(words);
    } else if (strcmp(command, "send") == 0) {
        send_packets(words, count);
    } else if (strcmp(command, "fill") == 0) {
        fill_up(words);
    } else if (strcmp(command, "loan") == 0) {
        lend(words);
    } else if (strcmp(command, "finish") == 0) {
        ANSWER(stripline_publisher_finish(find(words[1])->handle, nanoseconds(words[2]), &error));
    } else if (strcmp(command, "abandon") == 0) {
        ANSWER(stripline_publisher_abandon(find(words[1])->handle, &error));
        drop(find(words[1]));
    } else if (strcmp(command, "drop") == 0 || strcmp(command, "release") == 0) {
        drop(find(words[1]));
        answer("ok");
    } else if (strcmp(command, "take") == 0) {
        take(words);
    } else if (strcmp(command, "hold") == 0) {
        hold(words);
    } else if (strcmp(command, "check") == 0) {
        struct object *held = find(words[1]);
        answer_begins();
        print_token(held, held->handle);
        putchar('\n');
        fflush(stdout);
    } else if (strcmp(command, "refuse") == 0) {
        struct object *held = find(words[1]);
        held->kind = none;
        ANSWER(stripline_packet_refuse(held->handle, words[2], &error));
    } else if (strcmp(command, "window") == 0) {
        take_windows(words);
    } else if (strcmp(command, "describe") == 0) {
        describe(words);
    } else if (strcmp(command, "refusals") == 0) {
        list_refusals();
    } else if (strcmp(command, "watch") == 0) {
        watch(find(words[1]));
    } else if (strcmp(command, "client") == 0) {
        open_client(words);
    } else if (strcmp(command, "servers") == 0) {
        size_t wanted = strtoul(words[2], NULL, 10);
        stripline_client *of = find(words[1])->handle;
        ANSWER(stripline_client_wait_for_servers(of, wanted, TIMEOUT_NS, &error));
    } else if (strcmp(command, "call") == 0) {
        call(words, count);
    } else if (strcmp(command, "server") == 0) {
        open_server(words);
    } else if (strcmp(command, "serve") == 0) {
        serve(words);
    } else {
        give_up("unknown command", command);
    }
}

int main(void) {
    static char line[line_max];
    struct sigaction action = {.sa_handler = wake_up, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    answer("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        perform(line);
    }
    close_all();
    return 0;
}
