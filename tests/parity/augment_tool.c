/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets Python carry plans out with the product's own functions, and draw them. One job per line of stdin;
 * what the answer holds stands with each.
 *
 *   run WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT DEPTH NORMALIZE STEP...
 *       The fitted picture follows the line as raw bytes: WIDTH x HEIGHT x 3 samples of DEPTH bytes, then
 *       WIDTH x HEIGHT bytes of labels. NORMALIZE is a number of <stoke/data.h>. Steps (see <stoke/plan.h>):
 *         flip HFLIP VFLIP            when there is no warp
 *         warp M0 M1 M2 M3 M4 M5      32.32 fixed point
 *         elastic ALPHA STEP KEY
 *         touch KIND N A B X Y WIDTH HEIGHT RED GREEN BLUE KEY
 *       Answers 3 x OUT_HEIGHT x OUT_WIDTH floats, then the labels; what comes from outside is black / 255.
 *   field OUT_WIDTH OUT_HEIGHT ALPHA STEP KEY
 *       Answers the elastic displacement, in 1/65536 px: per row OUT_WIDTH int32 of x, then as many of y.
 *   draw SPEC WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT SEED EPOCH POSITION
 *       Answers the plan of a source of that size as one line of text, in the words above after
 *       "box X Y WIDTH HEIGHT fit WIDTH HEIGHT place X Y", before "mix KIND LAMBDA X Y WIDTH HEIGHT".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/pix/pix.h"
#include "src/pix/touch.h"
#include "src/pix/warp.h"
#include <stoke/augment.h>

enum { IGNORE = 255, LINE = 8192 };

static const uint8_t black[3];

static void die(const char *why)
{
    fprintf(stderr, "augment_tool: %s\n", why);
    exit(2);
}

static void *take(size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!block) die("no memory");
    return block;
}

static void send(const void *bytes, size_t size)
{
    if (fwrite(bytes, 1, size, stdout) != size) die("cannot write");
}

static stoke_image receive(uint32_t width, uint32_t height, uint32_t channels, uint32_t depth)
{
    const size_t stride = (size_t)width * channels * depth;
    stoke_image image = { take(stride * height), stride, width, height, (uint8_t)channels, (uint8_t)depth };
    if (fread(image.data, stride, height, stdin) != height) die("pixels are missing");
    return image;
}

/* ---- words ---- */

static const char *word(char **rest)
{
    const char *token = strtok_r(NULL, " \n", rest);
    if (!token) die("the line is too short");
    return token;
}

static uint64_t whole(char **rest)
{
    return strtoull(word(rest), NULL, 10);
}

static uint32_t whole32(char **rest)
{
    return (uint32_t)whole(rest);
}

static float real(char **rest)
{
    return strtof(word(rest), NULL);
}

static void read_touch(stoke_plan *plan, char **rest)
{
    if (plan->n_touches == STOKE_PLAN_TOUCHES) die("too many touches");
    stoke_touch *touch = &plan->touch[plan->n_touches++];
    const char *name = word(rest);
    while (touch->kind < STOKE_TOUCH_KINDS && strcmp(name, stoke_touch_name((stoke_touch_kind)touch->kind)))
        touch->kind++;
    if (touch->kind == STOKE_TOUCH_KINDS) die("unknown kind of touch");
    touch->n = whole32(rest);
    touch->a = real(rest);
    touch->b = real(rest);
    touch->box.x = whole32(rest), touch->box.y = whole32(rest);
    touch->box.width = whole32(rest), touch->box.height = whole32(rest);
    for (int c = 0; c < 3; c++) touch->fill[c] = (uint8_t)whole(rest);
    touch->key = whole(rest);
}

static void read_elastic(stoke_plan *plan, char **rest)
{
    plan->elastic_alpha = real(rest);
    plan->elastic_step = real(rest);
    plan->elastic_key = whole(rest);
}

static void read_steps(stoke_plan *plan, char **rest)
{
    for (const char *step; (step = strtok_r(NULL, " \n", rest));) {
        if (!strcmp(step, "flip")) {
            plan->hflip = (uint8_t)whole(rest);
            plan->vflip = (uint8_t)whole(rest);
        } else if (!strcmp(step, "warp")) {
            plan->warp = 1;
            for (int i = 0; i < 6; i++) plan->matrix[i] = strtoll(word(rest), NULL, 10);
        } else if (!strcmp(step, "elastic")) {
            read_elastic(plan, rest);
        } else if (!strcmp(step, "touch")) {
            read_touch(plan, rest);
        } else {
            die("unknown step");
        }
    }
}

/* ---- run ---- */

/* Rows on their way to the touches: the laid out picture, warped row by row or as it is. */
typedef struct layout {
    stk_warper warper;
    const stoke_plan *plan;
    const stoke_image *image;
    uint32_t width, height;
    uint8_t *row;
} layout;

static const void *layout_row(void *context, uint32_t y)
{
    layout *l = context;
    if (l->plan->warp) {
        stk_warp_image_row(&l->warper, l->image, black, y, l->row);
        return l->row;
    }
    const size_t pixel = 3u * l->image->depth;
    const uint32_t from = l->plan->vflip ? l->height - 1 - y : y;
    const uint8_t *source = (const uint8_t *)l->image->data + from * l->image->stride;
    if (!l->plan->hflip) return source;
    for (uint32_t x = 0; x < l->width; x++)
        memcpy(l->row + x * pixel, source + (l->width - 1 - x) * pixel, pixel);
    return l->row;
}

