/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluations that processes share: for any number of them, and of whichever kind, rank 0 has the bits that
 * one process has, down to the picture that is drawn; what one rank finds wrong ends it for all.
 */
#include "tests/unit/fixture_pairs.h"

#include <math.h>

#include "src/base/file.h"
#include "src/source/reader.h"
#include "src/train/eval_share.h"
#include "tests/unit/fixture_ranks.h"
#include <stoke/tools/synth.h>

enum { SIZE = 32, SAMPLES = 11, BATCH = 2, MOST_CELLS = PAIRS_CLASSES * PAIRS_CLASSES + 1 };

typedef struct outcome {
    int code;
    char message[STOKE_ERROR_TEXT];
    stk_evaluate_result result;
    char worst[STK_WORST][64];
    uint64_t cells[MOST_CELLS];
    stk_mem_buffer picture;
    size_t picture_bytes;
} outcome;

typedef struct evaluation {
    stoke_data_params data;
    int restores, whole; /* whole: at the pictures' own size */
    char path[80];       /* of the picture: beside the set, which has pictures of its own */
    uint32_t stops;      /* the rank that is asked to stop; MOST_RANKS: none */
    outcome found[MOST_RANKS];
} evaluation;

/* ---- one rank ---- */

typedef struct scratch {
    stoke_net *net;
    stoke_dataset *dataset;
    stoke_labels *labels;
    stoke_loader *loader;
    stoke_confusion *confusion;
    stk_evaluate_gallery *gallery;
    stk_eval_share share;
    stk_original original;
} scratch;

static int open_net(stoke_net **net, const evaluation *e, stoke_error *err)
{
    stoke_net_params params = stoke_net_defaults();
    params.model = e->restores ? "resnet" : "b0";
    params.task = e->data.task;
    params.classes = e->restores ? 0 : PAIRS_CLASSES;
    if (e->restores) params.num_blocks = 1, params.base_channels = 8;
    if (e->restores) params.loss.kind = STOKE_LOSS_CHARBONNIER;
    params.batch = e->restores && e->whole ? 1 : (uint32_t)e->data.batch;
    params.height = params.width = SIZE;
    params.training = 0;
    params.precision = STOKE_PRECISION_FP32;
    params.threads = 1;
    params.seed = 5;
    params.loss.ignore_index = e->data.ignore_index;
    return stoke_net_open(net, &params, err);
}

static int open_original(scratch *b, const evaluation *e, stoke_error *err)
{
    b->original = (stk_original){ .dataset = b->dataset,
                                  .data = &e->data,
                                  .gallery = b->gallery,
                                  .share = &b->share,
                                  .loss = STOKE_LOSS_CHARBONNIER,
                                  .helpers = 2 };
    int r = stk_predictor_borrow(&b->original.predictor, b->net, "random_crop", err);
    if (!r && !e->restores) r = stk_labels_of(&b->labels, &e->data, err);
    b->original.labels = b->labels;
    return r ? r : stk_quarantine_open(&b->original.quarantine, NULL, err);
}

static int open_bench(scratch *b, stk_comm *comm, const evaluation *e, stoke_error *err)
{
    int r = open_net(&b->net, e, err);
    if (!r) r = stoke_dataset_open(&b->dataset, &e->data, err);
    if (!r) r = stk_eval_share_open(&b->share, comm, b->dataset, e->data.max_bad, err);
    if (!r && !e->restores) r = stoke_confusion_create(&b->confusion, PAIRS_CLASSES, 255, err);
    const uint64_t count = r ? 0 : stoke_dataset_count(b->dataset);
    if (!r)
        r = e->restores ? stk_gallery_create_restored(&b->gallery, count, 4, err)
                        : stk_gallery_create(&b->gallery, count, 4, SIZE, SIZE, err);
    if (!r && e->whole) return open_original(b, e, err);
    if (!r) r = stoke_loader_create(&b->loader, b->dataset, &e->data, NULL, err);
    if (!r && comm) stk_eval_share_follow(&b->share, b->loader);
    return r;
}

static void close_bench(scratch *b)
{
    stk_quarantine_close(&b->original.quarantine);
    stoke_predictor_close(&b->original.predictor);
    stoke_labels_destroy(&b->labels);
    stoke_loader_destroy(&b->loader);
    stk_gallery_destroy(&b->gallery);
    stoke_confusion_destroy(&b->confusion);
    stk_eval_share_close(&b->share);
    stoke_dataset_close(&b->dataset);
    stoke_net_close(&b->net);
}

static int stop_now(void *context, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return *(const int *)context;
}

