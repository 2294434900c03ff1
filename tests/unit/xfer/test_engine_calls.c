/* The calls of an engine: what they refuse, and those that move no bytes. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engpeer.h"
#include "kvpool.h"
#include "test.h"

enum {
	REGION = 1 << 20
};

static struct engpeer peer;
static struct kv_engine *e;
static uint8_t local[REGION];

static int
write_to(uint64_t remote, size_t len)
{
	struct kv_xfer_item item = { local, remote, len };

	return kv_engine_transfer(e, KV_ENGINE_WRITE, peer.addr, &item, 1, 0);
}

/* case-018 */
static void
registering_what_cannot_be(void **state)
{
	(void)state;
	assert_int_equal(kv_engine_register(e, NULL, 4096), -KV_EINVALID);
	assert_int_equal(kv_engine_register(e, local, 0), -KV_EINVALID);
	assert_int_equal(kv_engine_register(e, NULL, 0), -KV_EINVALID);
	assert_int_equal(kv_engine_unregister(e, NULL), -KV_EINVALID);
	assert_int_equal(kv_engine_unregister(e, local), -KV_EINVALID);
	assert_int_equal(kv_engine_register(e, local, 100), 0);
	assert_int_equal(kv_engine_register(e, local + 50, 100), -KV_EINVALID);
	assert_int_equal(kv_engine_register(e, local, 100), 0);
	assert_int_equal(kv_engine_unregister(e, local + 50), -KV_EINVALID);
	assert_int_equal(kv_engine_free(e, local), -KV_EINVALID);
	assert_int_equal(kv_engine_unregister(e, local), 0);
	assert_int_equal(kv_engine_unregister(e, local), 0);
	assert_int_equal(kv_engine_unregister(e, local), -KV_EINVALID);
	assert_null(kv_engine_alloc(e, 0));
}

static void
allocated_memory_is_zero_and_ours(void **state)
{
	uint8_t *p = kv_engine_alloc(e, REGION);

	(void)state;
	assert_non_null(p);
	for (size_t i = 0; i < REGION; i++)
		assert_int_equal(p[i], 0);
	assert_int_equal(kv_engine_unregister(e, p), -KV_EINVALID);
	assert_int_equal(kv_engine_free(e, p + 1), -KV_EINVALID);
	assert_int_equal(kv_engine_free(e, p), 0);
	assert_int_equal(kv_engine_free(e, p), -KV_EINVALID);
}

static void
transfers_of_what_cannot_be(void **state)
{
	uint64_t region = engpeer_region(&peer, REGION);
	struct kv_xfer_item bad[] = {
		{ NULL, region, 10 },
		{ local, 0, 10 },
		{ local, region, SIZE_MAX },
		{ local, UINT64_MAX - 5, 10 },
		{ (void *)(UINTPTR_MAX - 5), region, 10 },
	};
	struct kv_xfer_item empty = { NULL, 0, 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(kv_engine_transfer(e, KV_ENGINE_WRITE,
						    peer.addr, &bad[i], 1, 0),
				 -KV_EINVALID);
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_WRITE, peer.addr, NULL, 0, 0),
		0);
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_WRITE, peer.addr, &empty, 1, 0),
		0);
	assert_int_equal(kv_engine_transfer(e, (enum kv_engine_op)0, peer.addr,
					    &empty, 1, 0),
			 -KV_EINVALID);
	assert_int_equal(kv_engine_transfer(e, (enum kv_engine_op)3, peer.addr,
					    &empty, 1, 0),
			 -KV_EINVALID);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, region, 0, 0),
			 0);
}

static void
nulls(void **state)
{
	struct kv_xfer_item item = { local, 4096, 10 };
	struct kv_op *op;
	long result;

	(void)state;
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_READ, peer.addr, NULL, 1, 0),
		-KV_EINVALID);
	op = kv_engine_submit(e, KV_ENGINE_READ, NULL, &item, 1, 0);
	assert_non_null(op);
	assert_int_equal(kv_op_wait(op, 10000, &result), 0);
	assert_int_equal(result, -KV_EINVALID);
	assert_int_equal(kv_engine_path(e, peer.addr, NULL, 1), -KV_EINVALID);
	assert_int_equal(kv_engine_notes(e, NULL, 1), -KV_EINVALID);
	assert_int_equal(kv_engine_register(NULL, local, 10), -KV_EINVALID);
	assert_int_equal(kv_engine_unregister(NULL, local), -KV_EINVALID);
	assert_null(kv_engine_alloc(NULL, 10));
	assert_int_equal(kv_engine_free(NULL, local), -KV_EINVALID);
	assert_int_equal(kv_engine_transfer(NULL, KV_ENGINE_READ, peer.addr,
					    &item, 1, 0),
			 -KV_EINVALID);
	assert_null(
		kv_engine_submit(NULL, KV_ENGINE_READ, peer.addr, &item, 1, 0));
	assert_int_equal(kv_engine_probe(NULL, peer.addr), -KV_EINVALID);
	assert_int_equal(kv_engine_first_region(NULL, peer.addr), 0);
	assert_int_equal(kv_engine_notes(NULL, NULL, 0), -KV_EINVALID);
	assert_int_equal(kv_engine_port(NULL), 0);
	assert_null(kv_engine_open(&(struct kv_engine_opts){ 0 }, NULL, 99));
	kv_engine_close(NULL);
}

