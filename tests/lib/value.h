#ifndef KV_TEST_VALUE_H
#define KV_TEST_VALUE_H

/*
 * Values that say whose they are: every byte follows from key, writer, size
 * and place. So whoever reads one sees a byte of another key, of another
 * writer, of another place, or one that nobody wrote.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvpool.h"

/* The writer can be told from values and parts that are not shorter. */
#define VALUE_SIGNED_BYTES 128

/* Bytes [off, off + len) of a value. */
struct value_part {
	struct kv_key key;
	uint64_t size; /* of the whole value */
	uint64_t off;
	uint64_t len;
};

void value_fill(void *buf, const struct value_part *p, uint32_t writer);

/*
 * Whether the pieces hold this part of a value that somebody put. Then *writer
 * is who, UINT32_MAX if that cannot be told (a part so short was not looked
 * at). Else *bad is the offset of the first wrong byte.
 */
bool value_check(const struct kv_buf *pieces, const struct value_part *p,
		 uint32_t *writer, uint64_t *bad);

#endif
