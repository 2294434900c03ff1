/* Random transfers both ways, and random faults: every byte is compared, and
 * memory is used again at once. */
#include "xfer/rdmalink.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "railrig.h"
#include "test.h"

enum {
	SEEDS = 300,
	STEPS = 24,
	MOVES = 24,
	BLOCK = 64 << 10,
	BLOCKS = 48,
	RANGES_MAX = 12,
};

struct trial {
	struct railrig_move m;
	uint8_t *sent; /* as it was at the start */
	uint64_t at[2], bytes;
	bool is_begun;
};

static struct kv_rng rng;
static struct trial trials[MOVES];
static unsigned n_trials;
static bool is_used[2][BLOCKS];
static uint8_t fills[2][BLOCKS]; /* of those that are not used */
static uint64_t seed;
static bool is_going; /* a link was freed */

static uint64_t
upto(uint64_t n)
{
	return kv_rng_below(&rng, n + 1);
}

/* ---- memory ---- */

static void
block_free(int end, uint64_t block)
{
	is_used[end][block] = false;
	fills[end][block] = (uint8_t)kv_rng_u64(&rng);
	memset(railrig[end].buf + block * BLOCK, fills[end][block], BLOCK);
}

static void
blocks_free(int end, const struct trial *t)
{
	uint64_t b;

	for (b = t->at[end] / BLOCK; b * BLOCK < t->at[end] + t->bytes; b++)
		block_free(end, b);
}

/* Nobody has written to what was given back. */
static void
block_check(int end, uint64_t block)
{
	const uint8_t *p = railrig[end].buf + block * BLOCK;

	if (p[0] != fills[end][block] || memcmp(p, p + 1, BLOCK - 1) != 0)
		fail_msg("seed %llu: a late write to end %d",
			 (unsigned long long)seed, end);
}

static void
unused_check(void)
{
	int end;
	unsigned b;

	for (end = 0; end < 2; end++)
		for (b = 0; b < BLOCKS; b++)
			if (!is_used[end][b])
				block_check(end, b);
}

static bool
blocks_take(int end, uint64_t n, uint64_t *at)
{
	uint64_t first = upto(BLOCKS - n), i;

	for (i = 0; i < n; i++)
		if (is_used[end][first + i])
			return false;
	for (i = 0; i < n; i++) {
		block_check(end, first + i);
		is_used[end][first + i] = true;
	}
	*at = first * BLOCK;
	return true;
}

/* ---- transfers ---- */

static void
check_bytes(const struct trial *t, int end)
{
	if (memcmp(railrig[end].buf + t->at[end], t->sent, t->bytes) != 0)
		fail_msg("seed %llu: wrong bytes at end %d",
			 (unsigned long long)seed, end);
}

static void
on_end(struct railrig_move *m)
{
	struct trial *t = m->arg;

	if (m->end_status == 0)
		check_bytes(t, !m->mover);
	blocks_free(!m->mover, t);
}

static void
on_done(struct railrig_move *m)
{
	struct trial *t = m->arg;
	bool is_read = m->x.kind == KV_RDMAXFER_READ;

	if (m->status == 0 && m->x.kind != KV_RDMAXFER_WRITE)
		check_bytes(t, is_read ? m->mover : !m->mover);
	blocks_free(m->mover, t);
	/* Without the link nobody knows of the other side's. */
	if (m->x.kind != KV_RDMAXFER_WRITE && !is_going)
		blocks_free(!m->mover, t);
}

static void
ranges_cut(struct kv_rdmarange *list)
{
	struct kv_rdmarange whole = list[0];
	unsigned i, n = 1 + (unsigned)upto(RANGES_MAX - 1);

	for (i = 0; i < n; i++) {
		list[i] = whole;
		list[i].len = i + 1 < n ? upto(whole.len) : whole.len;
		whole.addr += list[i].len;
		whole.len -= list[i].len;
	}
}

static void
trial_begin(void)
{
	struct trial *t = &trials[n_trials];
	int mover = (int)upto(1);
	enum kv_rdmaxfer_kind kind = (enum kv_rdmaxfer_kind)upto(2);
	uint64_t blocks = 1 + upto(7);
	int from = kind == KV_RDMAXFER_READ ? !mover : mover;

	if (n_trials == MOVES || !railrig[mover].l || !railrig[!mover].l)
		return;
	*t = (struct trial){ .bytes = (blocks - 1) * BLOCK + 1 +
				      upto(BLOCK - 1) };
	if (upto(2) == 0)
		blocks = 1, t->bytes = 1 + upto(4095);
	if (!blocks_take(mover, blocks, &t->at[mover]))
		return;
	if (!blocks_take(!mover, blocks, &t->at[!mover])) {
		blocks_free(mover, t);
		return;
	}
	kv_rng_bytes(&rng, railrig[from].buf + t->at[from], t->bytes);
	t->sent = malloc(t->bytes);
	memcpy(t->sent, railrig[from].buf + t->at[from], t->bytes);
	railrig_prepare(&t->m, mover, kind, t->at[mover], t->at[!mover],
			t->bytes);
	ranges_cut(t->m.near);
	ranges_cut(t->m.far);
	t->m.on_done = on_done;
	t->m.on_end = on_end;
	t->m.arg = t;
	n_trials++;
	railrig_start(&t->m);
}

static void
trial_cancel(void)
{
	struct trial *t;

	if (n_trials == 0)
		return;
	t = &trials[upto(n_trials - 1)];
	if (!t->m.done)
		kv_rdmalink_cancel(&t->m.x);
}