static void
addresses_that_are_none(void **state)
{
	static const char *const bad[] = {
		"",
		"127.0.0.1",
		"127.0.0.1:0",
		"127.0.0.1:x",
		"127.0.0.1:65536",
		"unix:/tmp/x",
		"a b:1",
	};
	struct kv_xfer_item item = { local, 4096, 10 };
	char path[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(kv_engine_transfer(e, KV_ENGINE_READ, bad[i],
						    &item, 1, 0),
				 -KV_EINVALID);
		assert_int_equal(kv_engine_probe(e, bad[i]), -KV_EINVALID);
	}
	assert_int_equal(kv_engine_probe(e, NULL), -KV_EINVALID);
	assert_int_equal(kv_engine_path(e, NULL, path, sizeof(path)),
			 -KV_EINVALID);
}

static void
nobody_there(void **state)
{
	struct kv_xfer_item item = { local, 4096, 10 };
	char path[64];

	(void)state;
	assert_int_equal(kv_engine_transfer(e, KV_ENGINE_READ, "127.0.0.1:1",
					    &item, 1, 0),
			 -KV_EUNREACHABLE);
	assert_int_equal(kv_engine_probe(e, "127.0.0.1:1"), -KV_EUNREACHABLE);
	assert_int_equal(kv_engine_probe(e, "no-such-host.invalid:1"),
			 -KV_EUNREACHABLE);
	assert_int_equal(kv_engine_path(e, "127.0.0.1:1", path, sizeof(path)),
			 -KV_EUNREACHABLE);
	assert_int_equal(kv_engine_notify(e, "127.0.0.1:1", "n", "t", 1),
			 -KV_EUNREACHABLE);
	assert_int_equal(kv_engine_first_region(e, "127.0.0.1:1"), 0);
}

static void
opening_what_cannot_be(void **state)
{
	struct kv_engine_opts opts = { .size = sizeof(opts) };
	char err[256], taken[32];

	(void)state;
	snprintf(taken, sizeof(taken), "127.0.0.1:%d", kv_engine_port(e));
	opts.listen = taken;
	assert_null(kv_engine_open(&opts, err, sizeof(err)));
	assert_non_null(strstr(err, "in use"));
	opts.listen = "nonsense";
	assert_null(kv_engine_open(&opts, err, sizeof(err)));
	assert_non_null(strstr(err, "nonsense"));
	opts.listen = "unix:/tmp/x";
	assert_null(kv_engine_open(&opts, err, sizeof(err)));
	assert_non_null(strstr(err, "HOST:PORT"));
	assert_null(kv_engine_open(&opts, NULL, 0));
	opts = (struct kv_engine_opts){ .listen = "127.0.0.1:0" };
	for (; opts.size < 2 * sizeof(opts); opts.size += sizeof(opts) - 4) {
		assert_null(kv_engine_open(&opts, err, sizeof(err)));
		assert_non_null(strstr(err, "wrong size"));
	}
	kv_engine_close(NULL);
}

static void
no_options_are_the_defaults(void **state)
{
	struct kv_engine *other = kv_engine_open(NULL, NULL, 0);
	char path[256];

	(void)state;
	assert_non_null(other);
	assert_int_not_equal(kv_engine_port(other), 0);
	assert_int_equal(kv_engine_probe(other, peer.addr), 0);
	assert_int_equal(kv_engine_path(other, peer.addr, path, sizeof(path)),
			 0);
	assert_memory_equal(path, "attach: ", 8);
	kv_engine_close(other);
}

static void
the_first_region_is_the_oldest(void **state)
{
	uint64_t a, b;

	(void)state;
	assert_int_equal(kv_engine_first_region(e, peer.addr), 0);
	a = engpeer_region(&peer, REGION);
	b = engpeer_region(&peer, REGION);
	assert_true(kv_engine_first_region(e, peer.addr) == a);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a, 0, 0), 0);
	assert_true(kv_engine_first_region(e, peer.addr) == b);
	assert_int_equal(engpeer_do(&peer, ENGPEER_REGISTER, a, REGION, 0), 0);
	assert_true(kv_engine_first_region(e, peer.addr) == b);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a, 0, 0), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, b, 0, 0), 0);
}

