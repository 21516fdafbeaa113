/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands share: settings, errors, progress, a loader that is ready to iterate.
 */
#ifndef STOKE_CLI_LIB_COMMON_H
#define STOKE_CLI_LIB_COMMON_H

#include <sys/types.h>

#include "cli/lib/command.h"

/* ---- settings ---- */

/* Defaults, then --config, then the flags in argv[1..] (argv[0] is the command's name). 0 = run the command;
 * 1 = --help was asked for; negative: a message is in err. Free with cli_call_end in every case. */
int cli_call_begin(cli_call *call, const cli_command *command, int argc, char **argv, stoke_error *err);
void cli_call_end(cli_call *call);

/* For commands that read their file themselves: its settings take the place of the defaults, flags count
 * above them. The command's own options are to be filled before. */
int cli_replace_settings(cli_call *call, const stoke_data_params *data, const stoke_upload_params *upload,
                         stoke_error *err);

/* The options of the table of the data path, or of that of training, as titled groups; returns how many. */
size_t cli_sections(const stoke_option_group *all, stoke_option_group *groups);

/* What names the set: a folder, a list; NULL: nothing does. */
const char *cli_set_name(const stoke_data_params *data);

/* Sets one data option by name, e.g. what `show` needs whatever the user wants elsewhere. */
int cli_set_data(stoke_data_params *data, const char *name, const char *value, stoke_error *err);

/* ---- errors ---- */

/* Prints the error to stderr (with --json also as {"error": ...} to stdout) and returns the exit code it
 * means. */
int cli_fail(const cli_call *call, const stoke_error *err);
/* The same for errors that are found here. */
int cli_error(stoke_error *err, int code, const char *format, ...) STOKE_PRINTF(3, 4);

/* Hands on a message of the library as it is. */
int cli_pass(stoke_error *err, int code, const char *message);

/* "stoke TITLE: message" on stderr, with the newlines that it has. */
void cli_print_message(const char *title, const char *message);

/* A text of the library with its names of settings as flags: `max_bad` becomes --max-bad. */
const char *cli_with_flags(const cli_call *call, const char *text, char *out, size_t size);
#define CLI_WITH_FLAGS(call, text)                                                                           \
    cli_with_flags((call), (text), (char[STOKE_ERROR_TEXT]){ 0 }, STOKE_ERROR_TEXT)

/* For an error in settings, read from `file` (NULL: not from a file): what the user wrote becomes
 * STOKE_E_INVALID, a file that is missing or cannot be read keeps its code. Returns the code. */
int cli_blame(stoke_error *err, const char *file);

/* printf for people: what comes from files arrives as text that no terminal obeys (<stoke/tools/terminal.h>).
 * The house rules allow no other printf here. */
void cli_print(const char *format, ...) STOKE_PRINTF(1, 2);

/* Lines for people on stderr, printed likewise; silent with --quiet. */
void cli_say(const cli_call *call, const char *format, ...) STOKE_PRINTF(2, 3);

/* ---- tables ---- */

/* A table by its headings; rows by a format with tabs between the cells ("%s\t%.1f"; those in names are
 * escaped). A cell "n/a" is one that is not known: it does not keep a column of numbers from the right. */
#define CLI_TABLE(...)                                                                                       \
    stoke_table_create((const char *const[]){ __VA_ARGS__ },                                                 \
                       CLI_COUNT(((const char *const[]){ __VA_ARGS__ })))
void cli_row(stoke_table *table, const char *format, ...) STOKE_PRINTF(2, 3);
/* Prints it and is done with it. */
void cli_table_end(stoke_table *table);

/* ---- progress ---- */

/* A progress object on stderr that an interrupt cancels; NULL with --quiet. One at a time. */
stoke_progress *cli_progress_begin(const cli_call *call, const char *label, const char *unit);
/* A stoke_progress_fn that accepts a NULL context and looks for interrupts. */
int cli_progress_update(void *progress, uint64_t done, uint64_t total);

/* ---- memory ---- */

/* Lets freed memory go, so that what is held is what was planned. First of all. */
void cli_keep_memory_small(void);
/* What was freed goes back now: another part of the command begins, with its own plan. */
void cli_return_memory(void);
/* Of a command that loads and does nothing else. */
stoke_memory_sum cli_loader_memory(const stoke_memory_plan *plan);
/* What the command will take, before it takes it: the sum, or all of its terms. Both are call->planned then.
 */
void cli_say_memory(const cli_call *call, const stoke_memory_sum *sum);
void cli_memory_planned(void *call, const stoke_memory_sum *sum); /* the same for who is called back */
void cli_say_memory_terms(const cli_call *call, const stoke_memory_sum *sum);
/* The same as "plan": bytes, and the terms of the sum; nothing for an empty one. */
void cli_json_memory(stoke_json *json, const stoke_memory_sum *sum);

/* ---- data ---- */

/* A dataset and a loader over it. */
typedef struct cli_session {
    const cli_call *call;
    stoke_dataset *dataset;
    stoke_loader *loader;
    struct {
        uint64_t pictures, tile; /* so many are kept and drawn, so many pixels a side */
    } drawn;
    stoke_memory_sum memory; /* what it will take */
    int size_is_taken;       /* --size was not given; the first batch tells what it came to */
    int warned;              /* of what goes wrong without harm to the batches */
} cli_session;

/* For commands whose report has the bad files anyway: a list is written where one is named, by a flag or the
 * file of --config, and not because the settings of a run name one. */
void cli_keep_named_quarantine(cli_call *call);

/* Refuses settings that name no data at all. */
int cli_require_data(const cli_call *call, const stoke_data_params *data, stoke_error *err);
/* Opens the dataset; says on stderr what was left out while matching. */
int cli_open_dataset(const cli_call *call, const stoke_data_params *data, stoke_dataset **out,
                     stoke_error *err);
