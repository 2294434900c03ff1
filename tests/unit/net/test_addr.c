#include "net/addr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"

#include "test.h"

#define DEFAULT_PORT 50051

/* Written back it is `formatted` when that is given, else as it was. */
static const struct good {
	const char *text;
	enum kv_addr_kind kind;
	const char *name;
	uint16_t port;
	const char *formatted;
} goods[] = {
	{ "host:1", KV_ADDR_TCP, "host", 1, NULL },
	{ "host", KV_ADDR_TCP, "host", DEFAULT_PORT, "host:50051" },
	{ "tcp:host:1", KV_ADDR_TCP, "host", 1, "host:1" },
	{ "tcp:host", KV_ADDR_TCP, "host", DEFAULT_PORT, "host:50051" },
	{ "my_node-1.Example.COM.:65535", KV_ADDR_TCP, "my_node-1.Example.COM.",
	  65535, NULL },
	{ "10.0.0.1:0", KV_ADDR_TCP, "10.0.0.1", 0, NULL },
	{ "4x4:80", KV_ADDR_TCP, "4x4", 80, NULL },
	{ "node-4.2d:80", KV_ADDR_TCP, "node-4.2d", 80, NULL },
	{ "[::1]:50052", KV_ADDR_TCP, "::1", 50052, NULL },
	{ "[::1]", KV_ADDR_TCP, "::1", DEFAULT_PORT, "[::1]:50051" },
	{ "[fe80::1%eth0.5]:7", KV_ADDR_TCP, "fe80::1%eth0.5", 7, NULL },
	{ "[::ffff:1.2.3.4]:7", KV_ADDR_TCP, "::ffff:1.2.3.4", 7, NULL },
	{ ":7", KV_ADDR_TCP, "", 7, NULL },
	{ "*:7", KV_ADDR_TCP, "", 7, ":7" },
	{ "*", KV_ADDR_TCP, "", DEFAULT_PORT, ":50051" },
	{ "tcp:", KV_ADDR_TCP, "", DEFAULT_PORT, ":50051" },
	{ "tcp:tcp:7", KV_ADDR_TCP, "tcp", 7, NULL },
	{ "tcp:unix:7", KV_ADDR_TCP, "unix", 7, NULL },
	{ "tcp:rdma", KV_ADDR_TCP, "rdma", DEFAULT_PORT, "tcp:rdma:50051" },
	{ "unix:/run/kv.sock", KV_ADDR_UNIX, "/run/kv.sock", 0, NULL },
	{ "unix:a b,[c]:1", KV_ADDR_UNIX, "a b,[c]:1", 0, NULL },
};

static const struct bad {
	const char *text;
	int code;
	const char *why; /* part of the message */
} bads[] = {
	{ "", -EINVAL, "it is empty" },
	{ "host:", -EINVAL, "a port number must follow" },
	{ "host:x", -EINVAL, "a port number must follow" },
	{ "host:-1", -EINVAL, "a port number must follow" },
	{ "host: 1", -EINVAL, "a port number must follow" },
	{ "host:1 ", -EINVAL, "a port number must follow" },
	{ "host:65536", -ERANGE, "at most 65535" },
	{ "host:99999999999999999999", -ERANGE, "at most 65535" },
	{ "::1", -EINVAL, "in brackets, as in [::1]:50051" },
	{ "fe80::1:50051", -EINVAL, "in brackets, as in [::1]:50051" },
	{ "tcp:::", -EINVAL, "in brackets" },
	{ "[::1", -EINVAL, "a ']' is missing" },
	{ "[::1]7", -EINVAL, "only ':' and a port" },
	{ "[::1]:", -EINVAL, "a port number must follow" },
	{ "[]:7", -EINVAL, "in brackets stands an IPv6 address" },
	{ "[host]:7", -EINVAL, "in brackets stands an IPv6 address" },
	{ "[1.2.3.4]:7", -EINVAL, "in brackets stands an IPv6 address" },
	{ "[fe80::1%]:7", -EINVAL, "in brackets stands an IPv6 address" },
	{ "[fe80::1%a/b]:7", -EINVAL, "in brackets stands an IPv6 address" },
	{ "[fe80::1%0123456789abcdef]:7", -EINVAL, "in brackets" },
	{ "tcp://10.0.0.1:50051", -EINVAL, "that is no host name" },
	{ "a b:1", -EINVAL, "that is no host name" },
	{ " a:1", -EINVAL, "that is no host name" },
	{ "a\xc3\xa4:1", -EINVAL, "'a\\xc3\\xa4:1': that is no host name" },
	{ "a..b:1", -EINVAL, "that is no host name" },
	{ ".a:1", -EINVAL, "that is no host name" },
	{ ".:1", -EINVAL, "that is no host name" },
	{ "/run/kv.sock", -EINVAL, "that is no host name" },
	{ "tcp:50051", -EINVAL, "that is no IPv4 address" },
	{ "10.0.0:1", -EINVAL, "that is no IPv4 address" },
	{ "10.0.0.256:1", -EINVAL, "that is no IPv4 address" },
	{ "10.0.0.1.:1", -EINVAL, "that is no IPv4 address" },
	{ "unix:", -EINVAL, "a path must follow" },
	{ "rdma:host:1", -ENOTSUP, "RDMA is not supported" },
};

