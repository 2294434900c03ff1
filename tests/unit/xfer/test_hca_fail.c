/* The fake device: the end of QPs, what fails, and what that leaves. */

#include "hcarig.h"

#include <errno.h>
#include <string.h>

#include "base/attr.h"

#include "test.h"

enum {
	SEEDS = 30,
	LONG = 60000,
	TIMEOUT_NS = 4096 << 14,
};

static struct hcarig rig;

static const struct hcarig_wr long_write = {
	.id = 1,
	.opcode = IBV_WR_RDMA_WRITE,
	.flags = IBV_SEND_SIGNALED,
	.bytes = LONG,
};
static const struct hcarig_wr long_read = {
	.id = 1,
	.opcode = IBV_WR_RDMA_READ,
	.flags = IBV_SEND_SIGNALED,
	.bytes = LONG,
};

static struct hcarig_opts
rough(uint64_t seed)
{
	return (struct hcarig_opts){
		.hca = { .seed = seed,
			 .jitter_ns = 5000,
			 .place_ns = 20000,
			 .flush_ns = 5000,
			 .piece_bytes = 4096 },
	};
}

static void
open_connected(struct hcarig_opts opts)
{
	hcarig_open(&rig, &opts);
	hcarig_connect(&rig);
}

/* ---- fencing ---- */

/* What the far NIC would have changed is guarded from the moment on. */
static size_t
same_prefix(const uint8_t *a, const uint8_t *b, size_t n)
{
	size_t i = 0;

	while (i < n && a[i] == b[i])
		i++;
	return i;
}

static void
end_qp(int end, int how)
{
	struct hcarig_end *e = &rig.end[end];

	if (how == 0) {
		assert_int_equal(hcarig_modify(&rig, end, IBV_QPS_ERR), 0);
	} else if (how == 1) {
		assert_int_equal(hcarig_modify(&rig, end, IBV_QPS_RESET), 0);
	} else {
		assert_int_equal(e->v->destroy_qp(e->qp), 0);
		e->qp = NULL;
	}
}

/* A WRITE into end 1, which gives up: a prefix is there, and no more comes. */
static void
a_fenced_end_is_not_written_to(void **state)
{
	static uint8_t then[HCARIG_BYTES];
	unsigned cut_short = 0, uneven = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		size_t n;

		open_connected(rough(seed));
		assert_int_equal(hcarig_post(&rig, 0, &long_write), 0);
		hcarig_run(&rig, 10000 + 2000 * seed);
		end_qp(1, (int)(seed % 3));
		memcpy(then, rig.end[1].buf, HCARIG_BYTES);
		n = same_prefix(then, rig.end[0].buf, LONG);
		cut_short += n > 0 && n < LONG;
		uneven += n % 4096 != 0 && n < LONG;
		hcarig_run(&rig, KV_NS_PER_S);
		assert_memory_equal(rig.end[1].buf, then, HCARIG_BYTES);
		if (n < LONG)
			hcarig_expect(&rig, 0, 1, IBV_WC_RETRY_EXC_ERR);
		hcarig_close(&rig);
	}
	assert_in_range(cut_short, SEEDS / 3, SEEDS);
	assert_in_range(uneven, SEEDS / 3, SEEDS);
}

/* Of a message that does not fit nothing is written, in how many pieces ever
 * it comes. */
static void
what_does_not_fit_is_refused_whole(void **state)
{
	static uint8_t then[HCARIG_BYTES];
	struct hcarig_wr w = long_write;

	(void)state;
	open_connected(rough(1));
	memcpy(then, rig.end[1].buf, HCARIG_BYTES);
	w.far = HCARIG_BYTES - LONG + 1;
	assert_int_equal(hcarig_do(&rig, 0, &w), IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(rig.end[1].buf, then, HCARIG_BYTES);
	hcarig_close(&rig);
}

/* A READ from end 1, which gives up: what it changes then is never seen. */
static void
a_fenced_end_is_not_read_from(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		open_connected(rough(seed));
		memset(rig.end[0].buf, 1, LONG);
		memset(rig.end[1].buf, 2, LONG);
		assert_int_equal(hcarig_post(&rig, 0, &long_read), 0);
		hcarig_run(&rig, 10000 + 2000 * seed);
		end_qp(1, (int)(seed % 3));
		memset(rig.end[1].buf, 3, LONG);
		hcarig_run(&rig, KV_NS_PER_S);
		assert_null(memchr(rig.end[0].buf, 3, LONG));
		hcarig_close(&rig);
	}
}

