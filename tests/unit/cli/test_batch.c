#include "cli/batch.h"

#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/kv.test_batch.XXXXXX";

static int
make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int
remove_dir(void **state)
{
	(void)state;
	unlink("f");
	return rmdir(dir);
}

static void
make_file(const char *text)
{
	FILE *f = fopen("f", "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int
add(struct kv_batch *b, const char *key, const char *path)
{
	const struct kv_key k = { key, strlen(key) };

	return kv_batch_add(b, &k, path, false, NULL);
}

static void
expect(const struct kv_batch *b, size_t i, const char *key, const char *value)
{
	const struct kv_put_item *item = &b->items[i];

	assert_int_equal(item->key.len, strlen(key));
	assert_memory_equal(item->key.data, key, strlen(key));
	if (!*value) {
		assert_int_equal(item->nbufs, 0);
		return;
	}
	assert_int_equal(item->nbufs, 1);
	assert_int_equal(item->bufs->len, strlen(value));
	assert_memory_equal(item->bufs->data, value, strlen(value));
}

static void
test_items_are_what_was_added(void **state)
{
	struct kv_batch *b = calloc(1, sizeof(*b));

	(void)state;
	assert_non_null(b);
	for (unsigned round = 0; round < 2; round++) {
		make_file("first");
		assert_int_equal(add(b, "one", "f"), 0);
		make_file("");
		assert_int_equal(add(b, "none", "f"), 0);
		assert_int_equal(add(b, "bad", "absent"), -ENOENT);
		make_file("the third");
		assert_int_equal(add(b, "three", "f"), 0);
		kv_batch_ready(b);
		assert_int_equal(b->n, 3);
		expect(b, 0, "one", "first");
		expect(b, 1, "none", "");
		expect(b, 2, "three", "the third");
		kv_batch_reset(b);
		assert_int_equal(b->n, 0);
	}
	kv_batch_fini(b);
	free(b);
}

static void
test_full_by_keys(void **state)
{
	struct kv_batch *b = calloc(1, sizeof(*b));

	(void)state;
	assert_non_null(b);
	make_file("x");
	for (unsigned i = 0; i < KV_BATCH_ITEMS_MAX; i++) {
		assert_false(kv_batch_is_full(b));
		assert_int_equal(add(b, "k", "f"), 0);
	}
	assert_true(kv_batch_is_full(b));
	kv_batch_reset(b);
	assert_false(kv_batch_is_full(b));
	kv_batch_fini(b);
	free(b);
}

static void
test_full_by_bytes(void **state)
{
	struct kv_batch *b = calloc(1, sizeof(*b));

	(void)state;
	assert_non_null(b);
	make_file("");
	assert_int_equal(truncate("f", 3 * KV_BATCH_BYTES_MAX / 4), 0);
	assert_int_equal(add(b, "k", "f"), 0);
	assert_false(kv_batch_is_full(b));
	assert_int_equal(add(b, "l", "f"), 0);
	assert_true(kv_batch_is_full(b));
	assert_int_equal(b->n, 2);
	kv_batch_reset(b);
	assert_false(kv_batch_is_full(b));

	/* What one large value took is not kept. */
	assert_int_equal(truncate("f", 3ll * KV_BATCH_BYTES_MAX), 0);
	assert_int_equal(add(b, "m", "f"), 0);
	kv_batch_reset(b);
	assert_int_equal(b->values.cap, 0);
	kv_batch_fini(b);
	free(b);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_items_are_what_was_added),
		cmocka_unit_test(test_full_by_keys),
		cmocka_unit_test(test_full_by_bytes),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
