/* GET and LOOKUP at a node: what an answer says, and what is refused. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "wire/msg.h"

#include "noderig.h"
#include "test.h"

/* ---- what an answer says ---- */

static void
unknown_keys_are_misses(void **state)
{
	const char *keys[] = { "a", "b", "c" };
	struct simgot g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_tcp(&r, &sim);
	assert_int_equal(simreq_put_inline(&r, "b", "here"), KV_OK);
	id = simreq_get(&r, keys, 3, &(struct simget_opts){ .inline_max = 9 });
	assert_true(simreq_got(&r, id, 0, &g));
	assert_int_equal(g.status, KV_EMISS);
	assert_int_equal(g.how, KV_HOW_NONE);
	assert_int_equal(g.size, 0);
	assert_true(simreq_got(&r, id, 1, &g));
	assert_int_equal(g.status, KV_OK);
	assert_memory_equal(g.bytes, "here", 4);
	assert_true(simreq_got(&r, id, 2, &g));
	assert_int_equal(g.status, KV_EMISS);
	assert_int_equal(simnode_stat(&sim, "gets"), 3);
	assert_int_equal(simnode_stat(&sim, "gets_hit"), 1);
	assert_int_equal(simnode_stat(&sim, "get_bytes"), 4);
	simreq_close(&r);
}

static void
a_small_buffer_is_told_the_size(void **state)
{
	struct simgot g;
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 1000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k",
					&(struct simget_opts){ .len = 999 },
					&g),
			 KV_ETOOBIG);
	assert_int_equal(g.size, 1000);
	assert_int_equal(g.how, KV_HOW_NONE);
	assert_int_equal(simnode_stat(&sim, "pins"), 0);
	assert_int_equal(simreq_get_one(&r, "k",
					&(struct simget_opts){ .len = 1000 },
					&g),
			 KV_OK);
	simreq_close(&r);
}

static void
a_part_is_what_exists_of_it(void **state)
{
	struct simget_opts part = {
		.is_range = true, .off = 100, .len = 50, .inline_max = 9999
	};
	struct simgot g;
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "k", blob, 1000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", &part, &g), KV_OK);
	assert_int_equal(g.inline_len, 50);
	assert_int_equal(g.size, 1000);
	assert_memory_equal(g.bytes, blob + 100, 50);
	part.off = 990;
	assert_int_equal(simreq_get_one(&r, "k", &part, &g), KV_OK);
	assert_int_equal(g.inline_len, 10);
	assert_memory_equal(g.bytes, blob + 990, 10);
	part.off = UINT64_MAX;
	assert_int_equal(simreq_get_one(&r, "k", &part, &g), KV_OK);
	assert_int_equal(g.inline_len, 0);
	part.off = 7;
	part.inline_max = 0;
	assert_int_equal(simreq_get_one(&r, "k", &part, &g), KV_OK);
	assert_int_equal(g.how, KV_HOW_EXTENTS);
	assert_int_equal(g.ext_len, 50);
	assert_memory_equal(sim.pool + g.ext_off, blob + 7, 50);
	simreq_close(&r);
}

static void
zero_copy_is_never_inline(void **state)
{
	struct simget_opts opts = { .flags = KV_GET_ZERO_COPY,
				    .inline_max = 9999 };
	struct simgot g;
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_inline(&r, "k", "abc"), KV_OK);
	assert_int_equal(simreq_get_one(&r, "k", &opts, &g), KV_OK);
	assert_int_equal(g.how, KV_HOW_EXTENTS);
	assert_int_equal(g.ext_len, 3);
	assert_memory_equal(sim.pool + g.ext_off, "abc", 3);
	assert_int_not_equal(g.pin, 0);
	simreq_close(&r);
}

