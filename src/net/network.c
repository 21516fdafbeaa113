/* SPDX-License-Identifier: Apache-2.0
 *
 * The networks there are, and which one is asked for.
 */
#include "src/net/network.h"

#include <string.h>

#include "src/base/error.h"
#include "src/net/files/pretrained.h"

static const stk_network *const NETWORKS[] = {
#define STK_NETWORK(name) &stk_##name##_network,
#include "src/net/networks.def"
#undef STK_NETWORK
};
enum { NETWORKS_COUNT = sizeof NETWORKS / sizeof *NETWORKS };

/* ---- finding ---- */

const stk_network *stk_network_at(size_t index, const char **model)
{
    for (size_t i = 0; i < NETWORKS_COUNT; i++)
        for (const char *const *name = NETWORKS[i]->models; *name; name++)
            if (!index--) {
                *model = *name;
                return NETWORKS[i];
            }
    return NULL;
}

const stk_network *stk_network_of_type(const char *model_type)
{
    for (size_t i = 0; model_type && i < NETWORKS_COUNT; i++)
        if (strcmp(NETWORKS[i]->model_type, model_type) == 0) return NETWORKS[i];
    return NETWORKS[0];
}

const stk_network *stk_network_of_tensor(const char *name)
{
    char declared[STK_NAME];
    for (size_t i = 0; i < NETWORKS_COUNT; i++)
        if (NETWORKS[i]->name(name, declared)) return NETWORKS[i];
    return NULL;
}

static int unknown_model(const char *model, stoke_error *err)
{
    char list[256] = "";
    const char *name;
    for (size_t i = 0; stk_network_at(i, &name); i++) {
        const char *between = stk_network_at(i + 1, &(const char *){ 0 }) ? ", " : " and ";
        stk_text_add(list, sizeof list, between, "%s", name);
    }
    return stk_fail(err, STOKE_E_NOTFOUND, "no model is called \"%s\": there are %s", model, list);
}

int stk_network_find(stk_network_config *config, const char *model, uint32_t classes, stoke_error *err)
{
    if (!classes || classes > STK_NET_CLASSES)
        return stk_fail(err, STOKE_E_INVALID, "classes is %u: 1 to %d will do", (unsigned)classes,
                        STK_NET_CLASSES);
    const char *name;
    const stk_network *network;
    for (size_t i = 0; (network = stk_network_at(i, &name)); i++) {
        if (strcmp(name, model) != 0) continue;
        *config = (stk_network_config){
            .network = network, .model = name, .task = STOKE_TASK_SEGMENT, .classes = classes, .scale = 1
        };
        return network->settle ? network->settle(config, err) : STOKE_OK;
    }
    return unknown_model(model, err);
}

/* ---- settings ---- */

/* A size that is asked for must be that of the weights. */
static int same_size(const stoke_net_params *p, const char *what, uint32_t asked, uint32_t *found,
                     stoke_error *err)
{
    if (asked && asked != *found && !p->partial)
        return stk_fail(err, STOKE_E_INVALID, "%s has %s %u, not the %u that was asked for", p->weights, what,
                        (unsigned)*found, (unsigned)asked);
    if (asked) *found = asked;
    return STOKE_OK;
}

static int configure_by_weights(stk_network_config *config, const stoke_net_params *p, stoke_error *err)
{
    int status = stk_pretrained_config(p->weights, config, err);
    if (status) return status;
    if (p->model && strcmp(p->model, config->model) != 0) {
        if (!p->partial)
            return stk_fail(err, STOKE_E_INVALID, "%s holds a %s, not the %s that was asked for", p->weights,
                            config->model, p->model);
        const uint32_t classes = config->classes;
        status = stk_network_find(config, p->model, classes ? classes : 1, err);
        config->classes = classes;
    }
    if (!status && p->task != STOKE_TASK_AUTO && p->task != config->task) {
        if (!p->partial)
            return stk_fail(err, STOKE_E_INVALID,
                            "%s was trained to %s: `partial` takes the tensors that fit", p->weights,
                            config->task == STOKE_TASK_RESTORE ? "restore pictures" : "segment");
        config->task = p->task;
    }
    if (!status) status = same_size(p, "base_channels", p->base_channels, &config->base_channels, err);
    if (!status) status = same_size(p, "num_blocks", p->num_blocks, &config->num_blocks, err);
    if (!status) status = same_size(p, "scale", p->scale, &config->scale, err);
    if (!status && !p->classes && !config->classes)
        return stk_fail(err, STOKE_E_INVALID, "%s is an encoder alone: say how many classes there are",
                        p->weights);
    return status;
}

