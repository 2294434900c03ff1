#include "base/warm.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nth_fault.h"
#include "resident.h"
#include "test.h"

#define BYTES ((size_t)40 << 20)
#define TRIES 10000

static char *
map_new(void)
{
	char *mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(mem, MAP_FAILED);
	return mem;
}

static void
wait_for(struct kv_warm *w, size_t to)
{
	unsigned i;

	for (i = 0; i < TRIES && !kv_warm_reaches(w, to); i++)
		usleep(1000);
	assert_in_range(i, 0, TRIES - 1);
}

static int
without_thread(void)
{
	struct kv_warm w;
	char *mem = map_new();
	int rc;

	kv_warm_init(&w);
	kv_warm_set(&w, mem, BYTES);
	rc = kv_warm_reaches(&w, BYTES) && resident_bytes(mem, BYTES) == 0;
	kv_warm_fini(&w);
	munmap(mem, BYTES);
	return rc;
}

/* Who uses the memory does it, then. */
static void
nobody_waits_for_a_thread_that_cannot_be(void **state)
{
	(void)state;
	assert_int_equal(nth_fault_run(1, without_thread), 1);
}

/* And not all at once: what nobody comes to costs nothing. */
static void
memory_is_there_before_its_use(void **state)
{
	char *mem = map_new();
	struct kv_warm w;
	size_t at;

	(void)state;
	kv_warm_init(&w);
	kv_warm_set(&w, mem, BYTES);
	wait_for(&w, 1);
	assert_in_range(resident_bytes(mem, BYTES), 1, BYTES / 2);
	for (at = 0; at <= BYTES; at += 1 << 20) {
		wait_for(&w, at);
		assert_int_equal(resident_bytes(mem, at), at);
	}
	wait_for(&w, SIZE_MAX / 2);
	kv_warm_fini(&w);
	munmap(mem, BYTES);
}

static void
what_is_there_stays(void **state)
{
	char *mem = map_new();
	struct kv_warm w;
	size_t at;

	(void)state;
	for (at = 0; at < BYTES; at += 1000)
		mem[at] = (char)(at / 1000);
	kv_warm_init(&w);
	kv_warm_set(&w, mem, BYTES);
	wait_for(&w, BYTES);
	for (at = 0; at < BYTES; at += 1000)
		assert_int_equal(mem[at], (char)(at / 1000));
	kv_warm_fini(&w);
	munmap(mem, BYTES);
}

/* It may be unmapped then, whatever was still to be done. */
static void
what_is_left_behind_is_not_touched(void **state)
{
	struct kv_warm w;
	unsigned i;
	char *mem;

	(void)state;
	kv_warm_init(&w);
	for (i = 0; i < 200 / KV_TEST_SLOWER; i++) {
		mem = map_new();
		kv_warm_set(&w, mem, BYTES);
		kv_warm_reaches(&w, 0);
		usleep(i * 37 % 3000);
		if (i % 2)
			wait_for(&w, 4096);
		kv_warm_set(&w, NULL, 0);
		assert_true(kv_warm_reaches(&w, 1));
		munmap(mem, BYTES);
	}
	kv_warm_fini(&w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(nobody_waits_for_a_thread_that_cannot_be),
		cmocka_unit_test(memory_is_there_before_its_use),
		cmocka_unit_test(what_is_there_stays),
		cmocka_unit_test(what_is_left_behind_is_not_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