static void
good_addresses_parse_and_are_written_back(void **state)
{
	char err[KV_ADDR_ERROR_BYTES], text[KV_ADDR_TEXT_BYTES_MAX];
	struct kv_addr a, again;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(goods); i++) {
		const struct good *g = &goods[i];

		if (kv_addr_parse(g->text, DEFAULT_PORT, &a, err, sizeof(err)))
			fail_msg("%s", err);
		assert_int_equal(a.kind, g->kind);
		assert_string_equal(a.name, g->name);
		assert_int_equal(a.port, g->port);
		assert_string_equal(kv_addr_format(&a, text),
				    g->formatted ? g->formatted : g->text);
		assert_int_equal(
			kv_addr_parse(text, 0, &again, err, sizeof(err)), 0);
		assert_memory_equal(&a, &again, sizeof(a));
	}
}

static void
bad_addresses_are_refused_with_a_reason(void **state)
{
	struct kv_addr a = { .port = 4711 };
	char err[KV_ADDR_ERROR_BYTES];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(bads); i++) {
		const struct bad *b = &bads[i];
		int code = kv_addr_parse(b->text, DEFAULT_PORT, &a, err,
					 sizeof(err));

		if (code != b->code || !strstr(err, b->why))
			fail_msg("'%s': %d %s", b->text, code, err);
		assert_int_equal(a.port, 4711);
	}
}

static void
without_a_default_a_port_is_needed(void **state)
{
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a;

	(void)state;
	assert_int_equal(kv_addr_parse("host", 0, &a, err, sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, "a port is missing"));
	assert_int_equal(kv_addr_parse("[::1]", 0, &a, err, sizeof(err)),
			 -EINVAL);
	assert_int_equal(kv_addr_parse("host:0", 0, &a, err, sizeof(err)), 0);
}

static int
parse_filled(const char *head, int n, const char *tail, struct kv_addr *a,
	     char *err)
{
	char text[1024];

	snprintf(
		text, sizeof(text), "%s%.*s%s", head, n,
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		".xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		".xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		".xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		".xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
		tail);
	return kv_addr_parse(text, 0, a, err, KV_ADDR_ERROR_BYTES);
}

static void
lengths_are_bounded_and_nothing_is_cut(void **state)
{
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a;

	(void)state;
	assert_int_equal(parse_filled("unix:", 107, "", &a, err), 0);
	assert_int_equal(strlen(a.name), 107);
	assert_int_equal(parse_filled("unix:", 108, "", &a, err),
			 -ENAMETOOLONG);
	assert_non_null(strstr(err, "at most 107 bytes, not 108"));
	assert_int_equal(parse_filled("unix:", 200, "", &a, err),
			 -ENAMETOOLONG);
	assert_int_equal(parse_filled("tcp:", 253, ":65535", &a, err), 0);
	assert_int_equal(strlen(a.name), 253);
	assert_int_equal(parse_filled("", 254, ":1", &a, err), -EINVAL);
	assert_non_null(strstr(err, "at most 253 bytes"));
	assert_int_equal(parse_filled("[", 254, "]:1", &a, err), -EINVAL);
	assert_int_equal(parse_filled("x", 63, ":1", &a, err), -EINVAL);
	/* The message is cut instead. */
	assert_int_equal(kv_addr_parse("::", 0, &a, err, 5), -EINVAL);
	assert_string_equal(err, "addr");
}

