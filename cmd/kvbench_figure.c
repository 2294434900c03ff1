/* One figure: rounds of it and its floor in turns, medians of both. */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "base/status.h"
#include "cmd/kvbench_run.h"

/* Values and floors of the rounds, pool by pool. */
struct rounds {
	double value[KVBENCH_POOLS_MAX][KVBENCH_ROUNDS_MAX];
	double floor[KVBENCH_POOLS_MAX][KVBENCH_ROUNDS_MAX];
};

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* There may be none: some figures need no pool, or one each time. */
static unsigned
pools(const struct run *r)
{
	return (unsigned)kv_max_u64(r->n_pools, 1);
}

static void
pool_choose(struct run *r, unsigned k)
{
	r->pool = r->n_pools > 0 ? &r->pools[k] : NULL;
}

/* One measurement with each pool, ahead of each its floor. */
static bool
round_take(struct run *r, const struct kvbench_figure *f, struct rounds *all,
	   unsigned i)
{
	unsigned k;

	for (k = 0; k < pools(r); k++) {
		pool_choose(r, k);
		all->floor[k][i] = f->constant;
		if (f->floor)
			all->floor[k][i] = f->floor(r);
		if (all->floor[k][i] < 0)
			return false;
		all->value[k][i] = f->measure(r);
		if (all->value[k][i] < 0)
			return false;
		if (!f->floor && f->constant == 0)
			all->floor[k][i] = all->value[0][i];
	}
	return true;
}

static void
figure_tell(struct run *r, const struct kvbench_figure *f, struct rounds *all)
{
	/* Of the first pool is what the others are compared with. */
	unsigned k = !f->floor && f->constant == 0, n = r->b->rounds;
	struct kvbench_result *res;

	for (; k < pools(r); k++) {
		if (isnan(all->value[k][0]) ||
		    r->b->n_results == KVBENCH_RESULTS_MAX)
			continue;
		res = &r->b->results[r->b->n_results++];
		*res = (struct kvbench_result){
			.name = f->name,
			.unit = f->unit,
			.floor_name = f->floor_name,
			.held = r->pools[k].held,
			.value = median(all->value[k], n),
			.floor = median(all->floor[k], n),
			.bar = f->bar,
			.is_less = f->flags & KVBENCH_LESS,
		};
		res->ratio = res->value / res->floor;
	}
}

/* Once for the caches, the page tables, the links; then in turns; then what was
 * put is removed. */
bool
kvbench_figure_take(struct run *r, const struct kvbench_figure *f)
{
	struct rounds *all = calloc(1, sizeof(*all));
	bool is_good = all != NULL;
	unsigned i, k;

	if (!all)
		return kvbench_failed(f->name, -KV_ENOMEM) >= 0;
	for (k = 0; k < pools(r) && is_good && !(f->flags & KVBENCH_COLD);
	     k++) {
		pool_choose(r, k);
		is_good = !(f->measure(r) < 0);
	}
	for (i = 0; i < r->b->rounds && is_good; i++)
		is_good = round_take(r, f, all, i);
	if (is_good)
		figure_tell(r, f, all);
	for (k = 0; k < r->n_pools; k++) {
		pool_choose(r, k);
		is_good = kvbench_drop(r) && is_good;
	}
	free(all);
	return is_good;
}
