#include "store/dir.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/rng.h"
#include "test.h"

enum {
	SLOTS = 12,
	KEYS_MAX = 1500,
	IDS = 3,
};

/* The directory as arrays: who owns what, of which id (0: does not). */
struct model {
	struct kv_rng rng;
	struct kv_dir *d;
	unsigned keys;
	struct kv_hash key[KEYS_MAX];
	uint8_t owner[KEYS_MAX][SLOTS];
	bool live[SLOTS];
	bool hidden[SLOTS];
	unsigned closing; /* slots closed and not swept */
};

static uint64_t
below(struct model *m, uint64_t n)
{
	return kv_rng_below(&m->rng, n);
}

static struct kv_dir_id
id_of(unsigned number)
{
	/* The version alone, or the random part alone, is different. */
	return (struct kv_dir_id){ .random = number > 1 ? 7 : 8,
				   .version = number > 2 ? 1 : 0 };
}

/* clustered: few homes, the last one too, and few tags, so that entries go
 * past full groups and round the end. */
static void
model_init(struct model *m, uint64_t seed, bool clustered)
{
	unsigned i;

	memset(m, 0, sizeof(*m));
	kv_rng_seed(&m->rng, seed);
	m->keys = 10 + (unsigned)below(m, KEYS_MAX - 10);
	if (clustered)
		m->keys = m->keys / 4 + 1;
	m->d = kv_dir_new(SLOTS);
	assert_non_null(m->d);
	for (i = 0; i < m->keys; i++) {
		m->key[i].hi = i;
		m->key[i].lo = kv_rng_u64(&m->rng);
		if (clustered)
			m->key[i].lo = -below(m, 5) << 59 | below(m, 3);
	}
}

/* The id number of the key's live owners, or 0. */
static unsigned
model_id(const struct model *m, unsigned k)
{
	unsigned s;

	for (s = 0; s < SLOTS; s++)
		if (m->owner[k][s])
			return m->owner[k][s];
	return 0;
}

static unsigned
model_owners(const struct model *m, unsigned k, bool shown)
{
	unsigned s, n = 0;

	for (s = 0; s < SLOTS; s++)
		n += m->owner[k][s] && !(shown && m->hidden[s]);
	return n;
}

static void
check_view(const struct model *m, unsigned k, bool shown,
	   const struct kv_dir_view *v)
{
	struct kv_dir_id id = id_of(model_id(m, k));
	unsigned i, seen = 0;

	assert_int_equal(v->n, model_owners(m, k, shown));
	if (!v->n)
		return;
	assert_int_equal(v->id.random, id.random);
	assert_int_equal(v->id.version, id.version);
	for (i = 0; i < v->n; i++) {
		assert_true(v->slots[i] < SLOTS);
		assert_true(m->owner[k][v->slots[i]]);
		assert_false(shown && m->hidden[v->slots[i]]);
		assert_false(seen & 1u << v->slots[i]);
		seen |= 1u << v->slots[i];
	}
}

static void
check_key(const struct model *m, unsigned k)
{
	unsigned shown = model_owners(m, k, true);
	struct kv_dir_view v;

	assert_int_equal(kv_dir_find(m->d, m->key[k], &v), shown > 0);
	check_view(m, k, true, &v);
	assert_int_equal(kv_dir_find(m->d, m->key[k], NULL), shown > 0);
}

static void
check_all(const struct model *m)
{
	unsigned k, s, keys = 0, found = 0;
	uint8_t out[KEYS_MAX];
	uint64_t owned;

	for (k = 0; k < m->keys; k++) {
		check_key(m, k);
		keys += model_id(m, k) != 0;
		found += model_owners(m, k, true) > 0;
	}
	assert_int_equal(kv_dir_exist(m->d, m->key, m->keys, out), found);
	for (k = 0; k < m->keys; k++)
		assert_int_equal(out[k], model_owners(m, k, true) > 0);
	for (s = 0; s < SLOTS; s++) {
		for (owned = k = 0; k < m->keys; k++)
			owned += m->owner[k][s] != 0;
		assert_int_equal(kv_dir_slot_keys(m->d, s), owned);
	}
	if (m->closing)
		assert_true(kv_dir_keys(m->d) >= keys);
	else
		assert_int_equal(kv_dir_keys(m->d), keys);
}

