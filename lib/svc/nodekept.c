/*
 * A pool that outlives its node: what the node adopts when it starts, what it
 * holds back for processes of earlier nodes, and the sums without which nothing
 * could be adopted from it.
 *
 * A thread computes these; it gets ranges of the pool and gives numbers back.
 * Whether an object was dropped meanwhile, so that the number is of no use, is
 * looked at when it has come back.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "event/mbox.h"
#include "event/worker.h"
#include "store/adopt.h"
#include "store/ledger.h"
#include "store/quarantine.h"
#include "store/sum.h"
#include "store/tenants.h"
#include "svc/nodecore.h"
#include "svc/putkey.h"

/* Objects that came together are summed together. */
#define DELAY_NS  (2 * KV_NS_PER_MS)
#define SETTLE_NS (1 * KV_NS_PER_S)

#define JOB_BYTES   (UINT64_C(32) << 20)
#define JOB_BYTES_0 (UINT64_C(1) << 20) /* on the node's own loop */
#define PIECE_BYTES (UINT64_C(4) << 20) /* until it looks whether to end */

enum {
	JOB_VALUES = 512,
	JOB_EXTENTS = 4 * KV_EXTENTS_MAX,
};

struct value {
	struct kv_ledger_taken taken;
	const struct kv_extent *ext;
	unsigned n_ext;
	uint64_t size;
	uint64_t sum; /* the thread's answer */
};

/* There and back. */
struct job {
	struct kv_mail mail;
	unsigned n;
	unsigned n_ext;
	bool is_out;
	struct value values[JOB_VALUES];
	struct kv_extent ext[JOB_EXTENTS];
};

struct kv_nodekept {
	struct kv_node *node;
	struct kv_ledger *ledger;
	struct kv_quarantine quarantine;
	struct kv_timer settle;
	struct kv_timer due; /* sums are */
	bool is_detached;
	bool is_checking; /* adopted values, and there is news to tell */
	uint64_t n_adopted;
	uint64_t n_bad;

	/* The thread, or NULL: the loop does it. */
	struct kv_worker *thread;
	struct kv_mbox home;
	bool has_home;
	struct kv_sum *sum; /* the thread's */
	const char *pool;
	bool must_end; /* atomic */
	struct job job;
};

/* ---- the thread ---- */

static bool
must_end(const struct kv_nodekept *kept)
{
	return __atomic_load_n(&kept->must_end, __ATOMIC_RELAXED);
}

static void
value_sum(struct kv_nodekept *kept, struct value *v)
{
	const struct kv_extent *e = v->ext;
	uint64_t left, off, n, part;

	kv_sum_reset(kept->sum);
	for (left = v->size; left; left -= n, e++) {
		n = kv_min_u64(e->len, left);
		for (off = 0; off < n && !must_end(kept); off += part) {
			part = kv_min_u64(n - off, PIECE_BYTES);
			/* Its space may have gone to another value. */
			KV_RACY_READS_BEGIN();
			kv_sum_add(kept->sum, kept->pool + e->off + off, part);
			KV_RACY_READS_END();
		}
	}
	v->sum = kv_sum_value(kept->sum);
}

static void job_back(struct kv_mail *mail);

static void
job_do(struct kv_mail *mail)
{
	struct job *j = KV_CONTAINER_OF(mail, struct job, mail);
	struct kv_nodekept *kept = KV_CONTAINER_OF(j, struct kv_nodekept, job);
	unsigned i;

	for (i = 0; i < j->n; i++)
		value_sum(kept, &j->values[i]);
	j->mail.fn = job_back;
	kv_mbox_post(&kept->home, &j->mail);
}

/* ---- home ---- */

static struct kv_object *
object_of(const struct kv_nodekept *kept, uint32_t slot)
{
	struct kv_hash h = kv_record_hash(kv_ledger_file(kept->ledger), slot);
	struct kv_index *ix = kept->node->index;
	bool is_withheld = kv_index_is_withheld(ix);
	struct kv_object *o;

	kv_index_withhold(ix, false);
	o = kv_index_find_hash(ix, h);
	kv_index_withhold(ix, is_withheld);
	return o && o->slot == slot ? o : NULL;
}

