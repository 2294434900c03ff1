#include "simnode.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "event/loop.h"
#include "store/key.h"
#include "wire/msg.h"

static const char *const master_addrs[] = { "tcp:m0:50051", "tcp:m1:50051" };
static const char *const master_hosts[] = { "m0", "m1" };

/* ---- masters ---- */

static void
master_accept(void *arg, struct kv_stream *st, const struct kv_peer *who)
{
	struct simmaster *m = arg;

	(void)who;
	if (m->has_peer)
		wirepeer_close(&m->peer);
	wirepeer_open(&m->peer, m->s->loop, st);
	m->has_peer = true;
}

static struct kv_publish_ent *
held_find(const struct simmaster *m, struct kv_id hash)
{
	for (size_t i = 0; i < m->n_held; i++)
		if (kv_id_is_equal(m->held[i].hash, hash))
			return &m->held[i];
	return NULL;
}

static void
held_add(struct simmaster *m, const struct kv_publish_ent *e)
{
	struct kv_publish_ent *at = held_find(m, e->hash);

	if (!at) {
		m->held =
			realloc(m->held, (m->n_held + 1) * sizeof(m->held[0]));
		assert(m->held);
		at = &m->held[m->n_held++];
	}
	*at = *e;
}

static void
held_del(struct simmaster *m, const struct kv_publish_ent *e)
{
	struct kv_publish_ent *at = held_find(m, e->hash);

	if (at && kv_get64(at->put_id.random) == kv_get64(e->put_id.random))
		*at = m->held[--m->n_held];
}

static void
publish_answer(struct simmaster *m, const struct wireframe *f, uint8_t verdict)
{
	const struct kv_publish *p = (void *)f->body;
	const struct kv_publish_ent *e = (void *)f->tail;
	uint32_t i, added = kv_get32(p->added), gone = kv_get32(p->gone);
	struct kv_publish_r r = { .count = kv_le32(added) };
	uint8_t *verdicts = calloc(1, added + 1);

	assert(verdicts);
	assert(f->tail_len == (added + gone) * sizeof(*e));
	if (!verdict)
		verdict = KV_VERDICT_STAYS;
	for (i = 0; i < added; i++) {
		verdicts[i] = verdict;
		if (verdict == KV_VERDICT_STAYS)
			held_add(m, &e[i]);
	}
	for (; i < added + gone; i++)
		held_del(m, &e[i]);
	wirepeer_send(&m->peer, KV_MSG_PUBLISH_R, f->id, &r, verdicts, added);
	free(verdicts);
}

static void
take_publish(struct simmaster *m)
{
	struct wireframe *f;

	while (!m->by_hand && (f = wirepeer_take(&m->peer, KV_MSG_PUBLISH))) {
		const struct kv_publish *p = (void *)f->body;

		m->publishes++;
		m->syncs += !!(p->flags & KV_PUBLISH_SYNC);
		m->sync_ends += !!(p->flags & KV_PUBLISH_SYNC_END);
		publish_answer(m, f, m->verdict);
		wireframe_free(f);
	}
}

static void
take_session(struct simmaster *m)
{
	struct kv_hello_r hr = { .version = kv_le16(KV_WIRE_VERSION) };
	struct kv_join_r jr = { .status = m->refuse,
				.heartbeat_ms = kv_le32(1000),
				.ttl_ms = kv_le32(10000),
				.stamp = kv_le64(1),
				.missed = kv_le32(m->missed),
				.generations = kv_le16(m->n_news) };
	struct wireframe *f;

	while ((f = wirepeer_take(&m->peer, KV_MSG_HELLO))) {
		assert(((struct kv_hello *)(void *)f->body)->role ==
		       KV_ROLE_NODE);
		m->hellos++;
		hr.boot.b[0] = m->boot;
		wirepeer_send(&m->peer, KV_MSG_HELLO_R, f->id, &hr, NULL, 0);
		wireframe_free(f);
	}
	while ((f = wirepeer_take(&m->peer, KV_MSG_JOIN))) {
		m->joins++;
		m->pool = ((struct kv_join *)(void *)f->body)->pool;
		m->known = kv_get16(
			((struct kv_join *)(void *)f->body)->generations);
		m->n_held = 0;
		wirepeer_send(&m->peer, KV_MSG_JOIN_R, f->id, &jr, m->news,
			      m->news_len);
		wireframe_free(f);
	}
	while ((f = wirepeer_take(&m->peer, KV_MSG_HEARTBEAT))) {
		m->beats++;
		memcpy(&m->beat, f->body, sizeof(m->beat));
		m->told_len = f->tail_len;
		assert(m->told_len <= sizeof(m->told));
		memcpy(m->told, f->tail, f->tail_len);
		m->beat_r.stamp = kv_le64(m->beats + 1);
		wirepeer_send(
			&m->peer, KV_MSG_HEARTBEAT_R, f->id, &m->beat_r, m->ids,
			kv_get32(m->beat_r.listed) * sizeof(struct kv_le64));
		wireframe_free(f);
	}
}

static void
master_pump(struct simmaster *m)
{
	struct wireframe *f;

	while (m->has_peer && (f = wirepeer_take(&m->peer, KV_MSG_LEAVE))) {
		m->leaves++;
		wireframe_free(f);
	}
	if (m->has_peer && m->peer.is_lost) {
		wirepeer_close(&m->peer);
		m->has_peer = false;
	}
	if (!m->has_peer || m->is_mute)
		return;
	take_session(m);
	take_publish(m);
}

