/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets Python carry plans out with the product's own functions, and draw them. One job per line of stdin;
 * what the answer holds stands with each.
 *
 *   draw SPEC WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT SEED EPOCH POSITION
 *       Draws for a source of that size. Answers the plan as one line (see <stoke/augment_plan.h>):
 *         box X Y WIDTH HEIGHT  fit WIDTH HEIGHT  place X Y  flip HFLIP VFLIP
 *         warp M0 M1 M2 M3 M4 M5                                   32.32 fixed point; when there is one
 *         elastic ALPHA STEP KEY                                   when there is one
 *         touch KIND N A B X Y WIDTH HEIGHT RED GREEN BLUE KEY     for each
 *         mix KIND LAMBDA X Y WIDTH HEIGHT
 *   run WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT DEPTH NORMALIZE PLAN
 *       Carries out such a line, all but mix. The source follows as raw bytes: WIDTH x HEIGHT x 3 samples of
 *       DEPTH bytes, then WIDTH x HEIGHT bytes of labels. NORMALIZE is a number of <stoke/data.h>. Answers
 *       3 x OUT_HEIGHT x OUT_WIDTH floats, then the labels; what comes from outside is black / 255.
 *   field OUT_WIDTH OUT_HEIGHT ALPHA STEP KEY
 *       Answers the elastic displacement, in 1/65536 px: per row OUT_WIDTH int32 of x, then as many of y.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/pix/pix.h"
#include "src/pix/color.h"
#include "src/pix/warp.h"
#include <stoke/tools/augment.h>

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

static stoke_image make_image(uint32_t width, uint32_t height, uint8_t channels, uint8_t depth)
{
    const size_t stride = (size_t)width * channels * depth;
    return (stoke_image){ take(stride * height), stride, width, height, channels, depth };
}

