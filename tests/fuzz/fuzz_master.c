/*
 * What a master makes of any messages that nodes and requesters may send:
 * frames are well-formed (their parser has a fuzzer of its own), what is in
 * them is not. An input is a list of messages: sender, type, le16 length, bytes
 * of body and tail. In the end everybody leaves, and nothing may be left.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/num.h"
#include "event/loop.h"
#include "net/hello.h"
#include "simnet.h"
#include "svc/mastercore.h"
#include "wirepeer.h"

enum {
	MESSAGES_MAX = 64,
	HEAD = 4,  /* of a message in the input */
	NODES = 3, /* the last one has not joined */
	PEERS = NODES + 2,
	/* Senders that are none: */
	TIME = PEERS, /* lets so many ms pass */
	AGAIN,        /* a node's connection breaks, and it comes again */
	SENDERS,
};

#define MASTER "tcp:10.0.0.1:50051"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct play {
	struct kv_clock clock;
	struct kv_loop *loop;
	struct simnet *sn;
	struct kv_master *m;
	struct kv_net *nets[PEERS];
	struct wirepeer peers[PEERS];
	struct kv_stream *dialled;
};

/* Bounds of each type's tail. */
static const struct {
	size_t min, max;
} tails[256] = {
#define KV_MSG(number, NAME, body, tmin, tmax, text) [number] = { tmin, tmax },
#include "wire/proto.def"
#undef KV_MSG
};

static void
run(struct play *p, uint64_t ms)
{
	simnet_run(p->sn, p->clock.ns + ms * KV_NS_PER_MS);
}

static void
dialled(void *arg, struct kv_stream *s, int status)
{
	struct play *p = arg;

	(void)status;
	p->dialled = s;
}

static void
enter(struct play *p, unsigned i)
{
	const struct kv_id boot = { { (uint8_t)(i + 1) } };
	struct kv_hello h = {
		.version_min = kv_le16(KV_WIRE_VERSION),
		.version_max = kv_le16(KV_WIRE_VERSION),
		.role = i < NODES ? KV_ROLE_NODE : KV_ROLE_REQUESTER,
		.boot = boot,
	};
	struct kv_join j = { .host = boot, .addr_len = 3, .masters = 2 };

	p->nets[i]->connect(p->nets[i], p->loop, MASTER,
			    p->clock.ns + KV_NS_PER_S, dialled, p);
	run(p, 1);
	assert(p->dialled);
	wirepeer_open(&p->peers[i], p->loop, p->dialled);
	p->dialled = NULL;
	wirepeer_send(&p->peers[i], KV_MSG_HELLO, 1, &h, NULL, 0);
	if (i < NODES - 1)
		wirepeer_send(&p->peers[i], KV_MSG_JOIN, 1, &j, ":52", 3);
	run(p, 1);
}

static void
play_open(struct play *p)
{
	static const struct simnet_opts net = { .seed = 1 };
	struct kv_master_opts o = { .listen = { MASTER } };
	char host[16], err[256];
	unsigned i;

	memset(p, 0, sizeof(*p));
	p->clock = (struct kv_clock){ .is_virtual = true, .ns = KV_NS_PER_S };
	p->loop = kv_loop_new(&p->clock);
	assert(p->loop);
	p->sn = simnet_new(p->loop, &p->clock, &net);
	o.loop = p->loop;
	o.net = simnet_process(p->sn, "10.0.0.1", 1);
	p->m = kv_master_new(&o, err, sizeof(err));
	assert(p->m);
	for (i = 0; i < PEERS; i++) {
		snprintf(host, sizeof(host), "10.0.0.%u", i + 2);
		p->nets[i] = simnet_process(p->sn, host, (pid_t)i + 2);
		enter(p, i);
	}
}

static void
play_close(struct play *p)
{
	unsigned i;

	for (i = 0; i < PEERS; i++)
		wirepeer_close(&p->peers[i]);
	run(p, 12000);
	assert(p->m->n_peers == 0);
	assert(p->m->n_members == 0 && p->m->slots_end == 0);
	assert(p->m->n_joining == 0);
	assert(p->m->n_loopback == 0);
	assert(p->m->n_hidden == 0);
	assert(p->m->n_reports == 0);
	assert(p->m->n_probes == 0);
	assert(p->m->others.parted == 0);
	assert(p->m->n_relays == 0);
	assert(kv_list_is_empty(&p->m->jobs));
	assert(kv_htab_count(&p->m->opens) == 0);
	assert(kv_dir_keys(p->m->dir) == 0);
	kv_master_free(p->m);
	run(p, 1);
	simnet_free(p->sn);
	kv_loop_free(p->loop);
}

/* An answer is for the oldest question of its kind; else it would be stray. */
static uint64_t
id_for(struct wirepeer *w, uint8_t type)
{
	struct wireframe *f = NULL;
	uint64_t id = 1;

	if (kv_msg_is_answer(type))
		f = wirepeer_take(w, type == KV_MSG_ERROR_R ? KV_MSG_REMOVE
							    : type - 128);
	if (f)
		id = f->id;
	wireframe_free(f);
	return id;
}

static void
say(struct wirepeer *from, uint8_t type, const uint8_t *bytes, size_t len)
{
	size_t body_len = kv_msg_body_bytes(type), tail_len;
	uint8_t *body;

	if (!body_len || !from->c || from->is_lost ||
	    !kv_conn_is_open(from->c) || kv_msg_has_payload(type))
		return;
	tail_len = len > body_len ? len - body_len : 0;
	tail_len = kv_min_size(tail_len, tails[type].max);
	tail_len = kv_max_size(tail_len, tails[type].min);
	body = calloc(1, body_len + tail_len + 1);
	assert(body);
	memcpy(body, bytes, kv_min_size(len, body_len + tail_len));
	wirepeer_send(from, type, id_for(from, type), body, body + body_len,
		      tail_len);
	free(body);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct play p;
	unsigned n = 0, who;
	size_t len;

	kv_log_set_level(-1);
	play_open(&p);
	while (size >= HEAD && n++ < MESSAGES_MAX) {
		len = (size_t)(data[2] | data[3] << 8);
		who = (data[0] & 0x7f) % SENDERS;
		if (who == TIME) {
			run(&p, len);
			len = 0;
		} else if (who == AGAIN) {
			wirepeer_close(&p.peers[data[1] % NODES]);
			enter(&p, data[1] % NODES);
			len = 0;
		}
		len = kv_min_size(len, size - HEAD);
		if (who < PEERS)
			say(&p.peers[who], data[1], data + HEAD, len);
		/* Now and then they come one at a time. */
		if (data[0] & 0x80)
			run(&p, 2);
		data += HEAD + len;
		size -= HEAD + len;
	}
	run(&p, 20);
	play_close(&p);
	return 0;
}
