#include "store/index.h"

#include <sys/wait.h>
#include <unistd.h>

#include "index_fixture.h"
#include "store/tenants.h"

static struct kv_hash
hash_of(const char *key)
{
	return kv_key_hash(0, key, strlen(key));
}

static void
count_one(void *arg, struct kv_object *o)
{
	unsigned *n = arg;

	(void)o;
	++*n;
}

static unsigned
count(struct fixture *f,
      uint64_t (*scan)(struct kv_index *ix, uint64_t cursor, unsigned count,
		       kv_index_fn *fn, void *arg))
{
	uint64_t cursor = 0;
	unsigned n = 0;

	do
		cursor = scan(f->ix, cursor, 1000, count_one, &n);
	while (cursor);
	return n;
}

static void
test_object_has_what_was_put(void **state)
{
	struct fixture f;
	struct kv_object *o;

	(void)state;
	fixture_set_up(&f);
	o = insert(&f, "key", 1000, KV_OBJ_SOFT_PIN);
	assert_ptr_equal(find(&f, "key"), o);
	assert_int_equal(o->flags, KV_OBJ_HIDDEN | KV_OBJ_SOFT_PIN);
	assert_int_equal(o->size, 1000);
	assert_int_equal(kv_index_space(o), 1024);
	assert_int_equal(o->n_ext, 1);
	assert_int_equal(kv_index_extents(o)->len, 1024);
	assert_int_equal(o->id_random, 77);
	assert_int_equal(o->id_version, 3);
	assert_int_equal(o->key_len, 3);
	assert_memory_equal(o->key, "key", 3);
	assert_int_equal(stats(&f).hidden, 1);
	assert_int_equal(stats(&f).bytes, 0);
	kv_index_show(f.ix, o, f.now);
	assert_int_equal(o->flags, KV_OBJ_SOFT_PIN);
	assert_int_equal(stats(&f).hidden, 0);
	assert_int_equal(stats(&f).bytes, 1000);
	assert_int_equal(stats(&f).soft_pinned, 1);
	kv_index_drop(f.ix, o);
	assert_null(find(&f, "key"));
	assert_int_equal(stats(&f).soft_pinned, 0);
	assert_int_equal(kv_slab_free_bytes(f.slab), POOL);
	fixture_tear_down(&f);
}

/* Hashes may be equal, whole keys and tenants count. */
static void
test_keys_are_compared(void **state)
{
	static const char *const keys[] = { "a", "b", "a\0", "ab" };
	static const size_t lens[] = { 1, 1, 2, 2 };
	struct kv_hash h = { 1, 2 };
	struct kv_index_new_object n = { .hash = h };
	struct kv_object *o[2][4];
	struct fixture f;
	size_t t, k;

	(void)state;
	fixture_set_up(&f);
	assert_int_equal(kv_tenants_add(kv_index_tenants(f.ix), "t", 1), 1);
	for (t = 0; t < 2; t++)
		for (k = 0; k < 4; k++) {
			n.tenant = (unsigned)t;
			n.key = keys[k];
			n.key_len = lens[k];
			o[t][k] = kv_index_insert(f.ix, &n, f.now);
		}
	for (t = 0; t < 2; t++)
		for (k = 0; k < 4; k++)
			assert_ptr_equal(kv_index_find(f.ix, h, (unsigned)t,
						       keys[k], lens[k]),
					 o[t][k]);
	assert_null(kv_index_find(f.ix, h, 0, "c", 1));
	assert_null(kv_index_find(f.ix, h, 2, "a", 1));
	assert_null(kv_index_find(f.ix, (struct kv_hash){ 1, 3 }, 0, "a", 1));
	assert_non_null(kv_index_find_hash(f.ix, h));
	assert_null(kv_index_find_hash(f.ix, (struct kv_hash){ 1, 3 }));
	assert_null(kv_index_find_hash(f.ix, (struct kv_hash){ 2, 2 }));
	fixture_tear_down(&f);
}

