#include "store/index.h"

#include <sys/wait.h>
#include <unistd.h>

#include "index_fixture.h"

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
	assert_int_equal(kv_index_tenant(f.ix, "t", 1), 1);
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

static void
test_tenants(void **state)
{
	char name[KV_TENANT_BYTES_MAX];
	struct fixture f;
	unsigned i;
	size_t len;

	(void)state;
	fixture_set_up(&f);
	assert_int_equal(kv_index_tenant_find(f.ix, "", 0), 0);
	assert_int_equal(kv_index_tenant(f.ix, "default", 7), 0);
	assert_int_equal(kv_index_tenant_find(f.ix, "x", 1), -ENOENT);
	assert_int_equal(kv_index_tenant(f.ix, "x", 1), 1);
	assert_int_equal(kv_index_tenant(f.ix, "x", 1), 1);
	assert_int_equal(kv_index_tenant_find(f.ix, "x", 1), 1);
	assert_int_equal(kv_index_tenant_find(f.ix, "xy", 2), -ENOENT);
	assert_string_equal(kv_index_tenant_name(f.ix, 0, &len), "default");
	assert_int_equal(len, 7);
	assert_string_equal(kv_index_tenant_name(f.ix, 1, &len), "x");
	memset(name, 'n', sizeof(name));
	for (i = 2; i < 65535; i++) {
		memcpy(name, &i, sizeof(i));
		assert_int_equal(kv_index_tenant(f.ix, name, sizeof(name)), i);
	}
	assert_int_equal(kv_index_tenant(f.ix, "one more", 8), -ENOSPC);
	assert_int_equal(kv_index_tenant_find(f.ix, name, sizeof(name)), 65534);
	assert_memory_equal(kv_index_tenant_name(f.ix, 65534, &len), name,
			    sizeof(name));
	assert_int_equal(len, sizeof(name));
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
	rc = kv_index_tenant(ix, "t", 1);
	if (rc != 1 && rc != -ENOMEM)
		return 2;
	if (kv_index_tenant_find(ix, "t", 1) != (rc == 1 ? 1 : -ENOENT))
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
		cmocka_unit_test(test_tenants),
		cmocka_unit_test(test_many_extents),
		cmocka_unit_test(test_zombie),
		cmocka_unit_test(test_hold_outlives_drop_and_eviction),
		cmocka_unit_test(test_scan_while_dropping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
