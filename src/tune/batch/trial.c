/* SPDX-License-Identifier: Apache-2.0
 *
 * A trial: where it runs, and what it depends on.
 */
#include "src/tune/batch/batch.h"

#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#include "src/base/error.h"
#include "src/base/json_read.h"
#include "src/base/machine.h"
#include "src/base/terminal.h"
#include "src/net/network.h"
#include "src/tune/advice/advice.h"
#include "src/tune/decide/decide.h"
#include <stoke/tools/device.h>
#include <stoke/tools/findbatch.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/report.h>

/* How a trial ended. Only want of memory says something about the batch; everything else is about the machine
 * or the program, and must not pass for it. */

const char *stoke_outcome_name(int outcome)
{
    static const char *const names[] = {
        "ok", "oom", "host_oom", "shm", "device", "timeout", "crash", "error"
    };
    const int n = sizeof names / sizeof *names;
    return outcome >= 0 && outcome < n ? names[outcome] : "n/a";
}

const char *stoke_bound_name(int bound)
{
    static const char *const names[] = { "throughput", "memory", "loader", "data", "failure" };
    const int n = sizeof names / sizeof *names;
    return bound >= 0 && bound < n ? names[bound] : "n/a";
}

/* Letters large or small: drivers differ in that. */
static int says_any(const char *message, const char *const *texts)
{
    for (; *texts; texts++)
        for (const char *p = message; *p; p++)
            if (!strncasecmp(p, *texts, strlen(*texts))) return 1;
    return 0;
}

/* What PyTorch, its libraries and ours say. The last is how a MIG slice runs out of memory: an assertion. */
static const char *const no_memory[] = {
    "out of memory",       "CUDNN_STATUS_NOT_SUPPORTED", "CUBLAS_STATUS_ALLOC_FAILED",
    "DefaultCPUAllocator", "NVML_SUCCESS == r",          NULL
};
/* Errors after which a CUDA context is of no more use. */
static const char *const device_broken[] = { "CUDA error",
                                             "CUDA_ERROR_",
                                             "illegal memory access",
                                             "device-side assert",
                                             "unspecified launch failure",
                                             "the device is lost",
                                             "fell off the bus",
                                             "uncorrectable ECC",
                                             "CUDNN_STATUS_EXECUTION_FAILED",
                                             "CUDNN_STATUS_INTERNAL_ERROR",
                                             "CUBLAS_STATUS_EXECUTION_FAILED",
                                             NULL };

