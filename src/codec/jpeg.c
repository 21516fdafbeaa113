/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG through the libjpeg API of libjpeg-turbo: integer DCT and fancy upsampling, which are the pixels of
 * Pillow.
 *
 * Damage is an error. libjpeg reports it as a warning and fills with grey; here the warnings that mean lost
 * pixels stop the decoding, and those that do not (stray bytes before a marker, an odd JFIF version) pass.
 */
#include "src/codec/codec.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "src/base/error.h"

/* A progressive file may hold any number of scans, and each costs a pass over all coefficients. Encoders
 * write about 10; cameras and optimisers below 64. */
enum { MAX_SCANS = 500 };

struct stk_codec_jpeg_state {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    int status; /* why the escape was taken */
    char text[JMSG_LENGTH_MAX];
    stk_jpeg_trimmer *trimmer; /* made at the first region */
};

static int status_of(int message)
{
    switch (message) {
    case JERR_OUT_OF_MEMORY: return STOKE_E_NOMEM;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED: return STOKE_E_UNSUPPORTED;
    default: return STOKE_E_FORMAT;
    }
}

static void escape_with_message(j_common_ptr common)
{
    stk_codec_jpeg_state *j = common->client_data;
    j->status = status_of(common->err->msg_code);
    common->err->format_message(common, j->text);
    longjmp(j->escape, 1);
}

/* level < 0: a warning, the pixels may be wrong; otherwise trace output, which nobody asked for. */
static void on_message(j_common_ptr common, int level)
{
    if (level >= 0) return;
    switch (common->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR: return;
    default: escape_with_message(common);
    }
}

static void print_nothing(j_common_ptr common)
{
    (void)common;
}

static void count_scans(j_common_ptr common)
{
    stk_codec_jpeg_state *j = common->client_data;
    if (j->c.input_scan_number <= MAX_SCANS) return;
    j->status = STOKE_E_LIMIT;
    snprintf(j->text, sizeof j->text, "more than %d scans", MAX_SCANS);
    longjmp(j->escape, 1);
}

static int make_jpeg(stoke_decoder *decoder, stoke_error *err)
{
    if (decoder->jpeg) return STOKE_OK;
    stk_codec_jpeg_state *j = stk_calloc(1, sizeof *j);
    if (!j) return stk_fail(err, STOKE_E_NOMEM, "no memory for a JPEG decoder");
    j->c.err = jpeg_std_error(&j->errors);
    j->c.client_data = j;
    j->errors.error_exit = escape_with_message;
    j->errors.emit_message = on_message;
    j->errors.output_message = print_nothing;
    j->progress.progress_monitor = count_scans;
    decoder->jpeg = j;
    return STOKE_OK;
}

/* Runs a step with a fresh libjpeg object; errors inside libjpeg end here. Fresh, because libjpeg keeps
 * Huffman and quantisation tables from file to file: one that lacks its tables would come out in the colours
 * of whatever was decoded before. It costs 0.4 us (5000 files of 512x512, 3.9 instead of 3.5 us up to the
 * first row). */
static int run(stk_codec_job *job, int (*step)(stk_codec_jpeg_state *j, stk_codec_job *job))
{
    int r = make_jpeg(job->decoder, job->err);
    if (r) return r;
    stk_codec_jpeg_state *j = job->decoder->jpeg;
    if (setjmp(j->escape)) {
        r = stk_fail(job->err, j->status, "JPEG: %s", j->text);
    } else {
        jpeg_create_decompress(&j->c);
        j->c.progress = &j->progress;
        r = step(j, job);
    }
    jpeg_destroy_decompress(&j->c);
    return r;
}

void stk_jpeg_destroy(stk_codec_jpeg_state *j)
{
    if (j) stk_free(j->trimmer);
    stk_free(j);
}

uint64_t stk_jpeg_memory(const stk_codec_jpeg_state *j)
{
    return j ? sizeof *j + (j->trimmer ? stk_jpeg_trimmer_bytes : 0) : 0;
}

static int matches(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

/* Coefficients of the whole picture when it comes in several scans, else some rows of blocks. */
static uint64_t scratch_of(const struct jpeg_decompress_struct *c, int several_scans)
{
    uint64_t samples = 0;
    for (int i = 0; i < c->num_components; i++) {
        const jpeg_component_info *part = &c->comp_info[i];
        uint64_t columns = (uint64_t)part->width_in_blocks * DCTSIZE;
        uint64_t rows = (uint64_t)part->height_in_blocks * DCTSIZE;
        /* 4 rows of blocks: the one being decoded and its neighbours for the upsampling. */
        uint64_t held = 4u * DCTSIZE * (uint64_t)part->v_samp_factor;
        samples += columns * (several_scans || rows < held ? rows : held);
    }
    /* 64 KB for libjpeg's tables, 96 KB for those of jpeg_trim.c and what it adds to a file. */
    return samples * (several_scans ? sizeof(JCOEF) : 1) + 65536 + 98304;
}

static int read_header(stk_codec_jpeg_state *j, stk_codec_job *job)
{
    stoke_image_info *info = &job->info;
    jpeg_mem_src(&j->c, job->bytes, job->size);
    jpeg_read_header(&j->c, TRUE);
    info->width = j->c.image_width;
    info->height = j->c.image_height;
    info->channels = (uint8_t)j->c.num_components;
    info->bits = (uint8_t)j->c.data_precision;
    info->progressive = j->c.progressive_mode != 0;
    info->scratch_bytes = scratch_of(&j->c, jpeg_has_multiple_scans(&j->c));
    return STOKE_OK;
}

static int check_kind(const stoke_image_info *info, stoke_error *err)
{
    if (info->bits != 8) return stk_fail(err, STOKE_E_UNSUPPORTED, "JPEG with %u-bit samples", info->bits);
    if (info->channels != 1 && info->channels != 3 && info->channels != 4)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "JPEG with %u components", info->channels);
    return STOKE_OK;
}

