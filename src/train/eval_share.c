/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/eval_share.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/loader/loader.h"
#include "src/train/setup.h"

/* ---- which of the set ---- */

/* What a rank tells all others of its share. The rest follows: how much of it goes to rank 0. */
typedef struct stk_eval_word {
    int32_t code;
    uint32_t worst;
    uint64_t parts, samples;
    stk_evaluate_worst list[STK_WORST];
    stk_gallery_note kept[STK_PICTURES];
    stk_evaluate_bad bad;
} stk_eval_word;

int stk_eval_share_open(stk_eval_share *share, stk_comm *comm, const stoke_dataset *dataset,
                        const char *max_bad, stoke_error *err)
{
    const uint32_t world = stk_comm_world(comm);
    *share =
        (stk_eval_share){ .comm = comm, .rank = stk_comm_rank(comm), .world = world, .dataset = dataset };
    if (!comm) return STOKE_OK;
    const int r = stk_max_bad_limit(max_bad, stoke_dataset_count(dataset), &share->max_bad, err);
    if (r) return r;
    share->words = stk_calloc((size_t)world + 1, sizeof *share->words);
    share->ports = stk_calloc(2 * (size_t)world, sizeof *share->ports);
    if (share->words && share->ports) return STOKE_OK;
    stk_eval_share_close(share);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the words of %u ranks", (unsigned)world);
}

void stk_eval_share_close(stk_eval_share *share)
{
    stk_free(share->words);
    stk_free(share->ports);
    *share = (stk_eval_share){ 0 };
}

uint64_t stk_eval_share_own(const stk_eval_share *share, uint64_t count)
{
    if (!share) return count;
    return count / share->world + (count % share->world > share->rank);
}

static uint64_t route_at(const void *context, uint64_t k)
{
    const stk_eval_share *share = context;
    const uint64_t number = stk_eval_share_at(share, k);
    return number < share->batches ? number : UINT64_MAX;
}

void stk_eval_share_follow(stk_eval_share *share, stoke_loader *loader)
{
    const stk_loader_route route = { .at = route_at, .context = share };
    share->batches = stk_loader_batches_from(loader, 0);
    stk_loader_follow(loader, &route);
}

/* ---- parts ---- */

static size_t part_bytes(int restores)
{
    return restores ? sizeof(stk_eval_part) : offsetof(stk_eval_part, output);
}

void stk_eval_sums_begin(stk_eval_sums *sums)
{
    sums->each = part_bytes(sums->restored != NULL);
    if (sums->confusion) stoke_confusion_reset(sums->confusion);
}

int stk_eval_sums_add(stk_eval_sums *sums, const stk_eval_part *part, stoke_error *err)
{
    if (!stk_grow(&sums->parts, &sums->room, sums->n + 1, sums->each))
        return stk_fail(err, STOKE_E_NOMEM, "no memory for the scores of %zu samples", sums->n + 1);
    memcpy((char *)sums->parts + sums->n++ * sums->each, part, sums->each);
    return STOKE_OK;
}

void stk_eval_sums_free(stk_eval_sums *sums)
{
    stk_free(sums->parts);
    sums->parts = NULL;
    sums->n = sums->room = 0;
}

