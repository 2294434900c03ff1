#include "cli/perftest.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	NUMBERS_MAX = 16,
};

/* Of the line behind the heading; how many there are. */
static size_t
numbers(const char *text, double v[NUMBERS_MAX])
{
	const char *line = strstr(text, "#bytes");
	size_t n = 0;
	char *end;

	line = line ? strchr(line, '\n') : NULL;
	if (!line)
		return 0;
	for (line++; n < NUMBERS_MAX; n++, line = end) {
		line += strspn(line, " \t");
		if (*line == '\n' || !*line)
			break;
		v[n] = strtod(line, &end);
		if (end == line || !isfinite(v[n]) || v[n] < 0)
			return 0;
	}
	return n;
}

/* bytes, iterations, peak, average, millions of messages a second */
int
kv_perftest_bw(const char *text, struct kv_perftest_bw *out)
{
	double v[NUMBERS_MAX];

	if (numbers(text, v) < 5 || v[3] <= 0)
		return -EINVAL;
	out->bytes_per_s = v[3] * 1e9 / 8;
	out->calls_per_s = v[4] * 1e6;
	return 0;
}

/* bytes, iterations, min, max, typical, average, deviation, 99 %, 99.9 % */
int
kv_perftest_lat(const char *text, struct kv_perftest_lat *out)
{
	double v[NUMBERS_MAX];

	if (numbers(text, v) < 8 || v[4] <= 0)
		return -EINVAL;
	out->max_ns = v[3] * 1e3;
	out->typical_ns = v[4] * 1e3;
	out->p99_ns = v[7] * 1e3;
	return 0;
}