static void
test_empty_value(void **state)
{
	struct fixture f;
	struct kv_object *o;

	(void)state;
	fixture_set_up(&f);
	assert_int_equal(make_room(&f, 0), 0);
	o = put(&f, "e", 0);
	assert_int_equal(o->n_ext, 0);
	assert_int_equal(stats(&f).keys, 1);
	kv_index_pin(f.ix, o, f.now);
	kv_index_drop(f.ix, o);
	kv_index_unpin(f.ix, o);
	assert_int_equal(kv_slab_free_bytes(f.slab), POOL);
	put(&f, "e", 0);
	assert_int_equal(make_room(&f, POOL), 1);
	assert_non_null(find(&f, "e"));
	fixture_tear_down(&f);
}

/* What came before the change is in nobody's way. */
static void
test_outdated(void **state)
{
	struct kv_object *old, *hidden, *o;
	struct kv_hash h = hash_of("key");
	struct fixture f;

	(void)state;
	fixture_set_up(&f);
	assert_false(kv_index_may_hold(f.ix, h));
	old = put(&f, "key", 1000);
	hidden = insert(&f, "hidden", 1000, 0);
	assert_false(kv_index_is_outdated(f.ix, old));
	assert_true(kv_index_may_hold(f.ix, h));
	kv_tenants_outdate(kv_index_tenants(f.ix), 0);
	assert_true(kv_index_is_outdated(f.ix, old));
	assert_true(kv_index_is_outdated(f.ix, hidden));
	assert_null(find(&f, "key"));
	assert_null(kv_index_find_hash(f.ix, h));
	assert_int_equal(count(&f, kv_index_scan), 0);
	assert_int_equal(count(&f, kv_index_scan_outdated), 1);
	assert_true(kv_index_may_hold(f.ix, h));
	assert_true(kv_index_may_hold(f.ix, hash_of("hidden")));
	assert_false(kv_index_may_hold(f.ix, hash_of("other")));
	assert_ptr_equal(kv_index_find_old(f.ix, h, 0, "key", 3), old);
	assert_null(kv_index_find_old(f.ix, hash_of("hidden"), 0, "hidden", 6));
	o = put(&f, "key", 500);
	assert_ptr_equal(find(&f, "key"), o);
	assert_ptr_equal(kv_index_find_hash(f.ix, h), o);
	assert_ptr_equal(kv_index_find_old(f.ix, h, 0, "key", 3), old);
	assert_int_equal(count(&f, kv_index_scan), 1);
	kv_index_drop(f.ix, old);
	assert_null(kv_index_find_old(f.ix, h, 0, "key", 3));
	assert_int_equal(count(&f, kv_index_scan_outdated), 0);
	assert_ptr_equal(find(&f, "key"), o);
	fixture_tear_down(&f);
}

/* Only the tenant's own, and what is outdated may be read to the end. */
static void
test_outdated_of_a_tenant(void **state)
{
	struct kv_object *a, *b;
	struct fixture f;

	(void)state;
	fixture_set_up(&f);
	assert_int_equal(kv_tenants_add(kv_index_tenants(f.ix), "t", 1), 1);
	a = put(&f, "a", 1000);
	b = put(&f, "b", 1000);
	kv_index_pin(f.ix, a, f.now);
	kv_tenants_outdate(kv_index_tenants(f.ix), 1);
	assert_ptr_equal(find(&f, "a"), a);
	assert_ptr_equal(find(&f, "b"), b);
	kv_tenants_outdate(kv_index_tenants(f.ix), 0);
	assert_null(find(&f, "a"));
	kv_index_drop(f.ix, a);
	assert_int_equal(kv_index_extents(a)->len, 1024);
	kv_index_unpin(f.ix, a);
	/* It leaves like any other. */
	assert_true(kv_index_evict(f.ix));
	assert_int_equal(kv_slab_free_bytes(f.slab), POOL);
	fixture_tear_down(&f);
}

