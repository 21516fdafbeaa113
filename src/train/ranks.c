/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"

/* A wait is told of after so many seconds, or where steps take long after so many of them, or half way to the
 * end of what may be waited. */
enum { NOTICE_SECONDS = 20, NOTICE_STEPS = 10 };
/* How long a rank leaves those below it to tell why all end: a log and a report are written meanwhile, which
 * took more than 3 s where other programs had the processors. */
enum { TURN_SECONDS = 10, TURNS = 4 };
/* Bytes of rank 0's settings or path: more than any has, less than would take a host's memory away. */
enum { MOST_TEXT = 1 << 26 };
/* Rank 0 tells that it is still at work. */
#define WORKING_NS UINT64_C(1000000000)

typedef struct stk_ranks_word {
    int32_t code, asked, save, bad; /* bad: samples that the others have not heard of */
    uint32_t says;                  /* a text goes with it */
    uint64_t images;
    double waited;
    stk_rank_step before; /* this rank's step before */
} word;

int stk_ranks_first(const stoke_trainer *t)
{
    return stk_comm_rank(t->comm) == 0;
}

int stk_ranks_lost(const stoke_trainer *t)
{
    return stk_comm_failed(t->comm);
}

void stk_ranks_wait_for_the_end(const stoke_trainer *t)
{
    const uint32_t turn = stk_comm_turn(t->comm);
    const struct timespec wait = { .tv_sec = TURN_SECONDS * (time_t)(turn < TURNS ? turn : TURNS) };
    if (stk_ranks_lost(t)) nanosleep(&wait, NULL);
}

/* One of those that wait says so. Where rank 0 is not waited for, that is rank 0. */
static void notice(void *trainer, const char *sentence)
{
    stoke_trainer *t = trainer;
    if (stk_ranks_first(t)) {
        stk_trainer_remark(t, "%s", sentence);
    } else if (!stk_comm_turn(t->comm)) {
        stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_REMARK);
        event.text = sentence;
        stk_trainer_send(t, &event);
    }
}

static double notice_after(const stoke_trainer *t, double timeout)
{
    const double seconds = fmax(NOTICE_SECONDS, NOTICE_STEPS * t->last_step);
    return timeout > 0 ? fmin(seconds, timeout / 2) : seconds;
}

static int take_room(stoke_trainer *t, stoke_error *err)
{
    const size_t world = stk_comm_world(t->comm);
    t->ranks.words = stk_calloc(world + 1, sizeof *t->ranks.words);
    t->ranks.texts = stk_calloc(1 + world, STOKE_ERROR_TEXT);
    t->ranks.parts = stk_calloc(2 * world, sizeof *t->ranks.parts);
    if (t->ranks.words && t->ranks.texts && t->ranks.parts) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the words of %zu ranks", world);
}

/* From the cards, which all have, so that all find the same. Results of two tables agree to rounding only. */
static int check_tables(const stoke_trainer *t, stoke_error *err)
{
    const char *first = stk_comm_card_of(t->comm, 0)->cpu;
    char name[160];
    for (uint32_t q = 1; q < stk_comm_world(t->comm); q++) {
        const char *other = stk_comm_card_of(t->comm, q)->cpu;
        if (strcmp(first, other) != 0)
            return stk_fail(err, STOKE_E_STATE,
                            "%s computes with %s and rank 0 with %s, which round otherwise: set STOKE_CPU to "
                            "the simpler one for all",
                            stk_comm_name_of(t->comm, q, name, sizeof name), other, first);
    }
    return STOKE_OK;
}

static int check_lanes(uint32_t world, const stoke_train_params *params, stoke_error *err)
{
    const long long lanes = params->replicas;
    if (lanes >= world) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID,
                    "%u processes were started, and `replicas` %lld has work for %lld: start that many at "
                    "most, or train with more lanes",
                    (unsigned)world, lanes, lanes);
}

int stk_ranks_open(stoke_trainer *t, stoke_train_params *params, stoke_error *err)
{
    const stk_comm_settings settings = { .engine = params->comm,
                                         .timeout = params->comm_timeout,
                                         .notice_after = notice_after(t, params->comm_timeout),
                                         .notice = notice,
                                         .context = t };
    int r = stk_comm_open(&t->comm, &settings, err);
    if (!r && t->comm) r = take_room(t, err);
    if (r) return r;
    const uint32_t world = stk_comm_world(t->comm);
    if (params->replicas < 0) params->replicas = world;
    if (!t->comm) return STOKE_OK;
    r = check_tables(t, err);
    if (!r) r = check_lanes(world, params, err);
    return stk_ranks_agree(t, r, err);
}

void stk_ranks_close(stoke_trainer *t)
{
    stk_comm_close(&t->comm);
    stk_free(t->ranks.words);
    stk_free(t->ranks.texts);
    stk_free(t->ranks.parts);
    t->ranks = (stk_ranks){ 0 };
}

