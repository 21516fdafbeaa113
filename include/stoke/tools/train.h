/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/train.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_TRAIN_H
#define STOKE_TOOLS_TRAIN_H

#include <stoke/tools/options.h>
#include <stoke/train.h>

STOKE_API stoke_option_group stoke_train_options(stoke_train_params *params);

/* Settings that were read from a run's config.yaml name files by their whole paths. Where the run was moved
 * together with them (a project, to another place or machine), those that are gone are looked for where they
 * lie now, around the run as they lay around it, and the settings changed; the strings live in `storage`. */
STOKE_API int stoke_run_follow(const char *config, stoke_data_params *data, stoke_train_params *params,
                               stoke_option_storage *storage, stoke_error *err);

/* After a failure has been told: where other processes do not answer, ends all of them and this one, whose
 * exit status it is, since nothing else would; it does not return then. Otherwise closes. */
STOKE_API void stoke_trainer_abort(stoke_trainer **trainer, int status);

/* STOKE_E_NOTFOUND with a sentence that says which runs there are beside `path`, which is none. */
STOKE_API int stoke_run_missing(const char *path, stoke_error *err);
/* STOKE_OK where a run lies at `path` that can be gone on with, by its config.yaml. */
STOKE_API int stoke_run_check(const char *path, stoke_error *err);

/* STOKE_E_NOTFOUND with a sentence that says where the data of the run was, when it is not there. */
STOKE_API int stoke_run_check_data(const char *config, const stoke_data_params *data, stoke_error *err);

#endif