static void
test_withheld(void **state)
{
	struct kv_index_new_object n = {
		.hash = hash_of("key"),
		.key = "key",
		.key_len = 3,
	};
	struct kv_object *o, *new;
	struct fixture f;

	(void)state;
	fixture_set_up(&f);
	o = kv_index_adopt(f.ix, &n, f.now);
	new = put(&f, "new", 10);
	assert_false(kv_index_is_withheld(f.ix));
	assert_ptr_equal(find(&f, "key"), o);
	kv_index_withhold(f.ix, true);
	assert_true(kv_index_is_withheld(f.ix));
	assert_null(find(&f, "key"));
	assert_null(kv_index_find_hash(f.ix, n.hash));
	assert_ptr_equal(kv_index_find_old(f.ix, n.hash, 0, "key", 3), o);
	assert_ptr_equal(find(&f, "new"), new);
	assert_int_equal(count(&f, kv_index_scan), 1);
	assert_int_equal(count(&f, kv_index_scan_outdated), 0);
	kv_index_withhold(f.ix, false);
	assert_ptr_equal(find(&f, "key"), o);
	assert_null(kv_index_find_old(f.ix, n.hash, 0, "key", 3));
	assert_int_equal(count(&f, kv_index_scan), 2);
	fixture_tear_down(&f);
}

static void
test_many_extents(void **state)
{
	struct fixture f;
	struct kv_object *o;
	uint64_t sum = 0;
	char key[16];
	unsigned i;

	(void)state;
	fixture_set_up(&f);
	fill(&f);
	for (i = 0; i < POOL / KIB; i += 2) {
		snprintf(key, sizeof(key), "%c%u", i < 512 ? 'A' : 'B', i);
		kv_index_drop(f.ix, find(&f, key));
	}
	o = put(&f, "many", 100 * KIB);
	assert_int_equal(f.n_left, 0);
	assert_int_equal(o->n_ext, 100);
	for (i = 0; i < o->n_ext; i++)
		sum += kv_index_extents(o)[i].len;
	assert_int_equal(sum, 100 * KIB);
	kv_index_pin(f.ix, o, f.now);
	kv_index_hold(o);
	kv_index_drop(f.ix, o);
	kv_index_unpin(f.ix, o);
	assert_int_equal(kv_slab_free_bytes(f.slab), POOL / 2);
	kv_index_unhold(f.ix, o);
	kv_index_pin(f.ix, put(&f, "again", 100 * KIB), f.now);
	fixture_tear_down(&f);
}

static void
test_zombie(void **state)
{
	struct fixture f;
	struct kv_object *o, *again;

	(void)state;
	fixture_set_up(&f);
	o = put(&f, "z", POOL / 2);
	kv_index_pin(f.ix, o, f.now);
	kv_index_pin(f.ix, o, f.now);
	assert_int_equal(stats(&f).pinned_bytes, POOL / 2);
	kv_index_drop(f.ix, o);
	assert_true(o->flags & KV_OBJ_GONE);
	assert_null(find(&f, "z"));
	assert_int_equal(stats(&f).keys, 0);
	assert_int_equal(stats(&f).zombie_bytes, POOL / 2);
	again = put(&f, "z", POOL / 2);
	assert_ptr_equal(find(&f, "z"), again);
	assert_int_not_equal(kv_index_extents(o)->off,
			     kv_index_extents(again)->off);
	kv_index_unpin(f.ix, o);
	assert_int_equal(kv_slab_free_bytes(f.slab), 0);
	kv_index_want(f.ix, o, f.now);
	kv_index_pin(f.ix, o, f.now); /* a second range of the same get */
	kv_index_unpin(f.ix, o);
	kv_index_unpin(f.ix, o);
	assert_int_equal(kv_slab_free_bytes(f.slab), POOL / 2);
	assert_int_equal(stats(&f).zombie_bytes, 0);
	assert_int_equal(stats(&f).pinned_bytes, 0);
	fixture_tear_down(&f);
}

static void
test_hold_outlives_drop_and_eviction(void **state)
{
	struct fixture f;
	struct kv_object *o;

	(void)state;
	fixture_set_up(&f);
	o = insert(&f, "hidden", POOL / 2, 0);
	kv_index_hold(o);
	kv_index_hold(o);
	kv_index_drop(f.ix, o);
	assert_int_equal(kv_slab_free_bytes(f.slab), POOL);
	assert_true(o->flags & KV_OBJ_GONE);
	kv_index_unhold(f.ix, o);
	assert_memory_equal(o->key, "hidden", 6);
	kv_index_unhold(f.ix, o);

	o = put(&f, "x", POOL);
	kv_index_hold(o);
	make_room(&f, POOL);
	assert_string_equal(f.left, "x");
	assert_true(o->flags & KV_OBJ_GONE);
	kv_index_unhold(f.ix, o);

	o = put(&f, "y", POOL);
	kv_index_hold(o);
	kv_index_unhold(f.ix, o);
	assert_ptr_equal(find(&f, "y"), o);
	fixture_tear_down(&f);
}

