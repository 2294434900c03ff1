#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "kvpool.h"
#include "mem/seg.h"
#include "nth_fault.h"
#include "test.h"
#include "xfer/regtable.h"

struct rec {
	uint64_t addr, len, handle;
	uint32_t flags;
};

static struct kv_regtable *
parse_bytes(const struct kv_regions_r *body, const void *tail, size_t tail_len)
{
	struct kv_msg msg = {
		.type = KV_MSG_REGIONS_R,
		.body = body,
		.tail = tail,
		.tail_len = tail_len,
	};

	return kv_regtable_parse(&msg);
}

static struct kv_regtable *
parse(const struct rec *recs, size_t n)
{
	struct kv_region_rec wire[16];
	struct kv_regions_r body = {
		.count = kv_le32((uint32_t)n),
		.epoch = kv_le64(7),
		.token_addr = kv_le64(0x1234),
		.token = { kv_le64(1), kv_le64(2) },
	};

	for (size_t i = 0; i < n; i++)
		wire[i] = (struct kv_region_rec){
			.addr = kv_le64(recs[i].addr),
			.len = kv_le64(recs[i].len),
			.handle = kv_le64(recs[i].handle),
			.flags = kv_le32(recs[i].flags),
		};
	return parse_bytes(&body, wire, n * sizeof(wire[0]));
}

static void
it_is_sorted_and_remembers_the_first(void **state)
{
	static const struct rec recs[] = {
		{ 0x5000, 0x1000, 3, KV_REGION_SHARED },
		{ 0x9000, 1, 4, 0 },
		{ 0x1000, 0x4000, 9, 0 },
	};
	struct kv_regtable *t = parse(recs, 3);
	struct kv_id token = { .b = { 1, [8] = 2 } };

	(void)state;
	assert_non_null(t);
	assert_int_equal(t->first, 0x5000);
	assert_int_equal(t->epoch, 7);
	assert_int_equal(t->token_addr, 0x1234);
	assert_memory_equal(&t->token, &token, sizeof(token));
	assert_int_equal(t->entries[0].handle, 9);
	assert_int_equal(t->entries[1].handle, 3);
	assert_true(t->entries[1].shared);
	assert_false(t->entries[2].shared);
	kv_regtable_unref(kv_regtable_ref(t));
	kv_regtable_unref(t);
	t = parse(recs, 0);
	assert_int_equal(t->first, 0);
	assert_null(kv_regtable_find(t, 0x1000));
	assert_false(kv_regtable_covers(t, 0x1000, 1));
	kv_regtable_unref(t);
	kv_regtable_unref(NULL);
}

static void
what_no_engine_sends_is_refused(void **state)
{
	static const struct rec bad[][2] = {
		{ { 0, 10, 1, 0 }, { 100, 10, 2, 0 } },
		{ { 50, 0, 1, 0 }, { 100, 10, 2, 0 } },
		{ { 50, 10, 0, 0 }, { 100, 10, 2, 0 } },
		{ { 50, UINT64_MAX, 1, 0 }, { 100, 10, 2, 0 } },
		{ { 50, 51, 1, 0 }, { 100, 10, 2, 0 } },
		{ { 100, 10, 1, 0 }, { 100, 10, 2, 0 } },
		{ { 105, 1, 1, 0 }, { 100, 10, 2, 0 } },
	};
	struct kv_regions_r body = { .count = kv_le32(1) };
	struct kv_region_rec rec = {
		.addr = kv_le64(1),
		.len = kv_le64(1),
		.handle = kv_le64(1),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_null(parse(bad[i], 2));
		assert_int_equal(errno, EPROTO);
	}
	assert_null(parse_bytes(&body, &rec, sizeof(rec) - 1));
	assert_null(parse_bytes(&body, &rec, 0));
	body.count = kv_le32(UINT32_MAX);
	assert_null(parse_bytes(&body, &rec, sizeof(rec)));
	body.count = kv_le32(0);
	assert_null(parse_bytes(&body, &rec, sizeof(rec)));
	body.count = kv_le32(1);
	body.status = KV_EBUSY;
	assert_null(parse_bytes(&body, &rec, sizeof(rec)));
	body.status = 0;
	kv_regtable_unref(parse_bytes(&body, &rec, sizeof(rec)));
}

/* Three records, of which the first and the last have keys. */
struct keyed {
	struct kv_region_rec recs[3];
	struct kv_le32 keys[2 * KV_RDMA_PORTS_MAX + 2];
};

