#include "http/urlquery.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"

#include "nth_fault.h"

static struct kv_urlquery q;

static int
parse(const char *target)
{
	return kv_urlquery_parse(&q, target, strlen(target));
}

static void
check_arg(size_t i, const char *name, const char *value, size_t len)
{
	assert_true(i < q.n_args);
	assert_string_equal(q.args[i].name.p, name);
	assert_int_equal(q.args[i].value.len, len);
	assert_memory_equal(q.args[i].value.p, value, len);
	assert_int_equal(q.args[i].value.p[len], '\0');
}

static int
out_of_memory(void)
{
	return parse("/a?b=c") != -ENOMEM;
}

static void
no_memory_is_said(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, out_of_memory), 0);
}

static void
path_and_arguments(void **state)
{
	(void)state;
	assert_int_equal(parse("/query_key?key=a&tenant=b"), 0);
	assert_string_equal(q.path.p, "/query_key");
	assert_int_equal(q.path.len, 10);
	assert_int_equal(q.n_args, 2);
	check_arg(0, "key", "a", 1);
	check_arg(1, "tenant", "b", 1);
	assert_ptr_equal(kv_urlquery_find(&q, "tenant"), &q.args[1].value);
	assert_null(kv_urlquery_find(&q, "ten"));
	assert_null(kv_urlquery_find(&q, "tenants"));
	kv_urlquery_fini(&q);
}

static void
every_byte_comes_back(void **state)
{
	char target[8 + 3 * 256] = "/k?key=", want[256];
	size_t at = strlen(target);

	(void)state;
	for (unsigned i = 0; i < 256; i++) {
		want[i] = (char)i;
		at += (size_t)sprintf(target + at, "%%%02x", i);
	}
	assert_int_equal(kv_urlquery_parse(&q, target, at), 0);
	assert_int_equal(q.n_args, 1);
	check_arg(0, "key", want, sizeof(want));
	kv_urlquery_fini(&q);
}

static void
raw_bytes_are_kept(void **state)
{
	static const char target[] = "/k?key=a\0b\xff#t/../?=c";

	(void)state;
	assert_int_equal(kv_urlquery_parse(&q, target, sizeof(target) - 1), 0);
	check_arg(0, "key", target + 7, sizeof(target) - 8);
	kv_urlquery_fini(&q);
}

static void
plus_is_a_blank_in_the_query_only(void **state)
{
	(void)state;
	assert_int_equal(parse("/a+b?c+d=e+f%2bg"), 0);
	assert_string_equal(q.path.p, "/a+b");
	check_arg(0, "c d", "e f+g", 5);
	kv_urlquery_fini(&q);
}

static void
separators_may_be_escaped(void **state)
{
	(void)state;
	assert_int_equal(parse("/a%3Fb?c%26d%3d=%26%3D%25%2F"), 0);
	assert_string_equal(q.path.p, "/a?b");
	check_arg(0, "c&d=", "&=%/", 4);
	kv_urlquery_fini(&q);
}

static void
odd_arguments(void **state)
{
	(void)state;
	assert_int_equal(parse("/a?&&b&=x&c=&c=1=2&"), 0);
	assert_int_equal(q.n_args, 3);
	check_arg(0, "b", "", 0);
	check_arg(1, "c", "", 0);
	check_arg(2, "c", "1=2", 3);
	assert_ptr_equal(kv_urlquery_find(&q, "c"), &q.args[1].value);
	kv_urlquery_fini(&q);
}

static void
targets_without_a_query(void **state)
{
	static const char *const paths[] = { "/", "", "*", "/health" };

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(paths); i++) {
		assert_int_equal(parse(paths[i]), 0);
		assert_string_equal(q.path.p, paths[i]);
		assert_int_equal(q.n_args, 0);
		kv_urlquery_fini(&q);
	}
	assert_int_equal(parse("/a?"), 0);
	assert_string_equal(q.path.p, "/a");
	assert_int_equal(q.n_args, 0);
	kv_urlquery_fini(&q);
}

static void
a_proxy_sends_the_host_too(void **state)
{
	(void)state;
	assert_int_equal(parse("http://[::1]:9003/a?b=http://c"), 0);
	assert_string_equal(q.path.p, "/a");
	check_arg(0, "b", "http://c", 8);
	kv_urlquery_fini(&q);
	assert_int_equal(parse("http://host?b=c"), 0);
	assert_string_equal(q.path.p, "");
	check_arg(0, "b", "c", 1);
	kv_urlquery_fini(&q);
}

static void
broken_escapes_are_refused(void **state)
{
	static const char *const bad[] = { "/%",      "/%4",    "/%4g",
					   "/a?%zz=", "/a?b=%", "/a?b=%f" };

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(bad); i++) {
		assert_int_equal(parse(bad[i]), -EINVAL);
		assert_null(q.buf);
		assert_null(q.args);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(no_memory_is_said),
		cmocka_unit_test(path_and_arguments),
		cmocka_unit_test(every_byte_comes_back),
		cmocka_unit_test(raw_bytes_are_kept),
		cmocka_unit_test(plus_is_a_blank_in_the_query_only),
		cmocka_unit_test(separators_may_be_escaped),
		cmocka_unit_test(odd_arguments),
		cmocka_unit_test(targets_without_a_query),
		cmocka_unit_test(a_proxy_sends_the_host_too),
		cmocka_unit_test(broken_escapes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