struct scan {
	struct fixture *f;
	unsigned char seen[1000];
	unsigned visits;
};

/* Drops one in three of what it sees. */
static void
visit(void *arg, struct kv_object *o)
{
	struct scan *s = arg;
	unsigned i = (unsigned)strtoul(o->key, NULL, 10);

	assert_false(o->flags & KV_OBJ_HIDDEN);
	s->visits++;
	s->seen[i] = 1;
	if (i % 3 == 0)
		kv_index_drop(s->f->ix, o);
}

static void
test_scan_while_dropping(void **state)
{
	struct fixture f;
	struct scan s = { .f = &f };
	uint64_t cursor = 0;
	unsigned i, turns = 0;
	char key[16];

	(void)state;
	fixture_set_up(&f);
	for (i = 0; i < 1000; i++) {
		struct kv_object *o;

		snprintf(key, sizeof(key), "%u ", i);
		o = insert(&f, key, 1, 0);
		if (i % 10)
			kv_index_show(f.ix, o, f.now);
	}
	do {
		cursor = kv_index_scan(f.ix, cursor, 10, visit, &s);
		turns++;
	} while (cursor);
	assert_true(turns > 10);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(s.seen[i], i % 10 != 0);
		snprintf(key, sizeof(key), "%u ", i);
		assert_int_equal(find(&f, key) == NULL, i % 10 && i % 3 == 0);
	}
	fixture_tear_down(&f);
}

/* 0: every step went well; 1: some failed and left no trace; else: wrong. */
static int
run_with_fault(void)
{
	struct kv_extent ext[2] = { { 0, 256 }, { 512, 256 } };
	struct kv_index_new_object n = { .key = "k", .key_len = 1, .ext = ext };
	struct kv_index_opts opts = { .slab = kv_slab_new(POOL) };
	struct kv_index *ix = opts.slab ? kv_index_new(&opts) : NULL;
	struct kv_object *o;
	int rc, failed = 0;

	if (!ix) {
		kv_slab_free(opts.slab);
		return 1;
	}
	rc = kv_tenants_add(kv_index_tenants(ix), "t", 1);
	if (rc != 1 && rc != -ENOMEM)
		return 2;
	if (kv_tenants_find(kv_index_tenants(ix), "t", 1) !=
	    (rc == 1 ? 1 : -ENOENT))
		return 3;
	failed |= rc < 0;
	for (n.n_ext = 0; n.n_ext <= 2; n.n_ext++) {
		n.size = n.n_ext * 256;
		n.hash.lo = n.n_ext;
		o = kv_index_insert(ix, &n, 0);
		failed |= !o;
		if (kv_index_find_hash(ix, n.hash) != o)
			return 4;
	}
	kv_index_free(ix);
	kv_slab_free(opts.slab);
	return failed;
}

/* Must be the first test: a process counts its faults from its first one. */
static void
test_no_memory(void **state)
{
	int status = 0, n;
	char text[16];
	pid_t pid;

	(void)state;
#ifndef KV_FAULTS
	skip();
#endif
	for (n = 1; n < 100; n++) {
		fflush(NULL);
		pid = fork();
		if (pid == 0) {
			snprintf(text, sizeof(text), "%d", n);
			setenv("KV_FAULT", text, 1);
			exit(run_with_fault()); /* and look for leaks */
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 0)
			break;
		assert_int_equal(WEXITSTATUS(status), 1);
	}
	assert_in_range(n, 6, 99);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_object_has_what_was_put),
		cmocka_unit_test(test_keys_are_compared),
		cmocka_unit_test(test_empty_value),
		cmocka_unit_test(test_outdated),
		cmocka_unit_test(test_outdated_of_a_tenant),
		cmocka_unit_test(test_withheld),
		cmocka_unit_test(test_many_extents),
		cmocka_unit_test(test_zombie),
		cmocka_unit_test(test_hold_outlives_drop_and_eviction),
		cmocka_unit_test(test_scan_while_dropping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
