#include "cli/guess.h"

#include "test.h"

#include <string.h>

static const char *
guess(const char *text)
{
	static const char *const names[] = { "port", "rpc_port", "rpc_address",
					     "metrics_port", "v" };
	struct kv_guess g = { 0 };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		kv_guess_try(&g, text, strlen(text), names[i]);
	return g.best;
}

static void
test_near_names(void **state)
{
	(void)state;
	assert_string_equal(guess("rpc_prot"), "rpc_port");
	assert_string_equal(guess("rpcport"), "rpc_port");
	assert_string_equal(guess("RPC-PORT"), "rpc_port");
	assert_string_equal(guess("rpc_addres"), "rpc_address");
	assert_string_equal(guess("metric_ports"), "metrics_port");
	assert_string_equal(guess("porta"), "port");
}

static void
test_what_is_far_is_no_name(void **state)
{
	char text[KV_GUESS_BYTES_MAX + 2];

	(void)state;
	assert_null(guess(""));
	assert_null(guess("w"));    /* one edit of one letter */
	assert_null(guess("prot")); /* two of four */
	assert_null(guess("address"));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_null(guess(text));
	assert_null(guess(text + 1));
}

/* The length is what is given, and the first of equals stays. */
static void
test_bytes_and_ties(void **state)
{
	struct kv_guess g = { 0 };

	(void)state;
	kv_guess_try(&g, "rpc_portX", 8, "rpc_port");
	assert_string_equal(g.best, "rpc_port");
	assert_int_equal(g.edits, 0);
	g.best = NULL;
	kv_guess_try(&g, "abcx", 4, "abca");
	kv_guess_try(&g, "abcx", 4, "abcb");
	assert_string_equal(g.best, "abca");
	assert_int_equal(g.edits, 1);
	kv_guess_try(&g, "abcx", 4, "abcx");
	assert_string_equal(g.best, "abcx");
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_near_names),
		cmocka_unit_test(test_what_is_far_is_no_name),
		cmocka_unit_test(test_bytes_and_ties),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
