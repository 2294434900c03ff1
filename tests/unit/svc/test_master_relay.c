/* Questions that a master passes on to the nodes: REMOVE, KEYS, QUERY. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "masterrig.h"
#include "svc/mastercore.h"
#include "svc/relay.h"

#include "test.h"

enum {
	A = 1 << 1,
	B = 1 << 2,
	C = 1 << 3,
};

static struct rignode a, b, c;
static struct rigpeer req;

static int
setup_three(void **state)
{
	rig_setup(state);
	/* Not in the order of their boot ids. */
	rig_up(&b, "10.0.0.3", 52, 2);
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_up(&c, "10.0.0.4", 52, 3);
	rig_requester(&req, "10.0.0.9");
	return 0;
}

/* Keys of these tests are texts of one letter: "a" is key 'a'. */
static struct kv_id
letter_hash(char k)
{
	return kv_key_hash_build(kv_key_hash(kv_key_seed("", 0), &k, 1));
}

static void
letter_put(struct rignode *n, char k, uint64_t random)
{
	struct kv_publish_ent e = { .hash = letter_hash(k),
				    .put_id = { kv_le64(random) } };

	wireframe_free(rig_publish(n, 0, &e, 1, 0));
}

static unsigned
letter_owners(char k)
{
	struct kv_lookup l = { .count = kv_le32(1) };
	struct kv_id hash = letter_hash(k);
	struct wireframe *f;
	unsigned n;

	f = rig_ask(&req, KV_MSG_LOOKUP, &l, &hash, sizeof(hash));
	n = f->tail[0];
	wireframe_free(f);
	return n;
}

/* ---- REMOVE by key ---- */

static uint64_t
remove_send(const char *tenant, const char *letters, unsigned flags)
{
	size_t n = strlen(letters), t = strlen(tenant), i;
	struct kv_remove r = { .op = KV_REMOVE_KEYS,
			       .flags = (uint8_t)flags,
			       .tenant_len = (uint8_t)t,
			       .count = kv_le32((uint32_t)n) };
	struct kv_le16 len = kv_le16(1);
	char tail[256];

	memcpy(tail, tenant, t);
	for (i = 0; i < n; i++)
		memcpy(tail + t + i * 2, &len, 2);
	memcpy(tail + t + n * 2, letters, n);
	return rig_send(&req, KV_MSG_REMOVE, &r, tail, t + n * 3);
}

/* The node is asked for exactly these keys; answers with these statuses. */
static void
remove_serve(struct rignode *n, const char *letters, const char *statuses)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_REMOVE);
	struct kv_remove *r = (void *)f->body;
	size_t count = strlen(letters), off;
	struct kv_remove_r answer = { .count = kv_le32((uint32_t)count) };
	uint8_t tail[64];
	size_t i;

	assert_int_equal(r->op, KV_REMOVE_KEYS);
	assert_int_equal(kv_get32(r->count), count);
	off = r->tenant_len + 2 * count;
	assert_int_equal(f->tail_len, off + count);
	assert_memory_equal(f->tail + off, letters, count);
	for (i = 0; i < count; i++)
		tail[i] = (uint8_t)(statuses[i] - '0');
	wirepeer_send(&n->p.w, KV_MSG_REMOVE_R, f->id, &answer, tail, count);
	wireframe_free(f);
}

static void
removed_but(uint64_t id, const char *statuses, unsigned removed, unsigned away,
	    unsigned kept)
{
	struct wireframe *f = rig_wait(&req, KV_MSG_REMOVE_R);
	struct kv_remove_r *r = (void *)f->body;
	size_t i;

	assert_int_equal(f->id, id);
	assert_int_equal(r->status, 0);
	assert_int_equal(kv_get64(r->removed), removed);
	assert_int_equal(kv_get32(r->away), away);
	assert_int_equal(kv_get32(r->kept), kept);
	assert_int_equal(kv_get64(r->undecided), *statuses ? 0 : 10 * kept);
	assert_int_equal(kv_get32(r->count), strlen(statuses));
	assert_int_equal(f->tail_len, strlen(statuses) + 16 * away);
	for (i = 0; i < strlen(statuses); i++)
		assert_int_equal(f->tail[i], statuses[i] - '0');
	wireframe_free(f);
}