/* What there is to compare, while names live. */
static void keep(outcome *o, const scratch *b, const evaluation *e, stoke_error *err)
{
    for (size_t i = 0; i < o->result.n_worst; i++) {
        snprintf(o->worst[i], sizeof o->worst[i], "%s", o->result.worst[i].name);
        o->result.worst[i].name = NULL;
    }
    size_t cells = 0;
    if (b->confusion) memcpy(o->cells, stk_confusion_cells(b->confusion, &cells), sizeof o->cells);
    RANK_CHECK(!b->confusion || cells == MOST_CELLS);
    RANK_CHECK(
        !stk_gallery_write(b->gallery, e->path, "title", 255, NULL, e->restores ? 0 : PAIRS_CLASSES, err));
    RANK_CHECK(!stk_file_read(e->path, 1 << 24, &o->picture, &o->picture_bytes, err));
    unlink(e->path);
}

/* Twice: a loader is set back, and a gallery keeps what it had. */
static void evaluate(stk_comm *comm, void *context)
{
    evaluation *e = context;
    const uint32_t rank = stk_comm_rank(comm);
    outcome *o = &e->found[rank];
    stoke_error err = { 0 };
    scratch b = { 0 };
    int stops = rank == e->stops;
    RANK_CHECK(!open_bench(&b, comm, e, &err));
    for (int pass = 0; pass < 2; pass++)
        o->code = e->whole
                      ? stk_evaluate_original(&b.original, b.confusion, &o->result, stop_now, &stops, &err)
                      : stk_evaluate(b.net, b.loader, comm ? &b.share : NULL, b.confusion, b.gallery,
                                     &o->result, stop_now, &stops, &err);
    snprintf(o->message, sizeof o->message, "%s", o->code ? err.message : "");
    if (!rank && !o->code) keep(o, &b, e, &err);
    if (*err.message && !o->code) fprintf(stderr, "%s\n", err.message);
    close_bench(&b);
}

/* ---- all of them ---- */

static stoke_data_params settings(void **state, int restores)
{
    stoke_data_params data = pairs_params(state);
    data.batch = BATCH;
    data.workers = 1;
    data.order = STOKE_ORDER_SEQUENTIAL;
    data.dtype = STOKE_IMAGE_DTYPE_F32;
    data.layout = STOKE_LAYOUT_CHW;
    data.normalize = restores ? STOKE_NORMALIZE_UNIT : STOKE_NORMALIZE_IMAGENET;
    data.task = restores ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
    data.ignore_index = 255;
    data.max_bad = "4";
    if (restores) data.classes = 0;
    return data;
}

static void write_set(void **state, int restores)
{
    stoke_synth_params params = stoke_synth_defaults();
    stoke_error err = { 0 };
    params.count = SAMPLES;
    params.height = 40;
    params.width = 52;
    params.restore = 1;
    if (!restores)
        pairs_write(state, SAMPLES, 52, 40);
    else if (stoke_synth_write(&params, unit_folder(state), 1, NULL, NULL, &err))
        fail_msg("%s", err.message);
}

static evaluation *new_evaluation(void **state, int restores)
{
    evaluation *e = calloc(1, sizeof *e);
    e->data = settings(state, restores);
    e->restores = restores;
    e->stops = MOST_RANKS;
    snprintf(e->path, sizeof e->path, "%s.png", unit_folder(state));
    return e;
}

static void free_evaluation(evaluation *e)
{
    stk_buffer_free(&e->found[0].picture);
    free(e);
}

static int same_scores(const stoke_scores *a, const stoke_scores *b)
{
    for (int i = 0; i < STOKE_SCORES; i++) {
        const double x = stoke_score_value(a, i), y = stoke_score_value(b, i);
        if (x != y && !(isnan(x) && isnan(y))) return 0;
    }
    return a->pixels == b->pixels;
}

static int same_worst(const outcome *a, const outcome *b, int restores)
{
    if (a->result.n_worst != b->result.n_worst) return 0;
    for (size_t i = 0; i < a->result.n_worst; i++) {
        const stk_evaluate_worst *x = &a->result.worst[i], *y = &b->result.worst[i];
        const int same = restores ? x->psnr == y->psnr && x->ssim == y->ssim && x->input_psnr == y->input_psnr
                                  : x->miou == y->miou && x->accuracy == y->accuracy;
        if (!same || x->id != y->id || strcmp(a->worst[i], b->worst[i])) return 0;
    }
    return 1;
}

