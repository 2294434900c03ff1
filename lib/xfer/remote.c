#include "xfer/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/addr.h"
#include "xfer/railset.h"
#include "xfer/regtable.h"
#include "xfer/tcp.h"

enum {
	IDLE_MAX = 4 /* sets of data connections kept for a peer, of each kind
		      */
};

/* Where there was no rail none is looked for so long. */
#define REST_NS (5 * KV_NS_PER_S)

struct kv_remote {
	struct kv_list link;
	struct kv_remote_set *set;
	unsigned users; /* under the set's lock */
	pthread_mutex_t lock;
	pthread_cond_t opened;         /* the gate */
	bool busy;                     /* somebody is inside it */
	struct kv_contact *contact;    /* written inside the gate only */
	struct kv_tcp *idle[IDLE_MAX]; /* of the contact */
	struct kv_railset *idle_rails[IDLE_MAX];
	int n_idle, n_rails;
	struct kv_log_limit limit;
	char addr[];
};

static const struct kv_clock real_clock = { 0 };

void
kv_remote_init(struct kv_remote_set *set, const struct kv_contact_opts *opts)
{
	*set = (struct kv_remote_set){ .own = *opts->own, .opts = *opts };
	set->opts.own = &set->own;
	pthread_mutex_init(&set->lock, NULL);
	kv_list_init(&set->remotes);
}

/* ---- by address ---- */

static void
drop_idle(struct kv_remote *r)
{
	while (r->n_idle > 0)
		kv_tcp_free(r->idle[--r->n_idle]);
	while (r->n_rails > 0)
		kv_railset_free(r->idle_rails[--r->n_rails]);
}

static void
remote_free(struct kv_remote *r)
{
	assert(r->users == 0);
	kv_list_del(&r->link);
	r->set->n--;
	drop_idle(r);
	kv_contact_unref(r->contact);
	pthread_cond_destroy(&r->opened);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

void
kv_remote_fini(struct kv_remote_set *set)
{
	struct kv_remote *r, *tmp;

	KV_LIST_FOREACH_SAFE(r, tmp, &set->remotes, link)
		remote_free(r);
	pthread_mutex_destroy(&set->lock);
}

static struct kv_remote *
find(struct kv_remote_set *set, const char *addr)
{
	struct kv_remote *r;

	KV_LIST_FOREACH(r, &set->remotes, link)
		if (!strcmp(r->addr, addr))
			return r;
	return NULL;
}

/* Forgets the one that was not used for longest, when there are too many. */
static int
make_room(struct kv_remote_set *set)
{
	struct kv_remote *r;

	if (set->n < KV_ENGINE_PEERS_MAX)
		return 0;
	KV_LIST_FOREACH(r, &set->remotes, link)
		if (r->users == 0) {
			remote_free(r);
			return 0;
		}
	return -EBUSY;
}

static bool
is_address(const char *addr)
{
	char why[KV_ADDR_ERROR_BYTES];
	struct kv_addr a;

	return kv_addr_parse(addr, 0, &a, why, sizeof(why)) == 0 &&
	       a.kind == KV_ADDR_TCP && a.port != 0;
}

static struct kv_remote *
remote_new(struct kv_remote_set *set, const char *addr)
{
	size_t len = strlen(addr) + 1;
	pthread_condattr_t attr;
	struct kv_remote *r;

	if (!is_address(addr)) {
		errno = EINVAL;
		return NULL;
	}
	errno = -make_room(set);
	if (errno)
		return NULL;
	errno = ENOMEM;
	r = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*r) + len);
	if (!r)
		return NULL;
	memcpy(r->addr, addr, len);
	r->set = set;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->opened, &attr);
	pthread_condattr_destroy(&attr);
	kv_list_init(&r->link);
	set->n++;
	return r;
}

