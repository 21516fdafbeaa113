/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/quarantine.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/number.h"
#include "src/base/remarks.h"
#include "src/base/retry.h"
#include "src/base/rng.h"
#include "src/base/terminal.h"
#include "src/base/utf8.h"

typedef stk_quarantine_entry entry;

struct stk_quarantine {
    pthread_mutex_t lock;
    const char *path;  /* NULL: none */
    int file;          /* -1: not open yet */
    char problem[512]; /* why nothing more is written; "" = it is */
    size_t recorded;   /* entries before the problem */
    stk_string_arena arena;
    entry *bad;
    size_t count, capacity;
    size_t *ids; /* open-addressed by id: index in `bad` + 1; 0 = free */
    size_t id_slots;
};

const char *stk_quarantine_named(const stoke_data_params *params)
{
    const char *path = params->quarantine;
    return path && *path && strcmp(path, stoke_data_defaults().quarantine) ? path : NULL;
}

int stk_quarantine_open(stk_quarantine **out, const char *path, stoke_error *err)
{
    stk_quarantine *q = stk_calloc(1, sizeof *q);
    *out = NULL;
    if (!q) return stk_fail(err, STOKE_E_NOMEM, "no memory for the quarantine list");
    q->file = -1;
    pthread_mutex_init(&q->lock, NULL);
    *out = q;
    if (!path || !*path || (q->path = stk_string_arena_copy(&q->arena, path, strlen(path)))) return STOKE_OK;
    stk_quarantine_close(out);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the quarantine list");
}

static size_t id_slot(const stk_quarantine *q, const size_t *ids, size_t slots, uint64_t id)
{
    size_t i = (size_t)stk_mix64(id + 1) & (slots - 1);
    while (ids[i] && q->bad[ids[i] - 1].id != id) i = (i + 1) & (slots - 1);
    return i;
}

/* Room for one more id; 0 without memory. */
static int grow_ids(stk_quarantine *q)
{
    if (2 * (q->count + 1) <= q->id_slots) return 1;
    const size_t slots = q->id_slots ? q->id_slots * 2 : 64;
    size_t *larger = stk_calloc(slots, sizeof *larger);
    if (!larger) return 0;
    for (size_t i = 0; i < q->id_slots; i++)
        if (q->ids[i]) larger[id_slot(q, larger, slots, q->bad[q->ids[i] - 1].id)] = q->ids[i];
    stk_free(q->ids);
    q->ids = larger;
    q->id_slots = slots;
    return 1;
}

enum { ESCAPE = 6 }; /* bytes that one byte of a text takes at most: \u and four digits */

/* A JSON string, or null. Bytes that are no UTF-8 become U+FFFD: paths may hold anything, JSON may not. */
static char *put_json(char *to, const char *words)
{
    if (!words) return stpcpy(to, "null");
    *to++ = '"';
    while (*words) {
        const char *start = words;
        const uint32_t code = stk_utf8_next(&words);
        if (code == '"' || code == '\\') *to++ = '\\';
        if (stk_terminal_obeys(code) || code == STK_UTF8_BAD)
            to += sprintf(to, "\\u%04x", (unsigned)code);
        else
            to = mempcpy(to, start, (size_t)(words - start));
    }
    return stpcpy(to, "\"");
}

/* The line of a record, to be freed; NULL: no memory. */
static char *make_record(uint64_t id, const stoke_sample *sample, const stoke_error *error)
{
    const char *const fields[][2] = { { "name", sample->name },
                                      { "image", sample->image_path },
                                      { sample->target_path ? "target" : "mask",
                                        sample->target_path ? sample->target_path : sample->mask_path },
                                      { "reason", error->message },
                                      { "code", stoke_status_name(error->code) } };
    enum { FIELDS = sizeof fields / sizeof *fields, HEAD = 96, KEY = 16 };
    size_t room = HEAD + FIELDS * KEY;
    for (size_t i = 0; i < FIELDS; i++) room += fields[i][1] ? ESCAPE * strlen(fields[i][1]) : 0;
    char *line = stk_alloc(room), when[32], *to = line;
    time_t now = time(NULL);
    struct tm utc;
    if (!line) return NULL;
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    to += sprintf(to, "{\"time\":\"%s\",\"id\":%llu", when, (unsigned long long)id);
    for (size_t i = 0; i < FIELDS; i++)
        to = put_json(to + sprintf(to, ",\"%s\":", fields[i][0]), fields[i][1]);
    strcpy(to, "}\n");
    return line;
}

