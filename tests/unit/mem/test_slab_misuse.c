/* What nobody may do with a pool's space ends the program. */
#include "mem/slab.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/num.h"
#include "test.h"

#define G   ((uint64_t)KV_GRANULE_BYTES)
#define MIB (UINT64_C(1) << 20)

static struct kv_slab *
slab_of(uint64_t bytes)
{
	struct kv_slab *s = kv_slab_new(bytes);

	assert_non_null(s);
	assert_int_equal(kv_slab_add(s, 0, bytes), 0);
	return s;
}

static struct kv_extent
alloc_one(struct kv_slab *s, uint64_t bytes)
{
	struct kv_extent ext;

	assert_int_equal(kv_slab_alloc(s, bytes, &ext, 1), 1);
	assert_int_equal(ext.len, kv_round_up_u64(bytes, G));
	return ext;
}

/* Runs fn in a child, which must die by an assertion. */
static void
assert_aborts(void (*fn)(struct kv_slab *s), struct kv_slab *s)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		close(STDERR_FILENO);
		fn(s);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void
release_at(struct kv_slab *s, uint64_t off, uint64_t len)
{
	kv_slab_release(s, &(struct kv_extent){ off, len }, 1);
}

static void
release_small_twice(struct kv_slab *s)
{
	struct kv_extent ext = alloc_one(s, 512);

	kv_slab_release(s, &ext, 1);
	kv_slab_release(s, &ext, 1);
}

static void
release_large_twice(struct kv_slab *s)
{
	struct kv_extent ext = alloc_one(s, MIB);

	kv_slab_release(s, &ext, 1);
	kv_slab_release(s, &ext, 1);
}

static void
release_small_part(struct kv_slab *s)
{
	release_at(s, alloc_one(s, 512).off, 256);
}

static void
release_small_inside(struct kv_slab *s)
{
	release_at(s, alloc_one(s, 512).off + 256, 256);
}

static void
release_two_small_as_one(struct kv_slab *s)
{
	uint64_t off = alloc_one(s, 512).off;

	assert_int_equal(alloc_one(s, 512).off, off + 512);
	release_at(s, off, 1024);
}

static void
release_large_part(struct kv_slab *s)
{
	release_at(s, alloc_one(s, MIB).off, MIB / 2);
}

static void
release_large_inside(struct kv_slab *s)
{
	release_at(s, alloc_one(s, MIB).off + G, MIB - G);
}

static void
release_a_whole_chunk(struct kv_slab *s)
{
	release_at(s, alloc_one(s, 512).off & ~(MIB - 1), MIB);
}

static void
release_nothing(struct kv_slab *s)
{
	release_at(s, 0, 0);
}

static void
release_off_grid(struct kv_slab *s)
{
	release_at(s, alloc_one(s, 512).off + 1, 512);
}

static void
release_outside(struct kv_slab *s)
{
	release_at(s, 8 * MIB, G);
}

static void
reserve_too_late(struct kv_slab *s)
{
	(void)alloc_one(s, 1);
	(void)kv_slab_reserve(s, 0, G);
}

static void
test_misuse_ends_the_program(void **state)
{
	static void (*const misuses[])(struct kv_slab * s) = {
		release_small_twice,      release_large_twice,
		release_small_part,       release_small_inside,
		release_two_small_as_one, release_large_part,
		release_large_inside,     release_a_whole_chunk,
		release_nothing,          release_off_grid,
		release_outside,          reserve_too_late,
	};
	struct kv_slab *s = slab_of(8 * MIB);
	struct kv_extent keep = alloc_one(s, 256); /* keeps the chunk alive */
	size_t i;

	(void)state;
	for (i = 0; i < KV_ARRAY_LEN(misuses); i++)
		assert_aborts(misuses[i], s);
	kv_slab_release(s, &keep, 1);
	kv_slab_free(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_misuse_ends_the_program),
	};

	return cmocka_run_group_tests_name("slab_misuse", tests, NULL, NULL);
}
