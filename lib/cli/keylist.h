/*
 * The keys of a command line or, if it has none, of stdin (one a line, or ended
 * by NUL), in portions of bounded size.
 */
#ifndef KV_CLI_KEYLIST_H
#define KV_CLI_KEYLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "cli/records.h"
#include "kvpool.h"

enum {
	KV_KEYLIST_MAX = 1024,
};

struct kv_keylist {
	char **args; /* those left */
	size_t n_args;
	bool is_stream;
	struct kv_records records;
	struct kv_bytes bytes; /* of the portion's keys, from the stream */
	struct kv_key keys[KV_KEYLIST_MAX];
	size_t n;
	/* Exit code of lines that were no keys, each told to stderr. */
	int code;
};

/* ARGS (N of them) were checked already, and stay the caller's. */
void kv_keylist_init(struct kv_keylist *l, char **args, size_t n, bool is_nul);
void kv_keylist_fini(struct kv_keylist *l);

/* Fills keys with the next portion. False: there is none. */
bool kv_keylist_next(struct kv_keylist *l);

#endif