static void
do_add(struct model *m, unsigned k, unsigned s)
{
	unsigned was = model_id(m, k), id = 1 + (unsigned)below(m, IDS);
	struct kv_dir_view v = { .n = 99 };
	int rc, want = 1;

	if (was && below(m, 4))
		id = was;
	if (was && was != id)
		want = 0;
	else if (!m->owner[k][s] &&
		 model_owners(m, k, false) >= KV_REPLICAS_MAX)
		want = -ENOSPC;
	if (!m->live[s])
		return;
	rc = kv_dir_add(m->d, m->key[k], id_of(id), s, &v);
	assert_int_equal(rc, want);
	if (rc == 0 || rc == -ENOSPC)
		check_view(m, k, false, &v);
	else
		assert_int_equal(v.n, 99);
	if (rc == 1)
		m->owner[k][s] = (uint8_t)id;
}

static void
do_del(struct model *m, unsigned k, unsigned s)
{
	unsigned id = m->owner[k][s];
	bool was;

	if (!id || !below(m, 8))
		id = 1 + (unsigned)below(m, IDS);
	was = kv_dir_del(m->d, m->key[k], id_of(id), s);
	assert_int_equal(was, m->owner[k][s] == id);
	if (was)
		m->owner[k][s] = 0;
}

static void
do_slot(struct model *m, unsigned s)
{
	unsigned k;

	if (!m->live[s]) {
		if (!kv_dir_slot_is_swept(m->d, s))
			return;
		kv_dir_slot_open(m->d, s);
		m->live[s] = true;
	} else if (below(m, 2)) {
		kv_dir_slot_close(m->d, s);
		kv_dir_slot_close(m->d, s);
		for (k = 0; k < m->keys; k++)
			m->owner[k][s] = 0;
		m->live[s] = m->hidden[s] = false;
		m->closing++;
	} else {
		m->hidden[s] = below(m, 2);
		kv_dir_slot_hide(m->d, s, m->hidden[s]);
	}
}

static void
do_sweep(struct model *m, unsigned steps)
{
	bool more = kv_dir_sweep(m->d, steps);
	unsigned s;

	if (more)
		return;
	m->closing = 0;
	for (s = 0; s < SLOTS; s++)
		assert_int_equal(kv_dir_slot_is_swept(m->d, s), !m->live[s]);
}

/* grow: of 256 steps that many more add than delete. */
static void
run(struct model *m, unsigned steps, unsigned adds)
{
	unsigned k, s, what;

	while (steps-- > 0) {
		k = (unsigned)below(m, m->keys);
		s = (unsigned)below(m, SLOTS);
		what = (unsigned)below(m, 4096);
		if (what < 6)
			do_slot(m, s);
		else if (what < 100)
			do_sweep(m, (unsigned)below(m, 2000));
		else if (what < 101)
			check_all(m);
		else if (what < 130) {
			kv_dir_clear(m->d, m->key[k]);
			memset(m->owner[k], 0, sizeof(m->owner[k]));
		} else if (below(m, 256) < adds)
			do_add(m, k, s);
		else
			do_del(m, k, s);
		if (what & 1)
			kv_dir_prefetch(m->d, m->key[k]);
		check_key(m, k);
	}
}

static void
run_model(uint64_t seed, bool clustered, unsigned steps)
{
	static struct model m;
	unsigned s;

	model_init(&m, seed, clustered);
	for (s = 0; s < SLOTS / 2; s++)
		kv_dir_slot_open(m.d, s), m.live[s] = true;
	run(&m, steps / 2, 200);
	check_all(&m);
	run(&m, steps / 2, 60);
	check_all(&m);
	for (s = 0; s < SLOTS; s++)
		kv_dir_slot_close(m.d, s);
	while (kv_dir_sweep(m.d, 100))
		;
	assert_int_equal(kv_dir_keys(m.d), 0);
	kv_dir_free(m.d);
}

