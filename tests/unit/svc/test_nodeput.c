/* PUT at a node: whole puts, the same key again, and what is refused. */

#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

/* ---- whole puts ---- */

static void
a_small_value_rides_in_the_message(void **state)
{
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "hello"), KV_OK);
	assert_true(simnode_master_has(&sim, 0, "k"));
	assert_int_equal(
		simreq_get_one(&r, "k",
			       &(struct simget_opts){ .inline_max = 100 }, &g),
		KV_OK);
	assert_int_equal(g.how, KV_HOW_INLINE);
	assert_int_equal(g.size, 5);
	assert_int_equal(g.inline_len, 5);
	assert_memory_equal(g.bytes, "hello", 5);
	assert_int_equal(simnode_stat(&sim, "puts_ok"), 1);
	assert_int_equal(simnode_stat(&sim, "put_bytes"), 5);
	simreq_close(&r);
}

static void
a_process_of_this_host_fills_in_place(void **state)
{
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 10000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_OK);
	assert_int_equal(g.how, KV_HOW_EXTENTS);
	assert_int_equal(g.extents, 1);
	assert_int_equal(g.ext_len, 10000);
	assert_memory_equal(sim.pool + g.ext_off, blob, 10000);
	simreq_release(&r, g.pin);
	simreq_close(&r);
}

static void
bytes_come_on_a_data_connection(void **state)
{
	struct simreq r;
	struct simgot g;
	struct wireframe *f;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_one(&r, "k", blob, 100000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_OK);
	assert_int_equal(g.how, KV_HOW_DATA);
	simnode_run(&sim, 5);
	f = wirepeer_take(&r.data, KV_MSG_DATA);
	assert_non_null(f);
	assert_int_equal(f->payload_len, 100000);
	assert_memory_equal(f->payload, blob, 100000);
	wireframe_free(f);
	assert_int_equal(simnode_stat(&sim, "pinned_bytes"), 0);
	simreq_close(&r);
}

static void
the_empty_value_needs_no_grant(void **state)
{
	struct simput items[] = {
		{ "a", 0, NULL },
		{ "b", 0, "" },
	};
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	id = simreq_put(&r, items, 2, NULL);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_OK);
	assert_int_equal(simreq_get_one(&r, "a", NULL, &g), KV_OK);
	assert_int_equal(g.size, 0);
	assert_int_equal(simreq_get_one(&r, "b", NULL, &g), KV_OK);
	simreq_close(&r);
}

static void
a_batch_is_answered_once_and_key_by_key(void **state)
{
	enum {
		N = 300
	};
	static char names[N][16];
	static struct simput items[N];
	struct simgrant g[N];
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "k%d", i);
		items[i] = (struct simput){ names[i], 1000, NULL };
	}
	items[7].size = SIMNODE_POOL + 1;
	items[8].key = "";
	id = simreq_put(&r, items, N, NULL);
	assert_int_equal(wirepeer_count(&r.control, KV_MSG_GRANT_R), 1);
	for (int i = 0; i < N; i++)
		assert_int_equal(simreq_grant(&r, id, i, &g[i]),
				 i != 7 && i != 8);
	for (int i = 0; i < N; i++)
		if (i != 7 && i != 8 && i != 9)
			simreq_filled(&r, id, g[i].grant, false);
	assert_int_equal(simreq_put_status(&r, id, 0), -1);
	simreq_filled(&r, id, g[9].grant, true);
	simnode_run(&sim, 5);
	for (int i = 0; i < N; i++)
		assert_int_equal(simreq_put_status(&r, id, i),
				 i == 7   ? KV_ETOOBIG
				 : i == 8 ? KV_EINVALID
				 : i == 9 ? KV_ECANCELED
					  : KV_OK);
	assert_int_equal(wirepeer_count(&r.control, KV_MSG_PUT_R), 1);
	simreq_close(&r);
}

/* ---- the same key again ---- */

static void
a_key_with_a_value_exists(void **state)
{
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "one"), KV_OK);
	assert_int_equal(simreq_put_inline(&r, "k", "two"), KV_EEXISTS);
	assert_int_equal(simnode_stat(&sim, "puts_exist"), 1);
	simreq_close(&r);
}

static void
the_first_of_two_equal_keys_wins(void **state)
{
	struct simput items[] = {
		{ "k", 3, "one" },
		{ "k", 3, "two" },
	};
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, items, 2, NULL);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id, 1), KV_EEXISTS);
	simreq_get_one(&r, "k", &(struct simget_opts){ .inline_max = 9 }, &g);
	assert_memory_equal(g.bytes, "one", 3);
	simreq_close(&r);
}

