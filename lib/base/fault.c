#include "base/fault.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/str.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t wanted; /* 0: none */
static char *report_path;
static atomic_uint_fast64_t passed;

static void
report(const char *line, int len)
{
	kv_auto_close int fd = -1;

	if (!report_path || len <= 0)
		return;
	fd = open(report_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, (size_t)len) != len)
		fprintf(stderr, "fault: cannot report to %s: %m\n",
			report_path);
}

static void
report_not_reached(void)
{
	uint64_t count = atomic_load(&passed);
	char line[80];

	if (count < wanted)
		report(line,
		       snprintf(line, sizeof(line), "not reached %ju of %ju\n",
				(uintmax_t)wanted, (uintmax_t)count));
	free(kv_steal_ptr(&report_path));
}

static void
read_environment(void)
{
	const char *n = getenv("KV_FAULT");
	const char *path = getenv("KV_FAULT_REPORT");

	if (!n)
		return;
	if (kv_str_u64(n, 1, UINT64_MAX, &wanted) < 0) {
		fprintf(stderr, "fault: KV_FAULT=%s is no number above 0\n", n);
		exit(EXIT_FAILURE);
	}
	if (path)
		report_path = strdup(path);
	if (atexit(report_not_reached) != 0)
		abort();
}

bool
kv_fault_pass(const char *file, int line)
{
	char text[256];

	pthread_once(&once, read_environment);
	if (wanted == 0 || atomic_fetch_add(&passed, 1) + 1 != wanted)
		return false;
	report(text, snprintf(text, sizeof(text), "reached %ju at %.160s:%d\n",
			      (uintmax_t)wanted, file, line));
	return true;
}