void
simnode_master_up(struct simnode *s, unsigned i)
{
	struct simmaster *m = &s->masters[i];
	char bound[KV_NET_BOUND_BYTES];
	int err;

	m->listener = m->net->listen(m->net, s->loop, master_addrs[i],
				     master_accept, m, bound, &err);
	assert(m->listener);
}

void
simnode_master_down(struct simnode *s, unsigned i)
{
	struct simmaster *m = &s->masters[i];

	if (m->listener)
		m->net->unlisten(m->net, m->listener);
	m->listener = NULL;
	if (m->has_peer)
		wirepeer_close(&m->peer);
	m->has_peer = false;
}

struct kv_id
simnode_hash(const char *key)
{
	return kv_key_hash_build(
		kv_key_hash(kv_key_seed("", 0), key, strlen(key)));
}

bool
simnode_master_has(const struct simnode *s, unsigned i, const char *key)
{
	return held_find(&s->masters[i], simnode_hash(key));
}

void
simnode_master_verdict(struct simnode *s, unsigned i, uint8_t verdict)
{
	struct simmaster *m = &s->masters[i];
	struct wireframe *f = wirepeer_take(&m->peer, KV_MSG_PUBLISH);

	assert(f);
	publish_answer(m, f, verdict);
	wireframe_free(f);
}

void
simnode_master_decide(struct simnode *s, unsigned i, const char *key,
		      uint64_t random, uint8_t verdict)
{
	struct kv_decide d = { .count = kv_le32(1) };
	struct kv_decide_ent e = {
		.hash = simnode_hash(key),
		.put_id.random = kv_le64(random),
		.verdict = verdict,
	};

	wirepeer_send(&s->masters[i].peer, KV_MSG_DECIDE, 0, &d, &e, sizeof(e));
}

/* ---- the node ---- */

void
simnode_open(struct simnode *s, const struct simnode_opts *opts)
{
	const struct simnet_opts net = { .seed = 1, .latency_ns = 50000 };
	const struct kv_node_opts node = {
		.pool_bytes = SIMNODE_POOL,
		.pool_fd = -1,
		.pool_fd_ro = -1,
		.listen = { "tcp:n:50052", "unix:/node.sock" },
		.name = "n",
		.host = { { 9 } },
		.conns_max = opts->conns_max,
	};

	kv_log_set_level(KV_LOG_ERR);
	memset(s, 0, sizeof(*s));
	s->opts = node;
	s->clock.is_virtual = true;
	s->clock.ns = KV_NS_PER_S;
	s->next_pid = 1000;
	s->loop = kv_loop_new(&s->clock);
	assert(s->loop);
	s->sn = simnet_new(s->loop, &s->clock, &net);
	for (unsigned i = 0; i < SIMNODE_MASTERS; i++) {
		s->masters[i].s = s;
		s->masters[i].boot = (uint8_t)(200 + i);
		s->masters[i].net =
			simnet_process(s->sn, master_hosts[i], 10 + (int)i);
		if (i < opts->masters)
			s->opts.masters[i] = master_addrs[i];
	}
	s->pool = calloc(1, SIMNODE_POOL);
	s->net = simnet_process(s->sn, "n", SIMNODE_NODE_PID);
	s->opts.loop = s->loop;
	s->opts.net = s->net;
	s->opts.pool = s->pool;
	s->has_file = opts->has_file;
	if (s->has_file)
		simpool_open(&s->file, SIMNODE_POOL);
	s->end = opts->end;
	if (opts->begin)
		opts->begin(s);
	simnode_restart(s);
	if (!opts->no_pages)
		assert(kv_node_ready(s->node, 0, SIMNODE_POOL) == 0);
}

void
simnode_restart(struct simnode *s)
{
	char err[256] = "";

	if (s->has_file)
		s->opts.file = simpool_begin(&s->file);
	s->opts.seed++;
	s->node = kv_node_new(&s->opts, err, sizeof(err));
	if (!s->node)
		fprintf(stderr, "%s\n", err);
	assert(s->node);
}

void
simnode_crash(struct simnode *s)
{
	kv_node_free(s->node);
	s->node = NULL;
	if (s->has_file)
		simpool_end(&s->file);
}

void
simnode_close(struct simnode *s)
{
	simnode_crash(s);
	if (s->has_file)
		simpool_close(&s->file);
	for (unsigned i = 0; i < SIMNODE_MASTERS; i++) {
		simnode_master_down(s, i);
		free(s->masters[i].held);
	}
	simnet_run(s->sn, s->clock.ns + KV_NS_PER_S);
	if (s->end)
		s->end(s);
	assert(simnet_streams(s->sn) == 0);
	simnet_free(s->sn);
	kv_loop_free(s->loop);
	free(s->pool);
}

void
simnode_run(struct simnode *s, uint64_t ms)
{
	while (ms-- > 0) {
		simnet_run(s->sn, s->clock.ns + KV_NS_PER_MS);
		for (unsigned i = 0; i < SIMNODE_MASTERS; i++)
			master_pump(&s->masters[i]);
	}
}

struct kv_net *
simnode_new_process(struct simnode *s, bool is_local)
{
	return simnet_process(s->sn, is_local ? "n" : "r", s->next_pid++);
}

uint64_t
simnode_stat(struct simnode *s, const char *name)
{
	struct kv_bytes text = { 0 };
	char line[64];
	const char *at;
	uint64_t v;

	assert(kv_node_stats(s->node, &text) == 0);
	snprintf(line, sizeof(line), "\n%s ", name);
	at = strstr((char *)text.data, line);
	assert(at);
	v = strtoull(at + strlen(line), NULL, 10);
	kv_bytes_fini(&text);
	return v;
}
