/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#include <stoke/dataset.h>
#include <stoke/image.h>
#include <stoke/tools/data.h>

#include "src/base/mem.h"
#include "src/source/dataset_internal.h"
#include "src/source/dataset.h"

/* ---- helpers ---- */

/* Makes empty files, names separated by blanks. */
static void touch(void **state, const char *names)
{
    char copy[4096], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", names);
    while ((name = strsep(&rest, " ")))
        if (*name) unit_write(unit_path(state, name), "", 0);
}

static stoke_data_params at_root(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_folder(state);
    return params;
}

static stoke_dataset *open_good(const stoke_data_params *params)
{
    stoke_dataset *dataset = NULL;
    stoke_error err = { 0 };
    int r = stoke_dataset_open(&dataset, params, &err);
    if (r) fail_msg("%s: %s", stoke_status_name(r), err.message);
    return dataset;
}

/* Opening fails with this code, and the message has this text. */
static void expect_error(const stoke_data_params *params, int code, const char *part)
{
    stoke_dataset *dataset = NULL;
    stoke_error err = { 0 };
    assert_int_equal(stoke_dataset_open(&dataset, params, &err), code);
    assert_null(dataset);
    if (!strstr(err.message, part)) fail_msg("`%s` is not in `%s`", part, err.message);
    assert_int_equal(stoke_dataset_open(&dataset, params, NULL), code);
}

/* All names, separated by blanks. */
static const char *names_of(const stoke_dataset *dataset)
{
    static char text[8192];
    text[0] = 0;
    for (uint64_t i = 0; i < stoke_dataset_count(dataset); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 stoke_dataset_sample(dataset, i).name);
    return text;
}

static void expect_names(const stoke_data_params *params, const char *names, size_t notes)
{
    stoke_dataset *dataset = open_good(params);
    assert_string_equal(names_of(dataset), names);
    if (stoke_dataset_notes(dataset) != notes)
        fail_msg("%zu notes, first: %s (%s)", stoke_dataset_notes(dataset),
                 stoke_dataset_note(dataset, 0).path, stoke_dataset_note(dataset, 0).detail);
    stoke_dataset_close(&dataset);
    assert_null(dataset);
}

static int has_note(const stoke_dataset *dataset, stoke_note_kind kind, const char *end)
{
    for (size_t i = 0; i < stoke_dataset_notes(dataset); i++) {
        stoke_note note = stoke_dataset_note(dataset, i);
        size_t n = strlen(note.path), m = strlen(end);
        if (note.kind == kind && n >= m && strcmp(note.path + n - m, end) == 0) return *note.detail != 0;
    }
    return 0;
}

/* ---- natural order ---- */

static int natural(const char *a, const char *b)
{
    int order = stk_natural_compare(a, strlen(a), b, strlen(b));
    return (order > 0) - (order < 0);
}

static void natural_order_cases(void **state)
{
    static const char *const sorted[] = { "",
                                          "1",
                                          "2",
                                          "02",
                                          "002",
                                          "10",
                                          "a",
                                          "a1",
                                          "a1b",
                                          "a2",
                                          "a02",
                                          "a2b",
                                          "a10",
                                          "a10b2",
                                          "a10b10",
                                          "a12345678",
                                          "a123456789",
                                          "a1234567890",
                                          "a9999999999999999999998",
                                          "a9999999999999999999999",
                                          "b",
                                          "\xc3\xa9" };
    const size_t n = sizeof sorted / sizeof *sorted;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) assert_int_equal(natural(sorted[i], sorted[j]), i < j ? -1 : i > j);
}

/* Antisymmetric, transitive, 0 only for equal: on random strings of a nasty alphabet. */
static void natural_order_is_total(void **state)
{
    static char text[120][8];
    unsigned random = 12345;
    print_message("# seed %u\n", random);
    for (int i = 0; i < 120; i++)
        for (int k = 0, n = i % 7; k < n; k++)
            text[i][k] = "0019ab/_"[(random = random * 1103515245 + 12345) >> 20 & 7];
    for (int i = 0; i < 120; i++)
        for (int j = 0; j < 120; j++) {
            int ij = natural(text[i], text[j]);
            assert_int_equal(ij, -natural(text[j], text[i]));
            assert_int_equal(ij == 0, strcmp(text[i], text[j]) == 0);
            for (int k = 0; k < 120; k++)
                if (ij <= 0 && natural(text[j], text[k]) <= 0) assert_true(natural(text[i], text[k]) <= 0);
            uint64_t a = stk_natural_key(text[i], strlen(text[i])),
                     b = stk_natural_key(text[j], strlen(text[j]));
            if (a != b) assert_int_equal(ij, a < b ? -1 : 1);
        }
}