static void
a_second_put_waits_for_the_first(void **state)
{
	struct simput item = { "k", 1000, NULL };
	struct simreq a, b;
	struct simgrant g;
	uint64_t first, second;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	first = simreq_put(&a, &item, 1, NULL);
	second = simreq_put(&b, &item, 1, NULL);
	assert_true(simreq_grant(&a, first, 0, &g));
	simnode_run(&sim, 100);
	assert_int_equal(simreq_put_status(&b, second, 0), -1);
	simreq_filled(&a, first, g.grant, false);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&a, first, 0), KV_OK);
	assert_int_equal(simreq_put_status(&b, second, 0), KV_EEXISTS);
	simreq_close(&a);
	simreq_close(&b);
}

static void
a_second_put_goes_on_when_the_first_fails(void **state)
{
	struct simput item = { "k", 1000, NULL };
	struct simput small = { "k", 3, "abc" };
	struct simreq a, b, c;
	struct simgrant g;
	struct simgot got;
	uint64_t first, second, third;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	simreq_open_tcp(&c, &sim);
	first = simreq_put(&a, &item, 1, NULL);
	second = simreq_put(&b, &small, 1, NULL);
	third = simreq_put(&c, &item, 1, NULL);
	assert_true(simreq_grant(&a, first, 0, &g));
	simreq_filled(&a, first, g.grant, true);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&a, first, 0), KV_ECANCELED);
	assert_int_equal(simreq_put_status(&b, second, 0), KV_OK);
	assert_int_equal(simreq_put_status(&c, third, 0), KV_EEXISTS);
	simreq_get_one(&c, "k", &(struct simget_opts){ .inline_max = 9 }, &got);
	assert_memory_equal(got.bytes, "abc", 3);
	simreq_close(&a);
	simreq_close(&b);
	simreq_close(&c);
}

/* The answer of the first may have been lost on its way. */
static void
a_put_sent_again_is_the_same_put(void **state)
{
	struct simput items[] = {
		{ "k", 3, "abc" },
		{ "l", 1000, NULL },
		{ "k", 3, "xyz" },
	};
	struct simput_opts opts = { .random = 99 };
	struct simreq a, b;
	struct simgrant g;
	uint64_t first, second;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	first = simreq_put(&a, items, 2, &opts);
	assert_true(simreq_grant(&a, first, 1, &g));
	second = simreq_put(&b, items, 3, &opts);
	simreq_filled(&a, first, g.grant, false);
	simnode_run(&sim, 5);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(simreq_put_status(&a, first, i), KV_OK);
		assert_int_equal(simreq_put_status(&b, second, i), KV_OK);
	}
	assert_int_equal(simreq_put_status(&b, second, 2), KV_EEXISTS);
	opts.random = 98;
	second = simreq_put(&b, items, 2, &opts);
	assert_int_equal(simreq_put_status(&b, second, 0), KV_EEXISTS);
	simreq_close(&a);
	simreq_close(&b);
}

static void
a_waiting_put_has_its_own_budget(void **state)
{
	struct simput item = { "k", 1000, NULL };
	struct simreq a, b;
	uint64_t first, second;

	(void)state;
	simreq_open_unix(&a, &sim, 0);
	simreq_open_unix(&b, &sim, 0);
	first = simreq_put(&a, &item, 1, NULL);
	second = simreq_put(&b, &item, 1,
			    &(struct simput_opts){ .budget_ms = 100 });
	simnode_run(&sim, 110);
	assert_int_equal(simreq_put_status(&b, second, 0), KV_ETIMEOUT);
	assert_int_equal(simreq_put_status(&a, first, 0), -1);
	simreq_close(&a);
	simreq_close(&b);
}

static void
upsert_replaces_an_older_version_only(void **state)
{
	struct simput one = { "k", 3, "one" }, two = { "k", 3, "two" };
	struct simput_opts up = { .flags = KV_PUT_UPSERT, .version = 2 };
	struct simreq r;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "k", "one"), KV_OK);
	id = simreq_put(&r, &two, 1, &up);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	simreq_get_one(&r, "k", &(struct simget_opts){ .inline_max = 9 }, &g);
	assert_memory_equal(g.bytes, "two", 3);
	id = simreq_put(&r, &one, 1, &up);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
	up.version = 1;
	id = simreq_put(&r, &one, 1, &up);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
	up = (struct simput_opts){ .version = 9 };
	id = simreq_put(&r, &one, 1, &up);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_EEXISTS);
	assert_int_equal(sim.masters[0].n_held, 1);
	simreq_close(&r);
}

/* ---- what is refused ---- */

static void
mapped_mode_needs_an_attachment(void **state)
{
	struct simput item = { "k", 10, NULL };
	struct simreq r;
	uint64_t id, token;

	(void)state;
	simreq_open_tcp(&r, &sim);
	token = r.data_token;
	r.data_token = 0; /* now it asks for the mapping */
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_refusal(&r, id), KV_EDENIED);
	r.data_token = token;
	simreq_close(&r);
}