static void
trials_check(void)
{
	unsigned i;

	for (i = 0; i < n_trials; i++) {
		const struct railrig_move *m = &trials[i].m;
		bool is_write = m->x.kind == KV_RDMAXFER_WRITE;

		if (m->done != 1 || m->end_done != is_write)
			fail_msg("seed %llu: transfer %u is not over: %u %u",
				 (unsigned long long)seed, i, m->done,
				 m->end_done);
		if (is_write && m->status == 0 && m->end_status != 0)
			fail_msg("seed %llu: transfer %u is there, and is not",
				 (unsigned long long)seed, i);
	}
}

/* ---- faults ---- */

static struct hca_port *
some_port(void)
{
	const struct railrig_end *e = &railrig[upto(1)];

	return e->ports[upto(e->n - 1)];
}

static void
work_fails(void)
{
	static const enum ibv_wc_status all[] = {
		IBV_WC_RETRY_EXC_ERR,  IBV_WC_WR_FLUSH_ERR,
		IBV_WC_GENERAL_ERR,    IBV_WC_RNR_RETRY_EXC_ERR,
		IBV_WC_REM_ABORT_ERR,  IBV_WC_LOC_PROT_ERR,
		IBV_WC_REM_ACCESS_ERR,
	};
	const struct hca_fault f = {
		.status = all[upto(KV_ARRAY_LEN(all) - 1)],
		.nth = 1 + (unsigned)upto(6),
	};

	hca_fail_wr(some_port(), &f);
}

static void
something_happens(void)
{
	switch (upto(10)) {
	case 0:
	case 1:
	case 2:
		work_fails();
		break;
	case 3:
		hca_port_up(some_port(), upto(1));
		break;
	case 4:
		hca_cut(some_port(), NULL, upto(1));
		break;
	case 5:
		hca_rate(some_port(), 0.5 + (double)upto(10));
		break;
	case 6:
		hca_loss(some_port(), NULL, 0.05 * (double)upto(2));
		break;
	case 7:
		trial_cancel();
		break;
	case 8:
		hca_delay(some_port(), NULL, 1000 * upto(3000));
		break;
	case 9:
		simnet_delay(railrig_net, "a", "b", 1000 * upto(1000));
		break;
	default:
		break;
	}
}

static void
all_is_well(void)
{
	const struct hca_fault none = { 0 };
	struct railrig_end *e;
	unsigned i;

	for (e = railrig; e < railrig + 2; e++)
		for (i = 0; i < e->n; i++) {
			hca_fail_wr(e->ports[i], &none);
			hca_port_up(e->ports[i], true);
			hca_cut(e->ports[i], NULL, false);
			hca_loss(e->ports[i], NULL, 0);
			hca_delay(e->ports[i], NULL, 0);
		}
	simnet_delay(railrig_net, "a", "b", 0);
}

/* ---- a run ---- */

static void
begin(void)
{
	struct railrig_opts o = {
		.n = { 1 + (unsigned)upto(3), 1 + (unsigned)upto(3) },
		.seed = seed,
		.piece_bytes = 16384,
		.bytes = BLOCKS * BLOCK,
		.is_flat = upto(1),
	};
	unsigned joined = upto(2) ? 0 : (unsigned)upto(15);
	unsigned i, b;

	for (i = 0; i < RAILRIG_PORTS; i++)
		o.gbps[i] = upto(1) ? 100 : 25;
	o.no_ip[0] = o.no_ip[1] = joined;
	railrig_open(&o);
	railrig_connect();
	n_trials = 0;
	is_going = false;
	for (i = 0; i < 2; i++)
		for (b = 0; b < BLOCKS; b++)
			block_free((int)i, b);
}

/* A link goes in the middle, and the other one with its connection. */
static void
end_suddenly(void)
{
	unsigned i, b;

	is_going = true;
	railrig_end_free((int)upto(1));
	railrig_ms(50);
	assert_true(!railrig[0].l && !railrig[1].l);
	trials_check();
	for (i = 0; i < 2; i++)
		for (b = 0; b < BLOCKS; b++)
			block_free((int)i, b);
	all_is_well();
	railrig_ms(3000);
	unused_check();
}

static void
end_well(void)
{
	all_is_well();
	railrig_ms(15000);
	unused_check();
	trials_check();
	assert_false(railrig[0].is_broken || railrig[1].is_broken);
	if (kv_rdmalink_rails(railrig[0].l) == 0)
		fail_msg("seed %llu: no rail came back",
			 (unsigned long long)seed);
	railrig_move(0, KV_RDMAXFER_WRITE, 0, 0, 100000);
	railrig_move(1, KV_RDMAXFER_READ, 0, 0, 100000);
}

static void
run_seed(void)
{
	unsigned i, n;

	kv_rng_seed(&rng, seed);
	begin();
	for (i = 0; i < STEPS; i++) {
		for (n = (unsigned)upto(2); n > 0; n--)
			trial_begin();
		if (upto(2) == 0)
			something_happens();
		railrig_us(upto(7) ? (unsigned)upto(60)
				   : (unsigned)upto(600000));
	}
	if (upto(3) == 0)
		end_suddenly();
	else
		end_well();
	railrig_close();
	for (i = 0; i < n_trials; i++)
		free(trials[i].sent);
}

static void
random_transfers_survive_random_faults(void **state)
{
	const char *first = getenv("SIM_FIRST"), *n = getenv("SIM_SEEDS");
	uint64_t from = first ? strtoull(first, NULL, 10) : 1;
	uint64_t count = n ? strtoull(n, NULL, 10) : SEEDS;

	(void)state;
	for (seed = from; seed < from + count; seed++)
		run_seed();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_transfers_survive_random_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