/* ---- pairs ---- */

static void two_folders_pair_by_stem(void **state)
{
    touch(state, "x/10.jpg x/2.JPEG x/1.png x/sub/3.webp y/1.png y/2.tif y/10.TIFF y/sub/3.png x/notes.txt "
                 "x/.hidden.png y/.git/1.png");
    stoke_data_params params = stoke_data_defaults();
    char images[128], masks[128];
    snprintf(images, sizeof images, "%s/x//", unit_folder(state));
    snprintf(masks, sizeof masks, "%s/y", unit_folder(state));
    params.images = images;
    params.masks = masks;
    stoke_dataset *dataset = open_good(&params);
    assert_string_equal(names_of(dataset), "1 2 10 sub/3");
    assert_int_equal(stoke_dataset_has_masks(dataset), 1);
    assert_int_equal(stoke_dataset_notes(dataset), 0);
    assert_string_equal(stoke_dataset_sample(dataset, 3).image_path, unit_path(state, "x/sub/3.webp"));
    assert_string_equal(stoke_dataset_sample(dataset, 3).mask_path, unit_path(state, "y/sub/3.png"));
    stoke_dataset_close(&dataset);
    params.masks = NULL;
    dataset = open_good(&params);
    assert_int_equal(stoke_dataset_has_masks(dataset), 0);
    assert_null(stoke_dataset_sample(dataset, 0).mask_path);
    stoke_dataset_close(&dataset);
    stoke_dataset_close(&dataset);
}