static int probe(stk_codec_job *job)
{
    int r = run(job, read_header);
    if (r) return r;
    job->info.orientation = stk_orientation_from_jpeg(job->bytes, job->size);
    return check_kind(&job->info, job->err);
}

/* Fast mode: the largest reduction that keeps the region at least as large as asked, and whose pixels fall on
 * the region's edges. */
static uint32_t choose_reduction(const stk_codec_job *job)
{
    const stoke_decode_params *p = job->params;
    const stoke_box *box = &job->box;
    if (p->mode != STOKE_DECODE_FAST || p->purpose != STOKE_PURPOSE_IMAGE || !p->fast_width ||
        !p->fast_height)
        return 1;
    int swap = stk_orientation_swaps(job->orientation);
    uint64_t width = swap ? p->fast_height : p->fast_width, height = swap ? p->fast_width : p->fast_height;
    for (uint32_t by = 8; by > 1; by /= 2) {
        int large = width * by <= box->width && height * by <= box->height;
        int right = box->width % by == 0 || box->x + box->width == job->info.width;
        int bottom = box->height % by == 0 || box->y + box->height == job->info.height;
        if (large && right && bottom && box->x % by == 0 && box->y % by == 0) return by;
    }
    return 1;
}

/* The part of the (reduced) picture that is read, and what of it is kept. */
typedef struct window {
    stoke_box keep;     /* in pixels of the reduced picture */
    JDIMENSION left;    /* first column that libjpeg delivers */
    JDIMENSION columns; /* how many it delivers */
} window;

/* Narrows the decoding to the columns and rows around the box. Fancy upsampling looks at the neighbouring
 * chroma sample and treats the edge of what it is given as the edge of the picture, so a margin of one chroma
 * sample is decoded as well and thrown away (libjpeg widens it to whole iMCUs); with it the result is
 * bit-equal to a cut from the full decode (test_codec_jpeg.c, jpeg_region_equals_cut).
 *
 * What remains is the Huffman decoding of everything above the region's last row: 41, 52 and 59 % of a full
 * decode at qualities 75, 75 and 90 (CamVid at 512x512). Files that trim() takes are spared that. */
static void narrow(struct jpeg_decompress_struct *c, window *w)
{
    JDIMENSION across = (JDIMENSION)c->max_h_samp_factor, down = (JDIMENSION)c->max_v_samp_factor;
    JDIMENSION rows = down * (JDIMENSION)c->min_DCT_scaled_size, right = w->keep.x + w->keep.width;
    w->left = w->keep.x > across ? w->keep.x - across : 0;
    w->columns = (right + across < c->output_width ? right + across : c->output_width) - w->left;
    if (w->columns < c->output_width) jpeg_crop_scanline(c, &w->left, &w->columns);
    if (w->keep.y > rows) jpeg_skip_scanlines(c, (w->keep.y - down) / rows * rows);
}

/* Lets libjpeg read a small file that has only the MCUs around the region. For regions up to half of the
 * picture: a larger one leaves little to be passed over, and its own codes are read twice. 1 = done. */
static int trim(stk_codec_jpeg_state *j, stk_codec_job *job, window *w)
{
    struct jpeg_decompress_struct *c = &j->c;
    stk_jpeg_trimmed small;
    if ((uint64_t)w->keep.width * w->keep.height > (uint64_t)c->image_width * c->image_height / 2) return 0;
    if (c->progressive_mode || c->arith_code || c->restart_interval || jpeg_has_multiple_scans(c)) return 0;
    if (!j->trimmer) j->trimmer = stk_calloc(1, stk_jpeg_trimmer_bytes);
    if (!j->trimmer ||
        !stk_jpeg_trim(j->trimmer, &job->decoder->packed, job->bytes, job->size, w->keep, &small))
        return 0;
    jpeg_abort_decompress(c);
    jpeg_mem_src(c, small.bytes, small.size);
    jpeg_read_header(c, TRUE);
    w->keep = small.box;
    return 1;
}

/* Rows that go straight to their place. As many as libjpeg cares to give at a time: one row per call costs 5
 * %. */
