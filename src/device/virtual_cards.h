/* SPDX-License-Identifier: Apache-2.0
 *
 * Cards on paper by name.
 */
#ifndef STOKE_SRC_DEVICE_VIRTUAL_CARDS_H
#define STOKE_SRC_DEVICE_VIRTUAL_CARDS_H

#include <stoke/device.h>

/* `name` "": the usual one. STOKE_E_NOTFOUND: the message lists all. */
int stk_card_find(const char *name, stoke_card *card, uint32_t *compute_units, stoke_error *err);

#endif