static void
test_model(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 40 / KV_TEST_SLOWER; seed++) {
		run_model(seed, false, 50000);
		run_model(seed, true, 10000);
	}
}

static struct kv_hash
hash_of(uint64_t n)
{
	uint64_t x = n * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return (struct kv_hash){ .lo = x ^ x >> 32, .hi = n };
}

static struct kv_dir *
dir_with(unsigned slots)
{
	struct kv_dir *d = kv_dir_new(slots);
	unsigned s;

	assert_non_null(d);
	for (s = 0; s < slots; s++)
		kv_dir_slot_open(d, s);
	return d;
}

static void
add(struct kv_dir *d, uint64_t key, unsigned slot)
{
	struct kv_dir_view v;

	assert_int_equal(kv_dir_add(d, hash_of(key), id_of(1), slot, &v), 1);
}

static void
del(struct kv_dir *d, uint64_t key, unsigned slot)
{
	assert_true(kv_dir_del(d, hash_of(key), id_of(1), slot));
}

static void
check_bytes(struct kv_dir *d, uint64_t entries)
{
	if (entries >= 1000)
		assert_in_range(kv_dir_bytes(d), 32 * entries, 150 * entries);
}

/* 150 bytes a key and replica, at any fill, up and down. */
static void
test_memory(void **state)
{
	enum {
		MANY = 120000 / KV_TEST_SLOWER,
	};
	unsigned replicas, s;
	struct kv_dir *d;
	uint64_t i;

	(void)state;
	for (replicas = 1; replicas <= KV_REPLICAS_MAX; replicas += 7) {
		d = dir_with(8);
		for (i = 0; i < MANY; i++) {
			for (s = 0; s < replicas; s++)
				add(d, i, s);
			check_bytes(d, (i + 1) * replicas);
		}
		assert_int_equal(kv_dir_keys(d), MANY);
		for (; i-- > 0; check_bytes(d, i * replicas)) {
			if (i % 2)
				kv_dir_clear(d, hash_of(i));
			else
				for (s = 0; s < replicas; s++)
					del(d, i, s);
		}
		assert_int_equal(kv_dir_keys(d), 0);
		assert_in_range(kv_dir_bytes(d), 1, 16384);
		kv_dir_free(d);
	}
}

/* A closed slot's memory goes as it is swept. */
static void
test_memory_of_swept(void **state)
{
	enum {
		MANY = 100000,
	};
	struct kv_dir *d = dir_with(2);
	uint64_t i, full;

	(void)state;
	for (i = 0; i < MANY; i++)
		add(d, i, i % 100 == 0);
	full = kv_dir_bytes(d);
	kv_dir_slot_close(d, 0);
	assert_int_equal(kv_dir_slot_keys(d, 0), 0);
	while (kv_dir_sweep(d, 1000))
		;
	assert_int_equal(kv_dir_keys(d), MANY / 100);
	assert_in_range(kv_dir_bytes(d), 1, full / 20);
	check_bytes(d, MANY / 100);
	for (i = 0; i < MANY; i++)
		assert_int_equal(kv_dir_find(d, hash_of(i), NULL),
				 i % 100 == 0);
	kv_dir_free(d);
}

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* What is left meanwhile lies everywhere: a table that shrinks, or takes what
 * is new, has room for it where it belongs. (It took minutes.) */
