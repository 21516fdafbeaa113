/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings files of every dialect into our options: what is understood, from which line, what is remarked,
 * what is refused; and the tree of Python and JSON files, whose values keep their bytes.
 */
#include <stoke/tools/data.h>
#include <stoke/tools/upload.h>
#include <stoke/tools/train.h>
#include <sys/stat.h>

#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/settings/yaml_tree.h"
#include "tests/unit/unit.h"

typedef struct reading {
    stoke_data_params data;
    stoke_train_params train;
    stoke_upload_params upload;
    stoke_option_storage *storage;
    stoke_yaml *yaml;
    stoke_config_origin origins[64];
    size_t n_origins;
    char remarks[4096];
    stoke_error err;
} reading;

static int read_file(reading *r, const char *path, const char *const *given)
{
    *r = (reading){ .data = stoke_data_defaults(),
                    .train = stoke_train_defaults(),
                    .upload = stoke_upload_defaults() };
    const stoke_option_group groups[] = { stoke_data_options(&r->data), stoke_train_options(&r->train),
                                          stoke_upload_options(&r->upload) };
    stoke_config_use use = { .groups = groups,
                             .n_groups = 3,
                             .given = given,
                             .remarks = r->remarks,
                             .remarks_size = sizeof r->remarks,
                             .origins = r->origins,
                             .max_origins = 64 };
    int status = stoke_config_open(&r->yaml, path, &r->err);
    if (!status) status = stoke_config_apply(r->yaml, &use, &r->data, &r->storage, &r->err);
    r->n_origins = use.n_origins;
    return status;
}

static int read_text(void **state, reading *r, const char *name, const char *text)
{
    const char *path = unit_path(state, name);
    unit_write(path, text, strlen(text));
    return read_file(r, path, NULL);
}

static void end(reading *r)
{
    stoke_options_free_storage(&r->storage);
    stoke_yaml_close(&r->yaml);
}

