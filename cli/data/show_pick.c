/* SPDX-License-Identifier: Apache-2.0
 *
 * The sample of show --ops where none was named. The first of a set is often the worst to look at, a frame at
 * night or an empty one: of a few, spread over the set, the one with the most classes that is neither dark
 * nor bright. The same set gives the same one.
 */
#include "cli/data/show.h"

enum {
    LOOKS = 24,
    SIDE = 64, /* pictures are looked at this small */
    DARK = 70, /* means of bytes, beyond which details are hard to see */
    BRIGHT = 185
};

static uint32_t classes_in(const stoke_batch *batch)
{
    uint8_t seen[65536] = { 0 };
    uint32_t n = 0;
    const size_t depth = stoke_dtype_bytes(batch->mask_dtype);
    const uint8_t *ids = batch->masks;
    for (size_t i = 0; i < batch->mask_row_bytes; i += depth) {
        const uint32_t id = depth == 1 ? ids[i] : ids[i] | (uint32_t)ids[i + 1] << 8;
        n += !seen[id];
        seen[id] = 1;
    }
    return n;
}

/* More is better. Light counts before classes. */
static uint32_t worth_of(const stoke_batch *batch)
{
    const uint8_t *bytes = batch->images;
    uint64_t sum = 0;
    for (size_t i = 0; i < batch->image_row_bytes; i++) sum += bytes[i];
    const uint64_t mean = sum / batch->image_row_bytes;
    return classes_in(batch) + (mean >= DARK && mean <= BRIGHT ? 1u << 20 : 0);
}

/* Samples that cannot be read are passed over; where none can, the first will say why. */
static int look(const stoke_dataset *set, const stoke_data_params *data, uint64_t *best, stoke_error *err)
{
    stoke_loader *loader = NULL;
    const stoke_batch *batch;
    uint32_t most = 0;
    int r = stoke_loader_create(&loader, set, data, NULL, err);
    *best = 0;
    while (!r && !(r = stoke_loader_next(loader, &batch))) {
        const uint32_t worth = worth_of(batch);
        if (worth > most) most = worth, *best = batch->ids[0];
        stoke_batch_release(loader, &batch);
        if (cli_interrupted()) r = cli_error(err, STOKE_E_CANCELLED, "interrupted");
    }
    stoke_loader_destroy(&loader);
    return r == STOKE_E_CANCELLED || r == STOKE_E_NOMEM ? r : STOKE_OK;
}

int show_pick_sample(const stoke_data_params *given, uint64_t *sample, stoke_error *err)
{
    stoke_data_params data = *given;
    stoke_dataset *set = NULL;
    int r = stoke_dataset_open(&set, &data, err);
    if (r) return r;
    const uint64_t count = stoke_dataset_count(set), looks = count < LOOKS ? count : LOOKS;
    stoke_dataset_thin(set, LOOKS);
    data.size[0] = data.size[1] = SIDE;
    data.augment = "none";
    data.order = STOKE_ORDER_SEQUENTIAL;
    data.weights = NULL;
    data.batch = 1;
    data.rank = 0;
    data.world = 1;
    data.epoch = 0;
    data.policy = STOKE_POLICY_SKIP;
    data.max_bad = "100%";
    data.workers = 0;
    data.cache = "";
    data.cache_ram = data.cache_disk = 0;
    data.quarantine = "";
    r = look(set, &data, sample, err);
    *sample = (uint64_t)((unsigned __int128)*sample * count / looks); /* as thinning spread them */
    stoke_dataset_close(&set);
    return r;
}