static void
removed_is(uint64_t id, const char *statuses, unsigned removed, unsigned away)
{
	removed_but(id, statuses, removed, away, 0);
}

static void
each_owner_is_asked_for_its_keys(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	letter_put(&b, 'x', 1);
	letter_put(&b, 'y', 1);
	id = remove_send("", "xyz", 0);
	remove_serve(&a, "x", "0");
	remove_serve(&b, "xy", "00");
	removed_is(id, "001", 2, 0);
	/* Before any of them withdrew them. */
	assert_int_equal(letter_owners('x'), 0);
	assert_int_equal(letter_owners('y'), 0);
	assert_int_equal(wirepeer_count(&c.p.w, KV_MSG_REMOVE), 0);
}

static void
what_is_not_removed_counts_most(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	letter_put(&b, 'x', 1);
	letter_put(&a, 'y', 1);
	letter_put(&b, 'y', 1);
	id = remove_send("", "xy", 0);
	remove_serve(&a, "xy", "71"); /* KV_EBUSY: hard-pinned; a miss */
	remove_serve(&b, "xy", "00");
	removed_but(id, "70", 1, 0, 1);
	assert_int_equal(letter_owners('x'), 1);
}

static void
a_put_after_the_removal_stays(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	id = remove_send("", "x", 0);
	/* The node removes it, and is given another value at once. */
	letter_put(&a, 'x', 2);
	remove_serve(&a, "x", "0");
	removed_is(id, "0", 1, 0);
	assert_int_equal(letter_owners('x'), 1);
}

static void
a_silent_owner_is_away(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	letter_put(&b, 'y', 1);
	id = remove_send("", "xy", 0);
	remove_serve(&a, "x", "0");
	rig_ms(1900);
	assert_int_equal(wirepeer_count(&req.w, KV_MSG_REMOVE_R), 0);
	removed_is(id, "09", 1, 1); /* KV_EUNREACHABLE */
	assert_int_equal(rig_stat(&req, "master_remove_failures_total"), 1);
}

/* It may remove what it has at any time from now on. */
static void
what_a_silent_owner_has_decides_nothing(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	letter_put(&b, 'x', 1);
	letter_put(&a, 'y', 1);
	id = remove_send("", "xy", 0);
	remove_serve(&b, "x", "7"); /* KV_EBUSY */
	rig_ms(5);
	/* Of another put: the question is not about it. */
	letter_put(&a, 'y', 2);
	removed_but(id, "79", 0, 1, 1);
	assert_int_equal(letter_owners('x'), 1);
	assert_int_equal(letter_owners('y'), 1);
	assert_int_equal(a.probed, 1);
}

static void
an_owner_without_session_is_away(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	rig_close(&a.p);
	rig_ms(5);
	id = remove_send("", "x", 0);
	removed_is(id, "9", 0, 1);
}

static void
an_owner_lost_meanwhile_is_away(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	id = remove_send("", "x", 0);
	rig_ms(5);
	rig_kill(&a);
	removed_is(id, "9", 0, 1);
}

static void
suspects_are_asked_for_every_key(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(1100);
	id = remove_send("", "xy", 0);
	remove_serve(&a, "xy", "01");
	removed_is(id, "01", 1, 0);
}

static void
all_nodes_are_asked_while_one_syncs(void **state)
{
	static struct rignode d;
	uint64_t id;

	(void)state;
	rig_node(&d, "10.0.0.5", 52, 4);
	rig_join(&d, NULL);
	letter_put(&a, 'x', 1);
	id = remove_send("", "x", 0);
	remove_serve(&a, "x", "0");
	remove_serve(&b, "x", "1");
	remove_serve(&c, "x", "1");
	remove_serve(&d, "x", "0");
	removed_is(id, "0", 1, 0);
	assert_int_equal(letter_owners('x'), 0);
}

static void
a_replaced_session_forgets_too(void **state)
{
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	rig_again(&a);
	rig_join(&a, NULL);
	id = remove_send("", "x", 0);
	remove_serve(&a, "x", "0");
	remove_serve(&b, "x", "1");
	remove_serve(&c, "x", "1");
	removed_is(id, "0", 1, 0);
	assert_int_equal(letter_owners('x'), 0);
}

