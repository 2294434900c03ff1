/* Records of objects as bytes: short and long ones, each damaged in every byte,
 * cut short in every place, and chains that lead astray. */

#include "store/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/le.h"
#include "test.h"

enum {
	SLOTS_END = KV_RECORD_SLOT_MIN + 208,
	FIRST = KV_RECORD_SLOT_MIN,
	/* Fields outside of the record's sum. */
	HOLD_OFF = 4,
	VALUE_SUM_OFF = 16,
	SUM_OFF = 24,
};

static uint8_t *file;
static uint64_t seed;
static struct kv_record_copy *copy;

static int
setup(void **state)
{
	const struct kv_id pool = { { 5 } };

	(void)state;
	file = aligned_alloc(4096, SLOTS_END * KV_RECORD_BYTES);
	copy = malloc(sizeof(*copy));
	assert_non_null(file);
	assert_non_null(copy);
	memset(file, 0xaa, SLOTS_END * KV_RECORD_BYTES);
	seed = kv_record_seed(pool);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	free(copy);
	free(file);
	return 0;
}

static struct kv_extent ext[KV_EXTENTS_MAX];
static uint8_t key[KV_KEY_BYTES_MAX];

static struct kv_record
record(unsigned n_ext, uint16_t key_len)
{
	struct kv_record r = {
		.id_random = 0x123456789abcdef0,
		.epoch = 12,
		.id_version = 7,
		.flags = KV_RECORD_SOFT_PIN,
		.tenant = "tenant",
		.tenant_len = 6,
		.key = key,
		.key_len = key_len,
		.ext = ext,
		.n_ext = (uint16_t)n_ext,
		.size = n_ext ? n_ext * 512 - 100 : 0,
	};
	unsigned i;

	for (i = 0; i < key_len; i++)
		key[i] = (uint8_t)(i * 7 + 1);
	for (i = 0; i < n_ext; i++)
		ext[i] = (struct kv_extent){ (uint64_t)i * 1024, 512 };
	r.hash = kv_key_hash(kv_key_seed("tenant", 6), key, key_len);
	return r;
}

/* In slots that lie backwards. */
static unsigned
build(const struct kv_record *r, uint32_t *slots)
{
	unsigned i, n = kv_record_slots(r);

	for (i = 0; i < n; i++)
		slots[i] = FIRST + n - 1 - i;
	for (i = 0; i < n; i++)
		kv_record_set_state(file, slots[i], KV_RECORD_FREE);
	kv_record_build(file, slots, seed, r);
	return n;
}

static int
parse(uint32_t slot)
{
	return kv_record_parse(file, SLOTS_END, slot, seed, copy);
}

static void
check_there_and_back(unsigned n_ext, uint16_t key_len)
{
	struct kv_record r = record(n_ext, key_len);
	uint32_t slots[KV_RECORD_CHAIN_MAX];
	unsigned n = build(&r, slots), i;

	assert_int_equal(kv_record_state(file, slots[0]), KV_RECORD_FREE);
	assert_int_equal(parse(slots[0]), -EBADMSG);
	kv_record_set_state(file, slots[0], KV_RECORD_RESERVED);
	assert_int_equal(parse(slots[0]), 0);
	assert_int_equal(copy->state, KV_RECORD_RESERVED);
	assert_int_equal(copy->n_slots, n);
	assert_memory_equal(copy->slots, slots, n * sizeof(slots[0]));
	assert_int_equal(copy->value_sum, 0);
	assert_int_equal(copy->hold.from, 0);
	assert_int_equal(copy->hold.to, 0);
	assert_true(kv_key_hash_is_equal(copy->r.hash, r.hash));
	assert_true(
		kv_key_hash_is_equal(kv_record_hash(file, slots[0]), r.hash));
	assert_int_equal(copy->r.size, r.size);
	assert_int_equal(copy->r.id_random, r.id_random);
	assert_int_equal(copy->r.id_version, r.id_version);
	assert_int_equal(copy->r.epoch, r.epoch);
	assert_int_equal(copy->r.flags, r.flags);
	assert_int_equal(copy->r.tenant_len, 6);
	assert_memory_equal(copy->r.tenant, "tenant", 6);
	assert_int_equal(copy->r.key_len, key_len);
	assert_memory_equal(copy->r.key, key, key_len);
	assert_int_equal(copy->r.n_ext, n_ext);
	for (i = 0; i < n_ext; i++) {
		assert_int_equal(copy->r.ext[i].off, ext[i].off);
		assert_int_equal(copy->r.ext[i].len, ext[i].len);
	}
	for (i = 0; i + 1 < n; i++)
		assert_int_equal(kv_record_next(file, slots[i]), slots[i + 1]);
	assert_int_equal(kv_record_next(file, slots[n - 1]), 0);
}

