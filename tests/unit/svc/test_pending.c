#include "svc/pending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nth_fault.h"
#include "test.h"

static struct kv_id
id(unsigned n)
{
	struct kv_id v = { { 0 } };

	memcpy(v.b, &n, sizeof(n));
	return v;
}

/* A removal of tenant "t" with `more` bytes behind the name. */
static int
add(struct kv_pending *p, unsigned store, enum kv_remove_op op, unsigned flags,
    size_t more)
{
	struct kv_remove body = {
		.op = (uint8_t)op,
		.flags = (uint8_t)flags,
		.tenant_len = 1,
		.count = kv_le32((uint32_t)more),
	};
	uint8_t *tail = calloc(1, more + 1);
	int rc;

	assert_non_null(tail);
	tail[0] = 't';
	rc = kv_pending_add(p, id(store), id(store + 1000), &body, tail,
			    more + 1);
	free(tail);
	return rc;
}

static unsigned
count(struct kv_pending *p, unsigned store)
{
	struct kv_pending_store *s = kv_pending_find(p, id(store));
	struct kv_list *at;
	unsigned n = 0;

	for (at = s ? s->removals.next : NULL; at && at != &s->removals;
	     at = at->next)
		n++;
	return n;
}

static void
test_kept_in_order_until_told(void **state)
{
	struct kv_pending_removal *r;
	struct kv_pending_store *s;
	struct kv_pending p;

	(void)state;
	kv_pending_init(&p);
	assert_int_equal(kv_pending_away(&p, id(1), id(11), 100), 0);
	assert_int_equal(p.n_away, 1);
	assert_int_equal(add(&p, 1, KV_REMOVE_KEYS, 0, 10), 0);
	assert_int_equal(add(&p, 1, KV_REMOVE_REGEX, KV_REMOVE_FORCE, 5), 0);
	assert_int_equal(p.n_removals, 2);
	kv_pending_back(&p, id(1));
	assert_int_equal(p.n_away, 0);
	s = kv_pending_find(&p, id(1));
	r = kv_pending_next(s);
	assert_int_equal(r->body.op, KV_REMOVE_KEYS);
	assert_int_equal(r->tail_len, 11);
	assert_int_equal(r->tail[0], 't');
	kv_pending_told(&p, s);
	r = kv_pending_next(s);
	assert_int_equal(r->body.op, KV_REMOVE_REGEX);
	assert_int_equal(r->body.flags, KV_REMOVE_FORCE);
	kv_pending_told(&p, s);
	assert_null(kv_pending_find(&p, id(1)));
	assert_int_equal(p.bytes, 0);
	assert_int_equal(p.n_stores, 0);
	kv_pending_fini(&p);
}

/* Who is away misses what comes; who is back, or was never known, does not. */
static void
test_all_that_are_away(void **state)
{
	struct kv_remove body = { .op = KV_REMOVE_ALL, .tenant_len = 1 };
	struct kv_bytes away = { 0 };
	struct kv_pending p;

	(void)state;
	kv_pending_init(&p);
	assert_int_equal(kv_pending_away(&p, id(1), id(11), 100), 0);
	assert_int_equal(kv_pending_away(&p, id(2), id(12), 200), 0);
	assert_int_equal(kv_pending_away(&p, id(3), id(13), 300), 0);
	kv_pending_back(&p, id(2));
	kv_pending_back(&p, id(4));
	assert_int_equal(kv_pending_add_all(&p, &body, "t", 1, &away), 0);
	assert_int_equal(away.len, 2 * sizeof(struct kv_id));
	assert_true(kv_id_is_equal(*(struct kv_id *)(void *)away.data, id(11)));
	assert_int_equal(count(&p, 1), 1);
	assert_int_equal(count(&p, 2), 0);
	assert_int_equal(count(&p, 3), 1);
	kv_pending_expire(&p, 99);
	assert_int_equal(p.n_away, 2);
	kv_pending_expire(&p, 100);
	assert_int_equal(p.n_away, 1);
	assert_null(kv_pending_find(&p, id(1)));
	kv_pending_back(&p, id(3));
	kv_pending_expire(&p, 1000);
	assert_int_equal(count(&p, 3), 1);
	kv_bytes_fini(&away);
	kv_pending_fini(&p);
}

