/*
 * What a node answers about itself: its record, its counters, everything about
 * one key; and what masters ask and tell about keys that it holds.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/bytes.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "net/answer.h"
#include "store/tenants.h"
#include "svc/putkey.h"
#include "wire/msg.h"

int
kv_nodeinfo_tenant(const struct kv_nodepeer *peer, const char *name, size_t len)
{
	int tenant;

	tenant =
		kv_tenants_find(kv_index_tenants(peer->node->index), name, len);
	if (peer->from == KV_FROM_REQUESTER && tenant != (int)peer->tenant)
		return -EACCES;
	return tenant;
}

size_t
kv_nodeinfo_record_bytes(const struct kv_node *node)
{
	return sizeof(struct kv_node_rec) + strlen(node->addr) +
	       strlen(node->o.name);
}

void
kv_nodeinfo_record(const struct kv_node *node, void *out)
{
	size_t addr_len = strlen(node->addr);
	size_t name_len = strlen(node->o.name);
	struct kv_node_rec *rec = out;
	struct kv_heartbeat room;

	kv_node_room(node, &room);
	memset(rec, 0, sizeof(*rec));
	rec->boot = node->boot;
	rec->host = node->o.host;
	rec->state =
		node->phase == KV_NODE_RUNNING ? KV_NODE_LIVE : KV_NODE_LEAVING;
	rec->addr_len = (uint8_t)addr_len;
	rec->name_len = (uint8_t)name_len;
	rec->masters = (uint8_t)kv_session_masters(node);
	rec->sessions = (uint8_t)kv_node_sessions(node);
	rec->pool_bytes = room.pool_bytes;
	rec->ready_bytes = room.ready_bytes;
	rec->free_bytes = room.free_bytes;
	rec->pinned_bytes = room.pinned_bytes;
	rec->keys = room.keys;
	rec->victim_age_ms = room.victim_age_ms;
	memcpy(rec + 1, node->addr, addr_len);
	memcpy((char *)(rec + 1) + addr_len, node->o.name, name_len);
}

bool
kv_nodeinfo_nodes(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	struct kv_nodes_r *r;
	void *rec;

	r = kv_conn_begin_tail(peer->conn, KV_MSG_NODES_R, msg->id, 0,
			       kv_nodeinfo_record_bytes(peer->node), &rec);
	if (!r)
		return true;
	r->count = kv_le32(1);
	kv_nodeinfo_record(peer->node, rec);
	kv_conn_end(peer->conn);
	return true;
}

bool
kv_nodeinfo_stats(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	struct kv_bytes text = { 0 };
	void *tail;

	if (kv_node_stats(peer->node, &text) < 0 || text.len > KV_TAIL_MAX) {
		kv_answer_error(peer->conn, msg->id, KV_ENOMEM, NULL);
	} else if (kv_conn_begin_tail(peer->conn, KV_MSG_STATS_R, msg->id, 0,
				      text.len, &tail)) {
		memcpy(tail, text.data, text.len);
		kv_conn_end(peer->conn);
	}
	kv_bytes_fini(&text);
	return true;
}

/* ---- what masters ask and tell ---- */

bool
kv_nodeinfo_check(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_check *m = msg->body;
	uint32_t i, n = kv_get32(m->count);
	const struct kv_check_ent *e;
	struct kv_check_r *r;
	struct kv_cut cut;
	uint8_t *keeps;
	void *tail;

	kv_cut_init(&cut, msg);
	e = kv_cut_array(&cut, n, sizeof(*e));
	if (!kv_cut_done(&cut))
		return false;
	r = kv_conn_begin_tail(peer->conn, KV_MSG_CHECK_R, msg->id, 0, n,
			       &tail);
	if (!r)
		return true;
	keeps = tail;
	r->count = kv_le32(n);
	for (i = 0; i < n; i++)
		keeps[i] = kv_putkey_keeps(peer->node, &e[i]);
	kv_conn_end(peer->conn);
	return true;
}

/* ---- QUERY ---- */

/* A sum on its way. */
struct summing {
	struct kv_nodejob job;
	struct kv_nodesum sum;
	uint64_t idle_ms; /* before this pinned it */
};

