/* What a master passes on to nodes: removals, by key and of all. */

#include <string.h>

#include "base/log.h"
#include "masterrig.h"
#include "svc/mastercore.h"

#include "test.h"

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

static unsigned
letter_owners(char k)
{
	struct kv_lookup l = { .count = kv_le32(1) };
	struct kv_id hash = rig_letter(k);
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
	rig_letter_put(&a, 'x', 1);
	rig_letter_put(&b, 'x', 1);
	rig_letter_put(&b, 'y', 1);
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
	rig_letter_put(&a, 'x', 1);
	rig_letter_put(&b, 'x', 1);
	rig_letter_put(&a, 'y', 1);
	rig_letter_put(&b, 'y', 1);
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
	rig_letter_put(&a, 'x', 1);
	id = remove_send("", "x", 0);
	/* The node removes it, and is given another value at once. */
	rig_letter_put(&a, 'x', 2);
	remove_serve(&a, "x", "0");
	removed_is(id, "0", 1, 0);
	assert_int_equal(letter_owners('x'), 1);
}

static void
a_silent_owner_is_away(void **state)
{
	uint64_t id;

	(void)state;
	rig_letter_put(&a, 'x', 1);
	rig_letter_put(&b, 'y', 1);
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
	rig_letter_put(&a, 'x', 1);
	rig_letter_put(&b, 'x', 1);
	rig_letter_put(&a, 'y', 1);
	id = remove_send("", "xy", 0);
	remove_serve(&b, "x", "7"); /* KV_EBUSY */
	rig_ms(5);
	/* Of another put: the question is not about it. */
	rig_letter_put(&a, 'y', 2);
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
	rig_letter_put(&a, 'x', 1);
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
	rig_letter_put(&a, 'x', 1);
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
	rig_letter_put(&a, 'x', 1);
	a.is_frozen = true;
	rig_report(&req, &a, false);
	rig_ms(1100);
	id = remove_send("", "xy", 0);
	remove_serve(&a, "xy", "01");
	removed_is(id, "01", 1, 0);
}

/* What it has put since it could not publish; as when the master was stopped.
 */
static void
who_was_not_heard_of_lately_is_asked_too(void **state)
{
	uint64_t id;

	(void)state;
	rig_letter_put(&a, 'x', 1);
	rig_letter_put(&b, 'y', 1);
	b.beats = false;
	rig_ms(1100);
	id = remove_send("", "x", 0);
	remove_serve(&a, "x", "0");
	remove_serve(&b, "x", "0");
	removed_is(id, "0", 1, 0);
	assert_int_equal(wirepeer_count(&c.p.w, KV_MSG_REMOVE), 0);
	/* Once, and counted once if it is silent, where it is the owner. */
	id = remove_send("", "y", 0);
	removed_is(id, "9", 0, 1);
}

static uint8_t
removal_flags(void)
{
	struct wireframe *f = rig_wait(&req, KV_MSG_REMOVE_R);
	uint8_t flags = ((struct kv_remove_r *)(void *)f->body)->flags;

	wireframe_free(f);
	return flags;
}

/* Others may know more, then. */
static void
it_says_that_it_may_not_know_all(void **state)
{
	static struct rignode d;

	(void)state;
	remove_send("", "x", 0);
	assert_int_equal(removal_flags(), 0);
	rig_node(&d, "10.0.0.5", 52, 4);
	rig_join(&d, NULL);
	remove_send("", "x", 0);
	remove_serve(&a, "x", "1");
	remove_serve(&b, "x", "1");
	remove_serve(&c, "x", "1");
	remove_serve(&d, "x", "1");
	assert_int_equal(removal_flags(), KV_LOOKUP_INCOMPLETE);
}

static void
all_nodes_are_asked_while_one_syncs(void **state)
{
	static struct rignode d;
	uint64_t id;

	(void)state;
	rig_node(&d, "10.0.0.5", 52, 4);
	rig_join(&d, NULL);
	rig_letter_put(&a, 'x', 1);
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
	rig_letter_put(&a, 'x', 1);
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
all_nodes_remove_all(void **state)
{
	uint64_t id;

	(void)state;
	id = pattern_send(NULL);
	rig_serve_removal(&a, "", 5);
	rig_serve_removal(&b, "", 0);
	rig_serve_removal(&c, "", 2);
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
	rig_serve_removal(&b, "", 0);
	rig_serve_removal(&c, "", 0);
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
	rig_serve_removal(&b, "", 0);
	rig_serve_removal(&c, "", 0);
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
	struct kv_publish_ent e = { .hash = rig_letter('x'),
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
	rig_serve_removal(&a, "^x", 5);
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

/* ---- bounds, and askers that are not connected ---- */

static void
an_asker_that_leaves_is_forgotten(void **state)
{
	(void)state;
	rig_letter_put(&a, 'x', 1);
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
		THREE(who_was_not_heard_of_lately_is_asked_too),
		THREE(it_says_that_it_may_not_know_all),
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
		THREE(an_asker_that_leaves_is_forgotten),
	};

	kv_log_set_level(KV_LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
