/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/train_bar.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const char *metric_title(int metric)
{
    return metric == STOKE_METRIC_LOSS ? "loss" : stoke_score_at(metric)->title;
}

const char *train_bar_scores(const train_bar *bar, const stoke_scores *scores, char text[TRAIN_BAR_SCORES])
{
    if (bar->task == STOKE_TASK_RESTORE) {
        snprintf(text, TRAIN_BAR_SCORES, "PSNR %.2f dB, SSIM %.4f", scores->psnr, scores->ssim);
        return text;
    }
    const int n = snprintf(text, TRAIN_BAR_SCORES, "mIoU %.4f, F1 %.4f, pixel accuracy %.4f", scores->miou,
                           scores->f1_macro, scores->pixel_accuracy);
    switch (bar->metric) {
    case STOKE_METRIC_MIOU:
    case STOKE_METRIC_F1:
    case STOKE_METRIC_ACCURACY:
    case STOKE_METRIC_LOSS: break;
    default:
        snprintf(text + n, TRAIN_BAR_SCORES - (size_t)n, ", %s %.4f", metric_title(bar->metric),
                 stoke_score_value(scores, bar->metric));
    }
    return text;
}

void train_bar_end(train_bar *bar)
{
    stoke_progress_destroy(&bar->aside);
    stoke_progress_destroy(&bar->epochs);
}

/* A line is to be printed. */
static void make_way(train_bar *bar)
{
    stoke_progress_destroy(&bar->aside);
    stoke_progress_pause(bar->epochs);
}

/* Work between steps: it gets the screen while it lasts. */
static void show_aside(train_bar *bar, const stoke_train_event *e, const char *label, const char *unit)
{
    if (!bar->aside) {
        stoke_progress_pause(bar->epochs);
        bar->aside = cli_progress_begin(bar->call, label, unit);
    }
    cli_progress_update(bar->aside, e->done, e->total);
}

/* ", F1 0.612, mIoU 0.512": F1 and the metric that decides (mIoU where that is the loss) of the last
 * evaluation; ", PSNR 28.13 dB, SSIM 0.912" of restored pictures. Returns its length. */
static int last_scores(const train_bar *bar, const stoke_scores *scores, char *text, size_t size)
{
    const int restore = bar->task == STOKE_TASK_RESTORE;
    if (!scores) return snprintf(text, size, ", %s n/a", restore ? "PSNR" : "F1");
    if (restore) return snprintf(text, size, ", PSNR %.2f dB, SSIM %.3f", scores->psnr, scores->ssim);
    const int metric = bar->metric == STOKE_METRIC_LOSS ? STOKE_METRIC_MIOU : bar->metric;
    const int n = snprintf(text, size, ", F1 %.3f", scores->f1_macro);
    if (metric == STOKE_METRIC_F1) return n;
    return n + snprintf(text + n, size - (size_t)n, ", %s %.3f", metric_title(metric),
                        stoke_score_value(scores, metric));
}

/* "loss 1.234, F1 0.612, mIoU 0.512, 21.3 samples/s, busy 98 %": busy is the share of the time that was not
 * waited for data, in the mean of all ranks. */
static void step_text(const train_bar *bar, const stoke_train_event *e, char *text, size_t size)
{
    int n = snprintf(text, size, "loss %.3f", e->loss);
    n += last_scores(bar, e->scores, text + n, size - (size_t)n);
    if (!isfinite(e->images_per_s)) return;
    n += snprintf(text + n, size - (size_t)n, ", %.1f samples/s, busy %.0f %%", e->images_per_s,
                  100 * (1 - e->data_wait));
    if (e->worst_wait > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, ", rank %u waits for data %.0f %%", (unsigned)e->worst_rank,
                 100 * e->worst_wait);
}

static void show_step(train_bar *bar, const stoke_train_event *e)
{
    char label[64], text[192];
    if (!bar->epochs) bar->epochs = cli_progress_begin(bar->call, "", "steps");
    snprintf(label, sizeof label, "epoch %llu/%llu", (unsigned long long)e->epoch + 1,
             (unsigned long long)e->epochs);
    step_text(bar, e, text, sizeof text);
    stoke_progress_label(bar->epochs, label);
    stoke_progress_note(bar->epochs, text);
    stoke_progress_left(bar->epochs, e->seconds_left);
    /* The last epoch may be cut short (--steps). */
    const uint64_t rest = e->steps - (e->step - e->step_in_epoch);
    cli_progress_update(bar->epochs, e->step_in_epoch, rest < e->steps_per_epoch ? rest : e->steps_per_epoch);
}

/* Every epoch its line; short ones share: on a terminal one in 2 s, in a log one in 10. */
static void show_epoch(train_bar *bar, const stoke_train_event *e)
{
    const uint64_t now = stoke_machine_now_ns(), pause = isatty(STDERR_FILENO) ? 2000000000u : 10000000000u;
    const int last = e->step >= e->steps;
    char text[192];
    if (bar->line_ns && now - bar->line_ns < pause && !last) return;
    bar->line_ns = now;
    make_way(bar);
    step_text(bar, e, text, sizeof text);
    cli_say(bar->call, "epoch %llu/%llu: step %llu, %s, lr %.3g", (unsigned long long)e->epoch + 1,
            (unsigned long long)e->epochs, (unsigned long long)e->step, text, e->lr);
}

static void show_evaluation(train_bar *bar, const stoke_train_event *e)
{
    char scores[TRAIN_BAR_SCORES];
    make_way(bar);
    if (!e->scores) return;
    cli_say(bar->call, "evaluation at step %llu: %s, loss %.4f%s%s (%s)", (unsigned long long)e->step,
            train_bar_scores(bar, e->scores, scores), e->loss, e->best ? ": the best so far by " : "",
            e->best ? metric_title(bar->metric) : "", STOKE_SECONDS(e->seconds));
}

void train_bar_show(train_bar *bar, const stoke_train_event *e)
{
    switch (e->kind) {
    case STOKE_TRAIN_REMARK:
        make_way(bar);
        cli_say(bar->call, "remark: %s", CLI_WITH_FLAGS(bar->call, e->text));
        break;
    case STOKE_TRAIN_SETTLING: show_aside(bar, e, "reading masks", "masks"); break;
    case STOKE_TRAIN_EVALUATING: show_aside(bar, e, "evaluating", "samples"); break;
    case STOKE_TRAIN_STEP: show_step(bar, e); break;
    case STOKE_TRAIN_EPOCH: show_epoch(bar, e); break;
    case STOKE_TRAIN_EVALUATED: show_evaluation(bar, e); break;
    case STOKE_TRAIN_SAVED:
        make_way(bar);
        cli_say(bar->call, "checkpoint at step %llu (%s)", (unsigned long long)e->step,
                STOKE_SECONDS(e->seconds));
        break;
    case STOKE_TRAIN_READY:
    case STOKE_TRAIN_DONE: train_bar_end(bar); break;
    }
}
