/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for a batch. It doubles from 1, extends the lines through what it saw, tries what they say,
 * halves where they are wrong, and confirms its choice with the loader on. Every decision follows from the
 * trials alone, so that a search that goes on from a journal ends as one that was never stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/json_read.h"
#include "src/base/mem.h"
#include "src/base/remarks.h"
#include "src/base/retry.h"
#include "src/net/network.h"
#include "src/tune/batch/batch.h"
#include <stoke/tools/report.h>
#include <stoke/tools/terminal.h>

/* ---- the journal: a file that remembers trials ---- */

/* Its first line is {"stoke_trial_log":1,"key":".."}, every other one a trial. A line is written by one call
 * and reaches the disk before the search goes on; what a power cut leaves of the last one is dropped. Only
 * what a trial tells about the batch is remembered: after a crash or a time limit it is tried again. */
typedef struct trial_log {
    int file; /* -1 = none is kept */
    const char *path;
    stoke_trial kept[STOKE_TRIALS];
    char taken[STOKE_TRIALS];
    size_t n_kept;
} trial_log;

/* A line has 700 bytes at most, a search 64 of them; what is larger was not written here. */
enum { KEY_LETTERS = 512, JOURNAL_BYTES = 256 * 1024, LINE_BYTES = 4096, LINE_VALUES = 64 };

static int write_line(const trial_log *j, char *line, size_t length, stoke_error *err)
{
    ssize_t n;
    line[length++] = '\n';
    do n = write(j->file, line, length);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)length || fsync(j->file) != 0)
        return stk_fail_errno(err, STOKE_E_IO, n >= 0 && n != (ssize_t)length ? ENOSPC : errno,
                              "%s: a trial cannot be written down", j->path);
    return STOKE_OK;
}

static int write_key(const trial_log *j, const char *key, stoke_error *err)
{
    char line[LINE_BYTES];
    FILE *out = fmemopen(line, sizeof line - 1, "w");
    if (!out) return stk_fail(err, STOKE_E_NOMEM, "no memory for a line of the journal");
    stoke_json json;
    stoke_json_begin(&json, out, 0);
    stoke_json_object(&json, NULL);
    stoke_json_int(&json, "stoke_trial_log", 1);
    stoke_json_string(&json, "key", key);
    stoke_json_close(&json);
    fclose(out);
    return write_line(j, line, strcspn(line, "\n"), err);
}

/* 1: a journal's first line, with this key; 0: with another; -1: it is none. */
static int same_key(const char *line, size_t length, const char *key)
{
    stk_json json;
    uint64_t version = 0;
    if (length > LINE_BYTES || stk_json_read(&json, line, length, LINE_VALUES, NULL)) return -1;
    const stk_json_value *root = &json.values[0];
    const char *text = stk_json_text(&json, stk_json_find(&json, root, "key"));
    const int is_one = stk_json_uint(&json, stk_json_find(&json, root, "stoke_trial_log"), &version) && text;
    const int same = is_one ? version == 1 && !strcmp(text, key) : -1;
    stk_json_free(&json);
    return same;
}

/* Lines that are no trials are passed over: the ones around them are whole. */
static void keep_trials(trial_log *j, const char *text, const char *end)
{
    const char *line = text, *stop;
    for (; (stop = memchr(line, '\n', (size_t)(end - line))); line = stop + 1) {
        stoke_trial trial;
        const size_t length = (size_t)(stop - line);
        if (j->n_kept == STOKE_TRIALS) return;
        if (length > LINE_BYTES || stoke_trial_parse(&trial, line, length, NULL)) continue;
        const int tells = trial.outcome == STOKE_OUTCOME_OK || trial.outcome == STOKE_OUTCOME_OOM ||
                          trial.outcome == STOKE_OUTCOME_HOST_OOM;
        if (tells) j->kept[j->n_kept++] = trial;
    }
}