static struct kv_regtable *
parse_keyed(struct keyed *k, unsigned ports, size_t n_keys)
{
	struct kv_regions_r body = {
		.ports = (uint8_t)ports,
		.count = kv_le32(3),
	};

	for (unsigned i = 0; i < 3; i++)
		k->recs[i] = (struct kv_region_rec){
			.addr = kv_le64(0x9000 - 0x1000 * i),
			.len = kv_le64(0x100 + i),
			.handle = kv_le64(i + 1),
			.flags = kv_le32(i == 1 ? 0 : KV_REGION_KEYS),
		};
	for (unsigned i = 0; i < 2 * KV_RDMA_PORTS_MAX + 2; i++)
		k->keys[i] = kv_le32(70 + i);
	return parse_bytes(&body, k,
			   sizeof(k->recs) + n_keys * sizeof(k->keys[0]));
}

static void
keys_belong_to_their_records(void **state)
{
	struct keyed k;
	struct kv_regtable *t = parse_keyed(&k, 3, 6);
	const struct kv_rdmamem *mem;

	(void)state;
	assert_non_null(t);
	assert_int_equal(t->ports, 3);
	assert_null(kv_regtable_find(t, 0x8000)->mem);
	mem = kv_regtable_find(t, 0x9000)->mem;
	assert_int_equal(mem->addr, 0x9000);
	assert_int_equal(mem->len, 0x100);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mem->keys[i], 70 + i);
	assert_int_equal(mem->keys[3], 0);
	mem = kv_regtable_find(t, 0x7000)->mem;
	assert_int_equal(mem->addr, 0x7000);
	assert_int_equal(mem->len, 0x102);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(mem->keys[i], 73 + i);
	kv_regtable_unref(t);
	kv_regtable_unref(
		parse_keyed(&k, KV_RDMA_PORTS_MAX, 2 * KV_RDMA_PORTS_MAX));
}

static void
keys_that_do_not_add_up_are_refused(void **state)
{
	struct keyed k;

	(void)state;
	assert_null(parse_keyed(&k, 3, 5));
	assert_null(parse_keyed(&k, 3, 7));
	assert_null(parse_keyed(&k, 0, 0));
	assert_null(parse_keyed(&k, KV_RDMA_PORTS_MAX + 1,
				2 * KV_RDMA_PORTS_MAX + 2));
	assert_int_equal(errno, EPROTO);
}

static void
ranges_may_cross_what_touches(void **state)
{
	static const struct rec recs[] = {
		{ 100, 100, 1, 0 },
		{ 200, 50, 2, 0 },
		{ 250, 10, 3, 0 },
		{ 261, 9, 4, 0 },
	};
	struct kv_regtable *t = parse(recs, 4);

	(void)state;
	assert_int_equal(kv_regtable_find(t, 100)->handle, 1);
	assert_int_equal(kv_regtable_find(t, 199)->handle, 1);
	assert_int_equal(kv_regtable_find(t, 200)->handle, 2);
	assert_null(kv_regtable_find(t, 99));
	assert_null(kv_regtable_find(t, 260));
	assert_null(kv_regtable_find(t, 270));
	assert_true(kv_regtable_covers(t, 100, 160));
	assert_true(kv_regtable_covers(t, 150, 110));
	assert_true(kv_regtable_covers(t, 261, 9));
	assert_false(kv_regtable_covers(t, 100, 161));
	assert_false(kv_regtable_covers(t, 99, 2));
	assert_false(kv_regtable_covers(t, 260, 1));
	assert_false(kv_regtable_covers(t, 261, 10));
	assert_false(kv_regtable_covers(t, 200, UINT64_MAX));
	kv_regtable_unref(t);
}

static struct kv_seg *
new_seg(uint64_t bytes)
{
	struct kv_seg_opts opts = { .bytes = bytes };
	struct kv_seg *seg;
	char why[256];

	assert_int_equal(kv_seg_open(&opts, &seg, why, sizeof(why)), 0);
	return seg;
}

