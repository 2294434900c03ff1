/*
 * A command line as gflags reads it, the library that Mooncake's programs have
 * their flags from:
 *
 *	--name=value, --name value, one or two dashes, '-' for any '_';
 *	--name and --noname for a boolean, which takes no word of its own;
 *	"--" ends the flags; what is set last counts.
 *
 * What gflags refuses is refused in its words. Booleans are kept as "true" and
 * "false", whole numbers in plain decimal. No I/O.
 */
#ifndef KV_CLI_GFLAGS_H
#define KV_CLI_GFLAGS_H

#include <stddef.h>

#include "base/attr.h"

enum kv_gflags_type {
	KV_GFLAGS_BOOL,
	KV_GFLAGS_INT32,
	KV_GFLAGS_UINT32,
	KV_GFLAGS_INT64,
	KV_GFLAGS_UINT64,
	KV_GFLAGS_DOUBLE,
	KV_GFLAGS_STRING,
};

/* Where a value came from; a later one here goes before an earlier one. */
enum kv_gflags_source {
	KV_GFLAGS_PRESET,
	KV_GFLAGS_FILE,
	KV_GFLAGS_COMMAND,
};

struct kv_gflags_flag {
	const char *name; /* NULL: there is no such flag */
	enum kv_gflags_type type;
};

struct kv_gflags_value {
	char *text; /* NULL: not set */
	enum kv_gflags_source source;
};

struct kv_gflags {
	const struct kv_gflags_flag *flags;
	struct kv_gflags_value *values; /* as many, zeroed at first */
	size_t count;
	/*
	 * Told of each word that is no flag, which gflags leaves to the
	 * program; FLAG is the boolean that stood alone right before it, or
	 * NULL.
	 */
	void (*stray)(void *arg, const char *word, const char *flag);
	/*
	 * Told when the command line or a text of flags has set a flag, before
	 * what follows there is looked at. < 0, with ERR: an error.
	 */
	int (*set)(void *arg, size_t flag, char *err, size_t size);
	void *arg;
};

/* "bool", "int32", ... */
const char *kv_gflags_type_name(enum kv_gflags_type type);

/* The number of the flag of that name, COUNT if there is none. */
size_t kv_gflags_find(const struct kv_gflags *g, const char *name);

/*
 * All three: 0; -EINVAL with ERR in one line (of SIZE > 0 bytes, cut to fit);
 * -ENOMEM, likewise; what set() returned. What was set before an error stays.
 *
 * The words of a command line, behind the first.
 */
KV_MUST_CHECK int kv_gflags_words(struct kv_gflags *g, int argc,
				  char *const *argv, char *err, size_t size);

/*
 * The text of a file of flags, as of --flagfile: one a line, --name=value;
 * blank lines and those that begin with '#' say nothing. ERR begins with the
 * number of the line.
 *
 * An unknown flag is an error, which gflags passes over, as are lines that make
 * what follows hold for some programs only, which it knows.
 */
KV_MUST_CHECK int kv_gflags_lines(struct kv_gflags *g, const char *text,
				  size_t len, char *err, size_t size);

/* One flag, unless it is set from where goes before SOURCE. */
KV_MUST_CHECK int kv_gflags_set(struct kv_gflags *g, size_t flag,
				const char *text, enum kv_gflags_source source,
				char *err, size_t size);

/* Frees the texts of the values. */
void kv_gflags_fini(struct kv_gflags *g);

#endif
