/*
 * Nodes: how their sessions begin, are replaced and end. A node is gone when it
 * says so, when nothing was heard of it for the ttl, or when its session broke
 * and its port tells that the process is no more (suspect.c).
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "net/addr.h"
#include "svc/gentable.h"
#include "svc/mastercore.h"

/* Places of the directory swept in one turn: some 50 us. */
#define SWEEP_STEPS 8192

enum {
	HEARTBEAT_MS_MAX = 1000,
	HEARTBEATS_IN_TTL_MIN = 4,
};

static const char *const state_names[] = {
	[KV_NODE_JOINING] = "joining",
	[KV_NODE_LIVE] = "live",
	[KV_NODE_SUSPECT] = "suspect",
};

/* Leaving is at once, so nobody is in that state. */
static const bool moves[][KV_NODE_LEAVING] = {
	[KV_NODE_JOINING] = { [KV_NODE_LIVE] = true, [KV_NODE_SUSPECT] = true },
	[KV_NODE_LIVE] = { [KV_NODE_SUSPECT] = true },
	[KV_NODE_SUSPECT] = { [KV_NODE_JOINING] = true, [KV_NODE_LIVE] = true },
};

void
kv_member_set_state(struct kv_member *mb, enum kv_node_state next,
		    const char *why)
{
	assert(moves[mb->state][next]);
	kv_debug("node %s: %s -> %s (%s)", mb->addr, state_names[mb->state],
		 state_names[next], why);
	mb->state = next;
}

struct kv_member *
kv_member_find(struct kv_master *m, struct kv_id boot)
{
	struct kv_member *mb;
	unsigned at;

	for (at = 0; (mb = kv_member_next(m, &at));)
		if (!mb->heir && kv_id_is_equal(mb->boot, boot))
			return mb;
	return NULL;
}

struct kv_member *
kv_member_after(struct kv_master *m, struct kv_id boot)
{
	struct kv_member *mb, *first = NULL;
	unsigned at;

	for (at = 0; (mb = kv_member_next(m, &at));)
		if (!mb->heir && memcmp(&mb->boot, &boot, sizeof(boot)) > 0 &&
		    (!first ||
		     memcmp(&mb->boot, &first->boot, sizeof(boot)) < 0))
			first = mb;
	return first;
}

bool
kv_member_is_incomplete(struct kv_master *m)
{
	return m->n_joining > 0 || m->n_missed > 0 || m->is_deserted ||
	       kv_master_now(m) - m->started < m->o.ttl_ns;
}

/* One that no probe reaches holds nothing that others could have. */
static void
mute(struct kv_member *mb)
{
	bool is_mute = !mb->peer && !mb->heir && !mb->is_hidden;

	if (mb->is_mute == is_mute)
		return;
	mb->is_mute = is_mute;
	mb->m->n_mute += is_mute ? 1 : -1u;
}

void
kv_member_show(struct kv_member *mb)
{
	struct kv_master *m = mb->m;
	bool hide = mb->is_hidden || mb->is_parted || mb->has_missed;
	struct kv_member *old;
	unsigned at;

	mute(mb);
	kv_dir_slot_hide(m->dir, mb->slot, hide);
	for (at = 0; mb->is_heir && (old = kv_member_next(m, &at));)
		if (old->heir == mb)
			kv_dir_slot_hide(m->dir, old->slot, hide);
}

bool
kv_member_forget(struct kv_member *mb, struct kv_hash h, struct kv_dir_id id)
{
	struct kv_master *m = mb->m;
	bool found = kv_dir_del(m->dir, h, id, mb->slot);
	struct kv_member *old;
	unsigned at;

	for (at = 0; mb->is_heir && (old = kv_member_next(m, &at));)
		if (old->heir == mb)
			found |= kv_dir_del(m->dir, h, id, old->slot);
	return found;
}

/* ---- the end ---- */

