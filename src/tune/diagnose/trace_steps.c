/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the device computes for a step, from somebody's trace (Chrome's format):
 *
 *   ours            spans named "step" of a compute engine: their length
 *   torch.profiler  ranges ProfilerStep#N; of each, the time in which at least one kernel ran. The range on
 *                   the card (gpu_user_annotation) is taken where there is one: that on the host ends before
 *                   its kernels do.
 *
 * The file may be anybody's: its size, its values and every number are checked.
 */
#include "src/tune/diagnose/diagnose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/json_read.h"
#include "src/base/mem.h"

enum {
    FILE_LIMIT = 256 << 20,
    VALUES = 1 << 24, /* 400 MB of tree; an event of torch.profiler has about 20 */
    STEPS = 1000000,
};
static const double longest_ms = 1e6;

typedef struct span {
    double start, end; /* us */
} span;

typedef struct spans {
    span *at;
    size_t n, capacity;
} spans;

typedef struct sorted_trace {
    const stk_json *json;
    spans own;          /* "step" */
    spans host;         /* ProfilerStep#N */
    spans card;         /* the same of gpu_user_annotation */
    spans kernels;      /* of one card */
    const char *device; /* pid of the first kernel */
    int devices;        /* more than that one has kernels */
} sorted_trace;

/* ---- events ---- */

static const char *text_of(const stk_json *json, const stk_json_value *event, const char *key)
{
    const char *text = stk_json_text(json, stk_json_find(json, event, key));
    return text ? text : "";
}

static int add(spans *list, span s, stoke_error *err)
{
    if (!stk_grow((void **)&list->at, &list->capacity, list->n + 1, sizeof *list->at))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the events of a trace");
    list->at[list->n++] = s;
    return STOKE_OK;
}

static int take_event(sorted_trace *t, const stk_json_value *event, stoke_error *err)
{
    double start, length;
    const char *name = text_of(t->json, event, "name"), *cat = text_of(t->json, event, "cat");
    if (strcmp(text_of(t->json, event, "ph"), "X") != 0) return STOKE_OK;
    const int kernel = !strcmp(cat, "kernel"), range = !strncmp(name, "ProfilerStep#", 13);
    if (!kernel && !range && strcmp(name, "step") != 0) return STOKE_OK;
    if (!stk_json_real(t->json, stk_json_find(t->json, event, "ts"), &start) ||
        !stk_json_real(t->json, stk_json_find(t->json, event, "dur"), &length) || !(length >= 0) ||
        !isfinite(start) || !isfinite(start + length))
        return STOKE_OK;
    const span s = { start, start + length };
    if (kernel) { /* those of several cards run at once; their union would be the time of none of them */
        const char *pid = text_of(t->json, event, "pid");
        if (!t->device) t->device = pid;
        if (!strcmp(pid, t->device)) return add(&t->kernels, s, err);
        t->devices = 1;
        return STOKE_OK;
    }
    return add(!range ? &t->own : !strcmp(cat, "gpu_user_annotation") ? &t->card : &t->host, s, err);
}

static int take_events(sorted_trace *t, const char *name, stoke_error *err)
{
    const stk_json_value *root = t->json->values;
    const stk_json_value *events =
        root->kind == STK_JSON_ARRAY ? root : stk_json_find(t->json, root, "traceEvents");
    if (!events || events->kind != STK_JSON_ARRAY)
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: no trace: it is JSON, but has no list \"traceEvents\" as `stoke bench device "
                        "--trace` and torch.profiler's export_chrome_trace write it",
                        name);
    int r = STOKE_OK;
    for (const stk_json_value *e = stk_json_first(t->json, events); e && !r; e = stk_json_next(t->json, e))
        r = take_event(t, e, err);
    return r;
}

/* ---- time with a kernel running ---- */

