/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets Python ask for scores: a job per line of stdin, then its arrays as raw little-endian bytes.
 *
 *   scores CLASSES IGNORE DTYPE PIXELS    u16 predictions, then the truth as DTYPE (stoke_dtype).
 *   Answer: f64 miou f1_macro f1_micro precision recall pixel_accuracy, then iou f1 precision recall of each
 *   class.
 */
#include <stdio.h>
#include <stdlib.h>

#include <stoke/tools/metrics.h>

static void die(const char *why)
{
    fprintf(stderr, "metrics_tool: %s\n", why);
    exit(2);
}

static void *receive(size_t bytes)
{
    void *data = malloc(bytes);
    if (!data || fread(data, 1, bytes, stdin) != bytes) die("the job's arrays are too short");
    return data;
}

static void answer(const stoke_confusion *c)
{
    const stoke_scores s = stoke_confusion_scores(c);
    const double means[] = { s.miou, s.f1_macro, s.f1_micro, s.precision, s.recall, s.pixel_accuracy };
    fwrite(means, sizeof means, 1, stdout);
    for (uint32_t id = 0; id < stoke_confusion_classes(c); id++) {
        const stoke_class_score class = stoke_confusion_class(c, id);
        const double scores[] = { class.iou, class.f1, class.precision, class.recall };
        fwrite(scores, sizeof scores, 1, stdout);
    }
    fflush(stdout);
}

int main(void)
{
    unsigned classes, dtype;
    long long ignore;
    size_t pixels;
    while (scanf(" scores %u %lld %u %zu", &classes, &ignore, &dtype, &pixels) == 4) {
        stoke_confusion *c;
        stoke_error err;
        getchar(); /* the end of the line; bytes follow */
        if (pixels > 1u << 26 || dtype > STOKE_DTYPE_I64) die("a job beyond what it is made for");
        uint16_t *predicted = receive(pixels * sizeof *predicted);
        void *truth = receive(pixels * stoke_dtype_bytes((stoke_dtype)dtype));
        if (stoke_confusion_create(&c, classes, ignore, &err) ||
            stoke_confusion_add(c, predicted, truth, (stoke_dtype)dtype, pixels, &err))
            die(err.message);
        answer(c);
        stoke_confusion_destroy(&c);
        free(predicted);
        free(truth);
    }
    return feof(stdin) ? 0 : 2;
}
