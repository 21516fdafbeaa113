/* SPDX-License-Identifier: Apache-2.0
 *
 * TIFF through libtiff, first page. Grey, palette, RGB(A) and CMYK samples are taken as stored and converted
 * here (so that masks keep their integers); only colour spaces that libtiff must compute (YCbCr outside JPEG)
 * come through its RGBA interface.
 */
#include "src/codec/codec.h"

#include <stdio.h>
#include <string.h>
#include <tiffio.h>

#include "src/base/error.h"

/* Bytes in memory as libtiff's "file", and the first thing libtiff complained about. */
typedef struct source {
    const uint8_t *bytes;
    toff_t size, at;
    char text[256];
} source;

static tmsize_t read_source(thandle_t handle, void *out, tmsize_t wanted)
{
    source *s = handle;
    toff_t left = s->at < s->size ? s->size - s->at : 0;
    if (wanted < 0) return 0;
    if ((toff_t)wanted > left) wanted = (tmsize_t)left;
    memcpy(out, s->bytes + s->at, (size_t)wanted);
    s->at += (toff_t)wanted;
    return wanted;
}

static tmsize_t write_nothing(thandle_t handle, void *data, tmsize_t size)
{
    (void)handle, (void)data, (void)size;
    return 0;
}

static toff_t seek_source(thandle_t handle, toff_t offset, int whence)
{
    source *s = handle;
    if (whence == SEEK_CUR) offset += s->at;
    if (whence == SEEK_END) offset += s->size;
    if (offset > s->size) offset = s->size;
    return s->at = offset;
}

static int close_nothing(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t size_of_source(thandle_t handle)
{
    return ((source *)handle)->size;
}

/* The bytes are in memory already: "mapping" the file gives libtiff a pointer and saves its copies. */
static int map_source(thandle_t handle, void **base, toff_t *size)
{
    source *s = handle;
    *base = (void *)(uintptr_t)s->bytes;
    *size = s->size;
    return 1;
}

static void unmap_nothing(thandle_t handle, void *base, toff_t size)
{
    (void)handle, (void)base, (void)size;
}

/* Later errors are consequences of the first. Returning 1 keeps libtiff's global handler out of it. */
static int keep_first_error(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    (void)tiff, (void)module;
    source *s = user;
    if (!s->text[0]) vsnprintf(s->text, sizeof s->text, format, arguments);
    return 1;
}

static int ignore_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments)
{
    (void)tiff, (void)user, (void)module, (void)format, (void)arguments;
    return 1;
}

static int matches(const uint8_t *bytes, size_t size)
{
    if (size < 8) return 0;
    return memcmp(bytes, "II*\0", 4) == 0 || memcmp(bytes, "MM\0*", 4) == 0 ||
           memcmp(bytes, "II+\0", 4) == 0 || memcmp(bytes, "MM\0+", 4) == 0;
}

static int fail(const source *s, const char *what, stoke_error *err)
{
    if (s->text[0]) return stk_fail(err, STOKE_E_FORMAT, "TIFF: %s: %s", what, s->text);
    return stk_fail(err, STOKE_E_FORMAT, "TIFF: %s", what);
}

static TIFF *open_tiff(source *s, uint64_t max_pixels, stoke_error *err)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options) {
        stk_fail(err, STOKE_E_NOMEM, "TIFF: no memory");
        return NULL;
    }
    /* The largest single block libtiff may want is one strip that holds the whole picture: 8 bytes per pixel.
     */
    uint64_t most = max_pixels < (uint64_t)INT64_MAX / 8 ? max_pixels * 8 : INT64_MAX;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)(most < 1 << 20 ? 1 << 20 : most));
    TIFFOpenOptionsSetErrorHandlerExtR(options, keep_first_error, s);
    TIFFOpenOptionsSetWarningHandlerExtR(options, ignore_warning, s);
    TIFF *tiff = TIFFClientOpenExt("memory", "r", s, read_source, write_nothing, seek_source, close_nothing,
                                   size_of_source, map_source, unmap_nothing, options);
    TIFFOpenOptionsFree(options);
    if (!tiff) fail(s, "cannot read the header", err);
    return tiff;
}

/* What the tags say. */
typedef struct layout {
    uint32_t width, height;
    uint16_t bits, samples, format, photometric, planar, compression, orientation, extra_kind;
    int tiled;
    uint32_t block_width, block_height; /* tile, or the full width and the rows of a strip */
} layout;

