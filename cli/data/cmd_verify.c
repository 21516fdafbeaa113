/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke verify: reads all of a set and gives a reason for everything that is wrong with it.
 */
#include <stdio.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/output.h"
#include "cli/lib/page.h"

typedef struct verify_options {
    const char *csv;
    int allow_orphans, force;
    int64_t show;
} verify_options;

#define OPTIONS verify_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, csv, NULL, "FILE", "Also write every finding as a line of CSV: path, kind, reason"),
    CLI_NUMBER(INT, show, "20", 0, 1e9, "N", "Findings to print for people; JSON and CSV always have all"),
    CLI_FLAG(allow_orphans, "Files that were left out while matching (no partner, or the same name as "
                            "another) are listed but do not make the exit status 1"),
    CLI_FORCE,
};

static const char *kind_of(const stoke_dataset *dataset, const stoke_note *note)
{
    static const char *const kinds[] = { "image without mask", "mask without image", "duplicate",
                                         "not a file" };
    static const char *const of_targets[] = { "image without target", "target without image", "duplicate",
                                              "not a file" };
    return (stoke_dataset_has_targets(dataset) ? of_targets : kinds)[note->kind];
}

/* What images have. */
static const char *partners(const stoke_dataset *dataset)
{
    return stoke_dataset_has_targets(dataset) ? "targets" : "masks";
}

/* What is wrong, one line each: bad files, then what was left out while matching. */
static stoke_table *findings(const stoke_dataset *dataset, const stoke_verify_report *report)
{
    stoke_table *table = CLI_TABLE("path", "kind", "reason");
    for (size_t i = 0; i < report->n_bad; i++)
        stoke_table_row(table, (const char *[]){ report->bad[i].path, "bad", report->bad[i].reason });
    for (size_t i = 0; i < stoke_dataset_notes(dataset); i++) {
        stoke_note note = stoke_dataset_note(dataset, i);
        stoke_table_row(table, (const char *[]){ note.path, kind_of(dataset, &note), note.detail });
    }
    return table;
}

/* Paths of one kind: orphans have no partner, a duplicate has one too many. */
static void json_paths(stoke_json *json, const char *key, const stoke_dataset *dataset, int duplicates)
{
    JSON_LIST(json, key, i, i < stoke_dataset_notes(dataset)) {
        stoke_note note = stoke_dataset_note(dataset, i);
        if ((note.kind == STOKE_NOTE_DUPLICATE) == duplicates) stoke_json_string(json, NULL, note.path);
    }
}

static const char *class_name(const stoke_verify_report *report, uint32_t id)
{
    return report->labels ? stoke_labels_name(report->labels, id) : NULL;
}

static void put_report(stoke_json *json, const cli_call *call, const stoke_dataset *dataset,
                       const stoke_verify_report *report)
{
    FACTS(json, FACT_OF(report, pairs), FACT_OF(report, ok),
          FACT_IS("masks", stoke_dataset_has_masks(dataset)),
          FACT_IS("targets", stoke_dataset_has_targets(dataset)));
    JSON_LIST(json, "bad", i, i < report->n_bad)
        FACTS_OBJECT(json, NULL, FACT_OF(&report->bad[i], path), FACT_OF(&report->bad[i], reason),
                     FACT("code", stoke_status_name(report->bad[i].code)));
    FACTS(json, FACT_TEXT("unrecorded", report->unrecorded));
    json_paths(json, "orphans", dataset, 0);
    json_paths(json, "duplicates", dataset, 1);
    JSON_LIST(json, "left_out", i, i < stoke_dataset_notes(dataset)) { /* all of them, with the reason */
        const stoke_note note = stoke_dataset_note(dataset, i);
        FACTS_OBJECT(json, NULL, FACT_OF(&note, path), FACT("kind", kind_of(dataset, &note)),
                     FACT("reason", note.detail));
    }
    FACTS(json, FACT_IF(report->n_ids, FACT("n_classes", (uint64_t)report->n_ids)),
          FACT_OF(report, ignore_index),
          FACT("refusal", report->refusal ? CLI_WITH_FLAGS(call, report->refusal) : NULL));
    JSON_LIST(json, "remarks", i, i < report->n_remarks)
        stoke_json_string(json, NULL, CLI_WITH_FLAGS(call, report->remarks[i]));
    FACTS_OBJECT(json, "sizes", FACT_OF(report, min_width), FACT_OF(report, min_height),
                 FACT_OF(report, max_width), FACT_OF(report, max_height));
    stoke_json_object(json, "formats");
    for (int i = STOKE_FORMAT_JPEG; i <= STOKE_FORMAT_TIFF; i++)
        if (report->formats[i]) stoke_json_uint(json, stoke_format_name((stoke_format)i), report->formats[i]);
    stoke_json_close(json);
    FACTS(json, FACT_OF(report, images16),
          FACT_IF(report->images16, FACT_SIZE("values16", report->min_value16, report->max_value16)));
    FACTS(json, FACT_OF(report, image_bytes), FACT_OF(report, mask_bytes), FACT_OF(report, target_bytes),
          FACT_OF(report, seconds));
    cli_json_memory(json, call->planned);
}

