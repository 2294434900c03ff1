#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "test.h"
#include "xfer/note.h"

static void
they_come_out_in_order_and_whole(void **state)
{
	struct kv_note_queue q;
	struct kv_note_in in[3];

	(void)state;
	kv_note_init(&q);
	assert_int_equal(kv_note_push(&q, "one", 3, "a\0b", 3), 0);
	assert_int_equal(kv_note_push(&q, "", 0, NULL, 0), 0);
	assert_int_equal(kv_note_push(&q, "three", 5, "c", 1), 0);
	assert_int_equal(kv_note_pop(&q, in, 2), 2);
	assert_string_equal(in[0].name, "one");
	assert_int_equal(in[0].text_len, 3);
	assert_memory_equal(in[0].text, "a\0b\0", 4);
	assert_string_equal(in[1].name, "");
	assert_string_equal(in[1].text, "");
	free(in[0].text);
	free(in[1].text);
	assert_int_equal(kv_note_pop(&q, in, 3), 1);
	assert_string_equal(in[0].name, "three");
	free(in[0].text);
	assert_int_equal(kv_note_pop(&q, in, 3), 0);
	kv_note_fini(&q);
}

static void
a_long_name_is_cut(void **state)
{
	struct kv_note_queue q;
	struct kv_note_in in;
	char name[300];

	(void)state;
	memset(name, 'n', sizeof(name));
	kv_note_init(&q);
	assert_int_equal(kv_note_push(&q, name, sizeof(name), "", 0), 0);
	assert_int_equal(kv_note_pop(&q, &in, 1), 1);
	assert_int_equal(strlen(in.name), KV_NOTE_NAME_BYTES_MAX);
	free(in.text);
	kv_note_fini(&q);
}

static void
the_queue_has_bounds(void **state)
{
	static char text[1 << 20];
	struct kv_note_queue q;
	struct kv_note_in in;

	(void)state;
	kv_note_init(&q);
	for (int i = 0; i < KV_ENGINE_NOTES_MAX; i++)
		assert_int_equal(kv_note_push(&q, "n", 1, "t", 1), 0);
	assert_int_equal(kv_note_push(&q, "n", 1, "t", 1), -EBUSY);
	assert_int_equal(kv_note_pop(&q, &in, 1), 1);
	free(in.text);
	assert_int_equal(kv_note_push(&q, "n", 1, "t", 1), 0);
	kv_note_fini(&q); /* what is in it goes too */

	kv_note_init(&q);
	for (size_t n = 0; n < KV_ENGINE_NOTES_BYTES_MAX; n += sizeof(text))
		assert_int_equal(kv_note_push(&q, "n", 1, text, sizeof(text)),
				 0);
	assert_int_equal(kv_note_push(&q, "n", 1, text, 1), -EBUSY);
	assert_int_equal(kv_note_push(&q, "n", 1, text, 0), 0);
	kv_note_fini(&q);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_come_out_in_order_and_whole),
		cmocka_unit_test(a_long_name_is_cut),
		cmocka_unit_test(the_queue_has_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