static uint16_t tag16(TIFF *tiff, uint32_t tag, uint16_t absent)
{
    uint16_t value = absent;
    return TIFFGetFieldDefaulted(tiff, tag, &value) ? value : absent;
}

static int read_layout(TIFF *tiff, layout *l, stoke_error *err)
{
    *l = (layout){ 0 };
    if (!TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &l->width) ||
        !TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &l->height))
        return stk_fail(err, STOKE_E_FORMAT, "TIFF: the size of the picture is missing");
    l->bits = tag16(tiff, TIFFTAG_BITSPERSAMPLE, 1);
    l->samples = tag16(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    l->format = tag16(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
    l->planar = tag16(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    l->compression = tag16(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
    l->orientation = tag16(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
    if (!TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &l->photometric)) {
        /* As libtiff's own RGBA interface guesses. */
        l->photometric = l->samples >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    }
    uint16_t extras = 0, *kinds = NULL;
    if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &extras, &kinds) && extras) l->extra_kind = kinds[0];
    l->tiled = TIFFIsTiled(tiff);
    l->block_width = l->width;
    if (l->tiled) {
        TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &l->block_width);
        TIFFGetField(tiff, TIFFTAG_TILELENGTH, &l->block_height);
    } else {
        TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &l->block_height);
        if (l->block_height > l->height) l->block_height = l->height;
    }
    return STOKE_OK;
}

/* Colour that only libtiff can compute: YCbCr, and everything in old-style JPEG. */
static int needs_rgba_interface(const layout *l)
{
    return l->photometric == PHOTOMETRIC_YCBCR || l->compression == COMPRESSION_OJPEG;
}

static int check_kind(const layout *l, stoke_error *err)
{
    static const char *const formats[] = {
        "", "unsigned", "signed", "floating-point", "untyped", "complex integer", "complex floating-point"
    };
    int is_signed = l->format == SAMPLEFORMAT_INT,
        plain = l->format == SAMPLEFORMAT_UINT || l->format == SAMPLEFORMAT_VOID;
    if (l->format > SAMPLEFORMAT_COMPLEXIEEEFP || !l->samples)
        return stk_fail(err, STOKE_E_FORMAT, "TIFF: sample format %u with %u samples", l->format, l->samples);
    if (!plain && !(is_signed && (l->bits == 8 || l->bits == 16)))
        return stk_fail(err, STOKE_E_UNSUPPORTED, "TIFF with %u-bit %s samples", l->bits, formats[l->format]);
    int single = l->samples == 1 && (l->bits == 1 || l->bits == 2 || l->bits == 4 || l->bits == 12);
    if (l->bits != 8 && l->bits != 16 && !single)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "TIFF with %u samples of %u bits", l->samples, l->bits);
    if (!TIFFIsCODECConfigured(l->compression))
        return stk_fail(err, STOKE_E_UNSUPPORTED, "TIFF with compression %u", l->compression);
    unsigned least;
    switch (l->photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK: least = 1; break;
    case PHOTOMETRIC_PALETTE: least = l->bits <= 8 ? 1 : UINT16_MAX; break; /* longer palettes: none seen */
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR: least = 3; break;
    case PHOTOMETRIC_SEPARATED: least = 4; break;
    case PHOTOMETRIC_CIELAB:
    case PHOTOMETRIC_ICCLAB:
    case PHOTOMETRIC_ITULAB: return stk_fail(err, STOKE_E_UNSUPPORTED, "TIFF in the L*a*b* colour space");
    default:
        return stk_fail(err, STOKE_E_UNSUPPORTED, "TIFF with photometric interpretation %u", l->photometric);
    }
    if (l->samples < least || l->samples > 8)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "TIFF with %u samples of %u bits, photometric interpretation %u", l->samples, l->bits,
                        l->photometric);
    return STOKE_OK;
}

