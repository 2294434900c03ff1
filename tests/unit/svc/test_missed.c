/* What nodes missed while they were away, and what a master makes of
 * generations. */

#include <stdlib.h>
#include <string.h>

#include "masterrig.h"
#include "svc/mastercore.h"

#include "test.h"

static struct rignode a, b;
static struct rigpeer req;

enum {
	A = 1 << 1,
	TTL_MS = 10000,
};

static int
setup(void **state)
{
	rig_setup(state);
	rig_up(&a, "10.0.0.2", 52, 1);
	rig_up(&b, "10.0.0.3", 52, 2);
	rig_requester(&req, "10.0.0.9");
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)

/* Nothing is heard of it, and its port takes connections only. */
static void
freeze(struct rignode *n)
{
	n->beats = false;
	n->is_frozen = true;
}

/* Its connection is there no more, and it is back. */
static void
join_again(struct rignode *n)
{
	n->is_frozen = false;
	rig_again(n);
	assert_int_equal(rig_join(n, NULL), 0);
}

static void
remove_send(uint8_t op, uint8_t flags, uint64_t number)
{
	const struct kv_remove r = {
		.op = op,
		.flags = flags,
		.generation = { kv_le64(number), kv_le64(3) },
		.count = kv_le32(op != KV_REMOVE_ALL),
	};

	rig_send(&req, KV_MSG_REMOVE, &r, "\1\0k",
		 op == KV_REMOVE_KEYS    ? 3
		 : op == KV_REMOVE_REGEX ? 1
					 : 0);
}

/* The node is asked, and answers; the generation that it was told of. */
static uint64_t
remove_serve(struct rignode *n, uint8_t op, uint8_t flags, uint32_t kept)
{
	struct wireframe *f = rig_wait(&n->p, KV_MSG_REMOVE);
	const struct kv_remove *r = (void *)f->body;
	struct kv_remove_r answer = {
		.count = kv_le32(op == KV_REMOVE_KEYS),
		.kept = kv_le32(kept),
	};
	uint8_t status = KV_EMISS;
	uint64_t number = kv_get64(r->generation.number);

	assert_int_equal(r->op, op);
	assert_int_equal(r->flags, flags);
	wirepeer_send(&n->p.w, KV_MSG_REMOVE_R, f->id, &answer, &status,
		      op == KV_REMOVE_KEYS);
	wireframe_free(f);
	rig_ms(1);
	return number;
}

/* How many were away; the generation that holds. */
static unsigned
removed(uint64_t *number)
{
	struct wireframe *f = rig_wait(&req, KV_MSG_REMOVE_R);
	const struct kv_remove_r *r = (void *)f->body;
	unsigned away = kv_get32(r->away);

	if (number)
		*number = kv_get64(r->generation.number);
	wireframe_free(f);
	return away;
}

/* A removal that nobody keeps anything of. b alone is asked, of keys nobody:
 * the directory has them not. How many were away. */
static unsigned
remove_at_b(uint8_t op, uint8_t flags)
{
	remove_send(op, flags, 0);
	if (op != KV_REMOVE_KEYS)
		remove_serve(&b, op, flags, 0);
	return removed(NULL);
}

static bool
has_news(struct rignode *n, uint64_t number)
{
	struct wireframe *f = wirepeer_take(&n->p.w, KV_MSG_GENERATION);
	const struct kv_generation_ent *e;
	bool is_it;

	if (!f)
		return false;
	e = (void *)f->tail;
	is_it = kv_get64(e->generation.number) == number;
	wireframe_free(f);
	return is_it;
}

/* ---- who is away ---- */

