#include "masterrig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "net/hello.h"
#include "net/stream.h"

#include "test.h"

struct rig rig;

/* A connection to a node's port. */
struct probe {
	struct kv_list link;
	struct rignode *n;
	struct kv_conn *c;
};

/* ---- time ---- */

void
rig_ms(unsigned ms)
{
	struct rignode *n;

	unsigned step;

	for (; ms > 0; ms -= step) {
		step = ms < rig.beat_in_ms ? ms : rig.beat_in_ms;
		simnet_run(rig.sn, rig.clock.ns + step * KV_NS_PER_MS);
		rig.beat_in_ms -= step;
		if (rig.beat_in_ms > 0)
			continue;
		rig.beat_in_ms = 500;
		KV_LIST_FOREACH(n, &rig.nodes, link)
			if (n->beats && n->p.w.c && !n->p.w.is_lost)
				rig_beat(n);
	}
}

void
rig_stop(unsigned ms)
{
	rig.clock.ns += ms * KV_NS_PER_MS;
	rig_ms(1);
}

/* ---- the rig ---- */

void
rig_open(const struct kv_master_opts *opts)
{
	const struct simnet_opts net = { .seed = 1,
					 .latency_ns = 50 * KV_NS_PER_US };
	struct kv_master_opts o = { 0 };
	char err[256] = "";

	if (opts)
		o = *opts;
	rig = (struct rig){ .clock = { .is_virtual = true, .ns = 1000 },
			    .beat_in_ms = 500 };
	kv_list_init(&rig.nodes);
	kv_list_init(&rig.peers);
	rig.loop = kv_loop_new(&rig.clock);
	assert_non_null(rig.loop);
	rig.sn = simnet_new(rig.loop, &rig.clock, &net);
	rig.net = simnet_process(rig.sn, RIG_MASTER, ++rig.pid);
	o.loop = rig.loop;
	o.net = rig.net;
	o.listen[0] = "tcp:" RIG_MASTER ":50051";
	o.seed = 7;
	rig.m = kv_master_new(&o, err, sizeof(err));
	assert_string_equal(err, "");
	assert_non_null(rig.m);
}

int
rig_setup(void **state)
{
	(void)state;
	rig_open(NULL);
	simnet_run(rig.sn, rig.clock.ns + 10 * KV_NS_PER_S);
	return 0;
}

int
rig_teardown(void **state)
{
	struct rignode *n;
	struct rigpeer *p;

	(void)state;
	while ((n = KV_LIST_FIRST(&rig.nodes, struct rignode, link)))
		rig_kill(n);
	while ((p = KV_LIST_FIRST(&rig.peers, struct rigpeer, link)))
		rig_close(p);
	kv_master_free(rig.m);
	simnet_run(rig.sn, rig.clock.ns + KV_NS_PER_S);
	simnet_free(rig.sn);
	kv_loop_free(rig.loop);
	return 0;
}

/* ---- any peer ---- */

static void
dialled(void *arg, struct kv_stream *s, int status)
{
	struct rigpeer *p = arg;

	p->stream = s;
	p->status = status;
}

static void
peer_connect(struct rigpeer *p)
{
	p->net->connect(p->net, rig.loop, "tcp:" RIG_MASTER ":50051",
			rig.clock.ns + KV_NS_PER_S, dialled, p);
	rig_ms(2);
	assert_int_equal(p->status, 0);
	assert_non_null(p->stream);
	wirepeer_open(&p->w, rig.loop, p->stream);
	p->stream = NULL;
	kv_list_add_tail(&rig.peers, &p->link);
}

static void
peer_init(struct rigpeer *p, const char *host)
{
	memset(p, 0, sizeof(*p));
	kv_list_init(&p->link);
	p->pid = ++rig.pid;
	p->net = simnet_process(rig.sn, host, p->pid);
	p->boot.b[0] = 0xff;
	p->boot.b[1] = (uint8_t)p->pid;
	snprintf((char *)p->host.b, sizeof(p->host.b), "%s", host);
}

void
rig_dial(struct rigpeer *p, const char *host)
{
	peer_init(p, host);
	peer_connect(p);
}

int
rig_hello(struct rigpeer *p, enum kv_role role)
{
	const struct kv_hello_opts hello = {
		.role = role,
		.boot = &p->boot,
		.host = &p->host,
		.name = "rig",
	};
	struct wireframe *f;
	int status;

	assert_non_null(kv_conn_begin(p->w.c, KV_MSG_HELLO, 1, 0));
	assert_true(kv_hello_build(p->w.c, &hello));
	kv_conn_end(p->w.c);
	p->next_id = 2;
	f = rig_wait(p, KV_MSG_HELLO_R);
	status = ((struct kv_hello_r *)f->body)->status;
	wireframe_free(f);
	return status;
}

