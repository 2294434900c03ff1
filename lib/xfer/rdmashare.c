#include "xfer/rdmashare.h"

#include <assert.h>

#include "base/num.h"

/* So much work without a pause shows how fast a rail is. */
#define SEEN_BYTES (UINT64_C(2) << 20)

static double
speed_of(const struct kv_rdmashare_rail *r)
{
	return r->seen > 0 && r->seen < r->speed ? r->seen : r->speed;
}

/* Bytes of what is under way that it has yet to move, as far as is known. */
static double
to_move(const struct kv_rdmashare_rail *r, uint64_t now)
{
	double bytes;

	if (r->busy_ns <= now)
		return 0;
	bytes = (double)(r->busy_ns - now) * speed_of(r);
	return bytes < (double)r->under_way ? bytes : (double)r->under_way;
}

/* What it moves until `end_ns` from now beside what it has to move; 0: no room
 * for more, or less than is worth it while it has work. */
static uint64_t
room(const struct kv_rdmashare *s, const struct kv_rdmashare_rail *r,
     uint64_t left, double has, double end_ns)
{
	double bytes = end_ns * speed_of(r) - has;
	uint64_t least = kv_min_u64(s->least_bytes, left), n;

	if (r->under_way >= s->deep * s->slice_bytes)
		return 0;
	if (bytes < (double)least && r->under_way > 0)
		return 0;
	n = bytes < (double)least ? least : (uint64_t)bytes;
	n = kv_min_u64(n, s->slice_bytes);
	/* No crumbs. */
	return left < n + s->least_bytes / 2 ? left : n;
}

/*
 * The rail that would be through with a full slice first, of those that have
 * room, and when that is; -1: none has. *speed: of all together. As if nothing
 * of what is under way had been moved yet.
 */
static int
full_pick(const struct kv_rdmashare *s, const struct kv_rdmashare_rail *rails,
	  uint32_t which, double *speed, double *first)
{
	uint64_t most = s->deep * s->slice_bytes;
	const struct kv_rdmashare_rail *r;
	double end, v;
	int best = -1;

	*speed = 0;
	for (; which; which &= which - 1) {
		r = &rails[__builtin_ctz(which)];
		v = speed_of(r);
		*speed += v;
		if (v <= 0 || r->under_way >= most)
			continue;
		end = (double)(r->under_way + s->slice_bytes) / v;
		if (best >= 0 && end >= *first)
			continue;
		best = (int)(r - rails);
		*first = end;
	}
	return best;
}

/* Near the end, where it counts. */
static int
last_pick(const struct kv_rdmashare *s, const struct kv_rdmashare_rail *rails,
	  uint32_t which, double speed, const struct kv_rdmashare_left *l)
{
	double has[32], sum = (double)l->bytes, end, first = 0;
	uint32_t w;
	uint64_t b;
	int i, best = -1;

	for (w = which; w; w &= w - 1) {
		i = __builtin_ctz(w);
		has[i] = to_move(&rails[i], l->now_ns);
		sum += has[i];
	}
	for (w = which; w; w &= w - 1) {
		i = __builtin_ctz(w);
		if (rails[i].speed <= 0)
			continue;
		b = room(s, &rails[i], l->bytes, has[i], sum / speed);
		if (b == 0)
			continue;
		end = (has[i] + (double)b) / speed_of(&rails[i]);
		if (best >= 0 && end >= first)
			continue;
		best = i;
		first = end;
		*l->slice = b;
	}
	return best;
}

int
kv_rdmashare_pick(const struct kv_rdmashare *s,
		  const struct kv_rdmashare_rail *rails, uint32_t which,
		  const struct kv_rdmashare_left *left)
{
	double speed, first = 0;
	int best = full_pick(s, rails, which, &speed, &first);

	/* All others will be at work for long after it: no need to be exact. */
	*left->slice = s->slice_bytes;
	if (best < 0 || 2 * first * speed <= (double)left->bytes)
		return best;
	return last_pick(s, rails, which, speed, left);
}

void
kv_rdmashare_post(struct kv_rdmashare_rail *r, uint64_t now_ns, uint64_t bytes)
{
	r->under_way += bytes;
	r->busy_ns = kv_max_u64(r->busy_ns, now_ns) +
		     (uint64_t)((double)bytes / speed_of(r));
}

static void
look(struct kv_rdmashare_rail *r, uint64_t now_ns, uint64_t bytes)
{
	if (r->under_way == 0) {
		r->since_ns = 0;
		return;
	}
	if (r->since_ns == 0) {
		r->since_ns = now_ns;
		r->since_bytes = 0;
		return;
	}
	r->since_bytes += bytes;
	if (r->since_bytes < SEEN_BYTES || now_ns == r->since_ns)
		return;
	r->seen = (double)r->since_bytes / (double)(now_ns - r->since_ns);
	r->since_ns = now_ns;
	r->since_bytes = 0;
}

void
kv_rdmashare_done(struct kv_rdmashare_rail *r, uint64_t now_ns, uint64_t bytes)
{
	assert(r->under_way >= bytes);
	r->under_way -= bytes;
	look(r, now_ns, bytes);
	r->busy_ns = now_ns;
	if (r->speed > 0)
		r->busy_ns += (uint64_t)((double)r->under_way / speed_of(r));
}