static void order_does_not_depend_on_creation(void **state)
{
    uint64_t fingerprint = 0;
    unsigned random = 99;
    for (int round = 0; round < 3; round++) {
        char folder[32], wanted[4096] = "";
        int order[60];
        for (int i = 0; i < 60; i++) {
            int j = (int)((random = random * 1103515245 + 12345) >> 8) % (i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        snprintf(folder, sizeof folder, "round%d", round);
        for (int i = 0; i < 60; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s/images/%d/f%d.png", folder, order[i] % 3, order[i]);
            touch(state, name);
        }
        for (int d = 0; d < 3; d++)
            for (int i = d; i < 60; i += 3)
                snprintf(wanted + strlen(wanted), 32, "%s%d/f%d", *wanted ? " " : "", d, i);
        stoke_data_params params = stoke_data_defaults();
        params.data = unit_path(state, folder);
        stoke_dataset *dataset = open_good(&params);
        assert_string_equal(names_of(dataset), wanted);
        if (round) assert_int_equal(stoke_dataset_fingerprint(dataset), fingerprint);
        fingerprint = stoke_dataset_fingerprint(dataset);
        stoke_dataset_close(&dataset);
    }
}

static void fingerprint_tells_sets_apart(void **state)
{
    touch(state, "a/images/1.png a/images/2.png b/images/1.png b/images/3.png c/images/12.png");
    uint64_t seen[3];
    for (int i = 0; i < 3; i++) {
        stoke_data_params params = stoke_data_defaults();
        params.data = unit_path(state, (const char *[]){ "a", "b", "c" }[i]);
        stoke_dataset *dataset = open_good(&params);
        seen[i] = stoke_dataset_fingerprint(dataset);
        stoke_dataset_close(&dataset);
    }
    assert_true(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2]);
}

static void suffixes_are_tried(void **state)
{
    touch(state, "images/a.jpg images/b.jpg images/c.jpg images/d.jpg masks/a.png masks/b_mask.png "
                 "masks/c_gt.png masks/d_GT.tif");
    stoke_data_params params = at_root(state);
    expect_names(&params, "a b c d", 0);
    params.mask_suffix = "_gt";
    expect_names(&params, "c", 6);
    params.mask_suffix = "";
    expect_names(&params, "a", 6);
    params.mask_suffix = "_nope";
    expect_error(&params, STOKE_E_NOTFOUND, "stem of one: a)");
    expect_error(&params, STOKE_E_NOTFOUND, "4 masks");
}

static void image_suffix_is_taken_off(void **state)
{
    touch(state, "images/a_x.jpg images/a1_x.jpg images/b.jpg masks/a.png masks/a1_mask.png");
    stoke_data_params params = at_root(state);
    params.image_suffix = "_x";
    expect_names(&params, "a a1", 1); /* not by the stem with suffix, where a1_x comes first */
}

static void orphans_and_twins_are_left_out(void **state)
{
    touch(state, "images/a.jpg images/orphan.jpg masks/a.png masks/lonely.png "
                 "images/twin.jpg images/twin.png masks/twin.png "
                 "images/two.jpg masks/two.png masks/two.tif "
                 "images/sfx.jpg masks/sfx_mask.png masks/sfx_gt.png "
                 "images/both.jpg masks/both.png masks/both_mask.png");
    stoke_data_params params = at_root(state);
    stoke_dataset *dataset = open_good(&params);
    assert_string_equal(names_of(dataset), "a both");
    assert_non_null(strstr(stoke_dataset_sample(dataset, 1).mask_path, "/both.png"));
    assert_true(has_note(dataset, STOKE_NOTE_IMAGE_WITHOUT_MASK, "images/orphan.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_MASK_WITHOUT_IMAGE, "masks/lonely.png"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "images/twin.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "images/twin.png"));
    assert_true(has_note(dataset, STOKE_NOTE_MASK_WITHOUT_IMAGE, "masks/twin.png"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "images/two.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "masks/two.png"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "masks/two.tif"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "images/sfx.jpg"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "masks/sfx_gt.png"));
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "masks/both_mask.png"));
    assert_int_equal(stoke_dataset_notes(dataset), 12);
    stoke_dataset_close(&dataset);
}

static void a_mask_that_fits_two_images_is_left_out(void **state)
{
    touch(state, "images/a.jpg images/a_gtFine.jpg images/b.jpg masks/a_gtFine_labelIds.png masks/b.png");
    stoke_data_params params = at_root(state);
    stoke_dataset *dataset = open_good(&params);
    assert_string_equal(names_of(dataset), "b");
    assert_true(has_note(dataset, STOKE_NOTE_DUPLICATE, "masks/a_gtFine_labelIds.png"));
    assert_true(has_note(dataset, STOKE_NOTE_IMAGE_WITHOUT_MASK, "images/a.jpg"));
    assert_int_equal(stoke_dataset_notes(dataset), 3);
    stoke_dataset_close(&dataset);
}

static void an_exact_stem_beats_a_suffix(void **state)
{
    /* a_mask is an image too: its own mask is not given to a */
    touch(state, "images/a.jpg images/a_mask.jpg masks/a_mask.png");
    stoke_data_params params = at_root(state);
    expect_names(&params, "a_mask", 1);
}

static void images_and_masks_in_one_folder(void **state)
{
    touch(state,
          "set/1.tif set/1_mask.tif set/2.tif set/2_mask.tif set/sub/3.tif set/sub/3_mask.tif set/4.tif");
    stoke_data_params params = stoke_data_defaults();
    params.images = unit_path(state, "set");
    params.masks = unit_path(state, "set/");
    expect_names(&params, "1 2 sub/3", 1);
    params.mask_suffix = "";
    expect_error(&params, STOKE_E_INVALID, "one folder");

    params = stoke_data_defaults();
    params.data = unit_path(state, "set"); /* not guessed: which are masks must be said */
    expect_error(&params, STOKE_E_INVALID, "3 of 7 files look like masks");
    params.data = NULL;
    params.images = unit_path(state, "set");
    expect_names(&params, "1 1_mask 2 2_mask 4 sub/3 sub/3_mask", 0);
}

static void masks_inside_the_images_folder(void **state)
{
    touch(state, "set/1.jpg set/2.jpg set/truth/1.png set/truth/2.png");
    stoke_data_params params = stoke_data_defaults();
    params.images = unit_path(state, "set");
    params.masks = unit_path(state, "set/truth");
    expect_names(&params, "1 2", 0);
}

/* ---- layouts ---- */

static void known_layouts(void **state)
{
    static const char *const pairs[][2] = {
        { "images", "masks" },       { "image", "mask" },
        { "images", "labels" },      { "image", "label" },
        { "imgs", "masks" },         { "img", "ann" },
        { "img", "mask" },           { "JPEGImages", "SegmentationClass" },
        { "images", "annotations" }, { "IMAGES", "Masks" },
        { "train", "trainannot" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char names[256], root[32];
        snprintf(root, sizeof root, "set%zu", i);
        snprintf(names, sizeof names, "%s/%s/7.jpg %s/%s/7.png", root, pairs[i][0], root, pairs[i][1]);
        touch(state, names);
        stoke_data_params params = stoke_data_defaults();
        params.data = unit_path(state, root);
        expect_names(&params, i == 10 ? "train/7" : "7", 0);
    }
}

static void voc_and_cityscapes(void **state)
{
    touch(state,
          "voc/JPEGImages/1.jpg voc/SegmentationClass/1.png voc/SegmentationObject/1.png "
          "voc/Annotations/1.xml "
          "cs/leftImg8bit/train/ulm/ulm_1_leftImg8bit.png cs/gtFine/train/ulm/ulm_1_gtFine_labelIds.png "
          "cs/gtFine/train/ulm/ulm_1_gtFine_color.png "
          "cs/leftImg8bit/val/bonn/bonn_2_leftImg8bit.png cs/gtFine/val/bonn/bonn_2_gtFine_labelIds.png");
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_path(state, "voc");
    expect_names(&params, "1", 0);
    params.data = unit_path(state, "cs");
    expect_names(&params, "train/ulm/ulm_1 val/bonn/bonn_2", 1); /* the note is the colour picture */
    params.split = STOKE_SPLIT_VAL;
    expect_names(&params, "val/bonn/bonn_2", 0);
}

static void ready_made_splits(void **state)
{
    touch(state,
          "a/train/1.png a/trainannot/1.png a/val/1.png a/valannot/1.png a/test/1.png a/testannot/1.png "
          "b/train/images/1.png b/train/masks/1.png b/val/images/2.png b/val/masks/2.png "
          "c/images/training/1.jpg c/annotations/training/1.png c/images/validation/2.jpg "
          "c/annotations/validation/2.png");
    static const char *const all[] = { "train/1 val/1", "train/1 val/2", "train/1 val/2" };
    static const char *const val[] = { "val/1", "val/2", "val/2" };
    for (int i = 0; i < 3; i++) {
        stoke_data_params params = stoke_data_defaults();
        char root[2] = { (char)('a' + i) };
        params.data = unit_path(state, root);
        expect_names(&params, all[i], 0);
        params.split = STOKE_SPLIT_TRAIN;
        expect_names(&params, "train/1", 0);
        params.split = STOKE_SPLIT_VAL;
        expect_names(&params, val[i], 0);
        params.val_split = 0.1;
        expect_error(&params, STOKE_E_INVALID, "val_split");
    }
}

static void test_parts_are_read_when_asked_for(void **state)
{
    static const struct {
        const char *root, *files, *all, *test, *left; /* left: out of `all` */
    } sets[] = {
        { "a", "a/train/1.png a/trainannot/1.png a/val/2.png a/valannot/2.png a/test/3.png a/testannot/3.png",
          "train/1 val/2", "test/3", "a/test" },
        { "b", "b/train/images/1.png b/train/masks/1.png b/test/images/2.png b/test/masks/2.png", "train/1",
          "test/2", "b/test/images" },
        { "c",
          "c/images/train/1.png c/masks/train/1.png c/images/val/2.png c/masks/val/2.png c/images/test/3.png "
          "c/masks/test/3.png",
          "train/1 val/2", "test/3", "c/images/test" },
        { "d", "d/test/3.png d/testannot/3.png", "3", "test/3", NULL },
        { "e", "e/images/test/3.png e/masks/test/3.png e/images/4.png e/masks/4.png", "4 test/3", "test/3",
          NULL },
        { "f", "f/images/1.png f/masks/1.png", "1", NULL, NULL },
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        stoke_data_params params = stoke_data_defaults();
        stoke_dataset *dataset;
        touch(state, sets[i].files);
        params.data = unit_path(state, sets[i].root);
        expect_names(&params, sets[i].all, 0);
        assert_int_equal(stoke_dataset_open(&dataset, &params, NULL), 0);
        if (sets[i].left)
            assert_string_equal(dataset->test, unit_path(state, sets[i].left));
        else
            assert_null(dataset->test);
        stoke_dataset_close(&dataset);
        params.split = STOKE_SPLIT_TEST;
        if (sets[i].test)
            expect_names(&params, sets[i].test, 0);
        else
            expect_error(&params, STOKE_E_NOTFOUND, "has no test part");
    }
}

static void a_class_called_train_is_no_split(void **state)
{
    touch(state, "images/train/1.jpg images/bus/2.jpg masks/train/1.png masks/bus/2.png");
    stoke_data_params params = at_root(state);
    expect_names(&params, "bus/2 train/1", 0);
}

static void ambiguity_is_an_error(void **state)
{
    touch(state,
          "a/images/1.jpg a/masks/1.png a/labels/1.png b/images/1.jpg b/masks/1.png b/train/trainannot "
          "b/train/1.png b/trainannot/1.png c/Images/1.png c/images/1.png c/masks/1.png");
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_path(state, "a");
    expect_error(&params, STOKE_E_INVALID, "a/masks");
    expect_error(&params, STOKE_E_INVALID, "a/labels");
    params.data = unit_path(state, "b");
    expect_error(&params, STOKE_E_INVALID, "two layouts");
    params.data = unit_path(state, "c");
    expect_error(&params, STOKE_E_INVALID, "two layouts");
}

static void folders_without_masks(void **state)
{
    touch(state, "a/images/1.jpg b/2.jpg b/sub/1.png b/readme.txt c/pic.jpg c/pic.png c/other.png");
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_path(state, "a");
    expect_names(&params, "1", 0);
    params.data = unit_path(state, "b");
    expect_names(&params, "2 sub/1", 0);
    params.data = unit_path(state, "c"); /* nothing to confuse: both are read, by full name */
    expect_names(&params, "other pic.jpg pic.png", 0);
}

static void contradictions_and_absences(void **state)
{
    touch(state, "empty/readme.txt images/1.png masks/readme.txt");
    stoke_data_params params = stoke_data_defaults();
    expect_error(&params, STOKE_E_INVALID, "none is given");
    params.data = unit_path(state, "empty");
    expect_error(&params, STOKE_E_NOTFOUND, "images/masks");
    params.images = "x";
    expect_error(&params, STOKE_E_INVALID, "exactly one");
    params.images = NULL;
    params.masks = "x";
    expect_error(&params, STOKE_E_INVALID, "masks goes with images");
    params.masks = NULL;
    params.data = unit_path(state, "nowhere");
    expect_error(&params, STOKE_E_NOTFOUND, "nowhere");
    params.data = unit_path(state, "images/1.png");
    expect_error(&params, STOKE_E_INVALID, "neither a folder nor a .tar file");
    params.data = NULL;
    params.images = unit_path(state, "images");
    params.masks = unit_path(state, "masks");
    expect_error(&params, STOKE_E_NOTFOUND, "0 masks");
    params.masks = unit_path(state, "none");
    expect_error(&params, STOKE_E_NOTFOUND, "none");
    params.struct_size = 8;
    expect_error(&params, STOKE_E_INVALID, "stoke_data_defaults");
}

/* ---- links ---- */

static void links_are_followed_and_loops_are_not(void **state)
{
    touch(state, "images/1.png images/deep/2.png elsewhere/3.png elsewhere/more/4.png");
    assert_int_equal(symlink("../elsewhere/3.png", unit_path(state, "images/link3.png")), 0);
    assert_int_equal(symlink("../elsewhere/more", unit_path(state, "images/more")), 0);
    assert_int_equal(symlink("..", unit_path(state, "images/deep/up")), 0);
    assert_int_equal(symlink(".", unit_path(state, "images/self")), 0);
    assert_int_equal(symlink("../elsewhere/more", unit_path(state, "images/again")), 0);
    assert_int_equal(symlink("/nonexistent/9.png", unit_path(state, "images/broken.png")), 0);
    assert_int_equal(mkfifo(unit_path(state, "images/fifo.png"), 0600), 0);
    stoke_data_params params = at_root(state);
    /* `again` and `more` are one folder: walked once, under the name that sorts first */
    expect_names(&params, "1 again/4 broken deep/2 link3", 0);
}

static void too_deep_is_an_error(void **state)
{
    char name[512] = "images";
    for (int i = 0; i < 70; i++) strcat(name, "/d");
    strcat(name, "/1.png");
    touch(state, name);
    stoke_data_params params = at_root(state);
    expect_error(&params, STOKE_E_LIMIT, "deeper than 64");
}

/* Of what this process may, this thread and those it starts have only `effective`. */
static void set_capabilities(uint32_t effective)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[0].effective = data[0].permitted & effective;
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* Root, too, may not read them without the right to pass over permissions. */
static void unreadable_folders_are_errors(void **state)
{
    touch(state, "images/1.png images/closed/2.png");
    assert_int_equal(chmod(unit_path(state, "images/closed"), 0), 0);
    stoke_data_params params = at_root(state);
    set_capabilities(~(1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH));
    expect_error(&params, STOKE_E_IO, "closed");
    set_capabilities(UINT32_MAX);
    assert_int_equal(chmod(unit_path(state, "images/closed"), 0700), 0);
}

/* ---- lists ---- */

static void write_list(void **state, const char *text, size_t size)
{
    unit_write(unit_path(state, "lists/set.csv"), text, size);
}

static void lists_give_pairs(void **state)
{
    static const char text[] =
        "\xef\xbb\xbfimage,mask\r\n# a comment, with a comma\r\n"
        "b10.jpg,m/b10.png\r\n\r\n\"sub/a, \"\"x\"\".png\",/abs/a.png\r\nb2.jpg,m/b2.png";
    write_list(state, text, sizeof text - 1);
    stoke_data_params params = stoke_data_defaults();
    params.list = unit_path(state, "lists/set.csv");
    stoke_dataset *dataset = open_good(&params);
    assert_int_equal(stoke_dataset_count(dataset), 3);
    assert_string_equal(stoke_dataset_sample(dataset, 0).name, "b2");
    assert_string_equal(stoke_dataset_sample(dataset, 1).name, "b10");
    assert_string_equal(stoke_dataset_sample(dataset, 1).image_path, unit_path(state, "lists/b10.jpg"));
    assert_string_equal(stoke_dataset_sample(dataset, 1).mask_path, unit_path(state, "lists/m/b10.png"));
    assert_string_equal(stoke_dataset_sample(dataset, 2).name, "sub/a, \"x\"");
    assert_string_equal(stoke_dataset_sample(dataset, 2).mask_path, "/abs/a.png");
    stoke_dataset_close(&dataset);
}

static void lists_without_masks_and_twins(void **state)
{
    static const char text[] = "a.jpg\nb.jpg,\na.png\nc.jpg\n";
    write_list(state, text, sizeof text - 1);
    stoke_data_params params = stoke_data_defaults();
    params.list = unit_path(state, "lists/set.csv");
    expect_names(&params, "b c", 2);
}

static void hostile_lists(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        int code;
        const char *message;
    } cases[] = {
        { "", 0, STOKE_E_FORMAT, "empty file" },
        { "# nothing\n", 10, STOKE_E_NOTFOUND, "names no image" },
        { "image,mask\n", 11, STOKE_E_NOTFOUND, "names no image" },
        { "a.png,b.png\nc.png\n", 18, STOKE_E_FORMAT, "set.csv:2: this line has no mask" },
        { "a.png\nc.png,d.png\n", 18, STOKE_E_FORMAT, "set.csv:2: this line has a mask" },
        { "a.png,b.png,c\n", 14, STOKE_E_FORMAT, "set.csv:1: more than two fields" },
        { "a.png,b.png\n,d.png\n", 19, STOKE_E_FORMAT, "set.csv:2: no image path" },
        { "a.png,\"b\nc\n", 11, STOKE_E_FORMAT, "set.csv:1: a quote is opened" },
        { "a.png,b\n\"x\"y,z\n", 15, STOKE_E_FORMAT, "set.csv:2: text after a closing quote" },
        { "a.png,b.png\nc\0d.png,e\n", 22, STOKE_E_FORMAT, "set.csv:2: a NUL byte" },
    };
    stoke_data_params params = stoke_data_defaults();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_list(state, cases[i].text, cases[i].size);
        params.list = unit_path(state, "lists/set.csv");
        expect_error(&params, cases[i].code, cases[i].message);
    }
    static char line[20000];
    memset(line, 'x', sizeof line);
    memcpy(line, "a.png\n", 6);
    write_list(state, line, sizeof line);
    params.list = unit_path(state, "lists/set.csv");
    expect_error(&params, STOKE_E_FORMAT, "set.csv:2: a field is longer");
    params.list = unit_path(state, "lists/none.csv");
    expect_error(&params, STOKE_E_NOTFOUND, "none.csv");
}

