#include "http/prom.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

#include "nth_fault.h"

static struct kv_bytes out;

static int
teardown(void **state)
{
	(void)state;
	kv_bytes_fini(&out);
	return 0;
}

static void
check(const char *want)
{
	assert_int_equal(out.len, strlen(want));
	assert_memory_equal(out.data, want, out.len);
}

static void
families_are_described_once(void **state)
{
	struct kv_prom p = { .out = &out };
	char same[] = "a_total";

	(void)state;
	kv_prom_family(&p, "a_total", KV_PROM_COUNTER,
		       "what \"a\" \\ is\nin 2");
	kv_prom_sample(&p, 1);
	kv_prom_family(&p, same, KV_PROM_COUNTER, "what a is");
	kv_prom_labelled(&p, "l", "v", UINT64_MAX);
	kv_prom_family(&p, "b", KV_PROM_GAUGE, "b");
	kv_prom_sample(&p, 0);
	assert_int_equal(p.status, 0);
	check("# HELP a_total what \"a\" \\\\ is\\nin 2\n"
	      "# TYPE a_total counter\n"
	      "a_total 1\n"
	      "a_total{l=\"v\"} 18446744073709551615\n"
	      "# HELP b b\n"
	      "# TYPE b gauge\n"
	      "b 0\n");
}

static void
labels_are_escaped(void **state)
{
	struct kv_prom p = { .out = &out, .name = "a" };

	(void)state;
	kv_prom_labelled(&p, "l", "\"\\\n\xff\xc3\xa4\xc3", 1);
	assert_int_equal(p.status, 0);
	check("a{l=\"\\\"\\\\\\n\\\\xff\xc3\xa4\\\\xc3\"} 1\n");
}

static int
write_some(void)
{
	struct kv_prom p = { .out = &out };

	for (int i = 0; i < 20; i++) {
		kv_prom_family(&p, i % 2 ? "a" : "b", KV_PROM_GAUGE, "help");
		kv_prom_sample(&p, 1);
		kv_prom_labelled(&p, "l", "\xff", 1);
	}
	kv_bytes_fini(&out);
	return p.status == -ENOMEM ? 1 : p.status;
}

static void
no_memory_is_remembered(void **state)
{
	unsigned n;

	(void)state;
	for (n = 1; nth_fault_run(n, write_some) == 1; n++)
		;
	assert_true(n > 3);
	assert_int_equal(nth_fault_run(n, write_some), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(no_memory_is_remembered),
		cmocka_unit_test_teardown(families_are_described_once,
					  teardown),
		cmocka_unit_test_teardown(labels_are_escaped, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
