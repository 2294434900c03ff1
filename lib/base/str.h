#ifndef KV_BASE_STR_H
#define KV_BASE_STR_H

#include "base/attr.h"

#include <stdint.h>

/*
 * Parsers of what people write. All: the whole string must match (blanks
 * around it allowed), no signs, no locale, nothing stored on failure.
 * 0, -EINVAL for what is no such value, -ERANGE for one that does not fit.
 * Fractions are computed exactly and cut to the whole below; at most 18
 * digits after the point.
 */

/*
 * Bytes: "4096", "4k", "1.5GB", "2 TiB". Units k m g t, with i and b or not,
 * are powers of 1024, in any case.
 */
KV_MUST_CHECK int kv_str_size(const char *s, uint64_t *bytes);

/* "10s", "500ms", "2m", "1h", "1.5d", also us and ns; no unit: seconds. */
KV_MUST_CHECK int kv_str_duration(const char *s, uint64_t *ns);

/* Decimal digits only, min <= value <= max. No blanks. */
KV_MUST_CHECK int kv_str_u64(const char *s, uint64_t min, uint64_t max,
			     uint64_t *out);

/* The value of a hexadecimal digit, in any case; -1: it is none. */
int kv_str_hex(char c);

/* For people: "512 B", "3.1 GiB". 12 bytes of buf are enough. Gives buf. */
const char *kv_str_size_format(char *buf, size_t n, uint64_t bytes);

/* For people: "850 ns", "12.5 ms", "1.0 s", "2m05s", "3h07m", "4d02h". Same. */
const char *kv_str_duration_format(char *buf, size_t n, uint64_t ns);

/*
 * Bytes as printable ASCII: \n \t \r \\ \" and \xNN for the rest. dst is
 * terminated (n > 0) and cut between escapes when too small; returns the
 * length of the whole text, as snprintf does. 4 * len + 1 is always enough.
 */
size_t kv_str_escape(char *dst, size_t n, const void *bytes, size_t len);

#endif