static void
what_is_written_is_read(void **state)
{
	(void)state;
	check_there_and_back(1, 130);
	check_there_and_back(0, 1);
	check_there_and_back(1, 168 - 16 - 6);     /* fills the first slot */
	check_there_and_back(1, 168 - 16 - 6 + 1); /* one byte in the next */
	check_there_and_back(2, KV_KEY_BYTES_MAX);
	check_there_and_back(70, 300);
	check_there_and_back(KV_EXTENTS_MAX, KV_KEY_BYTES_MAX);
	assert_true(copy->n_slots <= KV_RECORD_CHAIN_MAX);
}

static void
state_hold_and_sum_change_by_themselves(void **state)
{
	struct kv_record r = record(3, 500);
	uint32_t slots[KV_RECORD_CHAIN_MAX];

	(void)state;
	build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_RESERVED);
	kv_record_set_hold(file, slots[0], (struct kv_record_hold){ 3, 8 });
	kv_record_set_value_sum(file, slots[0], 99);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	assert_int_equal(parse(slots[0]), 0);
	assert_int_equal(copy->state, KV_RECORD_OBJECT);
	assert_int_equal(copy->hold.from, 3);
	assert_int_equal(copy->hold.to, 8);
	assert_int_equal(copy->value_sum, 99);
	assert_int_equal(kv_record_value_sum(file, slots[0]), 99);
}

static bool
is_all_lives(struct kv_record_hold h)
{
	return h.from == 1 && h.to == KV_POOLHEAD_LIVES_MAX;
}

static void
half_a_hold_is_one_of_all_lives(void **state)
{
	struct kv_record r = record(1, 10);
	struct kv_record_hold h;
	uint32_t slots[KV_RECORD_CHAIN_MAX];
	uint8_t old[12], new[12];
	unsigned i;

	(void)state;
	build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	memcpy(old, file + slots[0] * KV_RECORD_BYTES + HOLD_OFF, 12);
	kv_record_set_hold(file, slots[0], (struct kv_record_hold){ 4, 4 });
	memcpy(new, file + slots[0] * KV_RECORD_BYTES + HOLD_OFF, 12);
	/* The words as they change one after the other. */
	memset(old + 8, 0, 4);
	for (i = 0; i < 3; i++) {
		memcpy(file + slots[0] * KV_RECORD_BYTES + HOLD_OFF, new,
		       4 * i);
		memcpy(file + slots[0] * KV_RECORD_BYTES + HOLD_OFF + 4 * i,
		       old + 4 * i, 12 - 4 * i);
		assert_true(is_all_lives(kv_record_hold(file, slots[0])));
		assert_int_equal(parse(slots[0]), 0);
		assert_true(is_all_lives(copy->hold));
	}
	/* And damaged. */
	for (i = 0; i < 12 * 8; i++) {
		kv_record_set_hold(file, slots[0],
				   (struct kv_record_hold){ 4, 4 });
		file[slots[0] * KV_RECORD_BYTES + HOLD_OFF + i / 8] ^=
			(uint8_t)(1 << i % 8);
		assert_true(is_all_lives(kv_record_hold(file, slots[0])));
	}
	/* What cannot be, though it was written so. */
	kv_record_set_hold(file, slots[0], (struct kv_record_hold){ 5, 4 });
	h = kv_record_hold(file, slots[0]);
	assert_true(is_all_lives(h));
	kv_record_set_hold(file, slots[0], (struct kv_record_hold){ 0, 4 });
	assert_true(is_all_lives(kv_record_hold(file, slots[0])));
}