static stoke_image receive(uint32_t width, uint32_t height, uint8_t channels, uint8_t depth)
{
    stoke_image image = make_image(width, height, channels, depth);
    if (fread(image.data, image.stride, height, stdin) != height) die("pixels are missing");
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

/* Of stoke_color_kind. */
static const char *const color_names[STOKE_COLOR_KINDS] = { "brightness", "contrast", "saturation",
                                                            "hue",        "gamma",    "blur",
                                                            "noise",      "clahe",    "erase" };

static void read_touch(stoke_augment_plan *plan, char **rest)
{
    if (plan->n_color_steps == STOKE_PLAN_COLOR_STEPS) die("too many touches");
    stoke_color_step *touch = &plan->color[plan->n_color_steps++];
    const char *name = word(rest);
    while (touch->kind < STOKE_COLOR_KINDS && strcmp(name, color_names[touch->kind])) touch->kind++;
    if (touch->kind == STOKE_COLOR_KINDS) die("unknown kind of touch");
    touch->n = whole32(rest);
    touch->a = real(rest);
    touch->b = real(rest);
    touch->box.x = whole32(rest), touch->box.y = whole32(rest);
    touch->box.width = whole32(rest), touch->box.height = whole32(rest);
    for (int c = 0; c < 3; c++) touch->fill[c] = (uint8_t)whole(rest);
    touch->key = whole(rest);
}

static void read_elastic(stoke_augment_plan *plan, char **rest)
{
    plan->elastic_alpha = real(rest);
    plan->elastic_step = real(rest);
    plan->elastic_key = whole(rest);
}

static void read_layout(stoke_augment_plan *plan, char **rest)
{
    if (strcmp(word(rest), "box")) die("a plan begins with its box");
    plan->box.x = whole32(rest), plan->box.y = whole32(rest);
    plan->box.width = whole32(rest), plan->box.height = whole32(rest);
    if (strcmp(word(rest), "fit")) die("no fit");
    plan->width = whole32(rest), plan->height = whole32(rest);
    if (strcmp(word(rest), "place")) die("no place");
    plan->place_x = whole32(rest), plan->place_y = whole32(rest);
    if (strcmp(word(rest), "flip")) die("no flip");
    plan->hflip = (uint8_t)whole(rest), plan->vflip = (uint8_t)whole(rest);
}

static void read_plan(stoke_augment_plan *plan, char **rest)
{
    read_layout(plan, rest);
    for (const char *step; strcmp(step = word(rest), "mix");) {
        if (!strcmp(step, "warp")) {
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

/* The plan's box of the source, at the plan's size. */
static stoke_image fit(const stoke_augment_plan *plan, const stoke_image *source)
{
    const stoke_box box = plan->box;
    const size_t pixel = (size_t)source->channels * source->depth;
    if (box.x + box.width > source->width || box.y + box.height > source->height) die("box outside");
    stoke_image part = *source, out = make_image(plan->width, plan->height, source->channels, source->depth);
    part.data = (uint8_t *)source->data + box.y * source->stride + box.x * pixel;
    part.width = box.width, part.height = box.height;
    if (source->channels == 1) {
        stk_resize_nearest(&part, &out);
        return out;
    }
    stk_pix_resizer *resizer = stk_resizer_create();
    stoke_error err;
    if (!resizer || stk_resize(resizer, &part, &out, &err)) die("cannot resize");
    stk_resizer_destroy(&resizer);
    return out;
}

/* Rows of the output on their way to the touches: warped, or laid at their place and mirrored. */
typedef struct layout {
    stk_pix_warper warper;
    const stoke_augment_plan *plan;
    stoke_image image, mask; /* fitted */
    uint32_t width, height;
    uint8_t *row;
} layout;

static void lay_row(const layout *l, const stoke_image *fitted, uint8_t fill, uint32_t y, uint8_t *row)
{
    const stoke_augment_plan *plan = l->plan;
    const size_t pixel = (size_t)fitted->channels * fitted->depth;
    const uint32_t from = plan->vflip ? l->height - 1 - y : y;
    memset(row, fill, l->width * pixel);
    if (from < plan->place_y || from >= plan->place_y + fitted->height) return;
    const uint8_t *source = (const uint8_t *)fitted->data + (from - plan->place_y) * fitted->stride;
    for (uint32_t x = 0; x < fitted->width; x++) {
        const uint32_t at = plan->place_x + x;
        memcpy(row + (plan->hflip ? l->width - 1 - at : at) * pixel, source + x * pixel, pixel);
    }
}

static const void *image_row(void *context, uint32_t y)
{
    layout *l = context;
    if (l->plan->warp)
        stk_warp_image_row(&l->warper, &l->image, black, y, l->row);
    else
        lay_row(l, &l->image, 0, y, l->row);
    return l->row;
}

/* Erased boxes of the image that the mask is to ignore. */
static void erase_labels(const stoke_augment_plan *plan, uint32_t y, uint8_t *row)
{
    for (uint32_t i = 0; i < plan->n_color_steps; i++) {
        const stoke_color_step *touch = &plan->color[i];
        if (touch->kind == STOKE_COLOR_ERASE && touch->n == 1 && y - touch->box.y < touch->box.height)
            memset(row + touch->box.x, IGNORE, touch->box.width);
    }
}

static void send_mask(layout *l)
{
    for (uint32_t y = 0; y < l->height; y++) {
        if (l->plan->warp)
            stk_warp_mask_row(&l->warper, &l->mask, IGNORE, y, l->row);
        else
            lay_row(l, &l->mask, IGNORE, y, l->row);
        erase_labels(l->plan, y, l->row);
        send(l->row, l->width);
    }
}

static void do_run(stk_color_pass *color_pass, char **rest)
{
    const uint32_t width = whole32(rest), height = whole32(rest);
    layout l = { .width = whole32(rest) };
    l.height = whole32(rest);
    const uint8_t depth = (uint8_t)whole(rest);
    stk_pix_writer writer;
    stk_writer_init(&writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, (stoke_normalize)whole(rest));
    stoke_augment_plan plan = { 0 };
    read_plan(&plan, rest);
    stoke_image image = receive(width, height, 3, depth), mask = receive(width, height, 1, 1);
    l.plan = &plan;
    l.image = fit(&plan, &image);
    l.mask = fit(&plan, &mask);
    if (!plan.warp && (plan.place_x + plan.width > l.width || plan.place_y + plan.height > l.height))
        die("place outside");
    l.row = take((size_t)l.width * 3 * depth);
    stoke_error err;
    if (plan.warp && stk_warp_begin(&l.warper, &plan, l.width, l.height, &err)) die(err.message);
    const size_t size = (size_t)l.width * l.height * 3 * sizeof(float);
    float *row = take(size);
    const stk_color_rows rows = { image_row, &l, l.width, l.height, depth };
    if (stk_color_write(color_pass, plan.color, plan.n_color_steps, &rows, &writer, row, &err))
        die(err.message);
    send(row, size);
    send_mask(&l);
    stk_warper_free(&l.warper);
    free(l.row), free(row);
    free(image.data), free(mask.data), free(l.image.data), free(l.mask.data);
}

/* The displacement is what the warper keeps of its last row; a picture of one pixel makes it compute that. */
static void do_field(char **rest)
{
    const uint32_t width = whole32(rest), height = whole32(rest);
    stoke_augment_plan plan = { .warp = 1, .width = 1, .height = 1 };
    read_elastic(&plan, rest);
    uint8_t pixel = 0, *row = take(width);
    const stoke_image mask = { &pixel, 1, 1, 1, 1, 1 };
    stk_pix_warper warper = { 0 };
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

static void print_plan(const stoke_augment_plan *p)
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
    for (uint32_t i = 0; i < p->n_color_steps; i++) {
        const stoke_color_step *t = &p->color[i];
        printf(" touch %s %u %.9g %.9g %u %u %u %u %u %u %u %" PRIu64, color_names[t->kind], t->n,
               (double)t->a, (double)t->b, t->box.x, t->box.y, t->box.width, t->box.height, t->fill[0],
               t->fill[1], t->fill[2], t->key);
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
    stoke_augment_plan plan;
    stoke_pipeline_draw(pipeline, &draw, &plan);
    print_plan(&plan);
    stoke_pipeline_destroy(&pipeline);
}

int main(void)
{
    static char line[LINE];
    stk_color_pass *color_pass = stk_color_pass_create();
    if (!color_pass) die("no memory");
    while (fgets(line, sizeof line, stdin)) {
        char *rest = NULL;
        const char *job = strtok_r(line, " \n", &rest);
        if (job && !strcmp(job, "run"))
            do_run(color_pass, &rest);
        else if (job && !strcmp(job, "field"))
            do_field(&rest);
        else if (job && !strcmp(job, "draw"))
            do_draw(&rest);
        else
            die("unknown job");
        if (fflush(stdout)) die("cannot write");
    }
    stk_color_pass_destroy(&color_pass);
    return 0;
}
