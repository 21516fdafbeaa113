/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/facts.h"

stoke_json cli_json_open(void)
{
    stoke_json json;
    stoke_json_begin(&json, stdout, 2);
    stoke_json_object(&json, NULL);
    return json;
}

void cli_json_facts(stoke_json *json, const cli_fact *facts)
{
    for (const cli_fact *f = facts; f->kind != CLI_FACT_END; f++) switch (f->kind) {
        case CLI_FACT_TEXT: stoke_json_string(json, f->key, f->text); break;
        case CLI_FACT_INT: stoke_json_int(json, f->key, f->integer); break;
        case CLI_FACT_UINT: stoke_json_uint(json, f->key, f->count); break;
        case CLI_FACT_REAL: stoke_json_real(json, f->key, f->real); break;
        case CLI_FACT_BOOL: stoke_json_bool(json, f->key, f->integer != 0); break;
        case CLI_FACT_PAIR:
            stoke_json_array(json, f->key);
            stoke_json_uint(json, NULL, f->pair[0]);
            stoke_json_uint(json, NULL, f->pair[1]);
            stoke_json_close(json);
            break;
        case CLI_FACT_NONE:
        case CLI_FACT_END: break;
        }
}