struct kv_remote *
kv_remote_use(struct kv_remote_set *set, const char *addr)
{
	struct kv_remote *r = NULL;

	if (!addr) {
		errno = EINVAL;
		return NULL;
	}
	KV_LOCKED(&set->lock) {
		r = find(set, addr);
		if (!r)
			r = remote_new(set, addr);
		if (r) {
			r->users++;
			kv_list_del(&r->link);
			kv_list_add_tail(&set->remotes, &r->link);
		}
	}
	return r;
}

void
kv_remote_unuse(struct kv_remote *r)
{
	KV_LOCKED(&r->set->lock)
		r->users--;
}

/* ---- the gate ---- */

static int
gate_enter(struct kv_remote *r, const struct kv_wait *wait)
{
	int rc = 0;

	KV_LOCKED(&r->lock) {
		while (r->busy && (rc = kv_wait_check(wait)) == 0) {
			uint64_t until = kv_min_u64(wait->deadline_ns,
						    kv_clock_now(&real_clock) +
							    KV_WAIT_LOOK_NS);
			struct timespec ts = {
				.tv_sec = (time_t)(until / KV_NS_PER_S),
				.tv_nsec = (long)(until % KV_NS_PER_S),
			};

			pthread_cond_timedwait(&r->opened, &r->lock, &ts);
		}
		if (!r->busy) {
			r->busy = true;
			rc = 0;
		}
	}
	return rc;
}

static void
gate_leave(struct kv_remote *r)
{
	KV_LOCKED(&r->lock) {
		r->busy = false;
		pthread_cond_signal(&r->opened);
	}
}

/* ---- contacts ---- */

static struct kv_contact *
current(struct kv_remote *r)
{
	struct kv_contact *c = NULL;

	KV_LOCKED(&r->lock)
		if (r->contact)
			c = kv_contact_ref(r->contact);
	return c;
}

static void
tell_path(struct kv_remote *r, struct kv_contact *c)
{
	char text[2 * KV_CONTACT_WHY_BYTES + 64];

	kv_remote_describe(r, c, text, sizeof(text));
	KV_LOCKED(&r->lock)
		kv_log_limited(&r->limit, kv_clock_now(&real_clock),
			       KV_LOG_INFO,
			       "engine: reached a peer peer=%s path=\"%s\"",
			       r->addr, text);
}

/* Inside the gate. */
static int
connect_to(struct kv_remote *r, const struct kv_wait *wait,
	   struct kv_contact **out)
{
	struct kv_contact_opts opts = r->set->opts;
	struct kv_contact *c;
	int rc;

	opts.addr = r->addr;
	rc = kv_contact_open(&opts, wait, &c);
	if (rc)
		return rc;
	KV_LOCKED(&r->lock)
		r->contact = kv_contact_ref(c);
	/* Of RDMA when it is tried. */
	if (atomic_load(&c->path) != KV_SLICE_RDMA)
		tell_path(r, c);
	*out = c;
	return 0;
}

int
kv_remote_contact(struct kv_remote *r, const struct kv_wait *wait,
		  struct kv_contact **out)
{
	int rc;

	*out = current(r);
	if (*out)
		return 0;
	rc = gate_enter(r, wait);
	if (rc)
		return rc;
	*out = current(r);
	if (!*out)
		rc = connect_to(r, wait, out);
	gate_leave(r);
	return rc;
}

void
kv_remote_drop(struct kv_remote *r, struct kv_contact *c)
{
	bool dropped = false;

	KV_LOCKED(&r->lock)
		if (r->contact == c) {
			r->contact = NULL;
			drop_idle(r);
			dropped = true;
		}
	if (dropped)
		kv_contact_unref(c);
}

struct kv_regtable *
kv_remote_table(struct kv_remote *r, struct kv_contact *c)
{
	struct kv_regtable *table = NULL;

	KV_LOCKED(&r->lock)
		table = kv_regtable_ref(c->table);
	return table;
}

