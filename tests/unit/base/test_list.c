#include "base/list.h"

#include <string.h>

#include "test.h"

/* The alignment would show a member access through the head as an object. */
struct item {
	int n;
	struct kv_list link;
} __attribute__((aligned(64)));

static char text[32];

static const char *
show(struct kv_list *head)
{
	struct item *it;
	size_t len = 0;

	KV_LIST_FOREACH(it, head, link)
		text[len++] = (char)('0' + it->n);
	text[len] = '\0';
	return text;
}

static void
order_of_adding(void **state)
{
	struct item it[4] = { { .n = 0 }, { .n = 1 }, { .n = 2 }, { .n = 3 } };
	struct kv_list head;

	(void)state;
	kv_list_init(&head);
	assert_true(kv_list_is_empty(&head));
	assert_null(kv_list_first(&head));
	assert_null(KV_LIST_FIRST(&head, struct item, link));
	kv_list_add_tail(&head, &it[1].link);
	kv_list_add_tail(&head, &it[2].link);
	kv_list_add_head(&head, &it[0].link);
	kv_list_add_tail(&it[1].link, &it[3].link);
	assert_string_equal(show(&head), "0312");
	assert_ptr_equal(kv_list_first(&head), &it[0].link);
	assert_ptr_equal(KV_LIST_FIRST(&head, struct item, link), &it[0]);
}

static void
deleting_twice_is_harmless(void **state)
{
	struct item it[2] = { { .n = 0 }, { .n = 1 } };
	struct kv_list head;

	(void)state;
	kv_list_init(&head);
	kv_list_add_tail(&head, &it[0].link);
	kv_list_add_tail(&head, &it[1].link);
	kv_list_del(&it[0].link);
	kv_list_del(&it[0].link);
	assert_true(kv_list_is_empty(&it[0].link));
	assert_string_equal(show(&head), "1");
	kv_list_del(&it[1].link);
	assert_true(kv_list_is_empty(&head));
}

static void
safe_walk_may_delete(void **state)
{
	struct item it[5], *pos, *tmp;
	struct kv_list head;
	int i;

	(void)state;
	kv_list_init(&head);
	for (i = 0; i < 5; i++) {
		it[i].n = i;
		kv_list_add_tail(&head, &it[i].link);
	}
	KV_LIST_FOREACH_SAFE(pos, tmp, &head, link) {
		if (pos->n % 2 == 0) {
			kv_list_del(&pos->link);
			memset(pos, 0xff, sizeof(*pos));
		}
	}
	assert_string_equal(show(&head), "13");
}

static void
splice(void **state)
{
	struct item it[4] = { { .n = 0 }, { .n = 1 }, { .n = 2 }, { .n = 3 } };
	struct kv_list a, b;

	(void)state;
	kv_list_init(&a);
	kv_list_init(&b);
	kv_list_splice_tail(&a, &b);
	assert_true(kv_list_is_empty(&a) && kv_list_is_empty(&b));
	kv_list_add_tail(&b, &it[0].link);
	kv_list_add_tail(&b, &it[1].link);
	kv_list_splice_tail(&a, &b);
	assert_true(kv_list_is_empty(&b));
	assert_string_equal(show(&a), "01");
	kv_list_add_tail(&b, &it[2].link);
	kv_list_add_tail(&b, &it[3].link);
	kv_list_splice_tail(&a, &b);
	assert_true(kv_list_is_empty(&b));
	assert_string_equal(show(&a), "0123");
	assert_ptr_equal(a.prev, &it[3].link);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_adding),
		cmocka_unit_test(deleting_twice_is_harmless),
		cmocka_unit_test(safe_walk_may_delete),
		cmocka_unit_test(splice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