/* Nothing is asked of it, and nothing told to it, any more. */
static void
session_end(struct kv_member *mb)
{
	struct kv_masterpeer *p = mb->peer;

	if (!p)
		return;
	mb->peer = NULL;
	p->member = NULL;
	kv_intake_peer_lost(p);
	kv_missed_session_end(mb);
	kv_rpc_fail(&mb->rpc, -ECONNRESET);
	kv_verdict_lost(mb);
	kv_bytes_reset(&mb->wants);
}

static void
swept(struct kv_defer *d)
{
	struct kv_master *m = KV_CONTAINER_OF(d, struct kv_master, sweep);

	if (kv_dir_sweep(m->dir, SWEEP_STEPS))
		kv_loop_defer(m->loop, d);
}

static void
close_old_ones(struct kv_member *mb, const char *why)
{
	struct kv_member *old;
	unsigned at;

	for (at = 0; mb->is_heir && (old = kv_member_next(mb->m, &at));)
		if (old->heir == mb)
			kv_member_close(old, why);
	mb->is_heir = false;
}

void
kv_member_close(struct kv_member *mb, const char *why)
{
	struct kv_master *m = mb->m;

	kv_debug("node %s: %s -> gone (%s)", mb->addr, state_names[mb->state],
		 why);
	close_old_ones(mb, why);
	kv_suspect_end(mb);
	kv_dir_slot_close(m->dir, mb->slot);
	m->members[mb->slot] = NULL;
	while (m->slots_end > 0 && !m->members[m->slots_end - 1])
		m->slots_end--;
	m->n_members -= !mb->heir;
	m->n_joining -= !mb->is_synced;
	m->n_missed -= mb->has_missed;
	m->n_loopback -= mb->is_loopback;
	m->n_mute -= mb->is_mute;
	session_end(mb);
	kv_bytes_fini(&mb->decides);
	kv_bytes_fini(&mb->wants);
	free(mb);
	m->sweep.fn = swept;
	kv_loop_defer(m->loop, &m->sweep);
	kv_peermasters_changed(m);
}

void
kv_member_dead(struct kv_member *mb, const char *why)
{
	struct kv_masterpeer *p = mb->peer;

	kv_warn("node lost name=\"%s\" addr=%s keys=%llu reason=\"%s\"",
		mb->name, mb->addr,
		(unsigned long long)kv_dir_slot_keys(mb->m->dir, mb->slot),
		why);
	kv_master_count(mb->m, KV_MASTERSTAT_NODES_LOST, 1);
	kv_missed_away(mb);
	kv_member_close(mb, why);
	if (p)
		kv_masterpeer_drop(p);
}

/* A pool has one process at a time. */
#define OUTLIVED "its pool has a new process"

void
kv_member_lost(struct kv_member *mb)
{
	session_end(mb);
	if (kv_missed_is_taken_over(mb)) {
		kv_member_dead(mb, OUTLIVED);
		return;
	}
	mute(mb);
	kv_suspect_lost(mb);
}

int
kv_member_leave(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	struct kv_member *mb = p->member;

	(void)msg;
	if (!mb)
		return -EPROTO;
	kv_master_count(p->m, KV_MASTERSTAT_UNMOUNT, 1);
	kv_info("node left name=\"%s\" addr=%s", mb->name, mb->addr);
	p->has_left = true;
	kv_missed_left(mb);
	kv_member_close(mb, "it left");
	return 0;
}

/* A master that hears nobody any more is likely to be the one that was cut off:
 * until its nodes are back it knows no more than one that was started anew. */
static void
silent(struct kv_member *mb)
{
	struct kv_master *m = mb->m;

	kv_member_dead(mb, "silent for longer than the ttl");
	if (m->n_members == 0) {
		m->is_deserted = true;
		m->started = kv_master_now(m);
	}
}

