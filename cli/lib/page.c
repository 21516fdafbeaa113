/* SPDX-License-Identifier: Apache-2.0
 *
 * A page of facts for people and programs.
 */
#include "cli/lib/page.h"
#include "cli/lib/common.h"
#include "cli/lib/facts.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoke/tools/monitor.h>

enum { LABEL_COLUMNS = 22, TEXT_BYTES = 2048 };

/* ---- no names of users ---- */

/* Length of the home that `text` begins with, 0 = none: that of this user, any below /home and /Users, and
 * what desktops call after the user when they mount a disk. `inside`: in the middle of a path, as in
 * /export/home/x, where only the folders of homes mean anything. */
static size_t home_length(const char *text, int inside)
{
    static const char *const folders[] = { "/home/", "/Users/", "/run/media/", "/media/" };
    const char *home = getenv("HOME");
    size_t n = home && strlen(home) > 1 ? strlen(home) : 0;
    while (n && home[n - 1] == '/') n--;
    if (!inside && n && !strncmp(text, home, n) && (!text[n] || strchr("/:;,)'\" ", text[n]))) return n;
    for (size_t i = 0; i < (inside ? 2u : 4u); i++) {
        n = strlen(folders[i]);
        if (strncmp(text, folders[i], n) != 0 || !text[n] || text[n] == '/') continue;
        const size_t end = n + strcspn(text + n, "/:;,)'\" ");
        if (i < 2 || text[end] == '/') return end; /* /media/cdrom is nobody's */
    }
    return 0;
}

/* Length of "name@" when `text` begins with it and a host follows. */
static size_t user_length(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || (n && text[n] && strchr("._-", text[n]))) n++;
    return n && text[n] == '@' && isalnum((unsigned char)text[n + 1]) ? n + 1 : 0;
}

const char *cli_page_tidy(const char *text, char *out, size_t size)
{
    size_t used = 0;
    char last = ' ';
    while (*text && used + 2 < size) {
        const int inside = isalnum((unsigned char)last) || strchr("._-~", last) != NULL;
        const size_t home = *text == '/' ? home_length(text, inside) : 0;
        const size_t user = inside ? 0 : user_length(text);
        if (home) {
            if (inside) out[used++] = '/';
            last = out[used++] = '~';
            text += home;
        } else if (user) {
            text += user;
        } else {
            last = out[used++] = *text++;
        }
    }
    out[used] = 0;
    return out;
}

/* ---- structure ---- */

void cli_page_begin(cli_page *page, int as_json)
{
    *page = (cli_page){ .as_json = as_json };
    if (as_json) page->json = cli_json_open();
}

void cli_page_end(cli_page *page)
{
    if (page->as_json) stoke_json_close(&page->json);
}

void cli_page_say(const cli_page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!page->as_json) stoke_text_vprint(stdout, format, args);
    va_end(args);
}

void cli_page_section(cli_page *page, const char *key, const char *title)
{
    if (page->as_json) stoke_json_object(&page->json, key);
    if (title) cli_page_say(page, "\n%s\n", title);
}

void cli_page_list(cli_page *page, const char *key, const char *title)
{
    if (page->as_json) stoke_json_array(&page->json, key);
    if (title) cli_page_say(page, "\n%s\n", title);
}

void cli_page_entry(cli_page *page, const char *title)
{
    if (page->as_json) stoke_json_object(&page->json, NULL);
    if (title) cli_page_say(page, " %s\n", title);
}

void cli_page_close(cli_page *page)
{
    if (page->as_json) stoke_json_close(&page->json);
}

/* ---- tables ---- */

const char *cli_cell_text(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, size, format, args);
    va_end(args);
    return text;
}

void cli_page_table(cli_page *page, const char *key)
{
    cli_page_list(page, key, NULL);
}

/* NULL is n/a. */
static const char *shown(const cli_cell *cell, char *text, size_t size)
{
    const cli_fact *fact = &cell->fact;
    if (fact->kind == CLI_FACT_NONE || (fact->kind == CLI_FACT_TEXT && !fact->text) ||
        (fact->kind == CLI_FACT_REAL && isnan(fact->real)))
        return NULL;
    if (cell->text || fact->kind == CLI_FACT_TEXT) return cell->text ? cell->text : fact->text;
    snprintf(text, size, "%lld", (long long)fact->integer);
    return text;
}

void cli_page_row(cli_page *page, const cli_cell *cells)
{
    enum { COLUMNS_MAX = 16 };
    const char *headings[COLUMNS_MAX], *texts[COLUMNS_MAX];
    char numbers[COLUMNS_MAX][24];
    size_t n = 0;
    cli_page_entry(page, NULL);
    for (const cli_cell *c = cells; c->fact.kind != CLI_FACT_END; c++) {
        if (page->as_json && c->fact.key) cli_json_facts(&page->json, (const cli_fact[]){ c->fact, { 0 } });
        if (page->as_json || !c->heading) continue;
        headings[n] = c->heading;
        texts[n] = shown(c, numbers[n], sizeof numbers[n]);
        n++;
    }
    if (!n) return; /* for programs, or a row for programs alone */
    if (!page->table) page->table = stoke_table_create(headings, n);
    stoke_table_row(page->table, texts);
}

