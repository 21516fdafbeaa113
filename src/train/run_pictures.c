/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures inside report.html, as data: addresses. Small PNG files go in as they are; a large one
 * (photographs compress badly) as a JPEG of the same size, a fifth of the bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/codec/write.h"
#include "src/report/chart.h"
#include "src/train/run_report.h"

enum {
    FILE_BYTES = 64 << 20, /* of a picture at most */
    SMALL = 300 << 10,     /* that goes in as it is */
    QUALITY = 88,
    PIXELS = 1 << 26
};

/* 1: a path below the folder, as the journal writes them. The log may come from anywhere, and the report must
 * not carry files away with it. */
static int is_below(const char *path)
{
    if (!*path || *path == '/') return 0;
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (!strncmp(part, "..", 2) && (!part[2] || part[2] == '/')) return 0;
    return 1;
}

static void embed(FILE *out, const char *type, const void *bytes, size_t size)
{
    fprintf(out, "data:image/%s;base64,", type);
    stk_html_base64(out, bytes, size);
}

/* The picture as a JPEG by way of a file without a name; 0: it could not be made. */
static int embed_as_jpeg(FILE *out, const void *png, size_t size)
{
    stoke_decoder *decoder = NULL;
    stoke_decode_params params = stoke_decode_defaults();
    stoke_image image;
    stk_mem_buffer bytes = { 0 };
    FILE *file = NULL;
    int done = 0;
    params.max_pixels = PIXELS;
    if (!stoke_decoder_create(&decoder, NULL) &&
        !stoke_decoder_decode(decoder, png, size, &params, &image, NULL) && (file = tmpfile()) &&
        !stk_jpeg_write(file, "picture", &image, QUALITY, NULL)) {
        const long length = ftell(file);
        rewind(file);
        done = length > 0 && stk_buffer_reserve(&bytes, (size_t)length) &&
               fread(bytes.data, 1, (size_t)length, file) == (size_t)length;
        if (done) embed(out, "jpeg", bytes.data, (size_t)length);
    }
    if (file) fclose(file);
    stk_buffer_free(&bytes);
    stoke_decoder_destroy(&decoder);
    return done;
}

static void put_address(FILE *out, const uint8_t *png, size_t size)
{
    if (size <= SMALL || !embed_as_jpeg(out, png, size)) embed(out, "png", png, size);
}

/* One picture with its caption. */
static void put_picture(const stk_run_page *page, const stk_json *eval, const char *which)
{
    const char *relative = stk_run_text(eval, "picture");
    char path[4096], score[32];
    stk_mem_buffer bytes = { 0 };
    size_t size = 0;
    if (!relative || !is_below(relative)) return;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", page->folder, relative) >= sizeof path) return;
    const int there = !stk_file_read(path, FILE_BYTES, &bytes, &size, NULL) && size > 8 &&
                      !memcmp(bytes.data, "\x89PNG\r\n\x1a\n", 8);
    stk_text_fixed(stk_run_real(eval, eval->values, "miou"), 3, score, sizeof score);
    fprintf(page->out, "<figure><figcaption>The %s evaluation: step %" PRIu64 ", mIoU %s</figcaption>\n",
            which, stk_run_uint(eval, "step"), score);
    if (there) {
        fprintf(page->out, "<img alt=\"Predictions of the %s evaluation\" src=\"", which);
        put_address(page->out, bytes.data, size);
        fputs("\">", page->out);
    } else {
        fputs("<p class=\"note\">The picture is gone: ", page->out);
        stk_html_text(page->out, relative);
        fputs("</p>", page->out);
    }
    fputs("</figure>\n", page->out);
    stk_buffer_free(&bytes);
}

void stk_run_pictures(const stk_run_page *page)
{
    const stk_run_log *log = page->log;
    const struct {
        const stk_json *eval;
        const char *name;
    } wanted[] = { { &log->best, "best" }, { &log->last, "last" }, { &log->first, "first" } };
    int any = 0;
    for (size_t i = 0; i < 3; i++) any |= stk_run_text(wanted[i].eval, "picture") != NULL;
    if (!any) return;
    fputs("<section><h2>Predictions</h2>\n<div class=\"figures\">\n", page->out);
    for (size_t i = 0; i < 3; i++) {
        char which[32];
        int shown = !wanted[i].eval->values;
        snprintf(which, sizeof which, "%s", wanted[i].name);
        for (size_t k = 0; k < 3 && !shown; k++) {
            if (k == i || !wanted[k].eval->values ||
                stk_run_uint(wanted[k].eval, "step") != stk_run_uint(wanted[i].eval, "step"))
                continue;
            shown = k < i; /* the same evaluation has two names: one picture with both */
            const size_t used = strlen(which);
            snprintf(which + used, sizeof which - used, " and %s", wanted[k].name);
        }
        if (!shown) put_picture(page, wanted[i].eval, which);
    }
    fputs("</div></section>\n", page->out);
}