/* False: nothing is left to sum. */
static bool
value_take(struct kv_nodekept *kept, struct value *v)
{
	struct job *j = &kept->job;
	const struct kv_extent *e;
	struct kv_object *o = NULL;
	unsigned i;

	while (!o) {
		if (!kv_ledger_take(kept->ledger,
				    kept->node->phase != KV_NODE_RUNNING,
				    &v->taken))
			return false;
		o = object_of(kept, v->taken.slot);
		/* Somebody has read it, so it was checked. */
		if (o && !(o->flags & KV_OBJ_UNCHECKED) &&
		    kv_record_value_sum(kv_ledger_file(kept->ledger), o->slot))
			o = NULL;
	}
	e = kv_index_extents(o);
	v->ext = &j->ext[j->n_ext];
	v->n_ext = o->n_ext;
	v->size = o->size;
	for (i = 0; i < o->n_ext; i++)
		j->ext[j->n_ext++] = e[i];
	return true;
}

static void
checked_all(struct kv_nodekept *kept)
{
	if (!kept->is_checking || kept->node->phase != KV_NODE_RUNNING)
		return;
	kept->is_checking = false;
	kv_info("checked what was adopted keys=%llu dropped=%llu",
		(unsigned long long)kept->n_adopted,
		(unsigned long long)kept->n_bad);
}

static void
job_start(struct kv_nodekept *kept)
{
	struct job *j = &kept->job;
	uint64_t bytes = 0, max = kept->thread ? JOB_BYTES : JOB_BYTES_0;

	if (j->is_out || kept->is_detached)
		return;
	j->n = j->n_ext = 0;
	while (j->n < JOB_VALUES && bytes < max &&
	       JOB_EXTENTS - j->n_ext >= KV_EXTENTS_MAX &&
	       value_take(kept, &j->values[j->n]))
		bytes += j->values[j->n++].size;
	if (j->n == 0) {
		checked_all(kept);
		kv_node_drained(kept->node);
		return;
	}
	j->is_out = true;
	j->mail.fn = job_do;
	kv_mbox_post(kept->thread ? kv_worker_mbox(kept->thread) : &kept->home,
		     &j->mail);
}

bool
kv_nodekept_judge(struct kv_node *node, struct kv_object *o, uint64_t sum)
{
	struct kv_nodekept *kept = node->kept;

	if (kv_ledger_sum(kept->ledger, o->slot, sum)) {
		kv_index_checked(node->index, o);
		return true;
	}
	kept->n_bad++;
	kv_stats_add(&node->stats, KV_STAT_ADOPTED_BAD, 1);
	kv_debug("an adopted value is damaged size=%llu",
		 (unsigned long long)o->size);
	kv_nodeadmin_drop(node, o);
	return false;
}

static void
value_back(struct kv_nodekept *kept, const struct value *v)
{
	struct kv_object *o;

	if (!kv_ledger_is_current(kept->ledger, &v->taken))
		return;
	o = object_of(kept, v->taken.slot);
	if (o && o->flags & KV_OBJ_UNCHECKED)
		kv_nodekept_judge(kept->node, o, v->sum);
	else
		kv_ledger_sum(kept->ledger, v->taken.slot, v->sum);
}

static void
job_back(struct kv_mail *mail)
{
	struct job *j = KV_CONTAINER_OF(mail, struct job, mail);
	struct kv_nodekept *kept = KV_CONTAINER_OF(j, struct kv_nodekept, job);
	unsigned i;

	j->is_out = false;
	if (kept->is_detached)
		return;
	for (i = 0; i < j->n; i++)
		value_back(kept, &j->values[i]);
	job_start(kept);
}

static void
sums_due(struct kv_timer *t)
{
	job_start(KV_CONTAINER_OF(t, struct kv_nodekept, due));
}

void
kv_nodekept_shown(struct kv_node *node)
{
	struct kv_nodekept *kept = node->kept;

	if (!kept || kept->is_detached || kept->job.is_out || kept->due.loop)
		return;
	if (kv_loop_timer_set(node->loop, &kept->due,
			      kv_loop_now(node->loop) + DELAY_NS) < 0)
		job_start(kept);
}

bool
kv_nodekept_is_idle(const struct kv_node *node)
{
	const struct kv_nodekept *kept = node->kept;

	return !kept || kept->is_detached ||
	       kv_ledger_unsummed(kept->ledger) == 0;
}

/* ---- space of earlier lives ---- */

