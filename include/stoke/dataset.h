/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of image/mask or image/target pairs: found, matched, ordered, split. Opening reads directory entries
 * only, no pixels.
 *
 * Matching is by stem (the path below the folder without its extension, minus the suffix). Order is natural
 * (img2 before img10) on the stem, so it does not depend on the directory's. Nothing is guessed: an
 * image without a mask, a mask without an image, two files with one stem are reported and left out. (In a set
 * without masks nothing can be mistaken: files that share a stem are kept, named with their extension.)
 *
 * Tar shards have WebDataset's layout: members of one shard with one key (the path up to the first dot of the
 * last component) make a sample. KEY.jpg (jpeg, png, webp, tif; also image.jpg, img.jpg) is the image,
 * KEY.mask.png (also seg, label, gt, ann, or a plain png beside a jpg) the mask; others are not looked at.
 * Shards whose names begin with train or val are those parts of the set. Their headers are read once; the
 * index is kept beside them (FILE.tar.idx).
 */
#ifndef STOKE_DATASET_H
#define STOKE_DATASET_H

#include <stoke/data.h>
#include <stoke/labels.h>

typedef struct stoke_dataset stoke_dataset;

/* Immutable after opening: any number of threads may read it. Fails with STOKE_E_NOTFOUND when there is no
 * pair (the message says what was looked for), STOKE_E_INVALID when settings contradict, STOKE_E_IO. */
STOKE_API int stoke_dataset_open(stoke_dataset **out, const stoke_data_params *params, stoke_error *err);
STOKE_API void stoke_dataset_close(stoke_dataset **dataset);

/* Samples after the split. Ids are 0 .. count-1. */
STOKE_API uint64_t stoke_dataset_count(const stoke_dataset *dataset);
/* 1 when samples have masks; 0: masks are zeros, or there are targets. */
STOKE_API int stoke_dataset_has_masks(const stoke_dataset *dataset);

typedef struct stoke_sample {
    const char *name;        /* the stem; unique; what the split hashes */
    const char *image_path;  /* full path, for people: "shards/000000.tar:a/b.jpg" for a member */
    const char *mask_path;   /* NULL: zeros */
    stoke_blob image, mask;  /* what to read */
    const char *target_path; /* task restore: the picture that the image should become; NULL otherwise */
    stoke_blob target;
} stoke_sample;

/* Strings belong to the dataset. id must be < count. */
STOKE_API stoke_sample stoke_dataset_sample(const stoke_dataset *dataset, uint64_t id);

/* Hash of names and their order: tells a saved state from one of another set. */
STOKE_API uint64_t stoke_dataset_fingerprint(const stoke_dataset *dataset);

/* The label map that the settings ask for, with the names of its classes: those of `names`, of a file of
 * colours, or of a file beside the set (classes.txt, names.txt, labels.txt, data.yaml). Destroy it. */
STOKE_API int stoke_data_labels(stoke_labels **out, const stoke_data_params *params, stoke_error *err);

/* What was left out while matching. */
typedef enum stoke_note_kind {
    STOKE_NOTE_IMAGE_WITHOUT_MASK, /* or, with targets, without one; likewise below */
    STOKE_NOTE_MASK_WITHOUT_IMAGE,
    STOKE_NOTE_DUPLICATE,
    STOKE_NOTE_NOT_A_FILE /* a link or device inside a shard */
} stoke_note_kind;
typedef struct stoke_note {
    stoke_note_kind kind;
    const char *path;
    const char *detail; /* for people: "same stem as images/a.png" */
} stoke_note;
STOKE_API size_t stoke_dataset_notes(const stoke_dataset *dataset);
STOKE_API stoke_note stoke_dataset_note(const stoke_dataset *dataset, size_t index);

/* ---- verify: reads everything ---- */

typedef struct stoke_bad_file {
    const char *path;
    const char *reason;
    int code;
} stoke_bad_file;
typedef struct stoke_class_count {
    uint32_t id; /* class id after the label map; ignore_index included */
    uint64_t pixels, samples;
} stoke_class_count;
typedef struct stoke_verify_report {
    uint64_t pairs, ok;
    size_t n_bad, n_classes;
    stoke_bad_file *bad;        /* in id order */
    stoke_class_count *classes; /* ascending id */
    uint64_t image_bytes, mask_bytes, target_bytes;
    uint32_t min_width, min_height, max_width, max_height;
    uint64_t formats[8]; /* images by stoke_format */
    uint64_t images16;   /* those with 16 bits per value, and the range of their values */
    uint32_t min_value16, max_value16;
    double seconds;
    /* How training would take the masks; it judges by the same rules. */
    const char **remarks; /* what is worth knowing, a sentence each */
    size_t n_remarks;
    const char *refusal; /* why it would not begin; NULL: it would */
    stoke_labels
        *labels; /* what values mean, and names of classes (stoke_labels_name); NULL: no masks, or refused */
    int64_t n_ids; /* classes; 0: not known */
    int64_t ignore_index;
    char unrecorded[1024]; /* bad samples that params->quarantine lacks since it cannot be written; "" = none
                            */
} stoke_verify_report;

/* Decodes every sample with `threads` threads (0 = auto). A bad file is a line in the report, not a failure:
 * returns 0 unless the work itself could not be done. Bad samples are recorded in params->quarantine where
 * that is not the name of stoke_data_defaults(). */
STOKE_API int stoke_verify(const stoke_dataset *dataset, const stoke_data_params *params, unsigned threads,
                           stoke_progress_fn progress, void *context, stoke_verify_report *report,
                           stoke_error *err);
STOKE_API void stoke_verify_report_free(stoke_verify_report *report);

#endif
