/* Listing keys of a node, and asking about it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "store/sum.h"
#include "wire/msg.h"

#include "nodereq.h"
#include "test.h"

static bool
has(const char *key)
{
	const struct simget_opts opts = { .inline_max = 99 };

	return simreq_get_one(&req, key, &opts, NULL) == KV_OK;
}

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

/* ---- KEYS ---- */

static struct wireframe *
ask_keys(uint64_t cursor, uint32_t limit, const char *pattern)
{
	struct kv_keys m = {
		.cursor = kv_le64(cursor),
		.limit = kv_le32(limit),
		.pattern_len = kv_le16((uint16_t)strlen(pattern)),
	};

	nodereq_ask(KV_MSG_KEYS, &m, "", pattern, strlen(pattern));
	return wirepeer_take(&req.control, KV_MSG_KEYS_R);
}

static void
pages_have_every_key_once(void **state)
{
	static bool seen[1000];
	uint64_t cursor = 0;
	unsigned pages = 0;
	char key[16];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct simput item = { key, 0, "" };

		snprintf(key, sizeof(key), "key-%d", i);
		simreq_put(&req, &item, 1, NULL);
	}
	do {
		struct wireframe *f = ask_keys(cursor, 100, "");
		const struct kv_keys_r *r = (void *)f->body;
		const struct kv_keys_ent *e = (void *)f->tail;
		uint32_t n = kv_get32(r->count);
		const char *k = (const char *)(e + n);

		assert_int_equal(r->status, KV_OK);
		assert_true(kv_id_is_equal(r->node, *kv_node_boot(sim.node)));
		assert_true(n < 200);
		for (uint32_t i = 0; i < n; i++) {
			int number;

			memset(key, 0, sizeof(key));
			memcpy(key, k, kv_get16(e[i].key_len));
			k += kv_get16(e[i].key_len);
			assert_int_equal(sscanf(key, "key-%d", &number), 1);
			seen[number] = true;
		}
		assert_ptr_equal(k, f->tail + f->tail_len);
		cursor = kv_get64(r->cursor);
		assert_int_equal(kv_id_is_zero(r->next), cursor == 0);
		wireframe_free(f);
		assert_true(++pages < 50);
	} while (cursor);
	for (int i = 0; i < 1000; i++)
		assert_true(seen[i]);
	assert_true(pages >= 6);
}

static void
keys_match_and_say_what_they_are(void **state)
{
	const struct kv_keys_ent *e;
	struct wireframe *f;

	(void)state;
	nodereq_put("apple");
	nodereq_put("pear");
	nodereq_put_hard("ape");
	f = ask_keys(0, 0, "^ape");
	e = (void *)f->tail;
	assert_int_equal(kv_get32(((struct kv_keys_r *)(void *)f->body)->count),
			 1);
	assert_int_equal(kv_get64(e->size), 3);
	assert_int_equal(e->flags, KV_PUT_HARD_PIN);
	assert_memory_equal(e + 1, "ape", 3);
	wireframe_free(f);
	assert_null(ask_keys(0, 0, "(("));
	nodereq_fails(KV_EINVALID, "pattern");
}

/* The one entry of the page. */
static struct kv_keys_ent
entry_of(const char *key)
{
	char pattern[32];
	struct kv_keys_ent e;
	struct wireframe *f;

	snprintf(pattern, sizeof(pattern), "^%s$", key);
	f = ask_keys(0, 0, pattern);
	assert_int_equal(kv_get32(((struct kv_keys_r *)(void *)f->body)->count),
			 1);
	memcpy(&e, f->tail, sizeof(e));
	wireframe_free(f);
	return e;
}

static void
keys_say_who_put_them_and_whether_others_read_them(void **state)
{
	const struct simget_opts opts = { .inline_max = 99 };
	struct simreq other;
	struct kv_keys_ent e;

	(void)state;
	simreq_open_unix(&other, &sim, 0);
	nodereq_put("read");
	nodereq_put("alone");
	assert_int_equal(simreq_put_inline(&other, "others", "abc"), KV_OK);
	assert_true(has("read"));
	assert_true(has("alone"));
	assert_int_equal(entry_of("read").flags, 0);
	assert_int_equal(simnode_stat(&sim, "gets_shared"), 0);
	assert_int_equal(simreq_get_one(&other, "read", &opts, NULL), KV_OK);
	assert_int_equal(simreq_get_one(&other, "others", &opts, NULL), KV_OK);
	e = entry_of("read");
	assert_int_equal(e.flags, KV_KEYS_SHARED);
	assert_int_equal(kv_get16(e.putter), req.pid);
	assert_int_equal(entry_of("alone").flags, 0);
	e = entry_of("others");
	assert_int_equal(e.flags, 0);
	assert_int_equal(kv_get16(e.putter), other.pid);
	assert_int_equal(simnode_stat(&sim, "gets_hit"), 4);
	assert_int_equal(simnode_stat(&sim, "gets_shared"), 1);
	simreq_close(&other);
}

