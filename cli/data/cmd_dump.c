/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke dump: batches as .npy files, for a look from NumPy.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/output.h"

typedef struct dump_options {
    const char *out;
    int64_t batches;
    int force;
} dump_options;

#define OPTIONS dump_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, out, "dump", "DIR", "Folder for the files; made when it does not exist"),
    CLI_NUMBER(INT, batches, "1", 0, 1e9, "N", "Number of batches; 0 = the whole epoch"),
    CLI_FLAG(force, "Write into a folder that has dumped batches already: files of the same name are "
                    "replaced, others stay"),
};

enum { IMAGES, MASKS, IDS, MASKS_B, LAMBDA, TARGETS };
static const char *const kinds[] = { "images", "masks", "ids", "masks_b", "lambda", "targets" };

/* Second masks and shares come with a mixup op in the pipeline; targets in place of masks. */
static int is_in(const stoke_batch *b, size_t kind)
{
    const void *const optional[] = {
        [IMAGES] = b->images,   [MASKS] = b->masks,   [IDS] = b->ids,
        [MASKS_B] = b->masks_b, [LAMBDA] = b->lambda, [TARGETS] = b->targets,
    };
    return optional[kind] != NULL;
}

/* Whether a name is one that a dump writes: index.json or KIND_NUMBER.npy. */
static int is_dumped(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT(kinds); i++) {
        size_t n = strlen(kinds[i]);
        if (strncmp(name, kinds[i], n) != 0 || name[n] != '_') continue;
        size_t digits = strspn(name + n + 1, "0123456789");
        if (digits && !strcmp(name + n + 1 + digits, ".npy")) return 1;
    }
    return !strcmp(name, "index.json");
}

/* Batches of two runs in one folder look like those of one. */
static int refuse_mixture(const cli_call *call, const dump_options *o, stoke_error *err)
{
    DIR *dir = stoke_opendir(o->out);
    int r = STOKE_OK;
    size_t there = 0;
    if (!dir && !stoke_is_absent(errno))
        return cli_error(err, STOKE_E_IO, "%s: cannot open folder: %s", o->out, strerror(errno));
    if (!dir) return r; /* not there yet; if it is something else, making it says so */
    for (struct dirent *entry; !r && (entry = stoke_readdir(dir));) {
        if (!is_dumped(entry->d_name)) continue;
        there++;
        if (!o->force)
            r = cli_error(err, STOKE_E_STATE,
                          "%s has dumped batches already (%s): name another folder with --out, or write "
                          "there with --force",
                          o->out, entry->d_name);
    }
    if (!r && errno) r = cli_error(err, STOKE_E_IO, "%s: cannot read folder: %s", o->out, strerror(errno));
    closedir(dir);
    if (!r && there)
        cli_say(call, "--force: of %s in %s those that this dump names too are replaced",
                STOKE_COUNT(there, "file"), o->out);
    return r;
}

/* NumPy's type for an element. bfloat16 has none: the 16 bits are stored as they are. */
static const char *npy_type(stoke_dtype dtype)
{
    switch (dtype) {
    case STOKE_DTYPE_U8: return "|u1";
    case STOKE_DTYPE_F32: return "<f4";
    case STOKE_DTYPE_F16: return "<f2";
    case STOKE_DTYPE_BF16:
    case STOKE_DTYPE_U16: return "<u2";
    case STOKE_DTYPE_I32: return "<i4";
    case STOKE_DTYPE_I64: return "<i8";
    }
    return "|V1";
}

typedef struct dump {
    const char *folder;
    FILE *index; /* of the atomic index.json */
    stoke_json json;
    uint64_t written, replaced, skipped;
} dump;

static void shape_of(const stoke_batch *b, uint32_t height, uint32_t width, char text[96])
{
    if (b->layout == STOKE_LAYOUT_CHW)
        snprintf(text, 96, "(%u, %u, %u, %u)", b->count, b->channels, height, width);
    else
        snprintf(text, 96, "(%u, %u, %u, %u)", b->count, height, width, b->channels);
}