/* Opens both and prints the memory plan before the first batch. session->drawn is set before, the rest is not
 * looked at. */
int cli_session_open(cli_session *session, const cli_call *call, const stoke_data_params *data,
                     stoke_error *err);
/* Says what a person should know of reading: calls that were tried again, bad files that are in no list. */
void cli_session_close(cli_session *session);
/* The same for a loader without a session. */
void cli_say_reading(const cli_call *call, const stoke_loader *loader);

/* The next batch: 0, STOKE_E_END, or an error (also STOKE_E_CANCELLED after an interrupt) with its message.
 * The first one says the size when the user did not; a warning of the loader is passed on once. */
int cli_next(cli_session *session, const stoke_batch **batch, stoke_error *err);

/* A remark for each line. */
void cli_say_lines(const cli_call *call, const char *remarks);
/* Says what is odd about the settings (stoke_data_remarks), once per command. */
void cli_say_remarks(const cli_call *call, const stoke_dataset *dataset, const stoke_data_params *data);

/* Which way up the images of the command's set are taken, as training decides it
 * (stoke_dataset_orientation): into data->orientation, with what is to be said, once. */
int cli_settle_orientation(const cli_call *call, const stoke_dataset *dataset, stoke_data_params *data,
                           stoke_error *err);

/* Opens a set whose samples will be loaded, and settles that. */
int cli_open_settled(const cli_call *call, stoke_data_params *data, stoke_dataset **out, stoke_error *err);

/* Says which size was taken where --size was not given. */
void cli_say_size(const cli_call *call, uint32_t height, uint32_t width);
/* Says how many rows had a bad file behind them; nothing when none had. */
void cli_say_bad(const cli_call *call, uint64_t replaced, uint64_t skipped);

/* What a cache did for one loader or for several. */
typedef struct cli_cache_report {
    int used;
    uint64_t hits, misses, stored, damaged, disk_bytes, ram_bytes;
    char warning[512]; /* "" = none */
    int warned;        /* it has been said already */
} cli_cache_report;
/* Adds a loader run with these settings; does nothing when they have no cache. */
void cli_cache_add(cli_cache_report *report, const stoke_data_params *data, const stoke_loader *loader);
/* Says it in a line, and the warning in another; nothing without a cache. */
void cli_say_cache(const cli_call *call, const cli_cache_report *report);
void cli_json_cache(stoke_json *json, const cli_cache_report *report);

/* A regular file, to be read; NULL with errno. A pipe or a device is refused (ESPIPE), not waited for. */
FILE *cli_open_file(const char *path);
/* Whole file as text, NUL-terminated; free() it. */
int cli_read_text(const char *path, size_t limit, char **text, stoke_error *err);

/* The bytes of an image or mask into a buffer that grows (free() it). 0 when there are none, more than
 * `limit` of them, or they cannot be read: what is wrong with them is verify's business. */
int cli_read_blob(const stoke_blob *blob, size_t limit, uint8_t **bytes, size_t *capacity, size_t *size);

/* Whether a name ends in `ending`, in small or capital letters. */
int cli_ends_with(const char *name, const char *ending);

/* A setting's text for people: decimals beyond the fourth are cut, 1.3333333333333333 is 1.3333. Returns
 * `out`.
 */
const char *cli_short_numbers(const char *text, char *out, size_t size);

/* A blank and a word as a shell reads it back, at the end of a command line. What does not fit is left out as
 * a whole. */
void cli_append_word(char *line, size_t size, const char *word);

/* 16 bytes as 32 hex digits. */
const char *cli_hex(const uint8_t digest[16], char text[33]);
#define CLI_HEX(digest) cli_hex((digest), (char[33]){ 0 })

/* malloc and friends for a program that cannot go on without: prints and exits 1 when there is no memory. */
void *cli_alloc(size_t count, size_t size);
void *cli_grow(void *array, size_t *capacity, size_t need, size_t size);

/* ---- interrupt.c: one Ctrl-C, SIGTERM or SIGHUP ends a command: in good order where it can, by force where
 * something does not answer, with nothing half written in either case ---- */

/* From now on SIGINT, SIGTERM and SIGHUP ask for an orderly end. 3 s later, or at another one (but not within
 * a second of the first: `timeout` signals the process and then its group, so one request arrives twice), the
 * process ends all the same, by the guard: a thread that has these signals to itself, so that none can hang
 * in a call that does not come back, a dead network disk's for one. It takes along what was noted below.
 * Writing beyond a file size limit becomes an error message instead of a signal. Again in a child of fork. */
void cli_handle_signals(void);
/* For a command that ends in good order only together with others: 30 s instead of 3, as Slurm leaves. */
void cli_be_patient(void);
/* SIGUSR1 asks for an orderly end, too, and leaves all the time it takes: what a batch system sends ahead of
 * its limit. */
void cli_stop_on_usr1(void);
int cli_interrupted(void);
/* How long to wait for anything without asking. */
#define CLI_TICK_NS (UINT64_C(100) * 1000000)
/* What shells expect: 128 + the signal. */
int cli_interrupt_code(void);
/* Between fork and exec: the signals as the shell left them. */
void cli_release_signals(void);

/* A file or folder that must not outlive the process (borrowed until it is forgotten), and a child whose
 * group ends with it; 32 of them at a time, what is more is not noted. */
void cli_leftover_note(const char *path);
void cli_leftover_forget(const char *path);
void cli_offspring_note(pid_t group);
void cli_offspring_forget(pid_t group);
/* Text that gives the terminal back as it was (a literal); NULL: nothing was changed. */
void cli_terminal_note(const char *leave);

#endif
