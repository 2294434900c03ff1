#ifndef KV_BASE_LE_H
#define KV_BASE_LE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/*
 * Little-endian integers as they lie on the wire: alignment 1, so structs of
 * them have no padding, and arithmetic on an unconverted one does not compile.
 */
struct kv_le16 {
	uint8_t b[2];
};

struct kv_le32 {
	uint8_t b[4];
};

struct kv_le64 {
	uint8_t b[8];
};

static inline struct kv_le16
kv_le16(uint16_t v)
{
	struct kv_le16 le;

	v = htole16(v);
	memcpy(le.b, &v, sizeof(le.b));
	return le;
}

static inline struct kv_le32
kv_le32(uint32_t v)
{
	struct kv_le32 le;

	v = htole32(v);
	memcpy(le.b, &v, sizeof(le.b));
	return le;
}

static inline struct kv_le64
kv_le64(uint64_t v)
{
	struct kv_le64 le;

	v = htole64(v);
	memcpy(le.b, &v, sizeof(le.b));
	return le;
}

static inline uint16_t
kv_get16(struct kv_le16 le)
{
	uint16_t v;

	memcpy(&v, le.b, sizeof(v));
	return le16toh(v);
}

static inline uint32_t
kv_get32(struct kv_le32 le)
{
	uint32_t v;

	memcpy(&v, le.b, sizeof(v));
	return le32toh(v);
}

static inline uint64_t
kv_get64(struct kv_le64 le)
{
	uint64_t v;

	memcpy(&v, le.b, sizeof(v));
	return le64toh(v);
}

/* A struct of these has no holes: it is as long as its bytes. */
#define KV_LE_SIZE(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), "size of " #type)

#endif