static void
lists_are_split_at_commas(void **state)
{
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a[3];
	char text[600];

	(void)state;
	assert_int_equal(kv_addr_parse_list("a,b:2 ,\t[::1]:3", 1, a, 3, err,
					    sizeof(err)),
			 3);
	assert_string_equal(a[0].name, "a");
	assert_int_equal(a[0].port, 1);
	assert_string_equal(a[1].name, "b");
	assert_int_equal(a[1].port, 2);
	assert_string_equal(a[2].name, "::1");
	assert_int_equal(kv_addr_parse_list("a", 1, a, 3, err, sizeof(err)), 1);
	assert_int_equal(
		kv_addr_parse_list("a,b,c,d", 1, a, 3, err, sizeof(err)),
		-E2BIG);
	assert_non_null(strstr(err, "more than 3 addresses"));
	assert_int_equal(kv_addr_parse_list("", 1, a, 3, err, sizeof(err)),
			 -EINVAL);
	assert_int_equal(kv_addr_parse_list("a,", 1, a, 3, err, sizeof(err)),
			 -EINVAL);
	assert_int_equal(kv_addr_parse_list("a,,b", 1, a, 3, err, sizeof(err)),
			 -EINVAL);
	assert_int_equal(kv_addr_parse_list("a b", 1, a, 3, err, sizeof(err)),
			 -EINVAL);
	/* What would be good when it were cut. */
	snprintf(text, sizeof(text), "a:%0400d", 1);
	assert_int_equal(kv_addr_parse_list(text, 1, a, 3, err, sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, "too long"));
}

static struct kv_addr
addr_of(const char *text)
{
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_addr a;

	if (kv_addr_parse(text, 1, &a, err, sizeof(err)))
		fail_msg("%s", err);
	return a;
}

static void
kinds_of_addresses_are_told_apart(void **state)
{
	static const struct {
		const char *text;
		bool loopback, unspecified, numeric;
	} cases[] = {
		{ "127.0.0.1", true, false, true },
		{ "127.0.1.1", true, false, true },
		{ "[::1]", true, false, true },
		{ "[::ffff:127.9.9.9]", true, false, true },
		{ "localhost", true, false, false },
		{ "LocalHost.", true, false, false },
		{ "a.localhost", true, false, false },
		{ "unix:/x", true, false, false },
		{ "notlocalhost", false, false, false },
		{ "localhost.org", false, false, false },
		{ "128.0.0.1", false, false, true },
		{ "[fe80::1%lo]", false, false, true },
		{ ":1", false, true, false },
		{ "*", false, true, false },
		{ "0.0.0.0", false, true, true },
		{ "[::]", false, true, true },
		{ "[0:0::0]", false, true, true },
		{ "[::ffff:0.0.0.0]", false, true, true },
		{ "host", false, false, false },
	};

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		struct kv_addr a = addr_of(cases[i].text);

		if (kv_addr_is_loopback(&a) != cases[i].loopback ||
		    kv_addr_is_unspecified(&a) != cases[i].unspecified ||
		    kv_addr_is_numeric(&a) != cases[i].numeric)
			fail_msg("%s", cases[i].text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_addresses_parse_and_are_written_back),
		cmocka_unit_test(bad_addresses_are_refused_with_a_reason),
		cmocka_unit_test(without_a_default_a_port_is_needed),
		cmocka_unit_test(lengths_are_bounded_and_nothing_is_cut),
		cmocka_unit_test(lists_are_split_at_commas),
		cmocka_unit_test(kinds_of_addresses_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