/* The value of an option as text. */
static const char *value_of(reading *r, const char *option, char text[STK_OPTION_TEXT])
{
    const stoke_option_group groups[] = { stoke_data_options(&r->data), stoke_train_options(&r->train),
                                          stoke_upload_options(&r->upload) };
    for (size_t g = 0; g < 3; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            if (!strcmp(groups[g].options[i].name, option))
                return stk_option_text(&groups[g].options[i], groups[g].target, text);
    fail_msg("no option %s", option);
    return NULL;
}

static void check_values(reading *r, const char *wanted)
{
    char list[512], text[STK_OPTION_TEXT];
    snprintf(list, sizeof list, "%s", wanted);
    for (char *word = strtok(list, " "); word; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        *equals = 0;
        const char *is = value_of(r, word, text);
        if (!is || strcmp(is, equals + 1) != 0)
            fail_msg("%s is %s, not %s", word, is ? is : "NULL", equals + 1);
    }
}

static void dialects(void **state)
{
    static const struct {
        const char *name, *text, *values, *remark;
    } cases[] = {
        { "flat.yaml",
          "model_name: nvidia/segformer-b5-finetuned-ade-512-512\nbatch_size: '16'\nnum_workers: "
          "4\nlearning_rate: "
          "1e-4\nnum_epochs: 7\nuse_mixed_precision: true\nimage_size: (288, 320)\nnum_classes: "
          "19\ngrad_clip: 0.5\n"
          "optimizer: torch.optim.SGD\nscheduler: CosineAnnealingLR\nweight_decay_end: 1\nlogger: {name: "
          "x}\n",
          "model=b5 batch=16 workers=4 lr=0.0001 epochs=7 precision=fp16 size=288x320 classes=19 "
          "clip_norm=0.5 "
          "optimizer=sgd schedule=cosine",
          "not used here: weight_decay_end, logger.name\n" },
        { "resnet.yaml", "base_channels: 48\nnum_blocks: 6\nbatch_size: 4\nloss: L1Loss\n",
          "model=resnet base_channels=48 num_blocks=6 batch=4 loss=l1", "" },
        { "hub.yaml", "model_name: nvidia/segformer-b1-finetuned-ade-512-512\nnum_epochs: 3\n",
          "model=b1 epochs=3", "hub.yaml:1: model_name: weights are not fetched: --pretrained DIR" },
        { "sections.yaml",
          "data: {batch_size: 4, val_split: 0.2}\nmodel: {name: segformer, variant: b2}\ntraining:\n  "
          "use_amp: true\n"
          "  amp_dtype: bfloat16\n  loss: DiceCELoss\n  use_gpu_augmentation: true\n",
          "batch=4 val_split=0.2 model=b2 precision=bf16 loss=ce_dice placement=device", "" },
        { "ds.yaml",
          "train_ds: {batch_size: 16-32, num_workers: 8, prefetch_factor: 4, shuffle: false, pin_memory: "
          "true}\n"
          "validation_ds: {batch_size: 1}\n",
          "batch=16 workers=8 prefetch=4 order=sequential", "'16-32' is a range: 16 is taken" },
        { "pl.yaml",
          "data: &d\n  batch_size: 8\nloader:\n  <<: *d\n  num_workers: 3\ntrainer:\n  devices: -1\n  "
          "strategy: ddp\n"
          "  precision: bf16-true\n  accumulate_grad_batches: 4\n  max_epochs: 3\n  gradient_clip_val: "
          "null\n",
          "batch=8 workers=3 precision=bf16 accumulate=4 epochs=3 clip_norm=0",
          "not used here: trainer.devices, trainer.strategy" },
        { "hf.json",
          "{\n\t\"per_device_train_batch_size\": 8,\n\t\"fp16\": false, \"bf16\": "
          "true,\n\t\"num_train_epochs\": 3.0,\n"
          "\t\"max_steps\": -1, \"warmup_ratio\": 0.0, \"warmup_steps\": 50, \"lr_scheduler_type\": "
          "\"linear\",\n"
          "\t\"dataloader_num_workers\": 2, \"optim\": \"adamw_torch\", \"logging_steps\": 10\n}\n",
          "batch=8 precision=bf16 epochs=3 steps=0 warmup=50 schedule=poly workers=2 optimizer=adamw "
          "log_every=10",
          "" },
        { "upper.yaml",
          "TrainingConfig:\n  BATCH_SIZE: 8\n  MODEL_NAME: mit_b3\n  INIT_LR: 3e-4\n  USE_SCHEDULER: false\n"
          "DatasetConfig:\n  IMAGE_SIZE: [288, 288]\n",
          "batch=8 model=b3 lr=0.0003 schedule=constant size=288", "" },
        { "config.py",
          "import os\nNUM_WORKERS = os.cpu_count()\n@dataclass\nclass TrainingConfig:\n    BATCH_SIZE: int = "
          "8\n"
          "    MODEL_NAME: str = 'segformer-b4'  # large\n    INIT_LR: float = field(default=3e-4)\n"
          "class DatasetConfig:\n    IMAGE_SIZE = (288, 320)\n    def f(self):\n        batch = 3\n",
          "batch=8 model=b4 lr=0.0003 size=288x320 workers=auto",
          "NUM_WORKERS: 'os.cpu_count()' is not understood here; workers stays auto" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reading r;
        if (read_text(state, &r, cases[i].name, cases[i].text)) fail_msg("%s", r.err.message);
        check_values(&r, cases[i].values);
        if (!strstr(r.remarks, cases[i].remark)) fail_msg("%s: %s", cases[i].name, r.remarks);
        end(&r);
    }
}

static void origins_have_lines(void **state)
{
    reading r;
    assert_int_equal(read_text(state, &r, "o.yaml", "# x\nbatch_size: 4\ndata:\n  num_workers: 2\n"), 0);
    assert_int_equal(r.n_origins, 2);
    assert_string_equal(r.origins[1].option, "workers");
    assert_string_equal(r.origins[1].path, "data.num_workers");
    assert_int_equal(r.origins[1].line, 4);
    end(&r);
}

/* Said with what is done about it, never silently replaced. */
static void what_is_not_understood(void **state)
{
    static const struct {
        const char *text, *message; /* of an error, or of a remark after "remark: " */
    } cases[] = {
        { "batch_size: many\n", "remark: batch_size: 'many' is not understood here; batch stays 8" },
        { "batch_size: ' - 5'\n", "remark: batch_size: ' - 5' is not understood here; batch stays 8" },
        { "batch_size: 1e300\n", "remark: batch_size: '1e300' is not understood here; batch stays 8" },
        { "batch_size: 4\noptimizer: lion\n",
          "remark: optimizer: 'lion' is not understood here; optimizer stays adamw" },
        { "batch_size: 4\noptimizer: Adam\n", "remark: 'Adam' is trained as adamw" },
        { "batch_size: 4\naugmentation: wild\n",
          "remark: augmentation 'wild' is none that is known here; none is taken" },
        { "batch_size: 4\nmodel: {name: lmsa}\n", ":2: model.name: lmsa is no network that is trained here" },
        { "batch_size: 4\nbackbone: efficientnet-b4\n", "efficientnet-b4 is no network" },
        { "a: {batch_size: 4}\nb: {batch_size: 8}\n",
          "a.batch_size (line 1), b.batch_size (line 2); keep one of them" },
        { "batch_size: 4\nbatch_size: 8\n", ":2: batch_size is given twice (first in line 1)" },
        { "batch: 4\nbathc: 8\n", ":2: unknown setting 'bathc': did you mean batch?" },
        { "batch: &a 4\nworkers: *a\n", "anchors and aliases" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reading r;
        const int is_remark = !strncmp(cases[i].message, "remark: ", 8);
        const int status = read_text(state, &r, "n.yaml", cases[i].text);
        if ((status == 0) != is_remark) fail_msg("%s: %s", cases[i].text, status ? r.err.message : r.remarks);
        const char *said = is_remark ? r.remarks : r.err.message;
        if (!strstr(said, cases[i].message + (is_remark ? 8 : 0))) fail_msg("%s: %s", cases[i].text, said);
        end(&r);
    }
}

/* An expression is no folder, even where any text could be one. */
static void computed_folder(void **state)
{
    reading r;
    if (read_text(state, &r, "f.py", "DATA_ROOT = os.environ['D']\nBATCH_SIZE = 4\n"))
        fail_msg("%s", r.err.message);
    assert_true(!r.data.data || !strchr(r.data.data, '['));
    assert_non_null(strstr(r.remarks, "DATA_ROOT: 'os.environ['D']' is not understood here"));
    end(&r);
}

/* What flags say is not looked at in the file. */
static void flags_above(void **state)
{
    static const char *const given[] = { "model", "batch", NULL };
    reading r;
    const char *path = unit_path(state, "g.yaml"),
               text[] = "model: lmsa\na: {batch_size: 4}\nb: {batch_size: 8}\nlr: 1\n";
    unit_write(path, text, strlen(text));
    if (read_file(&r, path, given)) fail_msg("%s", r.err.message);
    assert_null(r.train.model);
    assert_string_equal(r.remarks, "");
    end(&r);
}

static void folders(void **state)
{
    reading r;
    char text[8192];
    mkdir(unit_path(state, "set"), 0700);
    assert_int_equal(read_text(state, &r, "beside.yaml", "data_root: set\nbatch_size: 2\n"), 0);
    assert_string_equal(r.data.data, unit_path(state, "set"));
    assert_non_null(strstr(r.remarks, "beside the settings, is taken"));
    end(&r);
    snprintf(text, sizeof text, "%s/img", unit_path(state, "set"));
    mkdir(text, 0700);
    assert_int_equal(read_text(state, &r, "below.yaml", "root: set\nimages_dir: img\nmasks_dir: ann\n"), 0);
    assert_null(r.data.data);
    assert_string_equal(r.data.images, text);
    assert_string_equal(r.data.masks, "ann");
    end(&r);
    assert_int_equal(read_text(state, &r, "pairs.yaml", "dataroot_lq: img\ndataroot_gt: clean\nupscale: 2\n"),
                     0);
    assert_string_equal(r.data.images, "img");
    assert_string_equal(r.data.targets, "clean");
    assert_int_equal(r.data.scale, 2);
    end(&r);
    assert_int_equal(read_text(state, &r, "mix.yaml", "batch_size: 2\nuse_mixup: true\nmixup_alpha: 0.4\n"),
                     0);
    assert_string_equal(r.data.augment, "mixup(alpha=0.4)");
    end(&r);
}

static void python_spans(void **state)
{
    static const char text[] =
        "A = -1\nclass C:\n    B: str = \"x\\ny\"  # c\n    D = {'k': [1, (2,)]}\n    E = 1 + 2\n";
    static const struct {
        const char *path, *text, *bytes;
        uint32_t line;
    } wanted[] = {
        { "A", "-1", "-1", 1 },         { "C.B", "x\ny", "\"x\\ny\"", 3 }, { "C.D.k[0]", "1", "1", 4 },
        { "C.D.k[1][0]", "2", "2", 4 }, { "C.E", "1 + 2", "1 + 2", 5 },
    };
    stoke_yaml *yaml = NULL;
    stoke_error err;
    (void)state;
    assert_int_equal(stoke_yaml_parse(&yaml, text, strlen(text), "c.py", &err), 0);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        stk_yaml_place place;
        assert_true(stk_yaml_find(yaml, wanted[i].path, &place));
        if (place.node == STK_YAML_NONE) fail_msg("%s", wanted[i].path);
        const stk_yaml_node *node = &yaml->nodes[place.node];
        assert_string_equal(node->text, wanted[i].text);
        assert_int_equal(node->line, wanted[i].line);
        assert_int_equal(node->end - node->begin, strlen(wanted[i].bytes));
        assert_memory_equal(text + node->begin, wanted[i].bytes, strlen(wanted[i].bytes));
    }
    assert_int_equal(stoke_yaml_set(yaml, "C.E", "4", &err), STOKE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "expression"));
    stoke_yaml_close(&yaml);
}

/* Changed in the way of the file, and only there. */
static void python_and_json_changes(void **state)
{
    static const struct {
        const char *name, *text, *path, *value, *result;
    } cases[] = {
        { "c.py", "class C:\n    a: int = 1\n", "C.a", "2", "class C:\n    a: int = 2\n" },
        { "c.py", "class C:\n    a: int = 1\n", "C.b", "true",
          "class C:\n    a: int = 1\n    b: bool = True\n" },
        { "c.py", "A = 'x'  # why\n", "A", "it", "A = 'it'  # why\n" },
        { "c.py", "A = 1\n", "B", "x", "A = 1\nB = \"x\"\n" },
        /* Beside the settings of the section itself: not between a class and its body, nor as far in. */
        { "c.py", "A = 1\nclass M(X):\n    def f(self):\n        pass\n", "B", "2",
          "A = 1\nB = 2\nclass M(X):\n    def f(self):\n        pass\n" },
        { "c.py", "A = 1\nclass M:\n    x = 1\n    def f(self):\n        pass\n", "B", "2",
          "A = 1\nB = 2\nclass M:\n    x = 1\n    def f(self):\n        pass\n" },
        { "c.py", "class M:\n    x = 1\nA = 1\n", "B", "2", "class M:\n    x = 1\nA = 1\nB = 2\n" },
        { "c.py", "A = 1\nm = f(\n  A)\n", "B", "2", "A = 1\nB = 2\nm = f(\n  A)\n" },
        { "c.py", "A = 1  # a\r\nclass M:\r\n    x = 1\r\n", "B", "2",
          "A = 1  # a\r\nB = 2\r\nclass M:\r\n    x = 1\r\n" },
        { "c.py", "class C:\n\ta = 1\n", "C.b", "2", "class C:\n\ta = 1\n\tb = 2\n" },
        { "c.py",
          "\xef\xbb\xbf"
          "A = 1\n",
          "B", "2",
          "\xef\xbb\xbf"
          "A = 1\nB = 2\n" },
        { "c.py", "class C:\n    a: int = field(\n        default=1,\n        x=2)\n", "C.b", "2",
          "class C:\n    a: int = field(\n        default=1,\n        x=2)\n    b: int = 2\n" },
        { "c.py", "m = f()\nm = m.to(d)\nA = 1\n", "A", "2", "m = f()\nm = m.to(d)\nA = 2\n" },
        { "c.json", "{\n  \"a\": 1\n}\n", "a", "x", "{\n  \"a\": \"x\"\n}\n" },
        { "c.json", "{\n  \"a\": 1\n}\n", "b", "true", "{\n  \"a\": 1,\n  \"b\": true\n}\n" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stoke_yaml *yaml = NULL;
        stoke_error err = { 0 };
        const char *text;
        size_t bytes;
        int r = stoke_yaml_parse(&yaml, cases[i].text, strlen(cases[i].text), cases[i].name, &err);
        if (!r) r = stoke_yaml_set(yaml, cases[i].path, cases[i].value, &err);
        if (!r) r = stoke_yaml_text(yaml, &text, &bytes, NULL, &err);
        if (r) fail_msg("%zu: %s", i, err.message);
        assert_string_equal(text, cases[i].result);
        stoke_yaml_close(&yaml);
    }
}

/* What is more than one literal is computed: nothing is read from its first part, and nothing is changed. */
static void python_computes(void **state)
{
    static const char *const texts[] = {
        "A = 288, 320\n",
        "A = 8,\n",
        "A = Path('a') / Path('b')\n",
        "A = Path('a', 'b')\n",
        "A = field(default=8) or f(1)\n",
        "A = 8 \\\r\n  * 2\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        stoke_yaml *yaml = NULL;
        stoke_error err;
        assert_int_equal(stoke_yaml_parse(&yaml, texts[i], strlen(texts[i]), "c.py", &err), 0);
        if (!stoke_yaml_set(yaml, "A", "4", &err)) fail_msg("%s", texts[i]);
        assert_non_null(strstr(err.message, "expression"));
        stoke_yaml_close(&yaml);
    }
}

/* A name that is no setting may be assigned again: the last value counts, as in Python, and nothing below an
 * earlier one has a path. */
static void python_assigns_again(void **state)
{
    static const char text[] = "A = {'x': 1, 'z': 2}\nB = 3\nA = {'x': 4}; B = 5\nif A: B = 6; B = 7\n";
    stoke_yaml *yaml = NULL;
    stoke_error err;
    stoke_yaml_value value;
    const char *path;
    size_t n = 0;
    (void)state;
    assert_int_equal(stoke_yaml_parse(&yaml, text, sizeof text - 1, "a.py", &err), 0);
    assert_true(stoke_yaml_get(yaml, "A.x", &value));
    assert_string_equal(value.text, "4");
    assert_true(stoke_yaml_get(yaml, "B", &value));
    assert_string_equal(value.text, "5");
    assert_false(stoke_yaml_get(yaml, "A.z", &value));
    while (stoke_yaml_at(yaml, n, &path, &value)) n++;
    assert_int_equal(n, 2);
    stoke_yaml_close(&yaml);
}

/* One line of 2 MB is read once, not once for each of its items. */
static void python_of_one_line(void **state)
{
    enum { ITEMS = 30000, ITEM = 64 };
    char *text = malloc(ITEMS * ITEM + 8);
    size_t n = (size_t)sprintf(text, "A = [");
    stoke_yaml *yaml = NULL;
    (void)state;
    for (int i = 0; i < ITEMS; i++) n += (size_t)sprintf(text + n, "%*d,", ITEM - 1, 1);
    n += (size_t)sprintf(text + n, "]");
    assert_int_equal(stoke_yaml_parse(&yaml, text, n, "l.py", NULL), 0);
    stoke_yaml_close(&yaml);
    free(text);
}

static void hostile_python(void **state)
{
    (void)state;
    enum { LONG = 200000 };
    char *text = malloc(LONG + 64);
    static const char *const parts[] = { "[", "a=(1,\n", "class A:\n", "a='\n", "\"\"\"", "x=1;", "{1:" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t n = 0;
        stoke_yaml *yaml = NULL;
        stoke_error err = { 0 };
        while (n < LONG) n += (size_t)sprintf(text + n, "%s", parts[i]);
        const int r = stoke_yaml_parse(&yaml, text, n, "h.py", &err);
        assert_true(!r || *err.message);
        assert_null(strstr(err.message, "YAML"));
        stoke_yaml_close(&yaml);
    }
    free(text);
    for (int i = 0; i < 40; i++) {
        static const char small[] = "A = [1, 2]\nclass B:\n    c = 'x'\n";
        stoke_yaml *yaml = NULL;
        stk_mem_fail_after(i);
        const int r = stoke_yaml_parse(&yaml, small, sizeof small - 1, "m.py", NULL);
        stk_mem_fail_after(-1);
        assert_true(r == 0 || r == STOKE_E_NOMEM);
        stoke_yaml_close(&yaml);
    }
}

static void hugging_face_and_lightning_words(void **state)
{
    char text[512];
    reading r;
    const char *folder = unit_path(state, ".");
    snprintf(text, sizeof text, "dataset_name: %s\nper_device_train_batch_size: 2\nseed_everything: 7\n",
             folder);
    assert_int_equal(read_text(state, &r, "folder.yaml", text), STOKE_OK);
    assert_string_equal(r.data.data, folder);
    assert_int_equal(r.data.seed, 7);
    end(&r);
    assert_int_equal(
        read_text(state, &r, "hub.yaml", "dataset_name: hub/none\nper_device_train_batch_size: 2\n"),
        STOKE_OK);
    assert_null(r.data.data);
    assert_non_null(strstr(r.remarks, "not used here: dataset_name"));
    end(&r);
}

/* One reader gets each: the section of the optimiser, that of loading. Where all say the same, or none is
 * such a section, nothing is guessed. */
static void several_of_a_name(void **state)
{
    static const char cli[] = "trainer: {max_epochs: 1}\nmodel: {init_args: {lr: 0.0003}}\n"
                              "data: {init_args: {batch_size: 2}}\noptimizer: {init_args: {lr: %s}}\n";
    char text[256];
    reading r;
    snprintf(text, sizeof text, cli, "0.0003");
    assert_int_equal(read_text(state, &r, "same.yaml", text), STOKE_OK);
    assert_true(r.train.lr == 0.0003);
    assert_null(strstr(r.remarks, "counts"));
    end(&r);
    snprintf(text, sizeof text, cli, "0.001");
    assert_int_equal(read_text(state, &r, "other.yaml", text), STOKE_OK);
    assert_true(r.train.lr == 0.001);
    assert_non_null(
        strstr(r.remarks, "optimizer.init_args.lr: 0.001 counts, not 0.0003 of model.init_args.lr"));
    end(&r);
    assert_int_equal(read_text(state, &r, "common.yaml",
                               "common: {num_workers: '8'}\ndata: {batch_size: 4, num_workers: '2'}\n"),
                     STOKE_OK);
    assert_int_equal(r.data.workers, 2);
    assert_non_null(strstr(r.remarks, "data.num_workers: 2 counts, not 8 of common.num_workers"));
    end(&r);
    assert_int_equal(
        read_text(state, &r, "unclear.yaml", "data: {batch_size: 4}\ntraining: {batch_size: 8, epochs: 1}\n"),
        STOKE_E_INVALID);
    end(&r);
}

UNIT_GROUP(config_apply)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(dialects),
        unit_test_with_folder(origins_have_lines),
        unit_test_with_folder(what_is_not_understood),
        unit_test_with_folder(computed_folder),
        unit_test_with_folder(flags_above),
        unit_test_with_folder(folders),
        unit_test_with_folder(hugging_face_and_lightning_words),
        unit_test_with_folder(several_of_a_name),
        cmocka_unit_test(python_spans),
        cmocka_unit_test(python_and_json_changes),
        cmocka_unit_test(python_computes),
        cmocka_unit_test(python_assigns_again),
        cmocka_unit_test(python_of_one_line),
        cmocka_unit_test(hostile_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
