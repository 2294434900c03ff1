/* What this layer does when memory, descriptors or threads cannot be had. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/attr.h"
#include "mem/faulter.h"
#include "mem/seg.h"
#include "mem/slab.h"
#include "nth_fault.h"

#define MIB    (UINT64_C(1) << 20)
#define BLOCKS 300

/* Exit codes of the bodies. */
enum {
	NO_FAULT_MET,
	FAULT_TAKEN_WELL,
	BROKEN
};

static bool
is_one_hole(const struct kv_slab *s, uint64_t bytes)
{
	struct kv_slab_stats st;

	kv_slab_stats(s, &st);
	return st.holes == 1 && st.hole_bytes_max == bytes && !st.chunks;
}

/*
 * Blocks of all levels until the space is used up; then pieces of what was
 * given back. An allocation that fails must change nothing.
 */
static int
use_slab(void)
{
	static struct kv_extent ext[BLOCKS], pieces[BLOCKS];
	struct kv_slab *s = kv_slab_new(32 * MIB);
	int met = 0, n = 0, i, rc = 0;
	uint64_t before;

	if (!s)
		return errno == ENOMEM ? FAULT_TAKEN_WELL : BROKEN;
	while (kv_slab_add(s, 0, 32 * MIB) == -ENOMEM)
		met++;
	while (n < BLOCKS && rc != -ENOSPC) {
		before = kv_slab_free_bytes(s);
		rc = kv_slab_alloc(s, n % 3 ? 100000 : 5000, &ext[n], 1);
		n += rc == 1;
		met += rc == -ENOMEM;
		if (rc < 0 && kv_slab_free_bytes(s) != before)
			return BROKEN;
	}
	for (i = 0; i < n / 2; i++)
		kv_slab_release(s, &ext[2 * i], 1);
	before = kv_slab_free_bytes(s);
	while ((rc = kv_slab_alloc(s, before, pieces, BLOCKS)) == -ENOMEM) {
		met++;
		if (kv_slab_free_bytes(s) != before)
			return BROKEN;
	}
	if (rc < 2 || kv_slab_free_bytes(s) != 0)
		return BROKEN;
	kv_slab_release(s, pieces, (unsigned)rc);
	for (i = 0; i < n; i++)
		if (i % 2 || i / 2 >= n / 2)
			kv_slab_release(s, &ext[i], 1);
	if (!is_one_hole(s, 32 * MIB))
		return BROKEN;
	kv_slab_free(s);
	return met ? FAULT_TAKEN_WELL : NO_FAULT_MET;
}

static int
use_seg(void)
{
	const struct kv_seg_opts o = { .bytes = 4 * MIB };
	const struct kv_seg_attach_opts ao = { .bytes = 4 * MIB,
					       .sealed = true };
	struct kv_seg *seg, *other;
	char err[256] = "";
	int rc, fd;

	rc = kv_seg_open(&o, &seg, err, sizeof(err));
	if (rc)
		return rc == -ENOMEM && err[0] ? FAULT_TAKEN_WELL : BROKEN;
	fd = kv_seg_fd(seg, false);
	rc = kv_seg_attach(fd, &ao, &other, err, sizeof(err));
	kv_seg_close(seg);
	if (rc) /* then fd is still the caller's */
		return rc == -ENOMEM && err[0] && !close(fd) ? FAULT_TAKEN_WELL
							     : BROKEN;
	kv_seg_close(other);
	return NO_FAULT_MET;
}

static void
ignore_ready(void *arg, uint64_t off, uint64_t len)
{
	(void)arg;
	(void)off;
	(void)len;
}

static void
ignore_failed(void *arg, uint64_t off, int err)
{
	(void)arg;
	(void)off;
	(void)err;
}

/* One thread of two is enough. */
static int
use_faulter(void)
{
	const struct kv_seg_opts o = { .bytes = 4 * MIB };
	struct kv_faulter_opts fo = { .threads = 2,
				      .ready = ignore_ready,
				      .failed = ignore_failed };
	struct kv_faulter *f;
	struct kv_seg *seg;
	char err[256];
	int rc;

	if (kv_seg_open(&o, &seg, err, sizeof(err)))
		return FAULT_TAKEN_WELL;
	fo.seg = seg;
	rc = kv_faulter_start(&fo, &f);
	if (!rc)
		kv_faulter_stop(f);
	kv_seg_close(seg);
	if (rc)
		return rc == -ENOMEM || rc == -EAGAIN ? FAULT_TAKEN_WELL
						      : BROKEN;
	return NO_FAULT_MET;
}

/* Makes the first, the second, ... of `points` fail. */
static void
check(int (*body)(void), unsigned points)
{
	unsigned n, taken = 0;
	int rc;

	for (n = 1; n <= points; n++) {
		rc = nth_fault_run(n, body);
		assert_in_range(rc, NO_FAULT_MET, FAULT_TAKEN_WELL);
		taken += rc == FAULT_TAKEN_WELL;
	}
	assert_true(taken >= 3);
	assert_int_equal(nth_fault_run(100000, body), NO_FAULT_MET);
}

static void
slab_changes_nothing(void **state)
{
	(void)state;
	check(use_slab, 24);
}

static void
seg_says_so(void **state)
{
	(void)state;
	check(use_seg, 6);
}

static void
faulter_starts_or_not(void **state)
{
	(void)state;
	check(use_faulter, 6);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(slab_changes_nothing),
		nth_fault_test(seg_says_so),
		nth_fault_test(faulter_starts_or_not),
	};

	return cmocka_run_group_tests_name("mem_faults", tests, NULL, NULL);
}
