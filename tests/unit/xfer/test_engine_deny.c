/* case-019: what cross-memory attach is not allowed for, and whom it would
 * meet. Every transfer comes out right, on the next path. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engpeer.h"
#include "kvpool.h"
#include "need.h"
#include "test.h"

enum {
	REGION = 3 << 20,
	NOBODY = 12345,
};

static struct kv_engine *e;
static uint8_t *mine, *shared; /* registered; the second allocated */

static char
path_to(const struct engpeer *p, const char *reason)
{
	char path[256];

	assert_int_equal(kv_engine_path(e, p->addr, path, sizeof(path)), 0);
	if (!strstr(path, reason))
		fail_msg("path is \"%s\", not for \"%s\"", path, reason);
	return path[0];
}

/* Both directions, both made by this process. */
static void
exchange(const struct engpeer *p, uint64_t seed)
{
	uint64_t there = engpeer_region(p, REGION);
	uint8_t *buffer = malloc(REGION);
	struct kv_xfer_item item = { buffer, there, REGION };

	engpeer_fill(buffer, 0, REGION, seed);
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_WRITE, p->addr, &item, 1, 0),
		0);
	assert_int_equal(engpeer_do(p, ENGPEER_VERIFY, there, REGION, seed), 0);
	assert_int_equal(engpeer_do(p, ENGPEER_FILL, there, REGION, seed + 1),
			 0);
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_READ, p->addr, &item, 1, 0), 0);
	assert_int_equal(engpeer_verify(buffer, 0, REGION, seed + 1), 0);
	free(buffer);
}

/* The same made by the peer. */
static void
exchange_back(const struct engpeer *p, uint8_t *memory, uint64_t seed)
{
	uint64_t here = (uintptr_t)memory;

	engpeer_do(p, ENGPEER_MEET, kv_engine_port(e), 0, 0);
	engpeer_fill(memory, 0, REGION, seed + 2);
	assert_int_equal(engpeer_do(p, ENGPEER_WRITE, here, REGION, seed), 0);
	assert_int_equal(engpeer_verify(memory, 0, REGION, seed), 0);
	engpeer_fill(memory, 0, REGION, seed + 1);
	assert_int_equal(engpeer_do(p, ENGPEER_READ, here, REGION, seed + 1),
			 0);
}

static char
path_from(const struct engpeer *p)
{
	engpeer_do(p, ENGPEER_MEET, kv_engine_port(e), 0, 0);
	return (char)engpeer_do(p, ENGPEER_PATH, 0, 0, 0);
}

/* ---- another user ---- */

static int
become_nobody(void)
{
	return setresgid(NOBODY, NOBODY, NOBODY) ||
	       setresuid(NOBODY, NOBODY, NOBODY);
}

static void
another_user_goes_by_tcp(void **state)
{
	const struct engpeer_opts opts = { .prepare = become_nobody };
	struct engpeer p;

	(void)state;
	assert_true(engpeer_start(&p, &opts));
	assert_int_equal(path_to(&p, "another user"), 't');
	exchange(&p, 1);
	assert_int_equal(path_from(&p), 't');
	exchange_back(&p, mine, 2);
	/* Not even what is meant to be shared. */
	exchange_back(&p, shared, 3);
	assert_int_equal(path_from(&p), 't');
	engpeer_stop(&p);
}

/* ---- a user name space ---- */

static int
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	close(fd);
	return n < 0 ? -1 : 0;
}

static int
become_mapped_root(void)
{
	return unshare(CLONE_NEWUSER) ||
	       write_file("/proc/self/setgroups", "deny") ||
	       write_file("/proc/self/uid_map", "0 0 1") ||
	       write_file("/proc/self/gid_map", "0 0 1");
}

static int
become_unmapped(void)
{
	return unshare(CLONE_NEWUSER);
}

/* It is the same user, but has no right over this process. */
static void
a_user_name_space_has_no_attach(void **state)
{
	const struct engpeer_opts opts = { .prepare = become_mapped_root };
	struct engpeer p;

	(void)state;
	assert_true(engpeer_start(&p, &opts));
	exchange(&p, 1);
	engpeer_do(&p, ENGPEER_MEET, kv_engine_port(e), 0, 0);
	exchange_back(&p, mine, 2);
	exchange_back(&p, shared, 3);
	assert_int_equal(path_from(&p), 's');
	engpeer_stop(&p);
}

static void
a_user_that_is_not_mapped_is_another(void **state)
{
	const struct engpeer_opts opts = { .prepare = become_unmapped };
	struct engpeer p;

	(void)state;
	assert_true(engpeer_start(&p, &opts));
	exchange(&p, 1);
	assert_int_equal(path_from(&p), 't');
	exchange_back(&p, mine, 2);
	exchange_back(&p, shared, 3);
	engpeer_stop(&p);
}