void
rig_requester(struct rigpeer *p, const char *host)
{
	rig_dial(p, host);
	assert_int_equal(rig_hello(p, KV_ROLE_REQUESTER), 0);
}

void
rig_close(struct rigpeer *p)
{
	wirepeer_close(&p->w);
	kv_list_del(&p->link);
}

uint64_t
rig_send(struct rigpeer *p, enum kv_msg_type type, const void *body,
	 const void *tail, size_t tail_len)
{
	wirepeer_send(&p->w, type, p->next_id, body, tail, tail_len);
	return p->next_id++;
}

struct wireframe *
rig_wait(struct rigpeer *p, enum kv_msg_type type)
{
	struct wireframe *f = wirepeer_take(&p->w, type);
	unsigned i;

	for (i = 0; !f && i < 4000; i++) {
		rig_ms(1);
		f = wirepeer_take(&p->w, type);
	}
	if (!f)
		fail_msg("no %s came", kv_msg_name(type));
	return f;
}

struct wireframe *
rig_ask(struct rigpeer *p, enum kv_msg_type type, const void *body,
	const void *tail, size_t tail_len)
{
	uint64_t id = rig_send(p, type, body, tail, tail_len);
	struct wireframe *f = rig_wait(p, type + 128);

	assert_int_equal(f->id, id);
	return f;
}

void
rig_expect_dropped(struct rigpeer *p)
{
	rig_ms(1500);
	assert_true(p->w.is_lost);
	rig_close(p);
}

/* ---- nodes: the port ---- */

static void
probe_msg(struct kv_conn *c, const struct kv_msg *msg)
{
	struct probe *pr = kv_conn_arg(c);
	struct rignode *n = pr->n;
	char text[KV_HELLO_TEXT_BYTES];
	struct kv_hello_in in;
	struct kv_ping *r;
	int status;

	if (n->is_frozen)
		return;
	if (msg->type == KV_MSG_HELLO) {
		status = kv_hello_check(msg, &n->p.boot, &in, text);
		kv_hello_answer(c, msg->id, status, status ? text : NULL,
				&n->p.boot, 1);
		if (status == 0)
			assert_int_equal(in.role, KV_ROLE_PROBE);
		return;
	}
	assert_int_equal(msg->type, KV_MSG_PING);
	r = kv_conn_begin(c, KV_MSG_PING_R, msg->id, 0);
	assert_non_null(r);
	kv_conn_end(c);
}

static void
probe_close(struct kv_conn *c, int status)
{
	struct probe *pr = kv_conn_arg(c);

	(void)status;
	kv_conn_close(c);
	kv_list_del(&pr->link);
	free(pr);
}

static const struct kv_conn_ops probe_ops = {
	.on_msg = probe_msg,
	.on_close = probe_close,
};

static void
probe_accepted(void *arg, struct kv_stream *s, const struct kv_peer *who)
{
	struct rignode *n = arg;
	struct probe *pr = calloc(1, sizeof(*pr));

	(void)who;
	assert_non_null(pr);
	n->probed++;
	pr->n = n;
	pr->c = kv_conn_new(rig.loop, s, &probe_ops, pr);
	assert_non_null(pr->c);
	kv_list_add_tail(&n->probes, &pr->link);
}

/* ---- nodes ---- */

void
rig_listen(struct rignode *n, const char *host, unsigned port, uint8_t boot)
{
	char addr[64], bound[128];
	int err;

	memset(n, 0, sizeof(*n));
	kv_list_init(&n->probes);
	kv_list_add_tail(&rig.nodes, &n->link);
	n->port = port;
	peer_init(&n->p, host);
	n->p.boot = (struct kv_id){ { boot } };
	snprintf(addr, sizeof(addr), "tcp::%u", port);
	n->listener = n->p.net->listen(n->p.net, rig.loop, addr, probe_accepted,
				       n, bound, &err);
	assert_non_null(n->listener);
}

void
rig_unlisten(struct rignode *n)
{
	if (n->listener)
		n->p.net->unlisten(n->p.net, n->listener);
	n->listener = NULL;
}

void
rig_node(struct rignode *n, const char *host, unsigned port, uint8_t boot)
{
	rig_listen(n, host, port, boot);
	peer_connect(&n->p);
	assert_int_equal(rig_hello(&n->p, KV_ROLE_NODE), 0);
}

int
rig_join(struct rignode *n, const char *addr)
{
	struct kv_join j = { .host = n->p.host,
			     .pool = n->pool,
			     .pool_bytes = kv_le64(1 << 20),
			     .masters = n->masters };
	struct wireframe *f;
	char tail[256];
	int status;

	if (addr)
		snprintf(tail, sizeof(tail), "%sn%02x", addr, n->p.boot.b[0]);
	else
		snprintf(tail, sizeof(tail), ":%un%02x", n->port,
			 n->p.boot.b[0]);
	j.name_len = 3;
	j.addr_len = (uint8_t)(strlen(tail) - 3);
	f = rig_ask(&n->p, KV_MSG_JOIN, &j, tail, strlen(tail));
	status = ((struct kv_join_r *)f->body)->status;
	n->missed = kv_get32(((struct kv_join_r *)f->body)->missed);
	wireframe_free(f);
	n->beats = status == 0;
	return status;
}

