/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG through libspng: every colour type, depth and interlacing, and every error. Plain files take the
 * shorter way of png_fast.c, which hands back whatever it does not like.
 */
#include "src/codec/codec.h"

#include <libdeflate.h>
#include <spng.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"

static int matches(const uint8_t *bytes, size_t size)
{
    return size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static int fail(stoke_error *err, int code)
{
    switch (code) {
    case SPNG_EZLIB_INIT: /* zlib's only reason to fail there */
    case SPNG_EMEM: return stk_fail(err, STOKE_E_NOMEM, "PNG: no memory");
    case SPNG_IO_EOF:
    case SPNG_EIDAT_TOO_SHORT: return stk_fail(err, STOKE_E_FORMAT, "PNG: the file ends early");
    default: return stk_fail(err, STOKE_E_FORMAT, "PNG: %s", spng_strerror(code));
    }
}

int stk_png_next_chunk(const uint8_t *bytes, size_t size, size_t *at, stk_codec_png_chunk *chunk)
{
    while (*at <= size && size - *at >= STK_PNG_FRAME) {
        const uint8_t *p = bytes + *at;
        *chunk = (stk_codec_png_chunk){ .type = p + 4, .data = p + 8, .size = stk_big32(p) };
        if (chunk->size > size - *at - STK_PNG_FRAME) return 0;
        *at += STK_PNG_FRAME + chunk->size;
        int ancillary = chunk->type[0] & 0x20;
        if (!ancillary || stk_png_is(chunk, "tRNS")) return 1;
    }
    return 0;
}

int stk_png_crc_is_right(const stk_codec_png_chunk *chunk)
{
    return libdeflate_crc32(0, chunk->type, chunk->size + 4) == stk_big32(chunk->data + chunk->size);
}

/* What libspng reads: the signature, then only chunks that matter for the pixels. Texts and profiles never
 * reach it, so they can neither make it allocate (a small zTXt may unpack to gigabytes) nor refuse a good
 * picture because a comment is out of place. */
typedef struct reader {
    const uint8_t *bytes;
    size_t size, next; /* next: the first chunk not yet handed out */
    const uint8_t *span;
    size_t left;
} reader;

static int next_span(reader *r)
{
    stk_codec_png_chunk chunk;
    if (!stk_png_next_chunk(r->bytes, r->size, &r->next, &chunk)) return 0;
    r->span = chunk.data - 8;
    r->left = chunk.size + STK_PNG_FRAME;
    return 1;
}

static int read_spans(spng_ctx *ctx, void *user, void *out, size_t length)
{
    (void)ctx;
    reader *r = user;
    uint8_t *to = out;
    while (length) {
        if (!r->left && !next_span(r)) return SPNG_IO_EOF;
        size_t n = r->left < length ? r->left : length;
        memcpy(to, r->span, n);
        to += n;
        r->span += n;
        r->left -= n;
        length -= n;
    }
    return 0;
}

/* *out is for spng_ctx_free even after a failure. The reader must live as long. */
static int open_png(reader *r, const uint8_t *bytes, size_t size, spng_ctx **out, stoke_error *err)
{
    struct spng_alloc memory = { stk_alloc, stk_realloc, stk_calloc, stk_free };
    *r = (reader){ bytes, size, STK_PNG_SIGNATURE, bytes, STK_PNG_SIGNATURE };
    *out = spng_ctx_new2(&memory, 0);
    if (!*out) return fail(err, SPNG_EMEM);
    int code = spng_set_png_stream(*out, read_spans, r);
    return code ? fail(err, code) : STOKE_OK;
}

const stk_codec_png_kind stk_png_kinds[7] = { { 1, STK_GREY },       { 0, 0 },
                                              { 3, STK_RGB },        { 1, STK_PALETTE },
                                              { 2, STK_GREY_ALPHA }, { 0, 0 },
                                              { 4, STK_RGBA } };

int stk_png_header(const stk_codec_png_chunk *chunk, struct spng_ihdr *ihdr)
{
    /* Depths by colour type, one bit each: 1, 2, 4, 8, 16. */
    static const uint8_t depths[7] = { 31, 0, 24, 15, 24, 0, 24 };
    const uint8_t *data = chunk->data;
    if (!stk_png_is(chunk, "IHDR") || chunk->size != 13 || !stk_png_crc_is_right(chunk)) return 0;
    *ihdr = (struct spng_ihdr){ .width = stk_big32(data),
                                .height = stk_big32(data + 4),
                                .bit_depth = data[8],
                                .color_type = data[9],
                                .interlace_method = data[12] };
    const unsigned depth = ihdr->bit_depth;
    return ihdr->width && ihdr->height && ihdr->width <= INT32_MAX && ihdr->height <= INT32_MAX &&
           ihdr->color_type <= 6 && !data[10] && !data[11] && ihdr->interlace_method <= 1 && depth &&
           !(depth & (depth - 1)) && depth <= 16 && depths[ihdr->color_type] >> __builtin_ctz(depth) & 1;
}

static void set_info(const struct spng_ihdr *ihdr, int has_trns, stoke_image_info *info)
{
    info->width = ihdr->width;
    info->height = ihdr->height;
    info->bits = ihdr->bit_depth;
    info->channels = stk_png_kinds[ihdr->color_type].samples;
    info->palette = ihdr->color_type == SPNG_COLOR_TYPE_INDEXED;
    info->progressive = ihdr->interlace_method != 0;
    info->alpha = has_trns || info->channels == 2 || info->channels == 4;
    uint64_t row = ((uint64_t)ihdr->width * info->channels * ihdr->bit_depth + 7) / 8 + 1;
    /* png_fast.c inflates the whole picture at once, and so does interlacing; 64 KB is zlib's window and
     * state. */
    info->scratch_bytes = row * (info->bits == 8 || info->progressive ? ihdr->height : 2) + 65536;
}

/* Header and transparency; nothing behind the first IDAT is looked at. */
static int read_info(spng_ctx *ctx, struct spng_ihdr *ihdr, struct spng_trns *trns, stoke_image_info *info,
                     stoke_error *err)
{
    int code = spng_get_ihdr(ctx, ihdr);
    if (code) return fail(err, code);
    code = spng_get_trns(ctx, trns);
    if (code && code != SPNG_ECHUNKAVAIL) return fail(err, code);
    set_info(ihdr, !code, info);
    return STOKE_OK;
}

/* The header of an ordinary file, without libspng: a context takes three allocations and 40 KB of zlib state,
 * for every sample, and wants the first IDAT whole, which the beginning of a file need not hold. 0 = let
 * libspng say. */
static int probe_ordinary(const uint8_t *bytes, size_t size, stoke_image_info *info)
{
    size_t at = STK_PNG_SIGNATURE;
    stk_codec_png_chunk chunk;
    struct spng_ihdr ihdr;
    if (!stk_png_next_chunk(bytes, size, &at, &chunk) || !stk_png_header(&chunk, &ihdr)) return 0;
    int has_trns = 0;
    while (size - at >= 8) {
        if (memcmp(bytes + at + 4, "IDAT", 4) == 0) {
            set_info(&ihdr, has_trns, info);
            return 1;
        }
        if (!memcmp(bytes + at + 4, "tRNS", 4)) has_trns = 1;
        const size_t length = stk_big32(bytes + at);
        if (length + STK_PNG_FRAME > size - at) return 0;
        at += length + STK_PNG_FRAME;
    }
    return 0;
}

static int probe(stk_codec_job *job)
{
    int r = STOKE_OK;
    if (!probe_ordinary(job->bytes, job->size, &job->info)) {
        spng_ctx *ctx;
        reader source;
        struct spng_ihdr ihdr;
        struct spng_trns trns;
        r = open_png(&source, job->bytes, job->size, &ctx, job->err);
        if (r == STOKE_OK) r = read_info(ctx, &ihdr, &trns, &job->info, job->err);
        spng_ctx_free(ctx);
    }
    if (r == STOKE_OK) job->info.orientation = stk_orientation_from_png(job->bytes, job->size);
    return r;
}

static int plan_conversion(stk_codec_job *job, spng_ctx *ctx, const struct spng_ihdr *ihdr,
                           const struct spng_trns *trns, stk_codec_convert *c)
{
    *c = (stk_codec_convert){ .layout = stk_png_kinds[ihdr->color_type].layout, .bits = ihdr->bit_depth };
    if (c->layout == STK_PALETTE) {
        struct spng_plte plte;
        int code = spng_get_plte(ctx, &plte);
        if (code) return fail(job->err, code);
        c->colours = (uint16_t)plte.n_entries;
        for (uint32_t i = 0; i < plte.n_entries; i++) {
            const struct spng_plte_entry *e = &plte.entries[i];
            uint8_t alpha = i < trns->n_type3_entries ? trns->type3_alpha[i] : 255;
            memcpy(c->palette[i], (uint8_t[4]){ e->red, e->green, e->blue, alpha }, 4);
        }
    } else if (job->info.alpha && (c->layout == STK_GREY || c->layout == STK_RGB)) {
        int grey = c->layout == STK_GREY;
        c->has_key = 1;
        c->key[0] = grey ? trns->gray : trns->red;
        c->key[1] = trns->green;
        c->key[2] = trns->blue;
    }
    stk_convert_plan(c, job->params);
    return STOKE_OK;
}

/* Not interlaced: row by row, and nothing below the last row that is wanted. */
static int decode_rows(stk_codec_job *job, spng_ctx *ctx, const stk_codec_convert *c, size_t row_bytes)
{
    uint8_t *row = stk_buffer_reserve(&job->decoder->rows, row_bytes);
    if (!row) return fail(job->err, SPNG_EMEM);
    int code = spng_decode_image(ctx, NULL, 0, SPNG_FMT_PNG, SPNG_DECODE_PROGRESSIVE);
    if (code) return fail(job->err, code);
    for (uint32_t y = 0; y < job->box.y + job->box.height; y++) {
        code = spng_decode_row(ctx, row, row_bytes);
        if (code && code != SPNG_EOI) return fail(job->err, code);
        if (y < job->box.y) continue;
        int r = stk_convert_row(c, row, job->box.x, job->box.width, stk_codec_job_row(job, y - job->box.y),
                                job->err);
        if (r) return r;
    }
    return STOKE_OK;
}

static int decode_interlaced(stk_codec_job *job, spng_ctx *ctx, const stk_codec_convert *c, size_t row_bytes)
{
    size_t total;
    if (!stk_mul(row_bytes, job->info.height, &total)) return fail(job->err, SPNG_EMEM);
    uint8_t *all = stk_buffer_reserve(&job->decoder->rows, total);
    if (!all) return fail(job->err, SPNG_EMEM);
    /* libspng 0.7.3 puts packed pixels of the passes in place with "or": what was there before shines
     * through. */
    if (job->info.bits < 8) memset(all, 0, total);
    int code = spng_decode_image(ctx, all, total, SPNG_FMT_PNG, 0);
    return code ? fail(job->err, code) : stk_codec_job_convert(job, c, all, row_bytes);
}

static int decode_with_spng(stk_codec_job *job, spng_ctx *ctx)
{
    struct spng_ihdr ihdr;
    struct spng_trns trns = { 0 };
    stk_codec_convert convert;
    int r = read_info(ctx, &ihdr, &trns, &job->info, job->err);
    if (r == STOKE_OK) r = stk_codec_job_begin(job);
    if (r == STOKE_OK) r = plan_conversion(job, ctx, &ihdr, &trns, &convert);
    if (r) return r;
    size_t row_bytes = (size_t)(((uint64_t)ihdr.width * job->info.channels * ihdr.bit_depth + 7) / 8);
    /* Refused before the pixels are allocated: a few bytes that claim to be millions of pixels. */
    if ((uint64_t)row_bytes * ihdr.height / STK_MAX_DEFLATE_RATIO > job->size)
        return stk_fail(job->err, STOKE_E_FORMAT,
                        "PNG: the file ends early: %zu bytes cannot hold %ux%u pixels", job->size, ihdr.width,
                        ihdr.height);
    r = stk_codec_job_place(job, job->box.width, job->box.height, convert.out_channels, convert.out_depth);
    if (r) return r;
    return ihdr.interlace_method ? decode_interlaced(job, ctx, &convert, row_bytes)
                                 : decode_rows(job, ctx, &convert, row_bytes);
}

static int decode(stk_codec_job *job)
{
    if (job->params->orientation == STOKE_ORIENTATION_APPLY)
        job->info.orientation = stk_orientation_from_png(job->bytes, job->size);
    int r = stk_png_fast(job);
    if (r) return r < 0 ? r : STOKE_OK;
    spng_ctx *ctx;
    reader source;
    r = open_png(&source, job->bytes, job->size, &ctx, job->err);
    if (r == STOKE_OK) r = decode_with_spng(job, ctx);
    spng_ctx_free(ctx);
    /* libspng stops at the last row and does not look at the checksum behind it. */
    stk_codec_png_chunk chunk;
    for (size_t at = STK_PNG_SIGNATURE; !r && stk_png_next_chunk(job->bytes, job->size, &at, &chunk);)
        if (stk_png_is(&chunk, "IDAT") && !stk_png_crc_is_right(&chunk)) r = fail(job->err, SPNG_ECHUNK_CRC);
    return r;
}

static void version(char text[32])
{
    snprintf(text, 32, "%s", spng_version_string());
}

const stk_codec stk_codec_png = { matches, probe, decode, { "spng", "libspng", "" }, version };
