/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke verify: reads all of a set and gives a reason for everything that is wrong with it.
 */
#include <stdio.h>
#include <string.h>

#include "cli/common.h"
#include "cli/output.h"

typedef struct verify_options {
    const char *csv;
    int allow_orphans;
    int64_t show;
} verify_options;

static const stoke_option options[] = {
    { .name = "csv",
      .type = STOKE_OPT_STRING,
      .offset = offsetof(verify_options, csv),
      .argument = "FILE",
      .help = "Also write every finding as a line of CSV: path, kind, reason" },
    { .name = "show",
      .type = STOKE_OPT_INT,
      .offset = offsetof(verify_options, show),
      .default_text = "20",
      .min = 0,
      .max = 1e9,
      .argument = "N",
      .help = "Findings to print for people; JSON and CSV always have all" },
    { .name = "allow_orphans",
      .type = STOKE_OPT_FLAG,
      .offset = offsetof(verify_options, allow_orphans),
      .default_text = "false",
      .help = "Files that were left out while matching (no partner, or the same name as another) are listed "
              "but do not "
              "make the exit status 1" },
};

static const char *const note_kinds[] = { "image without mask", "mask without image", "duplicate",
                                          "not a file" };

static const char *const finding_headings[] = { "path", "kind", "reason" };

/* What is wrong, one line each: bad files, then what was left out while matching. */
static stoke_table *findings(const stoke_dataset *dataset, const stoke_verify_report *report)
{
    stoke_table *table = stoke_table_create(finding_headings, CLI_COUNT(finding_headings));
    for (size_t i = 0; i < report->n_bad; i++)
        stoke_table_row(table, (const char *[]){ report->bad[i].path, "bad", report->bad[i].reason });
    for (size_t i = 0; i < stoke_dataset_notes(dataset); i++) {
        stoke_note note = stoke_dataset_note(dataset, i);
        stoke_table_row(table, (const char *[]){ note.path, note_kinds[note.kind], note.detail });
    }
    return table;
}

/* Paths of one kind: orphans have no partner, a duplicate has one too many. */
static void json_paths(stoke_json *json, const char *key, const stoke_dataset *dataset, int duplicates)
{
    stoke_json_array(json, key);
    for (size_t i = 0; i < stoke_dataset_notes(dataset); i++) {
        stoke_note note = stoke_dataset_note(dataset, i);
        if ((note.kind == STOKE_NOTE_DUPLICATE) == duplicates) stoke_json_string(json, NULL, note.path);
    }
    stoke_json_close(json);
}

/* All of them, with the reason. */
static void json_left_out(stoke_json *json, const stoke_dataset *dataset)
{
    stoke_json_array(json, "left_out");
    for (size_t i = 0; i < stoke_dataset_notes(dataset); i++) {
        stoke_note note = stoke_dataset_note(dataset, i);
        stoke_json_object(json, NULL);
        stoke_json_string(json, "path", note.path);
        stoke_json_string(json, "kind", note_kinds[note.kind]);
        stoke_json_string(json, "reason", note.detail);
        stoke_json_close(json);
    }
    stoke_json_close(json);
}

static void json_sizes(stoke_json *json, const stoke_verify_report *report)
{
    stoke_json_object(json, "sizes");
    stoke_json_uint(json, "min_width", report->min_width);
    stoke_json_uint(json, "min_height", report->min_height);
    stoke_json_uint(json, "max_width", report->max_width);
    stoke_json_uint(json, "max_height", report->max_height);
    stoke_json_close(json);
    stoke_json_object(json, "formats");
    for (int i = STOKE_FORMAT_JPEG; i <= STOKE_FORMAT_TIFF; i++)
        if (report->formats[i]) stoke_json_uint(json, stoke_format_name((stoke_format)i), report->formats[i]);
    stoke_json_close(json);
    stoke_json_uint(json, "images16", report->images16);
    if (!report->images16) return;
    stoke_json_array(json, "values16");
    stoke_json_uint(json, NULL, report->min_value16);
    stoke_json_uint(json, NULL, report->max_value16);
    stoke_json_close(json);
}

/* "0:0,255:1": the classes that occur as they are, and the ignored value as class `target`. Returns whether
 * it fitted; a longer one is of no use in a remark. */
static int suggest_map(const stoke_verify_report *report, uint32_t ignored, uint32_t target, char *text,
                       size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < report->n_classes && n < size; i++) {
        uint32_t id = report->classes[i].id;
        if (report->classes[i].pixels)
            n += (size_t)snprintf(text + n, size - n, "%s%u:%u", n ? "," : "", id,
                                  id == ignored ? target : id);
    }
    return n < size;
}

/* Masks of 0 and 255 are common, and 255 is also the usual ignore_index: every pixel of the foreground is
 * then left out of training, and nothing is wrong with any file. Writes a remark and returns 1 when the
 * counts look so: more than half is ignored and a class is missing. */
