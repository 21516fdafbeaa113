/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets packed and read back, interrupted and resumed; shards of other makers as sets.
 */
#include "tests/unit/fixture_pairs.h"

#include <dirent.h>
#include <fcntl.h>

#include "src/base/file.h"
#include "src/base/mem.h"
#include "tests/unit/fixture_archive.h"
#include <stoke/tools/pack.h>
#include <stoke/tools/dataset.h>

static stoke_dataset *open_set(const stoke_data_params *params)
{
    stoke_dataset *dataset = NULL;
    stoke_error err = { 0 };
    if (stoke_dataset_open(&dataset, params, &err)) fail_msg("%s", err.message);
    return dataset;
}

static stoke_pack_params pack_params(void **state, const char *out)
{
    stoke_pack_params p = stoke_pack_defaults();
    p.out = unit_path(state, out);
    return p;
}

/* Packs with `p`; expects `code`, and `words` in the message of a failure. */
static stoke_pack_report pack(const stoke_data_params *data, const stoke_pack_params *p, int code,
                              const char *words)
{
    stoke_dataset *dataset = open_set(data);
    stoke_pack_report report;
    stoke_error err = { 0 };
    int r = stoke_pack(dataset, p, NULL, NULL, &report, &err);
    stoke_dataset_close(&dataset);
    if (r != code || !strstr(err.message, words)) fail_msg("%d, not %d: %s", r, code, err.message);
    return report;
}

static size_t count_files(const char *folder, const char *with)
{
    DIR *handle = opendir(folder);
    size_t n = 0;
    assert_non_null(handle);
    for (struct dirent *e; (e = readdir(handle));) n += e->d_name[0] != '.' && strstr(e->d_name, with);
    closedir(handle);
    return n;
}

static void assert_same_file(const char *a, const char *b)
{
    stk_mem_buffer x = { 0 }, y = { 0 };
    size_t n = 0, m = 0;
    assert_int_equal(stk_file_read(a, 1 << 24, &x, &n, NULL), STOKE_OK);
    assert_int_equal(stk_file_read(b, 1 << 24, &y, &m, NULL), STOKE_OK);
    assert_int_equal(n, m);
    assert_memory_equal(x.data, y.data, n);
    stk_buffer_free(&x);
    stk_buffer_free(&y);
}

/* The same names in the same order and the same bytes in every batch. */
static void assert_same_set(const stoke_data_params *a, const stoke_data_params *b)
{
    stoke_dataset *x = open_set(a), *y = open_set(b);
    assert_int_equal(stoke_dataset_count(x), stoke_dataset_count(y));
    assert_int_equal(stoke_dataset_has_masks(x), stoke_dataset_has_masks(y));
    for (uint64_t i = 0; i < stoke_dataset_count(x); i++)
        assert_string_equal(stoke_dataset_sample(x, i).name, stoke_dataset_sample(y, i).name);
    assert_int_equal(stoke_dataset_fingerprint(x), stoke_dataset_fingerprint(y));
    assert_int_equal(stoke_dataset_notes(y), 0);
    stoke_dataset_close(&x);
    stoke_dataset_close(&y);
    pairs_digest one[32], two[32];
    const size_t n = pairs_epoch(a, one, 32);
    assert_int_equal(pairs_epoch(b, two, 32), n);
    for (size_t i = 0; i < n; i++) assert_memory_equal(one[i].digest, two[i].digest, 16);
}

/* ---- packing ---- */

static void packed_set_is_the_same_set(void **state)
{
    pairs_write(state, 14, 40, 24);
    stoke_data_params folder = pairs_params(state), shards = folder;
    stoke_pack_params p = pack_params(state, "out");
    p.shard_samples = 4;
    stoke_pack_report report = pack(&folder, &p, STOKE_OK, "");
    assert_int_equal(report.shards, 4);
    assert_int_equal(report.samples, 14);
    assert_int_equal(report.kept, 0);
    assert_int_equal(report.written, report.bytes);
    assert_int_equal(count_files(p.out, ".tar.idx"), 4);
    assert_int_equal(count_files(p.out, ""), 9);
    shards.data = p.out;
    assert_same_set(&folder, &shards);
    folder.order = shards.order = STOKE_ORDER_SEQUENTIAL;
    assert_same_set(&folder, &shards);
    folder.val_split = shards.val_split = 0.4;
    for (int split = STOKE_SPLIT_TRAIN; split <= STOKE_SPLIT_VAL; split++) {
        folder.split = shards.split = split;
        assert_same_set(&folder, &shards);
    }
    /* and again from the shards: the same archives */
    folder.split = shards.split = STOKE_SPLIT_ALL;
    stoke_pack_params again = pack_params(state, "again");
    again.shard_samples = 4;
    pack(&shards, &again, STOKE_OK, "");
    for (int i = 0; i < 4; i++) {
        char name[2][32];
        snprintf(name[0], sizeof name[0], "out/%06d.tar", i);
        snprintf(name[1], sizeof name[1], "again/%06d.tar", i);
        assert_same_file(unit_path(state, name[0]), unit_path(state, name[1]));
    }
}

