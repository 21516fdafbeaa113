/* SPDX-License-Identifier: Apache-2.0
 *
 * A set as tar shards in WebDataset's layout: KEY.jpg and KEY.mask.png side by side, the files byte for byte
 * as they are. What GNU tar and the webdataset package read, and stoke_dataset_open.
 *
 * The same set and settings give the same bytes in every shard: members in the order of the set, no times or
 * owners. Which sample goes where is settled from the sizes of the files before anything is written.
 */
#ifndef STOKE_TOOLS_PACK_H
#define STOKE_TOOLS_PACK_H

#include <stoke/dataset.h>
#include <stoke/memory.h>

typedef struct stoke_pack_params {
    uint32_t struct_size;
    const char *out;    /* folder, made when it is not there */
    const char *prefix; /* of the shards' names, "" = none: 000000.tar; "a": a-000000.tar */
    uint64_t
        shard_bytes; /* a shard is at most so large, unless one sample is larger; 256 MiB, 0 = no limit */
    uint64_t shard_samples; /* and has at most so many samples; 0 = no limit */
    int skip_bad;           /* leave out what cannot be opened or is no picture; else it ends the packing */
    int force;              /* replace what other settings, other sources or somebody else left in `out` */
    const char *quarantine; /* list for what skip_bad leaves out, as a loader keeps it; NULL = none */
    uint64_t memory_limit; /* 0 = none; STOKE_E_LIMIT, before anything is written, when more is needed */
    /* Hears what will be taken of memory, before anything is written; may be NULL. */
    void (*planned)(void *context, const stoke_memory_sum *sum);
    void *planned_context;
} stoke_pack_params;

STOKE_API stoke_pack_params stoke_pack_defaults(void);

typedef struct stoke_pack_report {
    uint64_t shards, kept; /* kept: finished by an earlier run, and left as they are */
    uint64_t replaced;     /* by `force`: shards that were there before */
    uint64_t samples;
    uint64_t bytes, written; /* of all shards; of those that were written now */
    size_t n_bad;
    stoke_bad_file *bad; /* left out by skip_bad, in id order; the other file of the pair goes with them */
    double seconds;
    char unrecorded[1024];   /* of what was left out, what `quarantine` lacks and why; "" = nothing */
    stoke_memory_sum memory; /* planned */
} stoke_pack_report;

/* Writes the samples of the set. A set with its own train and val goes into train-000000.tar ... and
 * val-000000.tar ...; reading gives the same names. Every shard appears whole or not at all, its index file
 * beside it. Run again, it keeps the finished shards, if sources and settings are those of its manifest
 * (stoke-pack.jsonl); otherwise STOKE_E_STATE, as for a file under the name of a packed shard that is not
 * that shard, with `force` too. STOKE_E_CANCELLED when progress (counted in samples) asked to
 * stop: what was being written is removed. */
STOKE_API int stoke_pack(const stoke_dataset *dataset, const stoke_pack_params *params,
                         stoke_progress_fn progress, void *context, stoke_pack_report *report,
                         stoke_error *err);
STOKE_API void stoke_pack_report_free(stoke_pack_report *report);

#endif
