/* The head of a pool's index file: what is written is read, what is damaged is
 * not. */

#include "store/poolhead.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum {
	COPY = 4096,
	HEAD = 104, /* bytes that mean something */
	TENANTS = 8192,
	TENANT = 128,
};

static uint8_t *file;
static const struct kv_poolhead some = {
	.pool = { { 1, 2, 3 } },
	.kernel = { { 4, 5 } },
	.dev = 6,
	.ino = 7,
	.pool_bytes = 8 << 20,
	.life = 9,
	.slots_end = 4096,
	.pid = 4711,
};

static int
setup(void **state)
{
	struct kv_poolhead h = some;

	(void)state;
	file = aligned_alloc(4096, KV_POOLHEAD_BYTES);
	assert_non_null(file);
	kv_poolhead_init(file);
	kv_poolhead_build(file, &h);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	free(file);
	return 0;
}

static int
parse(struct kv_poolhead *h)
{
	uint32_t format = 0;

	memset(h, 0, sizeof(*h));
	return kv_poolhead_parse(file, KV_POOLHEAD_BYTES, h, &format);
}

static void
what_was_written_is_read(void **state)
{
	struct kv_poolhead h;

	(void)state;
	assert_int_equal(parse(&h), 0);
	assert_int_equal(h.writes, 1);
	assert_true(kv_id_is_equal(h.pool, some.pool));
	assert_true(kv_id_is_equal(h.kernel, some.kernel));
	assert_int_equal(h.dev, 6);
	assert_int_equal(h.ino, 7);
	assert_int_equal(h.pool_bytes, 8 << 20);
	assert_int_equal(h.life, 9);
	assert_int_equal(h.slots_end, 4096);
	assert_int_equal(h.pid, 4711);
	h.life = 10;
	kv_poolhead_build(file, &h);
	assert_int_equal(parse(&h), 0);
	assert_int_equal(h.life, 10);
	assert_int_equal(h.writes, 2);
}

/* As a kill in the middle of kv_poolhead_build leaves it. */
static void
a_write_cut_short_leaves_the_other_copy(void **state)
{
	struct kv_poolhead h = some, got;
	uint8_t old[HEAD];
	int n;

	(void)state;
	memcpy(old, file, HEAD);
	h.writes = 1;
	h.life = 10;
	for (n = 0; n <= HEAD; n++) {
		kv_poolhead_build(file, &h);
		h.writes = 1;
		memcpy(file + COPY, old, HEAD); /* not begun */
		memcpy(file + n, old + n, (size_t)(HEAD - n));
		assert_int_equal(parse(&got), 0);
		assert_true(got.life == 9 || got.life == 10);
		assert_true(n > 0 || got.life == 9);
		assert_true(n < HEAD || got.life == 10);
		memcpy(file, old, HEAD);
		kv_poolhead_build(file, &h);
		h.writes = 1;
		memcpy(file + COPY + n, old + n, (size_t)(HEAD - n));
		assert_int_equal(parse(&got), 0);
		assert_int_equal(got.life, 10);
	}
}

static void
any_damage_of_one_copy_is_survived_of_both_found(void **state)
{
	struct kv_poolhead h;
	int i;

	(void)state;
	for (i = 0; i < HEAD; i++) {
		bool is_format = i >= 8 && i < 12;
		int rc;

		if (i >= 12 && i < 16)
			continue; /* unused */
		file[i] ^= 0x10;
		rc = parse(&h);
		assert_true(is_format ? rc == -EPROTONOSUPPORT : rc == 0);
		file[COPY + i] ^= 0x10;
		rc = parse(&h);
		assert_int_equal(rc, is_format ? -EPROTONOSUPPORT : -EBADMSG);
		file[i] ^= 0x10;
		file[COPY + i] ^= 0x10;
	}
	assert_int_equal(parse(&h), 0);
}

static void
a_newer_format_is_said(void **state)
{
	struct kv_poolhead h;
	uint32_t format = 0;

	(void)state;
	file[8] = 7;
	assert_int_equal(
		kv_poolhead_parse(file, KV_POOLHEAD_BYTES, &h, &format),
		-EPROTONOSUPPORT);
	assert_int_equal(format, 7);
	/* One that never was: damage. */
	file[8] = 0;
	file[COPY + 8] = 0;
	assert_int_equal(parse(&h), -EBADMSG);
}

static void
short_and_empty_files(void **state)
{
	struct kv_poolhead h;
	uint32_t format;
	size_t n;

	(void)state;
	for (n = 1; n < HEAD; n++)
		assert_int_equal(kv_poolhead_parse(file, n, &h, &format),
				 -EBADMSG);
	assert_int_equal(kv_poolhead_parse(file, HEAD, &h, &format), 0);
	assert_int_equal(kv_poolhead_parse(file, COPY + 5, &h, &format), 0);
	memset(file, 0, KV_POOLHEAD_BYTES);
	assert_int_equal(kv_poolhead_parse(file, 0, &h, &format), -ENOENT);
	assert_int_equal(parse(&h), -ENOENT);
	file[KV_POOLHEAD_BYTES - 1] = 1;
	assert_int_equal(parse(&h), -EBADMSG);
}

