/*
 * A strict scan over a JSON text that holds one object.
 *
 * It decodes nothing. It says where the first error is, bounds the nesting, and
 * hands out the members of the object as they stand in the text: cJSON accepts
 * what Python's reader refuses ("01", "1.", a tab inside a string, bytes that
 * are not UTF-8), tells no line, and turns every number into a double. Like
 * Python, and unlike the RFC, it lets NaN, Infinity and -Infinity pass.
 */
#ifndef KV_CLI_JSONSCAN_H
#define KV_CLI_JSONSCAN_H

#include <stddef.h>

enum {
	KV_JSONSCAN_DEPTH_MAX = 64,
};

struct kv_jsonscan_span {
	const char *p;
	size_t n;
};

struct kv_jsonscan_error {
	unsigned line;    /* from 1 */
	unsigned column;  /* from 1, in characters */
	const char *what; /* constant text */
};

/*
 * Called for each member in the order of the text; the same key may come more
 * than once. KEY is without its quotes, escapes as written; VALUE is the whole
 * value, quotes and brackets included. Both point into the text.
 */
typedef void (*kv_jsonscan_member_fn)(void *arg, struct kv_jsonscan_span key,
				      struct kv_jsonscan_span value);

/*
 * Returns 0, or -EINVAL with *ERR set: TEXT is not JSON or not an object.
 * Members ahead of an error have been handed out by then.
 */
int kv_jsonscan_object(struct kv_jsonscan_span text,
		       kv_jsonscan_member_fn on_member, void *arg,
		       struct kv_jsonscan_error *err);

#endif