static void shards_have_the_sizes_asked_for(void **state)
{
    pairs_write(state, 9, 40, 24);
    const stoke_data_params folder = pairs_params(state);
    for (uint64_t limit = 1; limit < 40000; limit = limit * 2 + 1111) {
        char name[32];
        snprintf(name, sizeof name, "out%llu", (unsigned long long)limit);
        stoke_pack_params p = pack_params(state, name);
        p.shard_bytes = limit;
        const stoke_pack_report report = pack(&folder, &p, STOKE_OK, "");
        uint64_t sum = 0;
        for (uint64_t i = 0; i < report.shards; i++) {
            char path[4200];
            struct stat st;
            snprintf(path, sizeof path, "%s/%06d.tar", p.out, (int)i);
            assert_int_equal(stat(path, &st), 0);
            assert_int_equal(st.st_size % 512, 0);
            if (report.shards < 9) assert_true((uint64_t)st.st_size <= limit);
            sum += (uint64_t)st.st_size;
        }
        assert_int_equal(sum, report.bytes);
    }
    stoke_pack_params p = pack_params(state, "one");
    p.shard_bytes = 0;
    p.prefix = "set_1";
    assert_int_equal(pack(&folder, &p, STOKE_OK, "").shards, 1);
    assert_int_equal(access(unit_path(state, "one/set_1-000000.tar"), R_OK), 0);
}

/* A set with its own train and val, and one where a list gives names that tar must not see. */
static void parts_and_odd_names(void **state)
{
    pairs_write(state, 6, 24, 24);
    static const char *const parts[] = { "set/train/images", "set/train/masks", "set/val/images",
                                         "set/val/masks" };
    for (int i = 0; i < 4; i++)
        assert_int_equal(stoke_make_folders(unit_path(state, parts[i]), NULL), STOKE_OK);
    for (int i = 0; i < 6; i++)
        for (int mask = 0; mask < 2; mask++) {
            char from[64], to[64];
            snprintf(from, sizeof from, "%s/s%d.%s", mask ? "masks" : "images", i,
                     mask || i % 3 ? "png" : "jpg");
            snprintf(to, sizeof to, "set/%s/%s/v1.%d.%s", i < 4 ? "train" : "val", mask ? "masks" : "images",
                     i, mask || i % 3 ? "png" : "JPG");
            assert_int_equal(link(unit_path(state, from), unit_path(state, to)), 0);
        }
    stoke_data_params folder = pairs_params(state), shards = folder;
    folder.data = unit_path(state, "set");
    stoke_pack_params p = pack_params(state, "out");
    p.shard_samples = 3;
    assert_int_equal(pack(&folder, &p, STOKE_OK, "").shards, 3);
    assert_int_equal(count_files(p.out, "train-"), 4);
    assert_int_equal(count_files(p.out, "val-"), 2);
    shards.data = p.out;
    for (int split = STOKE_SPLIT_ALL; split <= STOKE_SPLIT_VAL; split++) {
        folder.split = shards.split = split;
        assert_same_set(&folder, &shards);
    }
    folder = shards = pairs_params(state);
    char list[4096];
    snprintf(list, sizeof list,
             "image,mask\nimages/../images/s0.jpg,masks/s0.png\n%s/images/s1.png,masks/s1.png\n"
             "set/train/../train/images/v1.2.png,set/train/masks/v1.2.png\n./images//s4.png,masks/s4.png\n",
             unit_folder(state));
    const char *path = unit_path(state, "list.csv"), *out = unit_path(state, "odd");
    unit_write(path, list, strlen(list));
    folder.data = NULL, folder.list = path;
    p.out = out;
    assert_int_equal(pack(&folder, &p, STOKE_OK, "").samples, 4);
    shards.data = out;
    assert_same_set(&folder, &shards);
}