int stoke_outcome_of(int status, uint64_t kills_before, uint64_t kills_after, int timed_out,
                     const char *message)
{
    if (timed_out) return STOKE_OUTCOME_TIMEOUT; /* the signal that ended it was ours */
    if (WIFSIGNALED(status)) {
        if (WTERMSIG(status) == SIGKILL && kills_after > kills_before) return STOKE_OUTCOME_HOST_OOM;
        return WTERMSIG(status) == SIGBUS ? STOKE_OUTCOME_SHM : STOKE_OUTCOME_CRASH;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return STOKE_OUTCOME_OK;
    if (!message) return STOKE_OUTCOME_ERROR;
    return says_any(message, no_memory)       ? STOKE_OUTCOME_OOM
           : says_any(message, device_broken) ? STOKE_OUTCOME_DEVICE
                                              : STOKE_OUTCOME_ERROR;
}

uint64_t stoke_oom_kills(void)
{
    return stk_machine_oom_kills("/proc", "/sys/fs/cgroup");
}

/* ---- how a trial crosses from a child to its parent and into a journal: as one line of JSON ---- */

enum { LINE_VALUES = 32 };

/* Its figures. Each is 0 to `most`, which no trial comes near. */
static const struct trial_figure {
    const char *key;
    size_t offset;
    double most;
    int missing; /* 0: always there; 1: null where it was not measured; 2: absent, too, in older files */
} figures[] = {
    { "step_ms", offsetof(stoke_trial, step_ms), 1e9, 0 },
    { "step_low_ms", offsetof(stoke_trial, step_low), 1e9, 0 },
    { "step_high_ms", offsetof(stoke_trial, step_high), 1e9, 0 },
    { "busy", offsetof(stoke_trial, busy), 1, 1 },
    { "wait_ms", offsetof(stoke_trial, wait_ms), 1e9, 0 },
    { "cores_wanted", offsetof(stoke_trial, cores_wanted), 1e6, 2 },
    { "cores_had", offsetof(stoke_trial, cores_had), 1e6, 2 },
};
enum { FIGURES = sizeof figures / sizeof *figures };

int stoke_trial_text(const stoke_trial *trial, char *text, size_t size)
{
    char line[2048]; /* a message of 255 letters takes 6 bytes for each at most */
    FILE *out = fmemopen(line, sizeof line, "w");
    stoke_json json;
    if (!out) return -1;
    stoke_json_begin(&json, out, 0);
    stoke_json_object(&json, NULL);
    stoke_json_uint(&json, "batch", trial->batch);
    stoke_json_bool(&json, "with_loader", trial->with_loader);
    stoke_json_string(&json, "outcome", stoke_outcome_name(trial->outcome));
    stoke_json_uint(&json, "allocated_bytes", trial->allocated);
    stoke_json_uint(&json, "reserved_bytes", trial->reserved);
    for (size_t i = 0; i < FIGURES; i++)
        stoke_json_real(&json, figures[i].key, *(const double *)((const char *)trial + figures[i].offset));
    stoke_json_string(&json, "message", trial->message);
    stoke_json_close(&json);
    fclose(out);
    line[strcspn(line, "\n")] = 0;
    return snprintf(text, size, "%s", line);
}

static int read_figure(const stk_json *json, const struct trial_figure *figure, stoke_trial *t)
{
    const stk_json_value *value = stk_json_find(json, &json->values[0], figure->key);
    double *to = (double *)((char *)t + figure->offset);
    *to = NAN;
    if (!value) return figure->missing == 2;
    if (value->kind == STK_JSON_NULL) return figure->missing > 0;
    return stk_json_real(json, value, to) && *to >= 0 && *to <= figure->most;
}

static int read_fields(const stk_json *json, stoke_trial *t)
{
    const stk_json_value *root = &json->values[0];
    const stk_json_value *loader = stk_json_find(json, root, "with_loader");
    const char *message = stk_json_text(json, stk_json_find(json, root, "message"));
    const char *outcome = stk_json_text(json, stk_json_find(json, root, "outcome"));
    uint64_t batch = 0;
    while (outcome && t->outcome <= STOKE_OUTCOME_ERROR && strcmp(outcome, stoke_outcome_name(t->outcome)))
        t->outcome++;
    if (!stk_json_uint(json, stk_json_find(json, root, "batch"), &batch) || !batch || batch > STK_NET_BATCH ||
        !loader || (loader->kind != STK_JSON_TRUE && loader->kind != STK_JSON_FALSE) || !outcome ||
        t->outcome > STOKE_OUTCOME_ERROR ||
        !stk_json_uint(json, stk_json_find(json, root, "allocated_bytes"), &t->allocated) ||
        !stk_json_uint(json, stk_json_find(json, root, "reserved_bytes"), &t->reserved) || !message)
        return 0;
    for (size_t i = 0; i < FIGURES; i++)
        if (!read_figure(json, &figures[i], t)) return 0;
    t->batch = (uint32_t)batch;
    t->with_loader = loader->kind == STK_JSON_TRUE;
    stoke_text_format(t->message, sizeof t->message, "%s", message); /* another program wrote it */
    return 1;
}

int stoke_trial_parse(stoke_trial *trial, const char *text, size_t bytes, stoke_error *err)
{
    stk_json json;
    *trial = (stoke_trial){ .busy = NAN, .cores_wanted = NAN, .cores_had = NAN };
    const int r = stk_json_read(&json, text, bytes, LINE_VALUES, err);
    if (r) return r;
    const int whole = read_fields(&json, trial);
    stk_json_free(&json);
    return whole ? STOKE_OK : stk_fail(err, STOKE_E_FORMAT, "this is no line about a trial");
}

enum { FEWEST_STEPS = 3 };

stoke_trial_params stoke_trial_defaults(void)
{
    return (stoke_trial_params){ .struct_size = sizeof(stoke_trial_params),
                                 .device = "native",
                                 .data = stoke_data_defaults(),
                                 .train = stoke_train_defaults(),
                                 .classes = 19, /* of Cityscapes, as `stoke bench net` */
                                 .steps = 5 };
}

int stk_trial_has_data(const stoke_trial_params *params)
{
    const stoke_data_params *d = &params->data;
    return d->data || d->images || d->list;
}

void stk_trial_times(stoke_trial *trial, double *ms, size_t n)
{
    trial->step_ms = stk_median(ms, n); /* sorts */
    trial->step_low = ms[n / 4];
    trial->step_high = ms[n - 1 - n / 4];
}

/* ---- running ---- */

static int check_params(const stoke_trial_params *p, uint32_t batch, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p || !p->device)
        return stk_fail(err, STOKE_E_INVALID, "the parameters are not those of stoke_trial_defaults");
    if (!batch || batch > STK_NET_BATCH)
        return stk_fail(err, STOKE_E_INVALID, "a batch of %u: 1 to %d will do", (unsigned)batch,
                        STK_NET_BATCH);
    if (p->steps < FEWEST_STEPS || p->steps > STK_TRIAL_STEPS)
        return stk_fail(err, STOKE_E_INVALID, "a trial of %u steps: %d to %d will do", (unsigned)p->steps,
                        FEWEST_STEPS, STK_TRIAL_STEPS);
    if (!p->data.size[0] || !p->data.size[1])
        return stk_fail(err, STOKE_E_INVALID, "no size of pictures is given: --size says it");
    return STOKE_OK;
}

