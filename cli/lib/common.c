/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of a call: defaults, then the config file, then flags. Errors, progress, small helpers.
 */
#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/help.h"
#include "cli/lib/hints.h"
#include "cli/lib/output.h"
#include "cli/lib/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPTIONS cli_common
static const stoke_option common_options[] = {
    CLI_FLAG(json, "Print the result as JSON on stdout and nothing else there"),
    CLI_FLAG(quiet, "No progress, no memory plan, no remarks on stderr; errors are still shown"),
    CLI_TEXT(
        STRING, config, NULL, "FILE",
        "Read settings from a file first: one of `stoke config`, or another trainer's (YAML, JSON, .py); "
        "flags override it"),
};

static void bind_groups(cli_call *call)
{
    const cli_command *command = call->command;
    call->n_groups = 0;
    if (command->n_options)
        call->groups[call->n_groups++] = (stoke_option_group){ "Options of this command", command->options,
                                                               command->n_options, call->options };
    if (command->reads_upload) call->groups[call->n_groups++] = stoke_upload_options(&call->upload);
    if (call->trains) {
        const stoke_option_group all = stoke_train_options(&call->train);
        call->n_groups += cli_sections(&all, call->groups + call->n_groups);
    }
    if (command->reads_data) {
        stoke_option_group all = stoke_data_options(&call->data);
        call->data_table = cli_own_defaults(call, &all);
        if (call->data_table) all.options = call->data_table;
        call->n_groups += cli_sections(&all, call->groups + call->n_groups);
    }
    call->groups[call->n_groups++] = (stoke_option_group){
        "Common options", common_options,
        CLI_COUNT(common_options) - (command->reads_data || command->reads_config ? 0 : 1), &call->common
    };
}

static void set_defaults(cli_call *call)
{
    call->common = (cli_common){ 0 };
    if (call->options) memset(call->options, 0, call->command->options_bytes);
    call->data = stoke_data_defaults();
    call->train = stoke_train_defaults();
    call->upload = stoke_upload_defaults();
    for (size_t i = 0; i < call->n_groups; i++) stoke_options_defaults(&call->groups[i]);
}

const char *cli_set_name(const stoke_data_params *data)
{
    return data->data ? data->data : data->images ? data->images : data->list;
}

static int refuse_empty_texts(const stoke_option_group *group, stoke_error *err)
{
    for (size_t i = 0; i < group->count; i++) {
        const stoke_option *o = &group->options[i];
        if (o->type != STOKE_OPT_STRING) continue;
        const char *value = *(const char *const *)((const char *)group->target + o->offset);
        if (value && !*value) return cli_error(err, STOKE_E_INVALID, "`%s`: the name is empty", o->name);
    }
    return STOKE_OK;
}

/* An empty name is a slip of a script (--out "$unset"). Of the data options some may be empty, so only those
 * that name the source are looked at. */
static int refuse_empty_names(const cli_call *call, stoke_error *err)
{
    enum { SOURCE_NAMES = 4 }; /* data, images, masks, list: the first of the table; targets stand below */
    const cli_command *command = call->command;
    for (int i = 0; i < call->n_words; i++)
        if (!*call->words[i]) return cli_error(err, STOKE_E_INVALID, "argument %d is an empty name", i + 1);
    stoke_data_params data = call->data;
    stoke_train_params train = call->train;
    stoke_option_group source = stoke_data_options(&data);
    source.count = SOURCE_NAMES;
    const stoke_option_group groups[] = { { NULL, command->options, command->n_options, call->options },
                                          call->groups[call->n_groups - 1],
                                          source,
                                          stoke_train_options(&train) };
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < CLI_COUNT(groups) - !call->trains; i++)
        r = refuse_empty_texts(&groups[i], err);
    if (!r && data.targets && !*data.targets)
        r = cli_error(err, STOKE_E_INVALID, "`targets`: the name is empty");
    if (!r && command->reads_data && call->data.augment && !*call->data.augment)
        r = cli_error(err, STOKE_E_INVALID, "--augment: the text is empty; no augmentation is called none");
    return r;
}

/* The set as the command line names it; it replaces the whole one of a file, not one half of it. */
typedef struct named_set {
    int any;
    const char *folder; /* the first word */
} named_set;

static named_set set_of_flags(const cli_call *call)
{
    const int takes_folder = call->n_words && !call->command->takes_network;
    return (named_set){ cli_set_name(&call->data) != NULL, takes_folder ? call->words[0] : NULL };
}

