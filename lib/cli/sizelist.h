#ifndef KV_CLI_SIZELIST_H
#define KV_CLI_SIZELIST_H

/* Numbers as people list them: "4,64k,1MB", or "4..64MB" for all powers of 4
 * from the first one up to the last. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct kv_sizelist_rule {
	uint64_t min, max; /* of each */
	size_t n_max;      /* so many at most */
	bool is_count;     /* they are no bytes: what is wrong is said so */
};

/*
 * How many there are, in the order in which they stand. -EINVAL: what is no
 * such list; -ERANGE: one is too small or too large; -E2BIG: too many. Then
 * nothing is stored, and err (n bytes) says in one line what is wrong.
 */
KV_MUST_CHECK int kv_sizelist_parse(const char *text,
				    const struct kv_sizelist_rule *rule,
				    uint64_t *out, char *err, size_t n);

#endif