static void
no_key_and_no_owner(void **state)
{
	(void)state;
	removed_is(remove_send("", "", 0), "", 0, 0);
	removed_is(remove_send("", "xy", 0), "11", 0, 0);
}

static int
error_of(uint64_t id, char *text)
{
	struct wireframe *f = rig_wait(&req, KV_MSG_ERROR_R);
	int status = ((struct kv_error_r *)f->body)->status;

	assert_int_equal(f->id, id);
	if (text) {
		memcpy(text, f->tail, f->tail_len);
		text[f->tail_len] = '\0';
	}
	wireframe_free(f);
	return status;
}

static void
other_tenants_keys_are_denied(void **state)
{
	struct kv_keys k = { .tenant_len = 3 };
	struct kv_query q = { .tenant_len = 3, .key_len = kv_le16(1) };

	(void)state;
	assert_int_equal(error_of(remove_send("own", "x", 0), NULL),
			 KV_EDENIED);
	assert_int_equal(
		error_of(rig_send(&req, KV_MSG_KEYS, &k, "own", 3), NULL),
		KV_EDENIED);
	assert_int_equal(
		error_of(rig_send(&req, KV_MSG_QUERY, &q, "ownx", 4), NULL),
		KV_EDENIED);
	/* The default one has a name, too. */
	removed_is(remove_send("default", "x", 0), "1", 0, 0);
}

static void
more_keys_than_a_batch(void **state)
{
	enum {
		N = KV_BATCH_KEYS_MAX + 1
	};
	struct kv_remove r = { .op = KV_REMOVE_KEYS, .count = kv_le32(N) };
	static uint8_t tail[N * 2];

	(void)state;
	assert_int_equal(
		error_of(rig_send(&req, KV_MSG_REMOVE, &r, tail, sizeof(tail)),
			 NULL),
		KV_EINVALID);
}

/* ---- REMOVE of all, by pattern ---- */

static uint64_t
pattern_send(const char *pattern)
{
	struct kv_remove r = { .op = pattern ? KV_REMOVE_REGEX
					     : KV_REMOVE_ALL };

	if (!pattern)
		return rig_send(&req, KV_MSG_REMOVE, &r, NULL, 0);
	r.count = kv_le32((uint32_t)strlen(pattern));
	return rig_send(&req, KV_MSG_REMOVE, &r, pattern, strlen(pattern));
}

static void
pattern_serve(struct rignode *n, const char *pattern, unsigned removed)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_REMOVE);
	struct kv_remove_r r = {
		.removed = kv_le64(removed),
		.kept = kv_le32(removed > 0),
		.undecided = kv_le64(removed > 0 ? 10 : 0),
	};

	assert_int_equal(f->tail_len, strlen(pattern));
	assert_memory_equal(f->tail, pattern, strlen(pattern));
	wirepeer_send(&n->p.w, KV_MSG_REMOVE_R, f->id, &r, NULL, 0);
	wireframe_free(f);
	if (removed > 0)
		rig_pong(n);
}

static void
all_nodes_remove_all(void **state)
{
	uint64_t id;

	(void)state;
	id = pattern_send(NULL);
	pattern_serve(&a, "", 5);
	pattern_serve(&b, "", 0);
	pattern_serve(&c, "", 2);
	removed_but(id, "", 7, 0, 2);
	assert_int_equal(rig_stat(&req, "master_remove_all_requests_total"), 1);
	assert_int_equal(rig_stat(&req, "master_remove_all_failures_total"), 0);
}

