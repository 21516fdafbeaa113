/* SPDX-License-Identifier: Apache-2.0
 *
 * replay NAME FOLDER...: runs every file of the folders through the fuzz target NAME once: the corpus as a plain
 * test, with any compiler.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fuzz_target *targets;

void fuzz_target_enter(fuzz_target *target)
{
    target->next = targets;
    targets = target;
}

static int replay_file(const fuzz_target *target, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) return perror(path), 0;
    long size = ftell(f);
    rewind(f);
    /* Exactly as large as the file: the sanitizer sees a read behind its end. */
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    int good = size >= 0 && data && fread(data, 1, (size_t)size, f) == (size_t)size;
    if (good) target->run(data, (size_t)size);
    free(data);
    fclose(f);
    return good;
}

int main(int argc, char **argv)
{
    int count = 0;
    const fuzz_target *target = targets;
    while (target && (argc < 2 || strcmp(target->name, argv[1]) != 0)) target = target->next;
    if (!target) return fputs("replay: no such target\n", stderr), 2;
    for (int i = 2; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) return perror(argv[i]), 1;
        for (struct dirent *e; (e = readdir(folder));) {
            char path[4096];
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (!replay_file(target, path)) return 1;
            count++;
        }
        closedir(folder);
    }
    printf("%d inputs\n", count);
    return count == 0; /* an empty corpus tests nothing */
}
