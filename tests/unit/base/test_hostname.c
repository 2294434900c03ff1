#include "test.h"

#include "base/hostname.h"

#include <string.h>

#include "base/attr.h"

static void
test_names_and_ipv4(void **state)
{
	static const struct {
		const char *s, *fault; /* NULL: none */
	} cases[] = {
		{ "h", NULL },
		{ "my_node-1.Example.COM.", NULL },
		{ "10.0.0.1", NULL },
		{ "4x4", NULL },
		{ "node-4.2d", NULL },
		{ "-", NULL },
		{ "", "no host" },
		{ ".", "that is no host name" },
		{ ".a", "that is no host name" },
		{ "a..b", "that is no host name" },
		{ "a..", "that is no host name" },
		{ "a b", "that is no host name" },
		{ "a/b", "that is no host name" },
		{ "a\xc3\xa9", "that is no host name" },
		{ "::1", "that is no host name" },
		{ "10.1", "that is no IPv4 address" },
		{ "50051", "that is no IPv4 address" },
		{ "256.0.0.1", "that is no IPv4 address" },
		{ "1.2.3.4.", "that is no IPv4 address" },
		{ "host.1", "that is no IPv4 address" },
	};
	char label[65];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		const char *fault = kv_hostname_fault(cases[i].s);

		if (cases[i].fault)
			assert_string_equal(fault, cases[i].fault);
		else
			assert_null(fault);
	}
	memset(label, 'a', sizeof(label));
	label[64] = '\0';
	assert_non_null(kv_hostname_fault(label));
	label[63] = '\0';
	assert_null(kv_hostname_fault(label));
	assert_true(kv_hostname_is_ipv4("0.0.0.0"));
	assert_false(kv_hostname_is_ipv4("0.0.0"));
}

static void
test_ipv6(void **state)
{
	static const char *const good[] = {
		"::1",
		"fd00:9::1",
		"::ffff:1.2.3.4",
		"fe80::1%eth0.5",
		"fe80::1%2",
		"fe80::1%fifteen-letters",
	};
	static const char *const bad[] = {
		"",
		"1.2.3.4",
		"h",
		"[::1]",
		":::",
		"1:2:3:4:5:6:7:8:9",
		"fe80::1%",
		"fe80::1%a b",
		"fe80::1%sixteen-letters-",
		"0000:0000:0000:0000:0000:0000:255.255.255.255.255.255.255",
	};
	struct in6_addr a;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(good); i++)
		assert_true(kv_hostname_ipv6(good[i], &a));
	for (size_t i = 0; i < KV_ARRAY_LEN(bad); i++)
		assert_false(kv_hostname_ipv6(bad[i], &a));
	assert_true(kv_hostname_ipv6("::1", &a));
	assert_true(IN6_IS_ADDR_LOOPBACK(&a));
	assert_true(kv_hostname_ipv6("fe80::1%lo", &a));
	assert_true(IN6_IS_ADDR_LINKLOCAL(&a));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_ipv4),
		cmocka_unit_test(test_ipv6),
	};

	return cmocka_run_group_tests_name("base/hostname", tests, NULL, NULL);
}
