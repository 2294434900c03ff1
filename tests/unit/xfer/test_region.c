#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "mem/seg.h"
#include "nth_fault.h"
#include "test.h"
#include "xfer/region.h"

static char memory[1 << 16];
static struct kv_region_set set;

static uint64_t
in_ms(unsigned ms)
{
	const struct kv_clock clock = { 0 };

	return kv_clock_now(&clock) + ms * KV_NS_PER_MS;
}

static size_t
list(struct kv_region_rec *recs, size_t max)
{
	uint32_t n;
	size_t len = kv_region_list(&set, recs, max * sizeof(*recs), &n);

	assert_int_equal(len, n * sizeof(*recs));
	return n;
}

static uint64_t
handle_of(size_t i)
{
	struct kv_region_rec recs[64];
	size_t n = list(recs, 64);

	assert_true(i < n);
	return kv_get64(recs[i].handle);
}

static struct kv_xfer_piece
piece(uint64_t handle, uint64_t off, uint64_t len)
{
	return (struct kv_xfer_piece){
		.handle = kv_le64(handle),
		.off = kv_le64(off),
		.len = kv_le64(len),
	};
}

static int
hold_one(uint64_t handle, uint64_t off, uint64_t len, struct iovec *iov,
	 struct kv_region_hold *hold)
{
	struct kv_xfer_piece p = piece(handle, off, len);

	return kv_region_hold(&set, &p, 1, iov, hold);
}

/* Ends a region that nobody holds. */
static void
end(const void *data, enum kv_region_end how)
{
	struct kv_region *r;

	assert_int_equal(kv_region_begin_end(&set, data, how, &r), 0);
	assert_int_equal(kv_region_wait(&set, r, in_ms(1000)), 0);
	kv_region_end(&set, r, true);
}

static int
set_up(void **state)
{
	(void)state;
	kv_region_init(&set, NULL);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	kv_region_fini(&set);
	return 0;
}

/* case-018 */
static void
what_cannot_be_is_refused(void **state)
{
	struct kv_region *r;

	(void)state;
	assert_int_equal(kv_region_add(&set, NULL, 4096, NULL), -EINVAL);
	assert_int_equal(kv_region_add(&set, memory, 0, NULL), -EINVAL);
	assert_int_equal(kv_region_add(&set, memory, SIZE_MAX, NULL), -EINVAL);
	assert_int_equal(
		kv_region_begin_end(&set, memory, KV_REGION_UNREGISTER, &r),
		-EINVAL);
	assert_int_equal(set.n_addr, 0);
}

static void
ranges_do_not_overlap(void **state)
{
	(void)state;
	assert_int_equal(kv_region_add(&set, memory + 100, 100, NULL), 0);
	assert_int_equal(kv_region_add(&set, memory + 300, 100, NULL), 0);
	assert_int_equal(kv_region_add(&set, memory, 101, NULL), -EINVAL);
	assert_int_equal(kv_region_add(&set, memory + 199, 1, NULL), -EINVAL);
	assert_int_equal(kv_region_add(&set, memory + 100, 99, NULL), -EINVAL);
	assert_int_equal(kv_region_add(&set, memory + 100, 101, NULL), -EINVAL);
	assert_int_equal(kv_region_add(&set, memory + 110, 10, NULL), -EINVAL);
	assert_int_equal(kv_region_add(&set, memory, 1000, NULL), -EINVAL);
	assert_int_equal(kv_region_add(&set, memory + 200, 100, NULL), 0);
	assert_int_equal(kv_region_add(&set, memory, 100, NULL), 0);
	assert_int_equal(set.n_addr, 4);
}

static void
a_repeat_is_counted(void **state)
{
	struct kv_region_hold hold;
	struct kv_region *r;
	struct iovec iov;
	uint64_t handle;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(kv_region_add(&set, memory, 100, NULL), 0);
	handle = handle_of(0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kv_region_begin_end(&set, memory,
						     KV_REGION_UNREGISTER, &r),
				 1);
		assert_int_equal(hold_one(handle, 0, 100, &iov, &hold), 0);
		kv_region_release(&set, &hold);
	}
	end(memory, KV_REGION_UNREGISTER);
	assert_int_equal(hold_one(handle, 0, 100, &iov, &hold), -EINVAL);
	assert_int_equal(set.n_addr, 0);
}

