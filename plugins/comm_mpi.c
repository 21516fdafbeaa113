/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine `mpi`: carries bytes between processes by MPI. One file that needs this header and mpi.h, so
 * that any cluster can compile it against its own MPI:
 *
 *   mpicc -shared -fPIC -O2 comm_mpi.c -o libstoke-mpi.so
 *
 * Messages from each to each, and no collective but the last barrier: so `missing` knows whom it waits for,
 * and MPI never adds a number. One thread makes all calls, the one that opens.
 */
#include <stoke/tools/comm.h>

#include <mpi.h>

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of all messages: between two ranks they come in the order they were sent. */
enum { TAG = 11 };

typedef struct ticket {
    struct ticket *next;  /* unused */
    int count;            /* of requests */
    MPI_Request *request; /* [2 * world] */
    uint32_t *peer;       /* [2 * world] whose they are */
    size_t *expected;     /* [2 * world] bytes to receive, SIZE_MAX: sent */
} ticket;

typedef struct engine {
    MPI_Comm comm;
    uint32_t rank, world;
    int mine;   /* MPI was started here */
    int on_way; /* tickets */
    int failed;
    int *index;         /* [2 * world] for Testsome */
    MPI_Status *status; /* [2 * world] */
    ticket *unused;
} engine;

static int fail(stoke_error *err, int code, const char *format, ...) STOKE_PRINTF(3, 4);
static int fail(stoke_error *err, int code, const char *format, ...)
{
    if (!err) return code;
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    err->code = code;
    return code;
}

static int fail_mpi(engine *e, stoke_error *err, const char *call, int number)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    e->failed = 1;
    MPI_Error_string(number, text, &length);
    return fail(err, STOKE_E_IO, "%s of MPI failed: %.600s", call, text);
}

/* ---- opening and closing ---- */

/* "Open MPI v4.1.4": the first line, up to a comma. */
static void name_library(char *name, size_t size)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0;
    for (char *p = text; *p; p++)
        if (*p == '\t') *p = ' ';
    snprintf(name, size, "%.*s", (int)size - 1, text);
}

/* Only this thread calls MPI, so that every level will do if the level counts from here. */
static int start_mpi(engine *e, stoke_error *err)
{
    int begun = 0, ended = 0, level = 0, main_thread = 0;
    MPI_Finalized(&ended);
    if (ended) return fail(err, STOKE_E_STATE, "MPI was ended in this process and cannot begin again");
    MPI_Initialized(&begun);
    if (!begun) {
        const int r = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        if (r != MPI_SUCCESS) return fail_mpi(e, err, "MPI_Init_thread", r);
        e->mine = 1;
        return STOKE_OK;
    }
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&main_thread);
    if (level < MPI_THREAD_SERIALIZED && !main_thread)
        return fail(err, STOKE_E_STATE,
                    "this program started MPI for one thread: it has to ask for MPI_THREAD_SERIALIZED");
    return STOKE_OK;
}

static void mpi_close(void **self);

static int mpi_open(void **self, stoke_comm_place *place, stoke_error *err)
{
    engine *e = calloc(1, sizeof *e);
    *self = NULL;
    if (!e) return fail(err, STOKE_E_NOMEM, "no memory for MPI");
    e->comm = MPI_COMM_NULL;
    int rank = 0, world = 0, r = start_mpi(e, err);
    if (!r) {
        /* Errors are sentences, not the end. A program that started MPI itself has made its own choice. */
        if (e->mine) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        const int number = MPI_Comm_dup(MPI_COMM_WORLD, &e->comm);
        if (number != MPI_SUCCESS) r = fail_mpi(e, err, "MPI_Comm_dup", number);
    }
    if (!r) {
        MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
        MPI_Comm_rank(e->comm, &rank);
        MPI_Comm_size(e->comm, &world);
        e->index = calloc(2 * (size_t)world, sizeof *e->index);
        e->status = calloc(2 * (size_t)world, sizeof *e->status);
        if (!e->index || !e->status) r = fail(err, STOKE_E_NOMEM, "no memory for %d ranks", world);
    }
    if (r) {
        e->failed = 1;
        void *half = e;
        mpi_close(&half);
        return r;
    }
    memset(place, 0, sizeof *place);
    place->rank = e->rank = (uint32_t)rank;
    place->world = e->world = (uint32_t)world;
    gethostname(place->host, sizeof place->host - 1);
    name_library(place->library, sizeof place->library);
    *self = e;
    return STOKE_OK;
}

