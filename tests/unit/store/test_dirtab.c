#include "store/dirtab.h"

#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "test.h"

enum {
	KEYS = 400,
	GROUPS = 64,
	PLACES = KV_DIRTAB_PLACES,
	BIG = 1 << 16, /* groups of a table in huge pages */
};

/* What should be in the table: how many entries of each key, told apart by
 * their slot. */
struct model {
	struct kv_rng rng;
	struct kv_hash key[KEYS];
	unsigned count[KEYS];
	unsigned total;
};

/* Few homes, the last one among them, and few tags. */
static void
model_init(struct model *m, uint64_t seed)
{
	unsigned i;

	memset(m, 0, sizeof(*m));
	kv_rng_seed(&m->rng, seed);
	for (i = 0; i < KEYS; i++) {
		m->key[i].lo = (kv_rng_below(&m->rng, 8) * 9) << 58 |
			       kv_rng_below(&m->rng, 1024) << 48 |
			       kv_rng_below(&m->rng, 3);
		m->key[i].hi = i;
	}
}

static void
add(struct model *m, struct kv_dirtab *t, unsigned k)
{
	struct kv_dirtab_entry *e = kv_dirtab_add(t, m->key[k]);

	*e = (struct kv_dirtab_entry){ .hash = m->key[k],
				       .random = m->count[k],
				       .version = k };
	m->count[k]++;
	m->total++;
}

/* Deletes the key's n-th entry as the walk sees them. */
static void
del(struct model *m, struct kv_dirtab *t, unsigned k)
{
	uint64_t n = kv_rng_below(&m->rng, m->count[k]);
	struct kv_dirtab_entry *e;
	struct kv_dirtab_walk w;

	kv_dirtab_walk(&w, t, m->key[k]);
	do {
		e = kv_dirtab_step(&w);
		assert_non_null(e);
	} while (n-- > 0);
	kv_dirtab_del(t, e);
	m->count[k]--;
	m->total--;
}

static unsigned
entries_of(const struct kv_dirtab *t, struct kv_hash h, unsigned key)
{
	struct kv_dirtab_entry *e;
	struct kv_dirtab_walk w;
	unsigned n = 0;

	kv_dirtab_walk(&w, t, h);
	while ((e = kv_dirtab_step(&w))) {
		assert_int_equal(e->version, key);
		n++;
	}
	return n;
}

static void
check(const struct model *m, const struct kv_dirtab *t)
{
	unsigned k, used = 0;
	size_t g;

	for (k = 0; k < KEYS; k++)
		assert_int_equal(entries_of(t, m->key[k], k), m->count[k]);
	for (g = 0; g < t->groups; g++)
		used += (unsigned)__builtin_popcountll(
			kv_dirtab_used(t->words[g]));
	assert_int_equal(used, m->total);
}

static void
churn(struct model *m, struct kv_dirtab *t, unsigned steps, unsigned max)
{
	unsigned k;

	while (steps-- > 0) {
		k = (unsigned)kv_rng_below(&m->rng, KEYS);
		if (m->count[k] && kv_rng_below(&m->rng, 2))
			del(m, t, k);
		else if (m->total < max)
			add(m, t, k);
	}
}

static void
test_match_is_exact(void **state)
{
	uint64_t word, want;
	struct kv_rng r;
	unsigned i, n;

	(void)state;
	kv_rng_seed(&r, 1);
	for (n = 0; n < 100000; n++) {
		word = want = 0;
		for (i = 0; i < PLACES; i++) {
			/* Neighbours of the tag: where borrows would show. */
			uint64_t tag = 0x80 + kv_rng_below(&r, 4) - 2;

			word |= tag << 8 * i;
			want |= (uint64_t)(tag == 0x80) << (8 * i + 7);
		}
		word |= kv_rng_u64(&r) << KV_DIRTAB_PASSED_SHIFT;
		assert_int_equal(kv_dirtab_match(word, 0x80), want);
		assert_int_equal(kv_dirtab_used(word), KV_DIRTAB_HIGH);
	}
	assert_int_equal(kv_dirtab_used((uint64_t)0xff << 56), 0);
	assert_int_equal(kv_dirtab_match(0x00ff000100800000, 0),
			 0x0000800080008080);
}

static void
test_no_traces_are_left(void **state)
{
	struct kv_dirtab t;
	struct model m;
	uint64_t seed;
	unsigned k;
	size_t g;

	(void)state;
	for (seed = 1; seed <= 20; seed++) {
		model_init(&m, seed);
		assert_int_equal(kv_dirtab_init(&t, GROUPS), 0);
		churn(&m, &t, 3000, 250); /* all are counted */
		check(&m, &t);
		for (k = 0; k < KEYS; k++)
			while (m.count[k])
				del(&m, &t, k);
		for (g = 0; g < GROUPS; g++)
			assert_int_equal(t.words[g], 0);
		kv_dirtab_fini(&t);
	}
}

