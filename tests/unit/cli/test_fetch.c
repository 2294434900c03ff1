#include "cli/fetch.h"

#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* A pool of values: key i, of one byte, has sizes[i] bytes of that value. */
struct pool {
	const uint64_t *sizes;
	unsigned calls;
	uint64_t bytes_max; /* of memory in one call */
};

static void
call(struct pool *p, struct kv_fetch *f)
{
	uint64_t bytes = 0, size;

	p->calls++;
	for (size_t i = 0; i < f->n; i++) {
		struct kv_get_item *item = &f->items[i];
		uint8_t key = *(const uint8_t *)item->key.data;

		size = p->sizes[key];
		bytes += f->bufs[i].len;
		assert_ptr_equal(item->bufs, &f->bufs[i]);
		assert_int_equal(item->nbufs, 1);
		item->size_total = size;
		item->status = size == UINT64_MAX      ? -KV_EMISS
			       : size > f->bufs[i].len ? -KV_ETOOBIG
						       : 0;
		if (item->status)
			continue;
		item->len = size;
		memset(f->bufs[i].data, key, size);
	}
	p->bytes_max = kv_max_u64(p->bytes_max, bytes);
}

/* Fetches all n keys; each must come once, with its value. */
static void
fetch_all(struct pool *p, struct kv_fetch *f, size_t n)
{
	struct kv_key keys[KV_FETCH_KEYS_MAX];
	uint8_t names[KV_FETCH_KEYS_MAX], seen[KV_FETCH_KEYS_MAX] = { 0 };
	uint64_t bytes;
	size_t over = 0;

	for (size_t i = 0; i < n; i++) {
		names[i] = (uint8_t)i;
		keys[i] = (struct kv_key){ &names[i], 1 };
	}
	p->calls = 0;
	p->bytes_max = 0;
	kv_fetch_begin(f, keys, n);
	while (kv_fetch_next(f, &bytes) > 0) {
		call(p, f);
		for (size_t i = 0; i < f->n; i++) {
			const struct kv_get_item *item = &f->items[i];
			const uint8_t *key = item->key.data, *data;

			if (!kv_fetch_is_over(f, i))
				continue;
			over++;
			assert_int_equal(seen[*key]++, 0);
			data = f->bufs[i].data;
			for (size_t j = 0; !item->status && j < item->len;
			     j += 999)
				assert_int_equal(data[j], *key);
		}
	}
	assert_int_equal(over, n);
}

static void
test_small_ones_take_one_call(void **state)
{
	static const uint64_t sizes[4] = { 0, 1, UINT64_MAX, 65536 };
	struct kv_fetch *f = calloc(1, sizeof(*f));
	struct pool p = { .sizes = sizes };

	(void)state;
	assert_non_null(f);
	fetch_all(&p, f, 4);
	assert_int_equal(p.calls, 1);
	kv_fetch_fini(f);
	free(f);
}

static void
test_equal_sizes_are_learnt(void **state)
{
	uint64_t sizes[256];
	struct kv_fetch *f = calloc(1, sizeof(*f));
	struct pool p = { .sizes = sizes };

	(void)state;
	assert_non_null(f);
	for (size_t i = 0; i < 256; i++)
		sizes[i] = 1 << 20;
	fetch_all(&p, f, 256);
	assert_int_equal(p.calls, 5);
	fetch_all(&p, f, 256);
	assert_int_equal(p.calls, 4);
	assert_true(p.bytes_max <= KV_FETCH_BYTES_MAX);
	kv_fetch_fini(f);
	free(f);
}

static void
test_large_ones_go_alone(void **state)
{
	static const uint64_t sizes[4] = { 100, KV_FETCH_BYTES_MAX + 1, 70000,
					   KV_FETCH_BYTES_MAX };
	struct kv_fetch *f = calloc(1, sizeof(*f));
	struct pool p = { .sizes = sizes };

	(void)state;
	assert_non_null(f);
	fetch_all(&p, f, 4);
	assert_int_equal(p.calls, 4);
	assert_int_equal(p.bytes_max, KV_FETCH_BYTES_MAX + 1);
	/* The guess is bounded by what is taken for several. */
	assert_int_equal(f->guess, KV_FETCH_BYTES_MAX);
	kv_fetch_fini(f);
	free(f);
}

static void
test_a_value_that_always_grows_ends(void **state)
{
	struct kv_fetch *f = calloc(1, sizeof(*f));
	const struct kv_key key = { "k", 1 };
	unsigned calls = 0;
	uint64_t bytes;

	(void)state;
	assert_non_null(f);
	kv_fetch_begin(f, &key, 1);
	while (kv_fetch_next(f, &bytes) > 0) {
		calls++;
		f->items[0].status = -KV_ETOOBIG;
		f->items[0].size_total = bytes + 1;
		if (kv_fetch_is_over(f, 0))
			break;
	}
	assert_int_equal(calls, KV_FETCH_TRIES_MAX);
	assert_int_equal(kv_fetch_next(f, &bytes), 0);

	/* Too big for what it got, and yet not bigger: an error like others. */
	kv_fetch_begin(f, &key, 1);
	assert_int_equal(kv_fetch_next(f, &bytes), 1);
	f->items[0].status = -KV_ETOOBIG;
	f->items[0].size_total = bytes;
	assert_true(kv_fetch_is_over(f, 0));
	kv_fetch_fini(f);
	free(f);
}

static void
test_no_memory_for_one_is_no_end(void **state)
{
	struct kv_fetch *f = calloc(1, sizeof(*f));
	const struct kv_key keys[2] = { { "a", 1 }, { "b", 1 } };
	uint64_t bytes;

	(void)state;
	assert_non_null(f);
	kv_fetch_begin(f, keys, 2);
	assert_int_equal(kv_fetch_next(f, &bytes), 1);
	f->items[0].status = -KV_ETOOBIG;
	f->items[0].size_total = UINT64_MAX;
	f->items[1].status = -KV_ETOOBIG;
	f->items[1].size_total = 100000;
	assert_false(kv_fetch_is_over(f, 0));
	assert_false(kv_fetch_is_over(f, 1));
	assert_int_equal(kv_fetch_next(f, &bytes), -ENOMEM);
	assert_int_equal(f->n, 1);
	assert_ptr_equal(f->items[0].key.data, keys[0].data);
	assert_int_equal(f->items[0].status, -KV_ENOMEM);
	assert_true(kv_fetch_is_over(f, 0));
	assert_int_equal(kv_fetch_next(f, &bytes), 1);
	assert_int_equal(f->n, 1);
	assert_ptr_equal(f->items[0].key.data, keys[1].data);
	assert_int_equal(bytes, 100000);
	kv_fetch_fini(f);
	free(f);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_ones_take_one_call),
		cmocka_unit_test(test_equal_sizes_are_learnt),
		cmocka_unit_test(test_large_ones_go_alone),
		cmocka_unit_test(test_a_value_that_always_grows_ends),
		cmocka_unit_test(test_no_memory_for_one_is_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