static int by_place(const void *a, const void *b)
{
    const stk_eval_part *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* All parts, in the order of the set. */
static void add_up(stk_eval_sums *sums)
{
    stk_evaluate_result *result = sums->result;
    double loss = 0;
    uint64_t losses = 0, resized = 0;
    result->samples = result->windows = 0;
    if (sums->n) qsort(sums->parts, sums->n, sums->each, by_place);
    for (size_t i = 0; i < sums->n; i++) {
        const stk_eval_part *part = (const void *)((const char *)sums->parts + i * sums->each);
        loss += part->loss;
        losses += part->losses;
        resized += part->resized;
        result->samples += part->samples;
        result->windows += part->windows;
        if (sums->restored) stk_restored_put(sums->restored->output, &part->output);
        if (sums->restored) stk_restored_put(sums->restored->input, &part->input);
    }
    /* NaN when no pixel counted, and as soon as a picture was resized that was to be slid over: a mean over
     * some of them would look like one over all. */
    result->loss = resized ? NAN : loss / (double)losses;
    if (sums->restored)
        stk_restored_sums_scores(sums->restored, result);
    else
        result->scores = stoke_confusion_scores(sums->confusion);
}

/* ---- to rank 0 ---- */

/* Of all ranks; the first is the first in the set. */
static stk_evaluate_bad all_bad(const stk_eval_share *share)
{
    stk_evaluate_bad all = share->words[0].bad;
    for (uint32_t q = 1; q < share->world; q++) {
        const stk_evaluate_bad *own = &share->words[q].bad;
        if (*own->first && (!*all.first || own->place < all.place)) {
            all.place = own->place;
            memcpy(all.first, own->first, sizeof all.first);
        }
        all.replaced += own->replaced;
        all.left_out += own->left_out;
    }
    return all;
}

/* Numbers that index memory here, of a rank that may run on a broken machine. */
static int is_sane(const stk_eval_share *share, const stk_eval_word *word)
{
    const uint64_t count = stoke_dataset_count(share->dataset);
    int sane = word->worst <= STK_WORST && word->parts <= count && word->samples <= count &&
               memchr(word->bad.first, 0, sizeof word->bad.first);
    for (uint32_t i = 0; sane && i < word->worst; i++) sane = word->list[i].id < count;
    return sane;
}

static int check_words(const stk_eval_share *share, stoke_error *err)
{
    char name[160];
    for (uint32_t q = 0; q < share->world; q++)
        if (!is_sane(share, &share->words[q]))
            return stk_fail(err, STOKE_E_STATE,
                            "%s has found what cannot be in this set: is its memory sound?",
                            stk_comm_name_of(share->comm, q, name, sizeof name));
    return STOKE_OK;
}

/* Each hears what became of all; an error of one is the end for everyone. */
static int tell(const stk_eval_sums *s, const stk_eval_share *share, stoke_error *err)
{
    const stk_eval_word *mine = &share->words[share->world];
    stoke_error own = { 0 };
    int status = stk_comm_all(share->comm, mine, sizeof *mine, share->words, &own);
    if (!status) status = check_words(share, &own);
    if (!status) s->result->bad = all_bad(share);
    if (mine->code) return mine->code;
    if (status) return stk_fail_again(err, status, own.message);
    for (uint32_t q = 0; q < share->world; q++)
        if (share->words[q].code)
            return stk_fail(err, STOKE_E_CANCELLED, "another process has ended the evaluation");
    return STOKE_OK;
}

/* Each has seen to it that its own bad samples are within the limit; now all of them are counted. */
static int check_bad(const stk_eval_sums *s, const stk_eval_share *share, stoke_error *err)
{
    const char *first = s->result->bad.first;
    const uint64_t count = stoke_dataset_count(share->dataset);
    uint64_t good = 0;
    for (uint32_t q = 0; q < share->world; q++) good += share->words[q].samples;
    if (count - good <= share->max_bad) return STOKE_OK;
    return stk_fail(
        err, STOKE_E_TOO_BAD, "%llu of %llu samples are bad, more than max_bad allows (%llu); %s%s",
        (unsigned long long)(count - good), (unsigned long long)count, (unsigned long long)share->max_bad,
        *first ? "the first: " : "", *first ? first : "`stoke verify` names them");
}

/* Bytes of rank q into rank 0's memory; for all others there is nothing to do. */
static int bring(const stk_eval_share *share, uint32_t q, void *data, size_t bytes, stoke_error *err)
{
    const uint32_t peer = share->rank ? 0 : q;
    stoke_comm_part *send = share->ports, *recv = send + share->world;
    if (!q || (share->rank && share->rank != q) || !bytes) return STOKE_OK;
    (share->rank ? send : recv)[peer] = (stoke_comm_part){ data, bytes };
    const int r = stk_comm_exchange(share->comm, send, recv, err);
    send[peer] = recv[peer] = (stoke_comm_part){ 0 };
    return r;
}

static int bring_parts(stk_eval_sums *s, const stk_eval_share *share, stoke_error *err)
{
    int r = STOKE_OK;
    for (uint32_t q = 1; !r && q < share->world; q++) {
        const size_t parts = share->words[q].parts;
        void *data = share->rank ? s->parts : (char *)s->parts + s->n * s->each;
        r = bring(share, q, data, parts * s->each, err);
        if (!r && !share->rank) s->n += parts;
    }
    return r;
}

/* One matrix after the other into the same memory: counts may be added in any order. */
static int bring_counts(stk_eval_sums *s, const stk_eval_share *share, uint64_t *room, stoke_error *err)
{
    size_t cells;
    uint64_t *own = stk_confusion_cells(s->confusion, &cells);
    int r = STOKE_OK;
    for (uint32_t q = 1; !r && q < share->world; q++) {
        r = bring(share, q, share->rank ? own : room, cells * sizeof *own, err);
        for (size_t i = 0; !r && !share->rank && i < cells; i++) own[i] += room[i];
    }
    return r;
}

/* Each is of one rank: straight to where it is kept. */
static int bring_pictures(stk_eval_sums *s, const stk_eval_share *share, stoke_error *err)
{
    const uint32_t count = (uint32_t)stk_least(stk_gallery_count(s->gallery), STK_PICTURES);
    int r = STOKE_OK;
    for (uint32_t q = 1; q < share->world; q++)
        for (uint32_t i = 0; !r && i < count; i++) {
            const stk_gallery_note *note = &share->words[q].kept[i];
            size_t bytes;
            void *pixels = stk_gallery_pixels(s->gallery, i, &bytes);
            if (!note->seen) continue;
            r = bring(share, q, pixels, bytes, err);
            if (!r && !share->rank) stk_gallery_accept(s->gallery, i, note, share->dataset);
        }
    return r;
}

static void take_worst(stk_eval_sums *s, const stk_eval_share *share)
{
    for (uint32_t q = 1; q < share->world; q++)
        for (uint32_t i = 0; i < share->words[q].worst; i++) {
            stk_evaluate_worst one = share->words[q].list[i];
            one.name = stoke_dataset_sample(share->dataset, one.id).name;
            stk_worst_note(s->result, &one, s->restored != NULL);
        }
}

static stk_eval_word word_of(const stk_eval_sums *s, int r)
{
    stk_eval_word word = {
        .code = r, .bad = s->result->bad, .worst = (uint32_t)s->result->n_worst, .parts = s->n
    };
    for (size_t i = 0; i < s->n; i++)
        word.samples +=
            ((const stk_eval_part *)(const void *)((const char *)s->parts + i * s->each))->samples;
    memcpy(word.list, s->result->worst, sizeof word.list);
    for (uint32_t i = 0; i < stk_gallery_count(s->gallery) && i < STK_PICTURES; i++)
        word.kept[i] = stk_gallery_note_of(s->gallery, i);
    return word;
}

/* Rank 0's memory for what comes, taken before anything is on its way. */
static int make_room(stk_eval_sums *s, const stk_eval_share *share, uint64_t **counts, stoke_error *err)
{
    size_t parts = 0, cells = 0;
    if (share->rank) return STOKE_OK;
    for (uint32_t q = 0; q < share->world; q++) parts += share->words[q].parts;
    if (s->confusion) stk_confusion_cells(s->confusion, &cells);
    *counts = stk_alloc((cells + 1) * sizeof **counts);
    if (*counts && stk_grow(&s->parts, &s->room, parts, s->each)) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "no memory for what %u ranks have found", (unsigned)share->world);
}