static void
pieces_are_looked_up(void **state)
{
	struct kv_xfer_piece pieces[4];
	struct kv_region_hold hold;
	struct iovec iov[4];
	uint64_t a, b;

	(void)state;
	assert_int_equal(kv_region_add(&set, memory + 1000, 100, NULL), 0);
	assert_int_equal(kv_region_add(&set, memory, 100, NULL), 0);
	a = handle_of(0);
	b = handle_of(1);
	pieces[0] = piece(a, 0, 100);
	pieces[1] = piece(a, 100, 0);
	pieces[2] = piece(b, 99, 1);
	pieces[3] = piece(a, 7, 3);
	assert_int_equal(kv_region_hold(&set, pieces, 4, iov, &hold), 0);
	assert_ptr_equal(iov[0].iov_base, memory + 1000);
	assert_int_equal(iov[0].iov_len, 100);
	assert_int_equal(iov[1].iov_len, 0);
	assert_ptr_equal(iov[2].iov_base, memory + 99);
	assert_ptr_equal(iov[3].iov_base, memory + 1007);
	kv_region_release(&set, &hold);
	assert_int_equal(hold.n, 0);
}

static void
bytes_outside_are_refused(void **state)
{
	static const struct {
		uint64_t off, len;
	} bad[] = {
		{ 0, 101 },
		{ 100, 1 },
		{ 101, 0 },
		{ 1, UINT64_MAX },
		{ UINT64_MAX, 1 },
		{ UINT64_MAX, UINT64_MAX },
		{ 50, UINT64_MAX - 49 },
	};
	struct kv_region_hold hold;
	struct iovec iov[2];
	uint64_t a;

	(void)state;
	assert_int_equal(kv_region_add(&set, memory, 100, NULL), 0);
	a = handle_of(0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kv_xfer_piece pieces[2] = {
			piece(a, 0, 1),
			piece(a, bad[i].off, bad[i].len),
		};

		assert_int_equal(kv_region_hold(&set, pieces, 2, iov, &hold),
				 -EINVAL);
	}
	assert_int_equal(hold_one(0, 0, 1, iov, &hold), -EINVAL);
	assert_int_equal(hold_one(a + 1, 0, 1, iov, &hold), -EINVAL);
	assert_int_equal(set.by_addr[0]->users, 0);
}

static void *
release_late(void *arg)
{
	usleep(50000);
	kv_region_release(&set, arg);
	return NULL;
}

static void
the_end_waits_for_holds(void **state)
{
	struct kv_region_hold hold, other;
	struct kv_region *r;
	struct iovec iov;
	pthread_t thread;
	uint64_t handle;

	(void)state;
	assert_int_equal(kv_region_add(&set, memory, 100, NULL), 0);
	handle = handle_of(0);
	assert_int_equal(hold_one(handle, 0, 100, &iov, &hold), 0);
	assert_true(kv_region_is_held(&hold, set.by_addr[0]));
	assert_int_equal(
		kv_region_begin_end(&set, memory, KV_REGION_UNREGISTER, &r), 0);
	assert_int_equal(hold_one(handle, 0, 1, &iov, &other), -EINVAL);
	assert_int_equal(kv_region_wait(&set, r, in_ms(10)), -ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, release_late, &hold), 0);
	assert_int_equal(kv_region_wait(&set, r, in_ms(10000)), 0);
	pthread_join(thread, NULL);
	kv_region_end(&set, r, true);
	assert_int_equal(kv_region_add(&set, memory, 50, NULL), 0);
}

static void
what_did_not_end_can_be_tried_again(void **state)
{
	struct kv_region_hold hold;
	struct kv_region *r, *again;
	struct iovec iov;

	(void)state;
	assert_int_equal(kv_region_add(&set, memory, 100, NULL), 0);
	assert_int_equal(hold_one(handle_of(0), 0, 1, &iov, &hold), 0);
	assert_int_equal(
		kv_region_begin_end(&set, memory, KV_REGION_UNREGISTER, &r), 0);
	assert_int_equal(
		kv_region_begin_end(&set, memory, KV_REGION_UNREGISTER, &again),
		-EBUSY);
	kv_region_end(&set, r, false);
	assert_int_equal(kv_region_add(&set, memory, 100, NULL), -EBUSY);
	assert_int_equal(kv_region_add(&set, memory + 50, 100, NULL), -EBUSY);
	kv_region_release(&set, &hold);
	end(memory, KV_REGION_UNREGISTER);
	assert_int_equal(kv_region_add(&set, memory, 100, NULL), 0);
}

