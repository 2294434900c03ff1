#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "xfer/crossmem.h"

/* The same address in a child, which has its own copy of it. */
static struct kv_id token = { .b = "a token of 16 by" };
static char area[1 << 16];
static pid_t child;

static int
start_child(void **state)
{
	(void)state;
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	return child > 0 ? 0 : -1;
}

static int
end_child(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}

static void
the_token_is_found_where_it_is_said_to_be(void **state)
{
	const struct kv_id other = { .b = "another token" };
	uint64_t addr = (uintptr_t)&token;
	const char *why = NULL;

	(void)state;
	assert_int_equal(kv_crossmem_try(child, addr, &token, &why), 0);
	assert_int_equal(kv_crossmem_try(child, addr, &other, &why), -ESRCH);
	assert_non_null(strstr(why, "another process"));
	assert_int_equal(kv_crossmem_try(child, addr + 1, &token, &why),
			 -ESRCH);
	assert_int_equal(kv_crossmem_try(child, 8, &token, &why), -EFAULT);
	assert_int_equal(kv_crossmem_try(0, addr, &token, &why), -ESRCH);
	assert_non_null(strstr(why, "PID name space"));
	assert_int_equal(kv_crossmem_try(1 << 30, addr, &token, &why), -ESRCH);
}

static void
lists_need_not_be_cut_alike(void **state)
{
	static char from[1000], back[1000];
	struct iovec local[3] = { { from, 1 },
				  { from + 1, 700 },
				  { from + 701, 299 } };
	struct iovec remote[2] = { { area + 10, 500 }, { area + 2000, 500 } };

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(i * 7);
	assert_int_equal(kv_crossmem_move(child, true, local, 3, remote, 2), 0);
	local[0] = (struct iovec){ back, 1000 };
	remote[0] = (struct iovec){ area + 10, 500 };
	remote[1] = (struct iovec){ area + 2000, 500 };
	assert_int_equal(kv_crossmem_move(child, false, local, 1, remote, 2),
			 0);
	assert_memory_equal(from, back, sizeof(from));
	assert_int_equal(area[10], 0); /* it was the child's */
}

/* The call stops in the middle; the rest fails. */
static void
what_is_not_mapped_ends_it(void **state)
{
	long page = sysconf(_SC_PAGESIZE);
	char *hole = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec local = { hole, 2 * (size_t)page };
	struct iovec remote = { area, 2 * (size_t)page };

	(void)state;
	munmap(hole + page, (size_t)page);
	assert_int_equal(kv_crossmem_move(child, true, &local, 1, &remote, 1),
			 -EFAULT);
	munmap(hole, (size_t)page);
}

static void
a_process_that_ended_is_no_more(void **state)
{
	struct iovec local = { area, 10 }, remote = { area, 10 };
	pid_t gone = fork();

	(void)state;
	if (gone == 0)
		_exit(0);
	waitpid(gone, NULL, 0);
	assert_int_equal(kv_crossmem_move(gone, true, &local, 1, &remote, 1),
			 -ESRCH);
}

static void
copies_walk_both_lists(void **state)
{
	char a[10] = "0123456789", b[10] = "", c[10] = "";
	struct iovec local[2] = { { a, 3 }, { a + 3, 7 } };
	struct iovec remote[3] = { { b, 5 }, { b + 5, 4 }, { b + 9, 1 } };

	(void)state;
	kv_crossmem_copy(true, local, 2, remote, 3);
	assert_memory_equal(a, b, 10);
	local[0].iov_base = c;
	local[1].iov_base = c + 3;
	kv_crossmem_copy(false, local, 2, remote, 3);
	assert_memory_equal(a, c, 10);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_token_is_found_where_it_is_said_to_be),
		cmocka_unit_test(lists_need_not_be_cut_alike),
		cmocka_unit_test(what_is_not_mapped_ends_it),
		cmocka_unit_test(a_process_that_ended_is_no_more),
		cmocka_unit_test(copies_walk_both_lists),
	};

	return cmocka_run_group_tests(tests, start_child, end_child);
}