/* Inside the gate. */
static int
refresh(struct kv_remote *r, struct kv_contact *c,
	const struct kv_regtable *old, const struct kv_wait *wait)
{
	struct kv_regtable *table = NULL;
	int rc;

	/* Who waited at the gate has what another one asked for. */
	if (c->table != old)
		return 0;
	rc = kv_contact_regions(c, old, wait, &table);
	if (rc)
		return rc;
	KV_LOCKED(&r->lock) {
		kv_regtable_unref(c->table);
		c->table = table;
	}
	return 0;
}

int
kv_remote_refresh(struct kv_remote *r, struct kv_contact *c,
		  const struct kv_regtable *old, const struct kv_wait *wait)
{
	int rc = gate_enter(r, wait);

	if (rc)
		return rc;
	rc = refresh(r, c, old, wait);
	gate_leave(r);
	return rc;
}

int
kv_remote_ping(struct kv_remote *r, struct kv_contact *c,
	       const struct kv_wait *wait)
{
	int rc = gate_enter(r, wait);

	if (rc)
		return rc;
	rc = kv_contact_ping(c, wait);
	gate_leave(r);
	return rc;
}

int
kv_remote_note(struct kv_remote *r, struct kv_contact *c,
	       const struct kv_wait *wait, const struct kv_railnote_text *note)
{
	int rc = gate_enter(r, wait);

	if (rc)
		return rc;
	rc = kv_contact_note(c, wait, note);
	gate_leave(r);
	return rc;
}

/* ---- paths ---- */

void
kv_remote_demote(struct kv_remote *r, struct kv_contact *c, int err)
{
	int path = KV_SLICE_ATTACH;

	if (!atomic_compare_exchange_strong(&c->path, &path, c->second))
		return;
	KV_LOCKED(&r->lock)
		snprintf(c->why, sizeof(c->why),
			 "cross-memory attach worked, but not any more: %s",
			 strerrordesc_np(-err));
	kv_warn("engine: on over %s: cross-memory attach failed: %s peer=%s",
		c->second == KV_SLICE_RDMA ? "RDMA" : "TCP",
		strerrordesc_np(-err), r->addr);
}

static bool
has_maps(const struct kv_regtable *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->entries[i].map)
			return true;
	return false;
}

/* Under the lock. */
static void
describe(const struct kv_contact *c, const char *begin, char *buf, size_t n)
{
	int path = atomic_load(&c->path);
	unsigned rails = path == KV_SLICE_RDMA ? atomic_load(&c->rails) : 0;

	if (path == KV_SLICE_SELF)
		snprintf(buf, n, "self: %s", c->why);
	else if (path == KV_SLICE_ATTACH)
		snprintf(buf, n, "%sattach: %s", begin, c->why);
	else if (rails > 0)
		snprintf(buf, n, "%srdma: %u rail%s%s", begin, rails,
			 rails == 1 ? "" : "s",
			 atomic_load(&c->notes) ? ", messages too" : "");
	else
		snprintf(buf, n, "%stcp: %s%s%s", begin, c->why,
			 c->rails_why[0] ? "; no RDMA: " : "", c->rails_why);
}

void
kv_remote_describe(struct kv_remote *r, struct kv_contact *c, char *buf,
		   size_t n)
{
	KV_LOCKED(&r->lock)
		describe(c,
			 has_maps(c->table) ? "shm: what its engine allocated "
					      "is mapped; other memory: "
					    : "",
			 buf, n);
}

struct kv_tcp *
kv_remote_take_tcp(struct kv_remote *r, struct kv_contact *c)
{
	struct kv_tcp_opts opts = {
		.addr = r->addr,
		.own = &c->own,
		.boot = &c->boot,
	};
	struct kv_tcp *t = NULL;

	KV_LOCKED(&r->lock)
		if (r->contact == c && r->n_idle > 0)
			t = r->idle[--r->n_idle];
	return t ? t : kv_tcp_new(&opts);
}

void
kv_remote_give_tcp(struct kv_remote *r, struct kv_contact *c, struct kv_tcp *t)
{
	KV_LOCKED(&r->lock)
		if (r->contact == c && r->n_idle < IDLE_MAX)
			r->idle[r->n_idle++] = kv_steal_ptr(&t);
	kv_tcp_free(t);
}

