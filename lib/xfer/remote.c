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
#include "xfer/regtable.h"
#include "xfer/tcp.h"

enum {
	IDLE_MAX = 4 /* sets of data connections kept for a peer */
};

struct kv_remote {
	struct kv_list link;
	struct kv_remote_set *set;
	unsigned users; /* under the set's lock */
	pthread_mutex_t lock;
	pthread_cond_t opened;      /* the gate */
	bool busy;                  /* somebody is inside it */
	struct kv_contact *contact; /* written inside the gate only */
	struct kv_tcp *idle[IDLE_MAX];
	int n_idle; /* of the contact */
	struct kv_log_limit limit;
	char addr[];
};

static const struct kv_clock real_clock = { 0 };

void
kv_remote_init(struct kv_remote_set *set, const struct kv_id *own,
	       bool no_attach)
{
	*set = (struct kv_remote_set){ .own = *own, .no_attach = no_attach };
	pthread_mutex_init(&set->lock, NULL);
	kv_list_init(&set->remotes);
}

/* ---- by address ---- */

static void
drop_idle(struct kv_remote *r)
{
	while (r->n_idle > 0)
		kv_tcp_free(r->idle[--r->n_idle]);
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
	char text[KV_CONTACT_WHY_BYTES + 64];

	kv_remote_describe(r, c, text, sizeof(text));
	kv_log_limited(&r->limit, kv_clock_now(&real_clock), KV_LOG_INFO,
		       "engine: reached a peer peer=%s path=\"%s\"", r->addr,
		       text);
}

/* Inside the gate. */
static int
connect_to(struct kv_remote *r, const struct kv_wait *wait,
	   struct kv_contact **out)
{
	struct kv_contact_opts opts = {
		.addr = r->addr,
		.own = &r->set->own,
		.no_attach = r->set->no_attach,
	};
	struct kv_contact *c;
	int rc = kv_contact_open(&opts, wait, &c);

	if (rc)
		return rc;
	KV_LOCKED(&r->lock)
		r->contact = kv_contact_ref(c);
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
	       const struct kv_wait *wait, const struct kv_remote_note *note)
{
	int rc = gate_enter(r, wait);

	if (rc)
		return rc;
	rc = kv_contact_note(c, wait, note->name, note->text, note->text_len);
	gate_leave(r);
	return rc;
}

/* ---- paths ---- */

void
kv_remote_demote(struct kv_remote *r, struct kv_contact *c, int err)
{
	int path = KV_SLICE_ATTACH;

	if (!atomic_compare_exchange_strong(&c->path, &path, KV_SLICE_TCP))
		return;
	KV_LOCKED(&r->lock)
		snprintf(c->why, sizeof(c->why),
			 "cross-memory attach worked, but not any more: %s",
			 strerrordesc_np(-err));
	kv_warn("engine: on over TCP: cross-memory attach failed: %s peer=%s",
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

void
kv_remote_describe(struct kv_remote *r, struct kv_contact *c, char *buf,
		   size_t n)
{
	static const char *const names[] = {
		[KV_SLICE_SELF] = "self",
		[KV_SLICE_ATTACH] = "attach",
		[KV_SLICE_TCP] = "tcp",
	};
	const char *name = names[atomic_load(&c->path)];

	KV_LOCKED(&r->lock) {
		if (has_maps(c->table) && c->path != KV_SLICE_SELF)
			snprintf(buf, n,
				 "shm: what its engine allocated is mapped; "
				 "other memory: %s: %s",
				 name, c->why);
		else
			snprintf(buf, n, "%s: %s", name, c->why);
	}
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
