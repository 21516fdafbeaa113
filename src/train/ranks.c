/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/trainer.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

int stk_ranks_first(const stoke_trainer *t)
{
    return stk_comm_rank(t->comm) == 0;
}

static void notice(void *trainer, const char *sentence)
{
    stk_trainer_remark(trainer, "%s", sentence);
}

int stk_ranks_open(stoke_trainer *t, stoke_train_params *params, stoke_error *err)
{
    const stk_comm_settings settings = { .engine = params->comm,
                                         .timeout = params->comm_timeout,
                                         .notice_after = 20,
                                         .notice = notice,
                                         .context = t };
    const int r = stk_comm_open(&t->comm, &settings, err);
    if (r) return r;
    const uint32_t world = stk_comm_world(t->comm);
    if (params->replicas < 0) params->replicas = world;
    if (params->replicas >= world) return STOKE_OK;
    return stk_ranks_agree(t,
                           stk_fail(err, STOKE_E_INVALID,
                                    "%u processes were started, and `replicas` %lld has work for %lld: start "
                                    "that many at most, or train with more lanes",
                                    (unsigned)world, (long long)params->replicas,
                                    (long long)params->replicas),
                           err);
}

/* ---- agreeing ---- */

typedef struct word {
    int32_t code, asked, save;
    uint64_t images;
    char message[STOKE_ERROR_TEXT];
} word;

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
static int all_say(const word *all, uint32_t world, uint32_t q)
{
    for (uint32_t i = 0; i < world; i++)
        if (strcmp(all[i].message, all[q].message)) return 0;
    return 1;
}

static int conclude(stoke_trainer *t, const word *all, stoke_error *err)
{
    const uint32_t world = stk_comm_world(t->comm), q = who_failed(all, world);
    for (uint32_t i = 0; i < world; i++) t->stops |= all[i].asked;
    if (q == world) return STOKE_OK;
    const int code = all[q].code;
    if (err && stk_ranks_first(t) && q && !all_say(all, world, q)) {
        char name[160];
        return stk_fail(err, code, "%s: %s", stk_comm_name_of(t->comm, q, name, sizeof name), all[q].message);
    }
    return stk_fail_again(err, code, stk_ranks_first(t) ? all[q].message : "");
}

static int agree(stoke_trainer *t, int r, uint64_t *images, int *save, stoke_error *err)
{
    const uint32_t world = stk_comm_world(t->comm);
    word mine = { .code = r, .asked = t->asked, .save = save && *save, .images = images ? *images : 0 };
    if (r && err) memcpy(mine.message, err->message, sizeof mine.message);
    word *all = stk_calloc(world, sizeof *all);
    if (!all) return stk_fail(err, STOKE_E_NOMEM, "no memory for the words of %u ranks", (unsigned)world);
    stoke_error own = { 0 };
    int status = stk_comm_all(t->comm, &mine, sizeof mine, all, &own);
    if (status) {
        stk_free(all);
        return r ? r : stk_fail_again(err, status, own.message);
    }
    status = conclude(t, all, err);
    uint64_t sum = 0;
    for (uint32_t q = 0; q < world; q++) sum += all[q].images;
    if (images) *images = sum;
    if (save) *save = all[0].save;
    stk_free(all);
    return status;
}

int stk_ranks_agree(stoke_trainer *t, int r, stoke_error *err)
{
    return t->comm ? agree(t, r, NULL, NULL, err) : r;
}

int stk_ranks_agree_on_step(stoke_trainer *t, int r, uint64_t *images, int *save, stoke_error *err)
{
    return t->comm ? agree(t, r, images, save, err) : r;
}

/* ---- from rank 0 ---- */

int stk_ranks_take(stoke_trainer *t, void *data, size_t bytes, stoke_error *err)
{
    if (!t->comm) return STOKE_OK;
    const uint32_t world = stk_comm_world(t->comm);
    stoke_comm_part *send = stk_calloc(2 * (size_t)world, sizeof *send), *receive = send + world;
    if (!send) return stk_fail(err, STOKE_E_NOMEM, "no memory for the parts of %u ranks", (unsigned)world);
    for (uint32_t q = 1; q < world && stk_ranks_first(t); q++) send[q] = (stoke_comm_part){ data, bytes };
    if (!stk_ranks_first(t)) receive[0] = (stoke_comm_part){ data, bytes };
    const int r = stk_comm_exchange(t->comm, send, receive, err);
    stk_free(send);
    return r;
}

int stk_ranks_take_text(stoke_trainer *t, char **text, stoke_error *err)
{
    if (!t->comm) return STOKE_OK;
    uint64_t size = *text ? strlen(*text) + 1 : 0;
    int r = stk_ranks_take(t, &size, sizeof size, err);
    if (!r && !stk_ranks_first(t)) {
        stk_free(*text);
        *text = stk_calloc(1, size + 1);
        if (!*text) r = stk_fail(err, STOKE_E_NOMEM, "no memory for a text of rank 0");
    }
    return r ? r : stk_ranks_take(t, *text, size, err);
}

int stk_ranks_take_network(stoke_trainer *t, stoke_error *err)
{
    if (!t->comm) return STOKE_OK;
    const stoke_net_arrays arrays = stoke_net_arrays_of(t->net);
    stoke_net_state state;
    stoke_net_state_get(t->net, &state);
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
