#include "svc/master.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "svc/ident.h"
#include "svc/mastercore.h"
#include "svc/relay.h"

#define TTL_NS   (10 * KV_NS_PER_S)
#define GRACE_NS (5 * KV_NS_PER_S)
#define DRAIN_NS (2 * KV_NS_PER_S + 500 * KV_NS_PER_MS)
#define LATE_NS  (1 * KV_NS_PER_S)

/*
 * The tick says when this process should have run. Whoever asks first after a
 * stop finds it overdue, before anybody is held to a deadline.
 */
uint64_t
kv_master_now(struct kv_master *m)
{
	uint64_t now = kv_loop_now(m->loop);
	uint64_t late;

	if (now > m->tick_due + LATE_NS) {
		late = now - m->tick_due;
		m->tick_due = now;
		m->stopped_ns += late;
		kv_master_count(m, KV_MASTERSTAT_STOPPED_MS,
				late / KV_NS_PER_MS);
		kv_log_limited(&m->stop_log, now, KV_LOG_WARN,
			       "this master was stopped for %.0f s: no node "
			       "is held to that time",
			       (double)late / (double)KV_NS_PER_S);
	}
	return now - m->stopped_ns;
}

static void
ticked(struct kv_timer *t)
{
	struct kv_master *m = KV_CONTAINER_OF(t, struct kv_master, tick);

	(void)kv_master_now(m);
	kv_member_tick(m);
	kv_missed_tick(m);
	(void)kv_peermasters_flags(m);
	kv_verdict_tick(m);
	kv_locate_tick(m);
	m->tick_due = kv_loop_now(m->loop) + KV_MASTER_TICK_NS;
	/* It had its place in the heap until now. */
	(void)kv_loop_timer_set(m->loop, t, m->tick_due);
}

/* ---- the master ---- */

static int
master_listen(struct kv_master *m, const char *const *addrs, char *err,
	      size_t err_bytes)
{
	unsigned i;
	int rc;

	for (i = 0; i < KV_MASTER_LISTEN_MAX && addrs[i]; i++) {
		m->listeners[i] = m->net->listen(m->net, m->loop, addrs[i],
						 kv_masterpeer_accepted, m,
						 m->bound[i], &rc);
		if (!m->listeners[i]) {
			snprintf(err, err_bytes, "cannot listen on %s: %s",
				 addrs[i], strerror(-rc));
			return rc;
		}
	}
	return 0;
}

static void
master_unlisten(struct kv_master *m)
{
	unsigned i;

	for (i = 0; i < KV_MASTER_LISTEN_MAX; i++)
		if (m->listeners[i])
			m->net->unlisten(m->net, m->listeners[i]);
	memset(m->listeners, 0, sizeof(m->listeners));
}

static int
master_ident(struct kv_master *m)
{
	uint64_t seed = m->o.seed;
	int rc = 0;

	if (!kv_loop_is_virtual(m->loop))
		rc = kv_rng_os(&seed, sizeof(seed));
	if (rc < 0)
		return rc;
	kv_rng_seed(&m->rng, seed);
	m->boot = m->o.boot;
	if (!kv_id_is_zero(m->boot))
		return 0;
	if (!kv_loop_is_virtual(m->loop))
		return kv_ident_random(&m->boot);
	kv_rng_bytes(&m->rng, &m->boot, sizeof(m->boot));
	return 0;
}

static void
master_init(struct kv_master *m, const struct kv_master_opts *opts)
{
	m->o = *opts;
	memset(m->o.listen, 0, sizeof(m->o.listen)); /* the caller's strings */
	m->o.ttl_ns = opts->ttl_ns ? opts->ttl_ns : TTL_NS;
	m->o.grace_ns = opts->grace_ns ? opts->grace_ns : GRACE_NS;
	m->o.slots = opts->slots ? opts->slots : KV_NODES_MAX;
	m->o.conns_max =
		opts->conns_max ? opts->conns_max : KV_MASTER_CONNS_MAX;
	assert(m->o.slots <= KV_NODES_MAX);
	m->loop = opts->loop;
	m->net = opts->net;
	kv_list_init(&m->peers);
	kv_list_init(&m->resting);
	kv_list_init(&m->jobs);
	kv_list_init(&m->relays);
	kv_htab_init(&m->opens);
	kv_missed_init(m);
	m->rest.fn = kv_masterpeer_rested;
	m->work.fn = kv_intake_work;
	m->flush.fn = kv_verdict_flush;
	m->tick.fn = ticked;
	m->tick_due = kv_loop_now(m->loop) + KV_MASTER_TICK_NS;
	m->started = kv_loop_now(m->loop);
}