static void
hidden_keys_are_not_listed(void **state)
{
	struct simput item = { "k", 3, "abc" };
	struct wireframe *f;

	(void)state;
	sim.masters[0].by_hand = true;
	simreq_put(&req, &item, 1, NULL);
	f = ask_keys(0, 0, "");
	assert_int_equal(f->tail_len, 0);
	wireframe_free(f);
}

static void
a_hostile_pattern_is_given_up_key_by_key(void **state)
{
	static char key[1001];
	const char *hostile = "(a+)+[xy]|z";
	struct wireframe *f;
	char other[16];

	(void)state;
	memset(key, 'a', sizeof(key) - 1);
	for (int i = 0; i < 3; i++) {
		key[0] = (char)('0' + i);
		nodereq_put(key);
		snprintf(other, sizeof(other), "z%d", i);
		nodereq_put(other);
	}
	f = ask_keys(0, 0, hostile);
	assert_int_equal(kv_get32(((struct kv_keys_r *)(void *)f->body)->count),
			 3);
	assert_int_equal(
		kv_get64(((struct kv_keys_r *)(void *)f->body)->undecided), 3);
	wireframe_free(f);
	ask_remove(KV_REMOVE_REGEX, 0, "", 11, hostile, 11);
	simnode_run(&sim, 100);
	f = nodereq_answer(KV_MSG_REMOVE_R);
	assert_int_equal(
		kv_get64(((struct kv_remove_r *)(void *)f->body)->removed), 3);
	assert_int_equal(
		kv_get64(((struct kv_remove_r *)(void *)f->body)->undecided),
		3);
	wireframe_free(f);
	assert_int_equal(simnode_stat(&sim, "keys"), 3);
	assert_true(has(key));
}

/* ---- QUERY, NODES, STATS ---- */

/* They take their time, one after the other, and their answers may not be
 * read. */
static void
long_requests_have_a_bound(void **state)
{
	struct kv_query q = { .key_len = kv_le16(1), .flags = KV_QUERY_SUM };
	struct kv_remove r = { .op = KV_REMOVE_REGEX, .count = kv_le32(1) };
	enum {
		N = 2 * KV_PEER_REQUESTS_MAX
	};
	unsigned busy;

	(void)state;
	nodereq_put("k");
	for (int i = 0; i < N; i++)
		wirepeer_send(&req.control, KV_MSG_QUERY, 4, &q, "k", 1);
	simnode_run(&sim, 100);
	busy = wirepeer_count(&req.control, KV_MSG_ERROR_R);
	assert_in_range(busy, N / 2 - 9, N / 2);
	assert_int_equal(wirepeer_count(&req.control, KV_MSG_QUERY_R),
			 N - busy);
	nodereq_fails(KV_EBUSY, "");
	for (int i = 0; i < N; i++)
		wirepeer_send(&req.control, KV_MSG_REMOVE, 4, &r, "x", 1);
	simnode_run(&sim, 100);
	assert_in_range(wirepeer_count(&req.control, KV_MSG_REMOVE_R), N / 2,
			N / 2 + 9);
	assert_true(simnode_stat(&sim, "requests_busy") > busy);
	assert_true(has("k"));
}

static struct wireframe *
ask_query(const char *key, uint8_t flags)
{
	struct kv_query m = {
		.key_len = kv_le16((uint16_t)strlen(key)),
		.flags = flags,
	};

	nodereq_ask(KV_MSG_QUERY, &m, "", key, strlen(key));
	return nodereq_answer(KV_MSG_QUERY_R);
}