/* Above what came from a file. */
static int repeat_flags(cli_call *call, named_set set, stoke_error *err)
{
    int ignored;
    stoke_data_params *data = &call->data;
    if (set.any) data->data = data->images = data->masks = data->targets = data->list = NULL;
    const int r = stoke_options_parse(call->groups, call->n_groups, call->argc, call->argv, call->words,
                                      &call->n_words, &ignored, err);
    if (!r && set.folder) call->data.data = set.folder;
    return r;
}

static int load_config(cli_call *call, const char *path, stoke_error *err)
{
    const named_set set = set_of_flags(call);
    cli_common common = call->common; /* an error in the file is reported the way the flags ask for */
    set_defaults(call);
    call->common.quiet = common.quiet; /* of what the file has that cannot be used */
    int r = cli_load_settings(call, path, set.any || set.folder, err);
    /* What a run was trained with is not all that it is evaluated with. */
    if (!r && path != common.config) r = cli_repeat_defaults(call, err);
    if (r) {
        call->common = common;
        return cli_blame(err, path);
    }
    return repeat_flags(call, set, err);
}

int cli_replace_settings(cli_call *call, const stoke_data_params *data, const stoke_upload_params *upload,
                         stoke_error *err)
{
    const named_set set = set_of_flags(call);
    call->data = *data;
    call->upload = *upload;
    return repeat_flags(call, set, err);
}

/* What lies there tells the flag that the word was meant for, or a shell has replaced a pattern by the names
 * of shards. */
static int too_many_words(const cli_call *call, stoke_error *err)
{
    const char *word = call->words[call->command->max_words], *flag = NULL;
    struct stat st;
    char log[CLI_PATH];
    const int there = stoke_stat(word, &st) == 0, folder = there && S_ISDIR(st.st_mode);
    const int takes_set = call->command->reads_data && !call->command->takes_network;
    snprintf(log, sizeof log, "%s/log.jsonl", word);
    if (folder && cli_is_option(call, "run", 3) && stoke_there(log))
        flag = "run";
    else if (folder && cli_is_option(call, "data", 4) && !takes_set)
        flag = "data";
    else if (there && !folder && cli_is_option(call, "config", 6) && cli_ends_with(word, ".yaml"))
        flag = "config";
    if (flag)
        return cli_error(err, STOKE_E_INVALID, "'%s' is one argument too many: did you mean --%s %s?", word,
                         flag, STOKE_WORD(word));
    const int paths = call->command->reads_data && stoke_there(call->words[0]) && stoke_there(word);
    return cli_error(err, STOKE_E_INVALID, "'%s' is one argument too many%s", word,
                     paths ? ". Of several shards name the folder they are in, or put the pattern in quotes: "
                             "'shards/{000000..000003}.tar'"
                           : "");
}

int cli_call_begin(cli_call *call, const cli_command *command, int argc, char **argv, stoke_error *err)
{
    int help = 0;
    *call = (cli_call){ .command = command, .trains = command->reads_training, .argc = argc, .argv = argv };
    for (int i = 1; command->trains_if_asked && i < argc && strcmp(argv[i], "--"); i++)
        call->trains |= !strcmp(argv[i], "--train");
    if (command->options_bytes) call->options = cli_alloc(1, command->options_bytes);
    call->words = cli_alloc((size_t)argc + 1, sizeof *call->words);
    call->planned = cli_alloc(1, sizeof *call->planned);
    bind_groups(call);
    set_defaults(call);
    cli_translate_flags(call);
    int r = stoke_options_parse(call->groups, call->n_groups, argc, call->argv, call->words, &call->n_words,
                                &help, err);
    if (!r && !help && cli_translate_file(call))
        r = stoke_options_parse(call->groups, call->n_groups, argc, call->argv, call->words, &call->n_words,
                                &help, err);
    if (help) return 1;
    if (r) {
        if (r == STOKE_E_NOTFOUND) cli_hint_flag(call, err);
        /* Parsing stops at the error; a program that reads JSON wants it whichever flag comes first. */
        for (int i = 1; i < argc; i++) call->common.json |= !strcmp(argv[i], "--json");
        return cli_blame(err, NULL);
    }
    if (call->n_words > command->max_words) return too_many_words(call, err);
    r = refuse_empty_names(call, err);
    /* The first word stands for --data in commands that read data. */
    const int takes_folder = command->reads_data && !command->takes_network && call->n_words;
    if (!r && takes_folder && cli_set_name(&call->data))
        r = cli_error(err, STOKE_E_INVALID, "'%s': the data is already given by --data, --images or --list",
                      call->words[0]);
    if (!r && takes_folder) call->data.data = call->words[0];
    if (!r) r = cli_find_run(call, err);
    char settings[CLI_PATH];
    const char *config = cli_settings_file(call, settings);
    if (!r && config == settings && call->trains && call->train.resume)
        r = stoke_run_check(call->train.resume, err);
    if (!r && config && !command->any_config) r = load_config(call, config, err);
    if (!r) r = cli_find_run(call, err); /* the file may ask for it */
    /* auto is training's to settle; for the others it has a fixed meaning, in figures they print too. */
    if (!call->trains && call->data.batch < 0) call->data.batch = stoke_data_defaults().batch;
    return r;
}