/* Everything up to the last whole line; sets *whole to how long that is. */
static int take_over(trial_log *j, const char *text, size_t size, const char *key, size_t *whole,
                     stoke_error *err)
{
    const char *first = memchr(text, '\n', size), *last = memrchr(text, '\n', size);
    *whole = 0;
    /* Half of a first line is what a search that was killed at once leaves; anything else is not ours. */
    const int same = first ? same_key(text, (size_t)(first - text), key)
                           : -(size > 0 && strncmp(text, "{\"stoke_trial_log\"", size < 22 ? size : 22));
    if (same < 0)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: is there already and is no journal of a batch search; name another file with "
                        "--journal",
                        j->path);
    if (same == 1) {
        keep_trials(j, first + 1, last + 1);
        *whole = (size_t)(last + 1 - text);
    }
    return STOKE_OK;
}

/* path NULL: none is kept. A file with another key begins again; one that is no journal is refused and left
 * as it is, so is one that another search has open. */
static int journal_open(trial_log *j, const char *path, const char *key, stoke_error *err)
{
    struct stat st;
    size_t whole = 0;
    *j = (trial_log){ .file = -1, .path = path };
    if (!path) return STOKE_OK;
    if (!key || strlen(key) > KEY_LETTERS)
        return stk_fail(err, STOKE_E_INVALID, "a journal needs a key of at most %d letters", KEY_LETTERS);
    j->file = stoke_open(path, O_RDWR | O_CREAT | O_APPEND, 0666);
    if (j->file < 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be opened", path);
    if (stoke_fstat(j->file, &st) != 0) return stk_fail_errno(err, STOKE_E_IO, errno, "%s", j->path);
    if (!S_ISREG(st.st_mode)) return stk_fail(err, STOKE_E_INVALID, "%s: is no regular file", j->path);
    if (flock(j->file, LOCK_EX | LOCK_NB) != 0)
        return stk_fail(err, STOKE_E_STATE,
                        "%s: another search is writing to it; name another with --journal", j->path);
    if (st.st_size > JOURNAL_BYTES)
        return stk_fail(err, STOKE_E_LIMIT, "%s: has %lld bytes, and no journal has more than %d", j->path,
                        (long long)st.st_size, JOURNAL_BYTES);
    const size_t size = (size_t)st.st_size;
    char *text = stk_alloc(size + 1);
    if (!text) return stk_fail(err, STOKE_E_NOMEM, "no memory for the journal");
    const int number = stk_pread(j->file, text, size, 0);
    int r = number == STK_ENDED ? stk_fail(err, STOKE_E_IO, "%s: became shorter while it was read", j->path)
            : number            ? stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot be read", j->path)
                                : STOKE_OK;
    if (!r) r = take_over(j, text, size, key, &whole, err);
    if (!r && ftruncate(j->file, (off_t)whole) != 0)
        r = stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be cut to its whole lines", j->path);
    if (!r && !whole) r = write_key(j, key, err);
    stk_free(text);
    return r;
}

/* A remembered trial of this batch, each once; NULL = none. */
static const stoke_trial *journal_take(trial_log *journal, uint32_t batch, int with_loader)
{
    for (size_t i = 0; i < journal->n_kept; i++) {
        const stoke_trial *t = &journal->kept[i];
        if (journal->taken[i] || t->batch != batch || t->with_loader != with_loader) continue;
        journal->taken[i] = 1;
        return t;
    }
    return NULL;
}

/* ---- the search ---- */

typedef struct batch_search {
    const stoke_batch_params *params;
    stoke_trial_fn run;
    void *context;
    stoke_batch_result *result;
    trial_log journal;
    stk_batch_fit fit;
    uint32_t low;        /* the largest that fits; 0 = none yet */
    uint32_t high;       /* the smallest that does not; 0 = none yet */
    uint32_t most;       /* never tried beyond */
    int flat;            /* two doublings gained less than 5 % each: larger ones were not tried */
    stoke_trial stopped; /* what else went wrong, twice; its outcome is ok when nothing did */
    stoke_trial confirmed;
} batch_search;

/* What a search found, in words: memory, throughput and loader, each with what it allows, and which one
 * binds. */

#define SAY(result, ...) stk_text_add((result)->why, sizeof(result)->why, "", __VA_ARGS__)

static int bound_of(const batch_search *s)
{
    const stoke_batch_result *result = s->result;
    const stoke_batch_params *p = s->params;
    if (result->busy < p->target_busy) return STOKE_BOUND_LOADER; /* NaN: not measured */
    const uint32_t next = stk_batch_floor(s->low + p->multiple, p->multiple);
    /* Would twice the largest still gain? Then it is not throughput that ends the search. Of one point nobody
     * can tell. */
    const double twice = stk_batch_fit_rate(&s->fit, 2 * s->low), now = stk_batch_fit_rate(&s->fit, s->low);
    if (s->flat || (s->fit.n_points > 1 && !(p->near * twice > now))) return STOKE_BOUND_THROUGHPUT;
    if (s->stopped.outcome != STOKE_OUTCOME_OK) return STOKE_BOUND_FAILURE;
    return next > s->most && !s->high ? STOKE_BOUND_DATA : STOKE_BOUND_MEMORY;
}

static void say_memory(const batch_search *s)
{
    stoke_batch_result *result = s->result;
    const char *budget = STOKE_MEMORY(result->budget);
    SAY(result, "Memory: %s%u fit%s in %s", s->flat ? "" : "up to ", (unsigned)s->low, s->low == 1 ? "s" : "",
        budget);
    if (s->flat) SAY(result, ", and no more were tried");
    if (result->linear && result->memory0 >= 0)
        SAY(result, "; %s and %s a sample", STOKE_MEMORY(result->memory0), STOKE_MEMORY(result->memory1));
    /* What the line says is told as such; that the set ends before is another matter. */
    const int all = s->params->largest && !s->high && result->largest_fit + s->params->multiple > s->most;
    const int said = s->params->largest_said;
    if (all && result->largest_fit > s->low)
        SAY(result, ", by which all %u %s would", (unsigned)s->most,
            said ? "that were allowed" : "of the set");
    else if (result->largest_fit > s->low)
        SAY(result, ", by which about %u would", (unsigned)result->largest_fit);
    else if (all && said)
        SAY(result, "; no more than %u were to be tried", (unsigned)s->most);
    else if (all)
        SAY(result, "; the set has no more than %s", STOKE_COUNT(s->most, "sample"));
    SAY(result, ". ");
}

static void say_busy(const batch_search *s, const char *what)
{
    const stk_batch_fit *fit = &s->fit;
    if (fit->cores_had < fit->cores_wanted)
        SAY(s->result, "%s (%.1f of %.1f cores were available)", what, fit->cores_had, fit->cores_wanted);
    else
        SAY(s->result, "%s (steps of one trial differ by half and more)", what);
}

/* Samples a second with the loader on. */
static double batch_whole_rate(const stoke_trial *t)
{
    return 1000.0 * t->batch / (t->step_ms + t->wait_ms);
}

/* The choice is made by trials without data, or by their line; the table of trials has the one with the
 * loader on too, which may be slower. */
static void say_throughput(const batch_search *s)
{
    stoke_batch_result *result = s->result;
    const double best = result->best_images_s, made = batch_whole_rate(&s->confirmed);
    const int places = best < 100;
    SAY(result, "Throughput: by the %s %u reach%s %.*f images/s, %.0f %% of the best, %.*f",
        s->fit.timed ? "line" : "trials", (unsigned)result->batch, result->batch == 1 ? "es" : "", places,
        result->images_s, 100 * result->images_s / best, places, best);
    SAY(result, "; the confirming trial made %.*f. ", places, made);
}

static void say_bound(const batch_search *s)
{
    stoke_batch_result *result = s->result;
    switch (result->bound) {
    case STOKE_BOUND_THROUGHPUT:
        SAY(result, "Throughput binds: larger batches gain less than %.0f %%.", 100 * (1 - s->params->near));
        break;
    case STOKE_BOUND_MEMORY:
        SAY(result, "Memory binds: a larger batch would be faster and does not fit.");
        break;
    case STOKE_BOUND_DATA:
        SAY(result, "%s",
            s->params->largest_said
                ? "The limit binds: a larger batch would be faster, and none was to be tried."
                : "The data bind: a larger batch would be faster, and there are no more samples.");
        break;
    case STOKE_BOUND_LOADER:
        SAY(result,
            "The loader binds: the device waits %.3g ms a step, and another batch does not change that.",
            s->confirmed.wait_ms);
        snprintf(result->next, sizeof result->next, "stoke diagnose");
        break;
    default:
        SAY(result, "A trial of %u ended with %s, so larger ones were not tried: %.120s",
            (unsigned)s->stopped.batch, stoke_outcome_name(s->stopped.outcome), s->stopped.message);
    }
}

/* Fills bound, why and next of the result. */
static void batch_tell(batch_search *s)
{
    stoke_batch_result *result = s->result;
    if (result->too_busy) {
        result->bound = STOKE_BOUND_MEMORY;
        say_busy(s, "This machine is too busy to tell");
        SAY(result, ": the times scatter, and no batch is suggested from them. Only this is certain. ");
        say_memory(s);
        SAY(result, "Search again when the machine is quiet, or with more --steps.");
        return;
    }
    if (!result->batch) {
        result->bound = STOKE_BOUND_MEMORY;
        SAY(result,
            "Not even one sample fits in %s. A smaller picture, a smaller model, 16-bit precision or a "
            "frozen "
            "encoder need less.",
            STOKE_MEMORY(result->budget));
        snprintf(result->next, sizeof result->next, "stoke estimate");
        return;
    }
    result->bound = bound_of(s);
    if (result->doubtful) {
        say_busy(s, "Low confidence: the machine was busy, and its times scatter");
        SAY(result, ". ");
    }
    say_memory(s);
    say_throughput(s);
    if (isnan(result->busy))
        SAY(result, "Loader: n/a, the trials were without data. ");
    else
        SAY(result, "Loader: keeps the device busy %.0f %% of the time; wanted are %.0f %%. ",
            100 * result->busy, 100 * s->params->target_busy);
    say_bound(s);
}

enum {
    SURE_PROBES = 8, /* 1, 2, 4, 8 are tried whatever they take: fewer points make no line */
    PROBE_SHARE = 4, /* probes end at a quarter of the budget: */
    REACH = 4        /* lines are extended to 4 times the largest batch tried, not beyond */
};

stoke_batch_params stoke_batch_defaults(void)
{
    return (stoke_batch_params){ .struct_size = sizeof(stoke_batch_params),
                                 .margin = 0.05,
                                 .margin_bytes = UINT64_C(512) << 20,
                                 .multiple = 8,
                                 .near = 0.95,
                                 .target_busy = 0.85,
                                 .accumulate = 1,
                                 .world = 1 };
}

static int check_params(const stoke_batch_params *p, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_batch_defaults");
    if (!(p->margin >= 0 && p->margin < 1) || !(p->near > 0 && p->near <= 1) || !p->multiple ||
        p->multiple > STK_NET_BATCH || !p->accumulate || !p->world)
        return stk_fail(
            err, STOKE_E_INVALID,
            "margin %g, near %g, multiple %u, accumulate %u, world %u: shares lie between 0 and 1, "
            "counts begin at 1",
            p->margin, p->near, (unsigned)p->multiple, (unsigned)p->accumulate, (unsigned)p->world);
    return STOKE_OK;
}

/* ---- trials ---- */

static int is_short_of_memory(const stoke_trial *t)
{
    return t->outcome == STOKE_OUTCOME_OOM || t->outcome == STOKE_OUTCOME_HOST_OOM;
}

static int ask(batch_search *s, uint32_t batch, int with_loader, stoke_trial *trial, stoke_error *err)
{
    stoke_batch_result *result = s->result;
    const stoke_trial *known = journal_take(&s->journal, batch, with_loader);
    if (result->n_trials == STOKE_TRIALS)
        return stk_fail(err, STOKE_E_LIMIT, "%d trials found no batch: they contradict each other",
                        STOKE_TRIALS);
    *trial = (stoke_trial){
        .batch = batch, .with_loader = with_loader, .busy = NAN, .cores_wanted = NAN, .cores_had = NAN
    };
    if (known) {
        *trial = *known;
    } else {
        char line[LINE_BYTES];
        int r = s->run(s->context, batch, trial, err);
        if (r) return r;
        trial->batch = batch;
        trial->with_loader = with_loader;
        const int length = stoke_trial_text(trial, line, sizeof line - 1);
        if (s->journal.file >= 0 && (length < 0 || length >= (int)sizeof line - 1))
            return stk_fail(err, STOKE_E_LIMIT, "%s: a trial is too long for a line", s->journal.path);
        if (s->journal.file >= 0) r = write_line(&s->journal, line, (size_t)length, err);
        if (r) return r;
    }
    result->trial[result->n_trials++] = *trial;
    return STOKE_OK;
}

/* A failure that says nothing about memory may be an accident: it gets a second chance. */
static int try_batch(batch_search *s, uint32_t batch, int with_loader, stoke_trial *trial, stoke_error *err)
{
    int r = ask(s, batch, with_loader, trial, err);
    if (!r && trial->outcome != STOKE_OUTCOME_OK && !is_short_of_memory(trial))
        r = ask(s, batch, with_loader, trial, err);
    return r;
}

static int fits(const batch_search *s, const stoke_trial *t)
{
    return t->outcome == STOKE_OUTCOME_OK && t->reserved <= s->result->budget;
}

/* Tries a batch and moves the end of the range it belongs to. */
static int probe(batch_search *s, uint32_t batch, stoke_error *err)
{
    stoke_batch_result *result = s->result;
    stoke_trial t;
    const int r = try_batch(s, batch, 0, &t, err);
    if (r) return r;
    if (fits(s, &t)) {
        s->low = batch > s->low ? batch : s->low;
        result->largest_ok = s->low;
    } else if (t.outcome == STOKE_OUTCOME_OK || is_short_of_memory(&t)) {
        s->high = !s->high || batch < s->high ? batch : s->high;
        if (t.outcome != STOKE_OUTCOME_OK && (!result->smallest_oom || batch < result->smallest_oom))
            result->smallest_oom = batch;
    } else {
        s->stopped = t; /* nothing larger is tried: it would fail for the same unknown reason, or worse */
    }
    stk_batch_fit_make(&s->fit, result->trial, result->n_trials);
    return STOKE_OK;
}

static int has_stopped(const batch_search *s)
{
    return s->stopped.outcome != STOKE_OUTCOME_OK;
}

/* ---- how far memory reaches ---- */

/* What the trial of a batch measured; 0 = it was none, or failed. */
static double rate_at(const batch_search *s, uint32_t batch)
{
    for (size_t i = 0; i < s->fit.n_points; i++)
        if (s->fit.point[i].batch == batch) return 1000.0 * batch / s->fit.point[i].ms;
    return 0;
}

/* Over two doublings, so that one disturbed trial does not end the search. */
static int is_flat(const batch_search *s, uint32_t batch)
{
    const double now = rate_at(s, batch), quarter = rate_at(s, batch / 4), near = s->params->near;
    return quarter > 0 && now * near * near < quarter;
}

/* 1, 2, 4, 8, and on until the line can be extended to the budget, or larger batches gain nothing. */
static int probe_all(batch_search *s, stoke_error *err)
{
    for (uint32_t batch = 1; batch <= s->most; batch *= 2) {
        const int r = probe(s, batch, err);
        if (r) return r;
        if (s->low < batch) return STOKE_OK;
        if (batch < SURE_PROBES) continue;
        const uint64_t reserved = s->result->trial[s->result->n_trials - 1].reserved;
        s->flat = is_flat(s, batch);
        if (s->flat || reserved >= s->result->budget / PROBE_SHARE) return STOKE_OK;
    }
    return STOKE_OK;
}

/* Within the ends of the range, and one of the batches that are worth it; `low` when there is none. */
static uint32_t between(const batch_search *s, double wanted)
{
    const uint32_t top = s->high && s->high <= s->most ? s->high - 1 : s->most;
    const uint32_t batch = wanted < top ? (uint32_t)wanted : top;
    const uint32_t floor = stk_batch_floor(batch, s->params->multiple);
    return floor > s->low ? floor : s->low;
}

/* What the line says, then 5 % less. Beyond 4 times the largest trial it is not believed: tried there, it is
 * extended again. Returns with high - low small, or with a line that was right. *right: nothing is left to
 * do.
 */
static int follow_line(batch_search *s, int *right, stoke_error *err)
{
    *right = 0;
    while (s->fit.linear && !has_stopped(s)) {
        const double said = stk_batch_fit_largest(&s->fit, s->result->budget);
        const double reach = (double)REACH * s->low;
        const uint32_t before = s->low, first = between(s, fmin(said, reach));
        int r = first > before ? probe(s, first, err) : STOKE_OK;
        if (r) return r;
        const int went = s->low == first;
        *right = went && said <= reach;
        if (*right || first == before) return STOKE_OK;
        if (went) continue;
        if (said > first + s->params->multiple) return STOKE_OK; /* the line is not what failed here */
        const uint32_t less = between(s, 0.95 * first);
        if (less > s->low && !has_stopped(s)) r = probe(s, less, err);
        *right = !r && s->low == less;
        return r;
    }
    return STOKE_OK;
}

/* Doubles where there is no line and nothing failed yet, then halves what is left. */
static int halve(batch_search *s, stoke_error *err)
{
    for (;;) {
        const double wanted = s->high ? 0.5 * ((double)s->low + s->high) : 2.0 * s->low;
        const uint32_t batch = between(s, wanted);
        if (has_stopped(s) || batch == s->low) return STOKE_OK;
        const int r = probe(s, batch, err);
        if (r) return r;
    }
}

/* ---- the choice ---- */

/* A fifth less, as far as a batch can be; 0 = there is none below. */
static uint32_t lower(const batch_search *s, uint32_t batch)
{
    return stk_batch_floor(batch - (batch + 4) / 5, s->params->multiple);
}

/* Memory may be short with the loader on, as on a machine where both take it from one place. */
static int confirm(batch_search *s, uint32_t batch, stoke_error *err)
{
    for (; batch; batch = lower(s, batch)) {
        const int r = try_batch(s, batch, 1, &s->confirmed, err);
        if (r) return r;
        if (fits(s, &s->confirmed)) {
            s->result->batch = batch;
            s->result->busy = s->confirmed.busy;
            return STOKE_OK;
        }
        if (s->confirmed.outcome != STOKE_OUTCOME_OK && !is_short_of_memory(&s->confirmed))
            return stk_fail(err, STOKE_E_STATE,
                            "batch %u fits, and with the loader on its trial ended with %s: %s",
                            (unsigned)batch, stoke_outcome_name(s->confirmed.outcome),
                            *s->confirmed.message ? s->confirmed.message : "it said nothing");
        s->low = lower(s, batch); /* what is told as the largest is one that trains */
    }
    return STOKE_OK;
}

/* A device that idles at the choice is looked at with the largest batch too: only if it idles there as well
 * is the batch not to blame. */
static int look_at_largest(batch_search *s, stoke_error *err)
{
    const stoke_trial chosen = s->confirmed;
    const uint32_t largest = stk_batch_floor(s->low, s->params->multiple);
    stoke_trial t;
    if (!(chosen.busy < s->params->target_busy) || largest <= chosen.batch) return STOKE_OK;
    const int r = try_batch(s, largest, 1, &t, err);
    if (r || !fits(s, &t) || batch_whole_rate(&t) * s->params->near < batch_whole_rate(&chosen)) return r;
    s->confirmed = t;
    s->result->batch = largest;
    s->result->busy = t.busy;
    return STOKE_OK;
}

/* The largest that fits: what was tried, or where larger ones gain nothing, what the line says, up to `most`.
 */
static uint32_t largest_fit(const batch_search *s, uint32_t most)
{
    if (!s->flat) return s->low;
    const uint32_t said = stk_batch_fit_largest(&s->fit, s->result->budget);
    const uint32_t floor = stk_batch_floor(said < most ? said : most, s->params->multiple);
    return floor > s->low ? floor : s->low;
}

static int choose(batch_search *s, stoke_error *err)
{
    stoke_batch_result *result = s->result;
    const stoke_batch_params *p = s->params;
    /* Of times beyond that nothing is believed; that memory goes on as it did is. */
    const uint32_t reach = REACH * s->low, beyond = largest_fit(s, reach < s->most ? reach : s->most);
    const uint32_t wanted =
        stk_batch_fit_choose(&s->fit, s->low, beyond, p->multiple, p->near, &result->best_images_s);
    int r = confirm(s, wanted, err);
    if (!r && result->batch) r = look_at_largest(s, err);
    result->images_s = result->batch ? stk_batch_fit_rate(&s->fit, result->batch) : NAN;
    return r;
}

static int search(batch_search *s, stoke_error *err)
{
    stoke_batch_result *result = s->result;
    const stk_batch_fit *fit = &s->fit;
    int right = 0, r = probe_all(s, err);
    if (!r && s->low && !s->flat && !has_stopped(s)) {
        r = follow_line(s, &right, err);
        if (!r && !right) r = halve(s, err);
    }
    if (!r && !s->low && has_stopped(s))
        return stk_fail(
            err, STOKE_E_STATE,
            "the trial with a batch of %u ended with %s: %s. That is not the batch's fault: mend it, "
            "then search",
            (unsigned)s->stopped.batch, stoke_outcome_name(s->stopped.outcome),
            *s->stopped.message ? s->stopped.message : "it said nothing");
    /* A line that fits every time within 5 % is no accident, however busy the machine. */
    const int disturbed = !r && s->low && s->fit.disturbed && !s->fit.timed;
    result->too_busy = disturbed && !s->params->although_busy;
    result->doubtful = disturbed && s->params->although_busy;
    if (!r && s->low && !result->too_busy) r = choose(s, err);
    if (r) return r;
    stk_batch_fit_make(&s->fit, result->trial, result->n_trials);
    result->linear = fit->linear;
    result->memory0 = fit->memory0;
    result->memory1 = fit->memory1;
    result->memory_r2 = fit->memory_r2;
    result->timed = fit->timed;
    result->time0 = fit->time0;
    result->time1 = fit->time1;
    result->largest_fit = largest_fit(s, s->most);
    batch_tell(s);
    return STOKE_OK;
}

int stoke_batch_search(stoke_batch_result *result, const stoke_batch_params *params, stoke_trial_fn run,
                       void *context, const char *journal, const char *key, stoke_error *err)
{
    *result = (stoke_batch_result){ .busy = NAN, .images_s = NAN, .best_images_s = NAN };
    int r = check_params(params, err);
    if (r) return r;
    batch_search *s = stk_calloc(1, sizeof *s); /* 60 KB: not for the stack of whoever calls */
    if (!s) return stk_fail(err, STOKE_E_NOMEM, "no memory for a search");
    s->params = params;
    s->run = run;
    s->context = context;
    s->result = result;
    s->most = params->largest && params->largest < STK_NET_BATCH ? params->largest : STK_NET_BATCH;
    /* What there is, less a margin for others and for luck, less what a process takes anyhow. */
    const uint64_t margin =
        stk_most((uint64_t)(params->margin * (double)params->memory), params->margin_bytes);
    const uint64_t spare = margin + params->context;
    result->budget = params->memory > spare ? params->memory - spare : 0;
    r = journal_open(&s->journal, journal, key, err);
    if (!r) r = search(s, err);
    if (s->journal.file >= 0) close(s->journal.file);
    stk_free(s);
    return r;
}
