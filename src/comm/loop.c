/* SPDX-License-Identifier: Apache-2.0 */
#include "src/comm/loop.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* What one rank has sent to another and that one has not taken yet. */
typedef struct message {
    struct message *next;
    size_t bytes;
    uint8_t data[];
} message;

typedef struct mailbox {
    message *first, **end;
    uint64_t expected, taken; /* the receiver's own: how many it has asked for, how many it has */
} mailbox;

struct stk_loop {
    pthread_mutex_t lock;
    uint32_t world;
    uint32_t here; /* ranks that have not left yet */
    uint8_t *left; /* [world] */
    mailbox *mail; /* [from * world + to] */
};

typedef struct awaited {
    stoke_comm_part part; /* bytes 0: has come, or nothing was to */
    uint64_t number;      /* of those from this rank: an earlier one may be missing yet */
} awaited;

typedef struct ticket {
    struct ticket *next;
    awaited from[];
} ticket;

typedef struct member {
    stk_loop *loop;
    uint32_t rank;
    ticket *on_way;
} member;

int stk_loop_create(stk_loop **out, uint32_t world, stoke_error *err)
{
    stk_loop *loop = stk_calloc(1, sizeof *loop);
    *out = loop;
    if (!loop) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u ranks", world);
    loop->world = loop->here = world;
    loop->left = stk_calloc(world, 1);
    loop->mail = stk_calloc((size_t)world * world, sizeof *loop->mail);
    if (!loop->left || !loop->mail || pthread_mutex_init(&loop->lock, NULL)) {
        stk_free(loop->left);
        stk_free(loop->mail);
        stk_free(loop);
        *out = NULL;
        return stk_fail(err, STOKE_E_NOMEM, "no memory for %u ranks", world);
    }
    for (size_t i = 0; i < (size_t)world * world; i++) loop->mail[i].end = &loop->mail[i].first;
    return STOKE_OK;
}

int stk_loop_join(stk_loop *loop, uint32_t rank, void **self, stoke_comm_place *place, stoke_error *err)
{
    member *m = stk_alloc(sizeof *m);
    *self = m;
    if (!m) return stk_fail(err, STOKE_E_NOMEM, "no memory for a rank");
    *m = (member){ .loop = loop, .rank = rank };
    *place = (stoke_comm_place){ .rank = rank, .world = loop->world, .library = "threads of one process" };
    gethostname(place->host, sizeof place->host - 1);
    return STOKE_OK;
}

static void destroy(stk_loop *loop)
{
    for (size_t i = 0; i < (size_t)loop->world * loop->world; i++)
        for (message *m = loop->mail[i].first, *next; m; m = next) {
            next = m->next;
            stk_free(m);
        }
    pthread_mutex_destroy(&loop->lock);
    stk_free(loop->left);
    stk_free(loop->mail);
    stk_free(loop);
}

void stk_loop_give_up(stk_loop *loop, uint32_t rank)
{
    pthread_mutex_lock(&loop->lock);
    loop->left[rank] = 1;
    const int last = !--loop->here;
    pthread_mutex_unlock(&loop->lock);
    if (last) destroy(loop);
}

static void forget(member *m, ticket *t)
{
    ticket **link = &m->on_way;
    while (*link != t) link = &(*link)->next;
    *link = t->next;
    stk_free(t);
}

static void loop_close(void **self)
{
    member *m = *self;
    *self = NULL;
    if (!m) return;
    stk_loop_give_up(m->loop, m->rank);
    while (m->on_way) forget(m, m->on_way);
    stk_free(m);
}

static mailbox *box_of(const stk_loop *loop, uint32_t from, uint32_t to)
{
    return &loop->mail[(size_t)from * loop->world + to];
}