static void print_summary(const stoke_dataset *dataset, const stoke_verify_report *report)
{
    const int masks = stoke_dataset_has_masks(dataset) || stoke_dataset_has_targets(dataset);
    cli_print("%s%s, %llu good, %zu bad, %zu left out while matching\n",
              STOKE_COUNT(report->pairs, masks ? "pair" : "image"), masks ? "" : " without masks",
              (unsigned long long)report->ok, report->n_bad, stoke_dataset_notes(dataset));
    if (report->max_width)
        cli_print("sizes  %ux%u to %ux%u (height x width)\n", report->min_height, report->min_width,
                  report->max_height, report->max_width);
    if (report->images16)
        cli_print("depth  %llu of the images have 16 bits, values %u to %u\n",
                  (unsigned long long)report->images16, report->min_value16, report->max_value16);
    cli_print("files  images %s", STOKE_BYTES(report->image_bytes));
    if (masks)
        cli_print(", %s %s", partners(dataset), STOKE_BYTES(report->mask_bytes + report->target_bytes));
    for (int i = STOKE_FORMAT_JPEG; i <= STOKE_FORMAT_TIFF; i++)
        if (report->formats[i])
            cli_print(", %llu %s", (unsigned long long)report->formats[i],
                      stoke_format_name((stoke_format)i));
    cli_print("\nread   in %s\n", STOKE_SECONDS(report->seconds));
}

static void print_classes(cli_page *page, const stoke_verify_report *report)
{
    uint64_t total = 0;
    int named = 0;
    for (size_t i = 0; i < report->n_classes; i++) {
        total += report->classes[i].pixels;
        named |= class_name(report, report->classes[i].id) != NULL;
    }
    if (total) cli_page_say(page, "\n");
    cli_page_table(page, "classes");
    for (size_t i = 0; (total || page->as_json) && i < report->n_classes; i++) {
        const stoke_class_count *c = &report->classes[i];
        const char *name = class_name(report, c->id);
        CLI_PAGE_ROW(page,
                     CELL_AS("class", FACT_OF(c, id), "%u%s", c->id,
                             (int64_t)c->id == report->ignore_index ? " (ignored)" : ""),
                     CELL("pixels", FACT_OF(c, pixels)),
                     CELL_TEXT("share", "%.2f %%", 100.0 * (double)c->pixels / (double)total),
                     CELL("in samples", FACT_OF(c, samples)), CELL_FACT(FACT_IF(name, FACT("name", name))),
                     CELL(named ? "name" : NULL, FACT(NULL, name ? name : "")));
    }
    cli_page_table_end(page);
}

/* Long reasons do not fit columns: path, kind and reason as indented lines. A reason that many files in a row
 * have is said once. */