static void
what_does_not_fit_in_the_answer_is_pinned(void **state)
{
	enum {
		N = 14, /* of 64 KiB: more than a frame holds */
	};
	char names[N][16];
	const char *keys[2 * N];
	struct simgot g;
	struct simreq r;
	unsigned inl = 0, ext = 0;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "%d", i % 100);
		keys[i] = keys[N + i] = names[i];
		assert_int_equal(simreq_put_one(&r, names[i], blob + i, 65536),
				 KV_OK);
	}
	id = simreq_get(&r, keys, 2 * N,
			&(struct simget_opts){ .inline_max = 65536 });
	for (int i = 0; i < 2 * N; i++) {
		assert_true(simreq_got(&r, id, i, &g));
		if (g.status == KV_EBUSY)
			continue;
		assert_int_equal(g.status, KV_OK);
		inl += g.how == KV_HOW_INLINE;
		ext += g.how == KV_HOW_EXTENTS;
		if (g.how == KV_HOW_INLINE)
			assert_memory_equal(g.bytes, blob + i % N, 256);
		else
			assert_memory_equal(sim.pool + g.ext_off, blob + i % N,
					    65536);
	}
	assert_int_equal(inl, 15);
	assert_true(ext >= 4);
	simreq_close(&r);
}

/* ---- values in pieces ---- */

/* Half of the pool in holes of 64 KiB. */
static void
make_holes(struct simreq *r)
{
	struct kv_remove m = { .op = KV_REMOVE_KEYS, .count = kv_le32(1) };
	char tail[16], key[16];

	for (int i = 0; i < 16; i++) {
		snprintf(key, sizeof(key), "h%02d", i);
		assert_int_equal(simreq_put_one(r, key, blob, 65536), KV_OK);
	}
	for (int i = 0; i < 16; i += 2) {
		tail[0] = 3;
		tail[1] = 0;
		snprintf(tail + 2, sizeof(tail) - 2, "h%02d", i);
		wirepeer_send(&r->control, KV_MSG_REMOVE, 1, &m, tail, 5);
	}
	simnode_run(&sim, 5);
	assert_int_equal(simnode_stat(&sim, "removed"), 8);
}

static void
a_scattered_value_is_whole(void **state)
{
	struct simget_opts part = { .is_range = true,
				    .off = 65530,
				    .len = 65550 };
	struct simput_opts no_evict = { .flags = KV_PUT_NO_EVICT };
	struct simput item = { "k", 200000, NULL };
	uint8_t *got = calloc(1, 200000);
	struct simreq r, tcp;
	struct wireframe *f;
	struct simgrant gr;
	struct simgot g;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	simreq_open_tcp(&tcp, &sim);
	make_holes(&r);
	id = simreq_put(&tcp, &item, 1, &no_evict);
	assert_true(simreq_grant(&tcp, id, 0, &gr));
	wirepeer_send_data(&tcp.data, gr.grant, 0, blob, 200000);
	simnode_run(&sim, 10);
	assert_int_equal(simreq_put_status(&tcp, id, 0), KV_OK);

	assert_int_equal(simreq_get_one(&tcp, "k", NULL, &g), KV_OK);
	simnode_run(&sim, 10);
	f = wirepeer_take(&tcp.data, KV_MSG_DATA);
	assert_int_equal(f->payload_len, 200000);
	assert_memory_equal(f->payload, blob, 200000);
	wireframe_free(f);

	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_OK);
	assert_int_equal(g.extents, 4);
	assert_memory_equal(sim.pool + g.ext_off, blob, g.ext_len);
	simreq_release(&r, g.pin);
	/* Six bytes of the first piece, the second, eight of the third. */
	assert_int_equal(simreq_get_one(&r, "k", &part, &g), KV_OK);
	assert_int_equal(g.extents, 3);
	assert_int_equal(g.ext_len, 6);
	assert_memory_equal(sim.pool + g.ext_off, blob + 65530, 6);
	simreq_release(&r, g.pin);
	assert_int_equal(simreq_get_one(&tcp, "k", &part, &g), KV_OK);
	simnode_run(&sim, 10);
	f = wirepeer_take(&tcp.data, KV_MSG_DATA);
	assert_int_equal(f->payload_len, 65550);
	assert_memory_equal(f->payload, blob + 65530, 65550);
	wireframe_free(f);
	simreq_close(&r);
	simreq_close(&tcp);
	free(got);
}

