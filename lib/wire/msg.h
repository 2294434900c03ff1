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

/* Parses the frame at `bytes`. Returns its length (payload not counted), 0
 * when more bytes are needed (*need, if not NULL, is then how many in all are
 * known to be needed), -EPROTO (broken), -EPROTONOSUPPORT (other version). */
long kv_msg_parse(const void *bytes, size_t len, struct kv_msg *out,
		  size_t *need);

/* Writes the header of a frame whose body and tail (body_len bytes together)
 * lie behind it at `frame` + KV_HEADER_BYTES, and the sums. */
void kv_msg_seal(void *frame, enum kv_msg_type type, uint8_t flags,
		 uint64_t id, size_t body_len, uint32_t payload);

/* Size of the type's body struct; 0 for numbers that are no type. */
size_t kv_msg_body_bytes(unsigned type);
const char *kv_msg_name(unsigned type); /* "?" for numbers that are no type */
bool kv_msg_has_payload(unsigned type);

/* Reads a tail piece by piece. Once a piece does not fit all later ones are
 * NULL and kv_cut_ok is false: check once, at the end. */
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
const void *kv_cut_take(struct kv_cut *c, size_t n);
/* count entries of `each` bytes; the product is checked. */
const void *kv_cut_array(struct kv_cut *c, size_t count, size_t each);
/* Everything was taken and nothing was missing. */
static inline bool
kv_cut_done(const struct kv_cut *c)
{
	return !c->bad && c->left == 0;
}

#endif
