/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs every file of the given folders through a fuzz target once: the corpus as a plain test, with any
 * compiler.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) return perror(path), 0;
    long size = ftell(f);
    rewind(f);
    /* Exactly as large as the file: the sanitizer sees a read behind its end. */
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    int good = size >= 0 && data && fread(data, 1, (size_t)size, f) == (size_t)size;
    if (good) LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    fclose(f);
    return good;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) return perror(argv[i]), 1;
        for (struct dirent *e; (e = readdir(folder));) {
            char path[4096];
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (!replay_file(path)) return 1;
            count++;
        }
        closedir(folder);
    }
    printf("%d inputs\n", count);
    return count == 0; /* an empty corpus tests nothing */
}