void
kv_member_tick(struct kv_master *m)
{
	uint64_t now = kv_master_now(m);
	struct kv_member *mb;
	unsigned at;

	for (at = 0; (mb = kv_member_next(m, &at));) {
		if (mb->heir)
			continue;
		if (now - mb->heard > m->o.ttl_ns)
			silent(mb);
		else if (!mb->is_synced && now - mb->progress > m->o.ttl_ns)
			kv_member_dead(mb, "it does not publish what it has");
		else
			kv_suspect_tick(mb);
	}
}

/* ---- heartbeats ---- */

static void
count_more(struct kv_master *m, enum kv_masterstat stat, struct kv_le64 before,
	   struct kv_le64 after)
{
	if (kv_get64(after) > kv_get64(before))
		kv_master_count(m, stat, kv_get64(after) - kv_get64(before));
}

static void
heard(struct kv_member *mb, const struct kv_heartbeat *hb)
{
	struct kv_master *m = mb->m;

	count_more(m, KV_MASTERSTAT_EVICTED_KEYS, mb->room.evicted_keys,
		   hb->evicted_keys);
	count_more(m, KV_MASTERSTAT_EVICTED_BYTES, mb->room.evicted_bytes,
		   hb->evicted_bytes);
	count_more(m, KV_MASTERSTAT_ALLOC_FAILS, mb->room.put_fails,
		   hb->put_fails);
	mb->room = *hb;
	mb->heard = kv_master_now(m);
	kv_missed_tell(mb);
}

int
kv_member_heartbeat(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	if (!p->member && !p->has_left)
		return -EPROTO;
	kv_master_count(p->m, KV_MASTERSTAT_PING, 1);
	if (p->member)
		heard(p->member, msg->body);
	else
		kv_master_count(p->m, KV_MASTERSTAT_PING_FAILS, 1);
	return kv_peermasters_heartbeat(p, msg);
}

/* ---- the beginning ---- */

/*
 * The address that others are to dial: what the node says, with the host that
 * this master sees where that host says nothing to others. 0 or -EINVAL.
 */
static int
addr_choose(struct kv_member *mb, const char *told, size_t told_len,
	    const char *seen)
{
	char text[UINT8_MAX + 1], buf[KV_ADDR_TEXT_BYTES_MAX];
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a, from;
	bool is_seen;

	memcpy(text, told, told_len);
	text[told_len] = '\0';
	if (kv_addr_parse(text, 0, &a, err, sizeof(err)) < 0 ||
	    a.kind != KV_ADDR_TCP || a.port == 0)
		return -EINVAL;
	is_seen = kv_addr_parse(seen, 0, &from, err, sizeof(err)) == 0 &&
		  from.kind == KV_ADDR_TCP;
	if (kv_addr_is_unspecified(&a) && !is_seen)
		(void)kv_addr_parse("127.0.0.1", a.port, &a, err, sizeof(err));
	else if (kv_addr_is_unspecified(&a) ||
		 (kv_addr_is_loopback(&a) && is_seen &&
		  !kv_addr_is_loopback(&from)))
		memcpy(a.name, from.name, sizeof(a.name));
	kv_addr_format(&a, buf);
	if (strlen(buf) > KV_MEMBER_ADDR_MAX)
		return -EINVAL;
	memcpy(mb->addr, buf, strlen(buf));
	mb->addr_len = (uint8_t)strlen(buf);
	mb->is_loopback = kv_addr_is_loopback(&a);
	return 0;
}

static struct kv_member *
member_new(struct kv_masterpeer *p, const struct kv_join *j)
{
	struct kv_member *mb = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*mb));
	uint64_t now = kv_master_now(p->m);

	if (!mb)
		return NULL;
	mb->m = p->m;
	mb->serial = ++p->m->last_serial;
	mb->state = KV_NODE_JOINING;
	mb->boot = p->boot;
	mb->host = j->host;
	mb->pool = j->pool;
	mb->heard = now;
	mb->progress = now;
	mb->room.pool_bytes = j->pool_bytes;
	mb->masters = (uint8_t)kv_max_u64(j->masters, 1);
	kv_list_init(&mb->asking);
	kv_rpc_init(&mb->rpc, p->conn);
	return mb;
}

