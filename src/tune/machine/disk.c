/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the data lies and how fast it comes from there. Reads files as a loader does and never asks the
 * kernel to forget any: whatever is in the page cache is someone's.
 */
#include "src/tune/machine/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/words.h"
#include "src/tune/machine/tree.h"

enum {
    MOUNTS_BYTES = 1 << 20, /* a machine with hundreds of containers has a few thousand lines of 150 bytes */
    LOOK_FILES = 2048,      /* asked for their state: 10 us each */
    LOOK_BYTES = 64 << 20,  /* of each: a shard may have gigabytes */
    READ_AT_ONCE = 1 << 20,
    READ_MS = 3000 /* a share over a slow line must not hold up a report */
};

/* ---- which file system ---- */

/* Fields of mountinfo have blanks and backslashes as \040 and \134. In place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code;
        if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1 && strlen(from) >= 4) {
            *to = (char)code;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
}

/* Whether `folder` is `path` or above it. */
static int is_above(const char *folder, const char *path)
{
    const size_t n = strlen(folder);
    if (!strcmp(folder, "/")) return *path == '/';
    return !strncmp(folder, path, n) && (path[n] == '/' || !path[n]);
}

int stk_disk_mount(stoke_disk_facts *facts, const char *mountinfo, const char *path)
{
    size_t deepest = 0;
    for (const char *line = mountinfo; line && *line;) {
        /* 36 35 98:0 /root /mount options tags... - type source options */
        char mount[4096], type[64], source[4096], whole[16384];
        const size_t length = strcspn(line, "\n");
        const char *here = line;
        line = line[length] ? line + length + 1 : NULL;
        if (length >= sizeof whole) continue;
        memcpy(whole, here, length);
        whole[length] = 0;
        const char *dash = strstr(whole, " - ");
        if (!dash || sscanf(whole, "%*s %*s %*s %*s %4095s", mount) != 1 ||
            sscanf(dash + 3, "%63s %4095s", type, source) != 2)
            continue;
        unescape(mount);
        unescape(source);
        if (!is_above(mount, path) || strlen(mount) < deepest) continue;
        deepest = strlen(mount);
        snprintf(facts->mount, sizeof facts->mount, "%.255s", mount);
        snprintf(facts->device, sizeof facts->device, "%.127s", source);
        snprintf(facts->filesystem, sizeof facts->filesystem, "%.31s", type);
    }
    return deepest > 0;
}

stoke_figure stk_disk_network(const char *filesystem)
{
    static const char types[] =
        "9p afs beegfs ceph cifs coda davfs fuse.ceph fuse.ceph-fuse fuse.curlftpfs fuse.gcsfuse "
        "fuse.glusterfs fuse.goofys fuse.juicefs fuse.mount-s3 fuse.rclone fuse.s3fs fuse.seaweedfs "
        "fuse.sshfs glusterfs gpfs lustre ncpfs nfs nfs4 orangefs panfs pvfs2 smb3 smbfs weka wekafs "
        "fuse.blobfuse fuse.blobfuse2 fuse.mfs";
    if (!*filesystem) return stk_figure(0, STOKE_SOURCE_NA);
    if (stk_is_one_of(filesystem, types)) return stk_figure(1, STOKE_SOURCE_TABLE);
    if (!strcmp(filesystem, "fuse") || !strncmp(filesystem, "fuse.", 5))
        return stk_figure(0, STOKE_SOURCE_NA);
    return stk_figure(0, STOKE_SOURCE_TABLE);
}

/* A disk that another machine pretends: by the bus it hangs on, or by its maker's name. */
static int is_pretended(const char *folder)
{
    static const char *const buses[] = { "/virtio", "/vbd-", "/vmbus" };
    static const char *const makers[] = { "QEMU", "VMware", "Msft", "VBOX", "Google", "Virtual" };
    static const char *const files[] = { "device/vendor", "device/model", "../device/vendor",
                                         "../device/model" };
    char target[STK_TREE_PATH], text[64];
    const ssize_t length = readlink(folder, target, sizeof target - 1);
    target[length > 0 ? length : 0] = 0;
    for (size_t i = 0; i < sizeof buses / sizeof *buses; i++)
        if (strstr(target, buses[i])) return 1;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!stk_tree_text(text, sizeof text, folder, "%s", files[i])) continue;
        for (size_t k = 0; k < sizeof makers / sizeof *makers; k++)
            if (strstr(text, makers[k])) return 1;
    }
    return 0;
}

stoke_figure stk_disk_rotational(const char *root, unsigned major_number, unsigned minor_number)
{
    static const char *const queues[] = { "queue/rotational", "../queue/rotational" };
    stoke_figure figure = { 0 };
    char folder[STK_TREE_PATH];
    if (!stk_tree_path(folder, root, "sys/dev/block/%u:%u", major_number, minor_number)) return figure;
    for (size_t i = 0; i < 2 && !figure.source; i++)
        figure = stk_tree_figure(folder, queues[i], 1, STOKE_SOURCE_SYSFS);
    /* That such a disk turns is the kernel's default, and nobody's word. */
    if (figure.source && figure.value > 0 && is_pretended(folder)) return (stoke_figure){ 0 };
    return figure;
}