int stk_network_configure(stk_network_config *config, const stoke_net_params *p, stoke_error *err)
{
    int status;
    const int restores = p->task == STOKE_TASK_RESTORE;
    if (p->weights)
        status = configure_by_weights(config, p, err);
    else
        status = stk_network_find(config, p->model, restores ? 3 : p->classes, err);
    if (status) return status;
    if (!p->weights) {
        config->task = restores ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
        config->base_channels = p->base_channels;
        config->num_blocks = p->num_blocks;
        config->scale = p->scale ? p->scale : 1;
    }
    if (config->task == STOKE_TASK_RESTORE)
        config->classes = 3;
    else if (p->classes)
        config->classes = p->classes;
    if (config->classes > STK_NET_CLASSES)
        return stk_fail(err, STOKE_E_INVALID, "classes is %u: 1 to %d will do", (unsigned)config->classes,
                        STK_NET_CLASSES);
    if (config->task == STOKE_TASK_RESTORE && !config->network->restores)
        return stk_fail(err, STOKE_E_INVALID, "%s is a %s, which labels pictures: model resnet restores them",
                        config->model, config->network->family);
    if ((config->base_channels || config->num_blocks) && !config->network->settle)
        return stk_fail(err, STOKE_E_INVALID,
                        "%s has no base_channels or num_blocks to set: they are in its name", config->model);
    if (config->scale > STK_NET_SCALE || (config->scale > 1 && config->task != STOKE_TASK_RESTORE))
        return stk_fail(err, STOKE_E_INVALID,
                        "scale is %u: 1 to %d will do, above 1 for the task restore only",
                        (unsigned)config->scale, STK_NET_SCALE);
    return config->network->settle ? config->network->settle(config, err) : STOKE_OK;
}

int stk_network_check_batch(const stk_network *network, uint32_t batch, uint32_t height, uint32_t width,
                            stoke_error *err)
{
    const uint32_t least = network->side_min, unit = network->side_multiple;
    if (!batch || batch > STK_NET_BATCH)
        return stk_fail(err, STOKE_E_INVALID, "batch is %u: 1 to %d will do", (unsigned)batch, STK_NET_BATCH);
    if (height < least || height > STK_NET_SIDE_MAX || width < least || width > STK_NET_SIDE_MAX)
        return stk_fail(err, STOKE_E_INVALID, "pictures of %u x %u: %u x %u to %d x %d will do%s",
                        (unsigned)height, (unsigned)width, (unsigned)least, (unsigned)least, STK_NET_SIDE_MAX,
                        STK_NET_SIDE_MAX, unit == 1 ? ", odd sizes too" : "");
    if (height % unit || width % unit)
        return stk_fail(err, STOKE_E_INVALID, "pictures of %u x %u: sides of a %s are multiples of %u",
                        (unsigned)height, (unsigned)width, network->family, (unsigned)unit);
    if ((uint64_t)batch * height * width > STK_NET_PIXELS)
        return stk_fail(err, STOKE_E_LIMIT, "%u pictures of %u x %u: a batch has at most %llu pixels",
                        (unsigned)batch, (unsigned)height, (unsigned)width,
                        (unsigned long long)STK_NET_PIXELS);
    return STOKE_OK;
}