static int read_info(TIFF *tiff, const source *s, layout *l, stoke_image_info *info, stoke_error *err)
{
    int r = read_layout(tiff, l, err);
    if (r) return r;
    info->width = l->width;
    info->height = l->height;
    info->channels = (uint8_t)(l->samples < 255 ? l->samples : 255);
    info->bits = (uint8_t)(l->bits < 255 ? l->bits : 255);
    info->palette = l->photometric == PHOTOMETRIC_PALETTE;
    info->alpha = l->extra_kind != EXTRASAMPLE_UNSPECIFIED;
    if (l->orientation >= 1 && l->orientation <= 8) info->orientation = (uint8_t)l->orientation;
    r = check_kind(l, err);
    if (r) return r;
    if (!l->block_width || !l->block_height) return fail(s, "tiles or strips of no size", err);
    uint64_t pixels = (uint64_t)l->block_width * l->block_height;
    if (needs_rgba_interface(l)) pixels = (uint64_t)l->width * l->height;
    info->scratch_bytes = pixels * (l->samples > 4 ? l->samples : 4) * (l->bits == 16 ? 2 : 1) + 65536;
    return STOKE_OK;
}

static int probe(stk_codec_job *job)
{
    source s = { .bytes = job->bytes, .size = job->size };
    TIFF *tiff = open_tiff(&s, stoke_decode_defaults().max_pixels, job->err);
    if (!tiff) return STOKE_E_FORMAT;
    layout l;
    int r = read_info(tiff, &s, &l, &job->info, job->err);
    TIFFClose(tiff);
    return r;
}

/* TIFF colours have 16 bits, but some writers store 8: when no value needs more, they are taken as they are.
 */
static int read_palette(TIFF *tiff, const layout *l, stk_codec_convert *c)
{
    uint16_t *map[3], used = 0;
    if (!TIFFGetField(tiff, TIFFTAG_COLORMAP, &map[0], &map[1], &map[2])) return 0;
    c->colours = (uint16_t)(1u << l->bits);
    for (unsigned i = 0; i < c->colours; i++) used |= map[0][i] | map[1][i] | map[2][i];
    for (unsigned i = 0; i < c->colours; i++) {
        for (unsigned k = 0; k < 3; k++) c->palette[i][k] = (uint8_t)(map[k][i] >> (used > 255 ? 8 : 0));
        c->palette[i][3] = 255;
    }
    return 1;
}

static int plan_conversion(stk_codec_job *job, TIFF *tiff, const source *s, const layout *l,
                           stk_codec_convert *c)
{
    int alpha = l->extra_kind == EXTRASAMPLE_ASSOCALPHA || l->extra_kind == EXTRASAMPLE_UNASSALPHA;
    *c = (stk_codec_convert){ .bits = (uint8_t)l->bits, .stride = (uint8_t)l->samples };
    if (l->bits == 12) c->bits = 16, c->twelve = 1; /* unpacked by block_row */
    switch (l->photometric) {
    case PHOTOMETRIC_PALETTE:
        c->layout = alpha && l->samples == 2 ? STK_PALETTE_ALPHA : STK_PALETTE;
        if (!read_palette(tiff, l, c)) return fail(s, "a palette picture without palette", job->err);
        break;
    case PHOTOMETRIC_SEPARATED: c->layout = STK_CMYK; break;
    case PHOTOMETRIC_RGB: c->layout = alpha && l->samples >= 4 ? STK_RGBA : STK_RGB; break;
    default:
        c->layout = alpha && l->samples >= 2 ? STK_GREY_ALPHA : STK_GREY;
        c->invert = l->photometric == PHOTOMETRIC_MINISWHITE;
    }
    c->premultiplied = l->extra_kind == EXTRASAMPLE_ASSOCALPHA && (c->layout == STK_RGBA);
    stk_convert_plan(c, job->params);
    return STOKE_OK;
}

/* One pass over the blocks (tiles or strips) that touch the box. */
typedef struct pass {
    stk_codec_job *job;
    TIFF *tiff;
    const source *source;
    const layout *layout;
    const stk_codec_convert *convert;
    uint8_t *block, *row;    /* scratch: one block of every plane, one interleaved row */
    tmsize_t size;           /* bytes of a block of one plane */
    size_t plane, row_bytes; /* from plane to plane, and from row to row in a block */
    unsigned planes;
} pass;

