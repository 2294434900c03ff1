/* Without a network: look-ups through a name server are in test_sock.c. */
#include "net/lookup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event/loop.h"

#include "test.h"

struct answer {
	int calls;
	int status;
	struct kv_lookup_result r;
};

static void
on_answer(void *arg, int status, const struct kv_lookup_result *r)
{
	struct answer *a = arg;

	a->calls++;
	a->status = status;
	a->r = *r;
}

static struct kv_lookup_result
now(const char *text)
{
	char err[KV_ADDR_ERROR_BYTES];
	struct kv_lookup_result r;
	struct kv_addr a;

	if (kv_addr_parse(text, 80, &a, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(kv_lookup_now(&a, &r), 0);
	return r;
}

static const char *
name(const struct kv_lookup_addr *from)
{
	static char text[KV_ADDR_TEXT_BYTES_MAX];
	struct kv_addr a;

	kv_lookup_name(from, &a);
	return kv_addr_format(&a, text);
}

static void
numbers_need_nobody_to_ask(void **state)
{
	struct kv_lookup_result r = now("10.1.2.3:4");

	(void)state;
	assert_int_equal(r.n, 1);
	assert_int_equal(r.addrs[0].addr.sa.sa_family, AF_INET);
	assert_string_equal(name(&r.addrs[0]), "10.1.2.3:4");
	r = now("[fd00:9::1]");
	assert_int_equal(r.n, 1);
	assert_string_equal(name(&r.addrs[0]), "[fd00:9::1]:80");
	r = now("[::ffff:10.1.2.3]:4");
	assert_string_equal(name(&r.addrs[0]), "10.1.2.3:4");
	r = now("[fe80::1%lo]:4");
	assert_string_equal(name(&r.addrs[0]), "[fe80::1%lo]:4");
	r = now("unix:/a/b");
	assert_int_equal(r.n, 1);
	assert_string_equal(r.addrs[0].addr.un.sun_path, "/a/b");
}

static void
no_host_is_every_address_ipv6_first(void **state)
{
	struct kv_lookup_result r = now("*:4");

	(void)state;
	assert_int_equal(r.n, 2);
	assert_string_equal(name(&r.addrs[0]), "[::]:4");
	assert_string_equal(name(&r.addrs[1]), "0.0.0.0:4");
}

static void
a_name_is_asked_for_in_the_background(void **state)
{
	struct kv_loop *loop = kv_loop_new(NULL);
	struct answer a = { 0 }, cancelled = { 0 };
	struct kv_addr addr = { .kind = KV_ADDR_TCP,
				.port = 7,
				.name = "localhost" };
	struct kv_lookup *l;

	(void)state;
	assert_non_null(kv_lookup_start(loop, &addr, on_answer, &a));
	l = kv_lookup_start(loop, &addr, on_answer, &cancelled);
	assert_non_null(l);
	assert_int_equal(a.calls, 0);
	kv_lookup_cancel(l);
	while (!a.calls)
		assert_true(kv_loop_turn(loop, UINT64_MAX) >= 0);
	assert_int_equal(a.status, 0);
	assert_true(a.r.n >= 1);
	assert_int_equal(cancelled.calls, 0);
	kv_loop_free(loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_need_nobody_to_ask),
		cmocka_unit_test(no_host_is_every_address_ipv6_first),
		cmocka_unit_test(a_name_is_asked_for_in_the_background),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