static void
a_scattered_value_is_copied_inline(void **state)
{
	struct simget_opts part = {
		.is_range = true, .off = 65530, .len = 200, .inline_max = 65536
	};
	struct simreq r;
	struct simgot g;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	make_holes(&r);
	{
		struct simput item = { "k", 70000, NULL };
		struct simput_opts opts = { .flags = KV_PUT_NO_EVICT };
		struct simgrant gr;
		uint64_t id = simreq_put(&r, &item, 1, &opts);

		assert_true(simreq_grant(&r, id, 0, &gr));
		assert_int_equal(gr.extents, 2);
		memset(sim.pool + gr.off, 'x', 65536);
		simreq_filled(&r, id, gr.grant, false);
	}
	assert_int_equal(simreq_get_one(&r, "k", &part, &g), KV_OK);
	assert_int_equal(g.how, KV_HOW_INLINE);
	assert_int_equal(g.inline_len, 200);
	assert_memory_equal(g.bytes, "xxxxxx", 6);
	assert_int_not_equal(g.bytes[6], 'x');
	simreq_close(&r);
}

/* ---- what is refused ---- */

static void
the_mapping_needs_an_attachment(void **state)
{
	struct simgot g;
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	r.data_token = 0;
	assert_int_equal(simreq_get_one(&r, "k", NULL, &g), KV_EDENIED);
	simreq_close(&r);
}

static void
an_empty_or_huge_batch_is_invalid(void **state)
{
	static const char *keys[KV_BATCH_KEYS_MAX + 1];
	struct simgot g;
	struct simreq r;
	uint64_t id;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	for (int i = 0; i <= KV_BATCH_KEYS_MAX; i++)
		keys[i] = "k";
	id = simreq_get(&r, keys, 0, NULL);
	assert_true(simreq_got(&r, id, 0, &g));
	assert_int_equal(g.status, KV_EINVALID);
	id = simreq_get(&r, keys, KV_BATCH_KEYS_MAX + 1, NULL);
	assert_true(simreq_got(&r, id, 0, &g));
	assert_int_equal(g.status, KV_EINVALID);
	id = simreq_get(&r, keys, KV_BATCH_KEYS_MAX, NULL);
	assert_true(simreq_got(&r, id, KV_BATCH_KEYS_MAX - 1, &g));
	assert_int_equal(g.status, KV_EMISS);
	simreq_close(&r);
}

static void
a_broken_get_ends_the_connection(void **state)
{
	struct kv_get m = { .mode = KV_MODE_DATA };
	struct kv_get_ent e = { .key_len = kv_le16(5) };
	const struct {
		uint32_t count;
		size_t n;
	} bad[] = { { 1, sizeof(e) - 1 },
		    { 1, sizeof(e) + 4 },
		    { 1, sizeof(e) + 6 },
		    { 2, sizeof(e) + 5 },
		    { UINT32_MAX, sizeof(e) + 5 } };
	char tail[64] = { 0 };
	struct simreq r;

	(void)state;
	memcpy(tail, &e, sizeof(e));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		simreq_open_tcp(&r, &sim);
		m.count = kv_le32(bad[i].count);
		wirepeer_send(&r.control, KV_MSG_GET, 1, &m, tail, bad[i].n);
		simnode_run(&sim, 5);
		assert_true(r.control.is_lost);
		simreq_close(&r);
	}
}

/* ---- LOOKUP ---- */

static struct wireframe *
lookup(struct simreq *r, const char *const *keys, unsigned n, uint8_t flags)
{
	struct kv_lookup m = { .count = kv_le32(n), .flags = flags };
	struct kv_id ids[8];

	for (unsigned i = 0; i < n; i++)
		ids[i] = simnode_hash(keys[i]);
	wirepeer_send(&r->control, KV_MSG_LOOKUP, 9, &m, ids,
		      n * sizeof(ids[0]));
	simnode_run(&sim, 3);
	return wirepeer_take(&r->control, KV_MSG_LOOKUP_R);
}

