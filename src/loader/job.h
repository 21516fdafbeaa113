/* SPDX-License-Identifier: Apache-2.0
 *
 * One sample on its way through a bench:
 *
 *   fetch.c       bytes in, headers read, the memory gate
 *   sample.c      the draw, and the order of the steps
 *   focus.c       the pixel a foreground crop looks at
 *   kept.c        the cache: gives the whole prefix, or keeps it
 *   prefix.c      decoded, labelled, fitted: what does not depend on the draw, or only on its box
 *   lay_image.c   laid out as the plan says, into the batch row
 *   lay_mask.c
 *   raw.c         or not laid out at all: left to a device
 *   given.c       or pictures that somebody has already (rows.c) instead of files
 */
#ifndef STOKE_SRC_LOADER_JOB_H
#define STOKE_SRC_LOADER_JOB_H

#include <stoke/augment.h>
#include <stoke/plan.h>

#include "src/loader/gate.h"
#include "src/loader/raw.h"

typedef struct stk_stamp {
    uint64_t wall, cpu;
} stk_stamp;

/* What is known about a sample's files (kept.c). */
typedef struct stk_kept {
    stk_identity image_file, mask_file;
    stk_digest image, mask;
    stk_cache_key key;
    int identified, known; /* the identities are set; and the digests, from the memo */
    int found, stored;     /* the cache had it; has it now */
    int from_ram;          /* it was found in memory */
} stk_kept;

typedef struct stk_job {
    stk_bench *bench;
    const stk_recipe *recipe;
    stoke_sample sample;
    size_t image_bytes, mask_bytes; /* in bench->image_file and mask_file */
    stoke_image_info image_info, mask_info;
    int knows_mask; /* mask_info is set: by probing the mask, or by who has no use for its pixels */
    stoke_orientation orientation; /* of the image: ignore or apply */
    uint32_t width, height;        /* of the source, as decoded */
    stoke_plan plan;
    void *image_row, *mask_row; /* of the batch */
    stk_raw_row *raw;           /* what is put there as it is; NULL: rows are laid out */
    stoke_image image, ids;     /* whole, then fitted; ids.data NULL: not decoded yet, or no mask: zeros */
    stk_kept kept;              /* only with a cache */
    stk_stamp last;
    stoke_error *err;
} stk_job;

/* The time now, and booking what passed since job->last on a stage. */
stk_stamp stk_stamp_now(void);
void stk_job_stamp(stk_job *job, stoke_stage stage);

/* Puts the file's name before the reason: the decoder knows the one, only we know the other. Returns status.
 */
int stk_job_in_file(const stk_job *job, const char *path, int status);

/* fetch.c: both files into the bench, their headers into the job; waits for its turn where they are large,
 * and refuses what memory_limit does not allow (gate NULL: neither).
 * The only place where a sample's bytes are read. */
int stk_fetch(stk_job *job, stk_gate *gate);

/* prefix.c: fills job->image and job->ids with the fitted picture of job->plan, decoding no more than its box
 * (and no mask when job->ids has the whole one already). */
int stk_prefix_region(stk_job *job);
/* The same in two steps. After the first one image and ids are what every epoch has in common: a cache gives
 * them instead, or keeps them. The second changes no pixel they point to and needs no file. */
int stk_prefix_whole(stk_job *job);
int stk_prefix_cut(stk_job *job);
/* Only the whole mask, at the source's own size, for those who must look at it before they draw. */
int stk_prefix_ids(stk_job *job);

/* focus.c: the pixel of job->ids (the whole mask) that plan.focus_class and focus_pixel stand for. *found = 0
 * when the mask has nothing but ignore_index and background. */
int stk_focus(stk_job *job, uint32_t focus[2], int *found);

/* sample.c: job->plan. A crop that wants to look at the mask is drawn again with what it sees there; a mask
 * without foreground, or none at all, leaves the plan as it is. */
int stk_draw_plan(stk_job *job, stoke_draw *draw);

/* sample.c: job->image and job->ids into the rows of the batch, as the plan says. */
int stk_lay(stk_job *job);
/* lay_image.c, lay_mask.c: its parts. The image comes first; with a warp, stk_warp_begin before both. */
int stk_lay_image(stk_job *job);
int stk_lay_mask(stk_job *job);
/* job->ids as geometry takes them: zeros without a mask, left and right exchanged if the plan says so. */
int stk_lay_ids(stk_job *job);

/* raw.c: job->image, ids and plan into a raw row instead. */
int stk_raw_put(stk_job *job);
/* Where the fitted picture of the plan ends up in a raw row, so that who makes it can make it there; data
 * NULL when it cannot stay there, or the plan is not drawn yet. */
stoke_image stk_raw_image_place(const stk_job *job);
stoke_image stk_raw_ids_place(const stk_job *job);

/* The plan's mirrors as bits of STK_MIRROR_. */
static inline int stk_job_mirror(const stk_job *job)
{
    return (job->plan.hflip ? STK_MIRROR_H : 0) | (job->plan.vflip ? STK_MIRROR_V : 0);
}

#endif