/* A slot for it; KV_EBUSY when none is free (a large node that died is perhaps
 * still being swept). */
static int
slot_open(struct kv_master *m, struct kv_member *mb)
{
	unsigned slot;

	for (slot = 0; slot < m->o.slots; slot++)
		if (!m->members[slot] && kv_dir_slot_is_swept(m->dir, slot))
			break;
	if (slot == m->o.slots)
		return KV_EBUSY;
	kv_dir_slot_open(m->dir, slot);
	mb->slot = (uint16_t)slot;
	m->members[slot] = mb;
	if (m->slots_end <= slot)
		m->slots_end = slot + 1;
	if (m->is_deserted)
		m->started = kv_master_now(m);
	m->is_deserted = false;
	m->n_members++;
	m->n_joining++;
	m->n_loopback += mb->is_loopback;
	return KV_OK;
}

/* The node is back: what its earlier session had published is shown until the
 * new one has published all. */
static void
replace(struct kv_member *old, struct kv_member *mb)
{
	struct kv_masterpeer *p = old->peer;
	struct kv_member *older;
	bool is_old = old->is_parted || mb->has_missed;
	bool is_kept = old->is_synced && !is_old;
	unsigned at;

	if (is_old) /* others know better, or some of it was removed */
		close_old_ones(old, "its node joined again");
	for (at = 0; (older = kv_member_next(mb->m, &at));)
		if (older->heir == old)
			older->heir = mb;
	mb->is_heir = old->is_heir || is_kept;
	old->is_heir = false;
	kv_suspect_inherit(mb, old);
	kv_suspect_end(old);
	if (is_kept) {
		old->heir = mb;
		mb->m->n_members--;
		session_end(old);
		mute(old);
	} else {
		kv_member_close(old, "its node joined again");
	}
	if (p)
		kv_masterpeer_drop(p);
}

/* Those that had its pool before are not waited for. */
static void
take_over(struct kv_member *mb)
{
	struct kv_member *other;
	unsigned at;

	for (at = 0; (other = kv_member_next(mb->m, &at));)
		if (!other->peer && !other->heir &&
		    kv_missed_is_taken_over(other))
			kv_member_dead(other, OUTLIVED);
}

/* A process that joins does so once; one whose sessions break may do so often.
 */
static void
say_joined(struct kv_member *mb, bool is_again)
{
	unsigned long long pool = kv_get64(mb->room.pool_bytes);

	if (!is_again)
		kv_info("node joined name=\"%s\" addr=%s pool=%llu", mb->name,
			mb->addr, pool);
	else
		kv_log_limited(&mb->m->again_log, kv_loop_now(mb->m->loop),
			       KV_LOG_INFO,
			       "node joined again name=\"%s\" addr=%s",
			       mb->name, mb->addr);
}

/* Others reach only one of two with the same address. One that was started
 * again may be here before its last life is given up, but that is silent. */
static void
say_twin(const struct kv_member *mb)
{
	struct kv_master *m = mb->m;
	struct kv_member *twin;
	unsigned at;

	for (at = 0; (twin = kv_member_next(m, &at));)
		if (twin != mb && twin->peer &&
		    !kv_id_is_equal(twin->boot, mb->boot) &&
		    strcmp(twin->addr, mb->addr) == 0 &&
		    mb->heard - twin->heard <
			    2 * KV_NS_PER_MS * HEARTBEAT_MS_MAX)
			kv_log_limited(
				&m->twin_log, kv_loop_now(m->loop), KV_LOG_WARN,
				"two nodes have addr=%s, of which others "
				"reach one: name=\"%s\" and name=\"%s\"; "
				"give one another --host or --port",
				mb->addr, twin->name, mb->name);
}

