/*
 * What a connection makes of any bytes that arrive in any portions, when its
 * owner takes payloads in pieces or drops them. The first byte chooses how;
 * behind it are frames, which get right sums, since the parser of these has a
 * fuzzer of its own (fuzz_msg).
 */
#include "net/recvq.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/num.h"
#include "base/rng.h"
#include "net/conn.h"

enum {
	ROOM_BYTES = 1 << 16
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct peer {
	struct kv_recvq q;
	struct kv_rng rng;
	const uint8_t *wire;
	size_t sent, size;
	uint8_t *room;        /* for the payload that comes */
	const uint8_t *frame; /* the next one to be handed over */
};

/* Signs the frames one behind the other, as far as they go. */
static void
sign(uint8_t *p, size_t size)
{
	while (size >= KV_HEADER_BYTES) {
		struct kv_header *h = (struct kv_header *)p;
		unsigned type = kv_get16(h->type);
		size_t left = size - KV_HEADER_BYTES;
		size_t len = kv_min_size(kv_get32(h->len) % 2048, left);
		size_t payload = kv_get32(h->payload) % ROOM_BYTES;
		uint64_t seed = kv_get64(h->id) ^ (uint64_t)type << 48;

		if (!kv_msg_has_payload(type))
			payload = 0;
		h->magic = kv_le32(KV_WIRE_MAGIC);
		h->version = KV_WIRE_VERSION;
		h->len = kv_le32((uint32_t)len);
		h->payload = kv_le32((uint32_t)payload);
		h->body_sum = kv_le32((uint32_t)XXH3_64bits_withSeed(
			p + KV_HEADER_BYTES, len, seed));
		h->head_sum = kv_le32((uint32_t)XXH3_64bits(h, 28));
		len = kv_min_size(len + payload, left);
		p += KV_HEADER_BYTES + len;
		size -= KV_HEADER_BYTES + len;
	}
}

/* False: nothing is left to be read. */
static bool
read_some(struct peer *peer)
{
	struct iovec iov[KV_RECVQ_IOV_MAX];
	size_t asked = 0, most, done = 0;
	int n = kv_recvq_aim(&peer->q, iov, &asked);

	assert(n > 0 && n <= KV_RECVQ_IOV_MAX && asked > 0);
	most = kv_min_size(asked, peer->size - peer->sent);
	if (most == 0)
		return false;
	if (kv_rng_below(&peer->rng, 2))
		most = 1 + kv_rng_below(&peer->rng, most);
	for (int i = 0; i < n; i++) {
		size_t part = kv_min_size(iov[i].iov_len, most - done);

		if (part > 0)
			memcpy(iov[i].iov_base, peer->wire + peer->sent, part);
		peer->sent += part;
		done += part;
	}
	kv_recvq_took(&peer->q, done);
	return true;
}

/* Where the payload goes; 0 pieces: nowhere. */
static void
place(struct peer *peer, const struct kv_msg *msg)
{
	size_t left = msg->payload, at = 0;
	int n = 0;

	assert(!peer->room && left > 0);
	if (kv_rng_below(&peer->rng, 4) == 0) {
		kv_recvq_place(&peer->q, 0);
		return;
	}
	peer->room = malloc(left);
	assert(peer->room);
	while (left > 0) {
		size_t part = left;

		if (n < 100)
			part = kv_rng_below(&peer->rng, left + 1);
		peer->q.iov[n++] = (struct iovec){ peer->room + at, part };
		at += part;
		left -= part;
	}
	kv_recvq_place(&peer->q, n);
}

/* It is the next frame of those that were sent, byte for byte. */
static void
check(struct peer *peer, const struct kv_msg *msg)
{
	size_t body = kv_msg_body_bytes(msg->type);
	const uint8_t *p = peer->frame + KV_HEADER_BYTES;

	assert(memcmp(msg->body, p, body) == 0);
	assert(memcmp(msg->tail, p + body, msg->tail_len) == 0);
	p += body + msg->tail_len;
	if (peer->room)
		assert(memcmp(peer->room, p, msg->payload) == 0);
	free(peer->room);
	peer->room = NULL;
	peer->frame = p + msg->payload;
}

static void
receive(struct peer *peer)
{
	struct kv_msg msg;
	int rc;

	for (;;) {
		rc = kv_recvq_next(&peer->q, &msg);
		if (rc == KV_RECVQ_PAYLOAD)
			place(peer, &msg);
		else if (rc == KV_RECVQ_MSG)
			check(peer, &msg);
		else if (rc < 0 || !read_some(peer))
			break;
	}
	assert(rc == KV_RECVQ_MORE || rc == -EPROTO || rc == -EPROTONOSUPPORT);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct peer peer = { 0 };
	uint8_t *wire;

	if (size < 1)
		return 0;
	wire = malloc(size);
	assert(wire);
	memcpy(wire, data + 1, size - 1);
	sign(wire, size - 1);
	peer.wire = peer.frame = wire;
	peer.size = size - 1;
	kv_rng_seed(&peer.rng, data[0]);
	kv_recvq_init(&peer.q, 0);
	receive(&peer);
	kv_recvq_fini(&peer.q);
	free(peer.room);
	free(wire);
	return 0;
}
