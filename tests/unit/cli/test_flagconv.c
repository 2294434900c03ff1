#include "cli/flagconv.h"

#include "test.h"

#include <errno.h>
#include <string.h>

static const struct {
	kv_flagconv_fn *conv;
	const char *text;
	const char *want; /* NULL: refused, and why */
	const char *why;
} cases[] = {
	{ kv_flagconv_word, "", "", NULL },
	{ kv_flagconv_word, "a b", "a b", NULL },
	{ kv_flagconv_port, "0", "0", NULL },
	{ kv_flagconv_port, "65535", "65535", NULL },
	{ kv_flagconv_port, "65536", NULL, "not from 0 to 65535" },
	{ kv_flagconv_port, "-1", NULL, "not from 0 to 65535" },
	{ kv_flagconv_seconds, "1", "1s", NULL },
	{ kv_flagconv_seconds, "2147483647", "2147483647s", NULL },
	{ kv_flagconv_seconds, "0", NULL, "not from 1 to 2147483647 seconds" },
	{ kv_flagconv_seconds, "-5", NULL, "not from 1 to 2147483647 seconds" },
	{ kv_flagconv_seconds, "9223372036854775807", NULL,
	  "not from 1 to 2147483647 seconds" },
	{ kv_flagconv_size, "4 GB", "4294967296", NULL },
	{ kv_flagconv_size, "80GB", "85899345920", NULL },
	{ kv_flagconv_size, "16mb", "16777216", NULL },
	{ kv_flagconv_size, "1.5K", "1536", NULL },
	{ kv_flagconv_size, "85899345920", "85899345920", NULL },
	{ kv_flagconv_size, "0", "0", NULL },
	{ kv_flagconv_size, "", NULL, "no size such as 512MB or 1.5GB" },
	{ kv_flagconv_size, "infinite", NULL,
	  "no size such as 512MB or 1.5GB" },
	{ kv_flagconv_size, "50%", NULL, "no size such as 512MB or 1.5GB" },
	{ kv_flagconv_size, "-1", NULL, "no size such as 512MB or 1.5GB" },
	{ kv_flagconv_time, "5000", "5000", NULL },
	{ kv_flagconv_time, "0", "0", NULL },
	{ kv_flagconv_time, "5000ms", "5000", NULL },
	{ kv_flagconv_time, "5s", "5000", NULL },
	{ kv_flagconv_time, "30m", "1800000", NULL },
	{ kv_flagconv_time, "1h", "3600000", NULL },
	{ kv_flagconv_time, "", NULL, "no time such as 5000, 500ms or 10s" },
	{ kv_flagconv_time, "-5", NULL, "no time such as 5000, 500ms or 10s" },
	{ kv_flagconv_time, "soon", NULL,
	  "no time such as 5000, 500ms or 10s" },
	{ kv_flagconv_time, "111111111111111111111111111111111111", NULL,
	  "no time such as 5000, 500ms or 10s" },
	{ kv_flagconv_ratio, "0.90", "0.9", NULL },
	{ kv_flagconv_ratio, "0", "0", NULL },
	{ kv_flagconv_ratio, "1.0", "1", NULL },
	{ kv_flagconv_ratio, "1.01", NULL, "not from 0 to 1" },
	{ kv_flagconv_ratio, "-0.1", NULL, "not from 0 to 1" },
	{ kv_flagconv_ratio, "nan", NULL, "not from 0 to 1" },
	{ kv_flagconv_host, "0.0.0.0", "", NULL },
	{ kv_flagconv_host, "::", "", NULL },
	{ kv_flagconv_host, "", "", NULL },
	{ kv_flagconv_host, "10.0.0.7", "10.0.0.7", NULL },
	{ kv_flagconv_host, "fd00::1", "fd00::1", NULL },
	{ kv_flagconv_host, "node-7", "node-7", NULL },
	{ kv_flagconv_host, "a b", NULL, NULL },
	{ kv_flagconv_host, "10.0.0.7:1", NULL, NULL },
	{ kv_flagconv_masters, "m.ns.svc.cluster.local:50051",
	  "m.ns.svc.cluster.local:50051", NULL },
	{ kv_flagconv_masters, "a:1,[::1]:2", "a:1,[::1]:2", NULL },
	{ kv_flagconv_masters, "", NULL, NULL },
	{ kv_flagconv_masters, "a:b", NULL, NULL },
	{ kv_flagconv_masters, "etcd://a:1;b:1", NULL,
	  "nobody is asked where the masters are: name them, as in "
	  "A:50051,B:50051" },
	{ kv_flagconv_protocol, "tcp", "tcp", NULL },
	{ kv_flagconv_protocol, "rdma", "rdma", NULL },
	{ kv_flagconv_protocol, "ascend", NULL, "none of tcp, rdma" },
	{ kv_flagconv_protocol, "", NULL, "none of tcp, rdma" },
	{ kv_flagconv_threads, "1", "1", NULL },
	{ kv_flagconv_threads, "64", "64", NULL },
	{ kv_flagconv_threads, "65", "64", NULL },
	{ kv_flagconv_threads, "0", NULL, "not 1 or more" },
	{ kv_flagconv_allocator, "cachelib", "cachelib", NULL },
	{ kv_flagconv_allocator, "slab", NULL, "none of offset, cachelib" },
	{ kv_flagconv_strategy, "local_first", "local_first", NULL },
	{ kv_flagconv_strategy, "cxl", NULL,
	  "none of random, free_ratio_first, ssd_free_ratio_first, "
	  "local_first" },
	{ kv_flagconv_interface, "lo", "127.0.0.1", NULL },
	{ kv_flagconv_interface, "nosuch0", NULL,
	  "no interface of this name has an IPv4 address" },
	{ kv_flagconv_interface, "", NULL,
	  "no interface of this name has an IPv4 address" },
};

static void
test_conversions(void **state)
{
	char out[KV_FLAGCONV_SIZE], err[256];

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(cases); i++) {
		int rc;

		err[0] = '\0';
		rc = cases[i].conv(cases[i].text, out, err, sizeof(err));
		assert_int_equal(rc, cases[i].want ? 0 : -EINVAL);
		if (rc == 0) {
			assert_string_equal(out, cases[i].want);
			continue;
		}
		assert_true(err[0] && !strchr(err, '\n'));
		if (cases[i].why)
			assert_string_equal(err, cases[i].why);
	}
}

static void
test_long_words(void **state)
{
	char text[KV_FLAGCONV_SIZE + 1], out[KV_FLAGCONV_SIZE], err[64];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[KV_FLAGCONV_SIZE] = '\0';
	assert_int_equal(kv_flagconv_word(text, out, err, sizeof(err)),
			 -EINVAL);
	assert_string_equal(err, "longer than 1023 bytes");
	assert_int_equal(kv_flagconv_word(text + 1, out, err, sizeof(err)), 0);
	assert_string_equal(out, text + 1);
	assert_int_equal(kv_flagconv_host(text, out, err, sizeof(err)),
			 -EINVAL);
}

int
main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conversions),
		cmocka_unit_test(test_long_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