static void
what_was_removed_is_a_miss_at_once(void **state)
{
	struct kv_remove_r r = { .removed = kv_le64(2) };
	struct wireframe *f;
	uint64_t id;

	(void)state;
	rig_put(&a, 1, 10, 0);
	rig_put(&a, 2, 10, 0);
	id = pattern_send(NULL);
	pattern_serve(&b, "", 0);
	pattern_serve(&c, "", 0);
	f = rig_wait(&a.p, KV_MSG_REMOVE);
	wirepeer_send(&a.p.w, KV_MSG_REMOVE_R, f->id, &r, NULL, 0);
	wireframe_free(f);
	/* It tells in two portions. */
	rig_gone(&a, 1, 10);
	rig_pong(&a);
	rig_ms(5);
	assert_int_equal(wirepeer_count(&req.w, KV_MSG_REMOVE_R), 0);
	rig_gone(&a, 2, 10);
	rig_pong(&a);
	rig_ms(5);
	assert_int_equal(wirepeer_count(&req.w, KV_MSG_REMOVE_R), 0);
	rig_pong(&a);
	removed_is(id, "", 2, 0);
	assert_false(rig_exists(&req, 1));
	assert_false(rig_exists(&req, 2));
}

static void
who_removed_and_fell_silent_is_not_away(void **state)
{
	struct kv_remove_r r = { .removed = kv_le64(2) };
	struct wireframe *f;
	uint64_t id;

	(void)state;
	id = pattern_send(NULL);
	pattern_serve(&b, "", 0);
	pattern_serve(&c, "", 0);
	f = rig_wait(&a.p, KV_MSG_REMOVE);
	wirepeer_send(&a.p.w, KV_MSG_REMOVE_R, f->id, &r, NULL, 0);
	wireframe_free(f);
	rig_ms(1900);
	assert_int_equal(wirepeer_count(&req.w, KV_MSG_REMOVE_R), 0);
	removed_is(id, "", 2, 0);
}

static void
a_key_published_while_it_was_removed(void **state)
{
	static struct rignode d;
	struct kv_publish_ent e = { .hash = letter_hash('x'),
				    .put_id = { kv_le64(1) } };
	uint64_t id;

	(void)state;
	rig_node(&d, "10.0.0.5", 52, 4);
	rig_join(&d, NULL);
	id = remove_send("", "x", 0);
	rig_ms(5);
	/* Part of its sync, sent before it heard of the removal. */
	wireframe_free(rig_publish(&d, KV_PUBLISH_SYNC, &e, 1, 0));
	assert_int_equal(letter_owners('x'), 1);
	remove_serve(&a, "x", "1");
	remove_serve(&b, "x", "1");
	remove_serve(&c, "x", "1");
	remove_serve(&d, "x", "0");
	removed_is(id, "0", 1, 0);
	assert_int_equal(letter_owners('x'), 0);
}

static void
nodes_that_did_not_remove_are_away(void **state)
{
	uint64_t id;

	(void)state;
	rig_close(&b.p);
	rig_ms(5);
	id = pattern_send("^x");
	pattern_serve(&a, "^x", 5);
	removed_but(id, "", 5, 2, 1);
	assert_int_equal(
		rig_stat(&req, "master_remove_by_regex_failures_total"), 1);
}

static void
a_bad_pattern_is_the_askers_fault(void **state)
{
	static struct rignode *const nodes[] = { &a, &b, &c };
	struct kv_error_r e = { .status = KV_EINVALID, .text_len = kv_le32(4) };
	struct wireframe *f;
	char text[600];
	uint64_t id;
	int i;

	(void)state;
	id = pattern_send("(");
	for (i = 0; i < 3; i++) {
		f = rig_wait(&nodes[i]->p, KV_MSG_REMOVE);
		wirepeer_send(&nodes[i]->p.w, KV_MSG_ERROR_R, f->id, &e, "open",
			      4);
		wireframe_free(f);
	}
	assert_int_equal(error_of(id, text), KV_EINVALID);
	assert_string_equal(text, "open");
}

static void
malformed_removals(void **state)
{
	struct kv_remove r = { .op = 9 };

	(void)state;
	rig_send(&req, KV_MSG_REMOVE, &r, NULL, 0);
	rig_expect_dropped(&req);
	r = (struct kv_remove){ .op = KV_REMOVE_KEYS, .count = kv_le32(2) };
	rig_requester(&req, "10.0.0.9");
	rig_send(&req, KV_MSG_REMOVE, &r, "\1\0\5\0abc", 7);
	rig_expect_dropped(&req);
	r = (struct kv_remove){ .op = KV_REMOVE_REGEX,
				.count = kv_le32(UINT32_MAX) };
	rig_requester(&req, "10.0.0.9");
	rig_send(&req, KV_MSG_REMOVE, &r, "x", 1);
	rig_expect_dropped(&req);
	r = (struct kv_remove){ .op = KV_REMOVE_ALL, .tenant_len = 9 };
	rig_requester(&req, "10.0.0.9");
	rig_send(&req, KV_MSG_REMOVE, &r, "x", 1);
	rig_expect_dropped(&req);
	assert_int_equal(rig.m->n_relays, 0);
}