/* MPI_Finalize waits, too, but turns a core while it does, and one rank may have a report to write. */
static void wait_for_all(engine *e)
{
    MPI_Request all;
    int done = 0;
    if (MPI_Ibarrier(e->comm, &all) != MPI_SUCCESS) return;
    while (!done && MPI_Test(&all, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void mpi_close(void **self)
{
    engine *e = *self;
    *self = NULL;
    if (!e) return;
    /* After a failure Finalize could wait for ever; without it the launcher ends what is left. */
    if (!e->failed && !e->on_way) {
        wait_for_all(e);
        MPI_Comm_free(&e->comm);
        if (e->mine) MPI_Finalize();
    }
    for (ticket *t = e->unused, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    free(e->index);
    free(e->status);
    free(e);
}

static void mpi_abort(void *self, int status)
{
    const engine *e = self;
    MPI_Abort(e->comm, status);
}

/* ---- messages ---- */

static ticket *ticket_for(engine *e)
{
    ticket *t = e->unused;
    const size_t most = 2 * (size_t)e->world;
    if (t) {
        e->unused = t->next;
    } else {
        t = calloc(1, sizeof *t + most * (sizeof *t->expected + sizeof *t->request + sizeof *t->peer));
        if (!t) return NULL;
        t->expected = (size_t *)(t + 1);
        t->request = (MPI_Request *)(t->expected + most);
        t->peer = (uint32_t *)(t->request + most);
    }
    t->count = 0;
    e->on_way++;
    return t;
}

static void give_back(engine *e, ticket *t)
{
    t->next = e->unused;
    e->unused = t;
    e->on_way--;
}

static int begin(engine *e, ticket *t, uint32_t q, const stoke_comm_part *part, int sent, stoke_error *err)
{
    if (!part->bytes || q == e->rank) return STOKE_OK;
    if (part->bytes > INT_MAX)
        return fail(err, STOKE_E_LIMIT, "%zu bytes in one message of MPI", part->bytes);
    const int n = (int)part->bytes, i = t->count;
    const int number = sent ? MPI_Isend(part->data, n, MPI_BYTE, (int)q, TAG, e->comm, &t->request[i])
                            : MPI_Irecv(part->data, n, MPI_BYTE, (int)q, TAG, e->comm, &t->request[i]);
    if (number != MPI_SUCCESS) return fail_mpi(e, err, sent ? "MPI_Isend" : "MPI_Irecv", number);
    t->peer[i] = q;
    t->expected[i] = sent ? SIZE_MAX : part->bytes;
    t->count++;
    return STOKE_OK;
}

/* Room for what comes first, then what goes, each rank beginning with the one behind it: so that not all send
 * to rank 0 first. */
static int mpi_exchange(void *self, const stoke_comm_part *send, const stoke_comm_part *recv, void **out,
                        stoke_error *err)
{
    engine *e = self;
    ticket *t = ticket_for(e);
    *out = NULL;
    if (!t) return fail(err, STOKE_E_NOMEM, "no memory for messages of MPI");
    int r = STOKE_OK;
    for (uint32_t i = 1; i < e->world && !r; i++) {
        const uint32_t q = (e->rank + e->world - i) % e->world;
        r = begin(e, t, q, &recv[q], 0, err);
    }
    for (uint32_t i = 1; i < e->world && !r; i++) {
        const uint32_t q = (e->rank + i) % e->world;
        r = begin(e, t, q, &send[q], 1, err);
    }
    if (r) {
        e->failed = 1;
        give_back(e, t);
        return r;
    }
    *out = t;
    return STOKE_OK;
}

/* A message that is too long is an error of MPI, one that is too short is not. */
static int check_length(engine *e, const ticket *t, int i, MPI_Status *status, stoke_error *err)
{
    int bytes = 0;
    if (t->expected[i] == SIZE_MAX) return STOKE_OK;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if ((size_t)bytes == t->expected[i]) return STOKE_OK;
    e->failed = 1;
    return fail(err, STOKE_E_STATE, "rank %u of MPI sent %d bytes where %zu are expected", t->peer[i], bytes,
                t->expected[i]);
}

static int mpi_test(void *self, void *which, int *done, stoke_error *err)
{
    engine *e = self;
    ticket *t = which;
    int come = 0, r = STOKE_OK;
    const int number = MPI_Testsome(t->count, t->request, &come, e->index, e->status);
    *done = number == MPI_SUCCESS && come == MPI_UNDEFINED;
    if (number == MPI_ERR_IN_STATUS) {
        for (int i = 0; i < come && !r; i++)
            if (e->status[i].MPI_ERROR != MPI_SUCCESS && e->status[i].MPI_ERROR != MPI_ERR_PENDING)
                r = fail_mpi(e, err, "a message", e->status[i].MPI_ERROR);
    }
    if (number != MPI_SUCCESS && !r) r = fail_mpi(e, err, "MPI_Testsome", number);
    if (come != MPI_UNDEFINED)
        for (int i = 0; i < come && !r; i++) r = check_length(e, t, e->index[i], &e->status[i], err);
    if (r || *done) give_back(e, t);
    return r;
}

static void mpi_missing(void *self, void *which, uint8_t *ranks)
{
    const engine *e = self;
    const ticket *t = which;
    memset(ranks, 0, e->world);
    for (int i = 0; i < t->count; i++)
        if (t->request[i] != MPI_REQUEST_NULL) ranks[t->peer[i]] = 1;
}

static const stoke_comm_engine mpi_engine = {
    .abi = STOKE_COMM_ABI,
    .struct_size = sizeof(stoke_comm_engine),
    .name = "mpi",
    .open = mpi_open,
    .exchange = mpi_exchange,
    .test = mpi_test,
    .missing = mpi_missing,
    .abort = mpi_abort,
    .close = mpi_close,
};

STOKE_EXPORT const stoke_comm_engine *stoke_comm_plugin(void);
const stoke_comm_engine *stoke_comm_plugin(void)
{
    return &mpi_engine;
}
