/*
 * Two engines with NICs, over simulated ones: this side's rails, and what the
 * other side serves. Every byte is compared, also those that must not come.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hcahost.h"
#include "kvpool.h"
#include "nth_fault.h"
#include "railhosts.h"
#include "test.h"
#include "xfer/note.h"

/* ---- transfers ---- */

static uint8_t
byte_at(size_t i, unsigned seed)
{
	return (uint8_t)(i * 31 + i / 251 + seed * 7 + 1);
}

static void
fill(uint8_t *p, unsigned seed)
{
	for (size_t i = 0; i < RAILHOSTS_BYTES; i++)
		p[i] = byte_at(i, seed);
}

static bool
is_filled(const uint8_t *p, uint8_t with)
{
	for (size_t i = 0; i < RAILHOSTS_BYTES; i++)
		if (p[i] != with)
			return false;
	return true;
}

/* All of the memory, in a rh.batch, within so many milliseconds. */
static int
move_in(enum kv_engine_op op, unsigned ms)
{
	const struct kv_xfer_item item = { rh.near.memory,
					   (uintptr_t)rh.far.memory,
					   RAILHOSTS_BYTES };
	struct kv_slice_cursor c = { .item = &item, .left = RAILHOSTS_BYTES };
	struct kv_wait wait = railhosts_in_ms(ms);
	int rc;

	rh.batch->op = op;
	kv_railbatch_fill(rh.batch, rh.table, &c);
	assert_int_equal(rh.batch->bytes, RAILHOSTS_BYTES);
	rc = kv_railset_move(rh.rails, rh.batch, &wait);
	kv_railbatch_release(rh.batch);
	return rc;
}

static int
move(enum kv_engine_op op)
{
	return move_in(op, 10000);
}

static void
bytes_are_written_and_read(void **state)
{
	(void)state;
	railhosts_settle(3);
	fill(rh.near.memory, 1);
	assert_int_equal(move(KV_ENGINE_WRITE), 0);
	assert_memory_equal(rh.near.memory, rh.far.memory, RAILHOSTS_BYTES);
	fill(rh.far.memory, 2);
	assert_int_equal(move(KV_ENGINE_READ), 0);
	assert_memory_equal(rh.near.memory, rh.far.memory, RAILHOSTS_BYTES);
	assert_int_equal(rh.near.memory[5], byte_at(5, 2));
}

/* Pieces in an order of their railhosts_own, here and there. */
static void
pieces_keep_their_places(void **state)
{
	enum {
		N = 1000,
		PIECE = RAILHOSTS_BYTES / N
	};
	struct kv_xfer_item *items = calloc(N, sizeof(*items));
	struct kv_slice_cursor c = { .item = items, .left = N * PIECE };
	struct kv_wait wait = railhosts_in_ms(10000);

	(void)state;
	railhosts_settle(3);
	fill(rh.near.memory, 3);
	for (size_t i = 0; i < N; i++) {
		items[i].local = rh.near.memory + i * 389 % N * PIECE;
		items[i].remote = (uintptr_t)rh.far.memory + i * PIECE;
		items[i].len = PIECE;
	}
	kv_railbatch_fill(rh.batch, rh.table, &c);
	assert_int_equal(c.left, 0);
	assert_int_equal(kv_railset_move(rh.rails, rh.batch, &wait), 0);
	kv_railbatch_release(rh.batch);
	for (size_t i = 0; i < N; i++)
		assert_memory_equal(rh.far.memory + i * PIECE, items[i].local,
				    PIECE);
	free(items);
}

/* ---- the ring ---- */

enum {
	LOOSE = 500, /* pieces, */
	LOOSE_BYTES = 3001,
	LOOSE_STEP = 4096,
};

/* Memory that NICs do not know, in pieces. */
static struct {
	uint8_t *memory;
	struct kv_xfer_item items[LOOSE];
} loose;

