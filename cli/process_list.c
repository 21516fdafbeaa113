/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/process_list.h"

#include <stdio.h>

void cli_page_processes(cli_page *page, const stoke_gpu *gpu)
{
    if (page->as_json) stoke_json_array(&page->json, "processes");
    for (uint32_t i = 0; i < gpu->n_processes; i++) {
        const stoke_gpu_process *process = &gpu->process[i];
        char title[128];
        snprintf(title, sizeof title, " program %u, %s%s", process->pid,
                 *process->name ? process->name : "in another container", process->own ? " (this one)" : "");
        cli_page_entry(page, title);
        if (page->as_json) {
            stoke_json_uint(&page->json, "pid", process->pid);
            cli_page_text(page, "name", NULL, process->name);
            stoke_json_bool(&page->json, "own", process->own);
        }
        cli_page_figure(page, "memory_bytes", "  its memory", process->memory_bytes, CLI_UNIT_BYTES);
        cli_page_figure(page, "busy_percent", "  its share", process->busy_percent, CLI_UNIT_PERCENT);
        cli_page_close(page);
    }
    if (page->as_json) {
        stoke_json_close(&page->json);
        stoke_json_uint(&page->json, "more_processes", gpu->more_processes);
    } else if (gpu->more_processes) {
        printf("  and %u more programs\n", gpu->more_processes);
    }
}
