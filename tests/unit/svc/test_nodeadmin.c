/* Removing, listing and asking about keys at a node. */

#include "simnode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "store/sum.h"
#include "wire/msg.h"

#include "test.h"

static struct simnode sim;
static struct simreq req;
static uint8_t blob[SIMNODE_POOL];

static int
setup(void **state)
{
	const struct simnode_opts opts = { .masters = 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(blob); i++)
		blob[i] = (uint8_t)(i * 31 + i / 251);
	simnode_open(&sim, &opts);
	simnode_master_up(&sim, 0);
	simnode_run(&sim, 300);
	simreq_open_unix(&req, &sim, 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	simreq_close(&req);
	simnode_close(&sim);
	return 0;
}

static void
put(const char *key)
{
	assert_int_equal(simreq_put_inline(&req, key, "abc"), KV_OK);
}

static void
put_hard(const char *key)
{
	struct simput item = { key, 3, "abc" };
	struct simput_opts opts = { .flags = KV_PUT_HARD_PIN };
	uint64_t id = simreq_put(&req, &item, 1, &opts);

	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&req, id, 0), KV_OK);
}

static bool
has(const char *key)
{
	const struct simget_opts opts = { .inline_max = 99 };

	return simreq_get_one(&req, key, &opts, NULL) == KV_OK;
}

/* A request whose tail is the tenant and something behind it. */
static void
ask(enum kv_msg_type type, const void *body, const char *tenant,
    const void *rest, size_t n)
{
	struct kv_bytes tail = { 0 };
	int rc = kv_bytes_append(&tail, tenant, strlen(tenant));

	assert_int_equal(rc, 0);
	rc = kv_bytes_append(&tail, rest, n);
	assert_int_equal(rc, 0);
	wirepeer_send(&req.control, type, 4, body, tail.data, tail.len);
	kv_bytes_fini(&tail);
	simnode_run(&sim, 20);
}

static struct wireframe *
answer(enum kv_msg_type type)
{
	struct wireframe *f = wirepeer_take(&req.control, type);

	assert_non_null(f);
	assert_int_equal(f->id, 4);
	return f;
}

/* ERROR_R with this status and a text with this word. */
static void
fails(int status, const char *word)
{
	struct wireframe *f = answer(KV_MSG_ERROR_R);
	const struct kv_error_r *r = (void *)f->body;
	char text[520] = "";

	assert_int_equal(r->status, status);
	assert_int_equal(f->tail_len, kv_get32(r->text_len));
	memcpy(text, f->tail, f->tail_len);
	assert_non_null(strstr(text, word));
	wireframe_free(f);
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

	ask(KV_MSG_REMOVE, &m, tenant, rest, n);
}

