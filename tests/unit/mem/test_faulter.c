#include "mem/faulter.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mem/seg.h"
#include "test.h"

#define MIB   (UINT64_C(1) << 20)
#define CHUNK (MIB / 4)

/* What the callbacks saw; they only note, the test judges. */
struct seen {
	pthread_mutex_t lock;
	const struct kv_seg *seg;
	uint64_t ready_bytes;
	unsigned readies, gaps, missing;
	unsigned fails;
	uint64_t fail_off;
	int fail_err;
	useconds_t pause_us;
	const char *meminfo; /* written when limit_at bytes are ready */
	uint64_t limit_at;
};

static void
write_meminfo(const char *path)
{
	FILE *f = fopen(path, "we");

	if (f) {
		fprintf(f, "MemAvailable: 1 kB\n");
		fclose(f);
	}
}

static void
on_ready(void *arg, uint64_t off, uint64_t len)
{
	struct seen *s = arg;
	struct stat st;

	pthread_mutex_lock(&s->lock);
	s->readies++;
	if (off != s->ready_bytes || s->fails)
		s->gaps++;
	s->ready_bytes = off + len;
	if (fstat(s->seg->fd, &st) ||
	    (uint64_t)st.st_blocks * 512 < s->ready_bytes)
		s->missing++;
	s->seg->base[off] = 1;
	s->seg->base[off + len - 1] = 1;
	if (s->meminfo && s->ready_bytes == s->limit_at)
		write_meminfo(s->meminfo);
	pthread_mutex_unlock(&s->lock);
	usleep(s->pause_us);
}

static void
on_failed(void *arg, uint64_t off, int err)
{
	struct seen *s = arg;

	pthread_mutex_lock(&s->lock);
	s->fails++;
	s->fail_off = off;
	s->fail_err = err;
	pthread_mutex_unlock(&s->lock);
}

static struct kv_seg *
open_seg(uint64_t bytes, const char *root)
{
	const struct kv_seg_opts o = { .bytes = bytes, .root = root };
	struct kv_seg *seg = NULL;
	char err[256];

	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), 0);
	return seg;
}

static struct kv_faulter *
start(struct seen *s, struct kv_seg *seg, unsigned threads)
{
	const struct kv_faulter_opts o = { .seg = seg,
					   .chunk_bytes = CHUNK,
					   .threads = threads,
					   .ready = on_ready,
					   .failed = on_failed,
					   .arg = s };
	struct kv_faulter *f = NULL;

	pthread_mutex_init(&s->lock, NULL);
	s->seg = seg;
	assert_int_equal(kv_faulter_start(&o, &f), 0);
	return f;
}

/* Until so much is ready, or it failed; not for ever. */
static void
wait_for(struct seen *s, uint64_t bytes)
{
	bool enough = false;
	int i;

	for (i = 0; i < 20000 && !enough; i++) {
		usleep(500);
		pthread_mutex_lock(&s->lock);
		enough = s->ready_bytes >= bytes || s->fails;
		pthread_mutex_unlock(&s->lock);
	}
	assert_true(enough);
}

static void
check_all(unsigned threads)
{
	uint64_t bytes = 17 * CHUNK + 4096 * 16;
	struct seen s = { .pause_us = 100 };
	struct kv_seg *seg = open_seg(bytes, NULL);
	struct kv_faulter *f = start(&s, seg, threads);

	wait_for(&s, bytes);
	kv_faulter_stop(f);
	assert_int_equal(s.ready_bytes, bytes);
	assert_int_equal(s.readies, 18);
	assert_int_equal(s.gaps, 0);
	assert_int_equal(s.missing, 0);
	assert_int_equal(s.fails, 0);
	kv_seg_close(seg);
}

static void
test_one_thread(void **state)
{
	(void)state;
	check_all(0);
}

static void
test_threads_announce_in_order(void **state)
{
	(void)state;
	check_all(4);
}

static void
test_stop_is_prompt(void **state)
{
	struct seen s = { .pause_us = 10000 };
	struct kv_seg *seg = open_seg(512 * CHUNK, NULL);
	struct kv_faulter *f = start(&s, seg, 3);
	struct timespec from, to;
	unsigned readies;

	(void)state;
	wait_for(&s, CHUNK);
	clock_gettime(CLOCK_MONOTONIC, &from);
	kv_faulter_stop(f);
	clock_gettime(CLOCK_MONOTONIC, &to);
	assert_true(to.tv_sec - from.tv_sec <= 2); /* all of it: over 5 s */
	readies = s.readies;
	assert_true(readies >= 1 && readies < 256);
	assert_int_equal(s.gaps, 0);
	usleep(30000);
	assert_int_equal(s.readies, readies);
	kv_seg_close(seg);
	kv_faulter_stop(NULL);
}

static void
check_failure(unsigned threads)
{
	char root[] = "/tmp/kv_faulter.XXXXXX", proc[64], meminfo[64];
	struct seen s = { .meminfo = meminfo, .limit_at = 8 * CHUNK };
	struct kv_faulter *f;
	struct kv_seg *seg;

	assert_non_null(mkdtemp(root));
	snprintf(proc, sizeof(proc), "%s/proc", root);
	snprintf(meminfo, sizeof(meminfo), "%s/proc/meminfo", root);
	assert_int_equal(mkdir(proc, 0700), 0);
	seg = open_seg(512 * CHUNK, root);
	f = start(&s, seg, threads);
	wait_for(&s, 512 * CHUNK);
	kv_faulter_stop(f);
	assert_int_equal(s.fails, 1);
	assert_int_equal(s.fail_err, -ENOMEM);
	assert_int_equal(s.fail_off, s.ready_bytes);
	assert_in_range(s.ready_bytes, 8 * CHUNK, 511 * CHUNK);
	assert_int_equal(s.gaps, 0);
	kv_seg_close(seg);
	unlink(meminfo);
	rmdir(proc);
	rmdir(root);
}

static void
test_failure_ends_it(void **state)
{
	(void)state;
	check_failure(1);
}

static void
test_failure_among_threads(void **state)
{
	(void)state;
	check_failure(4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_threads_announce_in_order),
		cmocka_unit_test(test_stop_is_prompt),
		cmocka_unit_test(test_failure_ends_it),
		cmocka_unit_test(test_failure_among_threads),
	};

	return cmocka_run_group_tests_name("faulter", tests, NULL, NULL);
}
