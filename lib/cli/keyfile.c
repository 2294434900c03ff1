#include "cli/keyfile.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "kvpool.h"

/* Whether C stands for itself, as the first of a part or not. */
static bool
is_plain(char c, bool is_first)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9'))
		return true;
	/* strchr finds the NUL, too. */
	return c && strchr(is_first ? "@=+,:~_" : "@=+,:~_-.", c);
}

const char *
kv_keyfile_name(char dst[KV_KEYFILE_SIZE], const struct kv_key *key)
{
	static const char hex[] = "0123456789ABCDEF";
	const char *p = key->data;
	char *to = dst, *part = dst;

	assert(key->len <= KV_KEY_BYTES_MAX);
	for (size_t i = 0; i < key->len; i++) {
		size_t n = is_plain(p[i], to == part) ? 1 : 3;

		if ((size_t)(to - part) + n > KV_KEYFILE_PART_MAX) {
			*to++ = '%';
			*to++ = '/';
			part = to;
		}
		if (is_plain(p[i], to == part)) {
			*to++ = p[i];
		} else {
			*to++ = '%';
			*to++ = hex[(unsigned char)p[i] >> 4];
			*to++ = hex[p[i] & 0xf];
		}
	}
	*to = '\0';
	return dst;
}