static void
removed_but(uint64_t n, const char *statuses, size_t count, unsigned kept)
{
	struct wireframe *f = answer(KV_MSG_REMOVE_R);
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
	put("a");
	put("b");
	put_hard("h");
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
	put_hard("h");
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
	put_hard("a-hard");
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
	put("a");
	ask_remove(KV_REMOVE_REGEX, 0, "", 2, "a(", 2);
	fails(KV_EINVALID, "byte 2");
	ask_remove(KV_REMOVE_REGEX, 0, "nobody", 2, "a(", 2);
	/* Another tenant's keys are none of this requester's. */
	fails(KV_EDENIED, "");
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
	put("new");
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

/* ---- KEYS ---- */

static struct wireframe *
ask_keys(uint64_t cursor, uint32_t limit, const char *pattern)
{
	struct kv_keys m = {
		.cursor = kv_le64(cursor),
		.limit = kv_le32(limit),
		.pattern_len = kv_le16((uint16_t)strlen(pattern)),
	};

	ask(KV_MSG_KEYS, &m, "", pattern, strlen(pattern));
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
	put("apple");
	put("pear");
	put_hard("ape");
	f = ask_keys(0, 0, "^ape");
	e = (void *)f->tail;
	assert_int_equal(kv_get32(((struct kv_keys_r *)(void *)f->body)->count),
			 1);
	assert_int_equal(kv_get64(e->size), 3);
	assert_int_equal(e->flags, KV_PUT_HARD_PIN);
	assert_memory_equal(e + 1, "ape", 3);
	wireframe_free(f);
	assert_null(ask_keys(0, 0, "(("));
	fails(KV_EINVALID, "pattern");
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
	put("read");
	put("alone");
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
		put(key);
		snprintf(other, sizeof(other), "z%d", i);
		put(other);
	}
	f = ask_keys(0, 0, hostile);
	assert_int_equal(kv_get32(((struct kv_keys_r *)(void *)f->body)->count),
			 3);
	assert_int_equal(
		kv_get64(((struct kv_keys_r *)(void *)f->body)->undecided), 3);
	wireframe_free(f);
	ask_remove(KV_REMOVE_REGEX, 0, "", 11, hostile, 11);
	simnode_run(&sim, 100);
	f = answer(KV_MSG_REMOVE_R);
	assert_int_equal(
		kv_get64(((struct kv_remove_r *)(void *)f->body)->removed), 3);
	assert_int_equal(
		kv_get64(((struct kv_remove_r *)(void *)f->body)->undecided),
		3);
	wireframe_free(f);
	assert_int_equal(simnode_stat(&sim, "keys"), 3);
	assert_true(has(key));
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
	put("k");
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
	fails(KV_EDENIED, "");
	wirepeer_send(&acme.control, KV_MSG_REMOVE, 9, &rm, "acme", 4);
	simnode_run(&sim, 20);
	assert_int_equal(simreq_get_one(&acme, "k", &opts, NULL), KV_EMISS);
	assert_true(has("k"));
	wirepeer_close(&acme.control);
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
	put("k");
	for (int i = 0; i < N; i++)
		wirepeer_send(&req.control, KV_MSG_QUERY, 4, &q, "k", 1);
	simnode_run(&sim, 100);
	busy = wirepeer_count(&req.control, KV_MSG_ERROR_R);
	assert_in_range(busy, N / 2 - 9, N / 2);
	assert_int_equal(wirepeer_count(&req.control, KV_MSG_QUERY_R),
			 N - busy);
	fails(KV_EBUSY, "");
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

	ask(KV_MSG_QUERY, &m, "", key, strlen(key));
	return answer(KV_MSG_QUERY_R);
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
	f = answer(KV_MSG_QUERY_R);
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
	put("k");
	ask(KV_MSG_NODES, NULL, "", NULL, 0);
	f = answer(KV_MSG_NODES_R);
	rec = (void *)f->tail;
	assert_int_equal(f->tail_len, sizeof(*rec) + 8);
	assert_int_equal(kv_get64(rec->pool_bytes), SIMNODE_POOL);
	assert_int_equal(kv_get64(rec->free_bytes), SIMNODE_POOL - 256);
	assert_int_equal(rec->host.b[0], 9);
	wireframe_free(f);
	ask(KV_MSG_STATS, NULL, "", NULL, 0);
	f = answer(KV_MSG_STATS_R);
	text = calloc(1, f->tail_len + 1);
	memcpy(text, f->tail, f->tail_len);
	assert_non_null(strstr(text, "\nputs_ok 1\n"));
	assert_non_null(strstr(text, "\nkeys 1\n"));
	assert_non_null(strstr(text, "\nsessions 1\n"));
	free(text);
	wireframe_free(f);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keys_are_removed_one_by_one),
		TEST(what_is_kept_is_published_again),
		TEST(a_removed_value_is_readable_while_pinned),
		TEST(what_matches_is_removed_in_slices),
		TEST(a_bad_pattern_is_told),
		TEST(a_hostile_pattern_is_given_up_key_by_key),
		TEST(a_lost_requester_ends_its_sweep),
		TEST(broken_removals_end_the_connection),
		TEST(pages_have_every_key_once),
		TEST(keys_match_and_say_what_they_are),
		TEST(keys_say_who_put_them_and_whether_others_read_them),
		TEST(hidden_keys_are_not_listed),
		TEST(tenants_do_not_see_each_other),
		TEST(long_requests_have_a_bound),
		TEST(query_tells_everything_of_one_key),
		TEST(the_sum_of_a_value_that_goes_meanwhile),
		TEST(nodes_and_stats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
