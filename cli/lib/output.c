/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/output.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/common.h"
#include <stoke/tools/output.h>

int cli_may_write(const cli_call *call, const char *path, int force, stoke_error *err)
{
    int replaces = 0;
    const int r = path ? stoke_output_check(path, force, &replaces, err) : STOKE_OK;
    if (!r && replaces) cli_say(call, "--force: %s is replaced", path);
    return r;
}

int cli_write_npy(const char *path, const char *descr, const char *shape, const void *data, size_t rows,
                  size_t row_bytes, size_t stride, stoke_error *err)
{
    char header[256];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
                     shape);
    /* Magic (6), version (2) and length (2) come before; the whole header must be a multiple of 64 and end in
     * \n. */
    size_t total = ((size_t)n + 1 + 10 + 63) / 64 * 64, length = total - 10;
    memset(header + n, ' ', length - (size_t)n);
    header[length - 1] = '\n';
    const uint8_t magic[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)length, (uint8_t)(length >> 8)
    };
    stoke_output output;
    int r = stoke_output_open(&output, path, err);
    if (r) return r;
    fwrite(magic, 1, sizeof magic, output.stream);
    fwrite(header, 1, length, output.stream);
    for (size_t i = 0; i < rows && !ferror(output.stream); i++)
        fwrite((const char *)data + i * stride, 1, row_bytes, output.stream);
    return stoke_output_commit(&output, err);
}

int cli_write_chart(const stoke_chart *chart, const char *path, stoke_error *err)
{
    stoke_output svg = { 0 };
    int r = stoke_output_open(&svg, path, err);
    if (!r) r = stoke_chart_svg(chart, svg.stream, err);
    if (!r) r = stoke_output_commit(&svg, err);
    stoke_output_drop(&svg);
    return r;
}

int cli_temp_folder(char *path, stoke_error *err)
{
    const char *base = getenv("TMPDIR");
    int n = snprintf(path, CLI_PATH, "%s/stoke-XXXXXX", base && *base ? base : "/tmp");
    if (n >= CLI_PATH || !mkdtemp(path))
        return cli_error(err, STOKE_E_IO, "%s: cannot make a temporary folder: %s", path,
                         strerror(n >= CLI_PATH ? ENAMETOOLONG : errno));
    cli_leftover_note(path);
    return STOKE_OK;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    remove(path);
    return 0;
}

void cli_remove_folder(const char *path)
{
    if (*path) nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void cli_end_temp_folder(const char *path)
{
    cli_remove_folder(path);
    cli_leftover_forget(path);
}
