#include "svc/ident.h"

#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static void
random_ids_differ(void **state)
{
	struct kv_id a, b;

	(void)state;
	assert_int_equal(kv_ident_random(&a), 0);
	assert_int_equal(kv_ident_random(&b), 0);
	assert_false(kv_id_is_equal(a, b));
	assert_false(kv_id_is_zero(a));
}

static void
host_is_the_same_twice(void **state)
{
	struct kv_id a, b;

	(void)state;
	assert_int_equal(kv_ident_host(&a), 0);
	assert_int_equal(kv_ident_host(&b), 0);
	assert_true(kv_id_is_equal(a, b));
	assert_false(kv_id_is_zero(a));
}

static void
host_differs_in_another_network_name_space(void **state)
{
	struct kv_id here, there;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(kv_ident_host(&here), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) < 0)
			_exit(77);
		_exit(kv_ident_host(&there) == 0 && !kv_id_is_equal(here, there)
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_ids_differ),
		cmocka_unit_test(host_is_the_same_twice),
		cmocka_unit_test(host_differs_in_another_network_name_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
