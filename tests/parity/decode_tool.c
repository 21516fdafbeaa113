/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes one file and writes the pixels as .npy, for comparison with other readers.
 * decode_tool image|mask ignore|apply FILE OUT      exit 1: refused, with the reason on stderr
 */
#include <stdio.h>
#include <string.h>

#include "src/base/file.h"
#include <stoke/image.h>

/* NumPy's format 1.0: magic, length of a text that is padded so that the data begins at a multiple of 64. */
static int write_npy(const char *path, const stoke_image *image)
{
    char head[128];
    FILE *f = fopen(path, "wb");
    if (!f) return 0;
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%u, %u, %u), }",
                     image->depth == 2 ? "<u2" : "|u1", image->height, image->width, image->channels);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(head + 10 + n, ' ', sizeof head - 10 - (size_t)n);
    head[127] = '\n';
    fwrite(head, 1, sizeof head, f);
    for (uint32_t y = 0; y < image->height; y++)
        fwrite((const char *)image->data + y * image->stride, (size_t)image->channels * image->depth,
               image->width, f);
    int bad = ferror(f);
    return fclose(f) == 0 && !bad;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: decode_tool image|mask ignore|apply FILE OUT\n");
        return 2;
    }
    stoke_decode_params params = stoke_decode_defaults();
    if (strcmp(argv[1], "mask") == 0) params.purpose = STOKE_PURPOSE_MASK;
    if (strcmp(argv[2], "apply") == 0) params.orientation = STOKE_ORIENTATION_APPLY;
    stoke_error err = { 0 };
    stoke_decoder *decoder = NULL;
    stk_mem_buffer file = { 0 };
    stoke_image image;
    size_t size;
    int r = stk_file_read(argv[3], (uint64_t)1 << 30, &file, &size, &err);
    if (r == STOKE_OK) r = stoke_decoder_create(&decoder, &err);
    if (r == STOKE_OK) r = stoke_decoder_decode(decoder, file.data, size, &params, &image, &err);
    if (r != STOKE_OK)
        fprintf(stderr, "%s: %s\n", stoke_status_name(r), err.message);
    else if (!write_npy(argv[4], &image))
        r = STOKE_E_IO;
    stoke_decoder_destroy(&decoder);
    stk_buffer_free(&file);
    return r == STOKE_OK ? 0 : 1;
}
