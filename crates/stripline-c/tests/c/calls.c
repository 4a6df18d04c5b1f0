/* Calls. `calls DOMAIN` runs checks of its own; `calls DOMAIN TOPICS` serves `text` until its input
 * ends. */
#include <stdatomic.h>
#include <threads.h>

#include "check.h"

static stripline_operation_type type_of(const char *name, const char *types) {
    return (stripline_operation_type){sizeof(stripline_operation_type), name, types, types, types};
}

/* Handlers. Each gets the place for a responder that it keeps, or NULL. */
static void echo(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    CHECK(context == NULL && stripline_responder_deadline_ns(responder) > 0);
    IS(STRIPLINE_OK, stripline_responder_reply(responder, request, bytes, &error));
    CHECK(stripline_responder_deadline_ns(responder) == 0);
    FAILS(STRIPLINE_PORT, "answered", stripline_responder_reply(responder, request, bytes, &error));
    FAILS(STRIPLINE_PORT, "answered", stripline_responder_fail(responder, request, bytes, &error));
    FAILS(STRIPLINE_PORT, "answered", stripline_responder_refuse(responder, "no", &error));
    FAILS(STRIPLINE_PORT, "answered", stripline_responder_refuse_as(responder, STRIPLINE_WRONG_TYPE, "no", &error));
    stripline_responder_free(responder);
}

static void fail(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context;
    IS(STRIPLINE_OK, stripline_responder_fail(responder, request, bytes, &error));
    stripline_responder_free(responder);
}