/* The table is asked for again when something is not in it. */
static void
regions_come_and_go(void **state)
{
	uint64_t a = engpeer_region(&peer, REGION), b;

	(void)state;
	assert_int_equal(write_to(a, REGION), 0);
	assert_int_equal(write_to(a, REGION + 1), -KV_EINVALID);
	assert_int_equal(write_to(a - 1, 2), -KV_EINVALID);
	b = engpeer_region(&peer, REGION);
	assert_int_equal(write_to(b, REGION), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a, 0, 0), 0);
	assert_int_equal(write_to(a, 1), -KV_EINVALID);
	assert_int_equal(write_to(b, 1), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_REGISTER, a, REGION, 0), 0);
	assert_int_equal(write_to(a, 1), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a, 0, 0), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, b, 0, 0), 0);
}

static void
a_piece_may_cross_regions_that_touch(void **state)
{
	uint64_t a = (uint64_t)engpeer_do(&peer, ENGPEER_MAP, 0, REGION, 0);

	(void)state;
	assert_int_equal(engpeer_do(&peer, ENGPEER_REGISTER, a, 1000, 0), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_REGISTER, a + 1000, 5, 0),
			 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_REGISTER, a + 1005, 8000, 0),
			 0);
	engpeer_fill(local, 0, 9005, 11);
	assert_int_equal(write_to(a, 9005), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_VERIFY, a, 9005, 11), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a + 1000, 0, 0),
			 0);
	assert_int_equal(write_to(a, 9005), -KV_EINVALID);
	assert_int_equal(write_to(a, 1000), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a, 0, 0), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a + 1005, 0, 0),
			 0);
}

/* Registered, but the page is not there any more. */
static void
memory_that_is_not_mapped(void **state)
{
	uint64_t a = engpeer_region(&peer, REGION);
	void *hole =
		mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kv_xfer_item item = { hole, a, 4096 };

	(void)state;
	assert_int_equal(
		kv_engine_transfer(e, KV_ENGINE_READ, peer.addr, &item, 1, 0),
		-KV_ETRANSFER);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNMAP, a + 8192, 4096, 0),
			 0);
	assert_int_equal(write_to(a, REGION), -KV_ETRANSFER);
	/* It bars nothing. */
	assert_int_equal(write_to(a, 8192), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a, 0, 0), 0);
	munmap(hole, 4096);
}

static void
notes_arrive_in_order(void **state)
{
	static const char big[1 << 20];
	char name[300] = "";
	int64_t got;

	(void)state;
	for (int i = 1; i <= 100; i++) {
		char text[16];

		snprintf(text, sizeof(text), "%d", i);
		assert_int_equal(
			kv_engine_notify(e, peer.addr, "n", text, strlen(text)),
			0);
	}
	got = engpeer_do(&peer, ENGPEER_NOTES, 0, 0, 0);
	assert_int_equal(got >> 32, 100);
	assert_int_equal(got & 0xffffffff, 100);
	memset(name, 'n', 256);
	assert_int_equal(kv_engine_notify(e, peer.addr, name, "", 0),
			 -KV_EINVALID);
	name[255] = '\0';
	assert_int_equal(kv_engine_notify(e, peer.addr, name, "", 0), 0);
	assert_int_equal(kv_engine_notify(e, peer.addr, NULL, "", 0),
			 -KV_EINVALID);
	assert_int_equal(kv_engine_notify(e, peer.addr, "n", NULL, 1),
			 -KV_EINVALID);
	assert_int_equal(kv_engine_notify(e, peer.addr, "n", big, sizeof(big)),
			 -KV_ETOOBIG);
	assert_int_equal(kv_engine_notify(e, peer.addr, "n", big, 1000000), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_NOTES, 0, 0, 0) >> 32, 2);
}

static void
notes_are_bounded(void **state)
{
	int rc, n = 0;

	(void)state;
	while ((rc = kv_engine_notify(e, peer.addr, "n", "7", 1)) == 0)
		n++;
	assert_int_equal(rc, -KV_EBUSY);
	assert_int_equal(n, 4096);
	assert_int_equal(engpeer_do(&peer, ENGPEER_NOTES, 0, 0, 0) >> 32, 4096);
	assert_int_equal(kv_engine_notify(e, peer.addr, "n", "8", 1), 0);
	assert_int_equal(engpeer_do(&peer, ENGPEER_NOTES, 0, 0, 0) & 0xff, 8);
}

