/* SPDX-License-Identifier: Apache-2.0
 *
 * How a trial crosses from a child to its parent and into a journal: as one line of JSON.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/json_read.h"
#include "src/base/terminal.h"
#include "src/net/segformer/segformer.h"
#include <stoke/tools/findbatch.h>
#include <stoke/tools/report.h>

enum { LINE_VALUES = 32 };

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
    stoke_json_real(&json, "step_ms", trial->step_ms);
    stoke_json_real(&json, "step_low_ms", trial->step_low);
    stoke_json_real(&json, "step_high_ms", trial->step_high);
    stoke_json_real(&json, "busy", trial->busy); /* null: not measured */
    stoke_json_real(&json, "wait_ms", trial->wait_ms);
    stoke_json_real(&json, "cores_wanted", trial->cores_wanted);
    stoke_json_real(&json, "cores_had", trial->cores_had);
    stoke_json_string(&json, "message", trial->message);
    stoke_json_close(&json);
    fclose(out);
    line[strcspn(line, "\n")] = 0;
    return snprintf(text, size, "%s", line);
}

/* A time: finite and not negative, with a limit that no trial comes near. */
static int read_ms(const stk_json *json, const char *key, double *ms)
{
    return stk_json_real(json, stk_json_find(json, &json->values[0], key), ms) && *ms >= 0 && *ms < 1e9;
}

static int read_outcome(const stk_json *json, int *outcome)
{
    const char *text = stk_json_text(json, stk_json_find(json, &json->values[0], "outcome"));
    for (*outcome = 0; text && *outcome <= STOKE_OUTCOME_ERROR; ++*outcome)
        if (!strcmp(text, stoke_outcome_name(*outcome))) return 1;
    return 0;
}

/* Absent in what earlier versions wrote, and null where it was not measured. */
static int read_cores(const stk_json *json, const char *key, double *cores)
{
    const stk_json_value *value = stk_json_find(json, &json->values[0], key);
    *cores = NAN;
    if (!value || value->kind == STK_JSON_NULL) return 1;
    return stk_json_real(json, value, cores) && *cores >= 0 && *cores < 1e6;
}

static int read_fields(const stk_json *json, stoke_trial *t)
{
    const stk_json_value *root = &json->values[0], *busy = stk_json_find(json, root, "busy");
    const stk_json_value *loader = stk_json_find(json, root, "with_loader");
    const char *message = stk_json_text(json, stk_json_find(json, root, "message"));
    uint64_t batch = 0;
    t->busy = NAN;
    if (!stk_json_uint(json, stk_json_find(json, root, "batch"), &batch) || !batch || batch > STK_NET_BATCH ||
        !loader || (loader->kind != STK_JSON_TRUE && loader->kind != STK_JSON_FALSE) ||
        !read_outcome(json, &t->outcome) || !busy ||
        !stk_json_uint(json, stk_json_find(json, root, "allocated_bytes"), &t->allocated) ||
        !stk_json_uint(json, stk_json_find(json, root, "reserved_bytes"), &t->reserved) ||
        !read_ms(json, "step_ms", &t->step_ms) || !read_ms(json, "step_low_ms", &t->step_low) ||
        !read_ms(json, "step_high_ms", &t->step_high) || !read_ms(json, "wait_ms", &t->wait_ms) ||
        !read_cores(json, "cores_wanted", &t->cores_wanted) ||
        !read_cores(json, "cores_had", &t->cores_had) || !message)
        return 0;
    if (busy->kind != STK_JSON_NULL && (!stk_json_real(json, busy, &t->busy) || t->busy < 0 || t->busy > 1))
        return 0;
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