void
rig_up(struct rignode *n, const char *host, unsigned port, uint8_t boot)
{
	rig_node(n, host, port, boot);
	assert_int_equal(rig_join(n, NULL), 0);
	wireframe_free(rig_publish(n, KV_PUBLISH_SYNC | KV_PUBLISH_SYNC_END,
				   NULL, 0, 0));
}

void
rig_again(struct rignode *n)
{
	rig_close(&n->p);
	rig_ms(1);
	peer_connect(&n->p);
	assert_int_equal(rig_hello(&n->p, KV_ROLE_NODE), 0);
}

void
rig_kill(struct rignode *n)
{
	struct probe *pr;

	simnet_process_exit(rig.sn, n->p.pid);
	rig_close(&n->p);
	rig_unlisten(n);
	n->beats = false;
	while ((pr = KV_LIST_FIRST(&n->probes, struct probe, link)))
		probe_close(pr->c, 0);
	kv_list_del(&n->link);
}

struct kv_id
rig_hash(unsigned key)
{
	struct kv_hash h = kv_key_hash(0, &key, sizeof(key));

	return kv_key_hash_build(h);
}

struct kv_publish_ent
rig_ent(unsigned key, uint64_t random, uint32_t version)
{
	return (struct kv_publish_ent){
		.hash = rig_hash(key),
		.put_id = { kv_le64(random), kv_le32(version) },
	};
}

struct wireframe *
rig_publish(struct rignode *n, unsigned flags,
	    const struct kv_publish_ent *ents, unsigned added, unsigned gone)
{
	struct kv_publish p = { .added = kv_le32(added),
				.gone = kv_le32(gone),
				.flags = (uint8_t)flags };
	struct kv_publish_r *r;
	struct wireframe *f;

	f = rig_ask(&n->p, KV_MSG_PUBLISH, &p, ents,
		    (added + gone) * sizeof(*ents));
	r = (void *)f->body;
	if (r->status != 0) {
		wireframe_free(f);
		return NULL;
	}
	assert_int_equal(kv_get32(r->count), added);
	assert_int_equal(f->tail_len, added);
	return f;
}

int
rig_put(struct rignode *n, unsigned key, uint64_t random, uint32_t version)
{
	struct kv_publish_ent e = rig_ent(key, random, version);
	struct wireframe *f = rig_publish(n, 0, &e, 1, 0);
	int verdict;

	assert_non_null(f);
	verdict = f->tail[0];
	wireframe_free(f);
	return verdict;
}

void
rig_gone(struct rignode *n, unsigned key, uint64_t random)
{
	struct kv_publish_ent e = rig_ent(key, random, 0);

	wireframe_free(rig_publish(n, 0, &e, 0, 1));
}

void
rig_beat(struct rignode *n)
{
	struct kv_heartbeat room = n->room;

	/* If the test says nothing else it has just heard this. */
	if (kv_get64(room.echo) == 0)
		room.echo = kv_le64(rig.clock.ns);
	rig_send(&n->p, KV_MSG_HEARTBEAT, &room, NULL, 0);
}

unsigned
rig_confirm(struct rignode *n, bool is_there)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_CHECK);
	uint32_t count = kv_get32(((struct kv_check *)f->body)->count);
	struct kv_check_r r = { .count = kv_le32(count) };
	uint8_t *tail = malloc(count + 1);

	assert_non_null(tail);
	assert_int_equal(f->tail_len, count * sizeof(struct kv_check_ent));
	memset(tail, is_there, count);
	wirepeer_send(&n->p.w, KV_MSG_CHECK_R, f->id, &r, tail, count);
	free(tail);
	wireframe_free(f);
	return count;
}

void
rig_pong(struct rignode *n)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_PING);

	wirepeer_send(&n->p.w, KV_MSG_PING_R, f->id, f->body, NULL, 0);
	wireframe_free(f);
}

int
rig_decided(struct rignode *n, unsigned key, uint64_t random)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_DECIDE);
	struct kv_decide_ent *e = (void *)f->tail;
	int verdict;

	assert_int_equal(kv_get32(((struct kv_decide *)f->body)->count), 1);
	assert_int_equal(f->tail_len, sizeof(*e));
	assert_true(kv_id_is_equal(e->hash, rig_hash(key)));
	assert_int_equal(kv_get64(e->put_id.random), random);
	verdict = e->verdict;
	wireframe_free(f);
	return verdict;
}

unsigned
rig_decides(struct rignode *n)
{
	rig_ms(5);
	return wirepeer_count(&n->p.w, KV_MSG_DECIDE);
}
