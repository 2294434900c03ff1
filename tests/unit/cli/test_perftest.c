#include "cli/perftest.h"

#include <errno.h>
#include <math.h>

#include "test.h"

#define RULE "-----------------------------------------------------------\n"
#define BW                                                                    \
	RULE "                    RDMA_Write BW Test\n"                       \
	     " Dual-port       : OFF		Device         : rxe0\n" RULE \
	     " #bytes     #iterations    BW peak[Gb/sec]    "                 \
	     "BW average[Gb/sec]   MsgRate[Mpps]\n"
#define LAT                                                        \
	RULE " #bytes #iterations    t_min[usec]    t_max[usec]  " \
	     "t_typical[usec]    t_avg[usec]    t_stdev[usec]   "  \
	     "99% percentile[usec]   99.9% percentile[usec] \n"

static void
bandwidth(void **state)
{
	static const char text[] =
		BW " 65536      1000    0.00     11.02 \t     0.021020\n" RULE;
	struct kv_perftest_bw bw;

	(void)state;
	assert_int_equal(kv_perftest_bw(text, &bw), 0);
	assert_true(fabs(bw.bytes_per_s - 1.3775e9) < 1);
	assert_true(fabs(bw.calls_per_s - 21020) < 0.001);
}

static void
latency(void **state)
{
	static const char text[] = LAT
		" 4096 1000  13.51 91.20  14.25 \t15.02  2.10 22.75  91.20\n";
	struct kv_perftest_lat lat;

	(void)state;
	assert_int_equal(kv_perftest_lat(text, &lat), 0);
	assert_true(fabs(lat.typical_ns - 14250) < 0.001);
	assert_true(fabs(lat.p99_ns - 22750) < 0.001);
	assert_true(fabs(lat.max_ns - 91200) < 0.001);
}

static void
nothing(void **state)
{
	static const char *const bad[] = {
		"",
		"Couldn't connect to 10.0.0.1:18515\n",
		"#bytes",
		BW,
		BW RULE,
		BW " 65536 1000 0.00\n 11.02 0.02\n",
		BW " 65536 1000 0.00 0.00 0.00\n",
		BW " 65536 1000 0.00 nan 0.00\n",
		BW " 65536 1000 0.00 -1 0.00\n",
		BW " 65536 1000 0.00 x 0.00\n",
	};
	struct kv_perftest_bw bw;
	struct kv_perftest_lat lat;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(kv_perftest_bw(bad[i], &bw), -EINVAL);
		assert_int_equal(kv_perftest_lat(bad[i], &lat), -EINVAL);
	}
	assert_int_equal(kv_perftest_lat(LAT " 8 9 1 2 3 4 5\n", &lat),
			 -EINVAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bandwidth),
		cmocka_unit_test(latency),
		cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