static int same(const outcome *a, const outcome *b, int restores)
{
    const stk_evaluate_result *x = &a->result, *y = &b->result;
    return a->code == b->code && x->loss == y->loss && x->samples == y->samples && x->windows == y->windows &&
           same_scores(&x->scores, &y->scores) && (!restores || same_scores(&x->input, &y->input)) &&
           same_worst(a, b, restores) && !memcmp(a->cells, b->cells, sizeof a->cells) &&
           a->picture_bytes == b->picture_bytes &&
           !memcmp(a->picture.data, b->picture.data, a->picture_bytes);
}

static void assert_same_for_all(evaluation *e, uint64_t samples)
{
    evaluate(NULL, e);
    outcome alone = e->found[0];
    e->found[0] = (outcome){ 0 };
    assert_string_equal(alone.message, "");
    assert_int_equal(alone.result.samples, samples);
    assert_int_equal(alone.result.n_worst, samples);
    assert_true(alone.result.loss > 0 && alone.picture_bytes > 1000);
    static const uint32_t worlds[] = { 2, 3, 7 }; /* of 6 batches */
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        assert_int_equal(run_ranks(worlds[i], 60, evaluate, e), 0);
        if (!same(&alone, &e->found[0], e->restores))
            fail_msg(
                "%u ranks, restores %d, whole %d: rank 0 has another result (%s): loss %.17g, %.17g alone",
                worlds[i], e->restores, e->whole, e->found[0].message, e->found[0].result.loss,
                alone.result.loss);
    }
    stk_buffer_free(&alone.picture);
}

/* ---- tests ---- */

static void segments_have_the_same_bits_for_any_world(void **state)
{
    evaluation *e = new_evaluation(state, 0);
    write_set(state, 0);
    for (e->whole = 0; e->whole < 2; e->whole++) assert_same_for_all(e, SAMPLES);
    free_evaluation(e);
}

static void restored_pictures_have_the_same_bits_for_any_world(void **state)
{
    evaluation *e = new_evaluation(state, 1);
    write_set(state, 1);
    for (e->whole = 0; e->whole < 2; e->whole++) assert_same_for_all(e, SAMPLES);
    free_evaluation(e);
}

/* One in the middle of a batch of three, so that its batch is two parts; one that would be drawn. */
static void spoil(void **state)
{
    static const char *const names[] = { "images/s1.png", "images/s4.png", "images/s9.jpg" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unit_write(unit_path(state, names[i]), "no picture", 10);
}

static void bad_samples_are_left_out_by_all(void **state)
{
    evaluation *e = new_evaluation(state, 0);
    write_set(state, 0);
    spoil(state);
    e->data.batch = 3;
    assert_same_for_all(e, SAMPLES - 3);
    e->data.policy = STOKE_POLICY_SKIP;
    e->data.batch = 1; /* of which nothing is left */
    for (e->whole = 0; e->whole < 2; e->whole++) assert_same_for_all(e, SAMPLES - 3);
    free_evaluation(e);
}

/* Three of six ranks have a bad sample each, so none has too many by itself. Substitutes may be bad, too, and
 * would count: there are none. */
static void bad_samples_of_all_ranks_count(void **state)
{
    evaluation *e = new_evaluation(state, 0);
    write_set(state, 0);
    spoil(state);
    e->data.policy = STOKE_POLICY_SKIP;
    e->data.max_bad = "2";
    e->data.batch = 1;
    for (e->whole = 0; e->whole < 2; e->whole++) {
        assert_int_equal(run_ranks(6, 60, evaluate, e), 0);
        for (uint32_t q = 0; q < 6; q++) {
            assert_int_equal(e->found[q].code, STOKE_E_TOO_BAD);
            const char *rest =
                strstr(e->found[q].message, "3 of 11 samples are bad, more than max_bad allows (2); ");
            assert_ptr_equal(rest, e->found[q].message);
            assert_non_null(strstr(rest, e->whole ? "the first: " : "`stoke verify` names them"));
            assert_true(!e->whole || strstr(rest, "/images/s1.png: "));
        }
    }
    free_evaluation(e);
}

static void what_ends_one_ends_all(void **state)
{
    evaluation *e = new_evaluation(state, 0);
    write_set(state, 0);
    e->stops = 1;
    for (e->whole = 0; e->whole < 2; e->whole++) {
        assert_int_equal(run_ranks(3, 60, evaluate, e), 0);
        for (uint32_t q = 0; q < 3; q++) assert_int_equal(e->found[q].code, STOKE_E_CANCELLED);
        assert_string_equal(e->found[0].message, "another process has ended the evaluation");
        assert_string_not_equal(e->found[1].message, e->found[0].message);
    }
    free_evaluation(e);
}

/* Rank 1 has a list longer than there is room for, and then pictures that are not there. */
static void unsound_on_rank(stk_comm *comm, void *context)
{
    const evaluation *e = context;
    const int second = stk_comm_rank(comm) == 1;
    for (int what = 0; what < 4; what++) {
        stoke_error err = { 0 };
        stoke_dataset *dataset = NULL;
        stk_eval_share share;
        stk_evaluate_result result = { 0 };
        stk_eval_sums sums = { .result = &result };
        RANK_CHECK(!stoke_dataset_open(&dataset, &e->data, &err));
        RANK_CHECK(!stk_eval_share_open(&share, comm, dataset, "50%", &err));
        stk_eval_sums_begin(&sums);
        if (second && what == 0) result.n_worst = STK_WORST + 1;
        if (second && what == 1) result.worst[result.n_worst++].id = SAMPLES;
        if (second && what == 2) sums.n = SAMPLES + 1, sums.parts = calloc(sums.n, sums.each);
        if (second && what == 3) memset(result.bad.first, 'x', sizeof result.bad.first);
        RANK_CHECK(stk_eval_sums_finish(&sums, &share, STOKE_OK, &err) == STOKE_E_STATE);
        RANK_CHECK(strstr(err.message, "rank 1 (") && strstr(err.message, "cannot be in this set"));
        if (second && what == 2) free(sums.parts);
        stk_eval_share_close(&share);
        stoke_dataset_close(&dataset);
    }
}

static void what_cannot_be_is_refused_by_all(void **state)
{
    evaluation *e = new_evaluation(state, 0);
    write_set(state, 0);
    assert_int_equal(run_ranks(3, 60, unsound_on_rank, e), 0);
    free_evaluation(e);
}

static void a_share_has_every_sample_once(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= 6; world++)
        for (uint64_t count = 0; count <= 20; count++) {
            uint8_t seen[20] = { 0 };
            for (uint32_t rank = 0; rank < world; rank++) {
                const stk_eval_share share = { .rank = rank, .world = world };
                for (uint64_t i = 0; i < stk_eval_share_own(&share, count); i++)
                    assert_int_equal(seen[stk_eval_share_at(&share, i)]++, 0);
            }
            for (uint64_t i = 0; i < count; i++) assert_int_equal(seen[i], 1);
        }
}

