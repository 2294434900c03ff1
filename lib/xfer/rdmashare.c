#include "xfer/rdmashare.h"

#include <assert.h>

#include "base/attr.h"
#include "base/num.h"

/* What a slice takes of a rail at most: with some under way an acknowledgement
 * is there well before the NIC misses it, after 67 ms. */
#define SLICE_NS 10e6

/* What it is said to take as long as nothing shows that it does not take a
 * hundred times that. */
#define FIRST_NS 100e3

/* So much work without a pause, or less, shows how fast a rail is. */
#define SEEN_BYTES (UINT64_C(4) << 20)

/* Its next end shows when that begins. */
#define ANEW_BYTES (UINT64_C(1) << 62)

/* So long rails may need for what the others would help with. */
#define NEAR_NS 10e3

/* Of what is far below 2^63: quicker than as it is. */
static double
real(uint64_t n)
{
	return (double)(int64_t)n;
}

static int64_t
positive(int64_t n)
{
	return n > 0 ? n : 0;
}

/* ---- rails ---- */

/* What is picked by, after each change of a rail. */
static void
full_set(struct kv_rdmashare *s, unsigned i, const struct kv_rdmashare_rail *r)
{
	s->full_ns[i] = real(r->under_way + r->slice_bytes) * r->byte_ns;
}

/* There may be room again. */
static void
rail_open(struct kv_rdmashare *s, unsigned i, const struct kv_rdmashare_rail *r)
{
	if (r->under_way < r->deep_bytes)
		s->open |= s->used & 1u << i;
}

static KV_NOINLINE void
slice_set(struct kv_rdmashare *s, unsigned i)
{
	struct kv_rdmashare_rail *r = &s->rails[i];
	bool is_known = s->seen[i] > 0 || s->quick >> i & 1;
	double bytes = r->speed * (is_known ? SLICE_NS : FIRST_NS);
	uint64_t slice = s->slice_bytes;

	if (bytes < real(slice))
		slice = kv_max_u64((uint64_t)bytes, s->least_bytes);
	r->slice_bytes = (uint32_t)slice;
	r->deep_bytes = s->deep * slice;
	/* Ends come in bunches. */
	r->see_bytes = (uint32_t)kv_min_u64(2 * r->deep_bytes, SEEN_BYTES);
	s->open &= ~(1u << i);
	rail_open(s, i, r);
	full_set(s, i, r);
}

/* Its slices are whole ones, and stay so. */
static bool
is_whole(const struct kv_rdmashare *s, unsigned i)
{
	return s->rails[i].slice_bytes == s->slice_bytes && s->seen[i] > 0 &&
	       s->rails[i].speed * SLICE_NS >= real(s->slice_bytes);
}

static void
speed_set(struct kv_rdmashare *s, unsigned i)
{
	struct kv_rdmashare_rail *r = &s->rails[i];
	double was = r->speed, seen = s->seen[i], said = s->said[i];

	r->speed = seen > 0 && seen < said ? seen : said;
	r->byte_ns = r->speed > 0 ? 1 / r->speed : 0;
	s->speed += r->speed - was;
	if (is_whole(s, i))
		full_set(s, i, r);
	else
		slice_set(s, i);
}

/* Its speed is seen from its next end on. */
static void
see_anew(struct kv_rdmashare_rail *r)
{
	r->since_ns = 0;
	r->since_bytes = ANEW_BYTES;
}

void
kv_rdmashare_init(struct kv_rdmashare *s, uint64_t slice_bytes,
		  uint64_t least_bytes, unsigned deep)
{
	unsigned i;

	*s = (struct kv_rdmashare){
		.slice_bytes = slice_bytes,
		.least_bytes = least_bytes,
		.deep = deep,
	};
	for (i = 0; i < KV_RDMASHARE_RAILS; i++) {
		see_anew(&s->rails[i]);
		slice_set(s, i);
	}
}

void
kv_rdmashare_speed(struct kv_rdmashare *s, unsigned rail, double said)
{
	if (s->said[rail] == said)
		return;
	s->said[rail] = said;
	s->used &= ~(1u << rail);
	s->open &= ~(1u << rail);
	s->used |= (uint32_t)(said > 0) << rail;
	speed_set(s, rail);
	rail_open(s, rail, &s->rails[rail]);
}

/* ---- picking ---- */

/* Bytes of what is under way that it has yet to move, as far as is known. */
static double
to_move(const struct kv_rdmashare *s, unsigned rail, uint64_t now)
{
	const struct kv_rdmashare_rail *r = &s->rails[rail];
	uint64_t from = r->since_ns ? r->since_ns : r->began_ns;
	double moved = real(now - from) * r->speed, rest;

	if (r->since_ns)
		moved += (double)(positive(s->ahead[rail]) -
				  (int64_t)r->since_bytes);
	rest = real(r->under_way) - (moved > 0 ? moved : 0);
	return rest > 0 ? rest : 0;
}

/* What it moves until `end_ns` from now beside what it has to move; 0: less
 * than is worth it while it has work. */
static uint64_t
room(const struct kv_rdmashare *s, const struct kv_rdmashare_rail *r,
     uint64_t left, double has, double end_ns)
{
	double bytes = end_ns * r->speed - has;
	uint64_t least = kv_min_u64(s->least_bytes, left), n = least;

	if (bytes >= real(least))
		n = kv_min_u64((uint64_t)(int64_t)bytes, r->slice_bytes);
	else if (r->under_way > 0)
		return 0;
	/* No crumbs. */
	return left < n + s->least_bytes / 2 ? left : n;
}

/* Near the end, where it counts. (Inlined it would cost each pick the room that
 * it needs.) */