static void read_direct(struct jpeg_decompress_struct *c, stk_codec_job *job, uint32_t rows)
{
    enum { AT_ONCE = 16 };
    while (c->output_scanline < rows) {
        JSAMPROW row[AT_ONCE];
        JDIMENSION first = c->output_scanline, n = rows - first < AT_ONCE ? rows - first : AT_ONCE;
        for (JDIMENSION i = 0; i < n; i++) row[i] = stk_codec_job_row(job, first + i);
        jpeg_read_scanlines(c, row, n);
    }
}

static int read_rows(stk_codec_jpeg_state *j, stk_codec_job *job, const window *w)
{
    struct jpeg_decompress_struct *c = &j->c;
    size_t sample = (size_t)c->output_components, skip = (w->keep.x - w->left) * sample;
    const int cmyk = sample == 4;
    /* In the Adobe way, inverted: what Pillow assumes of every four-component JPEG. */
    stk_codec_convert convert = { .layout = STK_CMYK, .bits = 8, .invert = 1 };
    stk_convert_plan(&convert, job->params);
    if (!cmyk && w->columns == w->keep.width && w->keep.y == 0) {
        read_direct(c, job, w->keep.height);
        return STOKE_OK;
    }
    /* Not on a multiple of 16: there libjpeg-turbo writes around the cache, and the copy waits for memory,
     * 0.1 ms of 0.64 ms for a region of 256x256. */
    enum { OFF_GRID = 8 };
    uint8_t *scratch = stk_buffer_reserve(&job->decoder->rows, (size_t)w->columns * sample + OFF_GRID);
    if (!scratch) return stk_fail(job->err, STOKE_E_NOMEM, "no memory for a row of %u pixels", w->columns);
    scratch += OFF_GRID;
    while (c->output_scanline < w->keep.y + w->keep.height) {
        JDIMENSION y = c->output_scanline;
        JSAMPROW row = scratch;
        jpeg_read_scanlines(c, &row, 1);
        if (y < w->keep.y) continue;
        uint8_t *out = stk_codec_job_row(job, y - w->keep.y);
        if (cmyk)
            stk_convert_row(&convert, scratch + skip, 0, w->keep.width, out, NULL);
        else
            memcpy(out, scratch + skip, w->keep.width * sample);
    }
    return STOKE_OK;
}

static void choose_colours(struct jpeg_decompress_struct *c, const stk_codec_job *job)
{
    if (c->num_components == 4)
        c->out_color_space = JCS_CMYK;
    else if (c->num_components == 1 && job->params->purpose == STOKE_PURPOSE_MASK)
        c->out_color_space = JCS_GRAYSCALE;
    else
        c->out_color_space = JCS_RGB;
    c->dct_method = JDCT_ISLOW;
    c->do_fancy_upsampling = TRUE;
}

/* Scans that were to refine the picture are missing: libjpeg smooths what it has over neighbouring blocks,
 * and takes the edge of what is cropped for the edge of the picture (found by fuzz_decode). */
static int lacks_scans(const struct jpeg_decompress_struct *c)
{
    if (!c->progressive_mode || !c->coef_bits) return 0;
    for (int i = 0; i < c->num_components; i++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (c->coef_bits[i][k] != 0) return 1;
    return 0;
}

static int decode_step(stk_codec_jpeg_state *j, stk_codec_job *job)
{
    struct jpeg_decompress_struct *c = &j->c;
    read_header(j, job);
    int r = check_kind(&job->info, job->err);
    if (r == STOKE_OK) r = stk_codec_job_begin(job);
    if (r) return r;
    uint32_t by = choose_reduction(job);
    window w = { .keep = { job->box.x / by, job->box.y / by, (job->box.width + by - 1) / by,
                           (job->box.height + by - 1) / by } };
    int trimmed = by == 1 && trim(j, job, &w);
    choose_colours(c, job);
    c->scale_num = 1;
    c->scale_denom = by;
    r = stk_codec_job_place(job, w.keep.width, w.keep.height, c->out_color_space == JCS_GRAYSCALE ? 1 : 3, 1);
    if (r) return r;
    jpeg_start_decompress(c);
    w.columns = c->output_width;
    int whole = !trimmed && w.keep.width == c->output_width && w.keep.height == c->output_height;
    /* Reduced pictures with sampling factors above 2 are read whole and cut: there libjpeg-turbo 2.1.5's
     * cropping is not exact (4:1:0 at 1/2, found by test_codec_jpeg.c, jpeg_fast_mode_reduces). Nobody makes
     * such files. */
    int exact = by == 1 || (c->max_h_samp_factor <= 2 && c->max_v_samp_factor <= 2);
    if (!whole && !trimmed && exact && !lacks_scans(c)) narrow(c, &w);
    r = read_rows(j, job, &w);
    /* Only now is it known that the file does not end before its end marker. */
    if (r == STOKE_OK && whole) jpeg_finish_decompress(c);
    return r;
}

static int decode(stk_codec_job *job)
{
    if (job->params->orientation == STOKE_ORIENTATION_APPLY)
        job->info.orientation = stk_orientation_from_jpeg(job->bytes, job->size);
    return run(job, decode_step);
}

const stk_codec stk_codec_jpeg = { matches, probe, decode, { "libjpeg", "libjpeg", "" }, NULL };
