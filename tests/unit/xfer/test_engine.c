/* Bytes between two processes on each path, every one compared. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engpeer.h"
#include "kvpool.h"
#include "test.h"

enum {
	REGION = 8 << 20,
	PIECES = 3000,
	PIECE = 1999, /* nothing is aligned */
};

static struct engpeer peer;

static void
expect_path(struct kv_engine *e, const char *addr, const char *want)
{
	char path[256] = "";

	assert_int_equal(kv_engine_path(e, addr, path, sizeof(path)), 0);
	if (strncmp(path, want, strlen(want)))
		fail_msg("path is \"%s\", not %s", path, want);
}

/* Pieces in an order of their own there, and back again. */
static void
scatter(struct kv_engine *e, const struct engpeer *p, uint64_t region)
{
	size_t len = (size_t)PIECES * PIECE;
	uint8_t *local = malloc(len), *back = malloc(len);
	struct kv_xfer_item *items = calloc(PIECES, sizeof(*items));

	engpeer_fill(local, 0, len, 7);
	for (size_t i = 0; i < PIECES; i++) {
		size_t j = i * 1009 % PIECES;

		items[i].local = local + j * PIECE;
		items[i].remote = region + j * PIECE;
		items[i].len = PIECE;
	}
	assert_int_equal(engpeer_do(p, ENGPEER_FILL, region, REGION, 1), 0);
	assert_int_equal(kv_engine_transfer(e, KV_ENGINE_WRITE, p->addr, items,
					    PIECES, 0),
			 0);
	assert_int_equal(engpeer_do(p, ENGPEER_VERIFY, region, len, 7), 0);
	memset(back, 0, len);
	for (size_t i = 0; i < PIECES; i++)
		items[i].local = back + ((uint8_t *)items[i].local - local);
	assert_int_equal(kv_engine_transfer(e, KV_ENGINE_READ, p->addr, items,
					    PIECES, 0),
			 0);
	assert_int_equal(engpeer_verify(back, 0, len, 7), 0);
	free(items);
	free(back);
	free(local);
}

static void
test_attach(void **state)
{
	struct kv_engine *e = engpeer_open(NULL);
	uint64_t region = engpeer_region(&peer, REGION);

	(void)state;
	expect_path(e, peer.addr, "attach: ");
	scatter(e, &peer, region);
	kv_engine_close(e);
}

static void
test_tcp(void **state)
{
	struct kv_engine_opts opts = { .no_attach = 1 };
	struct kv_engine *e = engpeer_open(&opts);
	uint64_t region = engpeer_region(&peer, REGION);

	(void)state;
	expect_path(e, peer.addr, "tcp: cross-memory attach is switched off");
	scatter(e, &peer, region);
	kv_engine_close(e);
}

static void
test_shm(void **state)
{
	struct kv_engine_opts opts = { .no_attach = 1 };
	struct kv_engine *e = engpeer_open(&opts);
	uint64_t region =
		(uint64_t)engpeer_do(&peer, ENGPEER_ALLOC, 0, REGION, 0);

	(void)state;
	assert_int_not_equal(region, 0);
	expect_path(e, peer.addr, "shm: ");
	scatter(e, &peer, region);
	assert_int_equal(engpeer_do(&peer, ENGPEER_FREE, region, 0, 0), 0);
	kv_engine_close(e);
}

static void
test_self(void **state)
{
	struct kv_engine *e = engpeer_open(NULL);
	uint8_t *region = malloc(REGION), *local = malloc(REGION);
	struct kv_xfer_item item = {
		.local = local,
		.remote = (uintptr_t)region,
		.len = REGION,
	};
	char addr[32];

	(void)state;
	snprintf(addr, sizeof(addr), "127.0.0.1:%d", kv_engine_port(e));
	assert_int_equal(kv_engine_register(e, region, REGION), 0);
	expect_path(e, addr, "self: ");
	engpeer_fill(local, 0, REGION, 3);
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_WRITE, addr, &item, 1, 0), 0);
	assert_int_equal(engpeer_verify(region, 0, REGION, 3), 0);
	assert_int_equal(kv_engine_unregister(e, region), 0);
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_WRITE, addr, &item, 1, 0),
		-KV_EINVALID);
	kv_engine_close(e);
	free(local);
	free(region);
}

/* Pieces of mapped and of other memory take turns within one call. */
static void
paths_mix(bool no_attach, unsigned threads)
{
	struct kv_engine_opts opts = {
		.no_attach = no_attach,
		.copy_threads = threads,
	};
	struct kv_engine *e = engpeer_open(&opts);
	uint64_t plain = engpeer_region(&peer, REGION);
	uint64_t own = (uint64_t)engpeer_do(&peer, ENGPEER_ALLOC, 0, REGION, 0);
	size_t each = REGION / 500;
	uint8_t *local = malloc(2 * REGION);
	struct kv_xfer_item items[1000];

	assert_int_not_equal(own, 0);
	engpeer_fill(local, 0, REGION, 31);
	engpeer_fill(local + REGION, 0, REGION, 32);
	for (size_t i = 0; i < 500; i++) {
		items[2 * i] = (struct kv_xfer_item){
			.local = local + i * each,
			.remote = plain + i * each,
			.len = each,
		};
		items[2 * i + 1] = (struct kv_xfer_item){
			.local = local + REGION + i * each,
			.remote = own + i * each,
			.len = each,
		};
	}
	assert_int_equal(kv_engine_transfer(e, KV_ENGINE_WRITE, peer.addr,
					    items, 1000, 0),
			 0);
	assert_int_equal(
		engpeer_do(&peer, ENGPEER_VERIFY, plain, 500 * each, 31), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_VERIFY, own, 500 * each, 32),
			 0);
	memset(local, 0, 2 * REGION);
	assert_int_equal(kv_engine_transfer(e, KV_ENGINE_READ, peer.addr, items,
					    1000, 0),
			 0);
	assert_int_equal(engpeer_verify(local, 0, 500 * each, 31), 0);
	assert_int_equal(engpeer_verify(local + REGION, 0, 500 * each, 32), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, plain, 0, 0), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_FREE, own, 0, 0), 0);
	free(local);
	kv_engine_close(e);
}