/* What goes with all of the tenant need not be said. */
static void
test_all_covers_the_rest(void **state)
{
	struct kv_remove other = { .op = KV_REMOVE_ALL, .tenant_len = 1 };
	struct kv_pending p;

	(void)state;
	kv_pending_init(&p);
	assert_int_equal(add(&p, 1, KV_REMOVE_KEYS, 0, 10), 0);
	assert_int_equal(add(&p, 1, KV_REMOVE_ALL, 0, 0), 0);
	assert_int_equal(count(&p, 1), 2);
	assert_int_equal(kv_pending_add(&p, id(1), id(11), &other, "u", 1), 0);
	assert_int_equal(add(&p, 1, KV_REMOVE_ALL, KV_REMOVE_FORCE, 0), 0);
	assert_int_equal(count(&p, 1), 2);
	assert_int_equal(add(&p, 1, KV_REMOVE_KEYS, 0, 10), 0);
	assert_int_equal(count(&p, 1), 2);
	assert_int_equal(p.n_removals, 2);
	kv_pending_fini(&p);
}

/* Of a node that heard elsewhere of its generation nothing goes for it. */
static void
test_what_follows_a_generation(void **state)
{
	const struct kv_remove all = {
		.op = KV_REMOVE_ALL,
		.flags = KV_REMOVE_FORCE,
		.tenant_len = 1,
		.generation = { kv_le64(5), kv_le64(7) },
	};
	struct kv_pending p;

	(void)state;
	kv_pending_init(&p);
	assert_int_equal(kv_pending_add(&p, id(1), id(11), &all, "t", 1), 0);
	assert_int_equal(add(&p, 1, KV_REMOVE_KEYS, 0, 10), 0);
	assert_int_equal(count(&p, 1), 2);
	assert_int_equal(kv_pending_add(&p, id(1), id(11), &all, "t", 1), 0);
	assert_int_equal(count(&p, 1), 1);
	kv_pending_fini(&p);
}

/* Then all goes, also where that generation is known. */
static void
test_widened_for_no_generation(void **state)
{
	const struct kv_remove all = {
		.op = KV_REMOVE_ALL,
		.tenant_len = 1,
		.generation = { kv_le64(5), kv_le64(7) },
	};
	struct kv_pending_removal *r;
	struct kv_pending p;
	unsigned i;

	(void)state;
	kv_pending_init(&p);
	assert_int_equal(kv_pending_add(&p, id(1), id(11), &all, "t", 1), 0);
	for (i = 0; i < 20; i++)
		assert_int_equal(add(&p, 1, KV_REMOVE_KEYS, 0, 1 << 20), 0);
	assert_int_equal(count(&p, 1), 1);
	r = kv_pending_next(kv_pending_find(&p, id(1)));
	assert_int_equal(r->body.flags, KV_REMOVE_FORCE);
	assert_int_equal(kv_get64(r->body.generation.number), 0);
	kv_pending_fini(&p);
}

static void
test_too_many_stores(void **state)
{
	struct kv_pending p;
	unsigned i;

	(void)state;
	kv_pending_init(&p);
	for (i = 0; i < KV_PENDING_STORES_MAX; i++)
		assert_int_equal(kv_pending_away(&p, id(i), id(i), 100), 0);
	/* It goes again: another one is the first now. */
	assert_int_equal(kv_pending_away(&p, id(0), id(0), 100), 0);
	assert_int_equal(p.n_lost, 0);
	assert_int_equal(kv_pending_away(&p, id(i), id(i), 100), 0);
	assert_int_equal(p.n_lost, 1);
	assert_int_equal(p.n_stores, KV_PENDING_STORES_MAX);
	assert_int_equal(p.n_away, KV_PENDING_STORES_MAX);
	assert_null(kv_pending_find(&p, id(1)));
	assert_non_null(kv_pending_find(&p, id(0)));
	assert_non_null(kv_pending_find(&p, id(i)));
	assert_int_equal(add(&p, i + 1, KV_REMOVE_KEYS, 0, 1), 0);
	assert_int_equal(p.n_stores, KV_PENDING_STORES_MAX);
	assert_int_equal(count(&p, i + 1), 1);
	kv_pending_fini(&p);
}