void cli_call_end(cli_call *call)
{
    stoke_options_free_storage(&call->storage);
    for (int i = 0; call->owned && i < call->argc; i++) free(call->owned[i]);
    free(call->owned);
    free(call->typed);
    stoke_yaml_close(&call->settings);
    free(call->options);
    free(call->words);
    free(call->planned);
    free(call->run_found);
    free(call->data_table);
    call->options = call->words = call->typed = call->owned = NULL;
    call->run_found = NULL;
    call->data_table = NULL;
}

int cli_set_data(stoke_data_params *data, const char *name, const char *value, stoke_error *err)
{
    stoke_option_group group = stoke_data_options(data);
    return stoke_options_set(&group, 1, name, value, err);
}

/* ---- errors ---- */

int cli_error(stoke_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    err->code = code;
    stoke_text_vformat(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

int cli_pass(stoke_error *err, int code, const char *message)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "%s", message);
    return code;
}

void cli_print_message(const char *title, const char *message)
{
    /* A line at a time: other processes write to the same terminal. */
    for (const char *at = message; *at;) {
        const size_t n = strcspn(at, "\n");
        if (at == message)
            stoke_text_print(stderr, "stoke %s: %.*s\n", title, (int)n, at);
        else
            stoke_text_print(stderr, "%.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

int cli_blame(stoke_error *err, const char *file)
{
    int fails = err->code == STOKE_E_NOMEM || err->code == STOKE_E_IO;
    /* A key or op that is not known is STOKE_E_NOTFOUND too. */
    int missing = err->code == STOKE_E_NOTFOUND && file && !stoke_there(file);
    if (!fails && !missing) err->code = STOKE_E_INVALID;
    return err->code;
}

/* The library calls settings by their names; who typed a command knows flags. `name` in backquotes, and names
 * of several words (max_bad), become --max-bad. A name that is part of a path stays. */
const char *cli_with_flags(const cli_call *call, const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (const char *at = text; *at && n + 4 < size;) {
        const int quoted = *at == '`', begins = at == text || strchr(" (\n", at[-1]);
        const char *name = at + quoted;
        const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz_");
        const int ends = quoted ? name[length] == '`' : !name[length] || strchr(" ,:)", name[length]);
        if (!length || !begins || !ends || (!quoted && !memchr(name, '_', length)) ||
            !cli_is_option(call, name, length) || n + length + 4 >= size) {
            out[n++] = *at++;
            continue;
        }
        out[n++] = '-', out[n++] = '-';
        for (size_t i = 0; i < length; i++) out[n++] = (char)(name[i] == '_' ? '-' : name[i]);
        at = name + length + quoted;
    }
    out[n] = 0;
    return out;
}

int cli_fail(const cli_call *call, const stoke_error *err)
{
    const char *message = CLI_WITH_FLAGS(call, err->message);
    if (err->code == STOKE_E_CANCELLED || cli_interrupted()) {
        cli_say(call, "interrupted");
        return cli_interrupt_code();
    }
    if (call->common.json) {
        stoke_json json = cli_json_open();
        FACTS_OBJECT(&json, "error", FACT("code", stoke_status_name(err->code)), FACT("message", message));
        stoke_json_close(&json);
    }
    cli_print_message(CLI_TITLE(call->command, " "), message);
    return err->code == STOKE_E_INVALID ? CLI_MISUSE : CLI_FAILED;
}

void cli_say(const cli_call *call, const char *format, ...)
{
    if (call->common.quiet) return;
    va_list args;
    va_start(args, format);
    stoke_text_vprint(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

void cli_print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    stoke_text_vprint(stdout, format, args);
    va_end(args);
}

void cli_row(stoke_table *table, const char *format, ...)
{
    char text[4096], *rest = text;
    const char *cells[16] = { 0 };
    va_list args;
    va_start(args, format);
    stoke_text_vformat(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; rest && i < CLI_COUNT(cells); i++) {
        cells[i] = strsep(&rest, "\t");
        if (!strcmp(cells[i], "n/a")) cells[i] = NULL;
    }
    stoke_table_row(table, cells);
}

void cli_table_end(stoke_table *table)
{
    stoke_table_print(table, stdout);
    stoke_table_destroy(&table);
}

void *cli_alloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (p) return p;
    stoke_text_print(stderr, "stoke: no memory for %zu x %zu bytes\n", count, size);
    exit(CLI_FAILED);
}

void *cli_grow(void *array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) return array;
    size_t wanted = need < 32 ? 64 : need * 2;
    void *p = reallocarray(array, wanted, size);
    if (!p) {
        stoke_text_print(stderr, "stoke: no memory for %zu x %zu bytes\n", wanted, size);
        exit(CLI_FAILED);
    }
    *capacity = wanted;
    return p;
}

/* ---- progress ---- */

stoke_progress *cli_progress_begin(const cli_call *call, const char *label, const char *unit)
{
    return call->common.quiet ? NULL : stoke_progress_create(stderr, label, unit);
}

int cli_progress_update(void *progress, uint64_t done, uint64_t total)
{
    int stop = progress ? stoke_progress_update(progress, done, total) : 0;
    return stop || cli_interrupted();
}

/* ---- small helpers ---- */

FILE *cli_open_file(const char *path)
{
    struct stat st;
    const int fd = stoke_open(path, O_RDONLY, 0);
    if (fd < 0) return NULL;
    FILE *file = NULL;
    int number = 0;
    if (stoke_fstat(fd, &st) != 0)
        number = errno;
    else if (!S_ISREG(st.st_mode))
        number = S_ISDIR(st.st_mode) ? EISDIR : ESPIPE; /* nothing that could be read from its beginning */
    else if (!(file = fdopen(fd, "rb")))
        number = errno;
    if (!file) close(fd);
    if (number) errno = number;
    return file;
}

int cli_read_text(const char *path, size_t limit, char **text, stoke_error *err)
{
    FILE *f = cli_open_file(path);
    if (!f)
        return cli_error(err, STOKE_E_IO, "%s: cannot open: %s", path,
                         errno == ESPIPE ? "not a regular file" : strerror(errno));
    *text = cli_alloc(limit + 1, 1);
    size_t n = fread(*text, 1, limit + 1, f);
    int bad = ferror(f);
    fclose(f);
    if (!bad && n <= limit) {
        (*text)[n] = 0;
        return STOKE_OK;
    }
    free(*text);
    *text = NULL;
    return bad ? cli_error(err, STOKE_E_IO, "%s: cannot read", path)
               : cli_error(err, STOKE_E_LIMIT, "%s: longer than %zu bytes", path, limit);
}

int cli_read_blob(const stoke_blob *blob, size_t limit, uint8_t **bytes, size_t *capacity, size_t *size)
{
    int fd = stoke_open(blob->path, O_RDONLY, 0), ok = 0;
    struct stat st;
    if (fd < 0) return 0;
    uint64_t wanted = blob->size;
    if (stoke_fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if (wanted == UINT64_MAX) wanted = (uint64_t)st.st_size;
        ok = wanted > 0 && wanted <= limit && wanted <= (uint64_t)st.st_size;
    }
    size_t have = 0;
    stoke_patience patience = { 0 };
    if (ok) *bytes = cli_grow(*bytes, capacity, (size_t)wanted, 1);
    while (ok && have < wanted) {
        ssize_t n = pread(fd, *bytes + have, (size_t)wanted - have, (off_t)(blob->offset + have));
        if (n < 0 && stoke_again(&patience, errno)) continue;
        ok = n > 0;
        have += ok ? (size_t)n : 0;
    }
    close(fd);
    *size = have;
    return ok;
}

int cli_ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && !strcasecmp(name + n - m, ending);
}

const char *cli_short_numbers(const char *text, char *out, size_t size)
{
    size_t n = 0;
    int decimals = -1; /* -1: not behind a point */
    for (const char *at = text; *at && n + 1 < size; at++) {
        /* A point between digits: that of a range, "0.5..1", has none on one side. */
        if (*at == '.' && at > text && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[1]))
            decimals = 0;
        else
            decimals = isdigit((unsigned char)*at) && decimals >= 0 ? decimals + 1 : -1;
        if (decimals <= 4) out[n++] = *at;
    }
    out[n] = 0;
    return out;
}

void cli_append_word(char *line, size_t size, const char *word)
{
    const size_t used = strlen(line);
    const char *quoted = STOKE_WORD(word);
    if (*quoted && used + strlen(quoted) + 2 <= size) sprintf(line + used, " %s", quoted);
}

const char *cli_hex(const uint8_t digest[16], char text[33])
{
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}
