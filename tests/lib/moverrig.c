#include "moverrig.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/rng.h"
#include "net/fdstream.h"

#include "test.h"

struct kv_loop *mover_loop;
struct kv_mover *mover;
uint8_t *mover_pool;
static int order;
const struct kv_id mover_boot = { { 7 } };

static void
dataconn_closed(void *owner, struct kv_dataconn *dc)
{
	struct moverpeer *c = owner;

	assert_ptr_equal(c->dc, dc);
	c->closed++;
	c->closed_at = ++order;
	c->dc = NULL;
}

static void
value_done(struct kv_move *m)
{
	struct moved *v = KV_CONTAINER_OF(m, struct moved, move);

	v->done++;
	v->done_at = ++order;
}

static void
setup(unsigned workers)
{
	struct kv_mover_opts opts = {
		.workers = workers,
		.closed = dataconn_closed,
	};
	struct kv_rng rng;

	order = 0;
	mover_pool = malloc(MOVERRIG_POOL);
	assert_non_null(mover_pool);
	kv_rng_seed(&rng, 1);
	kv_rng_bytes(&rng, mover_pool, MOVERRIG_POOL);
	mover_loop = kv_loop_new(NULL);
	assert_non_null(mover_loop);
	opts.loop = mover_loop;
	opts.pool = mover_pool;
	mover = kv_mover_new(&opts);
	assert_non_null(mover);
}

int
moverrig_home(void **state)
{
	(void)state;
	setup(0);
	return 0;
}

int
moverrig_threads(void **state)
{
	(void)state;
	setup(2);
	return 0;
}

int
moverrig_close(void **state)
{
	(void)state;
	kv_mover_free(mover);
	kv_loop_free(mover_loop);
	free(mover_pool);
	return 0;
}

void
moverrig_turn(const char *what)
{
	static uint64_t end;
	uint64_t now = kv_loop_refresh(mover_loop);

	if (!what) {
		end = now + 10 * KV_NS_PER_S;
		return;
	}
	if (now > end)
		fail_msg("waited in vain for %s", what);
	assert_true(kv_loop_turn(mover_loop, now + KV_NS_PER_MS) >= 0);
}

void
moverrig_rest(unsigned ms)
{
	uint64_t end = kv_loop_refresh(mover_loop) + ms * KV_NS_PER_MS;

	moverrig_turn(NULL);
	while (kv_loop_refresh(mover_loop) < end)
		moverrig_turn("time");
}

void
moverpeer_open(struct moverpeer *c, uint64_t token)
{
	int fds[2], type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	const struct kv_hello_r *r;
	struct kv_stream *s, *t;
	struct wireframe *f;

	memset(c, 0, sizeof(*c));
	assert_int_equal(socketpair(AF_UNIX, type, 0, fds), 0);
	s = kv_fdstream_new(mover_loop, fds[0]);
	t = kv_fdstream_new(mover_loop, fds[1]);
	assert_non_null(s);
	assert_non_null(t);
	wirepeer_open(&c->peer, mover_loop, s);
	c->dc = kv_mover_adopt(mover, t,
			       &(struct kv_mover_hello){ .id = 77,
							 .boot = &mover_boot,
							 .token = token },
			       c);
	assert_non_null(c->dc);
	assert_int_equal(kv_mover_token(c->dc), token);
	MOVER_WAIT(wirepeer_count(&c->peer, KV_MSG_HELLO_R));
	f = wirepeer_take(&c->peer, KV_MSG_HELLO_R);
	r = (void *)f->body;
	assert_int_equal(f->id, 77);
	assert_int_equal(r->status, 0);
	assert_int_equal(kv_get64(r->token), token);
	assert_true(kv_id_is_equal(r->boot, mover_boot));
	wireframe_free(f);
}

void
moverpeer_close(struct moverpeer *c)
{
	wirepeer_close(&c->peer);
	if (c->dc)
		MOVER_WAIT(c->closed);
}

void
moved_init(struct moved *v, uint64_t at, uint64_t a, uint64_t b, uint64_t c)
{
	memset(v, 0, sizeof(*v));
	v->ext[0] = (struct kv_extent){ at + 512 * 1024, a };
	v->ext[1] = (struct kv_extent){ at, b };
	v->ext[2] = (struct kv_extent){ at + 256 * 1024, c };
	v->move.ext = v->ext;
	v->move.n_ext = c ? 3 : b ? 2 : 1;
	v->move.bytes = a + b + c;
	v->move.done = value_done;
}

void
moved_gather(const struct moved *v, uint8_t *out)
{
	for (unsigned i = 0; i < v->move.n_ext; i++) {
		memcpy(out, mover_pool + v->ext[i].off, v->ext[i].len);
		out += v->ext[i].len;
	}
}

uint8_t *
moverrig_bytes(size_t n)
{
	static uint64_t seed;
	uint8_t *p = malloc(n);
	struct kv_rng rng;

	assert_non_null(p);
	kv_rng_seed(&rng, ++seed);
	kv_rng_bytes(&rng, p, n);
	return p;
}

void
moved_expect(struct moverpeer *c, struct moved *v, uint64_t grant)
{
	v->move.ref = grant;
	assert_int_equal(kv_mover_expect(c->dc, &v->move), 0);
}
