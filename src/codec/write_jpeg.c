/* SPDX-License-Identifier: Apache-2.0
 *
 * Baseline JPEG files: integer DCT, 4:2:0 for colour, standard Huffman tables; the same bytes on every
 * machine.
 */
#include "src/codec/write_jpeg.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/codec/seal.h"

typedef struct writer {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    char text[JMSG_LENGTH_MAX];
} writer;

static void escape_with_message(j_common_ptr common)
{
    writer *w = common->client_data;
    common->err->format_message(common, w->text);
    longjmp(w->escape, 1);
}

static void print_nothing(j_common_ptr common)
{
    (void)common;
}

static void encode(struct jpeg_compress_struct *c, const stoke_image *image, int quality, int sealed,
                   FILE *stream)
{
    static const char comment[] = STK_SEAL_TEXT STK_SEAL_DIGITS;
    jpeg_create_compress(c);
    jpeg_stdio_dest(c, stream);
    c->image_width = image->width;
    c->image_height = image->height;
    c->input_components = image->channels;
    c->in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c); /* which for RGB is YCbCr 4:2:0 */
    jpeg_set_quality(c, quality, TRUE);
    c->dct_method = JDCT_ISLOW;
    jpeg_start_compress(c, TRUE);
    if (sealed) jpeg_write_marker(c, JPEG_COM, (const JOCTET *)comment, sizeof comment - 1);
    while (c->next_scanline < c->image_height) {
        JSAMPROW row = (JSAMPROW)image->data + c->next_scanline * image->stride;
        jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
}

/* 1 = done. Apart from the caller because of setjmp: nothing here changes after it. */
static int guarded_encode(writer *w, const stoke_image *image, int quality, int sealed, FILE *stream)
{
    if (setjmp(w->escape)) return 0;
    encode(&w->c, image, quality, sealed, stream);
    return 1;
}

static int write_stream(FILE *stream, const char *shown, const stoke_image *image, int quality, int sealed,
                        stoke_error *err)
{
    if (!image->data || (image->channels != 1 && image->channels != 3) || image->depth != 1)
        return stk_fail(err, STOKE_E_INVALID, "%s: a JPEG takes 1 or 3 channels of 1 byte", shown);
    if (quality < 1 || quality > 100)
        return stk_fail(err, STOKE_E_INVALID, "%s: JPEG quality %d is not in 1..100", shown, quality);
    writer w = { 0 };
    w.c.err = jpeg_std_error(&w.errors);
    w.c.client_data = &w;
    w.errors.error_exit = escape_with_message;
    w.errors.output_message = print_nothing;
    int done = guarded_encode(&w, image, quality, sealed, stream);
    jpeg_destroy_compress(&w.c);
    if (ferror(stream)) return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot write", shown);
    return done ? STOKE_OK : stk_fail(err, STOKE_E_INVALID, "%s: JPEG: %s", shown, w.text);
}

int stk_jpeg_write(FILE *stream, const char *shown, const stoke_image *image, int quality, stoke_error *err)
{
    return write_stream(stream, shown, image, quality, 0, err);
}

static int write_file(const char *path, const stoke_image *image, int quality, int sealed, stoke_error *err)
{
    stk_atomic_file file;
    int r = stk_atomic_open(&file, path, err);
    if (r) return r;
    r = write_stream(file.stream, path, image, quality, sealed, err);
    const int number = !r && sealed ? stk_seal(file.stream) : 0;
    if (number) r = stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", path);
    if (!r) return stk_atomic_commit(&file, err);
    stk_atomic_abandon(&file);
    return r;
}

int stoke_image_write_jpeg(const char *path, const stoke_image *image, int quality, stoke_error *err)
{
    return write_file(path, image, quality, 0, err);
}

int stk_sealed_write_jpeg(const char *path, const stoke_image *image, int quality, stoke_error *err)
{
    return write_file(path, image, quality, 1, err);
}