/* The requester gives up its READ: nothing more comes into its memory. */
static void
a_requester_that_gives_up_is_left_alone(void **state)
{
	unsigned cut_short = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		open_connected(rough(seed));
		memset(rig.end[1].buf, 2, LONG);
		memset(rig.end[0].buf, 1, LONG);
		assert_int_equal(hcarig_post(&rig, 0, &long_read), 0);
		hcarig_run(&rig, 20000 + 2000 * seed);
		end_qp(0, (int)(seed % 3));
		cut_short += memchr(rig.end[0].buf, 1, LONG) &&
			     memchr(rig.end[0].buf, 2, LONG);
		memset(rig.end[0].buf, 3, LONG);
		hcarig_run(&rig, KV_NS_PER_S);
		assert_null(memchr(rig.end[0].buf, 2, LONG));
		hcarig_close(&rig);
	}
	assert_in_range(cut_short, SEEDS / 3, SEEDS);
}

/* The requester gives up its WRITE: its memory is not read any more. */
static void
a_source_is_not_read_after_the_end(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		open_connected(rough(seed));
		memset(rig.end[0].buf, 1, LONG);
		memset(rig.end[1].buf, 2, LONG);
		assert_int_equal(hcarig_post(&rig, 0, &long_write), 0);
		hcarig_run(&rig, 10000 + 2000 * seed);
		end_qp(0, (int)(seed % 3));
		memset(rig.end[0].buf, 3, LONG);
		hcarig_run(&rig, KV_NS_PER_S);
		assert_null(memchr(rig.end[1].buf, 3, LONG));
		hcarig_close(&rig);
	}
}

/* A region that goes during a transfer ends it, and is not touched again. */
static void
a_region_that_goes_ends_the_transfer(void **state)
{
	static uint8_t then[HCARIG_BYTES];

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct hcarig_end *e = &rig.end[1];

		open_connected(rough(seed));
		assert_int_equal(
			hcarig_post(&rig, 0,
				    seed & 1 ? &long_read : &long_write),
			0);
		hcarig_run(&rig, 12000);
		e->v->dereg_mr(e->mr);
		/* The same key, the same place: of others all the same. */
		e->mr = e->v->reg_mr(e->pd, e->buf, 8, 0);
		memcpy(then, e->buf, HCARIG_BYTES);
		hcarig_run(&rig, KV_NS_PER_S);
		assert_memory_equal(e->buf, then, HCARIG_BYTES);
		hcarig_expect(&rig, 0, 1, IBV_WC_REM_ACCESS_ERR);
		hcarig_close(&rig);
	}
}

/* ---- what is wanted to fail ---- */

static void
a_request_fails_as_it_is_told(void **state)
{
	static const struct hcarig_wr *const wrs[] = { &long_write,
						       &long_read };
	unsigned partial = 0, untouched = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct hca_fault f = { .status = IBV_WC_REM_OP_ERR,
				       .vendor_err = 0x77,
				       .nth = 2 };
		const uint8_t *to = rig.end[!(seed & 1)].buf;
		struct ibv_wc wc;

		open_connected(rough(seed));
		hca_fail_wr(rig.end[0].port, &f);
		assert_int_equal(
			hcarig_do(&rig, 0,
				  &(struct hcarig_wr){ .id = 9, .bytes = 8 }),
			IBV_WC_SUCCESS);
		memset(rig.end[0].buf, 1 + (seed & 1), LONG);
		memset(rig.end[1].buf, 2 - (seed & 1), LONG);
		assert_int_equal(hcarig_post(&rig, 0, wrs[seed & 1]), 0);
		hcarig_run(&rig, KV_NS_PER_MS);
		assert_true(hcarig_poll(&rig, 0, &wc));
		assert_int_equal(wc.status, IBV_WC_REM_OP_ERR);
		assert_int_equal(wc.vendor_err, 0x77);
		partial += memchr(to, 1, LONG) && memchr(to, 2, LONG);
		untouched += !memchr(to, 1, LONG);
		assert_int_equal(rig.end[0].qp->state, IBV_QPS_ERR);
		assert_int_equal(rig.end[1].qp->state, IBV_QPS_RTS);
		hcarig_close(&rig);
	}
	assert_in_range(partial, SEEDS / 3, SEEDS);
	assert_in_range(untouched, 1, SEEDS / 2);
}

static void
requests_fail_with_a_chance(void **state)
{
	struct hca_fault f = { .status = IBV_WC_RETRY_EXC_ERR, .chance = 0.5 };
	unsigned failed = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
		struct hcarig_wr w = { .id = 1, .bytes = 8 };

		open_connected((struct hcarig_opts){ .hca.seed = seed });
		hca_fail_wr(rig.end[0].port, &f);
		failed += hcarig_do(&rig, 0, &w) == IBV_WC_RETRY_EXC_ERR;
		hcarig_close(&rig);
	}
	assert_in_range(failed, SEEDS, 3 * SEEDS);
}

