#include "store/key.h"

#include <xxhash.h>

#include "base/le.h"

uint64_t
kv_key_seed(const void *tenant, size_t len)
{
	static const char none[] = "default";

	return len ? XXH3_64bits(tenant, len)
		   : XXH3_64bits(none, sizeof(none) - 1);
}

struct kv_hash
kv_key_hash(uint64_t seed, const void *key, size_t len)
{
	XXH128_hash_t x = XXH3_128bits_withSeed(key, len, seed);

	return (struct kv_hash){ .lo = x.low64, .hi = x.high64 };
}

struct kv_id
kv_key_hash_build(struct kv_hash h)
{
	struct kv_le64 half[2] = { kv_le64(h.lo), kv_le64(h.hi) };
	struct kv_id id;

	_Static_assert(sizeof(half) == sizeof(id.b), "two halves");
	memcpy(id.b, half, sizeof(id.b));
	return id;
}

struct kv_hash
kv_key_hash_parse(struct kv_id id)
{
	struct kv_le64 half[2];

	memcpy(half, id.b, sizeof(half));
	return (struct kv_hash){
		.lo = kv_get64(half[0]),
		.hi = kv_get64(half[1]),
	};
}