/* ---- KEYS ---- */

static uint64_t
keys_send(uint8_t boot, uint64_t cursor)
{
	struct kv_keys k = { .node = { { boot } },
			     .cursor = kv_le64(cursor),
			     .limit = kv_le32(100),
			     .pattern_len = kv_le16(2) };

	return rig_send(&req, KV_MSG_KEYS, &k, "^x", 2);
}

static void
keys_serve(struct rignode *n, uint64_t want, uint64_t cursor)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_KEYS);
	struct kv_keys_ent e = { .size = kv_le64(9), .key_len = kv_le16(2) };
	struct kv_keys_r r = { .cursor = kv_le64(cursor),
			       .count = kv_le32(1),
			       .undecided = kv_le64(7) };
	char tail[sizeof(e) + 2];

	assert_int_equal(kv_get64(((struct kv_keys *)f->body)->cursor), want);
	assert_memory_equal(f->tail, "^x", 2);
	memcpy(tail, &e, sizeof(e));
	memcpy(tail + sizeof(e), "xy", 2);
	wirepeer_send(&n->p.w, KV_MSG_KEYS_R, f->id, &r, tail, sizeof(tail));
	wireframe_free(f);
}

static void
keys_are(uint64_t id, int status, uint8_t node, uint8_t next, uint64_t cursor)
{
	struct wireframe *f = rig_wait(&req, KV_MSG_KEYS_R);
	struct kv_keys_r *r = (void *)f->body;

	assert_int_equal(f->id, id);
	assert_int_equal(r->status, status);
	assert_int_equal(r->node.b[0], node);
	assert_int_equal(r->next.b[0], next);
	assert_int_equal(kv_get64(r->cursor), cursor);
	assert_int_equal(kv_get32(r->count), status == 0 && node != 0);
	assert_int_equal(kv_get64(r->undecided), 7 * kv_get32(r->count));
	if (status == 0 && node != 0)
		assert_memory_equal(f->tail + f->tail_len - 2, "xy", 2);
	wireframe_free(f);
}

static void
pages_in_the_order_of_boot_ids(void **state)
{
	uint64_t id;

	(void)state;
	id = keys_send(0, 0);
	keys_serve(&a, 0, 77);
	keys_are(id, 0, 1, 1, 77);
	id = keys_send(1, 77);
	keys_serve(&a, 77, 0);
	keys_are(id, 0, 1, 2, 0);
	id = keys_send(2, 0);
	keys_serve(&b, 0, 0);
	keys_are(id, 0, 2, 3, 0);
	id = keys_send(3, 0);
	keys_serve(&c, 0, 0);
	keys_are(id, 0, 3, 0, 0);
}

static void
a_node_that_vanished_between_pages(void **state)
{
	(void)state;
	rig_kill(&b);
	rig_ms(5);
	keys_are(keys_send(2, 77), KV_EGONE, 2, 3, 0);
	rig_kill(&c);
	rig_ms(5);
	keys_are(keys_send(3, 77), KV_EGONE, 3, 0, 0);
}

static void
a_node_that_vanished_during_a_page(void **state)
{
	uint64_t id;

	(void)state;
	id = keys_send(2, 0);
	rig_ms(5);
	rig_kill(&b);
	keys_are(id, KV_EUNREACHABLE, 2, 3, 0);
}

static void
a_node_that_gives_no_page(void **state)
{
	uint64_t id;

	(void)state;
	id = keys_send(2, 0);
	rig_ms(2100);
	keys_are(id, KV_EUNREACHABLE, 2, 3, 0);
}

static void
no_node_has_no_keys(void **state)
{
	(void)state;
	rig_requester(&req, "10.0.0.9");
	keys_are(keys_send(0, 0), 0, 0, 0, 0);
}