/* ---- weights from a file ---- */

static int weigh(const stoke_dataset *dataset, const char *text, double **sums, stoke_error *err)
{
    return stk_weights_parse(dataset, "w.csv", text, strlen(text), sums, err);
}

static void weights_from_a_file(void **state)
{
    touch(state, "images/a.png images/b.png images/c.png images/d.png");
    stoke_data_params params = at_root(state);
    stoke_dataset *dataset = open_good(&params);
    stoke_error err = { 0 };
    double *sums = NULL;
    assert_int_equal(weigh(dataset, "name,weight\nd,4\nb,0\nc,2.5\na,1\n", &sums, &err), STOKE_OK);
    assert_true(sums[0] == 1 && sums[1] == 1 && sums[2] == 3.5 && sums[3] == 7.5);
    stk_free(sums);
    static const struct {
        const char *text;
        int code;
        const char *message;
    } bad[] = {
        { "a,1\nb,1\nc,1\n", STOKE_E_INVALID, "1 samples have no weight (d)" },
        { "a,1\nb,1\nc,1\nd,1\ne,1\n", STOKE_E_INVALID, "1 names are not in the set (e)" },
        { "a,1\na,1\n", STOKE_E_INVALID, "w.csv:2: a has a weight already" },
        { "a,1\nb,x\n", STOKE_E_FORMAT, "w.csv:2: `x` is not a number" },
        { "a,-1\n", STOKE_E_INVALID, "negative" },
        { "a,0\nb,0\nc,0\nd,0\n", STOKE_E_INVALID, "all weights are 0" },
        { "a,1e300\nb,1e300\nc,1e308\nd,1e308\n", STOKE_E_INVALID, "too large" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(weigh(dataset, bad[i].text, &sums, &err), bad[i].code);
        assert_null(sums);
        if (!strstr(err.message, bad[i].message)) fail_msg("%s", err.message);
    }
    assert_int_equal(stk_weights_load(dataset, unit_path(state, "none"), &sums, &err), STOKE_E_NOTFOUND);
    stoke_dataset_close(&dataset);
}

/* ---- options ---- */

static void option_table_fits_the_enums(void **state)
{
    static const struct {
        const char *name, *value;
        size_t offset;
        int expected;
    } pairs[] = {
        { "split", "val", offsetof(stoke_data_params, split), STOKE_SPLIT_VAL },
        { "split", "test", offsetof(stoke_data_params, split), STOKE_SPLIT_TEST },
        { "decode", "fast", offsetof(stoke_data_params, decode), STOKE_DECODE_FAST },
        { "orientation", "apply", offsetof(stoke_data_params, orientation), STOKE_ORIENTATION_APPLY },
        { "orientation", "auto", offsetof(stoke_data_params, orientation), STOKE_ORIENTATION_AUTO },
        { "alpha", "composite", offsetof(stoke_data_params, alpha), STOKE_ALPHA_COMPOSITE },
        { "layout", "hwc", offsetof(stoke_data_params, layout), STOKE_LAYOUT_HWC },
        { "normalize", "imagenet", offsetof(stoke_data_params, normalize), STOKE_NORMALIZE_IMAGENET },
        { "normalize", "none", offsetof(stoke_data_params, normalize), STOKE_NORMALIZE_NONE },
        { "order", "sequential", offsetof(stoke_data_params, order), STOKE_ORDER_SEQUENTIAL },
        { "order", "balanced", offsetof(stoke_data_params, order), STOKE_ORDER_BALANCED },
        { "policy", "skip", offsetof(stoke_data_params, policy), STOKE_POLICY_SKIP },
        { "policy", "stop", offsetof(stoke_data_params, policy), STOKE_POLICY_STOP },
    };
    stoke_data_params params = stoke_data_defaults();
    stoke_option_group group = stoke_data_options(&params);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        stoke_error err;
        assert_int_equal(stoke_options_set(&group, 1, pairs[i].name, pairs[i].value, &err), STOKE_OK);
        int value;
        memcpy(&value, (char *)&params + pairs[i].offset, sizeof value);
        assert_int_equal(value, pairs[i].expected);
    }
}

