/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/process_list.h"
#include "cli/lib/common.h"

#include <stdio.h>

void cli_page_program(cli_page *page, const cli_program *p)
{
    char title[128];
    snprintf(title, sizeof title, " program %u, %s%s%s", p->pid, *p->name ? p->name : "in another container",
             p->own ? " (this one)" : "", p->at_most ? ", at most" : "");
    cli_page_entry(page, title);
    if (page->as_json) {
        stoke_json_uint(&page->json, "pid", p->pid);
        cli_page_text(page, "name", NULL, p->name);
        stoke_json_bool(&page->json, "own", p->own);
    }
    cli_page_figure(page, p->at_most ? "peak_memory_bytes" : "memory_bytes", "  its memory", p->memory,
                    CLI_UNIT_MEMORY);
    cli_page_figure(page, p->at_most ? "peak_busy_percent" : "busy_percent", "  its share", p->busy,
                    CLI_UNIT_PERCENT);
    cli_page_close(page);
}

void cli_page_processes(cli_page *page, const stoke_gpu *gpu)
{
    if (page->as_json) stoke_json_array(&page->json, "processes");
    for (uint32_t i = 0; i < gpu->n_processes; i++) {
        const stoke_gpu_process *process = &gpu->process[i];
        cli_page_program(page, &(cli_program){ .pid = process->pid,
                                               .name = process->name,
                                               .own = process->own,
                                               .memory = process->memory_bytes,
                                               .busy = process->busy_percent });
    }
    if (page->as_json) {
        stoke_json_close(&page->json);
        stoke_json_uint(&page->json, "more_processes", gpu->more_processes);
    } else if (gpu->more_processes) {
        cli_print("  and %s\n", STOKE_COUNT(gpu->more_processes, "more program"));
    }
}
