/* SPDX-License-Identifier: Apache-2.0
 *
 * One table names every field; writer and reader go through it, so that neither can forget one.
 */
#include "src/train/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <stoke/tools/report.h>

#include "src/base/error.h"
#include "src/base/json_read.h"
#include "src/base/mem.h"
#include "src/base/terminal.h"

enum { VERSION = 1 };

/* SCORE_: a real that is NaN where the state has none: an older program's, or a run's of the other task. */
typedef enum field_kind { COUNT, COUNT32, REAL, SCORE_SEGMENT, SCORE_RESTORE, TEXT } field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t offset, size;
} field;

#define FIELD(name, kind, member)                                                                            \
    {                                                                                                        \
        name, kind, offsetof(stk_checkpoint_info, member), sizeof((stk_checkpoint_info *)0)->member          \
    }
static const field FIELDS[] = {
    FIELD("step", COUNT, progress.step),
    FIELD("epoch", COUNT, progress.epoch),
    FIELD("batch", COUNT, progress.batch),
    FIELD("loader", TEXT, progress.loader),
    FIELD("epoch_loss", REAL, progress.epoch_loss),
    FIELD("epoch_steps", COUNT, progress.epoch_steps),
    FIELD("images", COUNT, progress.images),
    FIELD("best", REAL, progress.best),
    FIELD("best_step", COUNT, progress.best_step),
#define STOKE_SCORE(id, task, name, ...) FIELD("best_" #name, SCORE_##task, progress.best_scores.name),
#include <stoke/scores.def>
#undef STOKE_SCORE
    FIELD("best_classes_counted", COUNT32, progress.best_scores.classes_counted),
    FIELD("best_pixels", COUNT, progress.best_scores.pixels),
    FIELD("evaluations", COUNT, progress.evaluations),
    FIELD("without_gain", COUNT, progress.without_gain),
    FIELD("evaluated", COUNT, progress.evaluated),
    FIELD("skipped_in_a_row", COUNT, progress.skipped_in_a_row),
    FIELD("seconds", REAL, progress.seconds),
    FIELD("data_seconds", REAL, progress.data_seconds),
    FIELD("eval_seconds", REAL, progress.eval_seconds),
    FIELD("save_seconds", REAL, progress.save_seconds),
    FIELD("cpu", TEXT, progress.cpu),
    FIELD("net_step", COUNT, net.step),
    FIELD("net_draws", COUNT, net.draws),
    FIELD("net_batches_tracked", COUNT, net.batches_tracked),
    FIELD("net_loss_scale", REAL, net.loss_scale),
    FIELD("net_good_steps", COUNT, net.good_steps),
    FIELD("data_xxh3", TEXT, data_hash),
};
#undef FIELD
/* A field that is added to one of these structs must be added above, or it would not be kept. */
_Static_assert(sizeof(stk_checkpoint_progress) == STK_LOADER_STATE + 16 + (18 + STOKE_SCORES) * 8,
               "a field of stk_checkpoint_progress is not listed");
_Static_assert(sizeof(stoke_net_state) == 5 * 8, "a field of stoke_net_state is not listed");
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS };

/* The same for what is written as for what is read: no state is written that would be refused. */
static int check(const stk_checkpoint_info *info, stoke_error *err)
{
    const stk_checkpoint_progress *p = &info->progress;
    const char *wrong = NULL;
    if (info->net.step > p->step) wrong = "more updates were done than steps taken";
    if (p->best_step > p->step || p->evaluated > p->step)
        wrong = "a step that was evaluated is still to come";
    if (p->without_gain > p->evaluations) wrong = "more evaluations were without gain than there were";
    if (!isfinite(info->net.loss_scale) || info->net.loss_scale < 1) wrong = "the loss scale is under 1";
    if (!stk_terminal_plain(p->loader) || !stk_terminal_plain(p->cpu)) wrong = "control characters in a text";
    return wrong ? stk_fail(err, STOKE_E_STATE, "its counters contradict each other: %s", wrong) : STOKE_OK;
}

/* JSON has no word for what is not finite: null is NaN (best before the first evaluation), texts are the
 * infinities (a loss that ran away). */
static const char INFINITY_TEXT[] = "infinity", MINUS_INFINITY_TEXT[] = "-infinity";

static void write_real(stoke_json *json, const char *name, double value)
{
    if (isinf(value))
        stoke_json_string(json, name, value > 0 ? INFINITY_TEXT : MINUS_INFINITY_TEXT);
    else
        stoke_json_real(json, name, value); /* the shortest text that reads back to it; null for NaN */
}

/* Of a run that segments they are NaN, and are left out: its states are those of programs that know no other
 * task, to the byte. */
static void write_restored(stoke_json *json, const char *name, double value)
{
    if (!isnan(value)) write_real(json, name, value);
}

