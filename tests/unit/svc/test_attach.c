#include "svc/attach.h"

#include <time.h>

#include "base/attr.h"
#include "mem/seg.h"
#include "resident.h"
#include "test.h"

#define MIB        (UINT64_C(1) << 20)
#define POOL_BYTES (256 * MIB)

static struct kv_seg *pool;

static int
setup(void **state)
{
	const struct kv_seg_opts o = { .bytes = POOL_BYTES };
	char err[256];

	(void)state;
	assert_int_equal(kv_seg_open(&o, &pool, err, sizeof(err)), 0);
	assert_int_equal(kv_seg_populate(pool, 0, POOL_BYTES), 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_seg_close(pool);
	return 0;
}

static void
attach(struct kv_hub_map *map, const struct kv_hub_mapper *how)
{
	*map = (struct kv_hub_map){
		.bytes = POOL_BYTES,
		.flags = KV_POOL_SEALED,
		.fd = kv_seg_fd(pool, true),
	};
	assert_true(map->fd >= 0);
	assert_int_equal(how->map(NULL, map, false), 0);
	assert_int_equal(how->map(NULL, map, true), 0);
}

static uint64_t
mapped(const char *base)
{
	return resident_bytes(base, POOL_BYTES) / MIB;
}

/* Values of a MiB, as every 16th of a pool full of them, are used. */
static uint64_t
mapped_by(const struct kv_hub_mapper *how, bool descending, bool write)
{
	struct kv_hub_map map;
	uint64_t i, n;

	attach(&map, how);
	for (i = 0; i < 16; i++)
		how->ahead(NULL, &map, 16 * MIB * (descending ? 15 - i : i),
			   MIB, write);
	assert_int_equal(mapped(write ? map.read : map.write), 0);
	n = mapped(write ? map.write : map.read);
	how->unmap(NULL, &map);
	return n;
}

static void
test_scattered(void **state)
{
	(void)state;
	for (int write = 0; write < 2; write++) {
		/* The blocks that they lie in. */
		assert_int_equal(mapped_by(&kv_attach_mapper, false, write),
				 32);
		assert_int_equal(mapped_by(&kv_attach_mapper, true, write), 32);
	}
}

static void
test_exact(void **state)
{
	(void)state;
	for (int write = 0; write < 2; write++) {
		assert_int_equal(
			mapped_by(&kv_attach_exact_mapper, false, write), 16);
		assert_int_equal(
			mapped_by(&kv_attach_exact_mapper, true, write), 16);
	}
}

/* Where one block after the other is used, what follows is entered as well, as
 * far as the owner says that it is there. */
static void
test_ascending(void **state)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const struct kv_hub_mapper *how = &kv_attach_mapper;
	struct kv_hub_map map;
	int i;

	(void)state;
	attach(&map, how);
	kv_hub_map_ready(&map, 48 * MIB);
	how->ahead(NULL, &map, 0, 32 * MIB, false);
	for (i = 0; i < 30000 && mapped(map.read) < 48; i++)
		nanosleep(&pause, NULL);
	assert_int_equal(mapped(map.read), 48);
	how->unmap(NULL, &map);
}

/* What is small is entered by its use alone; the bytes are the pool's. */
static void
test_bytes(void **state)
{
	static const struct kv_hub_mapper *const hows[] = {
		&kv_attach_mapper,
		&kv_attach_exact_mapper,
	};
	struct kv_hub_map map;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(hows); i++) {
		attach(&map, hows[i]);
		hows[i]->ahead(NULL, &map, 64 * MIB, 4096, true);
		assert_int_equal(mapped(map.write), 0);
		map.write[64 * MIB] = (char)('a' + i);
		assert_int_equal(pool->base[64 * MIB], 'a' + i);
		assert_int_equal(map.read[64 * MIB], 'a' + i);
		hows[i]->unmap(NULL, &map);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scattered),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_ascending),
		cmocka_unit_test(test_bytes),
	};

	return cmocka_run_group_tests_name("svc/attach", tests, setup,
					   teardown);
}
