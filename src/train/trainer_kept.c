/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run to be resumed has already, and must not lose. A run that goes on from its last state writes over
 * best/ and last/ with more of the same; one that begins again, or goes on from an older state, would write
 * over the networks of a longer run.
 */
#include "src/train/trainer.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/retry.h"
#include "src/train/run_report.h"
#include <stoke/tools/terminal.h>

/* What folder and log tell of the sessions before. */
typedef struct earlier {
    int best, last; /* networks that are there */
    int logged;     /* there is a log */
    uint64_t step, saves, saved_step, evaluations;
} earlier;

static int has_network(const stoke_trainer *t, const char *name)
{
    char *path = stk_trainer_path(t, name, NULL);
    const int there = path && stk_there(path);
    stk_free(path);
    return there;
}

/* A log that is damaged, or gone, tells less. */
static int look_back(const stoke_trainer *t, earlier *e, stoke_error *err)
{
    stk_run_log log = { 0 };
    char *path = stk_trainer_path(t, "log.jsonl", err);
    if (!path) return STOKE_E_NOMEM;
    const int r = stk_run_log_read(&log, path, err);
    *e = (earlier){ .best = has_network(t, "best/model.safetensors"),
                    .last = has_network(t, "last/model.safetensors"),
                    .logged = !r,
                    .step = log.step,
                    .saves = log.saves,
                    .saved_step = log.saved_step,
                    .evaluations = log.evaluations };
    stk_run_log_free(&log);
    stk_free(path);
    return r == STOKE_E_NOMEM ? r : STOKE_OK;
}

static const char *networks(const earlier *e)
{
    return e->best && e->last ? "best/ and last/" : e->best ? "best/" : e->last ? "last/" : "the log";
}

/* Whether there was a checkpoint. last/ is written after the first one, and so is the line of the log. best/
 * comes before it, and only a run that was killed in that moment has one evaluation and no checkpoint: begun
 * again it makes the same one. */
static int had_state(const earlier *e)
{
    return e->last || e->saves || (e->best && (!e->logged || e->evaluations > 1));
}

int stk_trainer_begins_again(stoke_trainer *t, stoke_error *err)
{
    earlier e;
    const int r = look_back(t, &e, err);
    if (r) return r;
    if (!had_state(&e)) {
        stk_trainer_remark(t, "%s has no checkpoint yet: it begins again at step 0", t->folder);
        return STOKE_OK;
    }
    if (t->setup.params.force) {
        stk_trainer_remark(t,
                           "%s: state.safetensors is gone: the run begins again at step 0 and replaces %s "
                           "of %s",
                           t->folder, networks(&e), STOKE_COUNT(e.step, "step"));
        return STOKE_OK;
    }
    char network[PATH_MAX];
    snprintf(network, sizeof network, "%s/%s", t->folder, e.best ? "best" : "last");
    const int there = e.best || e.last;
    return stk_fail(err, STOKE_E_STATE,
                    "%s: state.safetensors is gone, and this run of %s cannot go on without it: begun again "
                    "at step 0 it would write over %s. %s%s%s`force` begins this one again",
                    t->folder, STOKE_COUNT(e.step, "step"), networks(&e),
                    there ? "A new run starts from its network with `pretrained` " : "",
                    there ? STOKE_WORD(network) : "", there ? "; " : "Its networks are gone, too: ");
}

int stk_trainer_goes_back(stoke_trainer *t, stoke_error *err)
{
    earlier e;
    const int r = look_back(t, &e, err);
    if (r || e.saved_step <= t->now.step) return r;
    if (t->setup.params.force) {
        stk_trainer_remark(t,
                           "goes back from step %" PRIu64 ", where it was last saved, to %" PRIu64
                           ": %s and the log of the steps after that are replaced",
                           e.saved_step, t->now.step, networks(&e));
        return STOKE_OK;
    }
    return stk_fail(err, STOKE_E_STATE,
                    "%s: state.safetensors is of step %" PRIu64 ", but the run was saved at step %" PRIu64
                    " since: going on from the older state would write over %s and the log of the longer "
                    "run. Put the newer state back, or use `force` to go on from step %" PRIu64,
                    t->folder, t->now.step, e.saved_step, networks(&e), t->now.step);
}
