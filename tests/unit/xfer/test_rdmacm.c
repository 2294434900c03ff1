/* How connections of queue pairs begin and end, on fake devices. */
#include <string.h>

#include "base/num.h"
#include "rdmarig.h"
#include "test.h"

static const char peer[] = "10.0.0.2";

static void
over_with(int end, int why)
{
	assert_true(rdmarig[end].conn_over);
	assert_int_equal(rdmarig[end].conn_why, why);
	assert_false(rdmarig[end].is_ready);
}

static void
no_way_leads_there(void **state)
{
	(void)state;
	hca_fail_cm(rdmarig[0].host, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH,
		    NULL, 0);
	rdmarig_dial(peer, 1000);
	rdmarig_ms(500);
	over_with(0, -EHOSTUNREACH);
}

static void
nobody_has_the_address(void **state)
{
	(void)state;
	rdmarig_dial("10.9.9.9", 1000);
	rdmarig_ms(1000);
	over_with(0, -ETIMEDOUT);
}

static void
a_refusal_is_told(void **state)
{
	(void)state;
	rdmarig_refuses = true;
	rdmarig_dial(peer, 1000);
	rdmarig_ms(500);
	over_with(0, -ECONNREFUSED);
}

static void
so_is_a_route_that_is_none(void **state)
{
	(void)state;
	hca_fail_cm(rdmarig[0].host, RDMA_CM_EVENT_ROUTE_ERROR, -EINVAL, NULL,
		    0);
	rdmarig_dial(peer, 1000);
	rdmarig_ms(500);
	over_with(0, -EHOSTUNREACH);
}

static void
and_one_that_nobody_answers_on(void **state)
{
	(void)state;
	hca_fail_cm(rdmarig[0].host, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT,
		    NULL, 0);
	rdmarig_dial(peer, 1000);
	rdmarig_ms(500);
	over_with(0, -ETIMEDOUT);
}

static void
it_has_so_much_time(void **state)
{
	(void)state;
	hca_cut(rdmarig[0].port, NULL, true);
	hca_cut(rdmarig[1].port, NULL, true);
	rdmarig_dial(peer, 300);
	rdmarig_ms(299);
	assert_false(rdmarig[0].conn_over);
	rdmarig_ms(1);
	over_with(0, -ETIMEDOUT);
}

/* Who dialled may have given it up. */
static void
it_may_be_over_before_it_is_accepted(void **state)
{
	(void)state;
	rdmarig_waits = true;
	rdmarig_dial(peer, 1000);
	rdmarig_ms(10);
	assert_non_null(rdmarig[1].conn);
	kv_rdmacm_give_up(rdmarig[0].conn);
	rdmarig[0].conn = NULL;
	rdmarig_ms(10);
	assert_int_equal(rdmarig_accept(1000), -ECONNRESET);
	assert_false(rdmarig[1].conn_over);
}

static void
who_accepts_does_not_wait_for_ever(void **state)
{
	(void)state;
	rdmarig_waits = true;
	rdmarig_dial(peer, 10000);
	rdmarig_ms(10);
	hca_cut(rdmarig[1].port, NULL, true);
	assert_int_equal(rdmarig_accept(300), 0);
	rdmarig_ms(299);
	assert_false(rdmarig[1].conn_over);
	rdmarig_ms(1);
	over_with(1, -ETIMEDOUT);
}

static void
it_can_be_given_up_at_any_time(void **state)
{
	unsigned us;

	(void)state;
	for (us = 0; us < 30; us++) {
		if (us > 0) {
			rdmarig_teardown(state);
			rdmarig_setup(state);
		}
		rdmarig_dial(peer, 1000);
		rdmarig_us(us);
		kv_rdmacm_give_up(rdmarig[0].conn);
		rdmarig[0].conn = NULL;
		rdmarig_ms(2000);
		assert_false(rdmarig[0].conn_over);
	}
}

static void
who_ends_it_tells_the_other_side(void **state)
{
	(void)state;
	kv_rdmacm_give_up(rdmarig[0].conn);
	rdmarig[0].conn = NULL;
	rdmarig_ms(10);
	assert_true(rdmarig[1].conn_over);
	assert_int_equal(rdmarig[1].conn_why, -ECONNRESET);
}

static void
who_is_killed_does_too(void **state)
{
	(void)state;
	hca_process_exit(rdmarig[1].v);
	rdmarig_ms(10);
	assert_true(rdmarig[0].conn_over);
	assert_int_equal(rdmarig[0].conn_why, -ECONNRESET);
}

static void
memory_that_may_not_be_locked_is_not_registered(void **state)
{
	const struct kv_rdmanic *nic = &rdmarig[0].nic;
	struct kv_rdmamr m;

	(void)state;
	hca_memlock(rdmarig[0].host, RDMARIG_BYTES + 4096);
	assert_int_equal(kv_rdmamr_register(&m, &nic, 1, rdmarig[0].buf, 8192,
					    KV_RDMAREGION_NEAR),
			 -ENOMEM);
	assert_null(m.mrs[0]);
	assert_int_equal(kv_rdmamr_register(&m, &nic, 1, rdmarig[0].buf, 4096,
					    KV_RDMAREGION_NEAR),
			 0);
	assert_int_equal(m.near.addr, (uintptr_t)rdmarig[0].buf);
	assert_int_equal(m.near.len, 4096);
	kv_rdmamr_give_up(&m);
}

/* Only what is asked for is allowed. */
static void
near_memory_is_not_for_others(void **state)
{
	const struct kv_rdmanic *nic = &rdmarig[1].nic;
	struct rdmarig_work k;
	struct kv_rdmamr m;

	(void)state;
	assert_int_equal(kv_rdmamr_register(&m, &nic, 1, rdmarig[1].buf, 4096,
					    KV_RDMAREGION_FAR_READS),
			 0);
	rdmarig_work(&k, 0, IBV_WR_RDMA_READ, 0, 0, 4096);
	k.w.wr.wr.rdma.rkey = m.far.keys[0];
	rdmarig_post(0, &k, 1);
	rdmarig_ms(10);
	assert_int_equal(k.status, 0);
	rdmarig_work(&k, 0, IBV_WR_RDMA_WRITE, 0, 0, 4096);
	k.w.wr.wr.rdma.rkey = m.far.keys[0];
	rdmarig_post(0, &k, 1);
	rdmarig_ms(10);
	assert_int_equal(k.status, -EACCES);
	kv_rdmamr_give_up(&m);
}

#define IDLE(f) \
	cmocka_unit_test_setup_teardown(f, rdmarig_setup, rdmarig_teardown)
#define READY(f)                                                \
	cmocka_unit_test_setup_teardown(f, rdmarig_setup_ready, \
					rdmarig_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IDLE(no_way_leads_there),
		IDLE(nobody_has_the_address),
		IDLE(a_refusal_is_told),
		IDLE(so_is_a_route_that_is_none),
		IDLE(and_one_that_nobody_answers_on),
		IDLE(it_has_so_much_time),
		IDLE(it_may_be_over_before_it_is_accepted),
		IDLE(who_accepts_does_not_wait_for_ever),
		IDLE(it_can_be_given_up_at_any_time),
		READY(who_ends_it_tells_the_other_side),
		READY(who_is_killed_does_too),
		READY(memory_that_may_not_be_locked_is_not_registered),
		READY(near_memory_is_not_for_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
