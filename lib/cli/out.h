/*
 * Results for people and for programs, from the same calls.
 *
 * A result is one tree. Its root is opened first, has no name, and is an object
 * (named fields), a list (values, one per line as text) or a table (rows with
 * the same fields each). Inside an object or a row everything has a name,
 * inside a list or a table nothing has. Names are constants in snake_case and
 * carry their unit ("used_bytes", "age_s"); the text face shows values with
 * units and drops that ending.
 *
 * The text face aligns fields and columns, shows sizes and durations rounded,
 * "-" for none, and escapes what does not print. Of a long table only the first
 * rows decide the widths, so that no more than those are held in memory.
 *
 * The JSON face writes plain bytes and seconds, in full. What is text in our
 * world may be any bytes in the other's (keys above all), and JSON has only
 * Unicode: bytes that are UTF-8 become a string, others {"b64": "..."} with
 * their base64. A string never stands for other bytes, so both can be told
 * apart and turned back into the key.
 */
#ifndef KV_CLI_OUT_H
#define KV_CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/attr.h"

enum {
	KV_OUT_DEPTH_MAX = 8,
	KV_OUT_COLUMNS_MAX = 24,
	KV_OUT_ROWS_HELD = 256, /* rows that decide the widths of a table */
};

enum kv_out_kind {
	KV_OUT_OBJECT,
	KV_OUT_LIST,
	KV_OUT_TABLE,
	KV_OUT_ROW, /* of a table; scalar fields only */
};

struct kv_out;

/* Writes to F, which stays the caller's. NULL without memory. */
struct kv_out *kv_out_json_new(FILE *f);

/*
 * The same as text. NUL: list values are raw bytes that end in NUL instead of
 * escaped lines, for `xargs -0`.
 */
struct kv_out *kv_out_text_new(FILE *f, bool nul);

void kv_out_begin(struct kv_out *o, enum kv_out_kind kind, const char *name);
void kv_out_end(struct kv_out *o, enum kv_out_kind kind);

/* S may be NULL for none. */
void kv_out_string(struct kv_out *o, const char *name, const char *s);
void kv_out_key(struct kv_out *o, const char *name, const void *p, size_t n);
void kv_out_u64(struct kv_out *o, const char *name, uint64_t v);
void kv_out_bytes(struct kv_out *o, const char *name, uint64_t bytes);
void kv_out_duration(struct kv_out *o, const char *name, uint64_t ns);
void kv_out_bool(struct kv_out *o, const char *name, bool v);
void kv_out_none(struct kv_out *o, const char *name);

/* DECIMALS of the text; JSON has all. What is not finite is none. */
void kv_out_double(struct kv_out *o, const char *name, double v,
		   unsigned decimals);

/*
 * Flushes and frees. 0 if every byte was taken; else the -errno of the first
 * write that was not (closed stdout -EBADF, full disk -ENOSPC, reader gone
 * -EPIPE), or -ENOMEM. After an error in the middle nothing more is written.
 * The tree may be left unfinished, as when the work failed half way; then JSON
 * closes what is open.
 */
KV_MUST_CHECK int kv_out_finish(struct kv_out *o);

/* ---- between the calls above and the two faces ---- */

enum kv_out_type {
	KV_OUT_NONE,
	KV_OUT_BOOL,
	KV_OUT_U64,
	KV_OUT_BYTES,
	KV_OUT_DURATION,
	KV_OUT_DOUBLE,
	KV_OUT_TEXT,
};

struct kv_out_value {
	enum kv_out_type type;
	union {
		bool truth;
		uint64_t u64;
		struct {
			double v;
			unsigned decimals;
		} real;
		struct {
			const char *p;
			size_t n;
		} text;
	};
};

struct kv_out_ops {
	/* The new level is on top of the stack, and not counted below it. */
	void (*begin)(struct kv_out *o, const char *name);
	/* The level that ends is on top of the stack still. */
	void (*end)(struct kv_out *o);
	/* Not yet counted. */
	void (*value)(struct kv_out *o, const char *name,
		      const struct kv_out_value *v);
	void (*free)(struct kv_out *o);
};

struct kv_out_level {
	enum kv_out_kind kind;
	bool has_name;
	uint64_t items; /* that were written in it */
};

/* Embedded in each face, as its first member. */
struct kv_out {
	const struct kv_out_ops *ops;
	FILE *f;
	int err; /* errno of the first failure */
	unsigned depth;
	struct kv_out_level level[KV_OUT_DEPTH_MAX];
};

#endif