static int write_arrays(const dump *d, const stoke_batch *b, stoke_error *err)
{
    const char *mask_type = npy_type(b->mask_dtype);
    const size_t pixels = (size_t)b->height * b->width,
                 mask_bytes = pixels * stoke_dtype_bytes(b->mask_dtype);
    const size_t image_bytes = pixels * b->channels * stoke_dtype_bytes(b->image_dtype);
    char path[CLI_PATH], images[96], targets[96], masks[96], column[32];
    shape_of(b, b->height, b->width, images);
    shape_of(b, b->target_height, b->target_width, targets);
    snprintf(masks, sizeof masks, "(%u, %u, %u)", b->count, b->height, b->width);
    snprintf(column, sizeof column, "(%u,)", b->count);
    const struct {
        const char *type, *shape;
        const void *rows;
        size_t row_bytes, stride;
    } arrays[] = {
        [IMAGES] = { npy_type(b->image_dtype), images, b->images, image_bytes, b->image_row_bytes },
        [MASKS] = { mask_type, masks, b->masks, mask_bytes, b->mask_row_bytes },
        [IDS] = { "<u8", column, b->ids, sizeof *b->ids, sizeof *b->ids },
        [MASKS_B] = { mask_type, masks, b->masks_b, mask_bytes, b->mask_row_bytes },
        [LAMBDA] = { "<f4", column, b->lambda, sizeof *b->lambda, sizeof *b->lambda },
        [TARGETS] = { npy_type(b->image_dtype), targets, b->targets, b->target_row_bytes,
                      b->target_row_bytes },
    };
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < CLI_COUNT(arrays); i++) {
        if (!is_in(b, i)) continue;
        snprintf(path, sizeof path, "%s/%s_%06llu.npy", d->folder, kinds[i], (unsigned long long)b->index);
        r = cli_write_npy(path, arrays[i].type, arrays[i].shape, arrays[i].rows, b->count,
                          arrays[i].row_bytes, arrays[i].stride, err);
    }
    return r;
}

static void index_batch(dump *d, const stoke_batch *b)
{
    stoke_json *json = &d->json;
    char name[64];
    uint8_t digest[16];
    stoke_batch_digest(b, digest);
    stoke_json_object(json, NULL);
    FACTS(json, FACT_OF(b, index), FACT_OF(b, position), FACT_OF(b, count), FACT("digest", CLI_HEX(digest)));
    for (size_t i = 0; i < CLI_COUNT(kinds); i++) {
        if (!is_in(b, i)) continue;
        snprintf(name, sizeof name, "%s_%06llu.npy", kinds[i], (unsigned long long)b->index);
        stoke_json_string(json, kinds[i], name);
    }
    JSON_LIST(json, "names", i, i < b->count) stoke_json_string(json, NULL, b->names[i]);
    JSON_LIST(json, "replaced", i, i < b->count)
        stoke_json_bool(json, NULL, b->status[i] == STOKE_ROW_REPLACED);
    stoke_json_close(json);
}

static void index_head(dump *d, const cli_call *call, const stoke_batch *b)
{
    stoke_json *json = &d->json;
    stoke_json_begin(json, d->index, 1);
    stoke_json_object(json, NULL);
    FACTS(json, FACT("image_dtype", stoke_dtype_name(b->image_dtype)),
          FACT("mask_dtype", stoke_dtype_name(b->mask_dtype)),
          FACT("layout", b->layout == STOKE_LAYOUT_CHW ? "chw" : "hwc"));
    if (b->image_dtype == STOKE_DTYPE_BF16)
        stoke_json_string(json, "note",
                          "NumPy has no bfloat16: images are its 16 bits as uint16; (a.astype(np.uint32) << "
                          "16).view(np.float32) gives the values");
    FACTS(json, FACT_OF(&call->data, seed), FACT_OF(&call->data, epoch));
    stoke_json_array(json, "batches");
}