static int remark_on_ignored(const cli_call *call, const stoke_verify_report *report, char *text, size_t size)
{
    const stoke_data_params *data = &call->data;
    uint64_t total = 0, ignored = 0;
    uint32_t occurring = 0, listed = 0;              /* classes that occur; those of them below --classes */
    uint32_t missing = 0;                            /* the first id that does not occur */
    for (size_t i = 0; i < report->n_classes; i++) { /* in ascending order of id */
        const stoke_class_count *c = &report->classes[i];
        int is_ignored = (int64_t)c->id == data->ignore_index;
        total += c->pixels;
        if (!c->pixels) continue;
        if (c->id == missing) missing++;
        if (is_ignored) ignored = c->pixels;
        occurring += !is_ignored;
        listed += c->id < data->classes;
    }
    /* An ignore_index among the classes (0, say) was chosen, not met by accident. */
    if (ignored <= total / 2 || missing > data->ignore_index) return 0;
    if (occurring >= 2 && listed >= data->classes) return 0;
    int n = snprintf(text, size, "%.0f %% of the pixels are %lld = ignore_index, and class %u never occurs: ",
                     100.0 * (double)ignored / (double)total, (long long)data->ignore_index, missing);
    char map[128];
    int identity = !data->label_map || !*data->label_map || !strcmp(data->label_map, "identity");
    if (identity && suggest_map(report, (uint32_t)data->ignore_index, missing, map, sizeof map))
        snprintf(text + n, size - (size_t)n, "if %lld is a class, use --label-map %s",
                 (long long)data->ignore_index, map);
    else
        snprintf(text + n, size - (size_t)n, "if %lld is a class, --label-map must say so",
                 (long long)data->ignore_index);
    return 1;
}

/* What the values of the files suggest, one line each. */
enum { REMARKS = 2 };
typedef struct remark_list {
    char text[REMARKS][512];
    size_t count;
} remark_list;