static void images_alone(void **state)
{
    pairs_write(state, 5, 24, 24);
    stoke_data_params folder = pairs_params(state), shards = folder;
    /* a twin with another extension: both are kept, named with it */
    assert_int_equal(link(unit_path(state, "images/s1.png"), unit_path(state, "images/s0.png")), 0);
    folder.data = NULL, folder.images = unit_path(state, "images");
    const stoke_pack_params p = pack_params(state, "out");
    assert_int_equal(pack(&folder, &p, STOKE_OK, "").samples, 6);
    shards.data = p.out;
    assert_same_set(&folder, &shards);
}

/* ---- again ---- */

typedef struct stopper {
    uint64_t after;
} stopper;

static int stop_after(void *context, uint64_t done, uint64_t total)
{
    return done >= ((stopper *)context)->after;
}

static void interrupted_and_resumed(void **state)
{
    pairs_write(state, 10, 24, 24);
    const stoke_data_params folder = pairs_params(state);
    stoke_pack_params whole = pack_params(state, "whole"), p = pack_params(state, "out");
    char out[4096];
    snprintf(out, sizeof out, "%s", p.out);
    p.out = out; /* unit_path keeps eight */
    whole.shard_samples = p.shard_samples = 3;
    pack(&folder, &whole, STOKE_OK, "");
    stoke_dataset *dataset = open_set(&folder);
    stoke_pack_report report;
    stoke_error err;
    assert_int_equal(stoke_pack(dataset, &p, stop_after, &(stopper){ 0 }, &report, &err), STOKE_E_CANCELLED);
    assert_int_equal(access(p.out, F_OK), -1);
    assert_int_equal(stoke_pack(dataset, &p, stop_after, &(stopper){ 8 }, &report, &err), STOKE_E_CANCELLED);
    stoke_dataset_close(&dataset);
    assert_int_equal(count_files(p.out, ".tmp-"), 0);
    assert_int_equal(count_files(p.out, ".tar"), 4);
    /* what a killed run leaves, and what is none of our business */
    unit_write(unit_path(state, "out/000002.tar.tmp-0123ab"), "half", 4);
    unit_write(unit_path(state, "out/000001.tar.idx.tmp-0123ab"), "half", 4);
    unit_write(unit_path(state, "out/000731.tar.tmp-0123ab"), "of a run with smaller shards", 4);
    unit_write(unit_path(state, "out/train-000001.tar.tmp-0123ab"), "half", 4);
    unit_write(unit_path(state, "out/notes.tmp-0123ab"), "mine", 4);
    unit_write(unit_path(state, "out/b-000001.tar.tmp-0123ab"), "of another prefix", 4);
    unit_write(unit_path(state, "out/0000001.tar.tmp-0123ab"), "mine", 4);
    report = pack(&folder, &p, STOKE_OK, "");
    assert_int_equal(report.kept, 2);
    assert_int_equal(report.shards, 4);
    assert_int_equal(count_files(p.out, ".tmp-"), 3);
    for (int i = 0; i < 4; i++) {
        char name[2][32];
        snprintf(name[0], sizeof name[0], "out/%06d.tar", i);
        snprintf(name[1], sizeof name[1], "whole/%06d.tar", i);
        assert_same_file(unit_path(state, name[0]), unit_path(state, name[1]));
    }
    /* a shard of the right length that is another one stays, until somebody removes it */
    struct stat st;
    assert_int_equal(stat(unit_path(state, "out/000001.tar"), &st), 0);
    char *zeros = calloc(1, (size_t)st.st_size);
    unit_write(unit_path(state, "out/000001.tar"), zeros, (size_t)st.st_size);
    free(zeros);
    assert_int_equal(unlink(unit_path(state, "out/000000.tar.idx")), 0);
    pack(&folder, &p, STOKE_E_STATE, "000001.tar: is not the shard that was packed here");
    p.force = 1;
    pack(&folder, &p, STOKE_E_STATE, "000001.tar: is not the shard that was packed here");
    assert_int_equal(access(unit_path(state, "out/000003.tar"), F_OK), 0);
    p.force = 0;
    assert_int_equal(unlink(unit_path(state, "out/000001.tar")), 0);
    assert_int_equal(pack(&folder, &p, STOKE_OK, "").kept, 3);
    assert_same_file(unit_path(state, "out/000001.tar"), unit_path(state, "whole/000001.tar"));
    assert_int_equal(access(unit_path(state, "out/000000.tar.idx"), R_OK), 0);
}

