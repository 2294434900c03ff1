#include "base/rng.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/num.h"

static uint64_t
splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void
kv_rng_seed(struct kv_rng *r, uint64_t seed)
{
	size_t i;

	for (i = 0; i < KV_ARRAY_LEN(r->s); i++)
		r->s[i] = splitmix(&seed);
}

static uint64_t
rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t
kv_rng_u64(struct kv_rng *r)
{
	uint64_t *s = r->s;
	uint64_t out = rotl(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return out;
}

/* Lemire's multiplication: redraw where the low half would favour some. */
uint64_t
kv_rng_below(struct kv_rng *r, uint64_t n)
{
	unsigned __int128 m;
	uint64_t reject;

	assert(n > 0);
	m = (unsigned __int128)kv_rng_u64(r) * n;
	if ((uint64_t)m < n) {
		reject = -n % n;
		while ((uint64_t)m < reject)
			m = (unsigned __int128)kv_rng_u64(r) * n;
	}
	return (uint64_t)(m >> 64);
}

void
kv_rng_bytes(struct kv_rng *r, void *p, size_t n)
{
	uint8_t *to = p;
	uint64_t v;
	size_t k;

	for (; n > 0; n -= k, to += k) {
		v = kv_rng_u64(r);
		k = kv_min_size(n, sizeof(v));
		memcpy(to, &v, k);
	}
}

int
kv_rng_os(void *p, size_t n)
{
	uint8_t *to = p;
	ssize_t k;

	while (n > 0) {
		k = getrandom(to, n, 0);
		if (k < 0 && errno != EINTR)
			return -errno;
		if (k > 0) {
			to += k;
			n -= (size_t)k;
		}
	}
	return 0;
}