static void print_json(const stoke_dataset *dataset, const stoke_verify_report *report,
                       const remark_list *remarks)
{
    stoke_json json;
    stoke_json_begin(&json, stdout, 2);
    stoke_json_object(&json, NULL);
    stoke_json_uint(&json, "pairs", report->pairs);
    stoke_json_uint(&json, "ok", report->ok);
    stoke_json_bool(&json, "masks", stoke_dataset_has_masks(dataset));
    stoke_json_array(&json, "bad");
    for (size_t i = 0; i < report->n_bad; i++) {
        stoke_json_object(&json, NULL);
        stoke_json_string(&json, "path", report->bad[i].path);
        stoke_json_string(&json, "reason", report->bad[i].reason);
        stoke_json_string(&json, "code", stoke_status_name(report->bad[i].code));
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
    json_paths(&json, "orphans", dataset, 0);
    json_paths(&json, "duplicates", dataset, 1);
    json_left_out(&json, dataset);
    stoke_json_array(&json, "classes");
    for (size_t i = 0; i < report->n_classes; i++) {
        stoke_json_object(&json, NULL);
        stoke_json_uint(&json, "id", report->classes[i].id);
        stoke_json_uint(&json, "pixels", report->classes[i].pixels);
        stoke_json_uint(&json, "samples", report->classes[i].samples);
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
    stoke_json_array(&json, "remarks");
    for (size_t i = 0; i < remarks->count; i++) stoke_json_string(&json, NULL, remarks->text[i]);
    stoke_json_close(&json);
    json_sizes(&json, report);
    stoke_json_uint(&json, "image_bytes", report->image_bytes);
    stoke_json_uint(&json, "mask_bytes", report->mask_bytes);
    stoke_json_real(&json, "seconds", report->seconds);
    stoke_json_close(&json);
}

static void print_summary(const stoke_dataset *dataset, const stoke_verify_report *report)
{
    char a[32], b[32], c[32];
    int masks = stoke_dataset_has_masks(dataset);
    printf("%llu %s, %llu good, %zu bad, %zu left out while matching\n", (unsigned long long)report->pairs,
           masks ? "pairs" : "images without masks", (unsigned long long)report->ok, report->n_bad,
           stoke_dataset_notes(dataset));
    if (report->max_width)
        printf("sizes  %ux%u to %ux%u (height x width)\n", report->min_height, report->min_width,
               report->max_height, report->max_width);
    if (report->images16)
        printf("depth  %llu of the images have 16 bits, values %u to %u\n",
               (unsigned long long)report->images16, report->min_value16, report->max_value16);
    printf("files  images %s", stoke_text_bytes(report->image_bytes, a, sizeof a));
    if (masks) printf(", masks %s", stoke_text_bytes(report->mask_bytes, b, sizeof b));
    for (int i = STOKE_FORMAT_JPEG; i <= STOKE_FORMAT_TIFF; i++)
        if (report->formats[i])
            printf(", %llu %s", (unsigned long long)report->formats[i], stoke_format_name((stoke_format)i));
    printf("\nread   in %s\n", stoke_text_seconds(report->seconds, c, sizeof c));
}

static void print_classes(const cli_call *call, const stoke_verify_report *report)
{
    static const char *const headings[] = { "class", "pixels", "share", "in samples" };
    uint64_t total = 0;
    for (size_t i = 0; i < report->n_classes; i++) total += report->classes[i].pixels;
    if (!total) return;
    stoke_table *table = stoke_table_create(headings, CLI_COUNT(headings));
    for (size_t i = 0; i < report->n_classes; i++) {
        const stoke_class_count *c = &report->classes[i];
        char id[32], pixels[32], share[32], samples[32];
        snprintf(id, sizeof id, "%u%s", c->id, (int64_t)c->id == call->data.ignore_index ? " (ignored)" : "");
        snprintf(pixels, sizeof pixels, "%llu", (unsigned long long)c->pixels);
        snprintf(share, sizeof share, "%.2f %%", 100.0 * (double)c->pixels / (double)total);
        snprintf(samples, sizeof samples, "%llu", (unsigned long long)c->samples);
        stoke_table_row(table, (const char *[]){ id, pixels, share, samples });
    }
    putchar('\n');
    stoke_table_print(table, stdout);
    stoke_table_destroy(&table);
}

/* Long reasons do not fit columns: path, kind and reason as indented lines. */
static void print_findings(const stoke_dataset *dataset, const stoke_verify_report *report, int64_t limit)
{
    size_t notes = stoke_dataset_notes(dataset), total = report->n_bad + notes;
    size_t shown = total < (uint64_t)limit ? total : (size_t)limit;
    if (total) putchar('\n');
    for (size_t i = 0; i < shown; i++) {
        if (i < report->n_bad) {
            printf("bad: %s: %s\n", report->bad[i].path, report->bad[i].reason);
        } else {
            stoke_note note = stoke_dataset_note(dataset, i - report->n_bad);
            printf("%s: %s (%s)\n", note_kinds[note.kind], note.path, note.detail);
        }
    }
    if (shown < total)
        printf("... and %zu more: --show %zu, --csv FILE or --json has them all\n", total - shown, total);
}

static int run(cli_call *call)
{
    const verify_options *o = call->options;
    stoke_error err = { 0 };
    stoke_dataset *dataset = NULL;
    stoke_verify_report report = { 0 };
    cli_output csv = { 0 };
    int r = cli_open_dataset(call, &call->data, &dataset, &err);
    /* Before the reading, which may take an hour: a name that cannot be written is said at once. */
    if (!r && o->csv) r = cli_output_open(&csv, o->csv, &err);
    if (r) {
        stoke_dataset_close(&dataset);
        return cli_fail(call, &err);
    }
    unsigned threads = call->data.workers > 0    ? (unsigned)call->data.workers
                       : call->data.workers == 0 ? 1
                                                 : 0;
    stoke_progress *progress = cli_progress_begin(call, "reading", "samples");
    r = stoke_verify(dataset, &call->data, threads, cli_progress_update, progress, &report, &err);
    cli_progress_end(&progress);
    if (!r && o->csv) {
        stoke_table *table = findings(dataset, &report);
        stoke_table_csv(table, csv.stream);
        r = cli_output_commit(&csv, &err);
        stoke_table_destroy(&table);
    }
    cli_output_abandon(&csv);
    int code = CLI_OK;
    if (r) {
        code = cli_fail(call, &err);
    } else {
        remark_list remarks = { .count = 0 };
        char(*text)[512] = remarks.text;
        remarks.count += (size_t)remark_on_ignored(call, &report, text[0], sizeof text[0]);
        if (report.images16)
            remarks.count += (size_t)stoke_remark_on_values(
                &call->data, report.min_value16, report.max_value16, text[remarks.count], sizeof text[0]);
        if (call->common.json) {
            print_json(dataset, &report, &remarks);
        } else {
            print_summary(dataset, &report);
            print_classes(call, &report);
            for (size_t i = 0; i < remarks.count; i++) printf("\n%s\n", text[i]);
            print_findings(dataset, &report, o->show);
        }
        if (report.n_bad || (stoke_dataset_notes(dataset) && !o->allow_orphans)) code = CLI_FAILED;
    }
    stoke_verify_report_free(&report);
    stoke_dataset_close(&dataset);
    return code;
}

static const cli_example examples[] = {
    { "stoke verify demo/data --classes 6", "a set in the usual layout; labels must be 0..5" },
    { "stoke verify --images photos --json", "a flat folder without masks; the report as JSON" },
    { "stoke verify demo/data --csv findings.csv", "every finding as a line of CSV" },
    { 0 },
};

const cli_command cli_verify = {
    .name = "verify",
    .summary = "read all of a set: pairs, files, sizes, labels",
    .arguments = "[DIR]",
    .max_words = 1,
    .description = "Decodes every image and mask and checks the pairs, the sizes and every label. Each bad "
                   "file is named with the "
                   "reason; files left out while matching (orphans, duplicates) are listed. Exit status 1 "
                   "when anything is found.",
    .examples = examples,
    .options = options,
    .n_options = CLI_COUNT(options),
    .options_bytes = sizeof(verify_options),
    .reads_data = 1,
    .run = run,
};