static int by_start(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* From the first step on, which is early enough. What lies beyond 30 years is of no trace. */
static uint64_t ns_since(double first, double us)
{
    return (uint64_t)(fmin(fmax(us - first, 0), 1e15) * 1000 + 0.5);
}

/* `steps` is sorted, and not empty. */
static int kernel_time(const spans *steps, const spans *kernels, double *ms, size_t *n, stoke_error *err)
{
    const double first = steps->at[0].start;
    stk_cover running;
    const int r = stk_cover_create(&running, kernels->n, err);
    if (r) return r;
    for (size_t i = 0; i < kernels->n; i++)
        stk_cover_add(&running, ns_since(first, kernels->at[i].start), ns_since(first, kernels->at[i].end));
    stk_cover_unite(&running);
    for (const span *s = steps->at; s < steps->at + steps->n; s++) {
        const uint64_t ns = stk_cover_within(&running, ns_since(first, s->start), ns_since(first, s->end));
        if (ns) ms[(*n)++] = (double)ns / 1e6;
    }
    stk_cover_destroy(&running);
    return STOKE_OK;
}

/* ---- the whole ---- */

static int collect(sorted_trace *t, const char *name, double **out, size_t *n, char *what, size_t size,
                   stoke_error *err)
{
    const int torch = t->host.n || t->card.n;
    spans *steps = t->card.n ? &t->card : torch ? &t->host : &t->own;
    int r = STOKE_OK;
    *n = 0;
    if (steps->n > STEPS)
        return stk_fail(err, STOKE_E_LIMIT, "%s: %zu steps: %d are enough", name, steps->n, STEPS);
    if (steps->n) qsort(steps->at, steps->n, sizeof *steps->at, by_start);
    double *ms = stk_alloc((steps->n + 1) * sizeof *ms);
    if (!ms) return stk_fail(err, STOKE_E_NOMEM, "no memory for %zu steps", steps->n);
    if (torch)
        r = kernel_time(steps, &t->kernels, ms, n, err);
    else
        for (size_t i = 0; i < steps->n; i++)
            if (steps->at[i].end > steps->at[i].start)
                ms[(*n)++] = (steps->at[i].end - steps->at[i].start) / 1000;
    if (!r && !*n && torch)
        r = stk_fail(err, STOKE_E_NOTFOUND,
                     "%s: %zu steps of torch.profiler, but no kernel of a card within them: profile with "
                     "ProfilerActivity.CUDA, and give the time of a step by --step-ms until then",
                     name, t->host.n + t->card.n);
    else if (!r && !*n)
        r = stk_fail(err, STOKE_E_NOTFOUND,
                     "%s: no steps in this trace: neither spans \"step\" (`stoke bench device --trace`) nor "
                     "ProfilerStep# (torch.profiler with a schedule, and prof.step() in the loop)",
                     name);
    double low = INFINITY, high = 0, sum = 0;
    for (size_t i = 0; i < *n && !r; i++) {
        low = fmin(low, ms[i]);
        high = fmax(high, ms[i]);
        sum += ms[i];
        if (ms[i] > longest_ms)
            r = stk_fail(err, STOKE_E_INVALID, "%s: step %zu takes %.0f s: no step is that long", name, i,
                         ms[i] / 1000);
    }
    if (r) {
        stk_free(ms);
        *n = 0;
        return r;
    }
    snprintf(what, size, "%zu step%s of %.2f ms in the mean (%.2f to %.2f), %s%s", *n, *n == 1 ? "" : "s",
             sum / (double)*n, low, high,
             torch ? "time in which kernels ran, from torch.profiler" : "from a trace of stoke",
             t->devices ? ", of the first card in the trace" : "");
    *out = ms;
    return STOKE_OK;
}

int stk_trace_steps_of(const char *text, size_t size, const char *name, double **step_ms, size_t *n,
                       char *what, size_t what_size, stoke_error *err)
{
    stk_json json;
    stoke_error own = { 0 };
    *step_ms = NULL;
    *n = 0;
    int r = stk_json_read(&json, text, size, VALUES, &own);
    if (r) return stk_fail(err, r, "%s: %s", name, own.message);
    sorted_trace t = { .json = &json };
    r = take_events(&t, name, err);
    if (!r) r = collect(&t, name, step_ms, n, what, what_size, err);
    spans *const lists[] = { &t.own, &t.host, &t.card, &t.kernels };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) stk_free(lists[i]->at);
    stk_json_free(&json);
    return r;
}

int stoke_trace_steps(const char *path, double **step_ms, size_t *n, char *what, size_t what_size,
                      stoke_error *err)
{
    stk_mem_buffer buffer = { 0 };
    size_t size;
    *step_ms = NULL;
    *n = 0;
    int r = stk_file_read(path, FILE_LIMIT, &buffer, &size, err);
    if (!r) r = stk_trace_steps_of(buffer.data, size, path, step_ms, n, what, what_size, err);
    stk_buffer_free(&buffer);
    return r;
}

void stoke_trace_steps_free(double **step_ms)
{
    stk_free(*step_ms);
    *step_ms = NULL;
}
