/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures as files that are the same bytes on every machine. PNG: fixed filter, fixed level, no time stamp.
 * JPEG: baseline, integer DCT, 4:2:0 for colour, standard Huffman tables.
 */
#include <stoke/tools/image.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <setjmp.h>
#include <spng.h>
#include <stdio.h>
#include <jpeglib.h> /* needs FILE */
#include <stoke/tools/output.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/retry.h"
#include "src/codec/write.h"

enum {
    HEAD = 256, /* holds the comment: byte 24 of a JPEG file, 49 of a PNG file */
    PART = 16384,
    DIGITS = sizeof STK_SEAL_DIGITS - 1,
    /* a PNG chunk: type, "Comment" and NUL, text, checksum */
    TYPE_AND_KEY = 4 + 8,
    CHECKSUM = 4
};

typedef struct seal {
    size_t at, hole;               /* of the digits; how many bytes depend on the hash */
    char bytes[DIGITS + CHECKSUM]; /* what has to stand there */
} seal;

static int is_png(const char *head)
{
    return (unsigned char)*head == 0x89;
}

/* The checksum of the comment's chunk. */
static void put_checksum(char *to, const char *head, const seal *s)
{
    char chunk[TYPE_AND_KEY + sizeof STK_SEAL_TEXT - 1 + DIGITS];
    const size_t before = sizeof chunk - DIGITS;
    memcpy(chunk, head + s->at - before, before);
    memcpy(chunk + before, s->bytes, DIGITS);
    const uint32_t sum = libdeflate_crc32(0, chunk, sizeof chunk);
    for (int i = 0; i < CHECKSUM; i++) to[i] = (char)(sum >> (24 - 8 * i));
}

/* The seal that belongs into the file; `found`, of DIGITS + CHECKSUM bytes, is what stands there. 0, a number
 * of errno, or STK_ENDED when it has no place for one. */
static int work_out(int fd, seal *s, char *found)
{
    static const char zeros[DIGITS + CHECKSUM];
    struct stat st;
    char part[PART], head[HEAD] = { 0 }, digits[DIGITS + 1];
    if (stoke_fstat(fd, &st) != 0) return errno;
    if (!S_ISREG(st.st_mode) || !st.st_size) return STK_ENDED;
    uint64_t hash = 0;
    for (uint64_t at = 0, size = (uint64_t)st.st_size; at < size;) {
        const size_t n = size - at < PART ? (size_t)(size - at) : PART;
        const int number = stk_pread(fd, part, n, at);
        if (number) return number;
        if (!at) {
            memcpy(head, part, n < HEAD ? n : HEAD);
            const char *text = memmem(head, HEAD, STK_SEAL_TEXT, sizeof STK_SEAL_TEXT - 1);
            s->at = text ? (size_t)(text - head) + sizeof STK_SEAL_TEXT - 1 : HEAD;
            s->hole = DIGITS + (is_png(head) ? CHECKSUM : 0);
            if (s->at + s->hole > (n < HEAD ? n : HEAD) || s->at < TYPE_AND_KEY + sizeof STK_SEAL_TEXT - 1)
                return STK_ENDED;
            memcpy(found, part + s->at, s->hole);
            memcpy(part + s->at, zeros, s->hole);
        }
        hash = XXH3_64bits_withSeed(part, n, hash);
        at += n;
    }
    snprintf(digits, sizeof digits, "%016" PRIx64, hash);
    memcpy(s->bytes, digits, DIGITS);
    if (is_png(head)) put_checksum(s->bytes + DIGITS, head, s);
    return 0;
}

/* For the writers: puts the hash into a file that is complete but for it. The stream can be read, too. 0, or
 * a number of errno. */
static int stk_seal(FILE *stream)
{
    seal s;
    char found[DIGITS + CHECKSUM];
    if (fflush(stream) != 0) return errno;
    const int fd = fileno(stream), number = work_out(fd, &s, found);
    if (number) return number > 0 ? number : EIO;
    if (fseek(stream, (long)s.at, SEEK_SET) != 0 || fwrite(s.bytes, 1, s.hole, stream) != s.hole)
        return errno;
    return 0;
}

