/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke show: a picture of what the loader delivers. It goes through the real loader, so crops, flips and the
 * fit to --size are those of training. show_ops.c has the picture of all ops.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/show.h"
#include "cli/lib/output.h"
#include "cli/lib/facts.h"

#define OPTIONS show_options
static const stoke_option options[] = {
    CLI_NUMBER(INT, count, "12", 1, 400, "N", "Samples in the picture"),
    CLI_TEXT(STRING, out, NULL, "FILE",
             "The PNG to write; the name ends in .png. By default samples.png, with --ops ops.png"),
    CLI_NUMBER(INT, columns, "0", 0, 100, "N",
               "Samples per row; 0 = about square. With --ops: draws per strip, 0 = 4"),
    CLI_NUMBER(INT, tile, "0", 0, 4096, "N",
               "Longest side of a sample in the picture, in pixels; 0 = 256, with --ops 192"),
    CLI_FLAG(ops, "Instead of many samples one sample: as it is and in a few draws of each op (with p=1) and "
                  "each preset"),
    CLI_TEXT(STRING, only, NULL, "NAME", "With --ops: only ops and presets that begin with NAME"),
    CLI_NUMBER(AUTO_INT, sample, "auto", 0, 1e9, "N|auto",
               "With --ops: which sample, in the order of names, from 0; auto takes one with many classes "
               "that is neither dark nor bright"),
    CLI_FORCE,
};

/* Copies of rows: slots go back to the loader at once. */
typedef struct shown {
    stoke_image image, other; /* its mask or its target */
    char caption[256], name[160];
} shown;

typedef struct gallery {
    stoke_tile *tiles;
    shown *rows; /* of the tiles */
    size_t count, capacity;
    uint64_t replaced, skipped;
} gallery;

static void *copy(const void *data, size_t bytes)
{
    return memcpy(cli_alloc(bytes, 1), data, bytes);
}

stoke_image show_copy_image(const stoke_batch *batch, uint32_t row)
{
    return (stoke_image){ .data = copy((char *)batch->images + row * batch->image_row_bytes,
                                       batch->image_row_bytes),
                          .stride = (size_t)batch->width * batch->channels,
                          .width = batch->width,
                          .height = batch->height,
                          .channels = (uint8_t)batch->channels,
                          .depth = 1 };
}

stoke_image show_copy_mask(const stoke_batch *batch, uint32_t row, int second)
{
    const uint8_t depth = (uint8_t)stoke_dtype_bytes(batch->mask_dtype);
    const void *masks = second ? batch->masks_b : batch->masks;
    return (stoke_image){ .data =
                              copy((const char *)masks + row * batch->mask_row_bytes, batch->mask_row_bytes),
                          .stride = (size_t)batch->width * depth,
                          .width = batch->width,
                          .height = batch->height,
                          .channels = 1,
                          .depth = depth };
}

stoke_image show_copy_target(const stoke_batch *batch, uint32_t row)
{
    return (stoke_image){ .data = copy((char *)batch->targets + row * batch->target_row_bytes,
                                       batch->target_row_bytes),
                          .stride = (size_t)batch->target_width * batch->channels,
                          .width = batch->target_width,
                          .height = batch->target_height,
                          .channels = (uint8_t)batch->channels,
                          .depth = 1 };
}

/* The last `parts` parts of a path. */
static const char *last_parts(const char *path, int parts)
{
    const char *at = path + strlen(path);
    while (at > path && at[-1] == '/') at--;
    for (; at > path; at--)
        if (at[-1] == '/' && !--parts) break;
    return at;
}

int show_mixed(const stoke_batch *batch, uint32_t row, char *text, size_t size)
{
    *text = 0;
    if (!batch->lambda || batch->lambda[row] >= 1) return 0;
    const int second = batch->lambda[row] < 0.5f;
    /* The other one is the row before, the last one for the first. */
    const uint32_t other = row ? row - 1 : batch->count - 1;
    snprintf(text, size, "lambda %.2f, mask of %s", (double)batch->lambda[row],
             last_parts(batch->names[second ? other : row], 1));
    return second;
}