/* ---- rails ---- */

/* After a failure one thread at a time tries again. */
static bool
may_try(struct kv_contact *c)
{
	uint64_t from = atomic_load(&c->rails_from_ns);
	uint64_t now;

	if (from == 0)
		return true;
	now = kv_clock_now(&real_clock);
	return now >= from && atomic_compare_exchange_strong(
				      &c->rails_from_ns, &from, now + REST_NS);
}

void
kv_remote_rest_rails(struct kv_remote *r, struct kv_contact *c, const char *why)
{
	bool first = atomic_load(&c->rails_from_ns) == 0;

	atomic_store(&c->rails_from_ns, kv_clock_now(&real_clock) + REST_NS);
	atomic_store(&c->rails, 0);
	KV_LOCKED(&r->lock)
		snprintf(c->rails_why, sizeof(c->rails_why), "%s", why);
	if (first)
		kv_warn("engine: by TCP, not by RDMA: %s peer=%s", why,
			r->addr);
}

static void
have_rails(struct kv_remote *r, struct kv_contact *c, unsigned rails)
{
	atomic_store(&c->rails_from_ns, 0);
	if (atomic_exchange(&c->rails, rails) == 0)
		tell_path(r, c);
}

static struct kv_railset *
pop_rails(struct kv_remote *r, struct kv_contact *c)
{
	struct kv_railset *s = NULL;

	KV_LOCKED(&r->lock)
		if (r->contact == c && r->n_rails > 0)
			s = r->idle_rails[--r->n_rails];
	return s;
}

static uint16_t
port_of(const char *addr)
{
	const char *colon = strrchr(addr, ':');

	return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

static int
open_rails(struct kv_remote *r, struct kv_contact *c,
	   const struct kv_wait *wait, struct kv_railset **out)
{
	struct kv_railset_opts opts = {
		.rdma = r->set->opts.rdma,
		.port = port_of(r->addr),
		.own = &c->own,
		.boot = &c->boot,
	};
	struct kv_railset *s = kv_railset_new(&opts);
	int rc;

	if (!s) {
		kv_remote_rest_rails(r, c, strerrordesc_np(errno));
		return 1;
	}
	kv_railset_dial(s, r->addr, wait->deadline_ns);
	rc = kv_railset_settle(s, wait);
	if (rc == 1)
		kv_remote_rest_rails(r, c, kv_railset_why(s));
	if (rc)
		kv_railset_free(s);
	else
		*out = s;
	return rc;
}

int
kv_remote_take_rails(struct kv_remote *r, struct kv_contact *c,
		     const struct kv_wait *wait, struct kv_railset **out)
{
	struct kv_railset *s;
	int rc = 1;

	if (!may_try(c))
		return 1;
	/* Some may have been lost while nobody looked. */
	while (rc && (s = pop_rails(r, c))) {
		rc = kv_railset_settle(s, wait);
		if (rc)
			kv_railset_free(s);
		else
			*out = s;
	}
	if (rc)
		rc = open_rails(r, c, wait, out);
	if (rc == 0)
		have_rails(r, c, kv_railset_rails(*out));
	return rc;
}

void
kv_remote_give_rails(struct kv_remote *r, struct kv_contact *c,
		     struct kv_railset *s)
{
	KV_LOCKED(&r->lock)
		if (r->contact == c && r->n_rails < IDLE_MAX)
			r->idle_rails[r->n_rails++] = kv_steal_ptr(&s);
	kv_railset_free(s);
}

int
kv_remote_try_rails(struct kv_remote *r, struct kv_contact *c,
		    const struct kv_wait *wait)
{
	struct kv_railset *s;
	int rc;

	if (atomic_load(&c->path) != KV_SLICE_RDMA)
		return 0;
	rc = kv_remote_take_rails(r, c, wait, &s);
	if (rc == 0)
		kv_remote_give_rails(r, c, s);
	return rc < 0 ? rc : 0;
}