static void
told_when_it_is_back(void **state)
{
	(void)state;
	rig_put(&a, 7, 1, 0);
	freeze(&a);
	rig_ms(TTL_MS + 1000);
	assert_int_equal(rig_state(&req, &a), 0);
	assert_int_equal(rig_stat(&req, "kvpool_master_away_nodes"), 1);
	assert_int_equal(remove_at_b(KV_REMOVE_KEYS, 0), 1);
	assert_int_equal(remove_at_b(KV_REMOVE_REGEX, KV_REMOVE_FORCE), 1);
	assert_int_equal(rig_stat(&req, "kvpool_master_pending_removals"), 2);
	join_again(&a);
	assert_int_equal(a.missed, 2);
	assert_int_equal(rig_stat(&req, "kvpool_master_away_nodes"), 0);
	/* What it publishes is not shown before it was told all. */
	rig_put(&a, 7, 1, 0);
	assert_int_equal(rig_owners(&req, 7), 0);
	remove_serve(&a, KV_REMOVE_KEYS, KV_REMOVE_MISSED, 0);
	assert_int_equal(rig_owners(&req, 7), 0);
	remove_serve(&a, KV_REMOVE_REGEX, KV_REMOVE_FORCE | KV_REMOVE_MISSED,
		     0);
	assert_int_equal(rig_owners(&req, 7), A);
	assert_int_equal(rig_stat(&req, "kvpool_master_pending_removals"), 0);
	assert_int_equal(rig_stat(&req, "kvpool_master_missed_told_total"), 2);
}

/* Its process is gone, and with it what it had. */
static void
nobody_waits_for_the_dead(void **state)
{
	(void)state;
	rig_kill(&a);
	rig_ms(1000);
	assert_int_equal(remove_at_b(KV_REMOVE_ALL, KV_REMOVE_FORCE), 0);
}