/* The whole line at once to a file opened with O_APPEND: processes that share the file cannot mix lines. A
 * list that cannot be written is no reason to end a run that copes with bad files: from then on they are
 * remembered only. */
static void write_record(stk_quarantine *q, uint64_t id, const stoke_sample *sample, const stoke_error *error)
{
    stoke_error err = { 0 };
    if (!q->path || *q->problem) return;
    if (q->file < 0) q->file = stoke_open(q->path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (q->file < 0 && errno == ENXIO) {
        stk_fail(&err, STOKE_E_IO, "%s: cannot open: a pipe that nobody reads", q->path);
    } else if (q->file < 0) {
        stk_fail_errno(&err, STOKE_E_IO, errno, "%s: cannot open", q->path);
    } else {
        char *line = make_record(id, sample, error);
        const int number = line ? stk_write(q->file, line, strlen(line)) : ENOMEM;
        if (number) stk_fail_errno(&err, STOKE_E_IO, number, "%s: cannot write", q->path);
        stk_free(line);
    }
    if (!err.code) return;
    snprintf(q->problem, sizeof q->problem, "%.*s", (int)sizeof q->problem - 1, err.message);
    q->recorded = q->count - 1;
}

static int add_locked(stk_quarantine *q, uint64_t id, uint64_t ticket, const stoke_sample *sample,
                      const stoke_error *error, stoke_error *err)
{
    if (!stk_grow((void **)&q->bad, &q->capacity, q->count + 1, sizeof *q->bad))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the quarantine list");
    const int room = grow_ids(q);
    size_t *slot = room ? &q->ids[id_slot(q, q->ids, q->id_slots, id)] : NULL;
    if (slot && *slot) {
        entry *known = &q->bad[*slot - 1];
        if (ticket < known->ticket) known->ticket = ticket;
        return STOKE_OK;
    }
    const char *path = stk_string_arena_copy(&q->arena, sample->image_path, strlen(sample->image_path));
    const char *reason = stk_string_arena_copy(&q->arena, error->message, strlen(error->message));
    q->bad[q->count++] =
        (entry){ id, ticket, { path ? path : "(no memory)", reason ? reason : "(no memory)", error->code } };
    if (slot) *slot = q->count;
    write_record(q, id, sample, error);
    if (!room || !path || !reason) return stk_fail(err, STOKE_E_NOMEM, "no memory for the quarantine list");
    return STOKE_OK;
}

int stk_quarantine_add(stk_quarantine *q, uint64_t id, uint64_t ticket, const stoke_sample *sample,
                       const stoke_error *error, uint64_t *distinct, stoke_error *err)
{
    pthread_mutex_lock(&q->lock);
    int r = add_locked(q, id, ticket, sample, error, err);
    if (distinct) *distinct = q->count;
    pthread_mutex_unlock(&q->lock);
    return r;
}

static int compare(const entry *a, const entry *b)
{
    if (a->ticket != b->ticket) return a->ticket < b->ticket ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int is_before(const entry *a, const entry *b)
{
    const int order = compare(a, b);
    return order ? order < 0 : a < b; /* an id stands twice when memory was short */
}

uint64_t stk_quarantine_until(stk_quarantine *q, uint64_t ticket, stoke_bad_file *first, size_t most)
{
    uint64_t count = 0;
    const entry *last = NULL;
    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < q->count; i++) count += q->bad[i].ticket <= ticket;
    for (size_t n = 0; n < most && n < count; n++) {
        const entry *next = NULL;
        for (const entry *e = q->bad; e < q->bad + q->count; e++)
            if ((!last || is_before(last, e)) && (!next || is_before(e, next))) next = e;
        first[n] = next->file;
        last = next;
    }
    pthread_mutex_unlock(&q->lock);
    return count;
}

int stk_quarantine_next(stk_quarantine *q, const stk_quarantine_entry *after, uint64_t ticket,
                        stk_quarantine_entry *next)
{
    int there = 0;
    pthread_mutex_lock(&q->lock);
    for (const entry *e = q->bad; e < q->bad + q->count; e++) {
        if (e->ticket > ticket || (after && compare(e, after) <= 0)) continue;
        if (there && compare(e, next) >= 0) continue;
        *next = *e;
        there = 1;
    }
    pthread_mutex_unlock(&q->lock);
    return there;
}

enum { LISTED = 10 }; /* bad files named in the message; the rest is in the list */

int stk_quarantine_too_bad(stk_quarantine *q, uint64_t ticket, uint64_t max_bad, uint64_t samples,
                           stoke_error *err)
{
    stoke_bad_file first[LISTED];
    const uint64_t bad = stk_quarantine_until(q, ticket, first, LISTED);
    if (bad <= max_bad) return STOKE_OK;
    stk_fail(err, STOKE_E_TOO_BAD,
             "%llu of %llu samples are bad, more than max_bad allows (%llu):", (unsigned long long)bad,
             (unsigned long long)samples, (unsigned long long)max_bad);
    uint64_t listed = 0;
    while (err && listed < bad && listed < LISTED && stk_error_add_entry(err, first[listed].reason)) listed++;
    if (err && listed < bad) stk_error_add(err, "\n  ... and %llu more", (unsigned long long)(bad - listed));
    return STOKE_E_TOO_BAD;
}

uint64_t stk_quarantine_count(stk_quarantine *q)
{
    pthread_mutex_lock(&q->lock);
    uint64_t count = q->count;
    pthread_mutex_unlock(&q->lock);
    return count;
}

stoke_bad_file stk_quarantine_get(stk_quarantine *q, size_t index)
{
    pthread_mutex_lock(&q->lock);
    stoke_bad_file bad = q->bad[index].file;
    pthread_mutex_unlock(&q->lock);
    return bad;
}

const char *stk_quarantine_problem(stk_quarantine *q, size_t *recorded)
{
    pthread_mutex_lock(&q->lock);
    const char *problem = *q->problem ? q->problem : NULL;
    if (recorded) *recorded = problem ? q->recorded : q->count;
    pthread_mutex_unlock(&q->lock);
    return problem;
}

int stk_quarantine_unrecorded(stk_quarantine *q, char *line, size_t size)
{
    enum { NAMED = 3 };
    size_t first;
    const char *problem = stk_quarantine_problem(q, &first);
    const size_t count = stk_quarantine_count(q), missing = count - first;
    if (!problem) return 0;
    snprintf(line, size, "%s: %zu bad sample%s not in this list:", problem, missing,
             missing == 1 ? " is" : "s are");
    for (size_t i = 0; i < missing && i < NAMED; i++)
        stk_text_add(line, size, i ? "; " : " ", "%s", stk_quarantine_get(q, first + i).reason);
    if (missing > NAMED) stk_text_add(line, size, "; ", "and %zu more", missing - NAMED);
    return 1;
}

void stk_quarantine_close(stk_quarantine **quarantine)
{
    stk_quarantine *q = quarantine ? *quarantine : NULL;
    if (!q) return;
    if (q->file >= 0) {
        fsync(q->file); /* best effort: a pipe or /dev/stderr cannot be synced */
        close(q->file);
    }
    pthread_mutex_destroy(&q->lock);
    stk_string_arena_free(&q->arena);
    stk_free(q->bad);
    stk_free(q->ids);
    stk_free(q);
    *quarantine = NULL;
}

int stk_bad_file_make(stoke_bad_file *bad, const char *path, const stoke_error *error)
{
    *bad = (stoke_bad_file){ stk_strdup(path), stk_strdup(error->message), error->code };
    if (bad->path && bad->reason) return 1;
    stk_bad_file_free(bad);
    return 0;
}

void stk_bad_file_free(stoke_bad_file *bad)
{
    stk_free((char *)bad->path);
    stk_free((char *)bad->reason);
    *bad = (stoke_bad_file){ 0 };
}

void stk_bad_files_free(stoke_bad_file *bad, size_t count)
{
    for (size_t i = 0; i < count; i++) stk_bad_file_free(&bad[i]);
    stk_free(bad);
}

int stk_max_bad_limit(const char *words, uint64_t count, uint64_t *limit, stoke_error *err)
{
    if (!words || !*words) words = "1%";
    char number[32];
    size_t n = strlen(words);
    int percent = words[n - 1] == '%', good = 0;
    double part;
    int64_t samples;
    if (percent && n < sizeof number) {
        memcpy(number, words, n - 1);
        number[n - 1] = 0;
        good = stk_parse_real(number, &part) && part >= 0 && part <= 100;
        if (good) *limit = (uint64_t)ceil((double)count * part / 100);
    } else if (!percent) {
        good = stk_parse_int(words, &samples) && samples >= 0;
        if (good) *limit = (uint64_t)samples;
    }
    if (good) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID, "max_bad `%.40s`: a number or a percentage such as 1%% is expected",
                    words);
}