/* ---- a PID name space ---- */

/* The process that goes on is the first one in there. */
static int
become_pid_one(void)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		return -1;
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		return prctl(PR_SET_PDEATHSIG, SIGKILL);
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* From outside its pid is known, and it is the right one. */
static void
who_is_in_a_pid_name_space_is_reached(void **state)
{
	const struct engpeer_opts opts = { .prepare = become_pid_one };
	struct engpeer p;

	(void)state;
	assert_true(engpeer_start(&p, &opts));
	assert_int_equal(path_to(&p, "token was read"), 'a');
	exchange(&p, 1);
	engpeer_stop(&p);
}

/* From inside nobody outside has a pid; the memory that is shared needs none.
 */
static void
a_pid_name_space_reaches_nobody_else(void **state)
{
	const struct engpeer_opts opts = { .prepare = become_pid_one };
	struct engpeer p;

	(void)state;
	assert_true(engpeer_start(&p, &opts));
	exchange_back(&p, mine, 1);
	exchange_back(&p, shared, 2);
	assert_int_equal(path_from(&p), 's');
	assert_int_equal(kv_engine_free(e, shared), 0);
	shared = NULL;
	exchange_back(&p, mine, 3);
	assert_int_equal(path_from(&p), 't');
	shared = kv_engine_alloc(e, REGION);
	assert_non_null(shared);
	engpeer_stop(&p);
}

/* ---- system calls that are not allowed ---- */

static void
seccomp_leads_to_the_next_path(void **state)
{
	struct engpeer p;

	(void)state;
	assert_true(engpeer_start(&p, NULL));
	assert_int_equal(engpeer_do(&p, ENGPEER_DENY, SYS_process_vm_readv,
				    SYS_process_vm_writev, 0),
			 0);
	exchange_back(&p, mine, 1);
	exchange_back(&p, shared, 2);
	engpeer_stop(&p);
}

/* The permission is lost half way. */
static void
permission_may_be_lost(void **state)
{
	struct engpeer p;

	(void)state;
	assert_int_equal(kv_engine_free(e, shared), 0);
	assert_true(engpeer_start(&p, NULL));
	assert_int_equal(path_from(&p), 'a');
	exchange_back(&p, mine, 1);
	assert_int_equal(path_from(&p), 'a');
	assert_int_equal(engpeer_do(&p, ENGPEER_DENY, SYS_process_vm_writev,
				    SYS_process_vm_writev, 0),
			 0);
	exchange_back(&p, mine, 2);
	assert_int_equal(path_from(&p), 't');
	exchange_back(&p, mine, 3);
	engpeer_stop(&p);
	shared = kv_engine_alloc(e, REGION);
	assert_non_null(shared);
}

static void
attach_can_be_switched_off(void **state)
{
	const struct engpeer_opts opts = { .engine = { .no_attach = 1 } };
	struct engpeer p;

	(void)state;
	assert_int_equal(kv_engine_free(e, shared), 0);
	assert_true(engpeer_start(&p, &opts));
	assert_int_equal(path_from(&p), 't');
	exchange_back(&p, mine, 1);
	engpeer_stop(&p);
	shared = kv_engine_alloc(e, REGION);
	assert_non_null(shared);
}

static int
start(void **state)
{
	const struct kv_engine_opts opts = { .allow_ptracer = 1 };

	(void)state;
	e = engpeer_open(&opts);
	mine = mmap(NULL, REGION, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(kv_engine_register(e, mine, REGION), 0);
	shared = kv_engine_alloc(e, REGION);
	return shared ? 0 : -1;
}

static int
end(void **state)
{
	(void)state;
	kv_engine_close(e);
	return 0;
}

/* Whether this machine lets a process do it. */
static bool
can(int (*step)(void))
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		_exit(step() ? 1 : 0);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

#define NEED(fn, step, why) need_test(can(step), why, fn, NULL, NULL)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		NEED(another_user_goes_by_tcp, become_nobody, "root"),
		NEED(a_user_name_space_has_no_attach, become_mapped_root,
		     "user name spaces"),
		NEED(a_user_that_is_not_mapped_is_another, become_unmapped,
		     "user name spaces"),
		NEED(who_is_in_a_pid_name_space_is_reached, become_pid_one,
		     "root"),
		NEED(a_pid_name_space_reaches_nobody_else, become_pid_one,
		     "root"),
		cmocka_unit_test(seccomp_leads_to_the_next_path),
		cmocka_unit_test(permission_may_be_lost),
		cmocka_unit_test(attach_can_be_switched_off),
	};

	engpeer_init();
	return cmocka_run_group_tests(tests, start, end);
}
