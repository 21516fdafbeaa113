/* SPDX-License-Identifier: Apache-2.0
 *
 * A device and an upload to it, with what a person should know about them on stderr.
 */
#ifndef STOKE_CLI_LIB_UPLOAD_OPTIONS_H
#define STOKE_CLI_LIB_UPLOAD_OPTIONS_H

#include "cli/lib/common.h"

/* As --transfer and --placement have them. */
const char *cli_transfer_name(int transfer);
const char *cli_placement_name(int placement);

/* contents: a simulated GPU really holds the bytes, and its kernels run. */
int cli_device_open(stoke_device **out, const char *name, int contents, stoke_error *err);

/* Makes the upload and says the memory plan (call->planned) and who augments; each once per command. `data`
 * and `params` as they are to be used; other_bytes: what the command holds on the host before or after the
 * upload. */
int cli_feed_open(const cli_call *call, stoke_upload **out, const stoke_dataset *dataset,
                  const stoke_data_params *data, stoke_device *device, const stoke_upload_params *params,
                  uint64_t other_bytes, stoke_error *err);

/* The next batch: 0, STOKE_E_END, or an error (also STOKE_E_CANCELLED after an interrupt) with its message.
 */
int cli_feed_next(stoke_upload *upload, const stoke_device_batch **batch, stoke_error *err);

#endif
