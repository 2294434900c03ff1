#include "base/attr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include "test.h"

struct outer {
	int a;
	int inner;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool
is_locked(void)
{
	if (pthread_mutex_trylock(&mutex) == EBUSY)
		return true;
	pthread_mutex_unlock(&mutex);
	return false;
}

static bool
is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void
container_of_member(void **state)
{
	struct outer o;

	(void)state;
	assert_ptr_equal(KV_CONTAINER_OF(&o.inner, struct outer, inner), &o);
}

static void
auto_close_closes_what_was_not_stolen(void **state)
{
	int a = -1, b = -1;

	(void)state;
	{
		kv_auto_close int kept = open("/dev/null", O_RDONLY);
		kv_auto_close int stolen = open("/dev/null", O_RDONLY);
		kv_auto_close KV_UNUSED int none = -1;

		a = kept;
		b = kv_steal_fd(&stolen);
		assert_int_equal(stolen, -1);
		errno = EXDEV;
	}
	assert_int_equal(errno, EXDEV);
	assert_false(is_open(a));
	assert_true(is_open(b));
	close(b);
}

/* LeakSanitizer and double free checks judge this one. */
static void
auto_free_frees_what_was_not_stolen(void **state)
{
	char *out;

	(void)state;
	{
		kv_auto_free char *freed = malloc(8);
		kv_auto_free char *stolen = malloc(8);
		kv_auto_free KV_UNUSED char *none = NULL;

		assert_non_null(freed);
		out = kv_steal_ptr(&stolen);
		assert_null(stolen);
	}
	assert_non_null(out);
	out[7] = 1;
	free(out);
}

static int
return_from_locked(void)
{
	KV_LOCKED(&mutex) {
		return is_locked();
	}
	return -1;
}

static void
locked_unlocks_on_every_way_out(void **state)
{
	int turns = 0, i;

	(void)state;
	KV_LOCKED(&mutex) {
		assert_true(is_locked());
		turns++;
	}
	assert_false(is_locked());
	assert_int_equal(turns, 1);
	assert_int_equal(return_from_locked(), 1);
	assert_false(is_locked());
	for (i = 0; i < 3; i++) {
		KV_LOCKED(&mutex) {
			if (i == 0)
				break;
			if (i == 1)
				continue;
			goto out;
		}
		assert_false(is_locked());
		turns++;
	}
out:
	assert_false(is_locked());
	assert_int_equal(turns, 3);
}

static void
locked_blocks_nest(void **state)
{
	pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
	int turns = 0;

	(void)state;
	KV_LOCKED(&mutex) {
		KV_LOCKED(&second) {
			assert_int_equal(pthread_mutex_trylock(&second), EBUSY);
			turns++;
		}
		assert_int_equal(pthread_mutex_trylock(&second), 0);
		pthread_mutex_unlock(&second);
		assert_true(is_locked());
	}
	assert_int_equal(turns, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(container_of_member),
		cmocka_unit_test(auto_close_closes_what_was_not_stolen),
		cmocka_unit_test(auto_free_frees_what_was_not_stolen),
		cmocka_unit_test(locked_unlocks_on_every_way_out),
		cmocka_unit_test(locked_blocks_nest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