static void
loose_begin(enum kv_engine_op op)
{
	struct kv_slice_cursor c = {
		.item = loose.items,
		.left = (uint64_t)LOOSE * LOOSE_BYTES,
	};

	loose.memory = malloc((size_t)LOOSE * LOOSE_STEP);
	assert_non_null(loose.memory);
	memset(loose.memory, 0x5a, (size_t)LOOSE * LOOSE_STEP);
	for (size_t i = 0; i < LOOSE; i++) {
		loose.items[i].local =
			loose.memory + i * 389 % LOOSE * LOOSE_STEP;
		loose.items[i].remote =
			(uintptr_t)rh.far.memory + 7 * i + i * LOOSE_BYTES;
		loose.items[i].len = LOOSE_BYTES;
	}
	for (size_t i = 0; op == KV_ENGINE_WRITE && i < LOOSE; i++)
		for (size_t k = 0; k < LOOSE_BYTES; k++)
			((uint8_t *)loose.items[i].local)[k] =
				byte_at(i * LOOSE_BYTES + k, 4);
	rh.batch->op = op;
	kv_railbatch_fill(rh.batch, rh.table, &c);
	assert_int_equal(c.left, 0);
	assert_non_null(rh.batch->span.from);
}

static void
loose_end(void)
{
	kv_railbatch_release(rh.batch);
	assert_true(kv_list_is_empty(&rh.near.regions.ring.spans));
	free(loose.memory);
}

/* What is between the pieces, too. */
static void
loose_check(unsigned seed)
{
	for (size_t i = 0; i < LOOSE; i++) {
		const uint8_t *p = loose.items[i].local;
		size_t far = loose.items[i].remote - (uintptr_t)rh.far.memory;

		for (size_t k = 0; k < LOOSE_BYTES; k++)
			assert_int_equal(p[k], byte_at(far + k, seed));
		for (size_t k = LOOSE_BYTES; k < LOOSE_STEP; k++)
			assert_int_equal(p[k], 0x5a);
	}
}

static bool
loose_is_untouched(void)
{
	for (size_t i = 0; i < (size_t)LOOSE * LOOSE_STEP; i++)
		if (loose.memory[i] != 0x5a)
			return false;
	return true;
}

static void
other_memory_is_written_and_read(void **state)
{
	struct kv_wait wait = railhosts_in_ms(10000);

	(void)state;
	railhosts_settle(kv_rdma_ports(rh.near.rdma));
	memset(rh.far.memory, 0x11, RAILHOSTS_BYTES);
	loose_begin(KV_ENGINE_WRITE);
	/* The caller's memory has been read by then. */
	memset(loose.memory, 0, (size_t)LOOSE * LOOSE_STEP);
	assert_int_equal(kv_railset_move(rh.rails, rh.batch, &wait), 0);
	for (size_t i = 0; i < LOOSE; i++) {
		const uint8_t *p = rh.far.memory + i * (LOOSE_BYTES + 7);

		for (size_t k = 0; k < LOOSE_BYTES; k++)
			assert_int_equal(p[k], byte_at(i * LOOSE_BYTES + k, 4));
		for (size_t k = LOOSE_BYTES; k < LOOSE_BYTES + 7; k++)
			assert_int_equal(p[k], 0x11);
	}
	loose_end();
	fill(rh.far.memory, 5);
	loose_begin(KV_ENGINE_READ);
	assert_int_equal(kv_railset_move(rh.rails, rh.batch, &wait), 0);
	assert_true(loose_is_untouched());
	kv_railbatch_unpack(rh.batch);
	loose_check(5);
	loose_end();
}

static void
a_read_that_is_given_up_has_touched_nothing(void **state)
{
	struct kv_wait wait;

	(void)state;
	railhosts_settle(1);
	fill(rh.far.memory, 6);
	hca_rate(rh.far.ports[0], 0.1); /* 15 ms for all */
	loose_begin(KV_ENGINE_READ);
	wait = railhosts_in_ms(10);
	assert_int_equal(kv_railset_move(rh.rails, rh.batch, &wait),
			 -ETIMEDOUT);
	assert_true(loose_is_untouched());
	railhosts_us(3000000);
	assert_true(loose_is_untouched());
	loose_end();
}

/* ---- the other side's memory goes ---- */

static void
unregister(struct railhosts_side *s)
{
	const struct kv_clock clock = { 0 };
	struct kv_region *r;

	assert_int_equal(kv_region_begin_end(&s->regions, s->memory,
					     KV_REGION_UNREGISTER, &r),
			 0);
	assert_int_equal(kv_region_wait(&s->regions, r,
					kv_clock_now(&clock) + KV_NS_PER_S),
			 0);
	kv_region_end(&s->regions, r, true);
}

static void
unregister_when_half_is_there(void)
{
	if (!rh.far.memory[RAILHOSTS_BYTES / 2])
		return;
	assert_int_equal(rh.far.memory[RAILHOSTS_BYTES - 1], 0);
	unregister(&rh.far);
	memset(rh.far.memory, 0xee, RAILHOSTS_BYTES);
	rh.meanwhile = NULL;
}