static void
say_refused(struct kv_masterpeer *p, const struct kv_join *j, const char *addr,
	    const char *name, int status)
{
	kv_master_count(p->m, KV_MASTERSTAT_MOUNT_FAILS, 1);
	kv_log_limited(&p->m->bad_log, kv_loop_now(p->m->loop), KV_LOG_WARN,
		       "refused a node name=\"%.*s\" addr=\"%.*s\" from=%s "
		       "reason=\"%s\"",
		       j->name_len, name, j->addr_len, addr, p->addr,
		       kv_status_text(status));
}

/* A status; the member is the peer's on KV_OK. */
static int
member_add(struct kv_masterpeer *p, const struct kv_msg *msg, const char *addr,
	   const char *name, uint32_t *missed)
{
	const struct kv_join *j = msg->body;
	struct kv_member *mb, *old;
	int status;

	if (p->m->phase != KV_MASTER_RUNNING)
		return KV_ECLOSED;
	mb = member_new(p, j);
	if (!mb)
		return KV_ENOMEM;
	memcpy(mb->name, name, j->name_len);
	mb->name_len = j->name_len;
	old = kv_member_find(p->m, p->boot);
	status = addr_choose(mb, addr, j->addr_len, p->addr) < 0
			 ? KV_EINVALID
			 : slot_open(p->m, mb);
	if (status != KV_OK) {
		free(mb);
		return status;
	}
	mb->peer = p;
	p->member = mb;
	say_joined(mb, old != NULL);
	say_twin(mb);
	*missed = kv_missed_joined(mb);
	if (old)
		replace(old, mb);
	take_over(mb);
	kv_peermasters_joined(mb);
	return KV_OK;
}

int
kv_member_join(struct kv_masterpeer *p, const struct kv_msg *msg)
{
	const struct kv_generations *known = &p->m->generations;
	const struct kv_join *j = msg->body;
	uint16_t generations = kv_get16(j->generations);
	struct kv_join_r *r;
	const char *addr, *name;
	uint32_t missed = 0;
	uint64_t ttl_ms;
	struct kv_cut cut;
	void *tail;
	int status;

	kv_cut_init(&cut, msg);
	addr = kv_cut_take(&cut, j->addr_len);
	name = kv_cut_take(&cut, j->name_len);
	if (!kv_missed_check(cut, generations) ||
	    j->name_len > KV_NAME_BYTES_MAX || p->member || p->has_left)
		return -EPROTO;
	kv_missed_take(p->m, cut, generations);
	status = member_add(p, msg, addr, name, &missed);
	kv_master_count(p->m, KV_MASTERSTAT_MOUNT, 1);
	if (status != KV_OK)
		say_refused(p, j, addr, name, status);
	ttl_ms = kv_min_u64(p->m->o.ttl_ns / KV_NS_PER_MS, UINT32_MAX);
	r = kv_conn_begin_tail(p->conn, KV_MSG_JOIN_R, msg->id, 0,
			       kv_gentable_bytes(known), &tail);
	if (r) {
		r->status = (uint8_t)status;
		r->heartbeat_ms = kv_le32((uint32_t)kv_min_u64(
			ttl_ms / HEARTBEATS_IN_TTL_MIN, HEARTBEAT_MS_MAX));
		r->ttl_ms = kv_le32((uint32_t)ttl_ms);
		r->stamp = kv_le64(kv_loop_now(p->m->loop));
		r->missed = kv_le32(missed);
		r->generations = kv_le16((uint16_t)known->count);
		kv_gentable_write(known, tail);
		kv_conn_end(p->conn);
	}
	if (p->member)
		kv_missed_tell(p->member);
	return 0;
}

void
kv_member_synced(struct kv_member *mb)
{
	if (mb->is_synced)
		return;
	mb->is_synced = true;
	mb->m->n_joining--;
	kv_master_count(mb->m, KV_MASTERSTAT_SYNCS, 1);
	if (mb->state == KV_NODE_JOINING)
		kv_member_set_state(mb, KV_NODE_LIVE, "it published all");
	close_old_ones(mb, "its newer session published all");
}