/* Over three blocks of what is mapped ahead. */
static void
memory_of_another_is_mapped(void **state)
{
	static const struct rec recs[] = {
		{ 0x10000000, 5 << 20, 1, KV_REGION_SHARED },
		{ 0x20000000, 5 << 20, 2, 0 },
	};
	struct kv_regtable *t = parse(recs, 2), *newer = parse(recs, 2);
	struct kv_seg *seg = new_seg(5 << 20);
	unsigned char *p;

	(void)state;
	t->entries[0].map = kv_regtable_map(kv_seg_fd(seg, true), 5 << 20, 1);
	assert_non_null(t->entries[0].map);
	p = kv_regtable_at(t->entries[0].map, (2 << 20) - 1, 3 << 20);
	memset(p, 7, 3 << 20);
	assert_int_equal(seg->base[(2 << 20) - 2], 0);
	assert_int_equal(seg->base[(2 << 20) - 1], 7);
	assert_int_equal(seg->base[(5 << 20) - 2], 7);
	assert_int_equal(seg->base[(5 << 20) - 1], 0);
	p = kv_regtable_at(t->entries[0].map, (5 << 20) - 1, 1);
	*p = 8;
	assert_int_equal(seg->base[(5 << 20) - 1], 8);

	/* A newer table goes on with it, the older one may go. */
	kv_regtable_inherit(newer, t);
	assert_ptr_equal(newer->entries[0].map, t->entries[0].map);
	assert_null(newer->entries[1].map);
	kv_regtable_unref(t);
	assert_int_equal(*(unsigned char *)kv_regtable_at(newer->entries[0].map,
							  (5 << 20) - 1, 1),
			 8);
	kv_regtable_inherit(newer, NULL);
	kv_regtable_unref(newer);
	kv_seg_close(seg);
}

static void
another_region_at_its_place_inherits_nothing(void **state)
{
	static const struct rec before[] = {
		{ 0x10000, 4096, 1, KV_REGION_SHARED },
		{ 0x20000, 4096, 2, KV_REGION_SHARED },
	};
	static const struct rec after[] = {
		{ 0x10000, 4096, 3, KV_REGION_SHARED },
		{ 0x20000, 8192, 2, KV_REGION_SHARED },
	};
	struct kv_regtable *t = parse(before, 2), *newer = parse(after, 2);
	struct kv_seg *seg = new_seg(4096);

	(void)state;
	for (int i = 0; i < 2; i++)
		t->entries[i].map = kv_regtable_map(kv_seg_fd(seg, true), 4096,
						    t->entries[i].handle);
	kv_regtable_inherit(newer, t);
	assert_null(newer->entries[0].map);
	assert_null(newer->entries[1].map); /* longer than what is mapped */
	kv_regtable_unref(t);
	kv_regtable_unref(newer);
	kv_seg_close(seg);
}

static void
quiet(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

static void
memory_that_could_shrink_is_not_mapped(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	kv_log_set_sink(quiet, NULL);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_null(kv_regtable_map(dup(fd), 8192, 1));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_null(kv_regtable_map(dup(fd), 8193, 1));
	assert_null(kv_regtable_map(dup(fd), 0, 1));
	kv_log_set_sink(NULL, NULL);
	close(fd);
}

static int
parse_without_memory(void)
{
	static const struct rec rec = { 0x1000, 0x1000, 1, 0 };
	struct kv_regtable *t = parse(&rec, 1);

	if (!t)
		return errno == ENOMEM ? 2 : 3;
	kv_regtable_unref(t);
	return 0;
}

static int
parse_keys_without_memory(void)
{
	struct keyed k;
	struct kv_regtable *t = parse_keyed(&k, 1, 2);

	if (!t)
		return errno == ENOMEM ? 2 : 3;
	kv_regtable_unref(t);
	return 0;
}

static void
no_memory_is_told(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, parse_keys_without_memory), 2);
	assert_int_equal(nth_fault_run(2, parse_keys_without_memory), 2);
	assert_int_equal(nth_fault_run(3, parse_keys_without_memory), 0);
	assert_int_equal(nth_fault_run(1, parse_without_memory), 2);
	assert_int_equal(nth_fault_run(2, parse_without_memory), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(no_memory_is_told),
		cmocka_unit_test(it_is_sorted_and_remembers_the_first),
		cmocka_unit_test(what_no_engine_sends_is_refused),
		cmocka_unit_test(keys_belong_to_their_records),
		cmocka_unit_test(keys_that_do_not_add_up_are_refused),
		cmocka_unit_test(ranges_may_cross_what_touches),
		cmocka_unit_test(memory_of_another_is_mapped),
		cmocka_unit_test(another_region_at_its_place_inherits_nothing),
		cmocka_unit_test(memory_that_could_shrink_is_not_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