static int find_place(stoke_disk_facts *facts, const char *file, stoke_error *err)
{
    struct stat info, device;
    struct statvfs space;
    char *path = realpath(file, NULL), *mounts;
    if (!path || stoke_stat(path, &info) != 0) {
        const int number = errno;
        free(path);
        return stk_fail_errno(err, number == ENOENT ? STOKE_E_NOTFOUND : STOKE_E_IO, number,
                              "cannot look at %s", file);
    }
    if (statvfs(path, &space) == 0)
        facts->free_bytes =
            stk_figure((double)space.f_bavail * (double)space.f_frsize, STOKE_SOURCE_MEASURED);
    if (!(mounts = stk_alloc(MOUNTS_BYTES))) {
        free(path);
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of mounts");
    }
    if (stk_machine_read_text("/proc/self/mountinfo", mounts, MOUNTS_BYTES))
        stk_disk_mount(facts, mounts, path);
    stk_free(mounts);
    free(path);
    facts->network = stk_disk_network(facts->filesystem);
    facts->rotational = stk_disk_rotational("", major(info.st_dev), minor(info.st_dev));
    /* btrfs numbers its files' devices by itself; what it is mounted from is still a device. */
    if (!facts->rotational.source && *facts->device == '/' && stoke_stat(facts->device, &device) == 0 &&
        S_ISBLK(device.st_mode))
        facts->rotational = stk_disk_rotational("", major(device.st_rdev), minor(device.st_rdev));
    return STOKE_OK;
}

/* ---- how much is in memory already, and how fast the rest comes ---- */

typedef struct look {
    uint8_t *pages;  /* of mincore, one byte each */
    uint8_t *buffer; /* read into and forgotten */
    uint64_t looked, cached, budget, read, read_ns;
    uint64_t files_read;
} look;

/* How many of the first `bytes` are in the page cache; UINT64_MAX = the kernel does not say. Since Linux 5.2
 * it says "all" of files that this user neither owns nor may write to, which is no answer. */
static uint64_t cached_bytes(look *state, int file, const struct stat *info, const char *path, uint64_t bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (info->st_uid != geteuid() && access(path, W_OK) != 0) return UINT64_MAX;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) return UINT64_MAX;
    uint64_t cached = 0;
    if (mincore(map, bytes, state->pages) == 0)
        for (uint64_t at = 0; at < bytes; at += page)
            cached += state->pages[at / page] & 1 ? (bytes - at < page ? bytes - at : page) : 0;
    else
        cached = UINT64_MAX;
    munmap(map, bytes);
    return cached;
}

static void read_file(look *state, int file, uint64_t bytes)
{
    const uint64_t begin = stk_now_ns();
    uint64_t done = 0;
    while (done < bytes && state->read_ns + (stk_now_ns() - begin) < READ_MS * UINT64_C(1000000)) {
        const size_t want = bytes - done < READ_AT_ONCE ? (size_t)(bytes - done) : READ_AT_ONCE;
        const ssize_t got = pread(file, state->buffer, want, (off_t)done);
        if (got <= 0) break;
        done += (uint64_t)got;
    }
    state->read_ns += stk_now_ns() - begin;
    state->read += done;
    state->files_read += done > 0;
}

static void look_at(look *state, const char *path)
{
    struct stat info;
    int file = stoke_open(path, O_RDONLY, 0);
    if (file < 0) return;
    if (stoke_fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        const uint64_t bytes = (uint64_t)info.st_size < LOOK_BYTES ? (uint64_t)info.st_size : LOOK_BYTES;
        const uint64_t cached = cached_bytes(state, file, &info, path, bytes);
        if (cached != UINT64_MAX) {
            state->looked += bytes;
            state->cached += cached;
        }
        /* Only what is wholly absent: the share of a half-cached file that comes from the disk is unknown. */
        if (cached == 0 && state->read < state->budget && state->read_ns < READ_MS * UINT64_C(1000000)) {
            const uint64_t left = state->budget - state->read;
            read_file(state, file, bytes < left ? bytes : left);
        }
    }
    close(file);
}

int stoke_disk_probe(stoke_disk_facts *facts, const char *const *files, size_t n_files, uint64_t budget_bytes,
                     stoke_error *err)
{
    memset(facts, 0, sizeof *facts);
    if (!files || !n_files)
        return stk_fail(err, STOKE_E_INVALID, "no file is named whose disk is to be looked at");
    int r = find_place(facts, files[0], err);
    if (r) return r;
    look state = { .budget = budget_bytes };
    state.pages = stk_alloc(LOOK_BYTES / (size_t)sysconf(_SC_PAGESIZE));
    state.buffer = stk_alloc(READ_AT_ONCE);
    if (state.pages && state.buffer) {
        /* Evenly over the set: the first files are those that were looked at last. */
        const size_t n = n_files < LOOK_FILES ? n_files : LOOK_FILES;
        for (size_t i = 0; i < n; i++) look_at(&state, files[(size_t)((uint64_t)i * n_files / n)]);
    } else {
        r = stk_fail(err, STOKE_E_NOMEM, "no memory for reading files");
    }
    stk_free(state.pages);
    stk_free(state.buffer);
    if (state.looked)
        facts->cached_share = stk_figure((double)state.cached / (double)state.looked, STOKE_SOURCE_MEASURED);
    if (state.read && state.read_ns)
        facts->read_bytes_per_s =
            stk_figure((double)state.read * 1e9 / (double)state.read_ns, STOKE_SOURCE_MEASURED);
    facts->files_read = state.files_read;
    return r;
}
