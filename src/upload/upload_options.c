/* SPDX-License-Identifier: Apache-2.0
 *
 * The option table of the upload. The order of every `choices` text is that of the enum it fills.
 */
#include <stddef.h>
#include <stoke/tools/upload.h>

#define FIELD(name) .offset = offsetof(stoke_upload_params, name)

/* clang-format off: one entry, one paragraph */
static const stoke_option table[] = {
    { "placement", STOKE_OPT_CHOICE, FIELD(placement), .default_text = "auto", .choices = "host|device|auto",
      .help = "Who augments; the bytes of a batch do not depend on it. auto measures both on the first "
              "batches and takes what keeps the device busiest with the least CPU" },
    { "transfer", STOKE_OPT_CHOICE, FIELD(transfer), .default_text = "stream",
      .choices = "stream|pinned|pageable",
      .help = "How batches cross: stream from pinned memory on a stream of their own, while the device "
              "computes; pinned on the consumer's stream; pageable from ordinary memory, the host waiting "
              "for every copy" },
    { "depth", STOKE_OPT_INT, FIELD(depth), .default_text = "2", .min = 1, .max = 64, .argument = "N",
      .help = "Batches on the device ahead of the one in use; each takes the device memory of a batch" },
};
/* clang-format on */

stoke_option_group stoke_upload_options(stoke_upload_params *params)
{
    return (stoke_option_group){ "Feeding a device", table, sizeof table / sizeof *table, params };
}

stoke_upload_params stoke_upload_defaults(void)
{
    stoke_upload_params params = { .struct_size = sizeof params };
    const stoke_option_group group = stoke_upload_options(&params);
    stoke_options_defaults(&group);
    return params;
}
