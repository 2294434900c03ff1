/* Bytes between two processes on each path, every one compared. */
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

/* Scattered pieces of `local` to every second place of the region, then the
 * other way round. */
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
	};

	engpeer_init();
	return cmocka_run_group_tests(tests, start_peers, stop_peers);
}
