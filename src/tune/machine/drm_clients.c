/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading /proc/PID/fdinfo of DRM clients. The keys are those of the kernel's drm-usage-stats document;
 * i915 and amdgpu count nanoseconds, xe counts cycles.
 */
#include "src/tune/machine/gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/retry.h"
#include "src/base/words.h"
#include "src/tune/machine/tree.h"

static const char *value_of(const char *line, const char *key)
{
    const size_t n = strlen(key);
    if (strncmp(line, key, n) != 0 || line[n] != ':') return NULL;
    for (line += n + 1; *line == ' ' || *line == '\t';) line++;
    return line;
}

static stk_drm_engine *engine_named(stk_drm_client *client, const char *name, size_t length)
{
    if (!length || length >= sizeof client->engine[0].name) return NULL;
    for (uint32_t i = 0; i < client->n_engines; i++)
        if (!strncmp(client->engine[i].name, name, length) && !client->engine[i].name[length])
            return &client->engine[i];
    if (client->n_engines == STK_DRM_ENGINES) return NULL;
    stk_drm_engine *engine = &client->engine[client->n_engines++];
    memset(engine, 0, sizeof *engine);
    memcpy(engine->name, name, length);
    engine->capacity = 1;
    return engine;
}

/* The card's own memory; "resident" is what lies there now, "memory" what older amdgpu calls it. System
 * memory that the card may reach is another region and not counted. */
static void parse_memory(stk_drm_client *client, const char *line)
{
    static const char *const keys[] = { "drm-resident-vram0", "drm-resident-vram", "drm-resident-local0",
                                        "drm-memory-vram" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !client->has_memory; i++) {
        const char *value = value_of(line, keys[i]); /* "1024 KiB" */
        char *end;
        if (!value) continue;
        client->memory_bytes = strtod(value, &end);
        end += strspn(end, " ");
        client->memory_bytes *= !strncmp(end, "KiB", 3) ? 1024.0 : !strncmp(end, "MiB", 3) ? 1048576.0 : 1.0;
        client->has_memory = 1;
    }
}

/* drm-engine-NAME: N ns, drm-engine-capacity-NAME: N, drm-cycles-NAME: N, drm-total-cycles-NAME: N. */
static void parse_engine(stk_drm_client *client, const char *line)
{
    static const char *const prefixes[] = { "drm-engine-capacity-", "drm-engine-", "drm-total-cycles-",
                                            "drm-cycles-" };
    for (size_t i = 0; i < 4; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(line, prefixes[i], n) != 0) continue;
        const char *name = line + n, *end = strchr(name, ':');
        stk_drm_engine *engine = end ? engine_named(client, name, (size_t)(end - name)) : NULL;
        if (!engine) return;
        const uint64_t value = strtoull(end + 1, NULL, 10);
        if (i == 0)
            engine->capacity = value >= 1 && value <= 64 ? (uint32_t)value : 1;
        else if (i == 2)
            engine->total = value;
        else
            engine->busy = value;
        return;
    }
}

int stk_drm_parse(stk_drm_client *client, const char *text, const char *pci)
{
    int of_card = 0;
    memset(client, 0, sizeof *client);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n' && !*++line) break;
        const char *value = value_of(line, "drm-pdev");
        if (value) of_card = !strncmp(value, pci, strlen(pci)) && !isalnum((unsigned char)value[strlen(pci)]);
        if ((value = value_of(line, "drm-client-id"))) client->id = strtoull(value, NULL, 10);
        parse_memory(client, line);
        parse_engine(client, line);
    }
    return of_card;
}

static const stk_drm_client *client_of(const stk_drm_clients *clients, uint64_t id)
{
    for (size_t i = 0; i < clients->count; i++)
        if (clients->client[i].id == id) return &clients->client[i];
    return NULL;
}