static void
what_was_unregistered_is_not_written(void **state)
{
	(void)state;
	railhosts_settle(3);
	fill(rh.near.memory, 1);
	rh.meanwhile = unregister_when_half_is_there;
	assert_int_equal(move(KV_ENGINE_WRITE), -EACCES);
	assert_null(rh.meanwhile);
	railhosts_us(3000000);
	assert_true(is_filled(rh.far.memory, 0xee));
}

static void
what_is_not_registered_any_more_is_not_read(void **state)
{
	(void)state;
	railhosts_settle(1);
	fill(rh.far.memory, 1);
	unregister(&rh.far);
	assert_int_equal(move(KV_ENGINE_READ), -EACCES);
	assert_true(is_filled(rh.near.memory, 0));
}

/* ---- this side's memory goes ---- */

static void
end_own_region(void)
{
	struct kv_region *r;

	assert_int_equal(kv_region_begin_end(&rh.near.regions, rh.near.memory,
					     KV_REGION_UNREGISTER, &r),
			 0);
	rh.meanwhile = NULL;
}

static void
whoever_waits_for_our_memory_gets_it(void **state)
{
	const struct kv_clock clock = { 0 };
	struct kv_region *r = rh.near.regions.by_addr[0];
	uint64_t start;

	(void)state;
	railhosts_settle(1);
	fill(rh.far.memory, 1);
	hca_rate(rh.far.ports[0], 0.002); /* 1.5 s for all */
	rh.meanwhile = end_own_region;
	start = rh.pair.clock.ns;
	assert_int_equal(move(KV_ENGINE_READ), -EBUSY);
	assert_in_range(rh.pair.clock.ns - start, 500 * KV_NS_PER_MS,
			560 * KV_NS_PER_MS);
	assert_int_equal(kv_region_wait(&rh.near.regions, r,
					kv_clock_now(&clock) + KV_NS_PER_S),
			 0);
	kv_region_end(&rh.near.regions, r, true);
	memset(rh.near.memory, 0xee, RAILHOSTS_BYTES);
	railhosts_us(3000000);
	assert_true(is_filled(rh.near.memory, 0xee));
}

/* ---- rh.rails that fail ---- */

static void
cut(unsigned i)
{
	hca_cut(rh.near.ports[i], NULL, true);
	hca_cut(rh.far.ports[i], NULL, true);
}

static void
cut_one_when_some_is_there(void)
{
	if (!rh.far.memory[1000])
		return;
	cut(1);
	rh.meanwhile = NULL;
}

static void
others_take_over_from_a_rail_that_dies(void **state)
{
	uint64_t start;

	(void)state;
	railhosts_settle(3);
	fill(rh.near.memory, 1);
	rh.meanwhile = cut_one_when_some_is_there;
	start = rh.pair.clock.ns;
	assert_int_equal(move(KV_ENGINE_WRITE), 0);
	assert_null(rh.meanwhile);
	assert_memory_equal(rh.near.memory, rh.far.memory, RAILHOSTS_BYTES);
	/* It had to be missed first. */
	assert_in_range(rh.pair.clock.ns - start, 400 * KV_NS_PER_MS,
			1500 * KV_NS_PER_MS);
	memset(rh.near.memory, 0, RAILHOSTS_BYTES);
	assert_int_equal(move(KV_ENGINE_READ), 0);
	assert_memory_equal(rh.near.memory, rh.far.memory, RAILHOSTS_BYTES);
}

static void
cut_all_when_some_is_there(void)
{
	if (!rh.far.memory[1000])
		return;
	for (unsigned i = 0; i < 3; i++)
		cut(i);
	rh.meanwhile = NULL;
}

static void
without_a_rail_there_are_other_means(void **state)
{
	uint64_t start;

	(void)state;
	railhosts_settle(3);
	fill(rh.near.memory, 1);
	rh.meanwhile = cut_all_when_some_is_there;
	start = rh.pair.clock.ns;
	assert_int_equal(move(KV_ENGINE_WRITE), 1);
	assert_true(kv_railset_why(rh.rails)[0]);
	assert_true(rh.pair.clock.ns - start < 3 * KV_NS_PER_S);
	/* The peer had fenced them: nothing comes when they are mended. */
	memset(rh.far.memory, 0xee, RAILHOSTS_BYTES);
	for (unsigned i = 0; i < 3; i++) {
		hca_cut(rh.near.ports[i], NULL, false);
		hca_cut(rh.far.ports[i], NULL, false);
	}
	railhosts_us(3000000);
	assert_true(is_filled(rh.far.memory, 0xee));
}