/* Each byte of each slot, one bit changed. */
static void
any_damage_is_found(void **state)
{
	struct kv_record r = record(12, 700);
	uint32_t slots[KV_RECORD_CHAIN_MAX];
	unsigned n, i, at;

	(void)state;
	n = build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	for (i = 0; i < n; i++) {
		uint8_t *p = file + slots[i] * KV_RECORD_BYTES;

		for (at = 0; at < KV_RECORD_BYTES; at++) {
			if (i == 0 && at >= HOLD_OFF && at < SUM_OFF)
				continue;
			if (i > 0 && at >= 4 && at < 8)
				continue; /* unused */
			p[at] ^= 0x20;
			assert_int_equal(parse(slots[0]), -EBADMSG);
			p[at] ^= 0x20;
		}
	}
	assert_int_equal(parse(slots[0]), 0);
}

static void
records_of_elsewhere_are_none(void **state)
{
	struct kv_record r = record(1, 10);
	uint32_t slots[KV_RECORD_CHAIN_MAX];

	(void)state;
	build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	assert_int_equal(parse(slots[0]), 0);
	memcpy(file + (slots[0] + 1) * KV_RECORD_BYTES,
	       file + slots[0] * KV_RECORD_BYTES, KV_RECORD_BYTES);
	assert_int_equal(parse(slots[0] + 1), -EBADMSG);
	seed++;
	assert_int_equal(parse(slots[0]), -EBADMSG);
}

static void
zeroes_and_noise_are_broken(void **state)
{
	(void)state;
	assert_int_equal(kv_record_state(file, FIRST), KV_RECORD_BROKEN);
	assert_int_equal(parse(FIRST), -EBADMSG);
	memset(file + FIRST * KV_RECORD_BYTES, 0, KV_RECORD_BYTES);
	assert_int_equal(kv_record_state(file, FIRST), KV_RECORD_BROKEN);
	assert_int_equal(parse(FIRST), -EBADMSG);
}

/* Every sum is right in these, and still they are none. */
static void
check_refused(struct kv_record r)
{
	uint32_t slots[KV_RECORD_CHAIN_MAX];

	build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	assert_int_equal(parse(slots[0]), -EBADMSG);
}

static void
what_cannot_be_is_refused(void **state)
{
	struct kv_record r;

	(void)state;
	r = record(1, 10);
	r.hash.lo++;
	check_refused(r);
	r = record(1, 10);
	r.hash.hi++;
	check_refused(r);
	r = record(1, 10);
	r.flags = 4;
	check_refused(r);
	r = record(1, 10);
	r.tenant_len = 0;
	check_refused(r);
	r = record(1, 10);
	r.key_len = 0;
	check_refused(r);
	r = record(2, 10);
	r.size += 512;
	check_refused(r);
	r = record(2, 10);
	r.size = 0;
	check_refused(r);
	r = record(1, 10);
	r.size = UINT64_MAX;
	check_refused(r);
	r = record(2, 10);
	ext[1].len = 0;
	check_refused(r);
	r = record(1, 10);
	ext[0].off = 17;
	check_refused(r);
	r = record(1, 10);
	ext[0].off = UINT64_MAX - 255;
	check_refused(r);
	r = record(2, 10);
	ext[0].len = UINT64_MAX - 255;
	ext[1].len = 1280;
	check_refused(r);
}

/* ---- right sums, wrong contents: written by hand ---- */