static void add_rows(gallery *g, const stoke_batch *batch, int has_masks)
{
    for (uint32_t i = 0; i < batch->count && g->count < g->capacity; i++) {
        shown *row = &g->rows[g->count];
        char mixed[128];
        const int second = show_mixed(batch, i, mixed, sizeof mixed);
        const int replaced = batch->status[i] == STOKE_ROW_REPLACED;
        row->image = show_copy_image(batch, i);
        if (has_masks) row->other = show_copy_mask(batch, i, second);
        if (batch->targets) row->other = show_copy_target(batch, i);
        g->replaced += (uint64_t)replaced;
        snprintf(row->name, sizeof row->name, "%s%s", batch->names[i], replaced ? " (replacement)" : "");
        snprintf(row->caption, sizeof row->caption, "%s%s%s", row->name, *mixed ? "  " : "", mixed);
        g->tiles[g->count++] = (stoke_tile){ .image = &row->image,
                                             .mask = has_masks ? &row->other : NULL,
                                             .caption = row->caption,
                                             .target = batch->targets ? &row->other : NULL };
    }
}

static int collect(cli_session *session, gallery *g, stoke_error *err)
{
    stoke_progress *progress = cli_progress_begin(session->call, "reading", "samples");
    int r = STOKE_OK;
    while (g->count < g->capacity && !r) {
        const stoke_batch *batch;
        r = cli_next(session, &batch, err);
        if (r) break;
        add_rows(g, batch, stoke_dataset_has_masks(session->dataset));
        stoke_batch_release(session->loader, &batch);
        cli_progress_update(progress, g->count, g->capacity); /* cli_next looks for interrupts */
    }
    stoke_progress_destroy(&progress);
    if (r && r != STOKE_E_END) return r;
    stoke_loader_stats_data stats;
    stoke_loader_stats(session->loader, &stats);
    g->skipped = stats.skipped;
    return g->count ? STOKE_OK
                    : cli_error(err, STOKE_E_NOTFOUND, "the epoch has no batch to show (see --drop-last)");
}

int show_page_begin(show_page *page, const cli_call *call, uint32_t height, uint32_t width, const char *what,
                    stoke_error *err)
{
    const show_options *o = call->options;
    const stoke_data_params *data = &call->data;
    *page = (show_page){ .grid = stoke_grid_defaults() };
    int r = stoke_data_labels(&page->labels, data, err);
    if (r) return r;
    for (uint32_t id = 0; id < CLI_COUNT(page->names); id++)
        page->names[id] = stoke_labels_name(page->labels, id);
    /* "demo/data": the last part alone is often `data` or `images`. */
    snprintf(page->title, sizeof page->title, "%s  %ux%u  %s", last_parts(cli_set_name(data), 2), height,
             width, what);
    page->grid.columns = (uint32_t)o->columns;
    if (o->tile) page->grid.tile = (uint32_t)o->tile;
    page->grid.ignore_index = (int32_t)data->ignore_index;
    page->grid.title = page->title;
    page->grid.class_names = page->names;
    page->grid.n_class_names = CLI_COUNT(page->names);
    return STOKE_OK;
}

void show_page_end(show_page *page)
{
    stoke_labels_destroy(&page->labels);
}

static int write_picture(const cli_call *call, const gallery *g, const char *out, stoke_error *err)
{
    show_page page;
    char what[700];
    const char *augment = call->data.augment;
    const int is_file = cli_ends_with(augment, ".yaml") || cli_ends_with(augment, ".yml");
    snprintf(what, sizeof what, "%s  epoch %lld", is_file ? last_parts(augment, 1) : augment,
             (long long)call->data.epoch);
    int r = show_page_begin(&page, call, g->rows[0].image.height, g->rows[0].image.width, what, err);
    if (!r) r = stoke_grid_write(out, g->tiles, g->count, &page.grid, err);
    show_page_end(&page);
    return r;
}