static void
a_life_beyond_all_is_damage(void **state)
{
	struct kv_poolhead h = some;

	(void)state;
	h.life = KV_POOLHEAD_LIVES_MAX + 1u;
	kv_poolhead_build(file, &h);
	assert_int_equal(parse(&h), -EBADMSG);
}

/* ---- tenants ---- */

static struct kv_poolhead_tenant
tenant(const char *name, uint64_t number)
{
	struct kv_poolhead_tenant t = {
		.number = number,
		.random = number * 3,
		.len = (uint8_t)strlen(name),
	};

	memcpy(t.name, name, t.len);
	return t;
}

static int
put(const char *name, uint64_t number)
{
	struct kv_poolhead_tenant t = tenant(name, number);

	return kv_poolhead_tenant_put(file, &t);
}

static uint64_t
number_of(const char *name)
{
	struct kv_poolhead_tenant t;
	int rc = kv_poolhead_tenant_find(file, name, strlen(name), &t);

	assert_true(rc >= 0);
	if (!rc)
		return 0;
	assert_int_equal(t.random, t.number * 3);
	return t.number;
}

static void
generations_are_kept_by_name(void **state)
{
	(void)state;
	assert_int_equal(number_of("a"), 0);
	assert_int_equal(put("a", 1), 0);
	assert_int_equal(put("b", 5), 0);
	assert_int_equal(put("aa", 7), 0);
	assert_int_equal(put("a", 2), 0);
	assert_int_equal(number_of("a"), 2);
	assert_int_equal(number_of("b"), 5);
	assert_int_equal(number_of("aa"), 7);
	assert_int_equal(put("a", 3), 0);
	assert_int_equal(number_of("a"), 3);
}

static void
a_generation_changes_at_once(void **state)
{
	static uint8_t before[TENANT * 2], after[TENANT * 2];
	int n;

	(void)state;
	assert_int_equal(put("a", 1), 0);
	memcpy(before, file + TENANTS, sizeof(before));
	assert_int_equal(put("a", 2), 0);
	memcpy(after, file + TENANTS, sizeof(after));
	/* All but the states, as far as it got; then the new one's state. */
	for (n = 4; n <= TENANT; n++) {
		memcpy(file + TENANTS, before, sizeof(before));
		memcpy(file + TENANTS + TENANT + 4, after + TENANT + 4,
		       (size_t)(n - 4));
		assert_int_equal(number_of("a"), 1);
	}
	memcpy(file + TENANTS + TENANT, after + TENANT, 4);
	assert_int_equal(number_of("a"), 2);
}

/* As when the process ended before the older one went. */
static void
the_newer_of_two_counts(void **state)
{
	struct kv_poolhead_tenant t = tenant("a", 1);
	uint8_t other[TENANT];

	(void)state;
	t.epoch = UINT32_MAX;
	assert_int_equal(kv_poolhead_tenant_put(file, &t), 0);
	memcpy(other, file + TENANTS, TENANT);
	t.epoch = 3;
	assert_int_equal(kv_poolhead_tenant_put(file, &t), 0);
	memcpy(file + TENANTS, other, TENANT);
	assert_int_equal(kv_poolhead_tenant_find(file, "a", 1, &t), 1);
	assert_int_equal(t.epoch, 3);
}

static void
the_table_has_an_end(void **state)
{
	char name[16];
	int i;

	(void)state;
	for (i = 0; i < KV_POOLHEAD_TENANTS_MAX; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		assert_int_equal(put(name, (uint64_t)i + 1), 0);
	}
	assert_int_equal(put("more", 1), -ENOSPC);
	assert_int_equal(number_of("t0"), 1);
	assert_int_equal(number_of("t511"), 512);
}

static void
a_damaged_generation_is_not_passed_over(void **state)
{
	struct kv_poolhead_tenant t;
	int i;

	(void)state;
	assert_int_equal(put("a", 1), 0);
	assert_int_equal(put("b", 2), 0);
	for (i = 0; i < 32 + 64 + 4; i++) {
		if (i >= 5 && i < 8)
			continue; /* unused */
		file[TENANTS + i] ^= 4;
		assert_int_equal(kv_poolhead_tenant_get(file, 0, &t), -EBADMSG);
		assert_int_equal(kv_poolhead_tenant_find(file, "b", 1, &t),
				 -EBADMSG);
		file[TENANTS + i] ^= 4;
	}
	memset(file + TENANTS, 0, TENANT);
	assert_int_equal(kv_poolhead_tenant_get(file, 0, &t), -EBADMSG);
	kv_poolhead_tenant_mend(file);
	assert_int_equal(number_of("a"), 0);
	assert_int_equal(number_of("b"), 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_written_is_read, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_write_cut_short_leaves_the_other_copy, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			any_damage_of_one_copy_is_survived_of_both_found, setup,
			teardown),
		cmocka_unit_test_setup_teardown(a_newer_format_is_said, setup,
						teardown),
		cmocka_unit_test_setup_teardown(short_and_empty_files, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_life_beyond_all_is_damage,
						setup, teardown),
		cmocka_unit_test_setup_teardown(generations_are_kept_by_name,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_generation_changes_at_once,
						setup, teardown),
		cmocka_unit_test_setup_teardown(the_newer_of_two_counts, setup,
						teardown),
		cmocka_unit_test_setup_teardown(the_table_has_an_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_damaged_generation_is_not_passed_over, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
