#ifndef KVBENCH_REPORT_H
#define KVBENCH_REPORT_H

/* Between kvbench_report.c, which reads files and makes a table of them, and
 * kvbench_chart.c, which draws it. */

#include "base/attr.h"
#include "base/bytes.h"
#include "cli/benchfile.h"
#include "cmd/kvbench.h"

/* One figure, and what it is in each file; NULL: not there. */
struct kvbench_line {
	const struct kv_benchfile_row *first;
	const struct kv_benchfile_row *in[KVBENCH_FILES_MAX];
};

struct kvbench_table {
	struct kv_benchfile files[KVBENCH_FILES_MAX];
	char labels[KVBENCH_FILES_MAX][64];
	unsigned n_files;
	struct kvbench_line *lines;
	size_t n;
};

/* "10000000" as "10^7", others as they are. */
const char *kvbench_held_text(uint64_t held, char buf[32]);

/* An SVG picture. 0 or -ENOMEM. */
int kvbench_chart(const struct kvbench_table *t, struct kv_bytes *out);

#endif
