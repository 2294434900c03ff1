#include "cli/utf8.h"

#include <errno.h>

/* Length of the character that LEAD starts, 0 if it can start none. */
static unsigned
length(unsigned char lead)
{
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead < 0xe0)
		return 2;
	if (lead >= 0xe0 && lead < 0xf0)
		return 3;
	if (lead >= 0xf0 && lead < 0xf5)
		return 4;
	return 0;
}

int
kv_utf8_next(const char *p, size_t n, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char lead = (unsigned char)*p;
	unsigned len = length(lead);
	uint32_t c;

	if (!len || len > n)
		return -EILSEQ;
	c = len == 1 ? lead : lead & (0x7fU >> len);
	for (unsigned i = 1; i < len; i++) {
		unsigned char next = (unsigned char)p[i];

		if ((next & 0xc0) != 0x80)
			return -EILSEQ;
		c = c << 6 | (next & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return -EILSEQ;
	*cp = c;
	return (int)len;
}

bool
kv_utf8_is_valid(const char *p, size_t n)
{
	uint32_t cp;
	int len;

	for (; n; p += len, n -= (size_t)len) {
		len = kv_utf8_next(p, n, &cp);
		if (len < 0)
			return false;
	}
	return true;
}