static void sweep_process(stk_drm_clients *clients, const char *root, uint32_t pid, const char *pci)
{
    char folder[STK_TREE_PATH], path[STK_TREE_PATH], text[4096];
    if (!stk_tree_path(folder, root, "proc/%u/fd", pid)) return;
    DIR *files = stoke_opendir(folder); /* that of another user's program does not open */
    for (struct dirent *entry; files && (entry = stoke_readdir(files));) {
        /* Where the link leads tells for a third of the price of reading the text, and hardly any is ours. */
        if (!isdigit((unsigned char)*entry->d_name) || !stk_tree_path(path, folder, "%.16s", entry->d_name))
            continue;
        const ssize_t n = readlink(path, text, sizeof text - 1);
        if (n < 9 || strncmp(text, "/dev/dri/", 9) != 0) continue;
        stk_drm_client client;
        if (!stk_tree_text(text, sizeof text, root, "proc/%u/fdinfo/%.16s", pid, entry->d_name) ||
            !stk_drm_parse(&client, text, pci) || client_of(clients, client.id))
            continue;
        client.pid = pid;
        if (clients->count == STK_DRM_CLIENTS)
            clients->more++;
        else
            clients->client[clients->count++] = client;
    }
    if (files) closedir(files);
}

void stk_drm_sweep(stk_drm_clients *clients, const char *root, const char *pci)
{
    char folder[STK_TREE_PATH];
    clients->count = clients->more = 0;
    clients->time_ns = stk_now_ns();
    if (!*pci || !stk_tree_path(folder, root, "proc")) return;
    DIR *proc = stoke_opendir(folder);
    for (struct dirent *entry; proc && (entry = stoke_readdir(proc));) {
        const unsigned long pid = strtoul(entry->d_name, NULL, 10);
        if (pid && pid <= UINT32_MAX) sweep_process(clients, root, (uint32_t)pid, pci);
    }
    if (proc) closedir(proc);
}

/* The share of one engine that one client had, 0 to 1. A client that is new has no before: its time counts
 * from the next reading on. */
static double share(const stk_drm_client *before, const stk_drm_engine *now, uint64_t wall_ns)
{
    for (uint32_t i = 0; i < before->n_engines; i++) {
        const stk_drm_engine *old = &before->engine[i];
        if (strcmp(old->name, now->name) != 0 || now->busy < old->busy) continue;
        const uint64_t all = now->total ? now->total - old->total : wall_ns;
        if (!all || (now->total && now->total < old->total)) return 0;
        return (double)(now->busy - old->busy) / (double)all / now->capacity;
    }
    return 0;
}

double stk_drm_busy(const stk_drm_clients *before, const stk_drm_clients *now, uint32_t pid)
{
    char names[STK_DRM_ENGINES][sizeof now->client[0].engine[0].name];
    double busy[STK_DRM_ENGINES] = { 0 }, most = -1;
    size_t n = 0;
    if (!before->time_ns || now->time_ns <= before->time_ns) return -1;
    for (size_t i = 0; i < now->count; i++) {
        const stk_drm_client *client = &now->client[i], *old = client_of(before, client->id);
        if (!old || (pid && client->pid != pid)) continue;
        for (uint32_t e = 0; e < client->n_engines; e++) {
            const stk_drm_engine *engine = &client->engine[e];
            /* Those that draw or compute; copying and video have their own and do not count as busy. */
            if (!stk_is_one_of(engine->name, "render compute gfx rcs ccs")) continue;
            size_t k = 0;
            while (k < n && strcmp(names[k], engine->name) != 0) k++;
            if (k == STK_DRM_ENGINES) continue;
            if (k == n) memcpy(names[n++], engine->name, sizeof names[0]);
            busy[k] += share(old, engine, now->time_ns - before->time_ns);
        }
    }
    for (size_t k = 0; k < n; k++)
        if (busy[k] > most) most = busy[k];
    return most < 0 ? -1 : most > 1 ? 100 : most * 100;
}
