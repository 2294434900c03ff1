/* Removing keys at a node, and its tenants. */

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "wire/msg.h"

#include "nodereq.h"
#include "test.h"

static bool
has(const char *key)
{
	const struct simget_opts opts = { .inline_max = 99 };

	return simreq_get_one(&req, key, &opts, NULL) == KV_OK;
}

/* ---- REMOVE ---- */

static void
ask_remove(uint8_t op, uint8_t flags, const char *tenant, uint32_t count,
	   const void *rest, size_t n)
{
	struct kv_remove m = {
		.op = op,
		.flags = flags,
		.tenant_len = (uint8_t)strlen(tenant),
		.count = kv_le32(count),
	};

	nodereq_ask(KV_MSG_REMOVE, &m, tenant, rest, n);
}

static void
removed_but(uint64_t n, const char *statuses, size_t count, unsigned kept)
{
	struct wireframe *f = nodereq_answer(KV_MSG_REMOVE_R);
	const struct kv_remove_r *r = (void *)f->body;

	assert_int_equal(r->status, KV_OK);
	assert_int_equal(kv_get32(r->kept), kept);
	assert_int_equal(kv_get64(r->removed), n);
	assert_int_equal(kv_get32(r->count), count);
	assert_int_equal(f->tail_len, count);
	assert_memory_equal(f->tail, statuses, count);
	wireframe_free(f);
}

static void
removed(uint64_t n, const char *statuses, size_t count)
{
	removed_but(n, statuses, count, 0);
}

static void
keys_are_removed_one_by_one(void **state)
{
	const char want[] = { KV_OK, KV_EMISS, KV_EBUSY };

	(void)state;
	nodereq_put("a");
	nodereq_put("b");
	nodereq_put_hard("h");
	ask_remove(KV_REMOVE_KEYS, 0, "", 3, "\1\0\1\0\1\0axh", 9);
	removed_but(1, want, 3, 1);
	assert_false(has("a"));
	assert_true(has("b"));
	assert_true(has("h"));
	assert_false(simnode_master_has(&sim, 0, "a"));
	ask_remove(KV_REMOVE_KEYS, KV_REMOVE_FORCE, "", 1, "\1\0h", 3);
	removed(1, "\0", 1);
	assert_false(has("h"));
	assert_int_equal(simnode_stat(&sim, "removed"), 2);
}

/* A master that had to give up waiting took it for removed. */
static void
what_is_kept_is_published_again(void **state)
{
	const char busy = KV_EBUSY;
	unsigned before;

	(void)state;
	nodereq_put_hard("h");
	before = sim.masters[0].publishes;
	ask_remove(KV_REMOVE_KEYS, 0, "", 1, "\1\0h", 3);
	removed_but(0, &busy, 1, 1);
	assert_int_equal(sim.masters[0].publishes, before + 1);
	assert_true(simnode_master_has(&sim, 0, "h"));
	assert_true(has("h"));
}

static void
a_removed_value_is_readable_while_pinned(void **state)
{
	struct simgot g;

	(void)state;
	assert_int_equal(simreq_put_one(&req, "k", blob, 100000), KV_OK);
	assert_int_equal(simreq_get_one(&req, "k", NULL, &g), KV_OK);
	ask_remove(KV_REMOVE_KEYS, 0, "", 1, "\1\0k", 3);
	removed(1, "\0", 1);
	assert_false(has("k"));
	assert_true(simnode_stat(&sim, "zombie_bytes") > 0);
	for (int i = 0; i < 10; i++) {
		char key[16];

		snprintf(key, sizeof(key), "f%d", i);
		simreq_put_one(&req, key, blob + 1, 200000);
	}
	assert_memory_equal(sim.pool + g.ext_off, blob, 100000);
	simreq_release(&req, g.pin);
	assert_int_equal(simnode_stat(&sim, "zombie_bytes"), 0);
}

static void
what_matches_is_removed_in_slices(void **state)
{
	char key[16];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct simput item = { key, 0, "" };

		snprintf(key, sizeof(key), "%c%d", i % 2 ? 'a' : 'b', i);
		simreq_put(&req, &item, 1, NULL);
	}
	nodereq_put_hard("a-hard");
	ask_remove(KV_REMOVE_REGEX, 0, "", 2, "^a", 2);
	simnode_run(&sim, 100);
	removed_but(1000, "", 0, 1);
	assert_int_equal(simnode_stat(&sim, "keys"), 1001);
	assert_true(has("a-hard"));
	ask_remove(KV_REMOVE_REGEX, KV_REMOVE_FORCE, "", 2, "^a", 2);
	simnode_run(&sim, 100);
	removed(1, "", 0);
	ask_remove(KV_REMOVE_ALL, 0, "", 0, NULL, 0);
	simnode_run(&sim, 100);
	removed(1000, "", 0);
	assert_int_equal(simnode_stat(&sim, "keys"), 0);
	simnode_run(&sim, 10);
	assert_int_equal(sim.masters[0].n_held, 0);
}