static void refuse(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context, (void)request, (void)bytes;
    FAILS(STRIPLINE_INVALID_ARGUMENT, "reason", stripline_responder_refuse(responder, NULL, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "reason", stripline_responder_refuse_as(responder, STRIPLINE_WRONG_TYPE, NULL, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "refuses no call", stripline_responder_refuse_as(responder, STRIPLINE_ENDED, "no", &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "reply", stripline_responder_reply(responder, NULL, 1, &error));
    FAILS(STRIPLINE_INVALID_ARGUMENT, "failed", stripline_responder_fail(responder, NULL, 1, &error));
    IS(STRIPLINE_OK, stripline_responder_refuse(responder, "the antenna is not plugged in", &error));
    stripline_responder_free(responder);
}

static void drop(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)context, (void)request, (void)bytes;
    stripline_responder_free(responder);
}

static void keep(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    (void)request, (void)bytes;
    *(stripline_responder **)context = responder;
}

static stripline_responder *kept;

static void free_server(void *context, const void *request, size_t bytes, stripline_responder *responder) {
    stripline_server *server = *(stripline_server **)context;
    FAILS(STRIPLINE_IN_USE, "in use", stripline_server_serve_one(server, 0, &error));
    IS(STRIPLINE_OK, stripline_responder_reply(responder, request, bytes, &error));
    stripline_responder_free(responder);
    stripline_server_free(server);
}

static stripline_server *freed_by_handler;

static stripline_service *service_of(void) {
    stripline_service *service = NULL;
    IS(STRIPLINE_OK, stripline_service_new("text", &service, &error));
    static const struct {
        const char *name;
        stripline_call_handler handler;
        void *context;
    } all[] = {{"echo", echo, NULL}, {"fail", fail, NULL}, {"refuse", refuse, NULL}, {"drop", drop, NULL},
               {"keep", keep, &kept}, {"free", free_server, &freed_by_handler}};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        stripline_operation_type type = type_of(all[index].name, NULL);
        IS(STRIPLINE_OK,
           stripline_service_add(service, &type, all[index].handler, all[index].context, "What it does.", &error));
    }
    return service;
}

static stripline_operation *operation_of(stripline_client *client, const char *name, const char *types) {
    stripline_operation_type type = type_of(name, types);
    stripline_operation *operation = NULL;
    IS(STRIPLINE_OK, stripline_client_operation(client, &type, &operation, &error));
    return operation;
}

static int serve(void *context) {
    IS(STRIPLINE_STOPPED, stripline_server_serve(context, 0, &error));
    return 0;
}

static int serve_in_pool(void *context) {
    IS(STRIPLINE_STOPPED, stripline_server_serve(context, 3, &error));
    return 0;
}

static int answer_late(void *context) {
    IS(STRIPLINE_OK, stripline_responder_reply(context, "late", 4, &error));
    stripline_responder_free(context);
    return 0;
}

static int wake(void *context) {
    IS(STRIPLINE_OK, stripline_waker_wake(context, &error));
    return 0;
}

static void reply_is(stripline_reply *reply, const char *text) {
    CHECK(stripline_reply_length(reply) == strlen(text));
    CHECK(memcmp(stripline_reply_data(reply), text, strlen(text)) == 0);
    stripline_reply_free(reply);
}

/* Calls with a server that serves on another thread. */
static void outcomes(int (*serving)(void *)) {
    stripline_node *node = isolated_node();
    stripline_service *service = service_of();
    stripline_server *server = NULL;
    IS(STRIPLINE_OK, stripline_server_new(node, service, NULL, &server, &error));
    stripline_service_free(service);
    stripline_client *client = NULL;
    IS(STRIPLINE_OK, stripline_client_new(node, "text", NULL, &client, &error));
    IS(STRIPLINE_OK, stripline_client_wait_for_servers(client, 1, TIMEOUT_NS, &error));
    thrd_t thread;
    CHECK(thrd_create(&thread, serving, server) == thrd_success);

    stripline_reply *reply = NULL;
    stripline_operation *operation = operation_of(client, "echo", NULL);
    for (int round = 0; round < 200; round++) {
        IS(STRIPLINE_OK, stripline_operation_call(operation, "hello", 5, NULL, &reply, &error));
        reply_is(reply, "hello");
    }
    IS(STRIPLINE_OK, stripline_operation_call(operation, NULL, 0, NULL, &reply, &error));
    reply_is(reply, "");
    static char large[1000000];
    stripline_call_options options = {sizeof options, UINT64_C(60000000000), 1, 7};
    IS(STRIPLINE_OK, stripline_operation_call(operation, large, sizeof large, &options, &reply, &error));
    CHECK(stripline_reply_length(reply) == sizeof large);
    stripline_reply_free(reply);
    stripline_pending *pending[3];
    for (int index = 0; index < 3; index++) {
        IS(STRIPLINE_OK, stripline_operation_start(operation, "abc", (size_t)index, NULL, &pending[index], &error));
    }
    stripline_operation_free(operation);
    for (int index = 2; index >= 0; index--) {
        IS(STRIPLINE_OK, stripline_pending_wait(pending[index], STRIPLINE_FOREVER, &reply, &error));
        reply_is(reply, index == 2 ? "ab" : index == 1 ? "a" : "");
        FAILS(STRIPLINE_PORT, "before", stripline_pending_wait(pending[index], 0, &reply, &error));
        stripline_pending_free(pending[index]);
    }

    operation = operation_of(client, "fail", NULL);
    IS(STRIPLINE_USER_ERROR, stripline_operation_call(operation, "range", 5, NULL, &reply, &error));
    reply_is(reply, "range");
    stripline_operation_free(operation);
    operation = operation_of(client, "refuse", NULL);
    FAILS(STRIPLINE_REPLY_FAILED, "antenna", stripline_operation_call(operation, "", 0, NULL, &reply, &error));
    stripline_operation_free(operation);
    operation = operation_of(client, "drop", NULL);
    FAILS(STRIPLINE_REPLY_FAILED, "without a reply", stripline_operation_call(operation, "", 0, NULL, &reply, &error));
    stripline_operation_free(operation);
    operation = operation_of(client, "missing", NULL);
    FAILS(STRIPLINE_UNKNOWN_OPERATION, "missing", stripline_operation_call(operation, "", 0, NULL, &reply, &error));
    stripline_operation_free(operation);
    operation = operation_of(client, "echo", "f32");
    FAILS(STRIPLINE_WRONG_TYPE, "f32", stripline_operation_call(operation, "", 0, NULL, &reply, &error));
    stripline_operation_free(operation);

    /* A reply that another thread sends after the handler has returned. */
    operation = operation_of(client, "keep", NULL);
    IS(STRIPLINE_OK, stripline_operation_start(operation, "", 0, &options, &pending[0], &error));
    IS(STRIPLINE_EMPTY, stripline_pending_wait(pending[0], 0, &reply, &error));
    stripline_operation *fence = operation_of(client, "echo", NULL);
    stripline_server_counts counts = {.size = sizeof counts};
    if (serving == serve) {
        /* One call after the other, so that `keep` has returned. */
        IS(STRIPLINE_OK, stripline_operation_call(fence, "", 0, NULL, &reply, &error));
        stripline_reply_free(reply);
        IS(STRIPLINE_EMPTY, stripline_pending_wait(pending[0], 1000, &reply, &error));
        thrd_t late;
        CHECK(thrd_create(&late, answer_late, kept) == thrd_success);
        IS(STRIPLINE_OK, stripline_pending_wait(pending[0], TIMEOUT_NS, &reply, &error));
        reply_is(reply, "late");
        CHECK(thrd_join(late, NULL) == thrd_success);
        kept = NULL;
    }
    /* The call is cancelled; the responder is freed below. */
    stripline_pending_free(pending[0]);
    stripline_operation_free(fence);
    stripline_operation_free(operation);

    IS(STRIPLINE_OK, stripline_node_stop(node, &error));
    CHECK(thrd_join(thread, NULL) == thrd_success);
    IS(STRIPLINE_OK, stripline_server_get_counts(server, &counts, &error));
    CHECK(counts.calls > 200 && counts.evicted == 0);
    stripline_server_free(server);
    if (kept != NULL) {
        /* The server has been freed: the reply has no effect, and causes no fault. */
        IS(STRIPLINE_OK, stripline_responder_reply(kept, "", 0, &error));
        stripline_responder_free(kept);
        kept = NULL;
    }
    stripline_client_free(client);
    stripline_node_free(node);
}

/* Deadlines, wakers, and handles that are freed in any order. */
static void ends(void) {
    stripline_node *node = isolated_node();
    stripline_client *client = NULL;
    stripline_client_options short_time = {sizeof short_time, 1000000, 1, 0};
    IS(STRIPLINE_OK, stripline_client_new(node, "text", &short_time, &client, &error));
    IS(STRIPLINE_EMPTY, stripline_client_wait_for_servers(client, 1, 1000, &error));
    stripline_operation *operation = operation_of(client, "echo", NULL);
    stripline_reply *reply = NULL;
    stripline_pending *pending = NULL, *second = NULL;
    FAILS(STRIPLINE_NO_SERVER, "text", stripline_operation_call(operation, "", 0, NULL, &reply, &error));
    FAILS(STRIPLINE_NO_SERVER, "text", stripline_operation_start(operation, "", 0, NULL, &pending, &error));
    stripline_waker *waker = NULL;
    IS(STRIPLINE_OK, stripline_client_waker(client, &waker, &error));
    thrd_t thread;
    CHECK(thrd_create(&thread, wake, waker) == thrd_success);
    IS(STRIPLINE_INTERRUPTED, stripline_client_wait_for_servers(client, 1, STRIPLINE_FOREVER, &error));
    CHECK(thrd_join(thread, NULL) == thrd_success);

    stripline_service *service = service_of();
    stripline_server *server = NULL;
    stripline_server_options named = {sizeof named, "shm", "first", 0, 4, 0};
    IS(STRIPLINE_OK, stripline_server_new(node, service, &named, &server, &error));
    IS(STRIPLINE_OK, stripline_client_wait_for_servers(client, 1, TIMEOUT_NS, &error));
    FAILS(STRIPLINE_CALL_UNANSWERED, "", stripline_operation_call(operation, "", 0, NULL, &reply, &error));
    while (stripline_server_serve_one(server, 0, NULL) == STRIPLINE_OK) {
    }
    stripline_call_options patient = {sizeof patient, UINT64_C(60000000000), 0, 0};
    IS(STRIPLINE_OK, stripline_operation_start(operation, "abc", 3, &patient, &pending, &error));
    /* An interrupted wait can be repeated. */
    CHECK(thrd_create(&thread, wake, waker) == thrd_success);
    IS(STRIPLINE_INTERRUPTED, stripline_pending_wait(pending, STRIPLINE_FOREVER, &reply, &error));
    CHECK(thrd_join(thread, NULL) == thrd_success);
    IS(STRIPLINE_OK, stripline_server_serve_one(server, TIMEOUT_NS, &error));
    IS(STRIPLINE_OK, stripline_pending_wait(pending, TIMEOUT_NS, &reply, &error));
    reply_is(reply, "abc");
    stripline_pending_free(pending);
    /* A cancelled call is not started. */
    IS(STRIPLINE_OK, stripline_operation_start(operation, "abc", 3, &patient, &pending, &error));
    stripline_pending_free(pending);
    IS(STRIPLINE_EMPTY, stripline_server_serve_one(server, 1000, &error));
    stripline_waker *server_waker = NULL;
    IS(STRIPLINE_OK, stripline_server_waker(server, &server_waker, &error));
    CHECK(thrd_create(&thread, wake, server_waker) == thrd_success);
    IS(STRIPLINE_INTERRUPTED, stripline_server_serve(server, 0, &error));
    CHECK(thrd_join(thread, NULL) == thrd_success);
    IS(STRIPLINE_OK, stripline_waker_wake(server_waker, &error));
    IS(STRIPLINE_INTERRUPTED, stripline_server_serve(server, 2, &error));

    /* The server is freed with a call outstanding, and the client before its pending call. */
    stripline_operation *kept_operation = operation_of(client, "keep", NULL);
    IS(STRIPLINE_OK, stripline_operation_start(kept_operation, "", 0, &patient, &pending, &error));
    IS(STRIPLINE_OK, stripline_server_serve_one(server, TIMEOUT_NS, &error));
    stripline_operation_free(kept_operation);
    stripline_operation_free(operation);
    stripline_client_free(client);
    stripline_server_free(server);
    stripline_server_free(NULL);
    IS(STRIPLINE_SERVER_GONE, stripline_pending_wait(pending, TIMEOUT_NS, &reply, &error));
    IS(STRIPLINE_OK, stripline_responder_refuse_as(kept, STRIPLINE_HANDLER_PANICKED, "too late", &error));
    stripline_responder_free(kept);
    kept = NULL;
    stripline_pending_free(pending);
    IS(STRIPLINE_OK, stripline_waker_wake(server_waker, &error));
    stripline_waker_free(server_waker);
    stripline_waker_free(waker);

    /* A handler that frees its server. The service is used again. */
    IS(STRIPLINE_OK, stripline_server_new(node, service, NULL, &freed_by_handler, &error));
    stripline_service_free(service);
    IS(STRIPLINE_OK, stripline_client_new(node, "text", NULL, &client, &error));
    operation = operation_of(client, "free", NULL);
    stripline_node_free(node);
    IS(STRIPLINE_OK, stripline_operation_start(operation, "bye", 3, &patient, &second, &error));
    IS(STRIPLINE_OK, stripline_server_serve_one(freed_by_handler, TIMEOUT_NS, &error));
    IS(STRIPLINE_OK, stripline_pending_wait(second, TIMEOUT_NS, &reply, &error));
    reply_is(reply, "bye");
    stripline_pending_free(second);
    stripline_operation_free(operation);
    stripline_client_free(client);
}

static void bad_input(void) {
    stripline_node *node = isolated_node();
    stripline_client *client = NULL;
    stripline_service *service = NULL;
    stripline_server *server = NULL;
    stripline_operation *operation = NULL;
    stripline_waker *waker = NULL;
    stripline_reply *reply = NULL;
    stripline_pending *pending = NULL;
    stripline_operation_type type = type_of("echo", NULL), unnamed = type_of(NULL, NULL);
    stripline_operation_type badly_named = type_of("a b", NULL), badly_typed = type_of("echo", "det{a:i32}");
#define REFUSED(words, call) FAILS(STRIPLINE_INVALID_ARGUMENT, words, call)
    REFUSED("node", stripline_client_new(NULL, "text", NULL, &client, &error));
    REFUSED("service", stripline_client_new(node, NULL, NULL, &client, &error));
    REFUSED("client", stripline_client_new(node, "text", NULL, NULL, &error));
    stripline_client_options options = {sizeof options, 0, 20000, 0};
    FAILS(STRIPLINE_INVALID_ARGUMENT, "outstanding", stripline_client_new(node, "text", &options, &client, &error));
    options.size = 3;
    REFUSED("size", stripline_client_new(node, "text", &options, &client, &error));
    IS(STRIPLINE_OK, stripline_client_new(node, "text", NULL, &client, &error));
    REFUSED("client", stripline_client_operation(NULL, &type, &operation, &error));
    REFUSED("operation", stripline_client_operation(client, NULL, &operation, &error));
    REFUSED("operation", stripline_client_operation(client, &type, NULL, &error));
    REFUSED("name", stripline_client_operation(client, &unnamed, &operation, &error));
    REFUSED("a b", stripline_client_operation(client, &badly_named, &operation, &error));
    REFUSED("request", stripline_client_operation(client, &badly_typed, &operation, &error));
    REFUSED("client", stripline_client_wait_for_servers(NULL, 1, 0, &error));
    REFUSED("client", stripline_client_waker(NULL, &waker, &error));
    REFUSED("waker", stripline_client_waker(client, NULL, &error));
    operation = operation_of(client, "echo", NULL);
    REFUSED("operation", stripline_operation_call(NULL, "", 0, NULL, &reply, &error));
    REFUSED("request", stripline_operation_call(operation, NULL, 1, NULL, &reply, &error));
    REFUSED("reply", stripline_operation_call(operation, "", 0, NULL, NULL, &error));
    REFUSED("operation", stripline_operation_start(NULL, "", 0, NULL, &pending, &error));
    REFUSED("request", stripline_operation_start(operation, NULL, 1, NULL, &pending, &error));
    REFUSED("pending", stripline_operation_start(operation, "", 0, NULL, NULL, &error));
    REFUSED("pending", stripline_pending_wait(NULL, 0, &reply, &error));
    CHECK(stripline_reply_data(NULL) == NULL && stripline_reply_length(NULL) == 0);
    REFUSED("name", stripline_service_new(NULL, &service, &error));
    REFUSED("service", stripline_service_new("", &service, &error));
    REFUSED("service", stripline_service_new("text", NULL, &error));
    service = service_of();
    REFUSED("already", stripline_service_add(service, &type, echo, NULL, NULL, &error));
    REFUSED("service", stripline_service_add(NULL, &type, echo, NULL, NULL, &error));
    REFUSED("operation", stripline_service_add(service, NULL, echo, NULL, NULL, &error));
    REFUSED("handler", stripline_service_add(service, &type, NULL, NULL, NULL, &error));
    for (int number = 0; number < 122; number++) {
        char name[20];
        snprintf(name, sizeof name, "more-%d", number);
        stripline_operation_type more = type_of(name, NULL);
        IS(STRIPLINE_OK, stripline_service_add(service, &more, echo, NULL, NULL, &error));
    }
    stripline_operation_type last = type_of("last", NULL);
    REFUSED("at most 128", stripline_service_add(service, &last, echo, NULL, NULL, &error));
    REFUSED("node", stripline_server_new(NULL, service, NULL, &server, &error));
    REFUSED("service", stripline_server_new(node, NULL, NULL, &server, &error));
    REFUSED("server", stripline_server_new(node, service, NULL, NULL, &error));
    stripline_server_options crowded = {sizeof crowded, NULL, NULL, 0, 5000, 0};
    FAILS(STRIPLINE_INVALID_ARGUMENT, "clients", stripline_server_new(node, service, &crowded, &server, &error));
    REFUSED("server", stripline_server_serve(NULL, 0, &error));
    REFUSED("server", stripline_server_serve_one(NULL, 0, &error));
    REFUSED("server", stripline_server_waker(NULL, &waker, &error));
    stripline_server_counts counts = {.size = sizeof counts};
    REFUSED("server", stripline_server_get_counts(NULL, &counts, &error));
    IS(STRIPLINE_OK, stripline_server_new(node, service, NULL, &server, &error));
    REFUSED("threads", stripline_server_serve(server, 100000, &error));
    REFUSED("counts", stripline_server_get_counts(server, NULL, &error));
    REFUSED("waker", stripline_server_waker(server, NULL, &error));
    REFUSED("responder", stripline_responder_reply(NULL, "", 0, &error));
    REFUSED("responder", stripline_responder_fail(NULL, "", 0, &error));
    REFUSED("responder", stripline_responder_refuse(NULL, "", &error));
    REFUSED("responder", stripline_responder_refuse_as(NULL, STRIPLINE_WRONG_TYPE, "", &error));
    CHECK(stripline_responder_deadline_ns(NULL) == 0);
    stripline_server_free(server);
    stripline_service_free(service);
    stripline_operation_free(operation);
    stripline_client_free(client);
    stripline_client_free(NULL);
    stripline_operation_free(NULL);
    stripline_pending_free(NULL);
    stripline_reply_free(NULL);
    stripline_responder_free(NULL);
    stripline_service_free(NULL);
    stripline_node_free(node);
}

static int end_of_input(void *context) {
    while (getchar() != EOF) {
    }
    IS(STRIPLINE_OK, stripline_node_stop(context, &error));
    return 0;
}

static void serve_others(const char *domain, const char *topics) {
    stripline_node_options options = {sizeof options, domain, topics, 0};
    stripline_node *node = NULL;
    IS(STRIPLINE_OK, stripline_node_new(&options, &node, &error));
    stripline_service *service = service_of();
    stripline_server *server = NULL;
    IS(STRIPLINE_OK, stripline_server_new(node, service, NULL, &server, &error));
    stripline_service_free(service);
    thrd_t thread;
    CHECK(thrd_create(&thread, end_of_input, node) == thrd_success);
    /* This process also calls the other one's server. */
    stripline_client *client = NULL;
    IS(STRIPLINE_OK, stripline_client_new(node, "double", NULL, &client, &error));
    stripline_operation *operation = operation_of(client, "call", NULL);
    stripline_reply *reply = NULL;
    IS(STRIPLINE_OK, stripline_operation_call(operation, "\x15", 1, NULL, &reply, &error));
    reply_is(reply, "\x18\x2a");
    stripline_operation_free(operation);
    stripline_client_free(client);
    IS(STRIPLINE_STOPPED, stripline_server_serve(server, 0, &error));
    CHECK(thrd_join(thread, NULL) == thrd_success);
    stripline_server_free(server);
    stripline_node_free(node);
}

int main(int count, char **arguments) {
    if (count == 3) {
        serve_others(arguments[1], arguments[2]);
    } else {
        outcomes(serve);
        outcomes(serve_in_pool);
        ends();
        bad_input();
    }
    printf("calls: done\n");
    return 0;
}