struct kv_master *
kv_master_new(const struct kv_master_opts *opts, char *err, size_t err_bytes)
{
	struct kv_master *m = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*m));
	int rc = -ENOMEM;

	if (m) {
		master_init(m, opts);
		m->dir = kv_dir_new(m->o.slots);
	}
	if (m && m->dir)
		rc = kv_locate_init(m);
	if (rc == 0)
		rc = master_ident(m);
	if (rc == 0)
		rc = kv_loop_timer_set(m->loop, &m->tick, m->tick_due);
	if (rc < 0)
		snprintf(err, err_bytes, "cannot start: %s", strerror(-rc));
	else
		rc = master_listen(m, opts->listen, err, err_bytes);
	if (rc == 0)
		return m;
	kv_master_free(m);
	errno = -rc;
	return NULL;
}

void
kv_master_free(struct kv_master *m)
{
	struct kv_masterpeer *p;
	struct kv_member *mb;
	unsigned at;

	if (!m)
		return;
	m->phase = KV_MASTER_STOPPED;
	master_unlisten(m);
	while ((p = KV_LIST_FIRST(&m->peers, struct kv_masterpeer, link)))
		kv_masterpeer_drop(p);
	for (at = 0; (mb = kv_member_next(m, &at));)
		kv_member_close(mb, "the master ends");
	kv_relay_fini(m);
	kv_missed_fini(m);
	kv_verdict_fini(m);
	kv_locate_fini(m);
	kv_peermasters_fini(m);
	kv_dir_free(m->dir);
	kv_bytes_fini(&m->scratch);
	kv_loop_timer_del(&m->tick);
	kv_loop_timer_del(&m->drain);
	kv_loop_defer_del(&m->rest);
	kv_loop_defer_del(&m->work);
	kv_loop_defer_del(&m->flush);
	kv_loop_defer_del(&m->sweep);
	kv_loop_defer_del(&m->stop);
	free(m);
}

/* Nodes first: what is asked of them then ends, and the answers leave. */
static void
stop_now(struct kv_defer *d)
{
	struct kv_master *m = KV_CONTAINER_OF(d, struct kv_master, stop);
	struct kv_masterpeer *p, *tmp;

	kv_loop_timer_del(&m->drain);
	m->phase = KV_MASTER_STOPPED;
	KV_LIST_FOREACH_SAFE(p, tmp, &m->peers, link)
		if (p->from == KV_MASTERPEER_NODE)
			kv_masterpeer_drop(p);
	if (m->n_relays > 0) {
		kv_loop_defer(m->loop, d);
		return;
	}
	while ((p = KV_LIST_FIRST(&m->peers, struct kv_masterpeer, link))) {
		kv_conn_flush(p->conn);
		kv_masterpeer_drop(p);
	}
	m->done(m->done_arg);
}

static void
drain_late(struct kv_timer *t)
{
	struct kv_master *m = KV_CONTAINER_OF(t, struct kv_master, drain);

	kv_loop_defer(m->loop, &m->stop);
}

void
kv_master_drained(struct kv_master *m)
{
	if (m->phase == KV_MASTER_DRAINING && m->n_relays == 0)
		kv_loop_defer(m->loop, &m->stop);
}

void
kv_master_stop(struct kv_master *m, kv_master_done_fn *done, void *arg)
{
	if (m->phase == KV_MASTER_STOPPED)
		return;
	m->done = done;
	m->done_arg = arg;
	m->stop.fn = stop_now;
	m->drain.fn = drain_late;
	if (m->phase == KV_MASTER_DRAINING ||
	    kv_loop_timer_set(m->loop, &m->drain,
			      kv_loop_now(m->loop) + DRAIN_NS) < 0)
		kv_loop_defer(m->loop, &m->stop);
	m->phase = KV_MASTER_DRAINING;
	master_unlisten(m);
	kv_master_drained(m);
}

const struct kv_id *
kv_master_boot(const struct kv_master *m)
{
	return &m->boot;
}

const char *
kv_master_bound(const struct kv_master *m, unsigned i)
{
	return m->bound[i];
}

unsigned
kv_master_nodes(const struct kv_master *m)
{
	return m->n_members;
}

int
kv_master_records(struct kv_master *m, struct kv_bytes *out, unsigned *count)
{
	return kv_member_records(m, NULL, out, count);
}

bool
kv_master_is_complete(struct kv_master *m)
{
	return !kv_member_is_incomplete(m);
}

bool
kv_master_lists(const struct kv_master *m, struct kv_id node,
		struct kv_hash key)
{
	struct kv_dir_view view;
	struct kv_id boot;
	unsigned i;

	if (!kv_dir_find(m->dir, key, &view))
		return true;
	for (i = 0; i < view.n; i++) {
		boot = m->members[view.slots[i]]->boot;
		if (memcmp(boot.b, node.b, sizeof(node.b)) < 0)
			return false;
	}
	return true;
}