static uint64_t
idle_ms(const struct kv_node *node, const struct kv_object *o)
{
	uint64_t now = kv_loop_now(node->loop);

	return now > o->used_ns ? (now - o->used_ns) / KV_NS_PER_MS : 0;
}

/* sm: it was summed, and is pinned for that. */
static void
query_answer(struct kv_nodepeer *peer, uint64_t id, const struct kv_object *o,
	     const struct summing *sm, uint64_t sum)
{
	struct kv_query_rec *rec;
	struct kv_query_r *r;
	void *tail;

	r = kv_conn_begin_tail(peer->conn, KV_MSG_QUERY_R, id, 0,
			       o ? sizeof(*rec) : 0, &tail);
	if (!r)
		return;
	if (o) {
		rec = tail;
		memset(rec, 0, sizeof(*rec));
		r->count = kv_le32(1);
		rec->boot = peer->node->boot;
		rec->size = kv_le64(o->size);
		rec->put_id.random = kv_le64(o->id_random);
		rec->put_id.version = kv_le32(o->id_version);
		rec->pins = kv_le32(o->pins - (sm ? 1 : 0));
		rec->idle_ms =
			kv_le64(sm ? sm->idle_ms : idle_ms(peer->node, o));
		rec->sum = kv_le64(sum);
		rec->off = kv_le64(o->n_ext ? kv_index_extents(o)->off : 0);
		rec->extents = kv_le16(o->n_ext);
		if (o->flags & KV_OBJ_SOFT_PIN)
			rec->flags |= KV_PUT_SOFT_PIN;
		if (o->flags & KV_OBJ_HARD_PIN)
			rec->flags |= KV_PUT_HARD_PIN;
	}
	kv_conn_end(peer->conn);
}

static bool
summing_step(struct kv_nodejob *job)
{
	struct summing *sm = KV_CONTAINER_OF(job, struct summing, job);
	uint64_t value;
	bool is_good;

	if (kv_nodesum_step(&sm->sum))
		return true;
	is_good = kv_nodesum_check(&sm->sum, &value);
	query_answer(job->peer, job->id, is_good ? sm->sum.object : NULL, sm,
		     value);
	return false;
}

static void
summing_free(struct kv_nodejob *job)
{
	struct summing *sm = KV_CONTAINER_OF(job, struct summing, job);

	kv_nodesum_fini(&sm->sum);
	free(sm);
}

static bool
summing_start(struct kv_nodepeer *peer, uint64_t id, struct kv_object *o)
{
	struct kv_node *node = peer->node;
	struct summing *sm = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*sm));

	if (!sm)
		return false;
	sm->idle_ms = idle_ms(node, o);
	if (kv_nodesum_begin(&sm->sum, node, o) < 0) {
		free(sm);
		return false;
	}
	sm->job.step = summing_step;
	sm->job.free = summing_free;
	kv_nodejob_start(&sm->job, peer, id);
	return true;
}

bool
kv_nodeinfo_query(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_query *m = msg->body;
	size_t key_len = kv_get16(m->key_len);
	struct kv_object *o = NULL;
	const char *tenant;
	const void *key;
	struct kv_cut cut;
	int number;

	kv_cut_init(&cut, msg);
	tenant = kv_cut_take(&cut, m->tenant_len);
	key = kv_cut_take(&cut, key_len);
	if (!kv_cut_done(&cut))
		return false;
	number = kv_nodeinfo_tenant(peer, tenant, m->tenant_len);
	if (number == -EACCES) {
		kv_answer_error(peer->conn, msg->id, KV_EDENIED, NULL);
		return true;
	}
	if (number >= 0)
		o = kv_index_find(
			peer->node->index,
			kv_key_hash(kv_key_seed(tenant, m->tenant_len), key,
				    key_len),
			(unsigned)number, key, key_len);
	if (o && (o->flags & KV_OBJ_HIDDEN))
		o = NULL;
	if (!o || !(m->flags & KV_QUERY_SUM))
		query_answer(peer, msg->id, o, NULL, 0);
	else if (kv_nodepeer_is_busy(peer, 0))
		kv_answer_error(peer->conn, msg->id, KV_EBUSY, NULL);
	else if (!summing_start(peer, msg->id, o))
		kv_answer_error(peer->conn, msg->id, KV_ENOMEM, NULL);
	return true;
}