static void
memory_of_our_own_is_freed_not_unregistered(void **state)
{
	struct kv_seg_opts opts = { .bytes = 8192 };
	struct kv_region_rec recs[2];
	struct kv_region *r;
	struct kv_seg *seg;
	uint64_t bytes;
	char why[256];
	void *base;
	int fd;

	(void)state;
	assert_int_equal(kv_seg_open(&opts, &seg, why, sizeof(why)), 0);
	base = seg->base;
	assert_int_equal(kv_region_add(&set, base, 5000, seg), 0);
	assert_int_equal(kv_region_add(&set, memory, 10, NULL), 0);
	assert_int_equal(list(recs, 2), 2);
	assert_int_equal(kv_get32(recs[0].flags), KV_REGION_SHARED);
	assert_int_equal(kv_get32(recs[1].flags), 0);
	fd = kv_region_fd(&set, kv_get64(recs[0].handle), &bytes);
	assert_true(fd >= 0);
	assert_int_equal(bytes, 8192);
	close(fd);
	assert_int_equal(kv_region_fd(&set, kv_get64(recs[1].handle), &bytes),
			 -ENOTSUP);
	assert_int_equal(kv_region_fd(&set, 99, &bytes), -EINVAL);
	assert_int_equal(
		kv_region_begin_end(&set, base, KV_REGION_UNREGISTER, &r),
		-EINVAL);
	assert_int_equal(kv_region_begin_end(&set, memory, KV_REGION_FREE, &r),
			 -EINVAL);
	/* A registration more does not keep it. */
	assert_int_equal(kv_region_add(&set, base, 5000, NULL), 0);
	assert_int_equal(
		kv_region_begin_end(&set, base, KV_REGION_UNREGISTER, &r), 1);
	assert_int_equal(kv_region_add(&set, base, 5000, NULL), 0);
	end(base, KV_REGION_FREE);
	assert_int_equal(set.n_addr, 1);
}

static void
the_list_is_in_order_of_registration(void **state)
{
	static const int order[] = { 3, 1, 4, 2, 0, 5 };
	struct kv_region_rec recs[8];

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_int_equal(
			kv_region_add(&set, memory + 100 * order[i], 100, NULL),
			0);
	end(memory + 100, KV_REGION_UNREGISTER);
	assert_int_equal(kv_region_add(&set, memory + 100, 100, NULL), 0);
	assert_int_equal(list(recs, 8), 6);
	assert_int_equal(kv_get64(recs[0].addr), (uintptr_t)memory + 300);
	assert_int_equal(kv_get64(recs[1].addr), (uintptr_t)memory + 400);
	assert_int_equal(kv_get64(recs[5].addr), (uintptr_t)memory + 100);
	assert_int_equal(list(recs, 2), 2);
}

/* A model of one flag a place; every handle is looked up. */
static void
many_come_and_go(void **state)
{
	enum {
		PLACES = 500
	};
	uint64_t handles[PLACES] = { 0 };
	struct kv_region_hold hold;
	struct iovec iov;
	unsigned seed = 1;

	(void)state;
	for (int step = 0; step < 20000; step++) {
		size_t i = (size_t)rand_r(&seed) % PLACES;
		char *at = memory + i * 100;

		if (handles[i]) {
			end(at, KV_REGION_UNREGISTER);
			assert_int_equal(
				hold_one(handles[i], 0, 1, &iov, &hold),
				-EINVAL);
			handles[i] = 0;
			continue;
		}
		assert_int_equal(kv_region_add(&set, at, 100, NULL), 0);
		handles[i] = set.last_handle;
		assert_int_equal(hold_one(handles[i], 50, 50, &iov, &hold), 0);
		assert_ptr_equal(iov.iov_base, at + 50);
		kv_region_release(&set, &hold);
	}
}

static void
there_is_a_bound(void **state)
{
	char *many = malloc(KV_ENGINE_REGIONS_MAX + 1);

	(void)state;
	for (size_t i = 0; i < KV_ENGINE_REGIONS_MAX; i++)
		assert_int_equal(kv_region_add(&set, many + i, 1, NULL), 0);
	assert_int_equal(
		kv_region_add(&set, many + KV_ENGINE_REGIONS_MAX, 1, NULL),
		-ENOMEM);
	assert_int_equal(kv_region_add(&set, many, 1, NULL), 0);
	free(many);
}

static int
add_without_memory(void)
{
	int rc;

	kv_region_init(&set, NULL);
	rc = kv_region_add(&set, memory, 100, NULL);
	if (rc == -ENOMEM && set.n_addr == 0)
		rc = kv_region_add(&set, memory, 100, NULL) ? 3 : 2;
	kv_region_fini(&set);
	return rc;
}

static void
no_memory_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, add_without_memory), 2);
	assert_int_equal(nth_fault_run(2, add_without_memory), 2);
	assert_int_equal(nth_fault_run(3, add_without_memory), 0);
}

#define WITH_SET(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(no_memory_changes_nothing),
		WITH_SET(what_cannot_be_is_refused),
		WITH_SET(ranges_do_not_overlap),
		WITH_SET(a_repeat_is_counted),
		WITH_SET(pieces_are_looked_up),
		WITH_SET(bytes_outside_are_refused),
		WITH_SET(the_end_waits_for_holds),
		WITH_SET(what_did_not_end_can_be_tried_again),
		WITH_SET(memory_of_our_own_is_freed_not_unregistered),
		WITH_SET(the_list_is_in_order_of_registration),
		WITH_SET(many_come_and_go),
		WITH_SET(there_is_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
