#include "svc/floor.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#define PIECE  40000
#define PIECES 7

/* Each piece is full of its number. */
static void
pieces_fill(char *p, size_t bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		memset(p + i * bytes, 'a' + (int)i, bytes);
}

static bool
piece_is(const char *p, size_t bytes, char c)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		if (p[i] != c)
			return false;
	return true;
}

static void
copies(void **state)
{
	static const uint32_t to[PIECES] = { 3, 0, 6, 1, 2, 5, 4 };
	const struct kv_floor_opts o = { .bytes = PIECE, .pieces = PIECES };
	struct kv_floor_copies in = { .into_shared = true, .to = to };
	struct kv_floor_copies out = { .into_shared = false };
	char err[256];
	struct kv_floor *f = kv_floor_new(&o, err, sizeof(err));
	unsigned i;

	(void)state;
	assert_non_null(f);
	for (in.threads = 1; in.threads < 10; in.threads += 3) {
		in.by_libc = out.by_libc = in.threads == 4;
		out.threads = in.threads;
		pieces_fill(kv_floor_private(f), PIECE, PIECES);
		assert_true(kv_floor_copy(f, &in) > 0);
		memset(kv_floor_private(f), 0, (size_t)PIECE * PIECES);
		assert_true(kv_floor_copy(f, &out) > 0);
		for (i = 0; i < PIECES; i++)
			assert_true(piece_is(kv_floor_private(f) +
						     (size_t)to[i] * PIECE,
					     PIECE, (char)('a' + i)));
	}
	kv_floor_free(f);
	kv_floor_free(NULL);
}

static void
no_memory(void **state)
{
	const struct kv_floor_opts many = { 1ull << 40, 1 << 20, false };
	const struct kv_floor_opts huge = { PIECE, PIECES, true };
	char err[256] = "";
	struct kv_floor *f;

	(void)state;
	assert_null(kv_floor_new(&many, err, sizeof(err)));
	assert_non_null(strstr(err, "no memory for 1048576 pieces"));
	/* Huge pages are there or asked for. */
	f = kv_floor_new(&huge, err, sizeof(err));
	assert_true(f || strstr(err, "hugepages"));
	kv_floor_free(f);
}

static void
writes(void **state)
{
	enum {
		N = 2500,
		BYTES = 100
	};
	char *from = malloc(N * BYTES), *into = calloc(N, BYTES);
	struct iovec local[N], remote[N];
	struct kv_floor_write w = { getpid(), local, remote, N, 2 };
	size_t i;

	(void)state;
	for (i = 0; i < N; i++) {
		memset(from + i * BYTES, (int)(i % 100) + 1, BYTES);
		local[i] = (struct iovec){ from + i * BYTES, BYTES };
		remote[i] = (struct iovec){ into + (N - 1 - i) * BYTES, BYTES };
	}
	assert_true(kv_floor_write(&w) > 0);
	for (i = 0; i < N; i++)
		assert_true(piece_is(into + i * BYTES, BYTES,
				     (char)((N - 1 - i) % 100 + 1)));
	remote[N - 1].iov_base = NULL;
	assert_true(kv_floor_write(&w) < 0);
	free(from);
	free(into);
}

static void
chains(void **state)
{
	struct kv_floor_hops hops[] = {
		kv_floor_hops_put(1, 130, 4096),
		kv_floor_hops_get(130, 4096),
		kv_floor_hops_exist(32),
		kv_floor_hops_put(1, 130, 4096),
	};
	const struct kv_floor_hops huge = { .ask = 2 << 20, .back = 1 };
	struct kv_floor_chain c;
	size_t i, j;

	(void)state;
	hops[3].is_awake = true;
	assert_true(hops[0].hop > 0 && hops[0].ask > 4096);
	assert_true(hops[1].hop == 0 && hops[1].back > 4096);
	assert_true(hops[2].is_tcp && hops[2].ask > 512);
	for (i = 0; i < 4; i++) {
		assert_int_equal(kv_floor_chain_open(&c, &hops[i]), 0);
		for (j = 0; j < 50; j++)
			assert_true(kv_floor_chain_round(&c) > 0);
		kv_floor_chain_close(&c);
		kv_floor_chain_close(&c);
	}
	assert_true(kv_floor_chain_open(&c, &huge) < 0);
	kv_floor_chain_close(&c);
}