static KV_NOINLINE int
last_pick(const struct kv_rdmashare *s, uint32_t which, uint64_t left,
	  uint64_t now_ns, uint64_t *bytes)
{
	double has[KV_RDMASHARE_RAILS], sum = real(left), end, speed = 0;
	double first = 0, all_ns;
	uint32_t bits;
	uint64_t b;
	int i, best = -1;

	for (bits = which; bits; bits &= bits - 1) {
		i = __builtin_ctz(bits);
		has[i] = to_move(s, (unsigned)i, now_ns);
		sum += has[i];
		speed += s->rails[i].speed;
	}
	all_ns = sum / speed;
	for (bits = which & s->open; bits; bits &= bits - 1) {
		i = __builtin_ctz(bits);
		b = room(s, &s->rails[i], left, has[i], all_ns);
		if (b == 0)
			continue;
		end = (has[i] + real(b)) / s->rails[i].speed;
		if (best >= 0 && end >= first)
			continue;
		best = i;
		first = end;
		*bytes = b;
	}
	return best;
}

int
kv_rdmashare_pick(const struct kv_rdmashare *s, uint32_t which, uint64_t left,
		  uint64_t now_ns, uint64_t *bytes)
{
	uint32_t bits = which & s->open;
	double first;
	int i, best;

	if (!bits)
		return -1;
	/* As if nothing of what is under way had been moved yet. */
	best = __builtin_ctz(bits);
	first = s->full_ns[best];
	while (bits &= bits - 1) {
		i = __builtin_ctz(bits);
		if (s->full_ns[i] >= first)
			continue;
		best = i;
		first = s->full_ns[i];
	}
	/* All will be at work for long after it: no need to be exact. */
	*bytes = s->rails[best].slice_bytes;
	if (first * s->speed <= real(left))
		return best;
	return last_pick(s, which & s->used, left, now_ns, bytes);
}

uint32_t
kv_rdmashare_near(const struct kv_rdmashare *s, uint32_t which,
		  uint32_t distant, uint64_t bytes)
{
	uint32_t near = which & s->used & ~distant, bits;
	const struct kv_rdmashare_rail *r;
	double to_move = real(bytes), speed = 0;

	for (bits = near; bits; bits &= bits - 1) {
		r = &s->rails[__builtin_ctz(bits)];
		to_move += real(r->under_way);
		speed += r->speed;
	}
	return to_move <= speed * NEAR_NS ? near : which;
}

/* ---- what becomes of slices ---- */

void
kv_rdmashare_post(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns,
		  uint64_t bytes)
{
	struct kv_rdmashare_rail *r = &s->rails[rail];

	if (r->under_way == 0)
		r->began_ns = now_ns;
	r->under_way += bytes;
	if (r->under_way >= r->deep_bytes)
		s->open &= ~(1u << rail);
	full_set(s, rail, r);
}

/* As it was since since_ns. What it was ahead by then it is by now. */
static void
see_speed(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns)
{
	struct kv_rdmashare_rail *r = &s->rails[rail];
	double seen = real(r->since_bytes) / real(now_ns - r->since_ns);
	int64_t *ahead = &s->ahead[rail];

	/* What is the same but for a few per cent is left. */
	if (seen < 0.98 * s->seen[rail] || seen > 1.02 * s->seen[rail]) {
		s->seen[rail] = seen;
		speed_set(s, rail);
	}
	if (*ahead < 0)
		*ahead = positive(*ahead + (int64_t)(seen * real(r->since_ns -
								 r->began_ns)));
}

/* The first end after a pause: it took no longer than since then. */
static void
see_first(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns)
{
	struct kv_rdmashare_rail *r = &s->rails[rail];
	uint64_t bytes = r->since_bytes - ANEW_BYTES;

	s->ahead[rail] = -(int64_t)bytes;
	if (s->quick >> rail & 1 ||
	    real(bytes) * SLICE_NS <
		    real(s->slice_bytes) * real(now_ns - r->began_ns))
		return;
	s->quick |= 1u << rail;
	slice_set(s, rail);
}

/* It has done enough to see how fast it is, or has a pause. */
static KV_NOINLINE void
see(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns)
{
	struct kv_rdmashare_rail *r = &s->rails[rail];

	if (r->since_ns == 0)
		see_first(s, rail, now_ns);
	if (r->under_way == 0) {
		see_anew(r);
		return;
	}
	if (now_ns == r->since_ns)
		return;
	if (r->since_ns != 0)
		see_speed(s, rail, now_ns);
	r->since_ns = now_ns;
	r->since_bytes = 0;
}

static KV_INLINE void
take_off(struct kv_rdmashare *s, unsigned rail, struct kv_rdmashare_rail *r,
	 uint64_t bytes)
{
	assert(r->under_way >= bytes);
	r->under_way -= bytes;
	full_set(s, rail, r);
	rail_open(s, rail, r);
}

void
kv_rdmashare_done(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns,
		  uint64_t bytes)
{
	struct kv_rdmashare_rail *r = &s->rails[rail];

	take_off(s, rail, r, bytes);
	r->since_bytes += bytes;
	if (r->since_bytes >= r->see_bytes || r->under_way == 0)
		see(s, rail, now_ns);
}

void
kv_rdmashare_drop(struct kv_rdmashare *s, unsigned rail, uint64_t now_ns,
		  uint64_t bytes)
{
	struct kv_rdmashare_rail *r = &s->rails[rail];

	take_off(s, rail, r, bytes);
	s->seen[rail] = 0;
	s->quick &= ~(1u << rail);
	r->began_ns = now_ns;
	see_anew(r);
	speed_set(s, rail);
}