static void send_mask(layout *l, const stoke_image *mask)
{
    for (uint32_t y = 0; y < l->height; y++) {
        if (l->plan->warp) {
            stk_warp_mask_row(&l->warper, mask, IGNORE, y, l->row);
        } else {
            const uint8_t *source =
                (const uint8_t *)mask->data + (l->plan->vflip ? l->height - 1 - y : y) * mask->stride;
            for (uint32_t x = 0; x < l->width; x++) l->row[x] = source[l->plan->hflip ? l->width - 1 - x : x];
        }
        send(l->row, l->width);
    }
}

static void do_run(stk_toucher *toucher, char **rest)
{
    const uint32_t width = whole32(rest), height = whole32(rest);
    const uint32_t out_width = whole32(rest), out_height = whole32(rest), depth = whole32(rest);
    stk_writer writer;
    stk_writer_init(&writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, (stoke_normalize)whole(rest));
    stoke_plan plan = { .width = width, .height = height };
    read_steps(&plan, rest);
    if (!plan.warp && (width != out_width || height != out_height)) die("without a warp sizes are equal");
    stoke_image image = receive(width, height, 3, depth), mask = receive(width, height, 1, 1);
    layout l = { .plan = &plan, .image = &image, .width = out_width, .height = out_height };
    l.row = take((size_t)out_width * 3 * depth);
    stoke_error err;
    if (plan.warp && stk_warp_begin(&l.warper, &plan, out_width, out_height, &err)) die(err.message);
    const size_t size = (size_t)out_width * out_height * 3 * sizeof(float);
    float *row = take(size);
    const stk_rows rows = { layout_row, &l, out_width, out_height, (uint8_t)depth };
    if (stk_touch_write(toucher, plan.touch, plan.n_touches, &rows, &writer, row, &err)) die(err.message);
    send(row, size);
    send_mask(&l, &mask);
    stk_warper_free(&l.warper);
    free(l.row);
    free(row);
    free(image.data);
    free(mask.data);
}

/* The displacement is what the warper keeps of its last row; a picture of one pixel makes it compute that. */
static void do_field(char **rest)
{
    const uint32_t width = whole32(rest), height = whole32(rest);
    stoke_plan plan = { .warp = 1, .width = 1, .height = 1 };
    read_elastic(&plan, rest);
    uint8_t pixel = 0, *row = take(width);
    const stoke_image mask = { &pixel, 1, 1, 1, 1, 1 };
    stk_warper warper = { 0 };
    stoke_error err;
    if (stk_warp_begin(&warper, &plan, width, height, &err)) die(err.message);
    for (uint32_t y = 0; y < height; y++) {
        stk_warp_mask_row(&warper, &mask, IGNORE, y, row);
        send(warper.shift.data, (size_t)width * 2 * sizeof(int32_t));
    }
    stk_warper_free(&warper);
    free(row);
}

/* ---- draw ---- */

static void print_plan(const stoke_plan *p)
{
    printf("box %u %u %u %u fit %u %u place %u %u flip %d %d", p->box.x, p->box.y, p->box.width,
           p->box.height, p->width, p->height, p->place_x, p->place_y, p->hflip, p->vflip);
    if (p->warp) {
        printf(" warp");
        for (int i = 0; i < 6; i++) printf(" %" PRId64, p->matrix[i]);
        if (p->elastic_step > 0)
            printf(" elastic %.9g %.9g %" PRIu64, (double)p->elastic_alpha, (double)p->elastic_step,
                   p->elastic_key);
    }
    for (uint32_t i = 0; i < p->n_touches; i++) {
        const stoke_touch *t = &p->touch[i];
        printf(" touch %s %u %.9g %.9g %u %u %u %u %u %u %u %" PRIu64,
               stoke_touch_name((stoke_touch_kind)t->kind), t->n, (double)t->a, (double)t->b, t->box.x,
               t->box.y, t->box.width, t->box.height, t->fill[0], t->fill[1], t->fill[2], t->key);
    }
    printf(" mix %u %.9g %u %u %u %u\n", p->mix, (double)p->lambda, p->mix_box.x, p->mix_box.y,
           p->mix_box.width, p->mix_box.height);
}

static void do_draw(char **rest)
{
    stoke_pipeline *pipeline = NULL;
    stoke_error err;
    if (stoke_pipeline_create(&pipeline, word(rest), &err)) die(err.message);
    stoke_draw draw = { 0 };
    draw.source_width = whole32(rest), draw.source_height = whole32(rest);
    draw.out_width = whole32(rest), draw.out_height = whole32(rest);
    draw.seed = whole(rest), draw.epoch = whole(rest), draw.position = whole(rest);
    stoke_plan plan;
    stoke_pipeline_draw(pipeline, &draw, &plan);
    print_plan(&plan);
    stoke_pipeline_destroy(&pipeline);
}

int main(void)
{
    static char line[LINE];
    stk_toucher *toucher = stk_toucher_create();
    if (!toucher) die("no memory");
    while (fgets(line, sizeof line, stdin)) {
        char *rest = NULL;
        const char *job = strtok_r(line, " \n", &rest);
        if (job && !strcmp(job, "run"))
            do_run(toucher, &rest);
        else if (job && !strcmp(job, "field"))
            do_field(&rest);
        else if (job && !strcmp(job, "draw"))
            do_draw(&rest);
        else
            die("unknown job");
        if (fflush(stdout)) die("cannot write");
    }
    stk_toucher_destroy(&toucher);
    return 0;
}
