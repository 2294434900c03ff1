#include "cli/moonflag.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

enum {
	WHO_BOTH = KV_CONF_MASTER | KV_CONF_CLIENT,
};

/* Every default is a value of its flag, and every flag has what its kind says.
 */
static void
test_table(void **state)
{
	static struct kv_gflags_flag flags[KV_MOONFLAG_COUNT];
	static struct kv_gflags_value values[KV_MOONFLAG_COUNT];
	struct kv_gflags g = { flags, values, KV_MOONFLAG_COUNT, 0, 0, 0 };
	char out[KV_FLAGCONV_SIZE], err[256];

	(void)state;
	for (size_t i = 0; i < KV_MOONFLAG_COUNT; i++) {
		const struct kv_moonflag *row = kv_moonflag_row(i);

		flags[i] = (struct kv_gflags_flag){ row->name, row->type };
		assert_true(row->who && !(row->who & ~(unsigned)WHO_BOTH));
		assert_int_equal(!row->preset, row->kind == KV_MOONFLAG_OWN);
		assert_int_equal(!row->help, row->kind == KV_MOONFLAG_NOTHING);
		assert_int_equal(!!row->option,
				 row->kind == KV_MOONFLAG_TO ||
					 row->kind == KV_MOONFLAG_OWN);
		if (!row->preset)
			continue;
		assert_int_equal(kv_gflags_set(&g, i, row->preset,
					       KV_GFLAGS_COMMAND, err,
					       sizeof(err)),
				 0);
		/* As it is kept, so that a value can be held against it. */
		assert_string_equal(values[i].text, row->preset);
		assert_int_equal(row->conv(row->preset, out, err, sizeof(err)),
				 0);
	}
	kv_gflags_fini(&g);
}

static void
test_names_are_of_one_flag(void **state)
{
	(void)state;
	for (size_t i = 0; i < KV_MOONFLAG_COUNT; i++) {
		const struct kv_moonflag *a = kv_moonflag_row(i);

		for (size_t j = 0; j < i; j++) {
			const struct kv_moonflag *b = kv_moonflag_row(j);

			assert_false((a->who & b->who) &&
				     strcmp(a->name, b->name) == 0);
		}
	}
}

static void
test_reasons(void **state)
{
	enum kv_log_level level;

	(void)state;
	for (unsigned i = 0; i < KV_MOONFLAG_REASONS; i++) {
		assert_true(strlen(kv_moonflag_reason(i, &level)) > 10);
		assert_true(level == KV_LOG_WARN || level == KV_LOG_INFO);
	}
}

/* How many lines of TEXT are about a flag of that name, or of any if NULL. */
static unsigned
count_lines(const char *text, const char *name)
{
	size_t n = name ? strlen(name) : 0;
	unsigned count = 0;

	for (; *text; text += strcspn(text, "\n") + 1) {
		assert_true(strcspn(text, "\n") <= 80);
		if (strncmp(text, "  --", 4) != 0)
			continue;
		if (!name || (strncmp(text + 4, name, n) == 0 &&
			      strchr("= \n", text[4 + n])))
			count++;
	}
	return count;
}

static void
test_list(void **state)
{
	char *text = NULL;
	size_t size = 0;
	unsigned flags;
	FILE *f;

	(void)state;
	for (unsigned who = KV_CONF_MASTER; who <= KV_CONF_CLIENT; who *= 2) {
		f = open_memstream(&text, &size);
		assert_non_null(f);
		kv_moonflag_list(who, f);
		assert_int_equal(fclose(f), 0);
		flags = 0;
		for (size_t i = 0; i < KV_MOONFLAG_COUNT; i++) {
			const struct kv_moonflag *row = kv_moonflag_row(i);

			if (!(row->who & who))
				continue;
			flags++;
			assert_int_equal(count_lines(text, row->name), 1);
		}
		assert_int_equal(count_lines(text, NULL), flags);
		free(text);
	}
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_names_are_of_one_flag),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
