#include "simpair.h"

#include <assert.h>

static void
accepted(void *arg, struct kv_stream *s, const struct kv_peer *peer)
{
	struct simpair *p = arg;

	(void)peer;
	p->stream[1] = s;
}

static void
connected(void *arg, struct kv_stream *s, int status)
{
	struct simpair *p = arg;

	assert(status == 0);
	p->stream[0] = s;
}

void
simpair_open(struct simpair *p, const struct simnet_opts *opts, bool is_unix)
{
	const char *addr = is_unix ? "unix:/pair" : "tcp:b:5000";
	char bound[128];
	int err;

	*p = (struct simpair){ .clock = { .is_virtual = true } };
	p->loop = kv_loop_new(&p->clock);
	assert(p->loop);
	p->sn = simnet_new(p->loop, &p->clock, opts);
	p->net[0] = simnet_process(p->sn, "a", 1);
	p->net[1] = simnet_process(p->sn, is_unix ? "a" : "b", 2);
	p->listener = p->net[1]->listen(p->net[1], p->loop, addr, accepted, p,
					bound, &err);
	assert(p->listener);
	p->net[0]->connect(p->net[0], p->loop, addr, KV_NS_PER_S, connected, p);
	simpair_run(p, KV_NS_PER_S);
	assert(p->stream[0] && p->stream[1]);
}

void
simpair_close(struct simpair *p)
{
	p->net[1]->unlisten(p->net[1], p->listener);
	simpair_run(p, KV_NS_PER_S);
	simnet_free(p->sn);
	kv_loop_free(p->loop);
}

void
simpair_run(struct simpair *p, uint64_t ns)
{
	simnet_run(p->sn, p->clock.ns + ns);
}