static void
lookup_names_the_node_itself(void **state)
{
	const char *keys[] = { "a", "b", "c" };
	const struct kv_lookup_r *m;
	const struct kv_node_rec *rec;
	struct wireframe *f;
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	simreq_put_inline(&r, "a", "1");
	simreq_put_inline(&r, "c", "3");
	f = lookup(&r, keys, 3, 0);
	assert_non_null(f);
	m = (void *)f->body;
	assert_int_equal(kv_get32(m->count), 3);
	assert_int_equal(kv_get16(m->nodes), 1);
	assert_memory_equal(f->tail, "\1\0\1\0\0\0\0", 7);
	rec = (void *)(f->tail + 7);
	assert_int_equal(f->tail_len, 7 + sizeof(*rec) + 7 + 1);
	assert_true(kv_id_is_equal(rec->boot, *kv_node_boot(sim.node)));
	assert_int_equal(rec->state, KV_NODE_LIVE);
	assert_int_equal(kv_get64(rec->keys), 2);
	assert_int_equal(rec->addr_len, 7);
	assert_memory_equal(rec + 1, "n:50052n", 8);
	wireframe_free(f);
	/* Nothing found: no record. */
	f = lookup(&r, keys + 1, 1, 0);
	assert_int_equal(f->tail_len, 1);
	assert_int_equal(f->tail[0], 0);
	wireframe_free(f);
	f = lookup(&r, keys, 0, 0);
	assert_int_equal(f->tail_len, 0);
	wireframe_free(f);
	simreq_close(&r);
}

static void
a_confirmed_key_leaves_after_others(void **state)
{
	const char *keys[] = { "old", "no" };
	struct wireframe *f;
	struct simreq r;

	(void)state;
	simreq_open_unix(&r, &sim, 0);
	assert_int_equal(simreq_put_one(&r, "old", blob, 300000), KV_OK);
	assert_int_equal(simreq_put_one(&r, "new", blob, 300000), KV_OK);
	f = lookup(&r, keys, 2, KV_LOOKUP_EXIST);
	assert_int_equal(f->tail_len, 2);
	assert_int_equal(f->tail[0], 1);
	assert_int_equal(f->tail[1], 0);
	wireframe_free(f);
	assert_int_equal(simreq_put_one(&r, "next", blob, 600000), KV_OK);
	assert_int_equal(simreq_get_one(&r, "new", NULL, NULL), KV_EMISS);
	assert_int_equal(simreq_get_one(&r, "old", NULL, NULL), KV_OK);
	simreq_close(&r);
}

static void
a_broken_lookup_ends_the_connection(void **state)
{
	struct kv_lookup m = { .count = kv_le32(2) };
	char tail[64] = { 0 };
	struct simreq r;

	(void)state;
	simreq_open_tcp(&r, &sim);
	wirepeer_send(&r.control, KV_MSG_LOOKUP, 1, &m, tail, 33);
	simnode_run(&sim, 5);
	assert_true(r.control.is_lost);
	simreq_close(&r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, noderig_alone, noderig_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unknown_keys_are_misses),
		TEST(a_small_buffer_is_told_the_size),
		TEST(a_part_is_what_exists_of_it),
		TEST(zero_copy_is_never_inline),
		TEST(what_does_not_fit_in_the_answer_is_pinned),
		TEST(a_scattered_value_is_whole),
		TEST(a_scattered_value_is_copied_inline),
		TEST(the_mapping_needs_an_attachment),
		TEST(an_empty_or_huge_batch_is_invalid),
		TEST(a_broken_get_ends_the_connection),
		TEST(lookup_names_the_node_itself),
		TEST(a_confirmed_key_leaves_after_others),
		TEST(a_broken_lookup_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