/* Half full, so that a table of half the size can take all. */
static void
move_and_check(struct model *m, size_t from, size_t to)
{
	struct kv_dirtab t[2];
	unsigned k, there;
	size_t home;

	assert_int_equal(kv_dirtab_init(&t[0], from), 0);
	assert_int_equal(kv_dirtab_init(&t[1], to), 0);
	churn(m, &t[0], 2000, GROUPS * PLACES / 2);
	for (home = 0; home < from; home++) {
		kv_dirtab_move(&t[0], &t[1], home);
		for (k = 0; k < KEYS; k++) {
			there = kv_dirtab_home(&t[0], m->key[k]) <= home;
			assert_int_equal(entries_of(&t[there], m->key[k], k),
					 m->count[k]);
			assert_int_equal(entries_of(&t[!there], m->key[k], k),
					 0);
		}
	}
	check(m, &t[1]);
	for (home = 0; home < from; home++)
		assert_int_equal(t[0].words[home], 0);
	kv_dirtab_fini(&t[0]);
	kv_dirtab_fini(&t[1]);
}

static void
test_move(void **state)
{
	struct model m;
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 4; seed++) {
		model_init(&m, seed);
		move_and_check(&m, GROUPS, GROUPS * 2);
		model_init(&m, seed);
		move_and_check(&m, GROUPS, GROUPS / 2);
	}
}

/* More entries went past a group than its byte counts: they are found, and
 * the walk of a miss ends. */
static void
test_more_passed_than_counted(void **state)
{
	enum {
		MANY = 256 + 3 * PLACES,
	};
	struct kv_hash h = { .lo = UINT64_MAX << 58 | 5 };
	struct kv_dirtab t;
	unsigned i;

	(void)state;
	assert_int_equal(kv_dirtab_init(&t, GROUPS), 0);
	for (i = 0; i < MANY; i++) {
		h.hi = i;
		kv_dirtab_add(&t, h)->hash = h;
	}
	for (i = 0; i < MANY; i += 2) {
		struct kv_dirtab_walk w;
		struct kv_dirtab_entry *e;

		h.hi = i;
		kv_dirtab_walk(&w, &t, h);
		e = kv_dirtab_step(&w);
		assert_non_null(e);
		kv_dirtab_del(&t, e);
	}
	for (i = 0; i < MANY; i++) {
		h.hi = i;
		assert_int_equal(entries_of(&t, h, 0), i % 2);
	}
	for (i = 0; i < GROUPS; i++)
		t.words[i] |= (uint64_t)255 << KV_DIRTAB_PASSED_SHIFT;
	assert_int_equal(entries_of(&t, (struct kv_hash){ 0, 9 }, 0), 0);
	kv_dirtab_fini(&t);
}

/* What has moved gives its memory back, but never an entry that went round
 * the end of the table and has not moved. */
static void
test_release(void **state)
{
	enum {
		LAST = BIG / 2, /* in the released range */
	};
	struct kv_dirtab_entry *e;
	struct kv_dirtab t;
	uint64_t bytes;

	(void)state;
	assert_int_equal(kv_dirtab_init(&t, BIG), 0);
	bytes = kv_dirtab_bytes(&t);
	assert_in_range(bytes, BIG * PLACES * 32, BIG * PLACES * 34);
	e = kv_dirtab_at(&t, LAST, 3);
	e->version = 7;
	t.words[LAST] = (uint64_t)1 << 24;
	kv_dirtab_release(&t, BIG - BIG / 8);
	assert_int_equal(kv_dirtab_bytes(&t), bytes);
	assert_int_equal(e->version, 7);

	t.words[LAST] = 0;
	kv_dirtab_release(&t, LAST);
	assert_int_equal(e->version, 7);
	assert_in_range(bytes - kv_dirtab_bytes(&t), 1, bytes / 2);
	kv_dirtab_release(&t, BIG - BIG / 8);
	assert_int_equal(e->version, 0);
	assert_in_range(kv_dirtab_bytes(&t), bytes / 8, bytes / 2);
	kv_dirtab_fini(&t);
	assert_int_equal(kv_dirtab_bytes(&t), 0);
}

/* A small table has nothing to fault in; of a large one the words come first,
 * and the last home needs all of it. */
static void
test_reach(void **state)
{
	struct kv_dirtab t;
	size_t g;

	(void)state;
	assert_int_equal(kv_dirtab_init(&t, GROUPS), 0);
	assert_int_equal(kv_dirtab_reach(&t, GROUPS), 0);
	kv_dirtab_fini(&t);
	assert_int_equal(kv_dirtab_init(&t, BIG), 0);
	for (g = 0; g < BIG; g += BIG / 8)
		assert_int_equal(kv_dirtab_reach(&t, g),
				 (char *)kv_dirtab_at(&t, g + 1, 0) -
					 (char *)t.words);
	assert_int_equal(kv_dirtab_reach(&t, BIG - 1), kv_dirtab_bytes(&t));
	assert_int_equal(kv_dirtab_reach(&t, BIG + 1), kv_dirtab_bytes(&t));
	kv_dirtab_fini(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match_is_exact),
		cmocka_unit_test(test_no_traces_are_left),
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_more_passed_than_counted),
		cmocka_unit_test(test_release),
		cmocka_unit_test(test_reach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
