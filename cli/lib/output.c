/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/output.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/lib/common.h"
#include "cli/lib/retry.h"
#include <stoke/tools/output.h>

/* Where a file called `path` would be replaced; free() it. NULL with a message when it must not be. */
static char *replaceable(const char *path, stoke_error *err)
{
    struct stat st;
    const char *wrong = NULL;
    char *target = NULL;
    if (cli_stat(path, &st) == 0) {
        if (S_ISREG(st.st_mode))
            target = realpath(path, NULL);
        else
            wrong = S_ISDIR(st.st_mode) ? "is a folder" : "is a device, pipe or socket, not a regular file";
    } else if (errno == ENOENT) {
        if (cli_lstat(path, &st) == 0)
            wrong = "is a symbolic link that leads nowhere";
        else
            target = strdup(path);
    }
    if (!target) cli_error(err, STOKE_E_IO, "%s: cannot write: %s", path, wrong ? wrong : strerror(errno));
    return target;
}

int cli_may_write(const cli_call *call, const char *path, int force, stoke_error *err)
{
    int replaces = 0;
    const int r = path ? stoke_output_check(path, force, &replaces, err) : STOKE_OK;
    if (!r && replaces) cli_say(call, "--force: %s is replaced", path);
    return r;
}

int cli_output_open(cli_output *output, const char *path, stoke_error *err)
{
    *output = (cli_output){ .path = path, .target = replaceable(path, err) };
    if (!output->target) return STOKE_E_IO;
    size_t size = strlen(output->target) + 32;
    output->temporary = cli_alloc(1, size);
    snprintf(output->temporary, size, "%s.tmp-%ld", output->target, (long)getpid());
    /* The process id makes the name ours: what is there under it was left by a killed process, so it may go.
     */
    unlink(output->temporary);
    cli_leftover_note(output->temporary);
    int fd = cli_open(output->temporary, O_WRONLY | O_CREAT | O_EXCL);
    if (fd >= 0) output->stream = fdopen(fd, "wb");
    if (output->stream) return STOKE_OK;
    int number = errno;
    if (fd >= 0) close(fd);
    cli_output_abandon(output);
    return cli_error(err, STOKE_E_IO, "%s: cannot write: %s", path, strerror(number));
}

int cli_output_commit(cli_output *output, stoke_error *err)
{
    int bad = ferror(output->stream) | (fflush(output->stream) != 0);
    if (!bad) bad = fsync(fileno(output->stream)) != 0;
    int number =
        errno ? errno : EIO; /* after a write that failed earlier: its own, if nothing has cleared it */
    if (fclose(output->stream) != 0 && !bad) bad = 1, number = errno;
    output->stream = NULL;
    if (!bad && rename(output->temporary, output->target) != 0) bad = 1, number = errno;
    if (bad) {
        cli_error(err, STOKE_E_IO, "%s: cannot write: %s", output->path, strerror(number));
    } else {
        cli_leftover_forget(output->temporary);
        free(output->temporary);
        output->temporary = NULL;
    }
    cli_output_abandon(output);
    return bad ? STOKE_E_IO : STOKE_OK;
}

void cli_output_abandon(cli_output *output)
{
    if (output->stream) fclose(output->stream);
    if (output->temporary) unlink(output->temporary);
    cli_leftover_forget(output->temporary);
    free(output->temporary);
    free(output->target);
    *output = (cli_output){ 0 };
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
    cli_output output;
    int r = cli_output_open(&output, path, err);
    if (r) return r;
    fwrite(magic, 1, sizeof magic, output.stream);
    fwrite(header, 1, length, output.stream);
    for (size_t i = 0; i < rows && !ferror(output.stream); i++)
        fwrite((const char *)data + i * stride, 1, row_bytes, output.stream);
    return cli_output_commit(&output, err);
}

int cli_make_folders(const char *path, stoke_error *err)
{
    char *copy = strdup(path);
    if (!copy) return cli_error(err, STOKE_E_NOMEM, "%s: no memory", path);
    int r = STOKE_OK;
    for (char *p = copy + 1; r == STOKE_OK && *copy; p++) {
        if (*p && *p != '/') continue;
        char kept = *p;
        *p = 0;
        struct stat st;
        if (mkdir(copy, 0777) != 0 && !(errno == EEXIST && cli_stat(copy, &st) == 0 && S_ISDIR(st.st_mode)))
            r = cli_error(err, STOKE_E_IO, "%s: cannot make folder: %s", copy,
                          strerror(errno == EEXIST ? ENOTDIR : errno));
        *p = kept;
        if (!kept) break;
    }
    free(copy);
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