static void what_others_left_is_spared(void **state)
{
    pairs_write(state, 6, 24, 24);
    const stoke_data_params folder = pairs_params(state);
    stoke_pack_params p = pack_params(state, "out");
    p.shard_samples = 2;
    pack(&folder, &p, STOKE_OK, "");
    p.shard_samples = 3;
    pack(&folder, &p, STOKE_E_STATE, "other settings");
    p.force = 1;
    assert_int_equal(pack(&folder, &p, STOKE_OK, "").shards, 2);
    assert_int_equal(count_files(p.out, ".tar"), 4); /* the third of before is gone, with its index */
    p.force = 0;
    const struct timespec times[2] = { { 5, 0 }, { 5, 1 } };
    assert_int_equal(utimensat(AT_FDCWD, unit_path(state, "images/s5.png"), times, 0), 0);
    pack(&folder, &p, STOKE_E_STATE, "sources have changed since it was packed, first those of 000001.tar");
    /* beside it, under another name */
    p.prefix = "b";
    pack(&folder, &p, STOKE_OK, "");
    p.prefix = "";
    p.out = unit_path(state, "images");
    pack(&folder, &p, STOKE_E_STATE, "was not made by pack");
    /* our manifest is gone: shards of these names are no longer known to be ours */
    p.out = unit_path(state, "out");
    assert_int_equal(unlink(unit_path(state, "out/stoke-pack.jsonl")), 0);
    pack(&folder, &p, STOKE_E_STATE, "000000.tar: exists already");
    /* a set is never packed onto itself */
    stoke_data_params shards = folder;
    char data[4200];
    snprintf(data, sizeof data, "%s/{000000..000001}.tar", p.out);
    shards.data = data;
    p.force = 1;
    pack(&shards, &p, STOKE_E_INVALID, "the set itself lies there");
    p.out = unit_path(state, "new"), p.prefix = "a/b";
    pack(&folder, &p, STOKE_E_INVALID, "prefix");
    p.prefix = "", p.out = "";
    pack(&folder, &p, STOKE_E_INVALID, "name the folder");
}

static void bad_files(void **state)
{
    pairs_write(state, 5, 24, 24);
    const stoke_data_params folder = pairs_params(state);
    assert_int_equal(unlink(unit_path(state, "masks/s2.png")), 0);
    assert_int_equal(symlink("nowhere", unit_path(state, "masks/s2.png")), 0);
    stoke_pack_params p = pack_params(state, "out");
    pack(&folder, &p, STOKE_E_NOTFOUND, "masks/s2.png: cannot open: No such file");
    assert_int_equal(access(p.out, F_OK), -1);
    p.skip_bad = 1;
    stoke_pack_report report = pack(&folder, &p, STOKE_OK, "");
    assert_int_equal(report.samples, 4);
    assert_int_equal(report.n_bad, 1);
    assert_non_null(strstr(report.bad[0].path, "masks/s2.png"));
    assert_string_equal(report.bad[0].reason, "cannot open: No such file or directory");
    stoke_pack_report_free(&report);
    assert_int_equal(report.n_bad, 0);
}

/* Every allocation of packing and of reading may fail: an error, no leak, no half shard. */
static void memory_may_run_out(void **state)
{
    pairs_write(state, 3, 24, 24);
    stoke_data_params folder = pairs_params(state);
    stoke_pack_params p = pack_params(state, "out");
    p.force = 1;
    int r = STOKE_E_NOMEM;
    stoke_error err;
    for (int after = 0; r != STOKE_OK && after < 200; after++) {
        stoke_dataset *dataset = open_set(&folder);
        stoke_pack_report report;
        stk_mem_fail_after(after);
        r = stoke_pack(dataset, &p, NULL, NULL, &report, &err);
        stk_mem_fail_after(-1);
        stoke_dataset_close(&dataset);
        if (access(p.out, F_OK) == 0) assert_int_equal(count_files(p.out, ".tmp-"), 0);
    }
    assert_int_equal(r, STOKE_OK);
    folder.data = p.out;
    r = STOKE_E_NOMEM;
    for (int after = 0; r == STOKE_E_NOMEM && after < 200; after++) {
        stoke_dataset *dataset;
        stk_mem_fail_after(after);
        r = stoke_dataset_open(&dataset, &folder, &err);
        stk_mem_fail_after(-1);
        stoke_dataset_close(&dataset);
    }
    assert_int_equal(r, STOKE_OK);
}

