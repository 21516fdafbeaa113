/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke show --ops: one strip per op and per preset. The first tile is the sample as it is, the others are
 * draws of successive epochs, by the real loader: what training would see, image and mask.
 *
 * An op is forced (p = 1) and keeps its defaults otherwise. Of the set two samples are kept: the one that is
 * drawn, and one far from it in the order of names for the ops that mix rows. The next one may be the next
 * frame of the same video, and mixing would not show.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/show.h"
#include "cli/lib/facts.h"

/* Every strip has its own epochs (there are at most DRAWS_MAX draws, see --columns): with the same ones
 * all ops would be drawn from the same random numbers, and a dull draw would be dull in every strip. */
enum { DRAWS = 4, DRAWS_MAX = 100, TILE = 192, ROWS = 2, NOTE = 1024 };

typedef struct strip {
    int preset;    /* 0: an op */
    int unchanged; /* all draws are the sample as it is */
    int detail;    /* shows in single pixels only: the centre is drawn, not the whole averaged down */
    int refused;   /* does not go with this data set; the note says why */
    size_t number; /* among all ops and presets, shown or not */
    char spec[128], name[64], heading[128], note[NOTE];
} strip;

/* What a tile shows. */
typedef struct cell {
    stoke_image image, other, detail; /* other: its mask or its target; detail: a view of the image */
    char caption[128];
} cell;

typedef struct page {
    const cli_call *call;
    stoke_data_params data;
    stoke_dataset *dataset;
    strip *strips;
    size_t count, capacity, considered;
    uint32_t columns; /* tiles of a strip: the sample and its draws */
    cell *cells;
    stoke_tile *tiles; /* count * columns, strip by strip, as the cells */
    char sample[256];
} page;

/* ---- which strips ---- */