int stk_sealed(const char *path)
{
    seal s;
    char found[DIGITS + CHECKSUM];
    const int fd = stoke_open(path, O_RDONLY | O_NONBLOCK, 0); /* a pipe would wait for its writer */
    if (fd < 0) return 0;
    const int whole = !work_out(fd, &s, found) && !memcmp(found, s.bytes, s.hole);
    close(fd);
    return whole;
}

/* ---- JPEG ---- */

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

static void encode_jpeg(struct jpeg_compress_struct *c, const stoke_image *image, int quality, int sealed,
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
    encode_jpeg(&w->c, image, quality, sealed, stream);
    return 1;
}

int stk_jpeg_write(FILE *stream, const char *shown, const stoke_image *image, int quality, int sealed,
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

static int write_jpeg(const char *path, const stoke_image *image, int quality, int sealed, stoke_error *err)
{
    stoke_output file;
    int r = stoke_output_open(&file, path, err);
    if (r) return r;
    r = stk_jpeg_write(file.stream, path, image, quality, sealed, err);
    const int number = !r && sealed ? stk_seal(file.stream) : 0;
    if (number) r = stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", path);
    if (!r) return stoke_output_commit(&file, err);
    stoke_output_drop(&file);
    return r;
}

int stoke_image_write_jpeg(const char *path, const stoke_image *image, int quality, stoke_error *err)
{
    return write_jpeg(path, image, quality, 0, err);
}

int stk_sealed_write_jpeg(const char *path, const stoke_image *image, int quality, stoke_error *err)
{
    return write_jpeg(path, image, quality, 1, err);
}

/* ---- PNG ---- */

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
static int encode_png(spng_ctx *ctx, const stoke_image *image, struct spng_plte *palette, kind of,
                      FILE *stream)
{
    struct spng_ihdr ihdr = { .width = image->width,
                              .height = image->height,
                              .bit_depth = (uint8_t)(image->depth * 8),
                              .color_type = palette                ? SPNG_COLOR_TYPE_INDEXED
                                            : image->channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE
                                                                   : SPNG_COLOR_TYPE_TRUECOLOR };
    static char mark[] = STOKE_OUTPUT_MARK, sealed[] = STK_SEAL_TEXT STK_SEAL_DIGITS; /* never written to */
    struct spng_text comment = { .keyword = "Comment",
                                 .type = SPNG_TEXT,
                                 .length = of == SEALED ? sizeof sealed - 1 : sizeof mark - 1,
                                 .text = of == SEALED ? sealed : mark };
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

static int write_png(const char *path, const stoke_image *image, struct spng_plte *palette, kind of,
                     stoke_error *err)
{
    stoke_output file;
    int r = stoke_output_open(&file, path, err);
    if (r) return r;
    struct spng_alloc memory = { stk_alloc, stk_realloc, stk_calloc, stk_free };
    spng_ctx *ctx = spng_ctx_new2(&memory, SPNG_CTX_ENCODER);
    int code = ctx ? encode_png(ctx, image, palette, of, file.stream) : SPNG_EMEM;
    spng_ctx_free(ctx);
    const int number = code == 0 && of == SEALED ? stk_seal(file.stream) : 0;
    if (number) {
        stoke_output_drop(&file);
        return stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", path);
    }
    /* A failed write is left to commit, which knows errno's text. */
    if (code == 0 || ferror(file.stream)) return stoke_output_commit(&file, err);
    stoke_output_drop(&file);
    return stk_fail(err, code == SPNG_EMEM ? STOKE_E_NOMEM : STOKE_E_INVALID, "%s: PNG: %s", path,
                    spng_strerror(code));
}

static int write_plain(const char *path, const stoke_image *image, kind of, stoke_error *err)
{
    if (!image->data || !image->width || !image->height || (image->channels != 1 && image->channels != 3) ||
        (image->depth != 1 && image->depth != 2))
        return stk_fail(err, STOKE_E_INVALID, "%s: a PNG takes 1 or 3 channels of 1 or 2 bytes", path);
    return write_png(path, image, NULL, of, err);
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
    return write_png(path, image, &plte, DATA, err);
}
