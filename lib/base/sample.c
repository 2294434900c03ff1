#include "base/sample.h"

#include <string.h>

#include "base/le.h"

/* Of splitmix64: neighbours have nothing in common. */
static struct kv_le64
word(uint64_t seed, uint64_t i)
{
	uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return kv_le64(x ^ (x >> 31));
}

void
kv_sample_fill(void *p, size_t n, uint64_t seed)
{
	size_t words = n / 8, i;
	struct kv_le64 w;
	char *at = p;

	for (i = 0; i < words; i++, at += 8) {
		w = word(seed, i);
		memcpy(at, w.b, 8);
	}
	w = word(seed, i);
	memcpy(at, w.b, n % 8);
}

size_t
kv_sample_check(const void *p, size_t n, uint64_t seed)
{
	const uint8_t *at = p;
	size_t words = n / 8, i, off;
	struct kv_le64 w = word(seed, 0);

	for (i = 0; i < words && memcmp(at + i * 8, w.b, 8) == 0; i++)
		w = word(seed, i + 1);
	for (off = i * 8; off < n && off < i * 8 + 8; off++)
		if (at[off] != w.b[off % 8])
			break;
	return off;
}
