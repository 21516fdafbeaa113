/* SPDX-License-Identifier: Apache-2.0
 *
 * What the caller of a run hears, and its clock.
 */
#include "src/train/trainer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "src/base/clock.h"
#include "src/base/mem.h"

double stk_trainer_clock(const stoke_trainer *t)
{
    return t->earlier + (t->began_ns ? (double)(stk_now_ns() - t->began_ns) / 1e9 : 0);
}

/* Steps at the pace of this session, and the evaluations between them. */
static double seconds_left(const stoke_trainer *t)
{
    if (t->session < 2 || t->now.step > t->setup.steps) return NAN;
    const uint64_t left = t->setup.steps - t->now.step;
    const int64_t every = t->setup.params.eval_every;
    const uint64_t evaluations = !t->setup.val_set ? 0 : every > 0 ? left / (uint64_t)every : left > 0;
    return (double)left * t->step_seconds / (double)(t->session - 1) + (double)evaluations * t->eval_seconds;
}

stoke_train_event stk_trainer_event(const stoke_trainer *t, stoke_train_event_kind kind)
{
    const uint64_t accumulate = (uint64_t)t->setup.params.accumulate;
    const stk_trainer_lately *lately = &t->lately;
    return (stoke_train_event){
        .kind = kind,
        .step = t->now.step,
        .steps = t->setup.steps,
        .epoch = t->now.epoch,
        .epochs = t->setup.epochs,
        .step_in_epoch = accumulate ? (t->now.batch + accumulate - 1) / accumulate : 0,
        .steps_per_epoch = accumulate ? (t->setup.batches_per_epoch + accumulate - 1) / accumulate : 0,
        .loss = t->now.epoch_steps ? t->now.epoch_loss / (double)t->now.epoch_steps : NAN,
        .last_loss = t->last_loss,
        .lr = t->lr,
        .gradient_norm = t->gradient_norm,
        .images_per_s = lately->seconds > 0 ? lately->images / lately->seconds : NAN,
        .data_wait = lately->seconds > 0 ? lately->data_seconds / lately->seconds : 0,
        .seconds_left = seconds_left(t),
        .scores = t->evaluated ? &t->scores : NULL,
    };
}

void stk_trainer_send(stoke_trainer *t, const stoke_train_event *event)
{
    if (t->event && t->event(t->context, event)) t->asked = 1;
}

int stk_trainer_count(stoke_trainer *t, stoke_train_event_kind kind, uint64_t done, uint64_t total)
{
    stoke_train_event event = stk_trainer_event(t, kind);
    event.done = done;
    event.total = total;
    stk_trainer_send(t, &event);
    return t->asked;
}

/* ---- remarks ---- */

/* Into the log, for the report. Best effort: the remark itself is told in any case. */
static void log_remark(stoke_trainer *t, const char *text)
{
    if (t->log_state == STK_LOG_OPEN)
        stk_log_writer_remark(t->log, t->now.step, stk_trainer_clock(t), text, NULL);
    if (t->log_state != STK_LOG_LATER ||
        !stk_grow((void **)&t->remarks, &t->remarks_capacity, t->n_remarks + 1, sizeof *t->remarks))
        return;
    char *copy = stk_strdup(text);
    if (copy) t->remarks[t->n_remarks++] = copy;
}

void stk_trainer_log_remarks(stoke_trainer *t)
{
    for (size_t i = 0; i < t->n_remarks; i++)
        stk_log_writer_remark(t->log, t->now.step, stk_trainer_clock(t), t->remarks[i], NULL);
    stk_trainer_drop_remarks(t);
    t->log_state = STK_LOG_OPEN;
}

void stk_trainer_drop_remarks(stoke_trainer *t)
{
    for (size_t i = 0; i < t->n_remarks; i++) stk_free(t->remarks[i]);
    stk_free(t->remarks);
    t->remarks = NULL;
    t->n_remarks = t->remarks_capacity = 0;
}

void stk_trainer_remark(stoke_trainer *t, const char *format, ...)
{
    char text[STOKE_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    stoke_train_event event = stk_trainer_event(t, STOKE_TRAIN_REMARK);
    event.text = text;
    log_remark(t, text);
    stk_trainer_send(t, &event);
}