static void
where_no_rail_leads_it_is_said(void **state)
{
	struct kv_wait wait = railhosts_in_ms(5000);

	(void)state;
	cut(0);
	assert_int_equal(kv_railset_settle(rh.rails, &wait), 1);
	assert_true(kv_railset_why(rh.rails)[0]);
}

static void
a_peer_without_ports_says_so(void **state)
{
	struct kv_wait wait = railhosts_in_ms(5000);

	(void)state;
	assert_int_equal(kv_railset_settle(rh.rails, &wait), 1);
	assert_string_equal(kv_railset_why(rh.rails), "the peer has no RDMA");
}

/* ---- the end of a call ---- */

static void
after_the_deadline_nothing_comes(void **state)
{
	(void)state;
	railhosts_settle(1);
	fill(rh.far.memory, 1);
	hca_rate(rh.far.ports[0], 0.1); /* 30 ms for all */
	assert_int_equal(move_in(KV_ENGINE_READ, 10), -ETIMEDOUT);
	assert_int_not_equal(rh.near.memory[0], 0);
	memset(rh.near.memory, 0xee, RAILHOSTS_BYTES);
	railhosts_us(3000000);
	assert_true(is_filled(rh.near.memory, 0xee));
}

/* There too, as soon as the peer knows. */
static void
after_the_deadline_of_a_write_nothing_comes_for_long(void **state)
{
	(void)state;
	railhosts_settle(1);
	fill(rh.near.memory, 1);
	hca_rate(rh.near.ports[0], 0.1);
	assert_int_equal(move_in(KV_ENGINE_WRITE, 10), -ETIMEDOUT);
	railhosts_us(100);
	memset(rh.far.memory, 0xee, RAILHOSTS_BYTES);
	railhosts_us(3000000);
	assert_true(is_filled(rh.far.memory, 0xee));
}

static void
end_engine(void)
{
	kv_serve_free(rh.serve);
	rh.serve = NULL;
	rh.meanwhile = NULL;
}

static void
the_end_of_the_peer_ends_the_call(void **state)
{
	(void)state;
	railhosts_settle(3);
	rh.meanwhile = end_engine;
	assert_int_equal(move(KV_ENGINE_WRITE), -ECONNRESET);
}

static void
stop(void)
{
	atomic_store(&rh.closing, true);
}

static void
the_end_of_the_engine_ends_the_call(void **state)
{
	(void)state;
	railhosts_settle(1);
	rh.meanwhile = stop;
	assert_int_equal(move(KV_ENGINE_WRITE), -ESHUTDOWN);
	atomic_store(&rh.closing, false);
}

/* ---- again, later ---- */

static void
what_was_lost_meanwhile_is_noticed(void **state)
{
	struct kv_wait wait = railhosts_in_ms(10000);

	(void)state;
	railhosts_settle(3);
	assert_int_equal(kv_railset_settle(rh.rails, &wait), 0);
	end_engine();
	railhosts_us(100000);
	assert_int_equal(kv_railset_settle(rh.rails, &wait), -ECONNRESET);
}

static void
many_batches_go_over_the_same_rails(void **state)
{
	(void)state;
	railhosts_settle(3);
	for (unsigned i = 0; i < 20; i++) {
		railhosts_settle(3);
		fill(rh.near.memory, i);
		assert_int_equal(move(KV_ENGINE_WRITE), 0);
		assert_memory_equal(rh.near.memory, rh.far.memory,
				    RAILHOSTS_BYTES);
	}
}

/* 0: it was made; 2: not; else it failed before. */
static int
new_without_memory(void)
{
	const struct kv_rdma_opts o = {
		.verbs = &hcahost_v,
		.addrs = hcahost_addrs,
	};
	struct kv_railset_opts ro = {
		.own = &railhosts_own,
		.boot = &railhosts_boot,
	};
	char err[KV_RDMADEV_WHY_BYTES];
	struct kv_railset *s;

	hcahost_open();
	ro.rdma = kv_rdma_open(&o, err, sizeof(err));
	ro.loop = kv_loop_new(&hcahost_clock);
	if (!ro.rdma || !ro.loop)
		exit(3);
	s = kv_railset_new(&ro);
	kv_railset_free(s);
	kv_loop_free(ro.loop);
	kv_rdma_close(ro.rdma);
	hcahost_close();
	return s ? 0 : 2;
}