/* ---- shards of other makers ---- */

static void shard(void **state, const char *name, const char *const *members)
{
    archive *a = calloc(1, sizeof *a);
    for (; *members; members++) archive_file(a, *members, "bytes");
    archive_end(a);
    unit_write(unit_path(state, name), a->bytes, a->size);
    free(a);
}

static int has_note(const stoke_dataset *dataset, stoke_note_kind kind, const char *path)
{
    for (size_t i = 0; i < stoke_dataset_notes(dataset); i++) {
        const stoke_note note = stoke_dataset_note(dataset, i);
        const size_t n = strlen(note.path), m = strlen(path);
        if (note.kind == kind && n >= m && strcmp(note.path + n - m, path) == 0) return 1;
    }
    return 0;
}

static void members_make_samples(void **state)
{
    shard(state, "s/000.tar",
          (const char *[]){ "b.jpg", "b.json", "a10.jpg", "d/a.seg.png", "a10.png", "d/a.image.webp",
                            "b.mask.png", "b.cls", "lonely.jpg", "two.jpg", "two.webp", "two.mask.png",
                            "masks.jpg", "masks.gt.png", "masks.ann.png", "orphan.label.png", ".hidden.jpg",
                            "a.depth.png", NULL });
    shard(state, "s/001.tar",
          (const char *[]){ "a2.png", "a2.mask.png", "b.jpg", "b.mask.png", "e.jpg", "e.mask.png", "e.jpg",
                            NULL });
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_path(state, "s");
    stoke_dataset *dataset = open_set(&params);
    assert_int_equal(stoke_dataset_count(dataset), 3);
    assert_string_equal(stoke_dataset_sample(dataset, 0).name, "a2");
    assert_string_equal(stoke_dataset_sample(dataset, 1).name, "a10");
    assert_string_equal(stoke_dataset_sample(dataset, 2).name, "d/a");
    const stoke_sample sample = stoke_dataset_sample(dataset, 1);
    assert_non_null(strstr(sample.image_path, "s/000.tar:a10.jpg"));
    assert_non_null(strstr(sample.mask_path, "s/000.tar:a10.png"));
    assert_int_equal(sample.image.offset, 5 * 512);
    assert_int_equal(sample.image.size, 5);
    assert_int_equal(sample.mask.offset, 9 * 512);
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "000.tar:b.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "001.tar:b.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_IMAGE_WITHOUT_MASK, "lonely.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "two.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "two.webp"));
    assert_true(has_note(dataset, STOKE_NOTE_MASK_WITHOUT_IMAGE, "two.mask.png"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "masks.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "masks.gt.png"));
    assert_true(has_note(dataset, STOKE_NOTE_MASK_WITHOUT_IMAGE, "orphan.label.png"));
    /* an archive that was added to has a name twice: which one is meant is not ours to say */
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "001.tar:e.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_MASK_WITHOUT_IMAGE, "001.tar:e.mask.png"));
    assert_int_equal(stoke_dataset_notes(dataset), 13);
    stoke_dataset_close(&dataset);
}

static void expect_open(const char *data, double val_split, int code, const char *words)
{
    stoke_data_params params = stoke_data_defaults();
    stoke_dataset *dataset;
    stoke_error err = { 0 };
    params.data = data;
    params.val_split = val_split;
    int r = stoke_dataset_open(&dataset, &params, &err);
    if (r != code || !strstr(err.message, words)) fail_msg("%s: %d, not %d: %s", data, r, code, err.message);
    stoke_dataset_close(&dataset);
}

/* Neither pairs masks with images; as images alone they would be trained on as pictures. */
static void masks_apart_are_refused(void **state)
{
    shard(state, "s1.tar", (const char *[]){ "images/a.jpg", "masks/a.png", NULL });
    shard(state, "s2.tar", (const char *[]){ "0001/image.jpg", "0001/mask.png", NULL });
    shard(state, "s3.tar", (const char *[]){ "x/labels/a.png", "x/images/a.png", NULL });
    for (int i = 1; i <= 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d.tar", i);
        expect_open(unit_path(state, name), 0, STOKE_E_UNSUPPORTED, "looks like a mask");
    }
    /* only such, paired after all, photographs, and a word within a word: sets as before */
    shard(state, "t1.tar", (const char *[]){ "masks/a.png", "masks/b.png", NULL });
    shard(state, "t2.tar",
          (const char *[]){ "a.jpg", "a.mask.png", "masks/b.png", "masks/b.mask.png", NULL });
    shard(state, "t3.tar", (const char *[]){ "mask/a.jpg", "plain/b.jpg", NULL });
    shard(state, "t4.tar", (const char *[]){ "masked/a.png", "a/b.png", NULL });
    for (int i = 1; i <= 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d.tar", i);
        expect_open(unit_path(state, name), 0, STOKE_OK, "");
    }
}

static void links_are_noted(void **state)
{
    archive *a = calloc(1, sizeof *a);
    archive_file(a, "a.jpg", "x");
    archive_member(a, "b.jpg", '1', "", 0);
    archive_member(a, "c.txt", '2', "", 0);
    archive_end(a);
    const char *path = unit_path(state, "one.tar");
    unit_write(path, a->bytes, a->size);
    free(a);
    stoke_data_params params = stoke_data_defaults();
    params.data = path;
    stoke_dataset *dataset = open_set(&params);
    assert_int_equal(stoke_dataset_count(dataset), 1);
    assert_int_equal(stoke_dataset_notes(dataset), 1);
    assert_true(has_note(dataset, STOKE_NOTE_NOT_A_FILE, "one.tar:b.jpg"));
    stoke_dataset_close(&dataset);
}

static void folders_of_shards(void **state)
{
    const char *const one[] = { "a.jpg", "a.mask.png", NULL }, *const none[] = { "a.json", "x.v2.jpg", NULL },
                      *const bare[] = { "b.jpg", NULL };
    shard(state, "s/train-000.tar", one);
    shard(state, "s/val-000.tar", one);
    shard(state, "s/test-000.tar", none);
    expect_open(unit_path(state, "s"), 0, STOKE_OK, "");
    expect_open(unit_path(state, "s"), 0.1, STOKE_E_INVALID, "its own val shards");
    shard(state, "s/values-000.tar", one);
    expect_open(unit_path(state, "s"), 0, STOKE_E_INVALID, "says by its name which part");
    expect_open(unit_path(state, "s/{train,val}-000.tar"), 0, STOKE_OK, "");
    expect_open(unit_path(state, "s/train-{000..001}.tar"), 0, STOKE_E_NOTFOUND,
                "train-001.tar: cannot open");
    expect_open(unit_path(state, "s/none.tar"), 0, STOKE_E_NOTFOUND, "none.tar: cannot open");
    expect_open(unit_path(state, "s/test-000.tar"), 0, STOKE_E_NOTFOUND,
                "no member is an image. Looked for KEY.jpg");
    expect_open(unit_path(state, "s/test-000.tar"), 0, STOKE_E_NOTFOUND, "test-000.tar:a.json");
    shard(state, "m/train-0.tar", one);
    shard(state, "m/val-0.tar", bare);
    expect_open(unit_path(state, "m"), 0, STOKE_E_INVALID, "has masks, the other has none");
    /* archives beside folders of images are what those were unpacked from */
    shard(state, "u/set.tar", none);
    unit_write(unit_path(state, "u/images/a.jpg"), "x", 1);
    expect_open(unit_path(state, "u"), 0, STOKE_OK, "");
    /* a picture beside shards is a picture of them */
    shard(state, "v/set.tar", one);
    unit_write(unit_path(state, "v/preview.png"), "x", 1);
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_path(state, "v");
    stoke_dataset *dataset = open_set(&params);
    assert_string_equal(stoke_dataset_sample(dataset, 0).name, "a");
    stoke_dataset_close(&dataset);
    unit_write(unit_path(state, "z/set.tar.gz"), "\x1f\x8b", 2);
    expect_open(unit_path(state, "z"), 0, STOKE_E_UNSUPPORTED, "compressed archives are not supported");
    expect_open(unit_path(state, "z/set.tar.gz"), 0, STOKE_E_FORMAT, "where a header of 512");
}

static void shard_is_cut_after_opening(void **state)
{
    pairs_write(state, 4, 24, 24);
    stoke_data_params folder = pairs_params(state);
    const stoke_pack_params p = pack_params(state, "out");
    pack(&folder, &p, STOKE_OK, "");
    folder.data = p.out;
    stoke_dataset *dataset = open_set(&folder);
    assert_int_equal(truncate(unit_path(state, "out/000000.tar"), 3000), 0);
    stoke_verify_report report;
    stoke_error err;
    assert_int_equal(stoke_verify(dataset, &folder, 1, NULL, NULL, &report, &err), STOKE_OK);
    assert_true(report.n_bad >= 6);
    const stoke_bad_file *bad = &report.bad[report.n_bad - 1];
    assert_non_null(strstr(bad->path, "out/000000.tar:s3.mask.png"));
    assert_non_null(strstr(bad->reason, "ends at byte 3000"));
    stoke_verify_report_free(&report);
    stoke_dataset_close(&dataset);
}

static void thinned_set(void **state)
{
    pairs_write(state, 7, 24, 24);
    const stoke_data_params folder = pairs_params(state);
    stoke_dataset *dataset = open_set(&folder);
    const uint64_t before = stoke_dataset_fingerprint(dataset);
    stoke_dataset_thin(dataset, 7);
    assert_int_equal(stoke_dataset_fingerprint(dataset), before);
    stoke_dataset_thin(dataset, 3);
    assert_int_equal(stoke_dataset_count(dataset), 3);
    assert_string_equal(stoke_dataset_sample(dataset, 1).name, "s2");
    assert_string_equal(stoke_dataset_sample(dataset, 2).name, "s4");
    assert_int_not_equal(stoke_dataset_fingerprint(dataset), before);
    stoke_dataset_close(&dataset);
}

static void picked_samples(void **state)
{
    pairs_write(state, 5, 24, 24);
    const stoke_data_params folder = pairs_params(state);
    stoke_dataset *dataset = open_set(&folder);
    stoke_error err;
    const uint64_t before = stoke_dataset_fingerprint(dataset), ids[3] = { 4, 0, 3 }, wrong[1] = { 5 };
    assert_int_equal(stoke_dataset_pick(dataset, wrong, 1, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_dataset_pick(dataset, ids, 0, &err), STOKE_E_INVALID);
    assert_int_equal(stoke_dataset_pick(dataset, ids, 6, &err), STOKE_E_INVALID);
    stk_mem_fail_after(0);
    const int status = stoke_dataset_pick(dataset, ids, 3, &err);
    stk_mem_fail_after(-1);
    assert_int_equal(status, STOKE_E_NOMEM);
    assert_int_equal(stoke_dataset_fingerprint(dataset), before); /* a failure changes nothing */
    assert_int_equal(stoke_dataset_pick(dataset, ids, 3, &err), STOKE_OK);
    assert_int_equal(stoke_dataset_count(dataset), 3);
    assert_string_equal(stoke_dataset_sample(dataset, 0).name, "s4");
    assert_string_equal(stoke_dataset_sample(dataset, 1).name, "s0");
    assert_string_equal(stoke_dataset_sample(dataset, 2).name, "s3");
    assert_int_not_equal(stoke_dataset_fingerprint(dataset), before);
    stoke_dataset_close(&dataset);
}

UNIT_GROUP(pack)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(packed_set_is_the_same_set),
        unit_test_with_folder(shards_have_the_sizes_asked_for),
        unit_test_with_folder(parts_and_odd_names),
        unit_test_with_folder(images_alone),
        unit_test_with_folder(interrupted_and_resumed),
        unit_test_with_folder(what_others_left_is_spared),
        unit_test_with_folder(bad_files),
        unit_test_with_folder(memory_may_run_out),
        unit_test_with_folder(members_make_samples),
        unit_test_with_folder(masks_apart_are_refused),
        unit_test_with_folder(links_are_noted),
        unit_test_with_folder(folders_of_shards),
        unit_test_with_folder(shard_is_cut_after_opening),
        unit_test_with_folder(thinned_set),
        unit_test_with_folder(picked_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