static ticket *ticket_of(member *m, const stoke_comm_part *recv)
{
    const stk_loop *loop = m->loop;
    ticket *t = stk_calloc(1, sizeof *t + loop->world * sizeof *t->from);
    if (!t) return NULL;
    for (uint32_t from = 0; from < loop->world; from++) {
        if (!recv[from].bytes || from == m->rank) continue;
        t->from[from].part = recv[from];
        t->from[from].number = box_of(loop, from, m->rank)->expected++;
    }
    t->next = m->on_way;
    m->on_way = t;
    return t;
}

static int send_to(const member *m, uint32_t to, const stoke_comm_part *part)
{
    stk_loop *loop = m->loop;
    message *sent = stk_alloc(sizeof *sent + part->bytes);
    if (!sent) return STOKE_E_NOMEM;
    sent->next = NULL;
    sent->bytes = part->bytes;
    memcpy(sent->data, part->data, sent->bytes);
    mailbox *box = box_of(loop, m->rank, to);
    pthread_mutex_lock(&loop->lock);
    *box->end = sent;
    box->end = &sent->next;
    pthread_mutex_unlock(&loop->lock);
    return STOKE_OK;
}

static int loop_exchange(void *self, const stoke_comm_part *send, const stoke_comm_part *recv, void **out,
                         stoke_error *err)
{
    member *m = self;
    stk_loop *loop = m->loop;
    ticket *t = ticket_of(m, recv);
    int r = t ? STOKE_OK : STOKE_E_NOMEM;
    for (uint32_t to = 0; to < loop->world && !r; to++)
        if (send[to].bytes && to != m->rank) r = send_to(m, to, &send[to]);
    *out = t;
    if (!r) return STOKE_OK;
    *out = NULL;
    if (t) forget(m, t);
    pthread_mutex_lock(&loop->lock);
    loop->left[m->rank] = 1; /* the others need not wait for what it could not send */
    pthread_mutex_unlock(&loop->lock);
    return stk_fail(err, r, "no memory for what is on its way");
}

/* Takes what has come from one rank. */
static int take(const member *m, uint32_t from, awaited *wanted, stoke_error *err)
{
    stk_loop *loop = m->loop;
    mailbox *box = box_of(loop, from, m->rank);
    stoke_comm_part *part = &wanted->part;
    if (wanted->number != box->taken) return STOKE_OK;
    pthread_mutex_lock(&loop->lock);
    message *come = box->first;
    if (come) {
        box->first = come->next;
        if (!box->first) box->end = &box->first;
    }
    const int left = loop->left[from];
    pthread_mutex_unlock(&loop->lock);
    if (!come) return left ? stk_fail(err, STOKE_E_IO, "rank %u has ended", from) : STOKE_OK;
    int r = STOKE_OK;
    if (come->bytes == part->bytes)
        memcpy(part->data, come->data, come->bytes);
    else
        r = stk_fail(err, STOKE_E_STATE, "rank %u sent %zu bytes where %zu are expected", from, come->bytes,
                     part->bytes);
    part->bytes = 0;
    box->taken++;
    stk_free(come);
    return r;
}

static int loop_test(void *self, void *which, int *done, stoke_error *err)
{
    member *m = self;
    ticket *t = which;
    int r = STOKE_OK, left = 0;
    for (uint32_t from = 0; from < m->loop->world && !r; from++) {
        awaited *wanted = &t->from[from];
        if (wanted->part.bytes) r = take(m, from, wanted, err);
        left |= wanted->part.bytes != 0;
    }
    *done = !r && !left;
    if (r || !left) forget(m, t);
    return r;
}

static void loop_missing(void *self, void *which, uint8_t *ranks)
{
    const member *m = self;
    const ticket *t = which;
    for (uint32_t from = 0; from < m->loop->world; from++) ranks[from] = t->from[from].part.bytes != 0;
}

static void loop_abort(void *self, int status)
{
    _exit(status);
}

const stoke_comm_engine stk_loop_engine = {
    .abi = STOKE_COMM_ABI,
    .struct_size = sizeof(stoke_comm_engine),
    .name = "loop",
    .exchange = loop_exchange,
    .test = loop_test,
    .missing = loop_missing,
    .abort = loop_abort,
    .close = loop_close,
};
