/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, random numbers and the comparison for the trials of check_net.
 */
#include "tests/check/net_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/rng.h"

static void bail_out(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(1);
}

/* ---- numbers ---- */

uint32_t net_below(net_try *t, uint32_t end)
{
    t->random++;
    return (uint32_t)((stk_mix64(t->random) >> 32) * end >> 32);
}

uint32_t net_between(net_try *t, uint32_t first, uint32_t last)
{
    return first + net_below(t, last - first + 1);
}

float net_number(net_try *t)
{
    return (float)net_below(t, 1u << 24) * 0x1p-23f - 1.0f;
}

/* ---- memory ---- */

/* `bytes` that end or start at a forbidden page. */
static void *fenced(net_try *t, size_t bytes, int at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    if (t->fences == NET_FENCES) bail_out("a trial asks for more arrays than NET_FENCES");
    net_fence *f = &t->fence[t->fences++];
    f->room = room + 2 * page;
    f->base = mmap(NULL, f->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->base == MAP_FAILED || mprotect(f->base, page, PROT_NONE) ||
        mprotect(f->base + page + room, page, PROT_NONE))
        bail_out("no memory");
    return f->base + page + (at_end ? room - bytes : 0);
}

void *net_array(net_try *t, stk_float type, size_t count)
{
    void *array = fenced(t, count * stk_float_bytes(type), (int)net_below(t, 2));
    for (size_t i = 0; i < count; i++) stk_put(array, i, net_number(t), type);
    return array;
}

void *net_room(net_try *t, size_t bytes)
{
    const size_t whole = (bytes + 63) / 64 * 64;
    void *room = fenced(t, whole, (int)net_below(t, 2));
    memset(room, 0xff, whole);
    return room;
}

net_pair net_arrays(net_try *t, stk_float type, size_t count)
{
    net_pair pair;
    const int at_end = (int)net_below(t, 2);
    for (int who = 0; who < NET_BOTH; who++) pair.of[who] = fenced(t, count * stk_float_bytes(type), at_end);
    for (size_t i = 0; i < count; i++) stk_put(pair.of[0], i, net_number(t), type);
    memcpy(pair.of[1], pair.of[0], count * stk_float_bytes(type));
    return pair;
}

void net_release(net_try *t)
{
    while (t->fences) {
        t->fences--;
        munmap(t->fence[t->fences].base, t->fence[t->fences].room);
    }
}

/* ---- comparison ---- */

double net_allowed(stk_float type)
{
    return type == STK_F32 ? 1e-5 : type == STK_BF16 ? 0x1p-7 : 0x1p-10;
}

int net_agree(net_try *t, const char *what, net_pair pair, stk_float type, size_t count, double allowed)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        const double wanted = (double)stk_get(pair.of[NET_REFERENCE], i, type);
        squares += wanted * wanted;
    }
    const double typical = sqrt(squares / (double)(count ? count : 1));
    for (size_t i = 0; i < count; i++) {
        const double wanted = (double)stk_get(pair.of[NET_REFERENCE], i, type);
        const double got = (double)stk_get(pair.of[NET_COLUMN], i, type);
        const double limit = allowed * (fabs(wanted) + typical + 0.01), error = fabs(got - wanted);
        if (error <= limit) {
            if (limit > 0 && error / limit > t->worst) t->worst = error / limit;
            continue;
        }
        printf("# %s: %s: %s[%zu of %zu] is %.9g, not %.9g\n", t->name, t->text, what, i, count, got, wanted);
        return 0;
    }
    return 1;
}