int stoke_trial_run(stoke_trial *trial, uint32_t batch, const stoke_trial_params *params, stoke_error *err)
{
    stoke_error own = { 0 };
    *trial = (stoke_trial){ .batch = batch,
                            .with_loader = params && params->with_loader,
                            .busy = NAN,
                            .cores_wanted = NAN,
                            .cores_had = NAN };
    int r = check_params(params, batch, err);
    if (r) return r;
    if (!strcmp(params->device, "native"))
        r = stk_trial_native(trial, params, &own);
    else if (stoke_device_simulated(params->device))
        r = stk_trial_sim(trial, params, &own);
    else
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "no trial runs on \"%.40s\": there are native, and simulated GPUs such as "
                        "sim:rtx3090",
                        params->device);
    /* LIMIT: more pixels than the engine counts, which is more than any memory holds. */
    if (r == STOKE_E_NOMEM || r == STOKE_E_LIMIT) {
        trial->outcome = STOKE_OUTCOME_OOM;
        snprintf(trial->message, sizeof trial->message, "%.250s", own.message);
        return STOKE_OK;
    }
    return r ? stk_fail_again(err, r, own.message) : STOKE_OK;
}

int stoke_trial_key(const stoke_trial_params *p, char *text, size_t size)
{
    const stoke_train_params *t = &p->train;
    const stoke_data_params *d = &p->data;
    const int native = !strcmp(p->device, "native");
    const char *from = d->data ? d->data : d->images ? d->images : d->list ? d->list : "none";
    char sizes[64] = ""; /* of the network */
    if (stk_model_takes(t->model, 1, 0))
        snprintf(sizes, sizeof sizes, " channels %u blocks %u task %d scale %u", (unsigned)p->base_channels,
                 (unsigned)p->num_blocks, p->task, (unsigned)p->scale);
    int n =
        snprintf(text, size,
                 "%s %s%s%s%.60s %ux%u %u classes %s optimizer %d memory %d frozen %d average %d loss %d "
                 "steps %u limit %llu data %.160s workers %lld augment %.60s",
                 p->device, t->model ? t->model : "", sizes, t->pretrained ? " from " : "",
                 t->pretrained ? t->pretrained : "", (unsigned)d->size[0], (unsigned)d->size[1],
                 (unsigned)p->classes, stoke_precision_name(t->precision), t->optimizer, t->memory,
                 t->freeze_encoder, t->average > 0, t->loss, (unsigned)p->steps,
                 (unsigned long long)p->memory, from, (long long)d->workers, d->augment ? d->augment : "");
    if (n < 0 || (size_t)n >= size) return n;
    if (native)
        return n + snprintf(text + n, size - (size_t)n, " on %.60s, %u cores, %lld threads",
                            stoke_machine_cpu_name(), stoke_machine_cores().usable, (long long)t->threads);
    return n + snprintf(text + n, size - (size_t)n, " times %g %g", p->time0, p->time1);
}
