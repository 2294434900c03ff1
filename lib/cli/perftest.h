#ifndef KV_CLI_PERFTEST_H
#define KV_CLI_PERFTEST_H

/*
 * What ib_write_bw, ib_read_bw and ib_send_lat of perftest print, read: of
 *
 *   #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec] ...
 *   65536      1000             0.00               11.02		...
 *
 * the line of numbers behind the one that begins with "#bytes". No I/O.
 */

#include <stddef.h>

#include "base/attr.h"

struct kv_perftest_bw {
	double bytes_per_s;
	double calls_per_s;
};

struct kv_perftest_lat {
	double typical_ns;
	double p99_ns;
	double max_ns;
};

/* With --report_gbits. 0, -EINVAL: there is no such line. */
KV_MUST_CHECK int kv_perftest_bw(const char *text, struct kv_perftest_bw *out);
KV_MUST_CHECK int kv_perftest_lat(const char *text,
				  struct kv_perftest_lat *out);

#endif
