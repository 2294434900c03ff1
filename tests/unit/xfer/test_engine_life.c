/* Peers that stop, end, come back; engines that are closed. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engpeer.h"
#include "kvpool.h"
#include "test.h"

enum {
	REGION = 16 << 20,
	SMALL = 1 << 16,
};

/* Paths: which engine this process takes, where the memory comes from. */
struct way {
	const char *name;
	int no_attach;
	bool shared;
};

static const struct way ways[] = {
	{ "attach", 0, false },
	{ "shm", 1, true },
	{ "tcp", 1, false },
};
enum {
	WAYS = sizeof(ways) / sizeof(ways[0])
};

static uint8_t *local;

static uint64_t
now_ms(void)
{
	const struct kv_clock clock = { 0 };

	return kv_clock_now(&clock) / KV_NS_PER_MS;
}

static uint64_t
memory_of(const struct engpeer *p, const struct way *w, uint64_t len)
{
	uint64_t addr;

	if (!w->shared)
		return engpeer_region(p, len);
	addr = (uint64_t)engpeer_do(p, ENGPEER_ALLOC, 0, len, 0);
	assert_int_not_equal(addr, 0);
	return addr;
}

static struct kv_engine *
open_for(const struct way *w, uint32_t timeout_ms)
{
	struct kv_engine_opts opts = {
		.no_attach = w->no_attach,
		.timeout_ms = timeout_ms,
	};

	return engpeer_open(&opts);
}

static int
move(struct kv_engine *e, enum kv_engine_op op, const struct engpeer *p,
     uint64_t remote, size_t len)
{
	struct kv_xfer_item item = { local, remote, len };

	return kv_engine_transfer(e, op, p->addr, &item, 1, 0);
}

/* ---- the peer ends ---- */

struct runner {
	pthread_t thread;
	struct kv_engine *e;
	const struct engpeer *p;
	uint64_t remote;
	size_t len;
	atomic_int rounds;
	atomic_int rc;
};

static void *
run(void *arg)
{
	struct runner *r = arg;
	int rc;

	do {
		rc = move(r->e, KV_ENGINE_WRITE, r->p, r->remote, r->len);
		atomic_fetch_add(&r->rounds, 1);
	} while (rc == 0);
	atomic_store(&r->rc, rc);
	return NULL;
}

static void
start_runner(struct runner *r)
{
	assert_int_equal(pthread_create(&r->thread, NULL, run, r), 0);
	while (atomic_load(&r->rounds) < 3 && !atomic_load(&r->rc))
		usleep(1000);
	assert_int_equal(r->rc, 0);
}

static void
killed_in_the_middle(const struct way *w)
{
	struct engpeer p;
	struct runner r = { .p = &p, .len = REGION };
	uint64_t start;
	char path[256];

	assert_true(engpeer_start(&p, NULL));
	r.e = open_for(w, 5000);
	r.remote = memory_of(&p, w, REGION);
	assert_int_equal(kv_engine_path(r.e, p.addr, path, sizeof(path)), 0);
	assert_memory_equal(path, w->name, strlen(w->name));
	start_runner(&r);
	start = now_ms();
	engpeer_kill(&p);
	pthread_join(r.thread, NULL);
	assert_true(now_ms() - start < 2000 * KV_TEST_SLOWER);
	assert_true(r.rc == -KV_EUNREACHABLE || r.rc == -KV_ECONNLOST);
	assert_int_equal(move(r.e, KV_ENGINE_WRITE, &p, r.remote, 10),
			 -KV_EUNREACHABLE);
	kv_engine_close(r.e);
}

static void
a_peer_is_killed_in_the_middle(void **state)
{
	(void)state;
	for (int i = 0; i < WAYS; i++)
		killed_in_the_middle(&ways[i]);
}

/* Another process at the same address is met at once, with its own regions. */
static void
a_peer_comes_back(void **state)
{
	(void)state;
	for (int i = 0; i < WAYS; i++) {
		struct kv_engine *e;
		struct engpeer p;
		uint64_t remote;

		assert_true(engpeer_start(&p, NULL));
		e = open_for(&ways[i], 10000);
		remote = memory_of(&p, &ways[i], SMALL);
		assert_int_equal(move(e, KV_ENGINE_WRITE, &p, remote, SMALL),
				 0);
		engpeer_kill(&p);
		assert_true(engpeer_restart(&p, NULL));
		/* It has no region yet. */
		assert_int_equal(move(e, KV_ENGINE_WRITE, &p, remote, SMALL),
				 -KV_EINVALID);
		remote = memory_of(&p, &ways[i], SMALL);
		engpeer_fill(local, 0, SMALL, 5);
		assert_int_equal(move(e, KV_ENGINE_WRITE, &p, remote, SMALL),
				 0);
		assert_int_equal(
			engpeer_do(&p, ENGPEER_VERIFY, remote, SMALL, 5), 0);
		engpeer_kill(&p);
		assert_true(engpeer_restart(&p, NULL));
		assert_int_equal(kv_engine_probe(e, p.addr), 0);
		assert_int_equal(kv_engine_first_region(e, p.addr), 0);
		engpeer_kill(&p);
		assert_true(engpeer_restart(&p, NULL));
		assert_int_equal(kv_engine_notify(e, p.addr, "n", "1", 1), 0);
		assert_int_equal(engpeer_do(&p, ENGPEER_NOTES, 0, 0, 0) >> 32,
				 1);
		kv_engine_close(e);
		engpeer_stop(&p);
	}
}

/* ---- the peer stops ---- */