/* ---- agreeing ---- */

static char *text_of(const stoke_trainer *t, uint32_t q)
{
    return t->ranks.texts + (1 + (size_t)q) * STOKE_ERROR_TEXT;
}

/* What this rank has to say: why it failed, or else a remark. */
static void prepare(stoke_trainer *t, int r, const stoke_error *err, word *mine)
{
    char *text = t->ranks.texts;
    mine->code = r;
    mine->asked = t->asked;
    text[0] = 0;
    if (r && err)
        snprintf(text, STOKE_ERROR_TEXT, "%s", err->message);
    else if (!r && t->untold < t->remarks.n)
        snprintf(text, STOKE_ERROR_TEXT, "%s", t->remarks.text[t->untold++]);
    mine->says = text[0] != 0;
}

/* The lowest rank with an error; one that only stopped counts where no other has any. */
static uint32_t who_failed(const word *all, uint32_t world)
{
    uint32_t stopped = world;
    for (uint32_t q = 0; q < world; q++) {
        if (all[q].code && all[q].code != STOKE_E_CANCELLED) return q;
        if (all[q].code && stopped == world) stopped = q;
    }
    return stopped;
}

/* Whether all say the same: it is then no single rank's. */
static int all_say(const stoke_trainer *t, uint32_t world, uint32_t q)
{
    for (uint32_t i = 0; i < world; i++)
        if (strcmp(text_of(t, i), text_of(t, q))) return 0;
    return 1;
}

/* A wish to stop, errors and remarks: known to all, told by rank 0. */
static int conclude(stoke_trainer *t, stoke_error *err)
{
    const word *all = t->ranks.words;
    const uint32_t world = stk_comm_world(t->comm), q = who_failed(all, world);
    char name[160];
    for (uint32_t i = 0; i < world; i++)
        if (all[i].asked > t->stops) t->stops = all[i].asked;
    if (!stk_ranks_first(t)) return q == world ? STOKE_OK : stk_fail_again(err, all[q].code, "");
    for (uint32_t i = 1; i < world; i++)
        if (!all[i].code && all[i].says) stk_trainer_remark(t, "rank %u: %s", (unsigned)i, text_of(t, i));
    if (q == world) return STOKE_OK;
    if (q && !all_say(t, world, q))
        return stk_fail(err, all[q].code, "%s: %s", stk_comm_name_of(t->comm, q, name, sizeof name),
                        text_of(t, q));
    return stk_fail_again(err, all[q].code, text_of(t, q));
}

static int agree(stoke_trainer *t, int r, stk_ranks_step *step, stoke_error *err)
{
    const uint32_t world = stk_comm_world(t->comm);
    word mine = { 0 };
    stoke_error own = { 0 };
    int says = 0, bad = 0;
    if (stk_ranks_lost(t) && r) return r; /* what was found out first */
    prepare(t, r, err, &mine);
    if (step) {
        mine.images = step->images;
        mine.waited = step->waited;
        mine.save = step->save;
        mine.bad = stk_bad_share_news(&t->bad, t->train);
        mine.before = t->watch.own;
        *step = (stk_ranks_step){ 0 };
    }
    t->ranks.words[world] = mine;
    int status = stk_comm_all(t->comm, &t->ranks.words[world], sizeof mine, t->ranks.words, &own);
    for (uint32_t q = 0; !status && q < world; q++) {
        says |= t->ranks.words[q].says != 0;
        bad |= t->ranks.words[q].bad;
        if (!step) continue;
        step->images += t->ranks.words[q].images;
        step->waited += t->ranks.words[q].waited / world;
        step->save = t->ranks.words[0].save;
        stk_rank_watch_hear(t, q, &t->ranks.words[q].before);
    }
    if (!status && says)
        status = stk_comm_all(t->comm, t->ranks.texts, STOKE_ERROR_TEXT, text_of(t, 0), &own);
    for (uint32_t q = 0; !status && says && q < world; q++) text_of(t, q)[STOKE_ERROR_TEXT - 1] = 0;
    if (!status && bad) status = stk_bad_share_tell(&t->bad, t->train, &own);
    if (status) return r ? r : stk_fail_again(err, status, own.message);
    r = conclude(t, err);
    if (!bad || (r && r != STOKE_E_TOO_BAD)) return r;
    /* Of all ranks together, in place of what one has met by itself. */
    status = stk_bad_share_check(&t->bad, &own);
    return status ? stk_fail_again(err, status, stk_ranks_first(t) ? own.message : "") : r;
}

int stk_ranks_agree(stoke_trainer *t, int r, stoke_error *err)
{
    return t->comm ? agree(t, r, NULL, err) : r;
}

