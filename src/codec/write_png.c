/* SPDX-License-Identifier: Apache-2.0
 *
 * PNG files that are the same bytes on every machine: fixed filter, fixed level, no time stamp.
 */
#include <stoke/tools/image.h>
#include <stoke/tools/output.h>

#include <spng.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/codec/seal.h"

/* Level 6 is zlib's usual compromise. The Up filter suits masks and pictures alike and is the cheapest to
 * undo. */
enum { LEVEL = 6, FILTER = SPNG_FILTER_CHOICE_UP };

typedef enum kind { DATA, DRAWING, SEALED } kind;

static int write_bytes(spng_ctx *ctx, void *user, void *data, size_t size)
{
    (void)ctx;
    return fwrite(data, 1, size, user) == size ? 0 : SPNG_IO_ERROR;
}

/* palette NULL: grey or colours. */
static int encode(spng_ctx *ctx, const stoke_image *image, struct spng_plte *palette, kind of, FILE *stream)
{
    struct spng_ihdr ihdr = { .width = image->width,
                              .height = image->height,
                              .bit_depth = (uint8_t)(image->depth * 8),
                              .color_type = palette                ? SPNG_COLOR_TYPE_INDEXED
                                            : image->channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE
                                                                   : SPNG_COLOR_TYPE_TRUECOLOR };
    static char mark[] = STOKE_OUTPUT_MARK, seal[] = STK_SEAL_TEXT STK_SEAL_DIGITS; /* never written to */
    struct spng_text comment = { .keyword = "Comment",
                                 .type = SPNG_TEXT,
                                 .length = of == SEALED ? sizeof seal - 1 : sizeof mark - 1,
                                 .text = of == SEALED ? seal : mark };
    int code = spng_set_png_stream(ctx, write_bytes, stream);
    if (!code) code = spng_set_option(ctx, SPNG_IMG_COMPRESSION_LEVEL, LEVEL);
    if (!code) code = spng_set_option(ctx, SPNG_FILTER_CHOICE, FILTER);
    if (!code) code = spng_set_ihdr(ctx, &ihdr);
    if (!code && palette) code = spng_set_plte(ctx, palette);
    if (!code && of != DATA) code = spng_set_text(ctx, &comment, 1);
    if (!code)
        code = spng_encode_image(ctx, NULL, 0, SPNG_FMT_PNG, SPNG_ENCODE_PROGRESSIVE | SPNG_ENCODE_FINALIZE);
    size_t row = (size_t)image->width * image->channels * image->depth;
    for (uint32_t y = 0; y < image->height && !code; y++)
        code = spng_encode_row(ctx, (const uint8_t *)image->data + y * image->stride, row);
    return code == SPNG_EOI ? 0 : code;
}

static int write_file(const char *path, const stoke_image *image, struct spng_plte *palette, kind of,
                      stoke_error *err)
{
    stk_atomic_file file;
    int r = stk_atomic_open(&file, path, err);
    if (r) return r;
    struct spng_alloc memory = { stk_alloc, stk_realloc, stk_calloc, stk_free };
    spng_ctx *ctx = spng_ctx_new2(&memory, SPNG_CTX_ENCODER);
    int code = ctx ? encode(ctx, image, palette, of, file.stream) : SPNG_EMEM;
    spng_ctx_free(ctx);
    const int number = code == 0 && of == SEALED ? stk_seal(file.stream) : 0;
    if (number) {
        stk_atomic_abandon(&file);
        return stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", path);
    }
    /* A failed write is left to commit, which knows errno's text. */
    if (code == 0 || ferror(file.stream)) return stk_atomic_commit(&file, err);
    stk_atomic_abandon(&file);
    return stk_fail(err, code == SPNG_EMEM ? STOKE_E_NOMEM : STOKE_E_INVALID, "%s: PNG: %s", path,
                    spng_strerror(code));
}

static int write_plain(const char *path, const stoke_image *image, kind of, stoke_error *err)
{
    if (!image->data || !image->width || !image->height || (image->channels != 1 && image->channels != 3) ||
        (image->depth != 1 && image->depth != 2))
        return stk_fail(err, STOKE_E_INVALID, "%s: a PNG takes 1 or 3 channels of 1 or 2 bytes", path);
    return write_file(path, image, NULL, of, err);
}

int stoke_image_write_png(const char *path, const stoke_image *image, stoke_error *err)
{
    return write_plain(path, image, DATA, err);
}

int stoke_image_write_drawing(const char *path, const stoke_image *image, stoke_error *err)
{
    return write_plain(path, image, DRAWING, err);
}

int stk_sealed_write_png(const char *path, const stoke_image *image, stoke_error *err)
{
    return write_plain(path, image, SEALED, err);
}

/* The largest value: one without a colour makes a file that readers refuse. */
static unsigned largest(const stoke_image *image)
{
    uint8_t most = 0;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = (const uint8_t *)image->data + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++) most = row[x] > most ? row[x] : most;
    }
    return most;
}

int stoke_image_write_png_indexed(const char *path, const stoke_image *image, const uint8_t (*palette)[3],
                                  uint32_t colors, stoke_error *err)
{
    if (!image->data || !image->width || !image->height || image->channels != 1 || image->depth != 1)
        return stk_fail(err, STOKE_E_INVALID, "%s: a PNG with a palette takes 1 channel of 1 byte", path);
    if (!palette || !colors || colors > 256)
        return stk_fail(err, STOKE_E_INVALID, "%s: a PNG has 1 to 256 colours in its palette, not %u", path,
                        (unsigned)colors);
    const unsigned most = largest(image);
    if (most >= colors)
        return stk_fail(err, STOKE_E_INVALID, "%s: a pixel has the value %u, the palette ends at %u", path,
                        most, (unsigned)colors - 1);
    struct spng_plte plte = { .n_entries = colors };
    for (uint32_t i = 0; i < colors; i++)
        plte.entries[i] = (struct spng_plte_entry){ palette[i][0], palette[i][1], palette[i][2], 255 };
    return write_file(path, image, &plte, DATA, err);
}