static void defaults_and_types(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    stoke_option_group group = stoke_data_options(&params);
    assert_int_equal(params.struct_size, sizeof params);
    assert_int_equal(params.workers, -1);
    assert_int_equal(params.ignore_index, 255);
    assert_int_equal(params.max_pixels, 178956970);
    assert_string_equal(params.max_bad, "1%");
    assert_null(params.data);
    static const struct {
        const char *text, *name;
        size_t bytes;
    } images[] = { { "f32", "float32", 4 },
                   { "f16", "float16", 2 },
                   { "bf16", "bfloat16", 2 },
                   { "u8", "uint8", 1 } },
      masks[] = {
          { "u8", "uint8", 1 }, { "u16", "uint16", 2 }, { "i32", "int32", 4 }, { "i64", "int64", 8 }
      };
    for (int i = 0; i < 4; i++) {
        stoke_error err;
        assert_int_equal(stoke_options_set(&group, 1, "dtype", images[i].text, &err), STOKE_OK);
        stoke_dtype dtype = stoke_data_image_dtype(&params);
        assert_string_equal(stoke_dtype_name(dtype), images[i].name);
        assert_int_equal(stoke_dtype_bytes(dtype), images[i].bytes);
        assert_int_equal(stoke_options_set(&group, 1, "mask_dtype", masks[i].text, &err), STOKE_OK);
        dtype = stoke_data_mask_dtype(&params, 1);
        assert_string_equal(stoke_dtype_name(dtype), masks[i].name);
        assert_int_equal(stoke_dtype_bytes(dtype), masks[i].bytes);
    }
    params = stoke_data_defaults();
    assert_int_equal(stoke_data_mask_dtype(&params, 1), STOKE_DTYPE_U8);
    assert_int_equal(stoke_data_mask_dtype(&params, 2), STOKE_DTYPE_U16);
}

