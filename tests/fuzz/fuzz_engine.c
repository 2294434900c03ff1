/*
 * What an engine makes of any messages that peers may send, and of any table
 * of regions that they may tell: frames are well-formed (their parser has a
 * fuzzer of its own), what is in them is not. An input is a byte that chooses
 * the kind of connection and a list of messages: type, a byte of choices, le16
 * length, bytes of body and tail. In the end everybody leaves, and nothing may
 * be held.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/num.h"
#include "mem/seg.h"
#include "net/stream.h"
#include "simpair.h"
#include "wirepeer.h"
#include "xfer/guest.h"
#include "xfer/note.h"
#include "xfer/region.h"
#include "xfer/regtable.h"
#include "xfer/serve.h"

enum {
	MESSAGES_MAX = 64,
	HEAD = 4, /* of a message in the input */
	REGION = 5000,
	PAYLOAD_MAX = 3 * REGION,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
	size_t min, max;
} tails[256] = {
#define KV_MSG(number, NAME, body, tmin, tmax, text) [number] = { tmin, tmax },
#include "wire/proto.def"
#undef KV_MSG
};

static const struct kv_id boot = { .b = "engine" };
static const struct kv_id token = { .b = "token" };
static uint8_t payload[PAYLOAD_MAX];

struct play {
	struct simpair pair;
	struct kv_region_set regions;
	struct kv_guest_set guests;
	struct kv_note_queue notes;
	struct kv_serve *serve;
	struct wirepeer peer;
	uint8_t *memory; /* a block of just its size */
};