/* NULL when it is not wanted. */
static strip *add_strip(page *p, const char *name, int preset)
{
    const show_options *o = p->call->options;
    const size_t number = p->considered++;
    if (o->only && strncmp(name, o->only, strlen(o->only)) != 0) return NULL;
    p->strips = cli_grow(p->strips, &p->capacity, p->count + 1, sizeof *p->strips);
    strip *s = &p->strips[p->count++];
    *s = (strip){ .preset = preset, .number = number };
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

/* "rotate(p=1)", and what it does with which settings. */
static void describe_op(strip *s, const stoke_op_info *op)
{
    size_t used = (size_t)snprintf(s->note, sizeof s->note, "%s\n", op->summary);
    snprintf(s->spec, sizeof s->spec, "%s", op->name);
    for (size_t i = 0; i < op->n_options && used < sizeof s->note; i++) {
        const stoke_option *option = &op->options[i];
        if (!strcmp(option->name, "p")) {
            snprintf(s->spec, sizeof s->spec, "%s(p=1)", op->name);
            continue;
        }
        if (option->default_text && *option->default_text) {
            char text[128];
            used += (size_t)snprintf(s->note + used, sizeof s->note - used, "%s=%s ", option->name,
                                     cli_short_numbers(option->default_text, text, sizeof text));
        }
    }
    s->detail = !strcmp(op->name, "gaussian_blur") || !strcmp(op->name, "gaussian_noise");
}

static void choose_ops(page *p)
{
    stoke_op_info op;
    const char *group = "";
    for (size_t i = 0; stoke_op_at(i, &op); i++) {
        strip *s = add_strip(p, op.name, 0);
        if (!s) continue;
        if (strcmp(op.group, group)) snprintf(s->heading, sizeof s->heading, "Ops: %s", op.group);
        group = op.group;
        describe_op(s, &op);
    }
}

/* The summary, then the list with spaces between the ops, where lines may break. */
static void describe_preset(strip *s, const stoke_preset_info *preset)
{
    size_t used = (size_t)snprintf(s->note, sizeof s->note, "%s\n", preset->summary);
    int depth = 0;
    for (const char *c = preset->list; *c && used + 2 < sizeof s->note; c++) {
        depth += (*c == '(') - (*c == ')');
        s->note[used++] = *c;
        if (*c == ',' && !depth) s->note[used++] = ' ';
    }
    s->note[used < sizeof s->note ? used : sizeof s->note - 1] = 0;
}

static void choose_presets(page *p)
{
    stoke_preset_info preset;
    const char *heading = "Presets";
    for (size_t i = 0; stoke_preset_at(i, &preset); i++) {
        strip *s = add_strip(p, preset.name, 1);
        if (!s) continue;
        snprintf(s->heading, sizeof s->heading, "%s", heading);
        heading = "";
        snprintf(s->spec, sizeof s->spec, "%s", preset.name);
        describe_preset(s, &preset);
    }
}

/* ---- which sample, where none was named ---- */

/* The first of a set is often the worst to look at, a frame at night or an empty one: of a few, spread over
 * the set, the one with the most classes that is neither dark nor bright. The same set gives the same one. */
enum {
    LOOKS = 24,
    SIDE = 64, /* pictures are looked at this small */
    DARK = 70, /* means of bytes, beyond which details are hard to see */
    BRIGHT = 185
};

static uint32_t classes_in(const stoke_batch *batch)
{
    uint8_t seen[65536] = { 0 };
    uint32_t n = 0;
    const size_t depth = stoke_dtype_bytes(batch->mask_dtype);
    const uint8_t *ids = batch->masks;
    if (!ids) return 0;
    for (size_t i = 0; i < batch->mask_row_bytes; i += depth) {
        const uint32_t id = depth == 1 ? ids[i] : ids[i] | (uint32_t)ids[i + 1] << 8;
        n += !seen[id];
        seen[id] = 1;
    }
    return n;
}

/* More is better. Light counts before classes. */
static uint32_t worth_of(const stoke_batch *batch)
{
    const uint8_t *bytes = batch->images;
    uint64_t sum = 0;
    for (size_t i = 0; i < batch->image_row_bytes; i++) sum += bytes[i];
    const uint64_t mean = sum / batch->image_row_bytes;
    return classes_in(batch) + (mean >= DARK && mean <= BRIGHT ? 1u << 20 : 0);
}

/* Samples that cannot be read are passed over; where none can, the first will say why. */
static int look(const stoke_dataset *set, const stoke_data_params *data, uint64_t *best, stoke_error *err)
{
    stoke_loader *loader = NULL;
    const stoke_batch *batch;
    uint32_t most = 0;
    int r = stoke_loader_create(&loader, set, data, NULL, err);
    *best = 0;
    while (!r && !(r = stoke_loader_next(loader, &batch))) {
        const uint32_t worth = worth_of(batch);
        if (worth > most) most = worth, *best = batch->ids[0];
        stoke_batch_release(loader, &batch);
        if (cli_interrupted()) r = cli_error(err, STOKE_E_CANCELLED, "interrupted");
    }
    stoke_loader_destroy(&loader);
    return r == STOKE_E_CANCELLED || r == STOKE_E_NOMEM ? r : STOKE_OK;
}

static int pick_sample(const stoke_data_params *given, uint64_t *sample, stoke_error *err)
{
    stoke_data_params data = *given;
    stoke_dataset *set = NULL;
    int r = stoke_dataset_open(&set, &data, err);
    if (r) return r;
    const uint64_t count = stoke_dataset_count(set), looks = count < LOOKS ? count : LOOKS;
    stoke_dataset_thin(set, LOOKS);
    data.size[0] = data.size[1] = SIDE;
    data.augment = "none";
    data.order = STOKE_ORDER_SEQUENTIAL;
    data.weights = NULL;
    data.batch = 1;
    data.rank = 0;
    data.world = 1;
    data.epoch = 0;
    data.policy = STOKE_POLICY_SKIP;
    data.max_bad = "100%";
    data.workers = 0;
    data.cache = "";
    data.cache_ram = data.cache_disk = 0;
    data.quarantine = "";
    r = look(set, &data, sample, err);
    *sample = (uint64_t)((unsigned __int128)*sample * count / looks); /* as thinning spread them */
    stoke_dataset_close(&set);
    return r;
}

/* ---- rows ---- */

/* Row 0 is the sample, and is mixed with the last row. Under policy skip a partner that cannot be read only
 * leaves nothing to mix with, and a sample that cannot be read is noticed (take_row). */
static int set_up(page *p, stoke_error *err)
{
    const show_options *o = p->call->options;
    stoke_data_params *data = &p->data;
    int r = show_settings(data, err);
    if (!r) r = cli_open_settled(p->call, data, &p->dataset, err);
    if (r) return r;
    cli_say_remarks(p->call, p->dataset, data);
    const uint64_t count = stoke_dataset_count(p->dataset);
    uint64_t sample = (uint64_t)o->sample;
    if (o->sample < 0) r = pick_sample(data, &sample, err);
    if (r) return r;
    if (sample >= count)
        return cli_error(err, STOKE_E_INVALID, "--sample %lld: the set has %s, counted from 0",
                         (long long)o->sample, STOKE_COUNT(count, "sample"));
    snprintf(p->sample, sizeof p->sample, "%s", stoke_dataset_sample(p->dataset, sample).name);
    const uint64_t ids[ROWS] = { sample, (sample + count / 2) % count };
    r = stoke_dataset_pick(p->dataset, ids, count < ROWS ? 1 : ROWS, err);
    if (r) return r;
    data->order = STOKE_ORDER_SEQUENTIAL;
    data->weights = NULL;
    data->batch = ROWS;
    data->drop_last = 0;
    data->rank = 0;
    data->world = 1;
    data->policy = STOKE_POLICY_SKIP;
    data->max_bad = "100%";
    data->workers = 0; /* a few rows of many loaders: threads would cost more than they do */
    data->cache = "";
    return STOKE_OK;
}

/* Takes the row out of the first batch of an epoch into place `at`. */
static int take_row(page *p, stoke_loader *loader, size_t at, stoke_error *err)
{
    const stoke_batch *batch;
    int r = stoke_loader_next(loader, &batch);
    if (r && r != STOKE_E_END) return cli_pass(err, r, stoke_loader_error(loader));
    if (r || batch->ids[0] != 0) {
        if (!r) stoke_batch_release(loader, &batch);
        return cli_error(err, STOKE_E_FORMAT, "%s cannot be read; `stoke verify` gives the reason",
                         p->sample);
    }
    cell *c = &p->cells[at];
    c->image = show_copy_image(batch, 0);
    p->tiles[at].image = &c->image;
    const int second = show_mixed(batch, 0, c->caption, sizeof c->caption);
    if (stoke_dataset_has_masks(p->dataset)) {
        c->other = show_copy_mask(batch, 0, second);
        p->tiles[at].mask = &c->other;
    } else if (batch->targets) {
        c->other = show_copy_target(batch, 0);
        p->tiles[at].target = &c->other;
    }
    if (*c->caption) p->tiles[at].caption = c->caption;
    stoke_batch_release(loader, &batch);
    return STOKE_OK;
}

/* `rows` tiles from place `at` on, one per epoch from the first after --epoch on. *refused (may be NULL): the
 * settings do not go together, and err says why; that is no failure then. */
static int take_rows(page *p, const char *spec, size_t first, size_t at, uint32_t rows, int *refused,
                     stoke_error *err)
{
    stoke_data_params data = p->data;
    stoke_loader *loader = NULL;
    data.augment = spec;
    data.epoch += (int64_t)first;
    int r = stoke_loader_create(&loader, p->dataset, &data, NULL, err);
    if (r == STOKE_E_INVALID && refused) {
        *refused = 1;
        return STOKE_OK;
    }
    for (uint32_t i = 0; i < rows && !r; i++) {
        if (i) r = stoke_loader_set_epoch(loader, (uint64_t)data.epoch + i);
        if (!r) r = take_row(p, loader, at + i, err);
    }
    stoke_loader_destroy(&loader);
    return r;
}

/* Without --size, half the sample's: a crop must have something to choose from. */
static int choose_size(page *p, stoke_error *err)
{
    if (p->data.size[0]) return STOKE_OK;
    int r = take_rows(p, "none", 0, 0, 1, NULL, err);
    if (r) return r;
    p->data.size[0] = (p->cells[0].image.height + 1) / 2;
    p->data.size[1] = (p->cells[0].image.width + 1) / 2;
    free(p->cells[0].image.data), free(p->cells[0].other.data);
    p->cells[0] = (cell){ 0 };
    cli_say(p->call, "size: %ux%u, half the sample's, so that crops have a choice; --size N sets it",
            p->data.size[0], p->data.size[1]);
    return STOKE_OK;
}

static int same_pixels(const stoke_image *a, const stoke_image *b)
{
    return a->stride == b->stride && a->height == b->height &&
           !memcmp(a->data, b->data, a->stride * a->height);
}

static void add_note(strip *s, const char *text)
{
    const size_t used = strlen(s->note);
    snprintf(s->note + used, sizeof s->note - used, "%s%s", used && s->note[used - 1] != '\n' ? "\n" : "",
             text);
}

static const stoke_image *other_of(const stoke_tile *tile)
{
    return tile->mask ? tile->mask : tile->target;
}

/* What can be seen without it is left out: draws that are all the same (a flip with p = 1) but one, and masks
 * and targets that are the sample's own. An op that does nothing here (normalize: the picture has bytes) says
 * so. */
static void tidy(page *p, size_t number)
{
    strip *s = &p->strips[number];
    stoke_tile *tile = &p->tiles[number * p->columns];
    int same_others = 1, same_draws = 1;
    s->unchanged = 1;
    for (uint32_t i = 1; i < p->columns; i++) {
        if (other_of(&tile[0])) {
            same_others &= !tile[i].caption && same_pixels(other_of(&tile[0]), other_of(&tile[i]));
            same_draws &= same_pixels(other_of(&tile[1]), other_of(&tile[i]));
        }
        s->unchanged &= same_pixels(tile[0].image, tile[i].image) && same_others;
        same_draws &= same_pixels(tile[1].image, tile[i].image);
    }
    for (uint32_t i = 0; i < p->columns; i++) {
        if (same_others) tile[i].mask = tile[i].target = NULL;
        if (same_draws && i > 1) tile[i] = (stoke_tile){ 0 };
    }
    if (s->unchanged) add_note(s, "(changes nothing in this picture)");
}

/* A view of the centre that fills a tile pixel by pixel. */
static void zoom(const page *p, size_t number)
{
    const show_options *o = p->call->options;
    const uint32_t side = o->tile ? (uint32_t)o->tile : TILE;
    stoke_tile *tile = &p->tiles[number * p->columns];
    const stoke_image *whole = tile[0].image;
    const uint32_t longest = whole->width > whole->height ? whole->width : whole->height;
    if (longest <= side) return;
    cell *cells = &p->cells[number * p->columns];
    for (uint32_t i = 0; i < p->columns && tile[i].image; i++) {
        stoke_image *view = &cells[i].detail;
        *view = *tile[i].image;
        view->width = (uint32_t)((uint64_t)whole->width * side / longest);
        view->height = (uint32_t)((uint64_t)whole->height * side / longest);
        if (!view->width) view->width = 1;
        if (!view->height) view->height = 1;
        view->data = (uint8_t *)tile[i].image->data + (whole->height - view->height) / 2 * view->stride +
                     (size_t)((whole->width - view->width) / 2) * whole->channels;
        tile[i] = (stoke_tile){ .image = view, .caption = tile[i].caption };
    }
    add_note(&p->strips[number], "(the centre, pixel by pixel)");
}

/* The number that was drawn, for ops that draw one: "1.21", "-12.3 degrees". The plan is drawn again, as the
 * loader did; the size of the source, which is not known here, matters to crops only. */
static void caption_draw(page *p, const stoke_pipeline *pipeline, uint64_t epoch, size_t at)
{
    const stoke_draw draw = { .seed = (uint64_t)p->data.seed,
                              .epoch = epoch,
                              .source_width = p->data.size[1],
                              .source_height = p->data.size[0],
                              .out_width = p->data.size[1],
                              .out_height = p->data.size[0] };
    stoke_augment_plan plan;
    char *text = p->cells[at].caption;
    const size_t size = sizeof p->cells[at].caption;
    stoke_pipeline_draw(pipeline, &draw, &plan);
    const double cosine = (double)plan.matrix[0], sine = (double)plan.matrix[3];
    if (plan.n_color_steps == 1 && !plan.warp && plan.color[0].kind != STOKE_COLOR_ERASE)
        snprintf(text, size, "%.3g", (double)plan.color[0].a);
    else if (plan.warp && !plan.n_color_steps && !(plan.elastic_alpha > 0) &&
             plan.matrix[1] == -plan.matrix[3] && plan.matrix[0] == plan.matrix[4])
        /* 32.32 fixed point, from the result to the source */
        snprintf(text, size, plan.matrix[3] ? "%.1f degrees" : "%.2f",
                 plan.matrix[3] ? atan2(sine, cosine) * 180 / acos(-1) : 4294967296.0 / cosine);
    if (*text) p->tiles[at].caption = text;
}

/* Under the draws of an op; the tiles of mixup have their captions. */
static int caption_draws(page *p, size_t number, stoke_error *err)
{
    const strip *s = &p->strips[number];
    stoke_pipeline *pipeline = NULL;
    int r = stoke_pipeline_create(&pipeline, s->spec, err);
    for (uint32_t i = 1; i < p->columns && !r; i++) {
        const size_t at = number * p->columns + i;
        if (p->tiles[at].image && !p->tiles[at].caption)
            caption_draw(p, pipeline, (uint64_t)p->data.epoch + s->number * DRAWS_MAX + i - 1, at);
    }
    stoke_pipeline_destroy(&pipeline);
    return r;
}

static int collect(page *p, stoke_error *err)
{
    const size_t tiles = p->count * p->columns;
    p->cells = cli_alloc(tiles, sizeof *p->cells);
    p->tiles = cli_alloc(tiles, sizeof *p->tiles);
    int r = choose_size(p, err);
    if (!r) r = take_rows(p, "none", 0, 0, 1, NULL, err); /* the first tile of all strips */
    stoke_tile first = p->tiles[0];
    first.caption = "as it is";
    stoke_progress *progress = cli_progress_begin(p->call, "drawing", "strips");
    for (size_t i = 0; i < p->count && !r; i++) {
        if (cli_progress_update(progress, i, p->count)) r = cli_error(err, STOKE_E_CANCELLED, "interrupted");
        p->tiles[i * p->columns] = first;
        strip *s = &p->strips[i];
        if (!r)
            r = take_rows(p, s->spec, s->number * DRAWS_MAX, i * p->columns + 1, p->columns - 1, &s->refused,
                          err);
        if (!r && s->refused) add_note(s, err->message); /* face: a data set without right eyes */
        if (!r && !s->refused) tidy(p, i);
        if (!r && !s->refused && !s->preset) r = caption_draws(p, i, err);
        if (!r && s->detail) zoom(p, i);
    }
    stoke_progress_destroy(&progress);
    return r;
}

/* ---- the picture ---- */

static int write_picture(const page *p, const char *out, stoke_error *err)
{
    const show_options *o = p->call->options;
    show_page frame;
    char what[320];
    snprintf(what, sizeof what, "sample %s: original and %s", p->sample,
             STOKE_COUNT(p->columns - 1, "random draw"));
    int r = show_page_begin(&frame, p->call, p->cells[0].image.height, p->cells[0].image.width, what, err);
    if (r) return r;
    frame.grid.columns = p->columns;
    if (!o->tile) frame.grid.tile = TILE;
    stoke_strip *strips = cli_alloc(p->count, sizeof *strips);
    for (size_t i = 0; i < p->count; i++) {
        const strip *s = &p->strips[i];
        strips[i] = (stoke_strip){ *s->heading ? s->heading : NULL, s->name, s->note };
    }
    r = stoke_strips_write(out, strips, p->count, p->tiles, &frame.grid, err);
    free(strips);
    show_page_end(&frame);
    return r;
}

static void print_result(const page *p, const char *out)
{
    if (!p->call->common.json) {
        cli_print("%s\n", out);
        return;
    }
    stoke_json json = cli_json_open();
    FACTS(&json, FACT("path", out), FACT_OF(&p->cells[0].image, height), FACT_OF(&p->cells[0].image, width),
          FACT_OF(p, sample), FACT("draws", p->columns - 1));
    static const char *const lists[] = { "ops", "presets", "unchanged", "refused" };
    for (size_t k = 0; k < CLI_COUNT(lists); k++) {
        JSON_LIST(&json, lists[k], i, i < p->count) {
            const strip *s = &p->strips[i];
            const int is[] = { !s->preset, s->preset, s->unchanged, s->refused };
            if (is[k]) stoke_json_string(&json, NULL, s->name);
        }
    }
    stoke_json_close(&json);
}

int show_ops(const cli_call *call, const char *out, stoke_error *err)
{
    const show_options *o = call->options;
    page p = { .call = call, .data = call->data };
    p.columns = 1 + (o->columns ? (uint32_t)o->columns : DRAWS);
    choose_ops(&p);
    choose_presets(&p);
    int r = p.count ? STOKE_OK
                    : cli_error(err, STOKE_E_INVALID,
                                "--only %s: no op or preset is called so; `stoke ops` lists them", o->only);
    if (!r) r = set_up(&p, err);
    if (!r) r = collect(&p, err);
    if (!r) r = write_picture(&p, out, err);
    if (!r) print_result(&p, out);
    for (size_t i = 0; p.cells && i < p.count * p.columns; i++)
        free(p.cells[i].image.data), free(p.cells[i].other.data);
    free(p.strips), free(p.cells), free(p.tiles);
    stoke_dataset_close(&p.dataset);
    return r;
}