/* A picture whose score is no number is the worst, whoever comes first. */
static void the_worst_do_not_depend_on_who_comes_first(void **state)
{
    (void)state;
    const double scores[] = { 30, NAN, 20, NAN, 25 };
    static const uint64_t wanted[] = { 1, 3, 2, 4, 0 };
    for (size_t first = 0; first < 5; first++) {
        stk_evaluate_result result = { 0 };
        for (size_t i = 0; i < 5; i++) {
            const size_t at = (first + 2 * i) % 5;
            const stk_evaluate_worst one = { .id = at, .psnr = scores[at] };
            stk_worst_note(&result, &one, 1);
        }
        for (size_t i = 0; i < 5; i++) assert_int_equal(result.worst[i].id, wanted[i]);
    }
}

/* A list of parts at every length: what it holds while it moves, and once more when it is sorted. */
static void the_plan_covers_the_list(void **state)
{
    (void)state;
    for (int restores = 0; restores < 2; restores++) {
        stk_restored_sums none = { 0 };
        stk_eval_sums sums = { .restored = restores ? &none : NULL };
        const stk_eval_part part = { .samples = 1 };
        stk_eval_sums_begin(&sums);
        for (uint64_t n = 1; n <= 3000; n++) {
            const size_t before = sums.room;
            assert_int_equal(stk_eval_sums_add(&sums, &part, NULL), 0);
            const uint64_t held = (sums.room == before ? sums.room + n : sums.room + before) * sums.each;
            if (n > 64) assert_in_range(held, 0, stk_eval_sums_bytes(n, restores, 19, 1));
        }
        assert_int_equal(stk_eval_sums_bytes(8, restores, 19, 2) - stk_eval_sums_bytes(8, restores, 19, 1),
                         (19 * 19 + 2) * 8);
        stk_eval_sums_free(&sums);
    }
}

UNIT_GROUP(eval_share)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_has_every_sample_once),
        cmocka_unit_test(the_plan_covers_the_list),
        cmocka_unit_test(the_worst_do_not_depend_on_who_comes_first),
        unit_test_with_folder(segments_have_the_same_bits_for_any_world),
        unit_test_with_folder(restored_pictures_have_the_same_bits_for_any_world),
        unit_test_with_folder(bad_samples_are_left_out_by_all),
        unit_test_with_folder(bad_samples_of_all_ranks_count),
        unit_test_with_folder(what_ends_one_ends_all),
        unit_test_with_folder(what_cannot_be_is_refused_by_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