static void write_field(stoke_json *json, const field *f, const void *at)
{
    switch (f->kind) {
    case COUNT: stoke_json_uint(json, f->name, *(const uint64_t *)at); break;
    case COUNT32: stoke_json_uint(json, f->name, *(const uint32_t *)at); break;
    case REAL:
    case SCORE_SEGMENT: write_real(json, f->name, *(const double *)at); break;
    case SCORE_RESTORE: write_restored(json, f->name, *(const double *)at); break;
    case TEXT: stoke_json_string(json, f->name, at); break;
    }
}

int stk_checkpoint_info_text(const stk_checkpoint_info *info, char **text, stoke_error *err)
{
    *text = NULL;
    const int status = check(info, err);
    if (status) return status;
    /* A character takes 6 at most (\u001f), a number 24, a name 24 with all around it. */
    size_t room = 64 + 6 * strlen(info->identity);
    for (size_t i = 0; i < FIELD_COUNT; i++) room += 48 + 6 * (FIELDS[i].kind == TEXT ? FIELDS[i].size : 0);
    char *bytes = stk_alloc(room);
    FILE *stream = bytes ? fmemopen(bytes, room, "w") : NULL;
    if (!stream) {
        stk_free(bytes);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for %zu bytes of text", room);
    }
    stoke_json json;
    stoke_json_begin(&json, stream, 0);
    stoke_json_object(&json, NULL);
    stoke_json_uint(&json, "version", VERSION);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        write_field(&json, &FIELDS[i], (const char *)info + FIELDS[i].offset);
    stoke_json_string(&json, "identity", info->identity);
    stoke_json_close(&json);
    fclose(stream);               /* and the zero behind it */
    bytes[strlen(bytes) - 1] = 0; /* the line's end */
    *text = bytes;
    return STOKE_OK;
}

static int read_real(const stk_json *json, const stk_json_value *value, double *out)
{
    if (value->kind == STK_JSON_NULL) {
        *out = NAN;
        return 1;
    }
    if (value->kind != STK_JSON_STRING) return stk_json_real(json, value, out);
    const char *text = stk_json_text(json, value);
    *out = *text == '-' ? -INFINITY : INFINITY;
    return !strcmp(text, INFINITY_TEXT) || !strcmp(text, MINUS_INFINITY_TEXT);
}

/* 1 = ok. */
static int read_field(const stk_json *json, const field *f, const stk_json_value *value, void *at)
{
    uint64_t count;
    switch (f->kind) {
    case COUNT: return stk_json_uint(json, value, at);
    case COUNT32:
        if (!stk_json_uint(json, value, &count) || count > UINT32_MAX) return 0;
        *(uint32_t *)at = (uint32_t)count;
        return 1;
    case REAL:
    case SCORE_SEGMENT:
    case SCORE_RESTORE: return read_real(json, value, at);
    case TEXT: break;
    }
    const char *text = value->kind == STK_JSON_STRING ? stk_json_text(json, value) : NULL;
    if (!text || strlen(text) >= f->size) return 0;
    strcpy(at, text);
    return 1;
}

static int read_fields(stk_checkpoint_info *info, const stk_json *json, stoke_error *err)
{
    const stk_json_value *root = &json->values[0], *version = stk_json_find(json, root, "version"),
                         *identity = stk_json_find(json, root, "identity");
    uint64_t number;
    unsigned missing = 0;
    if (!stk_json_uint(json, version, &number))
        return stk_fail(err, STOKE_E_FORMAT, "it tells no version: not a state of a run");
    if (number != VERSION)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "of version %llu, this program reads version %d: resume with "
                        "the program that wrote it",
                        (unsigned long long)number, VERSION);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const stk_json_value *value = stk_json_find(json, root, FIELDS[i].name);
        void *at = (char *)info + FIELDS[i].offset;
        if (!value && (FIELDS[i].kind == SCORE_SEGMENT || FIELDS[i].kind == SCORE_RESTORE)) {
            *(double *)at = NAN;
            missing++;
        } else if (!value || !read_field(json, &FIELDS[i], value, at))
            return stk_fail(err, STOKE_E_FORMAT, "\"%s\" %s", FIELDS[i].name,
                            value ? "is not what it should be" : "is missing");
    }
    if (!identity || identity->kind != STK_JSON_STRING)
        return stk_fail(err, STOKE_E_FORMAT, "\"identity\" is missing or no text");
    if (root->count + missing != FIELD_COUNT + 2)
        return stk_fail(err, STOKE_E_FORMAT, "it holds %u fields, %d are known", (unsigned)root->count,
                        FIELD_COUNT + 2);
    const int status = check(info, err);
    if (status) return status;
    info->identity = stk_strdup(stk_json_text(json, identity));
    return info->identity ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "no memory");
}

int stk_checkpoint_info_read(stk_checkpoint_info *info, const char *text, size_t size, stoke_error *err)
{
    *info = (stk_checkpoint_info){ 0 };
    stk_json json;
    const int status = stk_json_read(&json, text, size, 4 * FIELD_COUNT, err);
    if (status) return status;
    const int fields = read_fields(info, &json, err);
    stk_json_free(&json);
    return fields;
}