/* But a pool may live on, in whichever process. */
static void
a_pool_comes_back(void **state)
{
	static struct rignode again;

	(void)state;
	a.pool = (struct kv_id){ { 99 } };
	join_again(&a);
	rig_kill(&a);
	rig_ms(1000);
	assert_int_equal(remove_at_b(KV_REMOVE_KEYS, 0), 1);
	rig_node(&again, "10.0.0.2", 52, 5);
	again.pool = a.pool;
	assert_int_equal(rig_join(&again, NULL), 0);
	assert_int_equal(again.missed, 1);
	remove_serve(&again, KV_REMOVE_KEYS, KV_REMOVE_MISSED, 0);
	remove_send(KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	remove_serve(&b, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	remove_serve(&again, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	assert_int_equal(removed(NULL), 0);
}

/* Nobody knows that its last process is dead but by the new one. */
static void
a_pool_has_one_process(void **state)
{
	static struct rignode again, third;

	(void)state;
	a.pool = (struct kv_id){ { 99 } };
	join_again(&a);
	rig_close(&a.p);
	a.beats = false;
	rig_ms(50);
	assert_int_equal(rig_state(&req, &a), KV_NODE_JOINING);
	rig_node(&again, "10.0.0.2", 54, 5);
	again.pool = a.pool;
	assert_int_equal(rig_join(&again, NULL), 0);
	assert_int_equal(rig_state(&req, &a), 0);
	/* The same, when the new one is heard of first. */
	rig_node(&third, "10.0.0.2", 55, 6);
	third.pool = a.pool;
	assert_int_equal(rig_join(&third, NULL), 0);
	assert_int_equal(rig_state(&req, &again), KV_NODE_JOINING);
	rig_close(&again.p);
	rig_ms(1);
	assert_int_equal(rig_state(&req, &again), 0);
	assert_int_equal(rig_state(&req, &third), KV_NODE_JOINING);
}

static void
one_that_left(void **state)
{
	struct kv_leave leave = { 0 };

	(void)state;
	a.pool = (struct kv_id){ { 99 } };
	join_again(&a);
	rig_send(&a.p, KV_MSG_LEAVE, &leave, NULL, 0);
	a.beats = false;
	rig_ms(1);
	assert_int_equal(rig_stat(&req, "kvpool_master_away_nodes"), 1);
	rig_send(&b.p, KV_MSG_LEAVE, &leave, NULL, 0);
	b.beats = false;
	rig_ms(1);
	assert_int_equal(rig_stat(&req, "kvpool_master_away_nodes"), 1);
	/* A day later it is not waited for. */
	rig_ms(24 * 3600 * 1000 + 1000);
	assert_int_equal(rig_stat(&req, "kvpool_master_away_nodes"), 0);
}

/* It has its session still, and did not answer in time. */
static void
told_by_the_next_heartbeat(void **state)
{
	struct wireframe *f;

	(void)state;
	rig_put(&a, 7, 1, 0);
	remove_send(KV_REMOVE_REGEX, 0, 0);
	remove_serve(&b, KV_REMOVE_REGEX, 0, 0);
	assert_int_equal(removed(NULL), 1);
	/* The first question. */
	f = rig_wait(&a.p, KV_MSG_REMOVE);
	assert_int_equal(((struct kv_remove *)(void *)f->body)->flags, 0);
	wireframe_free(f);
	rig_beat(&a);
	assert_int_equal(rig_owners(&req, 7), 0);
	remove_serve(&a, KV_REMOVE_REGEX, KV_REMOVE_MISSED, 0);
	assert_int_equal(rig_owners(&req, 7), A);
}

/* What the earlier session had published is not shown either. */
static void
the_old_session_does_not_count(void **state)
{
	(void)state;
	rig_put(&a, 7, 1, 0);
	remove_send(KV_REMOVE_REGEX, 0, 0);
	remove_serve(&b, KV_REMOVE_REGEX, 0, 0);
	assert_int_equal(removed(NULL), 1);
	join_again(&a);
	assert_int_equal(a.missed, 1);
	assert_int_equal(rig_owners(&req, 7), 0);
}

/* It breaks off: it is told again. */
static void
told_again(void **state)
{
	(void)state;
	freeze(&a);
	rig_ms(TTL_MS + 1000);
	assert_int_equal(remove_at_b(KV_REMOVE_KEYS, 0), 1);
	join_again(&a);
	wireframe_free(rig_wait(&a.p, KV_MSG_REMOVE));
	join_again(&a);
	assert_int_equal(a.missed, 1);
	remove_serve(&a, KV_REMOVE_KEYS, KV_REMOVE_MISSED, 0);
	join_again(&a);
	assert_int_equal(a.missed, 0);
}

/* ---- generations ---- */

static void
forced_begins_one(void **state)
{
	uint64_t number;

	(void)state;
	remove_send(KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	assert_int_equal(remove_serve(&a, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0),
			 KV_GENERATION_STEP);
	assert_false(has_news(&a, KV_GENERATION_STEP));
	assert_int_equal(remove_serve(&b, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0),
			 KV_GENERATION_STEP);
	assert_int_equal(removed(&number), 0);
	assert_int_equal(number, KV_GENERATION_STEP);
	assert_true(has_news(&a, KV_GENERATION_STEP));
	assert_true(has_news(&b, KV_GENERATION_STEP));
}

static void
what_is_kept_begins_none(void **state)
{
	uint64_t number;

	(void)state;
	remove_send(KV_REMOVE_ALL, 0, 0);
	remove_serve(&a, KV_REMOVE_ALL, 0, 1);
	remove_serve(&b, KV_REMOVE_ALL, 0, 0);
	assert_int_equal(removed(&number), 0);
	assert_int_equal(number, 0);
	assert_false(has_news(&a, KV_GENERATION_STEP));
	remove_send(KV_REMOVE_ALL, 0, 0);
	remove_serve(&a, KV_REMOVE_ALL, 0, 0);
	remove_serve(&b, KV_REMOVE_ALL, 0, 0);
	assert_int_equal(removed(&number), 0);
	assert_int_equal(number, KV_GENERATION_STEP);
	/* Who is away may keep something: none begins unless it is forced. */
	freeze(&a);
	rig_ms(TTL_MS + 1000);
	remove_send(KV_REMOVE_ALL, 0, 0);
	remove_serve(&b, KV_REMOVE_ALL, 0, 0);
	assert_int_equal(removed(&number), 1);
	assert_int_equal(number, KV_GENERATION_STEP);
	remove_send(KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	remove_serve(&b, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	assert_int_equal(removed(&number), 1);
	assert_int_equal(number, 2 * KV_GENERATION_STEP);
}

static size_t
ent(uint8_t *to, const char *tenant, uint64_t number)
{
	struct kv_generation_ent e = {
		.generation = { kv_le64(number), kv_le64(9) },
		.tenant_len = (uint8_t)strlen(tenant),
	};

	memcpy(to, &e, sizeof(e));
	memcpy(to + sizeof(e), tenant, e.tenant_len);
	return sizeof(e) + e.tenant_len;
}

static void
nodes_tell(void **state)
{
	struct kv_generation_news m = { .count = kv_le32(1) };
	struct kv_join j = { .addr_len = 3, .generations = kv_le16(1) };
	static struct rignode c;
	struct kv_join_r *r;
	uint8_t tail[256];
	struct wireframe *f;
	size_t n;

	(void)state;
	n = ent(tail, "x", 4);
	rig_send(&a.p, KV_MSG_GENERATION, &m, tail, n);
	rig_ms(1);
	assert_true(has_news(&b, 4));
	rig_send(&b.p, KV_MSG_GENERATION, &m, tail, n);
	rig_ms(1);
	assert_false(has_news(&b, 4));
	/* One that joins tells, and is told. */
	rig_node(&c, "10.0.0.4", 53, 3);
	memcpy(tail, ":53", 3);
	n = 3 + ent(tail + 3, "y", 6);
	f = rig_ask(&c.p, KV_MSG_JOIN, &j, tail, n);
	r = (void *)f->body;
	assert_int_equal(r->status, KV_OK);
	assert_int_equal(kv_get16(r->generations), 2);
	assert_int_equal(f->tail_len,
			 2 * (sizeof(struct kv_generation_ent) + 1));
	wireframe_free(f);
	rig_ms(1);
	has_news(&a, 4);
	assert_true(has_news(&a, 6));
}

/* Another master did it: nobody is asked, and who is away misses it. */
static void
only_recorded(void **state)
{
	uint64_t number;

	(void)state;
	freeze(&a);
	rig_ms(TTL_MS + 1000);
	remove_send(KV_REMOVE_ALL, KV_REMOVE_FORCE | KV_REMOVE_RECORD, 8);
	assert_int_equal(removed(&number), 1);
	assert_int_equal(number, 8);
	assert_true(has_news(&b, 8));
	assert_int_equal(wirepeer_count(&b.p.w, KV_MSG_REMOVE), 0);
	remove_send(KV_REMOVE_KEYS, KV_REMOVE_RECORD, 0);
	assert_int_equal(removed(NULL), 1);
	join_again(&a);
	/* The first one is nothing to it if it heard of that elsewhere. */
	assert_int_equal(a.missed, 2);
	number = remove_serve(&a, KV_REMOVE_ALL,
			      KV_REMOVE_FORCE | KV_REMOVE_MISSED, 0);
	assert_int_equal(number, 8);
	remove_serve(&a, KV_REMOVE_KEYS, KV_REMOVE_MISSED, 0);
}

/* The one that holds is above it. */
static void
removed_late(uint64_t number)
{
	struct wireframe *f = rig_wait(&req, KV_MSG_REMOVE_R);
	const struct kv_remove_r *r = (void *)f->body;

	assert_int_equal(r->status, KV_EBUSY);
	assert_int_equal(kv_get64(r->generation.number), number);
	wireframe_free(f);
}

static void
who_asks_chooses(void **state)
{
	struct kv_remove_r refusal = {
		.status = KV_EBUSY,
		.generation = { kv_le64(12), kv_le64(1) },
	};
	struct wireframe *f;
	uint64_t number;
	int times;

	(void)state;
	/* It may be asked twice, for want of an answer in time. */
	for (times = 0; times < 2; times++) {
		remove_send(KV_REMOVE_ALL, KV_REMOVE_FORCE, 8);
		number = remove_serve(&a, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
		assert_int_equal(number, 8);
		remove_serve(&b, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
		assert_int_equal(removed(&number), 0);
		assert_int_equal(number, 8);
	}
	remove_send(KV_REMOVE_ALL, KV_REMOVE_FORCE, 7);
	removed_late(8);
	assert_int_equal(wirepeer_count(&a.p.w, KV_MSG_REMOVE), 0);
	/* A node knows better. */
	has_news(&b, 8);
	remove_send(KV_REMOVE_ALL, KV_REMOVE_FORCE, 9);
	f = rig_wait(&a.p, KV_MSG_REMOVE);
	wirepeer_send(&a.p.w, KV_MSG_REMOVE_R, f->id, &refusal, NULL, 0);
	wireframe_free(f);
	remove_serve(&b, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	removed_late(12);
	assert_true(has_news(&b, 12));
}

/* It has what was removed: it is not shown before it was told. */
/* The answer speaks of the tenant, which nobody was asked about. */
static void
late_with_a_tenant_named(void **state)
{
	struct kv_remove r = {
		.op = KV_REMOVE_ALL,
		.flags = KV_REMOVE_FORCE,
		.tenant_len = 7,
		.generation = { kv_le64(8), kv_le64(3) },
	};

	(void)state;
	rig_send(&req, KV_MSG_REMOVE, &r, "default", 7);
	remove_serve(&a, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	remove_serve(&b, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	assert_int_equal(removed(NULL), 0);
	r.generation = (struct kv_generation_le){ kv_le64(7), kv_le64(3) };
	rig_send(&req, KV_MSG_REMOVE, &r, "default", 7);
	removed_late(8);
}

static void
hidden_from_when_it_missed_it(void **state)
{
	(void)state;
	rig_ms(TTL_MS + 1000);
	freeze(&a);
	remove_send(KV_REMOVE_ALL, KV_REMOVE_FORCE, 8);
	remove_serve(&b, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0);
	assert_int_equal(rig_flags(&req) & KV_LOOKUP_INCOMPLETE, 0);
	rig_ms(2100);
	assert_int_equal(removed(NULL), 1);
	assert_true(rig_flags(&req) & KV_LOOKUP_INCOMPLETE);
}

static void
broken_messages(void **state)
{
	struct kv_generation_news m = { .count = kv_le32(2) };
	struct kv_join j = { .addr_len = 3, .generations = kv_le16(1) };
	static struct rignode c;
	uint8_t tail[128];
	size_t n = ent(tail, "x", 4);

	(void)state;
	rig_send(&a.p, KV_MSG_GENERATION, &m, tail, n);
	rig_expect_dropped(&a.p);
	rig_node(&c, "10.0.0.4", 53, 3);
	rig_send(&c.p, KV_MSG_JOIN, &j, ":53xxx", 6);
	rig_expect_dropped(&c.p);
	assert_int_equal(rig_stat(&req, "kvpool_master_generations"), 0);
	remove_send(KV_REMOVE_ALL, KV_REMOVE_MISSED, 0);
	rig_expect_dropped(&req);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(told_when_it_is_back),
		TEST(nobody_waits_for_the_dead),
		TEST(a_pool_comes_back),
		TEST(a_pool_has_one_process),
		TEST(one_that_left),
		TEST(told_by_the_next_heartbeat),
		TEST(the_old_session_does_not_count),
		TEST(told_again),
		TEST(forced_begins_one),
		TEST(what_is_kept_begins_none),
		TEST(nodes_tell),
		TEST(only_recorded),
		TEST(who_asks_chooses),
		TEST(late_with_a_tenant_named),
		TEST(hidden_from_when_it_missed_it),
		TEST(broken_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
