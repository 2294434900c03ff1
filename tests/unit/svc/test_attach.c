#include "svc/attach.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "mem/seg.h"
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

/* MiB of the mapping in the page table of this process. */
static uint64_t
mapped(const char *base)
{
	size_t pages = POOL_BYTES / (size_t)getpagesize(), n = 0;
	uint64_t *bits = calloc(pages, sizeof(*bits));
	off_t at = (off_t)((uintptr_t)base / (size_t)getpagesize() * 8);
	kv_auto_close int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	assert_non_null(bits);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bits, pages * 8, at), pages * 8);
	for (size_t i = 0; i < pages; i++)
		n += bits[i] >> 63;
	free(bits);
	return n * (size_t)getpagesize() / MIB;
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

/* Where one block after the other is used, more and more of the following ones
 * are entered, but none above what was ever granted. */
static void
test_ascending(void **state)
{
	const struct kv_hub_mapper *how = &kv_attach_mapper;
	struct kv_hub_map map;

	(void)state;
	attach(&map, how);
	how->ahead(NULL, &map, 128 * MIB, 2 * MIB, false);
	assert_int_equal(mapped(map.read), 2);
	how->ahead(NULL, &map, 0, 2 * MIB, false);
	assert_int_equal(mapped(map.read), 4);
	how->ahead(NULL, &map, 2 * MIB, 2 * MIB, false);
	assert_int_equal(mapped(map.read), 8);
	how->ahead(NULL, &map, 6 * MIB, 2 * MIB, false);
	assert_int_equal(mapped(map.read), 16);
	how->ahead(NULL, &map, 0, 64 * MIB, false);
	how->ahead(NULL, &map, 64 * MIB, 64 * MIB, false);
	assert_int_equal(mapped(map.read), 130);
	how->ahead(NULL, &map, 130 * MIB, 2 * MIB, false);
	assert_int_equal(mapped(map.read), 132);
	how->ahead(NULL, &map, 254 * MIB, 2 * MIB, false);
	assert_int_equal(mapped(map.read), 134);
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