static void
a_bad_pattern_is_told(void **state)
{
	(void)state;
	nodereq_put("a");
	ask_remove(KV_REMOVE_REGEX, 0, "", 2, "a(", 2);
	nodereq_fails(KV_EINVALID, "byte 2");
	ask_remove(KV_REMOVE_REGEX, 0, "nobody", 2, "a(", 2);
	/* Another tenant's keys are none of this requester's. */
	nodereq_fails(KV_EDENIED, "");
	assert_true(has("a"));
}

static void
a_lost_requester_ends_its_sweep(void **state)
{
	struct kv_remove m = { .op = KV_REMOVE_ALL };
	struct simreq other;
	char key[16];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct simput item = { key, 0, "" };

		snprintf(key, sizeof(key), "%d", i);
		simreq_put(&req, &item, 1, NULL);
	}
	simreq_open_unix(&other, &sim, 0);
	for (int i = 0; i < 20; i++)
		wirepeer_send(&other.control, KV_MSG_REMOVE, i, &m, NULL, 0);
	kv_conn_flush(other.control.c);
	simreq_close(&other);
	simnode_run(&sim, 500);
	/* How far it came is open; that nothing is left of it is not. */
	nodereq_put("new");
	assert_true(has("new"));
}

static void
broken_removals_end_the_connection(void **state)
{
	const struct {
		uint8_t op, tenant_len;
		uint32_t count;
		const char *tail;
		size_t n;
	} bad[] = {
		{ KV_REMOVE_KEYS, 0, 2, "\1\0\1\0a", 5 },
		{ KV_REMOVE_KEYS, 0, 1, "\1\0ab", 4 },
		{ KV_REMOVE_KEYS, 0, UINT32_MAX, "\1\0a", 3 },
		{ KV_REMOVE_REGEX, 0, 3, "ab", 2 },
		{ KV_REMOVE_REGEX, 0, 1, "ab", 2 },
		{ KV_REMOVE_ALL, 9, 0, "ab", 2 },
		{ KV_REMOVE_ALL, 0, 0, "ab", 2 },
		{ 77, 0, 0, "", 0 },
	};
	struct simreq r;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kv_remove m = { .op = bad[i].op,
				       .tenant_len = bad[i].tenant_len,
				       .count = kv_le32(bad[i].count) };

		simreq_open_tcp(&r, &sim);
		wirepeer_send(&r.control, KV_MSG_REMOVE, 1, &m, bad[i].tail,
			      bad[i].n);
		simnode_run(&sim, 5);
		assert_true(r.control.is_lost);
		simreq_close(&r);
	}
}

/* ---- tenants ---- */

static void
tenants_do_not_see_each_other(void **state)
{
	struct kv_hello h = {
		.version_min = kv_le16(KV_WIRE_VERSION),
		.version_max = kv_le16(KV_WIRE_VERSION),
		.role = KV_ROLE_REQUESTER,
		.tenant_len = 4,
	};
	struct kv_remove rm = { .op = KV_REMOVE_ALL, .tenant_len = 4 };
	struct simget_opts opts = { .inline_max = 99 };
	struct simreq acme = req;
	struct simgot g;
	struct kv_stream *st;

	(void)state;
	nodereq_put("k");
	acme.net = simnode_new_process(&sim, true);
	st = simreq_dial(&sim, acme.net, true);
	assert_non_null(st);
	wirepeer_open(&acme.control, sim.loop, st);
	wirepeer_send(&acme.control, KV_MSG_HELLO, 1, &h, "acme", 4);
	simnode_run(&sim, 3);
	acme.data_token = 1; /* inline only */
	assert_int_equal(simreq_get_one(&acme, "k", &opts, NULL), KV_EMISS);
	assert_int_equal(simreq_put_inline(&acme, "k", "xyz"), KV_OK);
	assert_int_equal(simreq_get_one(&acme, "k", &opts, &g), KV_OK);
	assert_memory_equal(g.bytes, "xyz", 3);
	assert_int_equal(simreq_get_one(&req, "k", &opts, &g), KV_OK);
	assert_memory_equal(g.bytes, "abc", 3);
	/* It may name itself and nobody else. */
	ask_remove(KV_REMOVE_ALL, 0, "acme", 0, NULL, 0);
	nodereq_fails(KV_EDENIED, "");
	wirepeer_send(&acme.control, KV_MSG_REMOVE, 9, &rm, "acme", 4);
	simnode_run(&sim, 20);
	assert_int_equal(simreq_get_one(&acme, "k", &opts, NULL), KV_EMISS);
	assert_true(has("k"));
	wirepeer_close(&acme.control);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, nodereq_one, nodereq_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keys_are_removed_one_by_one),
		TEST(what_is_kept_is_published_again),
		TEST(a_removed_value_is_readable_while_pinned),
		TEST(what_matches_is_removed_in_slices),
		TEST(a_bad_pattern_is_told),
		TEST(a_lost_requester_ends_its_sweep),
		TEST(broken_removals_end_the_connection),
		TEST(tenants_do_not_see_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
