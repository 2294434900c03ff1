#include "event/op.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/attr.h"
#include "test.h"

struct job {
	atomic_int *runs;
	atomic_int *drops;
	unsigned sleep_us;
	long result;
};

static long
job_run(void *arg)
{
	struct job *j = arg;

	usleep(j->sleep_us);
	atomic_fetch_add(j->runs, 1);
	return j->result;
}

static void
job_drop(void *arg)
{
	struct job *j = arg;

	atomic_fetch_add(j->drops, 1);
	free(j);
}

static struct kv_op *
start(struct kv_op_crew *crew, atomic_int *counts, unsigned sleep_us, long res)
{
	struct job *j = malloc(sizeof(*j));

	assert_non_null(j);
	*j = (struct job){ &counts[0], &counts[1], sleep_us, res };
	return kv_op_start(crew, job_run, job_drop, j);
}

static void
test_results_reach_their_waiters(void **state)
{
	struct kv_op_crew *crew = kv_op_crew_new("t", 3, 100);
	atomic_int counts[2] = { 0, 0 };
	struct kv_op *ops[50];
	long res, i;

	(void)state;
	for (i = 0; i < 50; i++)
		assert_non_null(ops[i] = start(crew, counts, 100, i));
	for (i = 49; i >= 0; i--) {
		assert_int_equal(kv_op_wait(ops[i], 10000, &res), 0);
		assert_int_equal(res, i);
	}
	assert_int_equal(counts[0], 50);
	assert_int_equal(counts[1], 50);
	kv_op_crew_free(crew);
}

static void
test_wait_ends_at_its_deadline_and_can_be_repeated(void **state)
{
	struct kv_op_crew *crew = kv_op_crew_new("t", 1, 10);
	atomic_int counts[2] = { 0, 0 };
	struct kv_op *op = start(crew, counts, 200000, 7);
	long res = 0;

	(void)state;
	assert_int_equal(kv_op_wait(op, 1, &res), -KV_ETIMEOUT);
	assert_int_equal(kv_op_wait(op, 10000, &res), 0);
	assert_int_equal(res, 7);
	kv_op_crew_free(crew);
}

static void
test_a_full_queue_refuses_and_drops(void **state)
{
	struct kv_op_crew *crew = kv_op_crew_new("t", 1, 1);
	atomic_int counts[2] = { 0, 0 };
	struct kv_op *a, *b, *c;
	long res;

	(void)state;
	a = start(crew, counts, 300000, 1);
	usleep(100000); /* it runs now, and the queue is empty */
	b = start(crew, counts, 0, 2);
	c = start(crew, counts, 0, 3);
	assert_non_null(a);
	assert_non_null(b);
	assert_null(c);
	assert_int_equal(counts[1], 1);
	assert_int_equal(kv_op_wait(a, 10000, &res), 0);
	assert_int_equal(kv_op_wait(b, 10000, &res), 0);
	kv_op_crew_free(crew);
}

static void
test_closing_ends_what_waits(void **state)
{
	struct kv_op_crew *crew = kv_op_crew_new("t", 1, 10);
	atomic_int counts[2] = { 0, 0 };
	struct kv_op *a, *b;
	long res;

	(void)state;
	a = start(crew, counts, 200000, 1);
	usleep(50000);
	b = start(crew, counts, 0, 2);
	kv_op_crew_free(crew);
	assert_int_equal(kv_op_wait(a, 0, &res), 0);
	assert_int_equal(res, 1);
	assert_int_equal(kv_op_wait(b, 0, &res), 0);
	assert_int_equal(res, -KV_ECLOSED);
	assert_int_equal(counts[0], 1);
	assert_int_equal(counts[1], 2);
	assert_int_equal(kv_op_wait(NULL, 0, &res), -KV_EINVALID);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results_reach_their_waiters),
		cmocka_unit_test(
			test_wait_ends_at_its_deadline_and_can_be_repeated),
		cmocka_unit_test(test_a_full_queue_refuses_and_drops),
		cmocka_unit_test(test_closing_ends_what_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