/* ---- memory ---- */

static void running_out_of_memory_is_an_error(void **state)
{
    touch(state, "images/a.png images/b.png images/b.jpg images/c/d.png images/e.png masks/a.png masks/b.png "
                 "masks/c/d_gt.png masks/x.png");
    stoke_data_params params = at_root(state);
    int r = STOKE_E_NOMEM;
    for (int64_t after = 0; r == STOKE_E_NOMEM; after++) {
        stoke_dataset *dataset;
        stoke_error err;
        stk_mem_fail_after(after);
        r = stoke_dataset_open(&dataset, &params, &err);
        stk_mem_fail_after(-1);
        assert_int_equal(dataset != NULL, r == STOKE_OK);
        stoke_dataset_close(&dataset);
        assert_true(after < 1000);
    }
    assert_int_equal(r, STOKE_OK);
}

/* ---- real sets ---- */

static void camvid(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_data("camvid");
    if (!params.data) skip();
    stoke_dataset *dataset = open_good(&params);
    assert_int_equal(stoke_dataset_count(dataset), 367 + 101);
    assert_int_equal(stoke_dataset_notes(dataset), 0);
    assert_string_equal(stoke_dataset_sample(dataset, 0).name, "train/0001TP_006690");
    stoke_dataset_close(&dataset);
    params.split = STOKE_SPLIT_VAL;
    dataset = open_good(&params);
    assert_int_equal(stoke_dataset_count(dataset), 101);
    stoke_dataset_close(&dataset);
}