void cli_page_table_end(cli_page *page)
{
    if (page->table) cli_table_end(page->table);
    page->table = NULL;
    cli_page_close(page);
}

/* ---- facts ---- */

void cli_page_text(cli_page *page, const char *key, const char *label, const char *text)
{
    char tidy[TEXT_BYTES];
    if (text && *text)
        cli_page_tidy(text, tidy, sizeof tidy);
    else
        text = NULL;
    if (page->as_json && key) stoke_json_string(&page->json, key, text ? tidy : NULL);
    if (label) cli_page_say(page, "  %-*s %s\n", LABEL_COLUMNS, label, text ? tidy : "n/a");
}

const char *cli_figure_text(stoke_figure figure, cli_unit unit, char *text, size_t size)
{
    const double value = figure.value;
    if (!figure.source) {
        snprintf(text, size, "n/a");
        return text;
    }
    switch (unit) {
    case CLI_UNIT_BYTES: return stoke_text_bytes((uint64_t)value, text, size);
    case CLI_UNIT_MEMORY: return stoke_text_memory((uint64_t)value, text, size);
    case CLI_UNIT_BYTES_S: snprintf(text, size, "%s/s", STOKE_BYTES((uint64_t)value)); break;
    case CLI_UNIT_PERCENT: snprintf(text, size, "%.0f %%", value); break;
    case CLI_UNIT_SHARE: snprintf(text, size, "%.0f %%", value * 100); break;
    case CLI_UNIT_WATT: snprintf(text, size, "%.1f W", value); break;
    case CLI_UNIT_WHOLE_WATT: snprintf(text, size, "%.0f W", value); break;
    case CLI_UNIT_JOULE: snprintf(text, size, "%.0f J", value); break;
    case CLI_UNIT_CELSIUS: snprintf(text, size, "%.0f C", value); break;
    case CLI_UNIT_MHZ: snprintf(text, size, "%.0f MHz", value); break;
    case CLI_UNIT_PER_S: snprintf(text, size, "%.1f/s", value); break;
    case CLI_UNIT_YES_NO: snprintf(text, size, "%s", value ? "yes" : "no"); break;
    case CLI_UNIT_VERSION: snprintf(text, size, "%.1f", value); break;
    case CLI_UNIT_WHOLE: snprintf(text, size, "%.0f", value); break;
    case CLI_UNIT_NONE: snprintf(text, size, "%.*f", value == (double)(int64_t)value ? 0 : 2, value); break;
    }
    return text;
}

void cli_page_figure(cli_page *page, const char *key, const char *label, stoke_figure figure, cli_unit unit)
{
    if (page->as_json && key)
        FACTS_OBJECT(&page->json, key,
                     !figure.source            ? FACT("value", NAN)
                     : unit == CLI_UNIT_YES_NO ? FACT_IS_OF(&figure, value)
                                               : FACT_OF(&figure, value),
                     FACT("source", stoke_source_name(figure.source)));
    if (page->as_json || !label) return;
    char text[32];
    cli_print("  %-*s %s", LABEL_COLUMNS, label, cli_figure_text(figure, unit, text, sizeof text));
    if (figure.source) cli_print(" (%s)", stoke_source_name(figure.source));
    putchar('\n');
}

/* ---- cards ---- */

const char *cli_reasons(stoke_figure reasons, char *text, size_t size)
{
    size_t n = 0;
    snprintf(text, size, "%s", reasons.source ? "nothing" : "n/a");
    for (unsigned i = 0; reasons.source && i < STOKE_CLOCKS_REASONS && n < size; i++)
        if ((uint64_t)reasons.value >> i & 1)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", stoke_clocks_reason_name(i));
    return text;
}

void cli_page_program(cli_page *page, uint32_t pid, const char *name, int own, int at_most,
                      stoke_figure memory, stoke_figure busy)
{
    char title[128];
    snprintf(title, sizeof title, " program %u, %s%s%s", pid, *name ? name : "in another container",
             own ? " (this one)" : "", at_most ? ", at most" : "");
    cli_page_entry(page, title);
    CLI_PAGE_FACTS(page, FACT("pid", pid));
    cli_page_text(page, "name", NULL, name);
    CLI_PAGE_FACTS(page, FACT_IS("own", own));
    cli_page_figure(page, at_most ? "peak_memory_bytes" : "memory_bytes", "  its memory", memory,
                    CLI_UNIT_MEMORY);
    cli_page_figure(page, at_most ? "peak_busy_percent" : "busy_percent", "  its share", busy,
                    CLI_UNIT_PERCENT);
    cli_page_close(page);
}

void cli_page_processes(cli_page *page, const stoke_gpu *gpu)
{
    cli_page_list(page, "processes", NULL);
    for (uint32_t i = 0; i < gpu->n_processes; i++) {
        const stoke_gpu_process *p = &gpu->process[i];
        cli_page_program(page, p->pid, p->name, p->own, 0, p->memory_bytes, p->busy_percent);
    }
    cli_page_close(page);
    CLI_PAGE_FACTS(page, FACT_OF(gpu, more_processes));
    if (gpu->more_processes)
        cli_page_say(page, "  and %s\n", STOKE_COUNT(gpu->more_processes, "more program"));
}