static int prepare(pass *p)
{
    const layout *l = p->layout;
    stk_codec_job *job = p->job;
    p->planes = l->planar == PLANARCONFIG_SEPARATE ? l->samples : 1;
    unsigned together = p->planes == 1 ? l->samples : 1;
    p->row_bytes = (size_t)(((uint64_t)l->block_width * together * l->bits + 7) / 8);
    uint64_t most = job->params->max_pixels > 1 << 20 ? job->params->max_pixels : 1 << 20;
    int r = stk_check_pixels(l->block_width, l->block_height, most, job->err);
    if (r) return r;
    tmsize_t size = p->size = l->tiled ? TIFFTileSize(p->tiff) : TIFFStripSize(p->tiff);
    size_t expected, all, interleaved = (size_t)l->block_width * l->samples * ((l->bits + 7u) / 8);
    if (size <= 0 || !stk_mul(p->row_bytes, l->block_height, &expected) || (size_t)size < expected)
        return fail(p->source, "tiles or strips of an impossible size", job->err);
    p->plane = ((size_t)size + 15) & ~(size_t)15; /* what follows stays aligned for 16-bit samples */
    if (!stk_mul(p->plane, p->planes, &all) || !stk_add(all, interleaved, &all)) all = SIZE_MAX;
    p->block = stk_buffer_reserve(&job->decoder->rows, all);
    if (!p->block) return stk_fail(job->err, STOKE_E_NOMEM, "TIFF: no memory for %zu bytes", all);
    p->row = p->block + p->plane * p->planes;
    return STOKE_OK;
}

/* All planes of the block at (x, y); `rows` of it must arrive. */
static int read_block(pass *p, uint32_t x, uint32_t y, uint32_t rows)
{
    const layout *l = p->layout;
    for (unsigned k = 0; k < p->planes; k++) {
        uint8_t *to = p->block + p->plane * k;
        tmsize_t got;
        /* Fax decoding of damaged data may leave pixels as they were: they must not be those of the file
         * before. */
        memset(to, 0, p->plane);
        if (l->tiled)
            got = TIFFReadEncodedTile(p->tiff, TIFFComputeTile(p->tiff, x, y, 0, (uint16_t)k), to,
                                      (tmsize_t)p->plane);
        else
            got = TIFFReadEncodedStrip(p->tiff, TIFFComputeStrip(p->tiff, y, (uint16_t)k), to,
                                       (tmsize_t)p->plane);
        /* libtiff reports a bad code word in fax data and goes on as if nothing had been. */
        if (got < 0 || (size_t)got < rows * p->row_bytes || p->source->text[0])
            return fail(p->source, "the data ends early or is damaged", p->job->err);
    }
    return STOKE_OK;
}

static void unpack_twelve(const uint8_t *in, uint32_t width, uint16_t *out)
{
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *p = in + (size_t)x / 2 * 3;
        out[x] = (uint16_t)(x & 1 ? (p[1] & 15) << 8 | p[2] : p[0] << 4 | p[1] >> 4);
    }
}

/* A row of the block with the samples of a pixel side by side, each in whole bytes (but 1, 2 and 4 bits
 * packed). */
static const uint8_t *block_row(const pass *p, uint32_t y)
{
    const uint8_t *first = p->block + y * p->row_bytes;
    if (p->layout->bits == 12) {
        unpack_twelve(first, p->layout->block_width, (uint16_t *)(void *)p->row);
        return p->row;
    }
    if (p->planes == 1) return first;
    size_t bytes = p->layout->bits / 8, n = p->layout->block_width;
    for (unsigned k = 0; k < p->planes; k++) {
        const uint8_t *in = first + p->plane * k;
        uint8_t *out = p->row + k * bytes;
        for (size_t x = 0; x < n; x++, in += bytes, out += bytes * p->planes) memcpy(out, in, bytes);
    }
    return p->row;
}

/* Signed samples are good as long as none is negative; there is no place for such a value in the output. */
static int check_signs(const pass *p, const uint8_t *row, uint32_t x0, uint32_t width)
{
    const layout *l = p->layout;
    if (l->format != SAMPLEFORMAT_INT) return STOKE_OK;
    for (size_t i = (size_t)x0 * l->samples; i < ((size_t)x0 + width) * l->samples; i++) {
        int v = l->bits == 16 ? ((const int16_t *)(const void *)row)[i] : ((const int8_t *)row)[i];
        if (v < 0) return stk_fail(p->job->err, STOKE_E_UNSUPPORTED, "TIFF with negative samples (%d)", v);
    }
    return STOKE_OK;
}

