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

/* What it moves until `end_ns` from now beside that; 0: no room for more, or
 * less than is worth it while it has work. */
static uint64_t
room(const struct kv_rdmashare *s, const struct kv_rdmashare_rail *r,
     uint64_t left, uint64_t now, double end_ns)
{
	double bytes = end_ns * speed_of(r) - to_move(r, now);
	uint64_t least = kv_min_u64(s->least_bytes, left), n;

	if (r->speed <= 0 || r->under_way >= s->deep * s->slice_bytes)
		return 0;
	if (bytes < (double)least && r->under_way > 0)
		return 0;
	n = bytes < (double)least ? least : (uint64_t)bytes;
	n = kv_min_u64(n, s->slice_bytes);
	/* No crumbs. */
	return left < n + s->least_bytes / 2 ? left : n;
}

int
kv_rdmashare_pick(const struct kv_rdmashare *s,
		  const struct kv_rdmashare_rail *rails, unsigned n,
		  uint64_t left, uint64_t now_ns, uint64_t *bytes)
{
	double speed = 0, sum = (double)left, end, first = 0;
	uint64_t b;
	unsigned i;
	int best = -1;

	for (i = 0; i < n; i++) {
		if (rails[i].speed <= 0)
			continue;
		speed += speed_of(&rails[i]);
		sum += to_move(&rails[i], now_ns);
	}
	for (i = 0; i < n; i++) {
		b = room(s, &rails[i], left, now_ns, sum / speed);
		if (b == 0)
			continue;
		end = (to_move(&rails[i], now_ns) + (double)b) /
		      speed_of(&rails[i]);
		if (best >= 0 && end >= first)
			continue;
		best = (int)i;
		first = end;
		*bytes = b;
	}
	return best;
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