/* ---- QUERY ---- */

static uint64_t
query_send(char k)
{
	struct kv_query q = { .key_len = kv_le16(1) };

	return rig_send(&req, KV_MSG_QUERY, &q, &k, 1);
}

static void
query_serve(struct rignode *n, unsigned count)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_QUERY);
	struct kv_query_rec rec[2] = { { .boot = n->p.boot,
					 .size = kv_le64(1234) } };
	struct kv_query_r r = { .count = kv_le32(count) };

	rec[1] = rec[0];
	wirepeer_send(&n->p.w, KV_MSG_QUERY_R, f->id, &r, rec,
		      count * sizeof(rec[0]));
	wireframe_free(f);
}

static void
all_owners_tell_of_a_key(void **state)
{
	const struct kv_query_rec *rec;
	struct kv_query_r *r;
	struct wireframe *f;
	uint64_t id;

	(void)state;
	letter_put(&a, 'x', 1);
	letter_put(&c, 'x', 1);
	id = query_send('x');
	query_serve(&a, 1);
	query_serve(&c, 1);
	f = rig_wait(&req, KV_MSG_QUERY_R);
	r = (void *)f->body;
	assert_int_equal(f->id, id);
	assert_int_equal(kv_get32(r->count), 2);
	assert_int_equal(kv_get32(r->away), 0);
	rec = (void *)f->tail;
	assert_int_equal(rec->boot.b[0], 1);
	assert_int_equal(kv_get64(rec->size), 1234);
	assert_int_equal(rec->addr_len, 11);
	assert_memory_equal(rec + 1, "10.0.0.2:52n01", 14);
	rec = (void *)(f->tail + sizeof(*rec) + 14);
	assert_memory_equal(rec + 1, "10.0.0.4:52n03", 14);
	wireframe_free(f);
}

static void
owners_that_do_not_tell_are_away(void **state)
{
	struct kv_query_r *r;
	struct wireframe *f;

	(void)state;
	letter_put(&a, 'x', 1);
	letter_put(&c, 'x', 1);
	query_send('x');
	query_serve(&a, 1);
	f = rig_wait(&req, KV_MSG_QUERY_R);
	r = (void *)f->body;
	assert_int_equal(kv_get32(r->count), 1);
	assert_int_equal(kv_get32(r->away), 1);
	wireframe_free(f);
}

static void
an_unknown_key_is_asked_of_nobody(void **state)
{
	struct wireframe *f;

	(void)state;
	query_send('x');
	f = rig_wait(&req, KV_MSG_QUERY_R);
	assert_int_equal(kv_get32(((struct kv_query_r *)f->body)->count), 0);
	wireframe_free(f);
	assert_int_equal(wirepeer_count(&a.p.w, KV_MSG_QUERY), 0);
}

static void
a_broken_answer_is_none(void **state)
{
	struct kv_query_rec rec = { .addr_len = 200 };
	struct kv_query_r r = { .count = kv_le32(1) };
	struct wireframe *f;

	(void)state;
	letter_put(&a, 'x', 1);
	query_send('x');
	f = rig_wait(&a.p, KV_MSG_QUERY);
	wirepeer_send(&a.p.w, KV_MSG_QUERY_R, f->id, &r, &rec, sizeof(rec));
	wireframe_free(f);
	f = rig_wait(&req, KV_MSG_QUERY_R);
	assert_int_equal(kv_get32(((struct kv_query_r *)f->body)->count), 0);
	assert_int_equal(kv_get32(((struct kv_query_r *)f->body)->away), 1);
	wireframe_free(f);
}

/* ---- bounds, and askers that are not connected ---- */

static void
too_many_questions_are_refused(void **state)
{
	unsigned i, busy;

	(void)state;
	for (i = 0; i <= KV_PEER_REQUESTS_MAX; i++)
		keys_send(1, 0);
	rig_ms(5);
	busy = wirepeer_count(&req.w, KV_MSG_ERROR_R);
	assert_int_equal(busy, 1);
	rig_ms(2100);
	assert_int_equal(wirepeer_count(&req.w, KV_MSG_KEYS_R),
			 KV_PEER_REQUESTS_MAX);
	assert_int_equal(rig.m->n_relays, 0);
}