/* The longest list says less exactly what is to go. */
static void
test_too_many_bytes(void **state)
{
	size_t half = KV_PENDING_BYTES_MAX / 2;
	struct kv_pending_removal *r;
	struct kv_pending p;

	(void)state;
	kv_pending_init(&p);
	assert_int_equal(add(&p, 1, KV_REMOVE_KEYS, 0, 100), 0);
	assert_int_equal(add(&p, 1, KV_REMOVE_KEYS, 0, half), 0);
	assert_int_equal(add(&p, 2, KV_REMOVE_KEYS, 0, 1000), 0);
	assert_int_equal(p.n_widened, 0);
	assert_int_equal(add(&p, 2, KV_REMOVE_KEYS, 0, half - 5000), 0);
	assert_int_equal(p.n_widened, 0);
	assert_int_equal(add(&p, 2, KV_REMOVE_REGEX, 0, 6000), 0);
	assert_int_equal(p.n_widened, 1);
	assert_in_range(p.bytes, half - 5000, half + 1000);
	assert_int_equal(count(&p, 1), 2);
	assert_int_equal(count(&p, 2), 1);
	r = kv_pending_next(kv_pending_find(&p, id(2)));
	assert_int_equal(r->body.op, KV_REMOVE_ALL);
	assert_int_equal(r->body.flags, KV_REMOVE_FORCE);
	assert_int_equal(kv_get32(r->body.count), 0);
	assert_int_equal(r->tail_len, 1);
	kv_pending_fini(&p);
}

/* So many tenants that nothing can be said shorter. */
static void
test_too_many_tenants(void **state)
{
	struct kv_remove body = {
		.op = KV_REMOVE_ALL,
		.flags = KV_REMOVE_FORCE,
		.tenant_len = 64,
	};
	char name[64] = { 0 };
	struct kv_pending p;
	unsigned i;

	(void)state;
	kv_pending_init(&p);
	for (i = 0; p.n_lost == 0 && i < 1000; i++) {
		unsigned j;

		for (j = 0; j < 250; j++) {
			memcpy(name, &i, sizeof(i));
			assert_int_equal(kv_pending_add(&p, id(j), id(j), &body,
							name, 64),
					 0);
		}
	}
	assert_in_range(p.n_lost, 1, 249);
	assert_in_range(p.bytes, 1, KV_PENDING_BYTES_MAX);
	assert_in_range(p.n_stores, 249, 250);
	kv_pending_fini(&p);
}

/* Fails like add() did, and leaves no store that nothing is known of. */
static int
no_memory(void)
{
	struct kv_remove body = { .op = KV_REMOVE_ALL };
	struct kv_pending p;
	int rc;

	kv_pending_init(&p);
	rc = kv_pending_add(&p, id(1), id(1), &body, "", 0);
	if (rc < 0 && p.n_stores)
		return 3;
	if (rc == 0)
		kv_pending_told(&p, kv_pending_find(&p, id(1)));
	if (p.n_stores || p.bytes || p.n_removals)
		return 4;
	kv_pending_fini(&p);
	return rc == 0 ? 0 : rc == -ENOMEM ? 1 : 2;
}

static void
test_no_memory(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, no_memory), 1);
	assert_int_equal(nth_fault_run(2, no_memory), 1);
	assert_int_equal(nth_fault_run(3, no_memory), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(test_no_memory),
		cmocka_unit_test(test_kept_in_order_until_told),
		cmocka_unit_test(test_all_that_are_away),
		cmocka_unit_test(test_all_covers_the_rest),
		cmocka_unit_test(test_what_follows_a_generation),
		cmocka_unit_test(test_widened_for_no_generation),
		cmocka_unit_test(test_too_many_stores),
		cmocka_unit_test(test_too_many_bytes),
		cmocka_unit_test(test_too_many_tenants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
