/*
 * What a node makes of any messages that requesters and its master may send:
 * frames are well-formed (their parser has a fuzzer of its own), what is in
 * them is not. An input is a list of messages: sender, type, le16 length, bytes
 * of body and tail. In the end everybody leaves, and nothing may be left.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "simnode.h"
#include "wire/msg.h"

enum {
	MESSAGES_MAX = 64,
	HEAD = 4, /* of a message in the input */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct play {
	struct simnode s;
	struct simreq local, remote;
};

/* Bounds of each type's tail. */
static const struct {
	size_t min, max;
} tails[256] = {
#define KV_MSG(number, NAME, body, tmin, tmax, text) [number] = { tmin, tmax },
#include "wire/proto.def"
#undef KV_MSG
};

static struct wirepeer *
sender_of(struct play *p, uint8_t who)
{
	if ((who & 0x7f) == 7)
		return &p->s.masters[1].peer;
	switch (who % 4) {
	case 0:
		return &p->local.control;
	case 1:
		return &p->remote.control;
	case 2:
		return &p->remote.data;
	default:
		return &p->s.masters[0].peer;
	}
}

/* A token that cannot be guessed would keep the input out. */
static void
aim(const struct play *p, uint8_t type, uint8_t *body)
{
	struct kv_put *put = (void *)body;
	struct kv_get *get = (void *)body;

	if (type == KV_MSG_PUT && put->mode == KV_MODE_DATA)
		put->data_token = kv_le64(p->remote.data_token);
	if (type == KV_MSG_GET && get->mode == KV_MODE_DATA)
		get->data_token = kv_le64(p->remote.data_token);
}

static void
say(struct play *p, const uint8_t *head, const uint8_t *bytes, size_t len)
{
	struct wirepeer *from = sender_of(p, head[0]);
	size_t body_len = kv_msg_body_bytes(head[1]);
	uint8_t *body, *tail;
	size_t tail_len;

	if (!body_len || !from->c || from->is_lost ||
	    !kv_conn_is_open(from->c) ||
	    (from == &p->s.masters[0].peer && !p->s.masters[0].has_peer) ||
	    (from == &p->s.masters[1].peer && !p->s.masters[1].has_peer))
		return;
	tail_len = len > body_len ? len - body_len : 0;
	tail_len = kv_min_size(tail_len, tails[head[1]].max);
	tail_len = kv_max_size(tail_len, tails[head[1]].min);
	body = calloc(1, body_len + tail_len + 1);
	assert(body);
	memcpy(body, bytes, kv_min_size(len, body_len + tail_len));
	tail = body + body_len;
	aim(p, head[1], body);
	wirepeer_send(from, head[1], head[0], body, tail, tail_len);
	free(body);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct simnode_opts opts = { .masters = 2 };
	static struct play p;
	unsigned n = 0;

	simnode_open(&p.s, &opts);
	simnode_master_up(&p.s, 0);
	simnode_master_up(&p.s, 1);
	simreq_open_unix(&p.local, &p.s, 0);
	simreq_open_tcp(&p.remote, &p.s);
	simnode_run(&p.s, 5);
	while (size >= HEAD && n++ < MESSAGES_MAX) {
		size_t len = (size_t)(data[2] | data[3] << 8);

		len = kv_min_size(len, size - HEAD);
		say(&p, data, data + HEAD, len);
		/* Now and then they come one at a time. */
		if (data[0] & 0x80)
			simnode_run(&p.s, 3);
		data += HEAD + len;
		size -= HEAD + len;
	}
	simnode_run(&p.s, 20);
	simreq_close(&p.remote);
	simreq_close(&p.local);
	kv_node_process_exit(p.s.node, p.local.pid);
	simnode_run(&p.s, 20);
	assert(simnode_stat(&p.s, "pins") == 0);
	assert(simnode_stat(&p.s, "grants") == 0);
	assert(simnode_stat(&p.s, "processes") == 0);
	assert(simnode_stat(&p.s, "connections") == 0);
	assert(simnode_stat(&p.s, "zombie_bytes") == 0);
	simnode_close(&p.s);
	return 0;
}