static void
no_memory_is_told(void **state)
{
	unsigned made = 0, failed = 0;
	int rc;

	(void)state;
	/* Some are not the set's: those of the fixture, and of ports. */
	for (unsigned n = 1; n < 60; n++) {
		rc = nth_fault_run(n, new_without_memory);
		made += rc == 0;
		failed += rc == 2;
	}
	assert_true(made > 0);
	assert_true(failed >= 2);
}

/* ---- messages ---- */

enum {
	TEXT = 300000 /* in many messages of a queue pair */
};

static int
note(const void *text, size_t n)
{
	const struct kv_railnote_text note = { "name", text, n };
	struct kv_wait wait = railhosts_in_ms(2000);

	return kv_railset_note(rh.rails, &note, &wait);
}

static void
expect_note(const char *text, size_t n)
{
	struct kv_note_in in;

	assert_int_equal((int)kv_note_pop(&rh.notes, &in, 1), 1);
	assert_string_equal(in.name, "name");
	assert_int_equal(in.text_len, n);
	assert_memory_equal(in.text, text, n);
	free(in.text);
}

static void
messages_go_by_a_queue_pair_of_their_own(void **state)
{
	char *text = malloc(TEXT);

	(void)state;
	railhosts_settle(3);
	for (size_t i = 0; i < TEXT; i++)
		text[i] = (char)byte_at(i, 7);
	for (size_t n = 0; n <= TEXT; n = n * 8 + 1) {
		assert_int_equal(note(text, n), 0);
		expect_note(text, n);
	}
	assert_int_equal(note(text, TEXT), 0);
	expect_note(text, TEXT);
	assert_int_equal(move(KV_ENGINE_WRITE), 0);
	free(text);
}

static void
a_full_queue_is_told(void **state)
{
	int rc = 0;

	(void)state;
	railhosts_settle(1);
	for (int i = 0; i < 100000 && rc == 0; i++)
		rc = note("x", 1);
	assert_int_equal(rc, -EBUSY);
	expect_note("x", 1);
	assert_int_equal(note("x", 1), 0);
}

static void
without_one_messages_go_by_tcp(void **state)
{
	(void)state;
	railhosts_settle(kv_rdma_ports(rh.near.rdma));
	assert_int_equal(note("x", 1), 1);
	assert_int_equal(
		(int)kv_note_pop(&rh.notes, &(struct kv_note_in){ 0 }, 1), 0);
}

#define OVER(hosts, fn) \
	cmocka_unit_test_setup_teardown(fn, hosts, railhosts_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(no_memory_is_told),
		OVER(railhosts_three, bytes_are_written_and_read),
		OVER(railhosts_joined, bytes_are_written_and_read),
		OVER(railhosts_three, pieces_keep_their_places),
		OVER(railhosts_three, other_memory_is_written_and_read),
		OVER(railhosts_one, other_memory_is_written_and_read),
		OVER(railhosts_one,
		     a_read_that_is_given_up_has_touched_nothing),
		OVER(railhosts_three, what_was_unregistered_is_not_written),
		OVER(railhosts_one,
		     what_is_not_registered_any_more_is_not_read),
		OVER(railhosts_one, whoever_waits_for_our_memory_gets_it),
		OVER(railhosts_three, others_take_over_from_a_rail_that_dies),
		OVER(railhosts_joined, others_take_over_from_a_rail_that_dies),
		OVER(railhosts_three, without_a_rail_there_are_other_means),
		OVER(railhosts_one, where_no_rail_leads_it_is_said),
		OVER(railhosts_none, a_peer_without_ports_says_so),
		OVER(railhosts_one, after_the_deadline_nothing_comes),
		OVER(railhosts_one,
		     after_the_deadline_of_a_write_nothing_comes_for_long),
		OVER(railhosts_three, the_end_of_the_peer_ends_the_call),
		OVER(railhosts_one, the_end_of_the_engine_ends_the_call),
		OVER(railhosts_three, what_was_lost_meanwhile_is_noticed),
		OVER(railhosts_three, messages_go_by_a_queue_pair_of_their_own),
		OVER(railhosts_one, a_full_queue_is_told),
		OVER(railhosts_joined, without_one_messages_go_by_tcp),
		OVER(railhosts_three, many_batches_go_over_the_same_rails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
