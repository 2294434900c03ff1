#ifndef KV_WIRE_MSG_H
#define KV_WIRE_MSG_H

/*
 * The only code that reads a frame header from bytes, and the only one that
 * writes it. Layout and meaning: proto.h, proto.def, kvproto(7).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/proto.h"

/* A frame whose lengths were checked against proto.def and whose sums match.
 * `body` has the size of the type's struct; the entries in the tail are for
 * the reader to check (struct kv_cut). Points into the bytes parsed. */
struct kv_msg {
	enum kv_msg_type type;
	uint8_t flags;
	uint64_t id;
	const void *body;
	const uint8_t *tail;
	size_t tail_len;
	uint32_t payload; /* bytes that follow the frame; 0 for most types */
};

/*
 * Parses the frame at `bytes`. Returns its length (payload not counted), at
 * most KV_FRAME_BYTES_MAX, or
 *   0		more bytes are needed; *need (if need is not NULL) is how many
 *		in all are known to be needed, > len
 *   -EPROTO	broken: a sum is wrong, or a type, flag or length that this
 *		version does not have. KV_FLAG_MORE is for answers only, a
 *		payload for the types that have one.
 *   -EPROTONOSUPPORT	another version; nothing else of it was looked at
 * Nothing is stored through `out` unless a frame was parsed.
 */
long kv_msg_parse(const void *bytes, size_t len, struct kv_msg *out,
		  size_t *need);

/* Writes the header of a frame whose body and tail (body_len bytes together)
 * lie behind it at `frame` + KV_HEADER_BYTES, and the sums. What kv_msg_parse()
 * would refuse is asserted. */
void kv_msg_seal(void *frame, enum kv_msg_type type, uint8_t flags, uint64_t id,
		 size_t body_len, uint32_t payload);

/* Answers, and only they, have the top bit of a byte. */
static inline bool
kv_msg_is_answer(unsigned type)
{
	return type >= 128;
}

/* These take any number; for what is no type: 0, 0, "?", false. */
size_t kv_msg_body_bytes(unsigned type); /* of the body struct */
size_t kv_msg_tail_max(unsigned type);
const char *kv_msg_name(unsigned type);
bool kv_msg_has_payload(unsigned type);

/* Reads a tail piece by piece. Once a piece does not fit, it and all later
 * ones are NULL and kv_cut_done() is false: check once, at the end, unless a
 * piece is used before. */
struct kv_cut {
	const uint8_t *p;
	size_t left;
	bool bad;
};

static inline void
kv_cut_init(struct kv_cut *c, const struct kv_msg *msg)
{
	c->p = msg->tail;
	c->left = msg->tail_len;
	c->bad = false;
}

/* n bytes, or NULL. n 0 gives a pointer that must not be read. */
static inline const void *
kv_cut_take(struct kv_cut *c, size_t n)
{
	const uint8_t *p = c->p;

	if (c->bad || n > c->left) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	c->left -= n;
	return p;
}

/* count entries of `each` bytes; the product is checked. */
static inline const void *
kv_cut_array(struct kv_cut *c, size_t count, size_t each)
{
	size_t n;

	if (__builtin_mul_overflow(count, each, &n))
		n = SIZE_MAX;
	return kv_cut_take(c, n);
}

/* Everything was taken and nothing was missing. */
static inline bool
kv_cut_done(const struct kv_cut *c)
{
	return !c->bad && c->left == 0;
}

#endif