static void
streams(void **state)
{
	struct kv_floor_stream s;

	(void)state;
	assert_int_equal(kv_floor_stream_open(&s, 3000000, -1, "127.0.0.1"), 0);
	assert_true(kv_floor_stream_give(&s, 2000000) > 0);
	/* More than the buffer has. */
	assert_true(kv_floor_stream_take(&s, 7000001) > 0);
	assert_true(kv_floor_stream_give(&s, 1) > 0);
	assert_int_equal(s.at, 9000002 % 3000000);
	kv_floor_stream_close(&s);
	kv_floor_stream_close(&s);
}

static void
loopback(void **state)
{
	(void)state;
	assert_true(kv_floor_stream_is_loopback("127.0.0.1:1"));
	assert_true(kv_floor_stream_is_loopback("127.9.9.9:50052"));
	assert_true(kv_floor_stream_is_loopback("[::1]:50052"));
	assert_true(kv_floor_stream_is_loopback("localhost:50052"));
	assert_false(kv_floor_stream_is_loopback("192.0.2.1:50052"));
	assert_false(kv_floor_stream_is_loopback("[2001:db8::1]:50052"));
	assert_false(kv_floor_stream_is_loopback("192.0.2.1"));
	assert_false(kv_floor_stream_is_loopback(""));
}

static void
key_write(void *arg, uint64_t i, char *key)
{
	snprintf(key, 30, "%s%024llu", (const char *)arg,
		 (unsigned long long)i);
}

static void
probes(void **state)
{
	enum {
		N = 3000
	};
	static char text[N][30];
	static uint8_t found[N];
	struct kv_floor_probe_opts o = {
		.held = 5000,
		.first = 100,
		.key_len = 29,
		.ask_max = N,
		.key = key_write,
		.arg = (char[]){ "key/x" },
	};
	struct kv_floor_probe p;
	struct kv_key keys[N];
	size_t i;

	(void)state;
	for (i = 0; i < N; i++) {
		/* Every third one is not there. */
		key_write(o.arg, i % 3 ? 100 + i : 5100 + i, text[i]);
		keys[i] = (struct kv_key){ text[i], 29 };
	}
	assert_int_equal(kv_floor_probe_open(&p, &o), 0);
	assert_true(kv_floor_probe_ask(&p, keys, N, found) > 0);
	for (i = 0; i < N; i++)
		assert_int_equal(found[i], i % 3 ? 1 : 0);
	assert_true(kv_floor_probe_ask(&p, keys, 1, found) > 0);
	assert_int_equal(found[0], 0);
	assert_true(kv_floor_probe_ask(&p, keys, N + 1, found) < 0);
	kv_floor_probe_close(&p);
	kv_floor_probe_close(&p);
}

struct wanted {
	uint64_t next;
	bool is_other; /* than the next one */
};

static void
key_note(void *arg, uint64_t i, char *key)
{
	struct wanted *w = arg;

	w->is_other = w->is_other || i != w->next;
	w->next = i + 1;
	snprintf(key, 30, "%029llu", (unsigned long long)i);
}

static void
publishes(void **state)
{
	struct wanted w = { .next = 77 };
	struct kv_floor_publish_opts o = {
		.keys = 100,
		.flight = 4,
		.key_len = 30,
		.bytes = 256,
		.first = 77,
		.keys_max = 60050,
		.key = key_note,
		.arg = &w,
	};
	uint64_t keys = 0;

	(void)state;
	/* No more than there is room for, in whole calls; each of them once. */
	assert_true(kv_floor_publish(&o, UINT64_MAX, &keys) > 0);
	assert_int_equal(keys, 60000);
	assert_false(w.is_other);
	assert_int_equal(w.next, 77 + 60000);

	/* Not one once the time is over. */
	assert_true(kv_floor_publish(&o, 0, &keys) >= 0);
	assert_int_equal(keys, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies),  cmocka_unit_test(no_memory),
		cmocka_unit_test(writes),  cmocka_unit_test(chains),
		cmocka_unit_test(streams), cmocka_unit_test(loopback),
		cmocka_unit_test(probes),  cmocka_unit_test(publishes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
