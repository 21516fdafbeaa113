/* SPDX-License-Identifier: Apache-2.0
 *
 * The server. The text is made by the thread that takes the readings, ten times a second; libmicrohttpd's
 * thread only hands out a copy of it, under a lock that is held for as long as copying it takes.
 */
#include "cli/monitor/monitor.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "cli/lib/common.h"

#define FORMAT "text/plain; version=0.0.4; charset=utf-8"

/* A request and its answer take milliseconds. One that drips a byte now and then is never idle, so that only
 * its whole time tells it from others: without a limit of that, 16 of them kept everybody out for good. */
enum { CONNECTIONS = 64, FROM_ONE_ADDRESS = 32, IDLE_SECONDS = 5, WHOLE_SECONDS = 5 };

typedef struct guest {
    int socket; /* -1: the place is free */
    int64_t came_ms;
} guest;

struct monitor_prometheus {
    struct MHD_Daemon *daemon;
    int socket;
    char url[256];
    int locked; /* the lock was made */
    pthread_mutex_t lock;
    char *text; /* from here on under the lock */
    size_t length;
    guest guests[CONNECTIONS];
};

/* ---- guests ---- */

static int64_t now_ms(void)
{
    return (int64_t)(stoke_machine_now_ns() / 1000000);
}

/* A connection begins, or ends: its socket is closed only after this call. */
static void on_connection(void *context, struct MHD_Connection *connection, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    monitor_prometheus *server = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    (void)own;
    if (!info) return;
    const int begins = what == MHD_CONNECTION_NOTIFY_STARTED, wanted = begins ? -1 : info->connect_fd;
    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < CONNECTIONS; i++) {
        if (server->guests[i].socket != wanted) continue;
        server->guests[i] = (guest){ begins ? info->connect_fd : -1, now_ms() };
        break;
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- answering ---- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *text,
                              size_t length, const char *header, const char *value)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, header, value);
    const enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
    static int begun;
    static const char not_here[] = "Nothing here; the figures are at /metrics\n";
    static const char not_so[] = "Only GET and HEAD\n";
    monitor_prometheus *server = context;
    (void)version, (void)upload;
    /* The first call comes before a body, which must have been read before an answer is queued. */
    if (!*request) {
        *request = &begun;
        return MHD_YES;
    }
    if (*upload_bytes) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, not_so, sizeof not_so - 1,
                      MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (strcmp(url, "/metrics") != 0)
        return answer(connection, MHD_HTTP_NOT_FOUND, not_here, sizeof not_here - 1,
                      MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; charset=utf-8");
    pthread_mutex_lock(&server->lock);
    const enum MHD_Result result = answer(connection, MHD_HTTP_OK, server->text ? server->text : "",
                                          server->length, MHD_HTTP_HEADER_CONTENT_TYPE, FORMAT);
    pthread_mutex_unlock(&server->lock);
    return result;
}

/* ---- starting ---- */

static int listen_on(monitor_prometheus *server, const struct addrinfo *where, const char *address,
                     unsigned port, stoke_error *err)
{
    const int on = 1;
    server->socket = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* A port that was in use a moment ago can be had at once; one that is in use cannot. */
    if (server->socket >= 0) setsockopt(server->socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (server->socket >= 0 && bind(server->socket, where->ai_addr, where->ai_addrlen) == 0 &&
        listen(server->socket, CONNECTIONS) == 0)
        return STOKE_OK;
    const int number = errno;
    if (number == EADDRINUSE)
        return cli_error(err, STOKE_E_IO,
                         "--prometheus: port %u of %s is in use; take another one, or 0 for any that is free",
                         port, address);
    return cli_error(err, number == EADDRNOTAVAIL ? STOKE_E_INVALID : STOKE_E_IO,
                     "--prometheus: cannot listen on port %u of %s: %s%s", port, address, strerror(number),
                     number == EADDRNOTAVAIL ? "; --bind takes an address of this machine" : "");
}

static int open_socket(monitor_prometheus *server, const char *address, unsigned port, stoke_error *err)
{
    const struct addrinfo wanted = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                     .ai_socktype = SOCK_STREAM };
    struct addrinfo *where = NULL;
    char service[16], host[128];
    snprintf(service, sizeof service, "%u", port);
    const int wrong = getaddrinfo(address, service, &wanted, &where);
    if (wrong)
        return cli_error(err, STOKE_E_INVALID,
                         "--bind: '%s' is no address in numbers (%s); 127.0.0.1 serves this machine alone, "
                         "0.0.0.0 everybody",
                         address, gai_strerror(wrong));
    const int r = listen_on(server, where, address, port, err);
    const int v6 = where->ai_family == AF_INET6;
    freeaddrinfo(where);
    if (r) return r;
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    if (getsockname(server->socket, (struct sockaddr *)&own, &size) ||
        getnameinfo((struct sockaddr *)&own, size, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        return cli_error(err, STOKE_E_IO, "--prometheus: the system does not tell the port");
    snprintf(server->url, sizeof server->url, "http://%s%s%s:%s/metrics", v6 ? "[" : "", host, v6 ? "]" : "",
             service);
    return STOKE_OK;
}

static int start_daemon(monitor_prometheus *server, stoke_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* Ctrl-C is for the thread that watches */
    server->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, NULL, NULL, on_request, server,
        MHD_OPTION_LISTEN_SOCKET, server->socket, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)FROM_ONE_ADDRESS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!server->daemon) return cli_error(err, STOKE_E_IO, "--prometheus: cannot start the server");
    return STOKE_OK;
}

int monitor_prometheus_start(monitor_prometheus **out, const char *address, unsigned port, stoke_error *err)
{
    monitor_prometheus *server = cli_alloc(1, sizeof *server);
    *server = (monitor_prometheus){ .socket = -1 };
    for (int i = 0; i < CONNECTIONS; i++) server->guests[i].socket = -1;
    *out = NULL;
    server->locked = !pthread_mutex_init(&server->lock, NULL);
    int r = server->locked ? STOKE_OK : cli_error(err, STOKE_E_NOMEM, "cannot make a lock");
    if (!r) r = open_socket(server, address, port, err);
    if (!r) r = start_daemon(server, err);
    if (r)
        monitor_prometheus_stop(&server);
    else
        *out = server;
    return r;
}

void monitor_prometheus_stop(monitor_prometheus **pointer)
{
    monitor_prometheus *server = *pointer;
    if (!server) return;
    *pointer = NULL;
    if (server->daemon)
        MHD_stop_daemon(server->daemon); /* and closes the socket */
    else if (server->socket >= 0)
        close(server->socket);
    if (server->locked) pthread_mutex_destroy(&server->lock);
    free(server->text);
    free(server);
}

const char *monitor_prometheus_url(const monitor_prometheus *server)
{
    return server->url;
}

void monitor_prometheus_tell(monitor_prometheus *server, const monitor_sight *sight)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return; /* what was served before still is */
    monitor_metrics_write(out, sight);
    if (fclose(out) != 0) {
        free(text);
        return;
    }
    pthread_mutex_lock(&server->lock);
    char *old = server->text;
    server->text = text;
    server->length = length;
    const int64_t latest = now_ms() - 1000 * WHOLE_SECONDS;
    for (int i = 0; i < CONNECTIONS; i++)
        if (server->guests[i].socket >= 0 && server->guests[i].came_ms < latest)
            shutdown(server->guests[i].socket, SHUT_RDWR); /* libmicrohttpd closes it then */
    pthread_mutex_unlock(&server->lock);
    free(old);
}