static int dump_batches(const cli_call *call, cli_session *session, dump *d, stoke_error *err)
{
    uint64_t limit = (uint64_t)((const dump_options *)call->options)->batches;
    uint64_t total = stoke_loader_remaining(session->loader);
    if (limit && limit < total) total = limit;
    int r = STOKE_OK;
    stoke_progress *progress = cli_progress_begin(call, "writing", "batches");
    while (!r && d->written < total) {
        const stoke_batch *batch;
        r = cli_next(session, &batch, err);
        if (r) break;
        if (!d->written) index_head(d, call, batch);
        r = write_arrays(d, batch, err);
        if (!r) index_batch(d, batch);
        stoke_batch_release(session->loader, &batch);
        cli_progress_update(progress, ++d->written, total);
    }
    stoke_progress_destroy(&progress);
    if (r == STOKE_E_END) r = STOKE_OK; /* policy skip may leave nothing of a batch: it is passed over */
    if (!r && !d->written)
        r = cli_error(err, STOKE_E_NOTFOUND, "the epoch has no batch to write (see --drop-last)");
    if (r) return r;
    stoke_loader_stats_data stats;
    stoke_loader_stats(session->loader, &stats);
    d->replaced = stats.replaced;
    d->skipped = stats.skipped;
    stoke_json_close(&d->json);
    stoke_json_close(&d->json);
    fputc('\n', d->index);
    return STOKE_OK;
}

static void print_result(const cli_call *call, const dump *d, const char *index_path)
{
    if (call->common.json) {
        stoke_json json = cli_json_open();
        FACTS(&json, FACT_OF(d, folder), FACT("index", index_path));
        cli_json_memory(&json, call->planned);
        FACTS(&json, FACT("batches", d->written), FACT_OF(d, replaced), FACT_OF(d, skipped));
        stoke_json_close(&json);
        return;
    }
    cli_print("%s: %s\n", d->folder, STOKE_COUNT(d->written, "batch"));
    cli_say(call,
            "next: python3 -c 'import sys, os, numpy; folder = sys.argv[1]; "
            "print(numpy.load(os.path.join(folder, min(n for n in os.listdir(folder) if "
            "n.startswith(\"images_\")))).shape)' %s",
            STOKE_WORD(d->folder));
}

static int run(cli_call *call, stoke_error *err)
{
    const dump_options *o = call->options;
    cli_session session = { 0 };
    stoke_output index = { 0 };
    char index_path[CLI_PATH];
    snprintf(index_path, sizeof index_path, "%s/index.json", o->out);
    int r = refuse_mixture(call, o, err);
    if (!r) r = cli_session_open(&session, call, &call->data, err);
    if (!r) r = stoke_make_folders(o->out, err);
    if (!r) r = stoke_output_open(&index, index_path, err);
    /* index.json is written last and an old one, which --force gave up, goes first: a folder with an index is
     * complete. */
    if (!r) unlink(index.path);
    dump d = { .folder = o->out, .index = index.stream };
    if (!r) r = dump_batches(call, &session, &d, err);
    if (!r) r = stoke_output_commit(&index, err);
    stoke_output_drop(&index);
    cli_session_close(&session);
    if (r) return r;
    print_result(call, &d, index_path);
    cli_say_bad(call, d.replaced, d.skipped);
    return CLI_OK;
}

const cli_command cli_dump = {
    .summary = "write batches as .npy files",
    CLI_TAKES_DIR,
    .description =
        "Writes images_NNNNNN.npy, masks_NNNNNN.npy and ids_NNNNNN.npy for each batch (NNNNNN is its global "
        "index) and, last of all, index.json with names, types and digests of what this run wrote. bfloat16 "
        "images are stored as uint16. With a mixup op there are masks_b_NNNNNN.npy and lambda_NNNNNN.npy "
        "too: the second masks and the share of the first; with --task restore targets_NNNNNN.npy in place of "
        "masks. Every file appears whole or not at all.",
    .examples = {
        { "stoke dump demo/data --size 128 --batch 4",
          "dump/images_000000.npy, masks_, ids_ and index.json" },
        { "stoke dump demo/data --batches 0 --dtype u8 --layout hwc --out all",
          "the whole epoch as bytes, interleaved" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
