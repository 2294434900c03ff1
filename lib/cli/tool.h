/*
 * What the command-line programs share beyond their options: how they start,
 * what they tell the client library, how they speak and how they end.
 */
#ifndef KV_CLI_TOOL_H
#define KV_CLI_TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/limits.h"
#include "kvpool.h"

struct argp_state;
struct kv_opts;
struct kv_opts_program;
struct kv_out;

enum {
	KV_TOOL_KEY_SIZE = 4 * KV_KEY_BYTES_MAX + 1,
	KV_TOOL_WORD_SIZE = 16,
};

/*
 * A program that does one thing with a client: reads the command line and the
 * configuration, connects, and does run(program->input, c). Returns its exit
 * code, or after one line that of what failed before.
 */
int kv_tool_main(struct kv_opts *o, const struct kv_opts_program *program,
		 int argc, char **argv,
		 int (*run)(void *input, struct kv_client *c));

/* The client for these options. 0, or the exit code after one line. */
KV_MUST_CHECK int kv_tool_connect(const struct kv_opts *o,
				  struct kv_client **out);

/*
 * Fills what kv_client_open() wants to know; its strings stay O's. A --socket
 * that is empty means none, not the default one. From here on messages of the
 * library look like the program's own.
 */
void kv_tool_client_opts(const struct kv_opts *o, struct kv_client_opts *out);

/*
 * For a call that moves so many bytes: --timeout, else the library's default
 * and a second more for each 32 MiB, which even a slow network carries.
 */
uint32_t kv_tool_timeout_ms(const struct kv_opts *o, uint64_t bytes);

/* "PROG: text" to stderr, one line. Returns CODE. */
KV_PRINTF(2, 3)
int kv_tool_say(int code, const char *fmt, ...);

/* "PROG: what is wrong; what to do" for a status of the library. Returns the
 * exit code. */
int kv_tool_fail(int status);

/*
 * "PROG: KEY: what is wrong; what to do" for a status of the library. BYTES: of
 * the value, 0 if they do not matter. Returns the exit code.
 */
int kv_tool_fail_key(const struct kv_key *key, int status, uint64_t bytes);

/* "; what to do", or "". */
const char *kv_tool_hint(int status);

/* The key as printable ASCII, cut only if longer than a key may be. Gives buf.
 */
const char *kv_tool_key(char buf[KV_TOOL_KEY_SIZE], const struct kv_key *key);

/* Says on how many objects a pattern was given up, unless on none. Returns 75,
 * or 0. */
int kv_tool_undecided(uint64_t objects);

/* "" or "s", as in "3 nodes". */
const char *kv_tool_plural(uint64_t n);

/* The status as a word for programs: "ok", "exists", "miss". Gives buf. */
const char *kv_tool_word(char buf[KV_TOOL_WORD_SIZE], int status);

/* The key that an argument is. An impossible one ends the program (64). */
struct kv_key kv_tool_key_arg(const struct argp_state *state, const char *arg);

/* Of two exit codes: trouble before 1 before 0; of two troubles the first. */
int kv_tool_worse(int a, int b);

/*
 * Finishes the output (NULL: stdout alone). Returns CODE, or 74 if a write
 * failed and nothing was wrong before. A reader that went away is not worth a
 * line.
 */
int kv_tool_end(struct kv_out *o, int code);

#endif