static void
an_asker_that_leaves_is_forgotten(void **state)
{
	(void)state;
	letter_put(&a, 'x', 1);
	remove_send("", "x", 0);
	rig_ms(5);
	rig_close(&req);
	rig_ms(5);
	assert_int_equal(rig.m->n_relays, 1);
	remove_serve(&a, "x", "0");
	rig_ms(5);
	assert_int_equal(rig.m->n_relays, 0);
	rig_requester(&req, "10.0.0.9");
	assert_int_equal(letter_owners('x'), 0);
}

static unsigned answers;
static enum kv_msg_type answer_type;
static uint64_t answer_removed;

static void
answered(void *arg, const struct kv_msg *answer)
{
	assert_ptr_equal(arg, &answers);
	answers++;
	answer_type = answer->type;
	if (answer->type == KV_MSG_REMOVE_R)
		answer_removed = kv_get64(
			((const struct kv_remove_r *)answer->body)->removed);
}

static void
questions_of_the_http_server(void **state)
{
	struct kv_remove body = { .op = KV_REMOVE_ALL };
	struct kv_msg q = { .type = KV_MSG_REMOVE, .body = &body };

	(void)state;
	answers = 0;
	assert_non_null(kv_relay_ask(rig.m, &q, answered, &answers));
	assert_int_equal(answers, 0);
	pattern_serve(&a, "", 1);
	pattern_serve(&b, "", 2);
	pattern_serve(&c, "", 3);
	rig_ms(5);
	assert_int_equal(answers, 1);
	assert_int_equal(answer_type, KV_MSG_REMOVE_R);
	assert_int_equal(answer_removed, 6);

	body.op = 77;
	assert_null(kv_relay_ask(rig.m, &q, answered, &answers));
	assert_int_equal(errno, EPROTO);
}

static void
a_question_that_is_forgotten(void **state)
{
	struct kv_keys body = { .limit = kv_le32(1) };
	struct kv_msg q = { .type = KV_MSG_KEYS, .body = &body };
	struct kv_relay *r;

	(void)state;
	answers = 0;
	r = kv_relay_ask(rig.m, &q, answered, &answers);
	assert_non_null(r);
	kv_relay_forget(r);
	rig_ms(2100);
	assert_int_equal(answers, 0);
	assert_int_equal(rig.m->n_relays, 0);
}

#define THREE(f) cmocka_unit_test_setup_teardown(f, setup_three, rig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		THREE(each_owner_is_asked_for_its_keys),
		THREE(what_is_not_removed_counts_most),
		THREE(a_put_after_the_removal_stays),
		THREE(a_silent_owner_is_away),
		THREE(what_a_silent_owner_has_decides_nothing),
		THREE(an_owner_without_session_is_away),
		THREE(an_owner_lost_meanwhile_is_away),
		THREE(suspects_are_asked_for_every_key),
		THREE(all_nodes_are_asked_while_one_syncs),
		THREE(a_replaced_session_forgets_too),
		THREE(no_key_and_no_owner),
		THREE(other_tenants_keys_are_denied),
		THREE(more_keys_than_a_batch),
		THREE(a_key_published_while_it_was_removed),
		THREE(all_nodes_remove_all),
		THREE(what_was_removed_is_a_miss_at_once),
		THREE(who_removed_and_fell_silent_is_not_away),
		THREE(nodes_that_did_not_remove_are_away),
		THREE(a_bad_pattern_is_the_askers_fault),
		THREE(malformed_removals),
		THREE(pages_in_the_order_of_boot_ids),
		THREE(a_node_that_vanished_between_pages),
		THREE(a_node_that_vanished_during_a_page),
		THREE(a_node_that_gives_no_page),
		RIG_TEST(no_node_has_no_keys),
		THREE(all_owners_tell_of_a_key),
		THREE(owners_that_do_not_tell_are_away),
		THREE(an_unknown_key_is_asked_of_nobody),
		THREE(a_broken_answer_is_none),
		THREE(too_many_questions_are_refused),
		THREE(an_asker_that_leaves_is_forgotten),
		THREE(questions_of_the_http_server),
		THREE(a_question_that_is_forgotten),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