static void
a_stopped_peer_is_reached_on_its_host(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct kv_engine *e;
		struct engpeer p;
		uint64_t remote;

		assert_true(engpeer_start(&p, NULL));
		e = open_for(&ways[i], 500);
		remote = memory_of(&p, &ways[i], REGION);
		assert_int_equal(move(e, KV_ENGINE_READ, &p, remote, 1), 0);
		kill(p.pid, SIGSTOP);
		engpeer_fill(local, 0, REGION, 6);
		assert_int_equal(move(e, KV_ENGINE_WRITE, &p, remote, REGION),
				 0);
		assert_int_equal(kv_engine_probe(e, p.addr), -KV_ETIMEOUT);
		assert_int_equal(move(e, KV_ENGINE_WRITE, &p, remote, REGION),
				 0);
		kill(p.pid, SIGCONT);
		assert_int_equal(
			engpeer_do(&p, ENGPEER_VERIFY, remote, REGION, 6), 0);
		assert_int_equal(kv_engine_probe(e, p.addr), 0);
		kv_engine_close(e);
		engpeer_stop(&p);
	}
}

/*
 * The deadline comes in the middle of a write over TCP. The buffer is used
 * again at once; what arrives later is only what had left before.
 */
static void
expect_timeout(struct kv_engine *e, enum kv_engine_op op,
	       const struct engpeer *p, uint64_t remote)
{
	struct kv_xfer_item item = { local, remote, REGION };
	uint64_t start = now_ms();

	assert_int_equal(kv_engine_transfer(e, op, p->addr, &item, 1, 300),
			 -KV_ETIMEOUT);
	assert_true(now_ms() - start < 300 + 1000 * KV_TEST_SLOWER);
}

static void
a_stopped_peer_costs_the_deadline_over_tcp(void **state)
{
	struct engpeer p;
	struct kv_engine *e;
	uint64_t remote;

	(void)state;
	assert_true(engpeer_start(&p, NULL));
	e = open_for(&ways[2], 20000);
	remote = memory_of(&p, &ways[2], REGION);
	memset(local, 'a', REGION);
	assert_int_equal(move(e, KV_ENGINE_WRITE, &p, remote, REGION), 0);
	memset(local, 'b', REGION);
	kill(p.pid, SIGSTOP);
	expect_timeout(e, KV_ENGINE_WRITE, &p, remote);
	memset(local, 'c', REGION);
	expect_timeout(e, KV_ENGINE_READ, &p, remote);
	kill(p.pid, SIGCONT);
	usleep(100000);
	for (size_t i = 0; i < REGION; i++)
		assert_int_equal(local[i], 'c');
	assert_int_equal(move(e, KV_ENGINE_READ, &p, remote, REGION), 0);
	for (size_t i = 0; i < REGION; i++)
		assert_true(local[i] == 'a' || local[i] == 'b');
	kv_engine_close(e);
	engpeer_stop(&p);
}

/* ---- the end of an engine ---- */

static void
closing_ends_calls(void **state)
{
	(void)state;
	for (int i = 0; i < WAYS; i++) {
		struct engpeer p;
		struct runner r = { .p = &p, .len = REGION };

		assert_true(engpeer_start(&p, NULL));
		r.e = open_for(&ways[i], 20000);
		r.remote = memory_of(&p, &ways[i], REGION);
		start_runner(&r);
		kv_engine_close(r.e);
		pthread_join(r.thread, NULL);
		assert_int_equal(r.rc, -KV_ECLOSED);
		engpeer_stop(&p);
	}
}

static void
closing_ends_a_call_that_waits(void **state)
{
	struct engpeer p;
	struct runner r = { .p = &p, .len = REGION };
	uint64_t start;

	(void)state;
	assert_true(engpeer_start(&p, NULL));
	r.e = open_for(&ways[2], 60000);
	r.remote = memory_of(&p, &ways[2], REGION);
	start_runner(&r);
	kill(p.pid, SIGSTOP);
	usleep(50000);
	start = now_ms();
	kv_engine_close(r.e);
	pthread_join(r.thread, NULL);
	assert_true(now_ms() - start < 2000 * KV_TEST_SLOWER);
	assert_int_equal(r.rc, -KV_ECLOSED);
	engpeer_kill(&p);
}

static void
two_engines_in_one_process(void **state)
{
	struct kv_engine *a = engpeer_open(NULL), *b = engpeer_open(NULL);
	struct engpeer to_b;
	char path[256];
	uint8_t *region = malloc(SMALL);

	(void)state;
	snprintf(to_b.addr, sizeof(to_b.addr), "127.0.0.1:%d",
		 kv_engine_port(b));
	assert_int_equal(kv_engine_register(b, region, SMALL), 0);
	assert_int_equal(kv_engine_path(a, to_b.addr, path, sizeof(path)), 0);
	assert_memory_equal(path, "attach: ", 8);
	engpeer_fill(local, 0, SMALL, 9);
	assert_int_equal(
		move(a, KV_ENGINE_WRITE, &to_b, (uintptr_t)region, SMALL), 0);
	assert_int_equal(engpeer_verify(region, 0, SMALL, 9), 0);
	/* The process lives, the engine does not. */
	kv_engine_close(b);
	assert_int_equal(
		move(a, KV_ENGINE_WRITE, &to_b, (uintptr_t)region, SMALL),
		-KV_EUNREACHABLE);
	kv_engine_close(a);
	free(region);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_is_killed_in_the_middle),
		cmocka_unit_test(a_peer_comes_back),
		cmocka_unit_test(a_stopped_peer_is_reached_on_its_host),
		cmocka_unit_test(a_stopped_peer_costs_the_deadline_over_tcp),
		cmocka_unit_test(closing_ends_calls),
		cmocka_unit_test(closing_ends_a_call_that_waits),
		cmocka_unit_test(two_engines_in_one_process),
	};

	engpeer_init();
	local = malloc(REGION);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
