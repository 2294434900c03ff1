#include "net/host.h"

#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "need.h"

/* What another process says, in a network namespace of its own if so told;
 * false when it cannot have one. */
static bool
ask_child(bool own_network, struct kv_id *out)
{
	int fds[2];
	bool is_good;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		if (own_network && unshare(CLONE_NEWNET))
			_exit(1);
		*out = kv_host_id();
		if (write(fds[1], out, sizeof(*out)) != sizeof(*out))
			_exit(1);
		_exit(0);
	}
	close(fds[1]);
	is_good = read(fds[0], out, sizeof(*out)) == sizeof(*out);
	close(fds[0]);
	waitpid(pid, NULL, 0);
	return is_good;
}

static void
processes_of_one_host_agree(void **state)
{
	static const struct kv_id zero;
	struct kv_id mine = kv_host_id(), other;

	(void)state;
	assert_memory_not_equal(&mine, &zero, sizeof(zero));
	assert_true(ask_child(false, &other));
	assert_memory_equal(&mine, &other, sizeof(mine));
}

static void
another_network_namespace_is_another_host(void **state)
{
	struct kv_id mine = kv_host_id(), other;

	(void)state;
	assert_true(ask_child(true, &other));
	assert_memory_not_equal(&mine, &other, sizeof(mine));
}

int
main(void)
{
	struct kv_id other;
	const bool can_unshare = ask_child(true, &other);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_of_one_host_agree),
		need_test(can_unshare, "a network namespace",
			  another_network_namespace_is_another_host, NULL,
			  NULL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