static void
query_tells_everything_of_one_key(void **state)
{
	const struct kv_query_rec *rec;
	struct wireframe *f;
	struct simgot g;

	(void)state;
	assert_int_equal(simreq_put_one(&req, "k", blob, 300000), KV_OK);
	simnode_run(&sim, 3000);
	f = ask_query("k", 0);
	assert_int_equal(
		kv_get32(((struct kv_query_r *)(void *)f->body)->count), 1);
	rec = (void *)f->tail;
	assert_int_equal(f->tail_len, sizeof(*rec));
	assert_int_equal(kv_get64(rec->size), 300000);
	assert_int_equal(kv_get32(rec->pins), 0);
	assert_int_equal(kv_get16(rec->extents), 1);
	assert_in_range(kv_get64(rec->idle_ms), 2900, 3100);
	assert_int_equal(kv_get64(rec->sum), 0);
	assert_true(kv_id_is_equal(rec->boot, *kv_node_boot(sim.node)));
	wireframe_free(f);
	assert_int_equal(simreq_get_one(&req, "k", NULL, &g), KV_OK);
	f = ask_query("k", KV_QUERY_SUM);
	rec = (void *)f->tail;
	assert_int_equal(kv_get32(rec->pins), 1);
	assert_true(kv_get64(rec->sum) == kv_sum_of(blob, 300000));
	assert_int_equal(kv_get64(rec->off), g.ext_off);
	wireframe_free(f);
	f = ask_query("x", KV_QUERY_SUM);
	assert_int_equal(f->tail_len, 0);
	assert_int_equal(
		kv_get32(((struct kv_query_r *)(void *)f->body)->count), 0);
	wireframe_free(f);
	simreq_release(&req, g.pin);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 0);
}

static void
the_sum_of_a_value_that_goes_meanwhile(void **state)
{
	struct kv_query m = { .key_len = kv_le16(1), .flags = KV_QUERY_SUM };
	struct kv_remove rm = { .op = KV_REMOVE_KEYS, .count = kv_le32(1) };
	const struct kv_query_rec *rec;
	struct wireframe *f;

	(void)state;
	assert_int_equal(simreq_put_one(&req, "k", blob, 300000), KV_OK);
	wirepeer_send(&req.control, KV_MSG_QUERY, 4, &m, "k", 1);
	wirepeer_send(&req.control, KV_MSG_REMOVE, 5, &rm, "\1\0k", 3);
	simnode_run(&sim, 20);
	f = nodereq_answer(KV_MSG_QUERY_R);
	rec = (void *)f->tail;
	assert_true(kv_get64(rec->sum) == kv_sum_of(blob, 300000));
	wireframe_free(f);
	assert_int_equal(simnode_stat(&sim, "free_bytes"), SIMNODE_POOL);
}

static void
nodes_and_stats(void **state)
{
	const struct kv_node_rec *rec;
	struct wireframe *f;
	char *text;

	(void)state;
	nodereq_put("k");
	nodereq_ask(KV_MSG_NODES, NULL, "", NULL, 0);
	f = nodereq_answer(KV_MSG_NODES_R);
	rec = (void *)f->tail;
	assert_int_equal(f->tail_len, sizeof(*rec) + 8);
	assert_int_equal(kv_get64(rec->pool_bytes), SIMNODE_POOL);
	assert_int_equal(kv_get64(rec->free_bytes), SIMNODE_POOL - 256);
	assert_int_equal(rec->host.b[0], 9);
	wireframe_free(f);
	nodereq_ask(KV_MSG_STATS, NULL, "", NULL, 0);
	f = nodereq_answer(KV_MSG_STATS_R);
	text = calloc(1, f->tail_len + 1);
	memcpy(text, f->tail, f->tail_len);
	assert_non_null(strstr(text, "\nputs_ok 1\n"));
	assert_non_null(strstr(text, "\nkeys 1\n"));
	assert_non_null(strstr(text, "\nsessions 1\n"));
	free(text);
	wireframe_free(f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, nodereq_one, nodereq_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_hostile_pattern_is_given_up_key_by_key),
		TEST(pages_have_every_key_once),
		TEST(keys_match_and_say_what_they_are),
		TEST(keys_say_who_put_them_and_whether_others_read_them),
		TEST(hidden_keys_are_not_listed),
		TEST(long_requests_have_a_bound),
		TEST(query_tells_everything_of_one_key),
		TEST(the_sum_of_a_value_that_goes_meanwhile),
		TEST(nodes_and_stats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
