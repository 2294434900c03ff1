#include "base/utf8.h"

#include <errno.h>

#include "base/attr.h"

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

bool
kv_utf8_is_printable(uint32_t cp)
{
	static const struct {
		uint32_t first, last;
	} hidden[] = {
		{ 0x0000, 0x001f },   { 0x007f, 0x00a0 },
		{ 0x00ad, 0x00ad },   { 0x0600, 0x0605 },
		{ 0x061c, 0x061c },   { 0x06dd, 0x06dd },
		{ 0x070f, 0x070f },   { 0x0890, 0x0891 },
		{ 0x08e2, 0x08e2 },   { 0x1680, 0x1680 },
		{ 0x180e, 0x180e },   { 0x2000, 0x200f },
		{ 0x2028, 0x202f },   { 0x205f, 0x206f },
		{ 0x3000, 0x3000 },   { 0xd800, 0xf8ff },
		{ 0xfeff, 0xfeff },   { 0xfff9, 0xfffb },
		{ 0xfffe, 0xffff },   { 0x110bd, 0x110bd },
		{ 0x110cd, 0x110cd }, { 0x13430, 0x1343f },
		{ 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
		{ 0xe0001, 0xe007f }, { 0xf0000, 0x10ffff },
	};

	for (size_t i = 0; i < KV_ARRAY_LEN(hidden); i++)
		if (cp >= hidden[i].first && cp <= hidden[i].last)
			return false;
	return true;
}
