/*
 * Records of a stream, one a line or ended by NUL: lists of keys, and of keys
 * with paths. Their length is bounded, their number is not.
 */
#ifndef KV_CLI_RECORDS_H
#define KV_CLI_RECORDS_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "base/attr.h"
#include "kvpool.h"

enum {
	KV_RECORDS_BYTES_MAX = 1024 + 1 + PATH_MAX,
};

struct kv_records {
	FILE *f;         /* the caller's */
	int end;         /* '\n' or '\0' */
	uint64_t number; /* of the record in hand, from 1 */
	size_t len;
	char data[KV_RECORDS_BYTES_MAX + 1]; /* a NUL follows the record */
};

void kv_records_init(struct kv_records *r, FILE *f, int end);

/*
 * Reads the next one; the last may lack its end. 1, 0 at the end of the stream,
 * -EMSGSIZE for one that is too long (the next call goes on behind it), or the
 * -errno of a failed read.
 */
KV_MUST_CHECK int kv_records_next(struct kv_records *r);

/*
 * Splits KEY<TAB>PATH at the last TAB, as keys may be any bytes. The results
 * point into the record. 0, or -EINVAL: no TAB, a key that can be none, an
 * empty path, or a NUL in it; *WHY then says which.
 */
KV_MUST_CHECK int kv_records_split(struct kv_records *r, struct kv_key *key,
				   const char **path, const char **why);

#endif