static void
a_port_that_is_down_passes_nothing(void **state)
{
	static uint8_t then[HCARIG_BYTES];

	(void)state;
	open_connected((struct hcarig_opts){ .retry_cnt = 2 });
	hca_port_up(rig.end[1].port, false);
	hca_port_up(rig.end[1].port, false);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_PORT_ERR);
	assert_int_equal(hcarig_async(&rig, 1), -1);
	memcpy(then, rig.end[1].buf, HCARIG_BYTES);
	assert_int_equal(hcarig_post(&rig, 0, &long_write), 0);
	hcarig_run(&rig, TIMEOUT_NS);
	assert_memory_equal(rig.end[1].buf, then, HCARIG_BYTES);
	hca_port_up(rig.end[1].port, true);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_PORT_ACTIVE);
	hcarig_run(&rig, TIMEOUT_NS);
	hcarig_expect(&rig, 0, 1, IBV_WC_SUCCESS);
	hca_port_up(rig.end[0].port, false);
	memset(rig.end[0].buf, 1, LONG);
	memcpy(then, rig.end[1].buf, HCARIG_BYTES);
	assert_int_equal(hcarig_do(&rig, 0, &long_write), IBV_WC_RETRY_EXC_ERR);
	assert_memory_equal(rig.end[1].buf, then, HCARIG_BYTES);
	assert_int_equal(hcarig_async(&rig, 0), IBV_EVENT_PORT_ERR);
	hcarig_close(&rig);
}

static void
a_removed_device_fails_everything(void **state)
{
	struct hcarig_end *e = &rig.end[1];
	struct ibv_device **list;
	struct ibv_device_attr attr;
	static uint8_t then[HCARIG_BYTES];
	int n;

	(void)state;
	open_connected(rough(1));
	assert_int_equal(hcarig_post(&rig, 0, &long_write), 0);
	assert_int_equal(hcarig_post(&rig, 1, &long_read), 0);
	assert_int_equal(hcarig_recv(&rig, 1, 1, 0, 8), 0);
	hcarig_run(&rig, 15000);
	hca_dev_remove(e->dev);
	memcpy(then, e->buf, HCARIG_BYTES);
	assert_int_equal(hcarig_async(&rig, 1), IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(hcarig_post(&rig, 1, &long_read), EIO);
	assert_int_equal(hcarig_recv(&rig, 1, 1, 0, 8), EIO);
	assert_int_equal(hcarig_modify(&rig, 1, IBV_QPS_ERR), EIO);
	assert_int_equal(e->v->query_device(e->ctx, &attr), EIO);
	assert_null(e->v->reg_mr(e->pd, e->buf, 8, 0));
	assert_int_equal(errno, EIO);
	list = e->v->get_device_list(&n);
	assert_int_equal(n, 0);
	assert_null(list[0]);
	e->v->free_device_list(list);
	hcarig_run(&rig, KV_NS_PER_S);
	hcarig_expect_none(&rig, 1);
	assert_memory_equal(e->buf, then, HCARIG_BYTES);
	hcarig_expect(&rig, 0, 1, IBV_WC_RETRY_EXC_ERR);
	hcarig_close(&rig);
}

static void
a_process_that_exits_touches_nothing(void **state)
{
	static uint8_t then[HCARIG_BYTES];
	struct hcarig_end *e = &rig.end[1];

	(void)state;
	open_connected(rough(1));
	assert_int_equal(hcarig_post(&rig, 0, &long_write), 0);
	assert_int_equal(hcarig_post(&rig, 1, &long_read), 0);
	assert_int_equal(ibv_req_notify_cq(e->cq, 0), 0);
	hcarig_run(&rig, 15000);
	hca_process_exit(e->v);
	hca_port_up(rig.end[1].port, false);
	memcpy(then, e->buf, HCARIG_BYTES);
	hcarig_run(&rig, KV_NS_PER_S);
	assert_memory_equal(e->buf, then, HCARIG_BYTES);
	hcarig_expect_none(&rig, 1);
	assert_int_equal(hcarig_async(&rig, 1), -1);
	hcarig_expect(&rig, 0, 1, IBV_WC_RETRY_EXC_ERR);
	hcarig_close(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fenced_end_is_not_written_to),
		cmocka_unit_test(what_does_not_fit_is_refused_whole),
		cmocka_unit_test(a_fenced_end_is_not_read_from),
		cmocka_unit_test(a_requester_that_gives_up_is_left_alone),
		cmocka_unit_test(a_source_is_not_read_after_the_end),
		cmocka_unit_test(a_region_that_goes_ends_the_transfer),
		cmocka_unit_test(a_request_fails_as_it_is_told),
		cmocka_unit_test(requests_fail_with_a_chance),
		cmocka_unit_test(a_port_that_is_down_passes_nothing),
		cmocka_unit_test(a_removed_device_fails_everything),
		cmocka_unit_test(a_process_that_exits_touches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