/* Whatever strangers say to the port. */
static void
garbage_at_the_port(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	unsigned seed = 3;

	(void)state;
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons(kv_engine_port(e));
	for (int i = 0; i < 50; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		uint8_t bytes[5000];

		for (size_t j = 0; j < sizeof(bytes); j++)
			bytes[j] = (uint8_t)rand_r(&seed);
		if (i % 2)
			memcpy(bytes, "KVP1\001", 5);
		assert_int_equal(connect(fd, (void *)&a, sizeof(a)), 0);
		(void)send(fd, bytes, (size_t)(i * 100), MSG_NOSIGNAL);
		close(fd);
	}
	engpeer_do(&peer, ENGPEER_MEET, kv_engine_port(e), 0, 0);
	assert_int_equal(kv_engine_register(e, local, REGION), 0);
	assert_int_equal(
		engpeer_do(&peer, ENGPEER_WRITE, (uintptr_t)local, REGION, 5),
		0);
	assert_int_equal(engpeer_verify(local, 0, REGION, 5), 0);
	assert_int_equal(kv_engine_unregister(e, local), 0);
}

static void
calls_in_the_background(void **state)
{
	enum {
		OPS = 200,
		EACH = 4096
	};
	uint64_t a = engpeer_region(&peer, OPS * EACH);
	struct kv_xfer_item items[OPS];
	struct kv_op *ops[OPS];
	uint8_t *from = malloc(OPS * EACH);
	long result;

	(void)state;
	engpeer_fill(from, 0, OPS * EACH, 21);
	for (size_t i = 0; i < OPS; i++) {
		items[i] = (struct kv_xfer_item){ from + i * EACH, a + i * EACH,
						  EACH };
		ops[i] = kv_engine_submit(e, KV_ENGINE_WRITE, peer.addr,
					  &items[i], 1, 0);
		assert_non_null(ops[i]);
	}
	for (size_t i = 0; i < OPS; i++) {
		assert_int_equal(kv_op_wait(ops[i], 30000, &result), 0);
		assert_int_equal(result, 0);
	}
	assert_int_equal(engpeer_do(&peer, ENGPEER_VERIFY, a, OPS * EACH, 21),
			 0);
	ops[0] = kv_engine_submit(e, KV_ENGINE_WRITE, "nowhere", items, 1, 0);
	assert_int_equal(kv_op_wait(ops[0], 30000, &result), 0);
	assert_int_equal(result, -KV_EINVALID);
	assert_int_equal(engpeer_do(&peer, ENGPEER_UNREGISTER, a, 0, 0), 0);
	free(from);
}

static void
a_child_has_no_engine(void **state)
{
	struct kv_xfer_item item = { local, 4096, 10 };
	struct kv_note_in in;
	char path[64];
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		bool ok = kv_engine_register(e, local, 10) == -KV_ECLOSED &&
			  kv_engine_unregister(e, local) == -KV_ECLOSED &&
			  !kv_engine_alloc(e, 10) &&
			  kv_engine_free(e, local) == -KV_ECLOSED &&
			  kv_engine_transfer(e, KV_ENGINE_READ, peer.addr,
					     &item, 1, 0) == -KV_ECLOSED &&
			  !kv_engine_submit(e, KV_ENGINE_READ, peer.addr, &item,
					    1, 0) &&
			  kv_engine_probe(e, peer.addr) == -KV_ECLOSED &&
			  kv_engine_path(e, peer.addr, path, sizeof(path)) ==
				  -KV_ECLOSED &&
			  kv_engine_notify(e, peer.addr, "n", "", 0) ==
				  -KV_ECLOSED &&
			  kv_engine_notes(e, &in, 1) == -KV_ECLOSED &&
			  !kv_engine_first_region(e, peer.addr);

		kv_engine_close(e);
		_exit(ok ? 0 : 1);
	}
	engpeer_expect_exit(pid, 0);
	assert_int_equal(kv_engine_probe(e, peer.addr), 0);
}

static int
start(void **state)
{
	(void)state;
	if (!engpeer_start(&peer, NULL))
		return -1;
	e = engpeer_open(NULL);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	kv_engine_close(e);
	engpeer_stop(&peer);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_region_is_the_oldest),
		cmocka_unit_test(registering_what_cannot_be),
		cmocka_unit_test(allocated_memory_is_zero_and_ours),
		cmocka_unit_test(transfers_of_what_cannot_be),
		cmocka_unit_test(nulls),
		cmocka_unit_test(addresses_that_are_none),
		cmocka_unit_test(nobody_there),
		cmocka_unit_test(opening_what_cannot_be),
		cmocka_unit_test(no_options_are_the_defaults),
		cmocka_unit_test(regions_come_and_go),
		cmocka_unit_test(a_piece_may_cross_regions_that_touch),
		cmocka_unit_test(memory_that_is_not_mapped),
		cmocka_unit_test(notes_arrive_in_order),
		cmocka_unit_test(notes_are_bounded),
		cmocka_unit_test(garbage_at_the_port),
		cmocka_unit_test(calls_in_the_background),
		cmocka_unit_test(a_child_has_no_engine),
	};

	engpeer_init();
	return cmocka_run_group_tests(tests, start, end);
}
