/* Without memory, at each place: rails come later, or not at all. */
#include "xfer/rdmalink.h"

#include "base/num.h"
#include "nth_fault.h"
#include "railrig.h"
#include "test.h"
#include "xfer/rdmalinkcore.h"

enum {
	OVER = 0, /* no place was left */
	LIVES = 1,
	MOVES = 3,
	POINTS_MAX = 1000,
};

static bool
is_fault_left(void)
{
	unsigned i;

	for (i = 0; i < POINTS_MAX; i++)
		if (KV_FAULT_POINT())
			return true;
	return false;
}

/* The connection may be closed for it, or there may be no rail in time. */
static bool
is_good(const struct railrig_move *m)
{
	bool is_write = m->x.kind == KV_RDMAXFER_WRITE;

	if (m->done != 1 || m->end_done != is_write)
		return false;
	if (m->status == 0)
		return railrig_is_same(m);
	return m->status == -EHOSTUNREACH || m->status == -ECANCELED ||
	       m->status == -EIO;
}

static unsigned
rails_that_can_be(void)
{
	struct kv_rail_rec recs[KV_RAILS_MAX];

	return (unsigned)kv_min_u64(railrig[0].rl->n_ports,
				    kv_rdmaloop_rails(railrig[1].rl, recs));
}

/* Bits of ports that no connection manager reaches. */
static unsigned joined;

static int
move_with_fault(void)
{
	const struct railrig_opts o = {
		.n = { 2, 2 },
		.piece_bytes = 65536,
		.bytes = 1 << 20,
		.no_ip = { joined, joined },
		.may_fail = true,
	};
	const struct hca_fault f = { .status = IBV_WC_GENERAL_ERR, .nth = 2 };
	struct railrig_move m[MOVES];
	unsigned i;
	int code;

	railrig_open(&o);
	kv_rdmalink_tell(railrig[1].l);
	railrig_ms(600);
	hca_fail_wr(railrig[0].ports[0], &f);
	for (i = 0; i < MOVES; i++) {
		railrig_prepare(&m[i], i == 1, (enum kv_rdmaxfer_kind)i,
				i << 18, i << 18, 1 << 18);
		if (railrig[0].l && railrig[1].l)
			railrig_start(&m[i]);
	}
	railrig_ms(20000);
	for (i = 0; i < MOVES; i++)
		if (m[i].x.over.fn && !is_good(&m[i]))
			return 99;
	if (railrig[0].l && railrig[1].l && !railrig[1].is_broken &&
	    kv_rdmalink_rails(railrig[0].l) != rails_that_can_be())
		return 98;
	code = is_fault_left() ? OVER : LIVES;
	railrig_close();
	return code;
}

static void
try_all_places(void)
{
	unsigned n = 0, counts[3] = { 0 };
	int code;

	do {
		code = nth_fault_run(++n, move_with_fault);
		if (code > RAILRIG_FAILED)
			fail_msg("fault %u: %d", n, code);
		counts[code]++;
	} while (code != OVER);
	assert_true(counts[LIVES] > 20);
	assert_true(counts[RAILRIG_FAILED] > 5);
}

static void
memory_that_is_short_costs_rails_only(void **state)
{
	(void)state;
	joined = 0;
	try_all_places();
}

static void
nor_do_joins_cost_more(void **state)
{
	(void)state;
	joined = 3;
	try_all_places();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(memory_that_is_short_costs_rails_only),
		nth_fault_test(nor_do_joins_cost_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