static void
quiet(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

/* Handles 1 and 2 are memory, 3 is shared. */
static void
add_regions(struct play *p)
{
	struct kv_seg_opts opts = { .bytes = REGION };
	char why[256];
	struct kv_seg *seg;
	int rc;

	p->memory = malloc(2 * REGION);
	assert(p->memory);
	kv_region_init(&p->regions, NULL);
	rc = kv_region_add(&p->regions, p->memory, REGION, NULL);
	assert(rc == 0);
	rc = kv_region_add(&p->regions, p->memory + REGION, REGION, NULL);
	assert(rc == 0);
	rc = kv_seg_open(&opts, &seg, why, sizeof(why));
	assert(rc == 0);
	rc = kv_region_add(&p->regions, seg->base, REGION, seg);
	assert(rc == 0);
}

static void
open_play(struct play *p, bool is_unix)
{
	struct simnet_opts opts = { .seed = 1, .pipe_bytes = 4000 };
	struct kv_serve_opts so = {
		.regions = &p->regions,
		.guests = &p->guests,
		.notes = &p->notes,
		.boot = boot,
		.token = &token,
	};
	struct kv_peer peer = { .is_unix = is_unix, .uid = geteuid() };

	simpair_open(&p->pair, &opts, is_unix);
	add_regions(p);
	kv_guest_init(&p->guests);
	kv_note_init(&p->notes);
	so.loop = p->pair.loop;
	p->serve = kv_serve_new(&so);
	assert(p->serve);
	peer.pidfd = is_unix ? (int)syscall(SYS_pidfd_open, getpid(), 0) : -1;
	kv_serve_accept(p->serve, p->pair.stream[1], &peer);
	wirepeer_open(&p->peer, p->pair.loop, p->pair.stream[0]);
	simpair_run(&p->pair, KV_NS_PER_MS);
	if (peer.pidfd >= 0)
		close(peer.pidfd);
}

static void
close_play(struct play *p)
{
	simpair_run(&p->pair, KV_NS_PER_S);
	wirepeer_close(&p->peer);
	simpair_run(&p->pair, KV_NS_PER_S);
	for (size_t i = 0; i < p->regions.n_addr; i++)
		assert(p->regions.by_addr[i]->users == 0);
	kv_serve_free(p->serve);
	kv_note_fini(&p->notes);
	kv_guest_fini(&p->guests);
	kv_region_fini(&p->regions);
	simpair_close(&p->pair);
	free(p->memory);
}

/* A payload of the length that the pieces have, unless it is to lie. */
static size_t
payload_of(const uint8_t *body, const uint8_t *tail, size_t tail_len,
	   uint8_t choice)
{
	const struct kv_xfer *x = (const void *)body;
	const struct kv_xfer_piece *p = (const void *)tail;
	size_t n = tail_len / sizeof(*p);
	uint64_t sum = 0;

	if (choice & 2)
		return choice;
	for (size_t i = 0; i < n && i < kv_get32(x->count); i++)
		sum += kv_get64(p[i].len);
	return x->op == KV_XFER_WRITE && sum <= PAYLOAD_MAX ? (size_t)sum : 0;
}

static void
send_message(struct play *p, uint8_t type, uint8_t choice, const uint8_t *body,
	     const uint8_t *tail, size_t tail_len)
{
	struct iovec iov = { payload, 0 };
	void *b, *t;

	if (kv_msg_is_answer(type) && kv_msg_has_payload(type))
		choice = 0;
	b = kv_conn_begin_tail(p->peer.c, type, choice, 0, tail_len, &t);
	if (!b)
		return;
	memcpy(b, body, kv_msg_body_bytes(type));
	if (tail_len)
		memcpy(t, tail, tail_len);
	if (type == KV_MSG_XFER)
		iov.iov_len = payload_of(body, tail, tail_len, choice);
	kv_conn_end_payload(p->peer.c, &iov, iov.iov_len > 0, NULL);
}

/* What an engine would tell this process of its regions. */
static void
hear(const uint8_t *body, const uint8_t *tail, size_t tail_len)
{
	struct kv_msg msg = {
		.type = KV_MSG_REGIONS_R,
		.body = body,
		.tail = tail,
		.tail_len = tail_len,
	};
	struct kv_regtable *t = kv_regtable_parse(&msg);

	for (size_t i = 0; t && i < t->n; i++) {
		const struct kv_regtable_entry *e = &t->entries[i];

		assert(e->addr && e->len && e->handle);
		assert(i == 0 || e[-1].addr + e[-1].len <= e->addr);
		assert(kv_regtable_find(t, e->addr) == e);
		assert(kv_regtable_find(t, e->addr + e->len - 1) == e);
		assert(kv_regtable_covers(t, e->addr, e->len));
		assert(!e->mem || (t->ports && e->mem->addr == e->addr &&
				   e->mem->len == e->len));
	}
	kv_regtable_unref(t);
}

static void
say(struct play *p, const uint8_t *head, const uint8_t *bytes, size_t len)
{
	size_t body_len = kv_msg_body_bytes(head[0]);
	uint8_t *body, *tail;
	size_t tail_len;

	if (!body_len)
		return;
	tail_len = len > body_len ? len - body_len : 0;
	tail_len = kv_min_size(tail_len, tails[head[0]].max);
	tail_len = kv_max_size(tail_len, tails[head[0]].min);
	body = calloc(1, body_len + tail_len + 1);
	assert(body);
	memcpy(body, bytes, kv_min_size(len, body_len + tail_len));
	tail = body + body_len;
	if (head[0] == KV_MSG_REGIONS_R)
		hear(body, tail, tail_len);
	else if (!p->peer.is_lost && kv_conn_is_open(p->peer.c))
		send_message(p, head[0], head[1], body, tail, tail_len);
	free(body);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct play p;
	unsigned n = 0;

	if (size < 1)
		return 0;
	kv_log_set_sink(quiet, NULL);
	memset(&p, 0, sizeof(p));
	open_play(&p, data[0] & 1);
	data++;
	size--;
	while (size >= HEAD && n++ < MESSAGES_MAX) {
		size_t len = (size_t)(data[2] | data[3] << 8);

		len = kv_min_size(len, size - HEAD);
		say(&p, data, data + HEAD, len);
		/* Now and then they come one at a time. */
		if (data[1] & 0x80)
			simpair_run(&p.pair, KV_NS_PER_MS);
		data += HEAD + len;
		size -= HEAD + len;
	}
	close_play(&p);
	return 0;
}