static int
settle(struct kv_nodekept *kept)
{
	struct kv_node *node = kept->node;

	if (kv_quarantine_settle(&kept->quarantine))
		return kv_loop_timer_set(node->loop, &kept->settle,
					 kv_loop_now(node->loop) + SETTLE_NS);
	node->o.file->settled(node->o.file->arg);
	return 0;
}

static void
settle_due(struct kv_timer *t)
{
	struct kv_nodekept *kept =
		KV_CONTAINER_OF(t, struct kv_nodekept, settle);

	if (settle(kept) < 0)
		kv_warn("space of the pool stays held: out of memory");
	else if (!t->loop)
		kv_info("nothing is held for an earlier node's processes any "
			"more");
	kv_nodeput_pages(kept->node);
}

void
kv_nodekept_ready(struct kv_node *node, uint64_t end)
{
	kv_quarantine_ready(&node->kept->quarantine, end);
}

/* ---- records of puts ---- */

int
kv_nodekept_reserve(struct kv_node *node, struct kv_putkey *k, bool may_evict)
{
	struct kv_record r = {
		.hash = k->hash,
		.size = k->size,
		.id_random = k->put->random,
		.id_version = k->put->version,
		.key_len = k->key_len,
		.key = k->key,
		.n_ext = k->n_ext,
		.ext = kv_putkey_extents(k),
	};
	bool is_filled =
		k->put->mode == KV_MODE_SHM && !k->is_inline && k->size;
	size_t len;
	int rc;

	if (!node->kept)
		return 0;
	r.epoch = k->put->epoch;
	r.tenant = kv_tenants_name(kv_index_tenants(node->index),
				   k->put->tenant, &len);
	r.tenant_len = (uint8_t)len;
	if (k->put->flags & KV_PUT_SOFT_PIN)
		r.flags |= KV_RECORD_SOFT_PIN;
	if (k->put->flags & KV_PUT_HARD_PIN)
		r.flags |= KV_RECORD_HARD_PIN;
	do
		rc = kv_ledger_reserve(node->kept->ledger, &r, is_filled,
				       &k->slot);
	while (rc == -ENOSPC && may_evict && kv_index_evict(node->index));
	return rc;
}

void
kv_nodekept_release(struct kv_node *node, struct kv_putkey *k)
{
	if (k->slot && !node->kept->is_detached)
		kv_ledger_release(node->kept->ledger, k->slot);
	k->slot = 0;
}

/* ---- generations ---- */

int
kv_nodekept_generations(struct kv_node *node, struct kv_generations *t)
{
	struct kv_poolhead_tenant e;
	const void *file;
	unsigned i;
	int rc = 0;

	if (!node->kept)
		return 0;
	file = kv_ledger_file(node->kept->ledger);
	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX && rc >= 0; i++)
		if (kv_poolhead_tenant_get(file, i, &e) > 0)
			rc = kv_generation_learn(
				t, e.name, e.len,
				(struct kv_generation){ e.number, e.random });
	return rc < 0 ? rc : 0;
}

void
kv_nodekept_generation(struct kv_node *node, const char *name, size_t len,
		       struct kv_generation g, uint32_t epoch)
{
	struct kv_poolhead_tenant e = {
		.number = g.number,
		.random = g.random,
		.epoch = epoch,
		.len = (uint8_t)len,
	};

	if (!node->kept || node->kept->is_detached)
		return;
	memcpy(e.name, name, len);
	if (kv_poolhead_tenant_put(kv_ledger_file(node->kept->ledger), &e) < 0)
		kv_log_limited(&node->bad_log, kv_loop_now(node->loop),
			       KV_LOG_WARN,
			       "the pool file has no room for the generation "
			       "of another tenant");
}

/* ---- start and end ---- */

static int
thread_start(struct kv_nodekept *kept)
{
	struct kv_node *node = kept->node;
	int rc;

	kept->pool = node->o.pool;
	kept->sum = KV_FAULT_POINT() ? NULL : kv_sum_new();
	if (!kept->sum)
		return -ENOMEM;
	rc = kv_mbox_init(&kept->home, node->loop);
	if (rc < 0)
		return rc;
	kept->has_home = true;
	if (node->o.workers == 0)
		return 0;
	kept->thread =
		kv_worker_start("kvpool-sum", KV_WORKER_NO_CPU, NULL, NULL);
	return kept->thread ? 0 : -errno;
}