static uint64_t
slot_seed(uint32_t slot)
{
	return seed + slot * UINT64_C(0x9e3779b97f4a7c15);
}

static void
seal(uint32_t slot, unsigned sum_off)
{
	uint8_t *p = file + slot * KV_RECORD_BYTES;
	const struct kv_le64 sum = kv_le64(XXH3_64bits_withSeed(
		p + sum_off + 8, KV_RECORD_BYTES - sum_off - 8,
		slot_seed(slot)));

	memcpy(p + sum_off, &sum, sizeof(sum));
}

static void
lengths_beyond_all_are_refused(void **state)
{
	struct kv_record r = record(1, 10);
	uint32_t slots[KV_RECORD_CHAIN_MAX];
	unsigned at;

	(void)state;
	build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	seal(slots[0], SUM_OFF);
	assert_int_equal(parse(slots[0]), 0);
	/* Lengths of key, pieces, tenant. */
	for (at = 80; at < 85; at++) {
		build(&r, slots);
		kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
		file[slots[0] * KV_RECORD_BYTES + at] = 0xff;
		seal(slots[0], SUM_OFF);
		assert_int_equal(parse(slots[0]), -EBADMSG);
	}
}

enum {
	MORE_SUM_OFF = 8,
	MORE_OWNER_OFF = 16,
	MORE_NEXT_OFF = 20,
	MORE_PLACE_OFF = 24,
	NEXT_OFF = 76,
};

static void
poke(uint32_t slot, unsigned off, uint32_t v)
{
	struct kv_le32 le = kv_le32(v);

	memcpy(file + slot * KV_RECORD_BYTES + off, &le, sizeof(le));
}

static void
chains_that_lead_astray_are_refused(void **state)
{
	const uint32_t nexts[] = { 0, 1, FIRST - 1, SLOTS_END, UINT32_MAX };
	struct kv_record r = record(1, 1000);
	uint32_t slots[KV_RECORD_CHAIN_MAX];
	unsigned n, i, j;

	(void)state;
	n = build(&r, slots);
	assert_int_equal(n, 5);
	for (i = 0; i < n; i++) {
		for (j = 0; j < 5 + n; j++) {
			uint32_t to = j < 5 ? nexts[j] : slots[j - 5];

			build(&r, slots);
			kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
			if (to == kv_record_next(file, slots[i]))
				continue;
			poke(slots[i], i ? MORE_NEXT_OFF : NEXT_OFF, to);
			seal(slots[i], i ? MORE_SUM_OFF : SUM_OFF);
			assert_int_equal(parse(slots[0]), -EBADMSG);
		}
	}
}

static void
slots_of_other_chains_are_refused(void **state)
{
	struct kv_record r = record(1, 1000);
	uint32_t slots[KV_RECORD_CHAIN_MAX];

	(void)state;
	build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	poke(slots[2], MORE_OWNER_OFF, slots[1]);
	seal(slots[2], MORE_SUM_OFF);
	assert_int_equal(parse(slots[0]), -EBADMSG);
	build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	poke(slots[2], MORE_PLACE_OFF, 3);
	seal(slots[2], MORE_SUM_OFF);
	assert_int_equal(parse(slots[0]), -EBADMSG);
	build(&r, slots);
	kv_record_set_state(file, slots[0], KV_RECORD_OBJECT);
	kv_record_set_state(file, slots[3], KV_RECORD_FREE);
	assert_int_equal(parse(slots[0]), -EBADMSG);
}

int
main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_written_is_read),
		TEST(state_hold_and_sum_change_by_themselves),
		TEST(half_a_hold_is_one_of_all_lives),
		TEST(any_damage_is_found),
		TEST(records_of_elsewhere_are_none),
		TEST(zeroes_and_noise_are_broken),
		TEST(what_cannot_be_is_refused),
		TEST(lengths_beyond_all_are_refused),
		TEST(chains_that_lead_astray_are_refused),
		TEST(slots_of_other_chains_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
