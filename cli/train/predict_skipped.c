/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/predict_skipped.h"
#include "cli/lib/output.h"
#include "cli/lib/retry.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { ENDINGS = 16, DEEPEST = 32 };

typedef struct skipped {
    struct {
        char ending[16];
        uint64_t count;
    } kind[ENDINGS];
    size_t n;
    uint64_t others; /* without an ending, or of a kind too many */
} skipped;

static void count_file(skipped *s, const char *name)
{
    const char *ending = strrchr(name, '.');
    size_t i = 0;
    if (stoke_format_known_extension(name)) return;
    if (!ending || ending == name || strlen(ending) >= sizeof s->kind[0].ending) {
        s->others++;
        return;
    }
    while (i < s->n && strcasecmp(s->kind[i].ending, ending)) i++;
    if (i == ENDINGS) {
        s->others++;
        return;
    }
    if (i == s->n) {
        strcpy(s->kind[s->n++].ending, ending);
        s->kind[i].count = 0;
    }
    s->kind[i].count++;
}

/* Links are not followed: a circle of them would have no end. */
static void count_folder(skipped *s, const char *folder, int depth)
{
    DIR *dir = depth < DEEPEST ? cli_opendir(folder) : NULL;
    for (struct dirent *entry; dir && !cli_interrupted() && (entry = cli_readdir(dir));) {
        char path[CLI_PATH];
        struct stat st;
        if (*entry->d_name == '.') continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path) continue;
        if (cli_lstat(path, &st)) continue;
        if (S_ISDIR(st.st_mode)) count_folder(s, path, depth + 1);
        if (S_ISREG(st.st_mode)) count_file(s, entry->d_name);
    }
    if (dir) closedir(dir);
}

void predict_say_skipped(const cli_call *call, const char *const *folders, int count)
{
    skipped s = { 0 };
    char text[512] = "";
    int n = 0;
    struct stat st;
    if (call->common.quiet) return;
    for (int i = 0; i < count; i++)
        if (cli_stat(folders[i], &st) == 0 && S_ISDIR(st.st_mode)) count_folder(&s, folders[i], 0);
    for (size_t i = 0; i < s.n && n < (int)sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%llu %s", i ? ", " : "",
                      (unsigned long long)s.kind[i].count, s.kind[i].ending);
    if (s.others && n < (int)sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "%s%s", n ? ", " : "", STOKE_COUNT(s.others, "other"));
    if (*text) cli_say(call, "left out, as " STOKE_FORMATS_AND " are read: %s", text);
}
