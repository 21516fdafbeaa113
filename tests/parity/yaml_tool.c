/* SPDX-License-Identifier: Apache-2.0
 *
 * The splice for scripts: yaml_tool FILE [PATH=VALUE ...] prints the changed text, or "refused: message" and
 * exits 1.
 */
#include <stdio.h>
#include <string.h>

#include <stoke/tools/optimize.h>

static int set(stoke_yaml *yaml, char *word, stoke_error *err)
{
    char *equals = strchr(word, '=');
    if (!equals) return -1;
    *equals = 0;
    return stoke_yaml_set(yaml, word, equals + 1, err);
}

int main(int argc, char **argv)
{
    stoke_yaml *yaml = NULL;
    stoke_error err = { 0 };
    const char *text;
    size_t bytes;
    int r = argc < 2 ? -1 : stoke_yaml_open_checked(&yaml, argv[1], &err);
    for (int i = 2; !r && i < argc; i++) r = set(yaml, argv[i], &err);
    if (!r) r = stoke_yaml_text(yaml, &text, &bytes, NULL, &err);
    if (r)
        printf("refused: %s\n", err.message);
    else
        fwrite(text, 1, bytes, stdout);
    stoke_yaml_close(&yaml);
    return r != 0;
}