static void
test_sweep_is_even(void **state)
{
	enum {
		MANY = 2000000 / KV_TEST_SLOWER,
		NEW = 300000 / KV_TEST_SLOWER,
	};
	struct kv_dir *d = dir_with(2);
	uint64_t i, n = MANY, begun;

	(void)state;
	for (i = 0; i < MANY; i++)
		add(d, i, 0);
	kv_dir_slot_close(d, 0);
	begun = cpu_ns();
	while (kv_dir_sweep(d, 8192))
		for (i = 0; i < 1000 && n < MANY + NEW; i++)
			add(d, n++, 1);
	assert_in_range(cpu_ns() - begun, 0, 10 * KV_NS_PER_S);
	assert_int_equal(kv_dir_keys(d), n - MANY);
	check_bytes(d, n - MANY);
	kv_dir_free(d);
}

/* A sweep of a few steps does no more than that. */
static void
test_sweep_is_sliced(void **state)
{
	enum {
		MANY = 100000,
	};
	struct kv_dir *d = dir_with(1);
	unsigned slices = 0;
	uint64_t i;

	(void)state;
	for (i = 0; i < MANY; i++)
		add(d, i, 0);
	kv_dir_slot_close(d, 0);
	for (i = 0; i < MANY; i += 1000)
		assert_false(kv_dir_find(d, hash_of(i), NULL));
	while (kv_dir_sweep(d, 100))
		slices++;
	assert_true(slices > MANY / 100 / 2);
	assert_true(kv_dir_slot_is_swept(d, 0));
	assert_false(kv_dir_sweep(d, 100));
	kv_dir_free(d);
}

/* CPU time of the longest change of a table that grows and shrinks. */
static uint64_t
longest_change(void)
{
	enum {
		MANY = 2000000 / KV_TEST_SLOWER,
		STEP = 8,
	};
	struct kv_dir *d = dir_with(1);
	uint64_t i, j, t0, max = 0;

	for (i = 0; i < MANY; i += STEP) {
		t0 = cpu_ns();
		for (j = i; j < i + STEP; j++)
			add(d, j, 0);
		max = kv_max_u64(max, cpu_ns() - t0);
	}
	for (i = 0; i < MANY; i += STEP) {
		t0 = cpu_ns();
		for (j = i; j < i + STEP; j++)
			del(d, j, 0);
		max = kv_max_u64(max, cpu_ns() - t0);
	}
	kv_dir_free(d);
	return max;
}

/* CPU time that the kernel and its host take at most to find a huge page. */
static uint64_t
slowest_page(void)
{
	enum {
		PAGE = 2 << 20,
		PAGES = 64,
	};
	uint8_t *all = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t t0, max = 0;
	size_t i;

	assert_ptr_not_equal(all, MAP_FAILED);
	(void)madvise(all, (size_t)PAGES * PAGE, MADV_HUGEPAGE);
	for (i = 0; i < PAGES; i++) {
		t0 = cpu_ns();
		memset(all + i * PAGE, 1, PAGE);
		max = kv_max_u64(max, cpu_ns() - t0);
	}
	munmap(all, (size_t)PAGES * PAGE);
	return max;
}

/* No change takes long however many keys there are: growing and shrinking
 * are spread. A copy of the whole table would take 50 ms and more, and all of
 * its pages. One may begin two pages, and a host may have none at hand. */
static void
test_no_stall(void **state)
{
	const uint64_t most = 20000000 * KV_TEST_SLOWER;
	uint64_t page, longest;
	int i = 0;

	(void)state;
	do {
		page = slowest_page();
		longest = longest_change();
		page = kv_max_u64(page, slowest_page());
	} while (++i < 3 && longest > most + 2 * page);
	assert_in_range(longest, 1, most + 2 * page);
}