static void print_findings(const cli_call *call, const stoke_dataset *dataset,
                           const stoke_verify_report *report, int64_t limit)
{
    const size_t notes = stoke_dataset_notes(dataset), total = report->n_bad + notes;
    size_t told = 0; /* findings that the lines so far stand for */
    if (total) putchar('\n');
    for (int64_t lines = 0; told < total && lines < limit; lines++) {
        if (told < report->n_bad) {
            const char *reason = report->bad[told].reason;
            size_t n = 1;
            while (told + n < report->n_bad && !strcmp(reason, report->bad[told + n].reason)) n++;
            cli_print("bad: %s: %s\n", report->bad[told].path, CLI_WITH_FLAGS(call, reason));
            if (n > 2)
                cli_print("     ... and %zu more like it, to %s\n", n - 1, report->bad[told + n - 1].path);
            told += n > 2 ? n : 1;
        } else {
            stoke_note note = stoke_dataset_note(dataset, told - report->n_bad);
            cli_print("%s: %s (%s)\n", kind_of(dataset, &note), note.path, note.detail);
            told++;
        }
    }
    if (told < total)
        cli_print("... and %zu more: --show %zu, --csv FILE or --json has them all\n", total - told, total);
}

static void print(const cli_call *call, const stoke_dataset *dataset, const stoke_verify_report *report)
{
    const verify_options *o = call->options;
    cli_page page;
    cli_page_begin(&page, call->common.json);
    if (page.as_json)
        put_report(&page.json, call, dataset, report);
    else
        print_summary(dataset, report);
    print_classes(&page, report);
    cli_page_end(&page);
    if (page.as_json) return;
    for (size_t i = 0; i < report->n_remarks; i++)
        cli_print("\n%s\n", CLI_WITH_FLAGS(call, report->remarks[i]));
    if (report->refusal) cli_print("\ntraining would not begin: %s\n", CLI_WITH_FLAGS(call, report->refusal));
    print_findings(call, dataset, report, o->show);
}

static int run(cli_call *call, stoke_error *err)
{
    const verify_options *o = call->options;
    stoke_dataset *dataset = NULL;
    stoke_verify_report report = { 0 };
    stoke_output csv = { 0 };
    cli_keep_named_quarantine(call);
    int r = cli_may_write(call, o->csv, o->force, err);
    if (!r) r = cli_open_dataset(call, &call->data, &dataset, err);
    /* Before the reading, which may take an hour: a name that cannot be written is said at once. */
    if (!r && o->csv) r = stoke_output_open(&csv, o->csv, err);
    unsigned threads = call->data.workers > 0    ? (unsigned)call->data.workers
                       : call->data.workers == 0 ? 1
                                                 : 0;
    stoke_memory_sum memory = { 0 };
    if (!r) r = stoke_verify_memory(dataset, &call->data, &threads, &memory, err);
    if (!r) {
        cli_say_memory(call, &memory);
        stoke_progress *progress = cli_progress_begin(call, "reading", "samples");
        r = stoke_verify(dataset, &call->data, threads, cli_progress_update, progress, &report, err);
        stoke_progress_destroy(&progress);
        if (*report.unrecorded) cli_say(call, "warning: %s", report.unrecorded);
    }
    if (!r && o->csv) {
        stoke_table *table = findings(dataset, &report);
        stoke_table_csv(table, csv.stream);
        r = stoke_output_commit(&csv, err);
        stoke_table_destroy(&table);
    }
    stoke_output_drop(&csv);
    if (!r) {
        print(call, dataset, &report);
        if (report.n_bad || report.refusal || (stoke_dataset_notes(dataset) && !o->allow_orphans))
            r = CLI_FAILED;
    }
    stoke_verify_report_free(&report);
    stoke_dataset_close(&dataset);
    return r;
}

const cli_command cli_verify = {
    .summary = "read all of a set: pairs, files, sizes, labels",
    CLI_TAKES_DIR,
    .description = "Decodes every image and mask (or target) and checks the pairs, the sizes and every label. "
                   "Each bad "
                   "file is named with the reason; files left out while matching (orphans, duplicates) are "
                   "listed. Says how `stoke train` would take the masks, by the same rules. Exit status 1 "
                   "when anything is found, or training would not begin.",
    .examples = {
        { "stoke verify demo/data --classes 6", "a set in the usual layout; labels must be 0..5" },
        { "stoke verify demo/pairs", "pictures and what they should become (stoke synth --task restore)" },
        { "stoke verify --images photos --json", "a flat folder without masks; the report as JSON" },
        { "stoke verify demo/data --csv findings.csv", "every finding as a line of CSV" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
