#include "svc/pending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"

void
kv_pending_init(struct kv_pending *p)
{
	memset(p, 0, sizeof(*p));
	kv_list_init(&p->stores);
}

static size_t
removal_bytes(const struct kv_pending_removal *r)
{
	return sizeof(*r) + r->tail_len;
}

static void
removal_free(struct kv_pending *p, struct kv_pending_store *s,
	     struct kv_pending_removal *r)
{
	s->bytes -= removal_bytes(r);
	p->bytes -= removal_bytes(r);
	p->n_removals--;
	kv_list_del(&r->link);
	free(r);
}

static void
store_free(struct kv_pending *p, struct kv_pending_store *s)
{
	struct kv_pending_removal *r;

	while ((r = kv_pending_next(s)))
		removal_free(p, s, r);
	p->n_away -= s->is_away;
	p->n_stores--;
	kv_list_del(&s->link);
	free(s);
}

void
kv_pending_fini(struct kv_pending *p)
{
	struct kv_pending_store *s;

	while ((s = KV_LIST_FIRST(&p->stores, struct kv_pending_store, link)))
		store_free(p, s);
}

struct kv_pending_store *
kv_pending_find(struct kv_pending *p, struct kv_id id)
{
	struct kv_pending_store *s;

	KV_LIST_FOREACH(s, &p->stores, link)
		if (kv_id_is_equal(s->id, id))
			return s;
	return NULL;
}

static struct kv_pending_store *
store_get(struct kv_pending *p, struct kv_id id, struct kv_id boot)
{
	struct kv_pending_store *s = kv_pending_find(p, id);

	if (!s) {
		s = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		s->id = id;
		kv_list_init(&s->removals);
		kv_list_add_tail(&p->stores, &s->link);
		p->n_stores++;
	}
	s->boot = boot;
	return s;
}

/* It went before the others: the least likely to come back. */
static void
store_lose(struct kv_pending *p, const struct kv_pending_store *except)
{
	struct kv_list *at = p->stores.next;

	if (except && at == &except->link)
		at = at->next;
	store_free(p, KV_CONTAINER_OF(at, struct kv_pending_store, link));
	p->n_lost++;
}

/* As many as there may be, and this one. */
static void
stores_bound(struct kv_pending *p, const struct kv_pending_store *s)
{
	if (p->n_stores > KV_PENDING_STORES_MAX)
		store_lose(p, s);
}

int
kv_pending_away(struct kv_pending *p, struct kv_id id, struct kv_id boot,
		uint64_t until)
{
	struct kv_pending_store *s = store_get(p, id, boot);

	if (!s)
		return -ENOMEM;
	kv_list_del(&s->link);
	kv_list_add_tail(&p->stores, &s->link);
	p->n_away += !s->is_away;
	s->is_away = true;
	s->until = until;
	stores_bound(p, s);
	return 0;
}

/* Nothing is to be remembered of it. */
static void
store_rest(struct kv_pending *p, struct kv_pending_store *s)
{
	if (!s->is_away && kv_list_is_empty(&s->removals))
		store_free(p, s);
}

void
kv_pending_back(struct kv_pending *p, struct kv_id id)
{
	struct kv_pending_store *s = kv_pending_find(p, id);

	if (!s)
		return;
	p->n_away -= s->is_away;
	s->is_away = false;
	store_rest(p, s);
}

void
kv_pending_forget(struct kv_pending *p, struct kv_id id)
{
	struct kv_pending_store *s = kv_pending_find(p, id);

	if (s)
		store_free(p, s);
}

void
kv_pending_expire(struct kv_pending *p, uint64_t now)
{
	struct kv_pending_store *s, *tmp;

	KV_LIST_FOREACH_SAFE(s, tmp, &p->stores, link)
		if (s->is_away && now >= s->until)
			store_free(p, s);
}

/* ---- removals ---- */

static bool
is_all(const struct kv_pending_removal *r)
{
	return r->body.op == KV_REMOVE_ALL && (r->body.flags & KV_REMOVE_FORCE);
}

static bool
is_of(const struct kv_pending_removal *r, const void *tenant, size_t len)
{
	return r->body.tenant_len == len && memcmp(r->tail, tenant, len) == 0;
}

/* Everything of the tenant goes anyway. But one with a generation is nothing to
 * a node that has heard of that elsewhere: what follows it is kept. */
static bool
is_covered(const struct kv_pending_store *s, const void *tenant, size_t len)
{
	struct kv_pending_removal *r;

	KV_LIST_FOREACH(r, &s->removals, link)
		if (is_all(r) && is_of(r, tenant, len) &&
		    kv_get64(r->body.generation.number) == 0)
			return true;
	return false;
}