static void
test_too_many_owners(void **state)
{
	struct kv_dir *d = dir_with(KV_REPLICAS_MAX + 2);
	struct kv_dir_view v;
	unsigned s;

	(void)state;
	for (s = 0; s < KV_REPLICAS_MAX; s++)
		add(d, 1, s);
	assert_int_equal(kv_dir_add(d, hash_of(1), id_of(1), s, &v), -ENOSPC);
	assert_int_equal(v.n, KV_REPLICAS_MAX);
	add(d, 1, 0); /* it is one already */
	kv_dir_slot_hide(d, 1, true);
	assert_int_equal(kv_dir_add(d, hash_of(1), id_of(1), s, &v), -ENOSPC);
	kv_dir_slot_close(d, 1);
	add(d, 1, s);
	assert_true(kv_dir_find(d, hash_of(1), &v));
	assert_int_equal(v.n, KV_REPLICAS_MAX);
	assert_int_equal(kv_dir_keys(d), 1);
	kv_dir_free(d);
}

/* Owners of a dead slot, not yet swept, do not stand in the way of another
 * id; hidden ones do. */
static void
test_dead_owners_do_not_count(void **state)
{
	struct kv_dir *d = dir_with(3);
	struct kv_dir_view v;

	(void)state;
	add(d, 1, 0);
	kv_dir_slot_hide(d, 0, true);
	assert_false(kv_dir_find(d, hash_of(1), NULL));
	assert_int_equal(kv_dir_add(d, hash_of(1), id_of(2), 1, &v), 0);
	assert_int_equal(v.n, 1);
	assert_int_equal(v.slots[0], 0);
	kv_dir_slot_hide(d, 0, false);
	assert_true(kv_dir_find(d, hash_of(1), NULL));

	kv_dir_slot_close(d, 0);
	kv_dir_slot_hide(d, 0, false);
	assert_false(kv_dir_find(d, hash_of(1), NULL));
	assert_false(kv_dir_slot_is_swept(d, 0));
	assert_false(kv_dir_del(d, hash_of(1), id_of(1), 0));
	assert_int_equal(kv_dir_add(d, hash_of(1), id_of(2), 1, &v), 1);
	assert_true(kv_dir_find(d, hash_of(1), &v));
	assert_int_equal(v.n, 1);
	assert_int_equal(v.slots[0], 1);
	assert_int_equal(v.id.random, id_of(2).random);
	kv_dir_free(d);
}

/* Out of memory for a bigger table: adds fail, what is there stays, and it
 * goes on when there is memory again. */
static int
run_without_memory(void)
{
	const struct rlimit none = { 0, RLIM_INFINITY };
	const struct rlimit any = { RLIM_INFINITY, RLIM_INFINITY };
	struct kv_dir *d = dir_with(1);
	struct kv_dir_view v;
	uint64_t i, n;
	int rc;

	setrlimit(RLIMIT_AS, &none);
	for (n = 0; n < 100000; n++) {
		rc = kv_dir_add(d, hash_of(n), id_of(1), 0, &v);
		if (rc != 1)
			break;
	}
	if (rc != -ENOMEM || kv_dir_keys(d) != n || kv_dir_new(1))
		return 1;
	for (i = 0; i < n + 100; i++)
		if (kv_dir_find(d, hash_of(i), NULL) != (i < n))
			return 2;
	if (!kv_dir_del(d, hash_of(0), id_of(1), 0) ||
	    kv_dir_add(d, hash_of(0), id_of(1), 0, &v) != 1 ||
	    kv_dir_add(d, hash_of(n), id_of(1), 0, &v) != -ENOMEM)
		return 3;
	setrlimit(RLIMIT_AS, &any);
	for (; n < 100000; n++)
		if (kv_dir_add(d, hash_of(n), id_of(1), 0, &v) != 1)
			return 4;
	kv_dir_free(d);
	return 0;
}

static void
test_no_memory(void **state)
{
	int status;
	pid_t pid;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* needs address space itself */
#endif
	pid = fork();
	if (pid == 0)
		_exit(run_without_memory());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_of_swept),
		cmocka_unit_test(test_sweep_is_even),
		cmocka_unit_test(test_sweep_is_sliced),
		cmocka_unit_test(test_no_stall),
		cmocka_unit_test(test_too_many_owners),
		cmocka_unit_test(test_dead_owners_do_not_count),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