static void print_result(const cli_call *call, const gallery *g, const char *out)
{
    if (!call->common.json) {
        cli_print("%s\n", out);
        return;
    }
    stoke_json json = cli_json_open();
    stoke_json_string(&json, "path", out);
    cli_json_memory(&json, call->planned);
    FACTS(&json, FACT_OF(&g->rows[0].image, height), FACT_OF(&g->rows[0].image, width), FACT_OF(g, replaced),
          FACT_OF(g, skipped));
    JSON_LIST(&json, "samples", i, i < g->count) stoke_json_string(&json, NULL, g->rows[i].name);
    stoke_json_close(&json);
}

int show_settings(stoke_data_params *data, stoke_error *err)
{
    static const char *const settings[][2] = {
        { "dtype", "u8" }, { "layout", "hwc" }, { "normalize", "none" }, { "mask_dtype", "auto" }
    };
    for (size_t i = 0; i < CLI_COUNT(settings); i++) {
        int r = cli_set_data(data, settings[i][0], settings[i][1], err);
        if (r) return r;
    }
    return STOKE_OK;
}

static int show_samples(cli_call *call, const char *out, stoke_error *err)
{
    const show_options *o = call->options;
    size_t n = (size_t)o->count;
    cli_session session = {
        .drawn = { n, o->tile ? (uint64_t)o->tile : stoke_grid_defaults().tile },
    };
    int r = show_settings(&call->data, err);
    /* Rows depend on their position, not on the batch they come in: small batches show the same and cost
     * less. */
    if (call->data.batch > o->count) call->data.batch = o->count;
    if (!r) r = cli_session_open(&session, call, &call->data, err);
    if (r) return r;
    gallery g = { .tiles = cli_alloc(n, sizeof *g.tiles),
                  .rows = cli_alloc(n, sizeof *g.rows),
                  .capacity = n };
    r = collect(&session, &g, err);
    if (!r) r = write_picture(call, &g, out, err);
    if (!r) {
        print_result(call, &g, out);
        cli_say_bad(call, g.replaced, g.skipped);
    }
    for (size_t i = 0; i < g.count; i++) free(g.rows[i].image.data), free(g.rows[i].other.data);
    free(g.tiles), free(g.rows);
    cli_session_close(&session);
    return r;
}

static int run(cli_call *call, stoke_error *err)
{
    const show_options *o = call->options;
    const char *out = o->out ? o->out : o->ops ? "ops.png" : "samples.png";
    int r;
    if (!cli_ends_with(out, ".png"))
        r = cli_error(err, STOKE_E_INVALID, "--out %s: the picture is a PNG, so its name must end in .png",
                      out);
    else if (!o->ops && (o->only || o->sample >= 0))
        r = cli_error(err, STOKE_E_INVALID, "--%s has no effect without --ops", o->only ? "only" : "sample");
    else if (o->ops && strcmp(call->data.augment, "none") && !call->common.config)
        r = cli_error(err, STOKE_E_INVALID,
                      "--ops draws every op and preset, so --augment %s has no effect: leave out one of them "
                      "(--only NAME picks an op)",
                      call->data.augment);
    else
        r = cli_may_write(call, out, o->force, err);
    if (!r) r = o->ops ? show_ops(call, out, err) : show_samples(call, out, err);
    return r;
}

const cli_command cli_show = {
    .summary = "write a picture of samples with their masks laid over, or with their targets",
    CLI_TAKES_DIR,
    .description = "Each sample stands beside itself with the mask laid over, or beside its target (--task restore), "
                   "its name below; the classes that occur are listed at the end. Samples come from the real loader, with its order, fit "
                   "and augmentation. With --ops one sample is drawn by every op and preset; --size is then "
                   "half the sample's unless given, so that crops have a choice.",
    .examples = {
        { "stoke show demo/data --size 256 --augment light",
          "12 samples as training would see them, in samples.png" },
        { "stoke show demo/data --order sequential --count 4 --out first.png", "the first four files" },
        { "stoke show demo/data --epoch 3 --augment light", "the same set, drawn again in epoch 3" },
        { "stoke show demo/data --ops", "what each op and preset does to a sample, in ops.png" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