static void
an_empty_or_huge_batch_is_invalid(void **state)
{
	static struct simput items[KV_BATCH_KEYS_MAX + 1];
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	id = simreq_put(&r, items, 0, NULL);
	assert_int_equal(simreq_put_refusal(&r, id), KV_EINVALID);
	for (int i = 0; i <= KV_BATCH_KEYS_MAX; i++)
		items[i] = (struct simput){ "k", 0, "" };
	id = simreq_put(&r, items, KV_BATCH_KEYS_MAX + 1, NULL);
	assert_int_equal(simreq_put_refusal(&r, id), KV_EINVALID);
	id = simreq_put(&r, items, KV_BATCH_KEYS_MAX, NULL);
	simnode_run(&sim, 5);
	assert_int_equal(simreq_put_status(&r, id, 0), KV_OK);
	assert_int_equal(simreq_put_status(&r, id, KV_BATCH_KEYS_MAX - 1),
			 KV_EEXISTS);
	simreq_close(&r);
}

static void
too_many_requests_at_once_are_busy(void **state)
{
	struct simput item = { "k", 10, NULL };
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < KV_PEER_REQUESTS_MAX; i++)
		simreq_put(&r, &item, 1,
			   &(struct simput_opts){ .budget_ms = 100000 });
	id = simreq_put(&r, &item, 1, NULL);
	assert_int_equal(simreq_put_refusal(&r, id), KV_EBUSY);
	assert_int_equal(simnode_stat(&sim, "requests_busy"), 1);
	simreq_close(&r);
}

static void
a_broken_put_ends_the_connection(void **state)
{
	struct kv_put m = { .count = kv_le32(1), .mode = KV_MODE_DATA };
	struct kv_put_ent e = { .size = kv_le64(10), .key_len = kv_le16(5) };
	const struct {
		struct kv_put_ent e;
		size_t n;
		uint32_t count;
	} bad[] = {
		{ e, sizeof(e) - 1, 1 },      { e, sizeof(e), 1 },
		{ e, sizeof(e) + 4, 1 },      { e, sizeof(e) + 6, 1 },
		{ e, sizeof(e), UINT32_MAX }, { e, sizeof(e) + 5, 2 },
	};
	char tail[64];
	struct simreq r;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		simreq_open_tcp(&r, &sim);
		memset(tail, 'k', sizeof(tail));
		memcpy(tail, &bad[i].e, sizeof(e));
		m.count = kv_le32(bad[i].count);
		wirepeer_send(&r.control, KV_MSG_PUT, 1, &m, tail, bad[i].n);
		simnode_run(&sim, 5);
		assert_true(r.control.is_lost);
		assert_true(r.data.is_lost);
		simreq_close(&r);
	}
	/* An inline value longer than may be. */
	simreq_open_tcp(&r, &sim);
	m.count = kv_le32(1);
	e.flags = KV_ENT_INLINE;
	e.size = kv_le64(KV_INLINE_BYTES_MAX + 1);
	memcpy(blob, &e, sizeof(e));
	wirepeer_send(&r.control, KV_MSG_PUT, 1, &m, blob,
		      sizeof(e) + 5 + KV_INLINE_BYTES_MAX + 1);
	simnode_run(&sim, 10);
	assert_true(r.control.is_lost);
	simreq_close(&r);
	assert_int_equal(simnode_stat(&sim, "requests_bad"), 7);
}

#define WITH(start, f) cmocka_unit_test_setup_teardown(f, start, noderig_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(noderig_one, a_small_value_rides_in_the_message),
		WITH(noderig_one, a_process_of_this_host_fills_in_place),
		WITH(noderig_one, bytes_come_on_a_data_connection),
		WITH(noderig_one, the_empty_value_needs_no_grant),
		WITH(noderig_one, a_batch_is_answered_once_and_key_by_key),
		WITH(noderig_one, a_key_with_a_value_exists),
		WITH(noderig_one, the_first_of_two_equal_keys_wins),
		WITH(noderig_one, a_second_put_waits_for_the_first),
		WITH(noderig_one, a_second_put_goes_on_when_the_first_fails),
		WITH(noderig_one, a_put_sent_again_is_the_same_put),
		WITH(noderig_alone, a_put_sent_again_is_the_same_put),
		WITH(noderig_alone, the_first_of_two_equal_keys_wins),
		WITH(noderig_one, a_waiting_put_has_its_own_budget),
		WITH(noderig_one, upsert_replaces_an_older_version_only),
		WITH(noderig_one, mapped_mode_needs_an_attachment),
		WITH(noderig_one, an_empty_or_huge_batch_is_invalid),
		WITH(noderig_one, too_many_requests_at_once_are_busy),
		WITH(noderig_one, a_broken_put_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