/* The part of the block at (x, y) that is in the box, to the output. */
static int copy_block(pass *p, uint32_t x, uint32_t y)
{
    stk_codec_job *job = p->job;
    const layout *l = p->layout;
    const stoke_box *box = &job->box;
    uint32_t left = x > box->x ? x : box->x, top = y > box->y ? y : box->y;
    uint32_t right = (uint32_t)stk_least(box->x + box->width - x, l->block_width) + x;
    uint32_t bottom = (uint32_t)stk_least(box->y + box->height - y, l->block_height) + y;
    int r = read_block(p, x, y, bottom - y);
    size_t pixel = (size_t)job->image.channels * job->image.depth;
    for (uint32_t v = top; r == STOKE_OK && v < bottom; v++) {
        const uint8_t *row = block_row(p, v - y);
        uint8_t *out = stk_codec_job_row(job, v - box->y) + (left - box->x) * pixel;
        r = check_signs(p, row, left - x, right - left);
        if (r == STOKE_OK) r = stk_convert_row(p->convert, row, left - x, right - left, out, job->err);
    }
    return r;
}

static int decode_blocks(stk_codec_job *job, TIFF *tiff, const source *s, const layout *l)
{
    stk_codec_convert convert;
    pass p = { .job = job, .tiff = tiff, .source = s, .layout = l, .convert = &convert };
    int r = plan_conversion(job, tiff, s, l, &convert);
    if (r == STOKE_OK) r = prepare(&p);
    if (r == STOKE_OK)
        r = stk_codec_job_place(job, job->box.width, job->box.height, convert.out_channels,
                                convert.out_depth);
    const stoke_box *box = &job->box;
    uint64_t first_x = box->x - box->x % l->block_width, first_y = box->y - box->y % l->block_height;
    for (uint64_t y = first_y; y < (uint64_t)box->y + box->height; y += l->block_height)
        for (uint64_t x = first_x; r == STOKE_OK && x < (uint64_t)box->x + box->width; x += l->block_width)
            r = copy_block(&p, (uint32_t)x, (uint32_t)y);
    return r;
}

static int decode_rgba(stk_codec_job *job, TIFF *tiff, const source *s)
{
    char text[1024] = "";
    TIFFRGBAImage image;
    size_t total;
    if (!TIFFRGBAImageBegin(&image, tiff, 1, text)) return fail(s, text, job->err);
    image.req_orientation = image.orientation; /* as stored: turning is done by our own code */
    uint32_t width = job->info.width, height = job->info.height, *raster = NULL;
    if (stk_mul((size_t)width * height, sizeof *raster, &total))
        raster = stk_buffer_reserve(&job->decoder->rows, total);
    int r = raster ? stk_codec_job_place(job, job->box.width, job->box.height, 3, 1)
                   : stk_fail(job->err, STOKE_E_NOMEM, "TIFF: no memory for %ux%u pixels", width, height);
    if (r == STOKE_OK && !TIFFRGBAImageGet(&image, raster, width, height))
        r = fail(s, "the data ends early or is damaged", job->err);
    TIFFRGBAImageEnd(&image);
    for (uint32_t y = 0; r == STOKE_OK && y < job->box.height; y++) {
        const uint32_t *in = raster + (size_t)(job->box.y + y) * width + job->box.x;
        uint8_t *out = stk_codec_job_row(job, y);
        for (uint32_t x = 0; x < job->box.width; x++, out += 3) {
            out[0] = (uint8_t)TIFFGetR(in[x]);
            out[1] = (uint8_t)TIFFGetG(in[x]);
            out[2] = (uint8_t)TIFFGetB(in[x]);
        }
    }
    return r;
}

static int decode(stk_codec_job *job)
{
    source s = { .bytes = job->bytes, .size = job->size };
    TIFF *tiff = open_tiff(&s, job->params->max_pixels, job->err);
    if (!tiff) return STOKE_E_FORMAT;
    layout l;
    int r = read_info(tiff, &s, &l, &job->info, job->err);
    if (r == STOKE_OK) r = stk_codec_job_begin(job);
    if (r == STOKE_OK)
        r = needs_rgba_interface(&l) ? decode_rgba(job, tiff, &s) : decode_blocks(job, tiff, &s, &l);
    TIFFClose(tiff);
    return r;
}

/* "LIBTIFF, Version 4.5.0", and its copyright in further lines. */
static void version(char text[32])
{
    const char *all = TIFFGetVersion(), *number = strstr(all, "Version ");
    if (number) all = number + strlen("Version ");
    snprintf(text, 32, "%.*s", (int)strcspn(all, "\n"), all);
}

const stk_codec stk_codec_tiff = { matches, probe, decode, { "libtiff", "libtiff", "" }, version };