static void membrane(void **state)
{
    stoke_data_params params = stoke_data_defaults();
    params.data = unit_data("membrane");
    if (!params.data) skip();
    stoke_dataset *dataset = open_good(&params);
    assert_int_equal(stoke_dataset_count(dataset), 30);
    for (uint64_t i = 1; i < 30; i++)
        assert_true(atoi(stoke_dataset_sample(dataset, i - 1).name) <
                    atoi(stoke_dataset_sample(dataset, i).name));
    stoke_dataset_close(&dataset);
}

UNIT_GROUP(dataset)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(natural_order_cases),
        cmocka_unit_test(natural_order_is_total),
        unit_test_with_folder(two_folders_pair_by_stem),
        unit_test_with_folder(order_does_not_depend_on_creation),
        unit_test_with_folder(fingerprint_tells_sets_apart),
        unit_test_with_folder(suffixes_are_tried),
        unit_test_with_folder(image_suffix_is_taken_off),
        unit_test_with_folder(orphans_and_twins_are_left_out),
        unit_test_with_folder(a_mask_that_fits_two_images_is_left_out),
        unit_test_with_folder(an_exact_stem_beats_a_suffix),
        unit_test_with_folder(images_and_masks_in_one_folder),
        unit_test_with_folder(masks_inside_the_images_folder),
        unit_test_with_folder(known_layouts),
        unit_test_with_folder(voc_and_cityscapes),
        unit_test_with_folder(ready_made_splits),
        unit_test_with_folder(test_parts_are_read_when_asked_for),
        unit_test_with_folder(a_class_called_train_is_no_split),
        unit_test_with_folder(ambiguity_is_an_error),
        unit_test_with_folder(folders_without_masks),
        unit_test_with_folder(contradictions_and_absences),
        unit_test_with_folder(links_are_followed_and_loops_are_not),
        unit_test_with_folder(too_deep_is_an_error),
        unit_test_with_folder(unreadable_folders_are_errors),
        unit_test_with_folder(lists_give_pairs),
        unit_test_with_folder(lists_without_masks_and_twins),
        unit_test_with_folder(hostile_lists),
        unit_test_with_folder(weights_from_a_file),
        cmocka_unit_test(option_table_fits_the_enums),
        cmocka_unit_test(defaults_and_types),
        unit_test_with_folder(running_out_of_memory_is_an_error),
        cmocka_unit_test(camvid),
        cmocka_unit_test(membrane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