static int
removal_add(struct kv_pending *p, struct kv_pending_store *s,
	    const struct kv_remove *body, const void *tail, size_t tail_len)
{
	struct kv_pending_removal *r;

	if (is_covered(s, tail, body->tenant_len))
		return 0;
	r = KV_FAULT_POINT() ? NULL : malloc(sizeof(*r) + tail_len);
	if (!r)
		return -ENOMEM;
	r->body = *body;
	r->tail_len = tail_len;
	if (tail_len)
		memcpy(r->tail, tail, tail_len);
	kv_list_add_tail(&s->removals, &r->link);
	s->bytes += removal_bytes(r);
	p->bytes += removal_bytes(r);
	p->n_removals++;
	return 0;
}

/* This one says all that others of its tenant before it do. */
static void
cover(struct kv_pending *p, struct kv_pending_store *s,
      const struct kv_pending_removal *all)
{
	struct kv_pending_removal *r, *tmp;

	KV_LIST_FOREACH_SAFE(r, tmp, &s->removals, link)
		if (r != all && is_of(r, all->tail, all->body.tenant_len))
			removal_free(p, s, r);
}

/* Becomes the removal of all of its tenant; where that lies. Without memory it
 * keeps the room that it has. */
static struct kv_pending_removal *
widen(struct kv_pending *p, struct kv_pending_store *s,
      struct kv_pending_removal *r)
{
	struct kv_pending_removal *w;

	r->body.op = KV_REMOVE_ALL;
	r->body.flags |= KV_REMOVE_FORCE;
	r->body.count = kv_le32(0);
	/* Else it is nothing to a node that has heard of that one. */
	r->body.generation = (struct kv_generation_le){ 0 };
	w = KV_FAULT_POINT() ? NULL : malloc(sizeof(*w) + r->body.tenant_len);
	if (!w)
		return r;
	w->body = r->body;
	w->tail_len = r->body.tenant_len;
	memcpy(w->tail, r->tail, w->tail_len);
	kv_list_add_head(&r->link, &w->link);
	s->bytes += removal_bytes(w);
	p->bytes += removal_bytes(w);
	p->n_removals++;
	removal_free(p, s, r);
	return w;
}

static void
store_widen(struct kv_pending *p, struct kv_pending_store *s)
{
	struct kv_pending_removal *r;
	struct kv_list *at;

	for (at = s->removals.next; at != &s->removals; at = at->next) {
		r = KV_CONTAINER_OF(at, struct kv_pending_removal, link);
		r = widen(p, s, r);
		cover(p, s, r);
		at = &r->link;
	}
	p->n_widened++;
}

/* May something be cut away of it? */
static bool
is_wide(const struct kv_pending_store *s)
{
	struct kv_pending_removal *r;

	KV_LIST_FOREACH(r, &s->removals, link)
		if (!is_all(r))
			return false;
	return true;
}

/* False: it is too much all the same. */
static bool
widen_most(struct kv_pending *p)
{
	struct kv_pending_store *s, *most;

	while (p->bytes > KV_PENDING_BYTES_MAX) {
		most = NULL;
		KV_LIST_FOREACH(s, &p->stores, link)
			if (!is_wide(s) && (!most || s->bytes > most->bytes))
				most = s;
		if (!most)
			return false;
		store_widen(p, most);
	}
	return true;
}

static void
bytes_bound(struct kv_pending *p, const struct kv_pending_store *except)
{
	while (!widen_most(p) && p->n_stores > 1)
		store_lose(p, except);
}

static int
store_add(struct kv_pending *p, struct kv_pending_store *s,
	  const struct kv_remove *body, const void *tail, size_t tail_len)
{
	int rc = removal_add(p, s, body, tail, tail_len);
	struct kv_pending_removal *last;

	if (rc < 0)
		return rc;
	last = KV_CONTAINER_OF(s->removals.prev, struct kv_pending_removal,
			       link);
	if (is_all(last))
		cover(p, s, last);
	return 0;
}

int
kv_pending_add(struct kv_pending *p, struct kv_id id, struct kv_id boot,
	       const struct kv_remove *body, const void *tail, size_t tail_len)
{
	struct kv_pending_store *s = store_get(p, id, boot);
	int rc;

	if (!s)
		return -ENOMEM;
	rc = store_add(p, s, body, tail, tail_len);
	stores_bound(p, s);
	bytes_bound(p, s);
	store_rest(p, s);
	return rc;
}

int
kv_pending_add_all(struct kv_pending *p, const struct kv_remove *body,
		   const void *tail, size_t tail_len, struct kv_bytes *away)
{
	struct kv_pending_store *s;
	int rc = 0;

	KV_LIST_FOREACH(s, &p->stores, link) {
		if (!s->is_away)
			continue;
		if (store_add(p, s, body, tail, tail_len) < 0 ||
		    kv_bytes_append(away, &s->boot, sizeof(s->boot)) < 0)
			rc = -ENOMEM;
		(void)widen_most(p);
	}
	bytes_bound(p, NULL);
	return rc;
}

struct kv_pending_removal *
kv_pending_next(struct kv_pending_store *s)
{
	return KV_LIST_FIRST(&s->removals, struct kv_pending_removal, link);
}

void
kv_pending_told(struct kv_pending *p, struct kv_pending_store *s)
{
	removal_free(p, s, kv_pending_next(s));
	store_rest(p, s);
}