static int gather(stk_eval_sums *s, const stk_eval_share *share, int r, stoke_error *err)
{
    uint64_t *counts = NULL;
    stk_eval_word *mine = &share->words[share->world];
    *mine = word_of(s, r);
    r = tell(s, share, err);
    if (!r) r = check_bad(s, share, err);
    if (r) return r;
    mine->code = make_room(s, share, &counts, err);
    r = tell(s, share, err);
    if (r) {
        stk_free(counts);
        return r;
    }
    r = bring_parts(s, share, err);
    if (!r && s->confusion) r = bring_counts(s, share, counts, err);
    if (!r) r = bring_pictures(s, share, err);
    if (r) { /* what is still on its way needs its memory until the process ends (comm.h) */
        s->parts = NULL;
        return r;
    }
    stk_free(counts);
    if (!share->rank) take_worst(s, share);
    return STOKE_OK;
}

int stk_eval_sums_finish(stk_eval_sums *s, const stk_eval_share *share, int r, stoke_error *err)
{
    if (share && share->comm) r = gather(s, share, r, err);
    if (!r) add_up(s);
    return r;
}

uint64_t stk_eval_sums_bytes(uint64_t parts, int restores, uint32_t classes, uint32_t world)
{
    /* The list, which doubles as it grows, and as much again while it is put in order. */
    const uint64_t list = 3 * parts * part_bytes(restores),
                   counts = ((uint64_t)classes * classes + 2) * sizeof(uint64_t);
    return world > 1 ? list + counts : list;
}