int stk_ranks_agree_on_step(stoke_trainer *t, int r, stk_ranks_step *step, stoke_error *err)
{
    if (!t->comm) return r;
    stk_comm_notice_after(t->comm, notice_after(t, t->setup.params.comm_timeout));
    return agree(t, r, step, err);
}

void stk_ranks_say_rest(stoke_trainer *t)
{
    if (!t->comm || stk_ranks_lost(t)) return;
    int more;
    do {
        if (stk_ranks_agree(t, STOKE_OK, NULL)) return;
        more = 0;
        for (uint32_t q = 0; q < stk_comm_world(t->comm); q++) more |= t->ranks.words[q].says != 0;
    } while (more);
}

/* ---- from rank 0 ---- */

/* What fails may come nevertheless, later: then the memory must be there still, and that of a few bytes is
 * often on the stack. */
int stk_ranks_take(stoke_trainer *t, void *data, size_t bytes, stoke_error *err)
{
    if (!t->comm) return STOKE_OK;
    const uint32_t world = stk_comm_world(t->comm);
    const int few = bytes <= sizeof t->ranks.few;
    void *room = few ? t->ranks.few : data;
    stoke_comm_part *send = t->ranks.parts, *receive = send + world;
    memset(send, 0, 2 * (size_t)world * sizeof *send);
    if (few && stk_ranks_first(t)) memcpy(room, data, bytes);
    for (uint32_t q = 1; q < world && stk_ranks_first(t); q++) send[q] = (stoke_comm_part){ room, bytes };
    if (!stk_ranks_first(t)) receive[0] = (stoke_comm_part){ room, bytes };
    const int r = stk_comm_exchange(t->comm, send, receive, err);
    if (!r && few && !stk_ranks_first(t)) memcpy(data, room, bytes);
    return r;
}

int stk_ranks_working(stoke_trainer *t)
{
    int32_t goes_on = 1;
    if (!t->ranks.working || stk_now_ns() - t->ranks.told_ns < WORKING_NS) return STOKE_OK;
    const int r = stk_ranks_take(t, &goes_on, sizeof goes_on, NULL);
    t->ranks.told_ns = stk_now_ns();
    return r;
}

int stk_ranks_by_first(stoke_trainer *t, int (*work)(stoke_trainer *, stoke_error *), stoke_error *err)
{
    int32_t goes_on = 0;
    int r = STOKE_OK;
    if (!t->comm) return work(t, err);
    if (stk_ranks_first(t)) {
        t->ranks.working = 1;
        t->ranks.told_ns = stk_now_ns();
        r = work(t, err);
        t->ranks.working = 0;
        /* Work that ended early as the others are lost failed for that reason. */
        const int own = r && !stk_ranks_lost(t);
        const int told = stk_ranks_take(t, &goes_on, sizeof goes_on, own ? NULL : err);
        if (!own) r = told;
    } else {
        do r = stk_ranks_take(t, &goes_on, sizeof goes_on, err);
        while (!r && goes_on);
    }
    return stk_ranks_agree(t, r, err);
}

int stk_ranks_take_text(stoke_trainer *t, char **text, stoke_error *err)
{
    if (!t->comm) return STOKE_OK;
    uint64_t size = *text ? strlen(*text) + 1 : 0;
    int r = stk_ranks_take(t, &size, sizeof size, err);
    if (r) return r;
    if (!stk_ranks_first(t)) {
        stk_free(*text);
        *text = size <= MOST_TEXT ? stk_calloc(1, size + 1) : NULL;
    }
    if (!*text)
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for a text of rank 0 (%llu bytes)",
                     (unsigned long long)size);
    r = stk_ranks_agree(t, r, err); /* or it would come to one that does not wait for it */
    return r ? r : stk_ranks_take(t, *text, size, err);
}

int stk_ranks_take_network(stoke_trainer *t, stoke_error *err)
{
    if (!t->comm) return STOKE_OK;
    const stoke_net_arrays arrays = stoke_net_arrays_of(t->net);
    stoke_net_state state;
    stoke_net_state_get(t->net, &state);
    _Static_assert(sizeof state <= sizeof t->ranks.few, "it does not stay on the stack");
    int r = stk_ranks_take(t, &state, sizeof state, err);
    if (!r) r = stk_ranks_take(t, arrays.values, arrays.floats * sizeof(float), err);
    float *const moments[] = { arrays.first, arrays.second };
    for (int i = 0; i < 2; i++)
        if (!r && moments[i]) r = stk_ranks_take(t, moments[i], arrays.trained * sizeof(float), err);
    if (!r && arrays.average) r = stk_ranks_take(t, arrays.average, arrays.floats * sizeof(float), err);
    if (r) return r;
    stoke_net_state_set(t->net, &state);
    stoke_net_touched(t->net);
    return STOKE_OK;
}