static void
test_paths_mix(void **state)
{
	(void)state;
	paths_mix(false, 0);
	paths_mix(true, 0);
	paths_mix(false, 3);
	paths_mix(true, 5);
}

/* case-020, with small pieces: there is no number that is too large. */
static void
many_pieces(struct kv_engine *e)
{
	enum {
		N = 65536,
		EACH = 300
	};
	size_t len = (size_t)N * EACH;
	uint64_t region = engpeer_region(&peer, len);
	uint8_t *local = malloc(len);
	struct kv_xfer_item *items = calloc(N, sizeof(*items));

	engpeer_fill(local, 0, len, 41);
	for (size_t i = 0; i < N; i++) {
		size_t j = i * 40503 % N;

		items[i] = (struct kv_xfer_item){
			.local = local + j * EACH,
			.remote = region + j * EACH,
			.len = EACH,
		};
	}
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_WRITE, peer.addr, items, N, 0),
		0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_VERIFY, region, len, 41), 0);
	memset(local, 0, len);
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_READ, peer.addr, items, N, 0),
		0);
	assert_int_equal(engpeer_verify(local, 0, len, 41), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, region, 0, 0),
			 0);
	free(items);
	free(local);
}

static void
test_many_pieces(void **state)
{
	const struct kv_engine_opts by_tcp = { .no_attach = 1 };
	struct kv_engine *a = engpeer_open(NULL), *b = engpeer_open(&by_tcp);

	(void)state;
	many_pieces(a);
	many_pieces(b);
	kv_engine_close(a);
	kv_engine_close(b);
}

/* ---- many threads ---- */

enum {
	THREADS = 4,
	SHARE = REGION / THREADS,
};

struct worker {
	pthread_t thread;
	struct kv_engine *e;
	uint64_t remote;
	uint64_t seed;
	int rc;
	uint64_t wrong;
};

/* Writes and reads its own part again and again, in calls of many sizes. */
static void *
work(void *arg)
{
	struct worker *w = arg;
	uint8_t *out = malloc(SHARE), *in = malloc(SHARE);

	for (unsigned round = 0; round < 20 && w->rc == 0; round++) {
		size_t len = SHARE >> round % 8;
		struct kv_xfer_item item = { out, w->remote, len };

		engpeer_fill(out, 0, len, w->seed + round);
		w->rc = kv_engine_transfer(w->e, KV_ENGINE_WRITE, peer.addr,
					   &item, 1, 0);
		item.local = in;
		if (w->rc == 0)
			w->rc = kv_engine_transfer(w->e, KV_ENGINE_READ,
						   peer.addr, &item, 1, 0);
		w->wrong += engpeer_verify(in, 0, len, w->seed + round);
	}
	free(out);
	free(in);
	return NULL;
}

static void
test_many_threads(void **state)
{
	(void)state;
	for (int no_attach = 0; no_attach < 2; no_attach++) {
		const struct kv_engine_opts opts = { .no_attach = no_attach };
		struct kv_engine *e = engpeer_open(&opts);
		uint64_t region = engpeer_region(&peer, REGION);
		struct worker workers[THREADS] = { 0 };

		/* The first call of each meets the peer at the same time. */
		for (unsigned i = 0; i < THREADS; i++) {
			struct worker *w = &workers[i];

			w->e = e;
			w->remote = region + i * SHARE;
			w->seed = 100 * i;
			assert_int_equal(
				pthread_create(&w->thread, NULL, work, w), 0);
		}
		for (unsigned i = 0; i < THREADS; i++) {
			pthread_join(workers[i].thread, NULL);
			assert_int_equal(workers[i].rc, 0);
			assert_int_equal(workers[i].wrong, 0);
		}
		assert_int_equal(
			engpeer_do(&peer, ENGPEER_UNREGISTER, region, 0, 0), 0);
		kv_engine_close(e);
	}
}

static int
start_peers(void **state)
{
	(void)state;
	return engpeer_start(&peer, NULL) ? 0 : -1;
}

static int
stop_peers(void **state)
{
	(void)state;
	engpeer_stop(&peer);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attach),
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_shm),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_paths_mix),
		cmocka_unit_test(test_many_pieces),
		cmocka_unit_test(test_many_threads),
	};

	engpeer_init();
	return cmocka_run_group_tests(tests, start_peers, stop_peers);
}
