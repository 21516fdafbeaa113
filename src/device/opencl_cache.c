/* SPDX-License-Identifier: Apache-2.0 */
#include "src/device/opencl.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/base/file.h"
#include "src/base/ours.h"
#include "src/base/retry.h"

static const char magic[16] = "stoke-opencl-1\n";
enum { DIGEST = 16, SIZE_AT = sizeof magic + STK_OPENCL_KEY, BINARY_AT = SIZE_AT + 8 };
_Static_assert(BINARY_AT + DIGEST == STK_OPENCL_CACHE_EXTRA, "the header tells the size");
/* Binaries of all kernels have 0.1 to 10 MB; with some drivers they hold code for several chips. */
enum { FILE_LIMIT = 256 << 20 };

/* ---- the format ---- */

static void digest_of(uint8_t digest[DIGEST], const void *bytes, size_t size)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, size));
    memcpy(digest, canonical.digest, DIGEST);
}

int stk_opencl_key_of(stk_opencl_key *key, const char *const *parts, size_t n_parts)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state) return 0;
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < n_parts; i++) {
        const uint64_t n = strlen(parts[i]);
        XXH3_128bits_update(state, &n, sizeof n);
        XXH3_128bits_update(state, parts[i], n);
    }
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(key->bytes, canonical.digest, sizeof key->bytes);
    XXH3_freeState(state);
    return 1;
}

const void *stk_opencl_cache_parse(const void *file, size_t file_bytes, const stk_opencl_key *key,
                                   size_t *bytes)
{
    const uint8_t *p = file;
    uint8_t digest[DIGEST];
    uint64_t size = 0;
    if (file_bytes <= STK_OPENCL_CACHE_EXTRA || memcmp(p, magic, sizeof magic) != 0) return NULL;
    if (memcmp(p + sizeof magic, key->bytes, STK_OPENCL_KEY) != 0) return NULL;
    for (int i = 0; i < 8; i++) size |= (uint64_t)p[SIZE_AT + i] << 8 * i;
    if (size != file_bytes - STK_OPENCL_CACHE_EXTRA) return NULL;
    digest_of(digest, p, file_bytes - DIGEST);
    if (memcmp(digest, p + file_bytes - DIGEST, DIGEST) != 0) return NULL;
    *bytes = (size_t)size;
    return p + BINARY_AT;
}

/* ---- places ---- */

char *stk_opencl_cache_folder(const char *wanted)
{
    if (wanted) return *wanted ? stk_strdup(wanted) : NULL;
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (base && *base == '/') return stk_path_join(base, "stokehold"); /* others are to be ignored, it says */
    return home && *home == '/' ? stk_path_join(home, ".cache/stokehold") : NULL;
}

char *stk_opencl_cache_path(const char *folder, const stk_opencl_key *key, const char *suffix)
{
    char name[sizeof "opencl-" + 2 * STK_OPENCL_KEY + 16], *p = name;
    p += sprintf(p, "opencl-");
    for (int i = 0; i < STK_OPENCL_KEY; i++) p += sprintf(p, "%02x", key->bytes[i]);
    snprintf(p, sizeof name - (size_t)(p - name), ".%s", suffix);
    return stk_path_join(folder, name);
}

/* opencl-KEY.bin or .log, or one of them being written. */
static int is_our_name(const char *name)
{
    enum { DIGITS = 2 * STK_OPENCL_KEY };
    if (strncmp(name, "opencl-", 7) != 0 || strspn(name + 7, "0123456789abcdef") != DIGITS) return 0;
    name += 7 + DIGITS;
    if (strncmp(name, ".bin", 4) != 0 && strncmp(name, ".log", 4) != 0) return 0;
    return !name[4] || (!strncmp(name + 4, ".tmp-", 5) && strlen(name + 9) == 6);
}

/* Of version 0.1, which left no marker. */
static int is_older(int folder)
{
    const int copy = stk_openat(folder, ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    int ours = dir != NULL;
    if (copy >= 0 && !dir) close(copy);
    for (const struct dirent *e; ours && (e = stoke_readdir(dir));)
        ours = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || is_our_name(e->d_name);
    if (dir && stk_closedir(dir)) ours = 0;
    return ours;
}

int stk_opencl_cache_make(const char *folder)
{
    static const stk_ours_kind kind = {
        .name = "folder of compiled programs",
        .line = "OpenCL programs as a driver compiled them. Deleting the folder costs a compilation.",
        .is_older = is_older,
    };
    int unwritable;
    return stoke_make_folders(folder, NULL) == STOKE_OK &&
           stk_ours_claim(folder, &kind, &unwritable, NULL) == STOKE_OK && !unwritable;
}

/* ---- files ---- */

/* The file as opened is judged, not its name: what the name leads to may change in between. */
static int is_trusted(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & S_IWOTH) &&
           st->st_size > STK_OPENCL_CACHE_EXTRA && st->st_size <= FILE_LIMIT;
}

const void *stk_opencl_cache_read(const char *folder, const stk_opencl_key *key, stk_mem_buffer *buffer,
                                  size_t *bytes)
{
    char *path = stk_opencl_cache_path(folder, key, "bin");
    if (!path) return NULL;
    const int fd = stoke_open(path, O_RDONLY | O_NOFOLLOW, 0);
    stk_free(path);
    if (fd < 0) return NULL;
    const void *binary = NULL;
    struct stat st;
    if (stoke_fstat(fd, &st) == 0 && is_trusted(&st) && stk_buffer_reserve(buffer, (size_t)st.st_size) &&
        !stk_pread(fd, buffer->data, (size_t)st.st_size, 0))
        binary = stk_opencl_cache_parse(buffer->data, (size_t)st.st_size, key, bytes);
    close(fd);
    return binary;
}

int stk_opencl_cache_write(const char *folder, const stk_opencl_key *key, const void *binary, size_t bytes)
{
    if (!bytes || bytes > FILE_LIMIT - STK_OPENCL_CACHE_EXTRA) return 0;
    uint8_t *whole = stk_alloc(bytes + STK_OPENCL_CACHE_EXTRA);
    char *path = stk_opencl_cache_path(folder, key, "bin");
    int written = 0;
    if (whole && path && stk_opencl_cache_make(folder)) {
        memcpy(whole, magic, sizeof magic);
        memcpy(whole + sizeof magic, key->bytes, STK_OPENCL_KEY);
        for (int i = 0; i < 8; i++) whole[SIZE_AT + i] = (uint8_t)((uint64_t)bytes >> 8 * i);
        memcpy(whole + BINARY_AT, binary, bytes);
        digest_of(whole + BINARY_AT + bytes, whole, BINARY_AT + bytes);
        stoke_output file;
        if (stoke_output_open(&file, path, NULL) == STOKE_OK) {
            file.expendable = 1;                                           /* it has a digest */
            fwrite(whole, 1, bytes + STK_OPENCL_CACHE_EXTRA, file.stream); /* commit tells */
            written = stoke_output_commit(&file, NULL) == STOKE_OK;
        }
    }
    stk_free(path);
    stk_free(whole);
    return written;
}
