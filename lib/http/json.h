#ifndef KV_HTTP_JSON_H
#define KV_HTTP_JSON_H

/*
 * JSON as it is written, without a tree: an answer may have a million keys.
 * Text that is not UTF-8 becomes {"b64": "..."}, as the tools write it: a
 * string never stands for other bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_bytes;

struct kv_json {
	struct kv_bytes *out; /* may be taken away between two calls */
	int status;           /* 0, or -ENOMEM from then on */
	bool has_item;        /* a comma stands before the next one */
};

/* kind: '{' or '['. name: inside an object, else NULL. */
void kv_json_begin(struct kv_json *j, const char *name, char kind);
void kv_json_end(struct kv_json *j, char kind);

void kv_json_u64(struct kv_json *j, const char *name, uint64_t v);
void kv_json_i64(struct kv_json *j, const char *name, int64_t v);
/* With two digits after the point. */
void kv_json_percent(struct kv_json *j, const char *name, uint64_t part,
		     uint64_t whole);
void kv_json_bool(struct kv_json *j, const char *name, bool v);
void kv_json_string(struct kv_json *j, const char *name, const char *s);
void kv_json_text(struct kv_json *j, const char *name, const void *p, size_t n);
/* '{' under a name that is UTF-8 of any characters. */
void kv_json_begin_named(struct kv_json *j, const void *p, size_t n);

#endif