static void
say_adopted(const struct kv_nodekept *kept, const struct kv_adopt_report *r)
{
	struct kv_stats_set *stats = &kept->node->stats;
	uint64_t dropped =
		r->unsummed + r->missing + r->doubtful + r->removed + r->broken;

	kv_stats_add(stats, KV_STAT_ADOPTED, r->keys);
	kv_stats_add(stats, KV_STAT_ADOPTED_BYTES, r->bytes);
	kv_stats_add(stats, KV_STAT_ADOPTED_NOT, dropped);
	if (kept->node->o.file->is_void)
		return; /* whoever opened it has said why */
	kv_info("adopted keys=%llu bytes=%llu dropped=%llu unsummed=%llu "
		"missing=%llu damaged=%llu doubtful=%llu removed=%llu "
		"held=%llu life=%u",
		(unsigned long long)r->keys, (unsigned long long)r->bytes,
		(unsigned long long)dropped, (unsigned long long)r->unsummed,
		(unsigned long long)r->missing, (unsigned long long)r->broken,
		(unsigned long long)r->doubtful, (unsigned long long)r->removed,
		(unsigned long long)kept->quarantine.held_bytes,
		kv_ledger_head(kept->ledger)->life);
}

static int
adopt(struct kv_nodekept *kept)
{
	struct kv_node *node = kept->node;
	const struct kv_node_file *file = node->o.file;
	const struct kv_quarantine_opts qo = {
		.slab = node->slab,
		.index = node->index,
		.ledger = kept->ledger,
		.is_attached = file->is_attached,
		.arg = file->arg,
	};
	const struct kv_adopt_opts ao = {
		.ledger = kept->ledger,
		.index = node->index,
		.slab = node->slab,
		.quarantine = &kept->quarantine,
		.pool_bytes = node->pool_bytes,
		.now = kv_loop_now(node->loop),
		.is_void = file->is_void,
		.data_end = file->data_end,
		.arg = file->arg,
	};
	struct kv_adopt_report report;
	int rc;

	kv_quarantine_init(&kept->quarantine, &qo);
	rc = kv_adopt(&ao, &report);
	if (rc < 0)
		return rc;
	say_adopted(kept, &report);
	kept->n_adopted = report.keys;
	kept->is_checking = report.keys > 0;
	return settle(kept);
}

int
kv_nodekept_start(struct kv_node *node, char *err, size_t err_bytes)
{
	struct kv_nodekept *kept;
	int rc = -ENOMEM;

	if (!node->o.file)
		return 0;
	kept = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*kept));
	if (kept) {
		node->kept = kept;
		kept->node = node;
		kept->ledger = node->o.file->ledger;
		kept->settle.fn = settle_due;
		kept->due.fn = sums_due;
		rc = thread_start(kept);
	}
	if (rc == 0)
		rc = adopt(kept);
	if (rc < 0) {
		snprintf(err, err_bytes, "cannot take the pool over: %s",
			 strerror(-rc));
		return rc;
	}
	kv_nodekept_shown(node);
	return 0;
}

void
kv_nodekept_detach(struct kv_node *node)
{
	struct kv_nodekept *kept = node->kept;

	if (!kept)
		return;
	kept->is_detached = true;
	kv_index_detach(node->index);
	kv_loop_timer_del(&kept->settle);
	kv_loop_timer_del(&kept->due);
}

void
kv_nodekept_free(struct kv_node *node)
{
	struct kv_nodekept *kept = node->kept;

	if (!kept)
		return;
	__atomic_store_n(&kept->must_end, true, __ATOMIC_RELAXED);
	if (kept->thread) {
		kv_worker_stop(kept->thread);
		kv_worker_join(kept->thread);
	}
	if (kept->has_home)
		kv_mbox_fini(&kept->home);
	kv_sum_free(kept->sum);
	kv_quarantine_fini(&kept->quarantine);
	free(kept);
	node->kept = NULL;
}

struct kv_id
kv_nodekept_pool(const struct kv_node *node)
{
	if (!node->kept)
		return (struct kv_id){ 0 };
	return kv_ledger_head(node->kept->ledger)->pool;
}

uint64_t
kv_nodekept_unsummed(const struct kv_node *node)
{
	return node->kept ? kv_ledger_unsummed(node->kept->ledger) : 0;
}

uint64_t
kv_nodekept_held_bytes(const struct kv_node *node)
{
	return node->kept ? node->kept->quarantine.held_bytes : 0;
}
