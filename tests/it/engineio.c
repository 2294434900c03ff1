/*
 * An engine to be asked by scripts.
 *
 *	engineio serve LISTEN BYTES	registers BYTES, prints "PORT ADDRESS",
 *					ends with its input
 *	engineio path PEER		how bytes would go there
 *	engineio batch PEER THREADS PIECES...
 *					for each number of pieces of 32 KiB:
 *					writes them, reads them back, compares;
 *					the numbers are shared out to threads
 *	engineio flood PEER BYTES MS	transfers with this deadline each, until
 *					one fails: why, and how long it took
 *	engineio pace PEER BYTES MS	for so long writes them, reads them back
 *					and compares: the longest call of each
 *
 * With ENGINEIO_PROTOCOL in the environment it uses that protocol, as if all
 * processes were on hosts of their own.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "engpeer.h"
#include "kvpool.h"

enum {
	PIECE = 32768,
	WINDOW = 1024, /* pieces of memory that a thread has, here and there */
	THREADS_MAX = 16,
};

static struct kv_engine *e;

static void
die(const char *what, int rc)
{
	fprintf(stderr, "engineio: %s: %s\n", what, kv_status_text(rc));
	exit(1);
}

static uint8_t *
memory_new(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("memory", KV_ENOMEM);
	return p;
}

static void
open_engine(const char *listen)
{
	struct kv_engine_opts opts = {
		.size = sizeof(opts),
		.listen = listen,
		.protocol = getenv("ENGINEIO_PROTOCOL"),
	};
	char err[256];

	opts.no_attach = opts.protocol != NULL;

	e = kv_engine_open(&opts, err, sizeof(err));
	if (e)
		return;
	fprintf(stderr, "engineio: %s\n", err);
	exit(1);
}

static int
serve(const char *listen, size_t bytes)
{
	uint8_t *p = memory_new(bytes);
	char c;
	int rc;

	open_engine(listen);
	rc = kv_engine_register(e, p, bytes);
	if (rc)
		die("register", rc);
	printf("%d %llu\n", kv_engine_port(e),
	       (unsigned long long)(uintptr_t)p);
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	kv_engine_close(e);
	return 0;
}

static int
path(const char *peer)
{
	char text[256];
	int rc;

	open_engine("127.0.0.1:0");
	rc = kv_engine_path(e, peer, text, sizeof(text));
	if (rc)
		die("path", rc);
	puts(text);
	kv_engine_close(e);
	return 0;
}

/* ---- batches ---- */

static struct {
	const char *peer;
	uint64_t base;
	char **counts;
	int n;
	atomic_int next;
} work;

/* Piece i lies at a place of its own in the window, or shares it with others
 * that have the same bytes. */
static void
lay_out(struct kv_xfer_item *items, size_t n, uint8_t *local, uint64_t remote,
	size_t step)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = i * step % WINDOW;

		items[i] = (struct kv_xfer_item){
			.local = local + at * PIECE,
			.remote = remote + at * PIECE,
			.len = PIECE,
		};
	}
}

static void
run_batch(size_t n, uint8_t *local, uint64_t remote, size_t step)
{
	struct kv_xfer_item *items = calloc(n, sizeof(*items));
	uint64_t wrong = 0;
	int rc;

	lay_out(items, n, local, remote, step);
	engpeer_fill(local, 0, (size_t)WINDOW * PIECE, n * 3 + step);
	rc = kv_engine_transfer(e, KV_ENGINE_WRITE, work.peer, items, n, 0);
	if (rc)
		die("write", rc);
	memset(local, 0, (size_t)WINDOW * PIECE);
	rc = kv_engine_transfer(e, KV_ENGINE_READ, work.peer, items, n, 0);
	if (rc)
		die("read", rc);
	for (size_t i = 0; i < n && i < WINDOW; i++)
		wrong +=
			engpeer_verify(items[i].local, items[i].remote - remote,
				       PIECE, n * 3 + step);
	printf("%zu pieces, step %zu: %llu wrong bytes\n", n, step,
	       (unsigned long long)wrong);
	if (wrong)
		exit(1);
	free(items);
}

static void *
run_thread(void *arg)
{
	size_t window = (size_t)WINDOW * PIECE;
	uint8_t *local = memory_new(window);
	uint64_t remote = work.base + (uintptr_t)arg * window;
	int i, rc = kv_engine_register(e, local, window);

	if (rc)
		die("register", rc);

	while ((i = atomic_fetch_add(&work.next, 1)) < work.n) {
		size_t n = strtoul(work.counts[i], NULL, 10);

		run_batch(n, local, remote, i % 2 ? 1 : 389);
	}
	rc = kv_engine_unregister(e, local);
	if (rc)
		die("unregister", rc);
	munmap(local, window);
	return NULL;
}

static int
batch(const char *peer, unsigned threads, char **counts, int n)
{
	pthread_t ids[THREADS_MAX];

	open_engine("127.0.0.1:0");
	work.peer = peer;
	work.base = kv_engine_first_region(e, peer);
	work.counts = counts;
	work.n = n;
	if (!work.base || threads > THREADS_MAX)
		die(peer, KV_EUNREACHABLE);
	for (uintptr_t i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, run_thread, (void *)i);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	kv_engine_close(e);
	return 0;
}

/* ---- until it fails ---- */

static int
flood(const char *peer, size_t bytes, unsigned ms)
{
	const struct kv_clock clock = { 0 };
	struct kv_xfer_item item = { .local = memory_new(bytes), .len = bytes };
	uint64_t start;
	int rc;

	open_engine("127.0.0.1:0");
	item.remote = kv_engine_first_region(e, peer);
	rc = kv_engine_probe(e, peer);
	do {
		start = kv_clock_now(&clock);
		if (rc == 0)
			rc = kv_engine_transfer(e, KV_ENGINE_WRITE, peer, &item,
						1, ms);
	} while (rc == 0);
	printf("%s after %llu ms\n", kv_status_name(rc),
	       (unsigned long long)((kv_clock_now(&clock) - start) /
				    KV_NS_PER_MS));
	kv_engine_close(e);
	return 0;
}

/* ---- for some time ---- */

/* Milliseconds. */
static uint64_t
timed(enum kv_engine_op op, const char *peer, const struct kv_xfer_item *item)
{
	const struct kv_clock clock = { 0 };
	uint64_t start = kv_clock_now(&clock);
	int rc = kv_engine_transfer(e, op, peer, item, 1, 0);

	if (rc)
		die(op == KV_ENGINE_WRITE ? "write" : "read", rc);
	return (kv_clock_now(&clock) - start) / KV_NS_PER_MS;
}

static int
pace(const char *peer, size_t bytes, unsigned ms)
{
	const struct kv_clock clock = { 0 };
	struct kv_xfer_item item = { .local = memory_new(bytes), .len = bytes };
	uint64_t write_ms = 0, read_ms = 0, wrong = 0, start;
	unsigned n = 0;

	open_engine("127.0.0.1:0");
	item.remote = kv_engine_first_region(e, peer);
	if (!item.remote || kv_engine_register(e, item.local, bytes))
		die(peer, KV_EUNREACHABLE);
	start = kv_clock_now(&clock);
	while (kv_clock_now(&clock) - start < ms * KV_NS_PER_MS) {
		engpeer_fill(item.local, 0, bytes, ++n);
		write_ms = kv_max_u64(write_ms,
				      timed(KV_ENGINE_WRITE, peer, &item));
		memset(item.local, 0, bytes);
		read_ms =
			kv_max_u64(read_ms, timed(KV_ENGINE_READ, peer, &item));
		wrong += engpeer_verify(item.local, 0, bytes, n);
	}
	printf("%u times, %llu ms to write, %llu ms to read: %llu wrong bytes\n",
	       n, (unsigned long long)write_ms, (unsigned long long)read_ms,
	       (unsigned long long)wrong);
	kv_engine_close(e);
	return wrong > 0;
}

int
main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "serve"))
		return serve(argv[2], strtoul(argv[3], NULL, 10));
	if (argc == 3 && !strcmp(argv[1], "path"))
		return path(argv[2]);
	if (argc > 4 && !strcmp(argv[1], "batch"))
		return batch(argv[2], (unsigned)atoi(argv[3]), argv + 4,
			     argc - 4);
	if (argc == 5 && !strcmp(argv[1], "flood"))
		return flood(argv[2], strtoul(argv[3], NULL, 10),
			     (unsigned)atoi(argv[4]));
	if (argc == 5 && !strcmp(argv[1], "pace"))
		return pace(argv[2], strtoul(argv[3], NULL, 10),
			    (unsigned)atoi(argv[4]));
	fprintf(stderr, "engineio: unknown command\n");
	return 64;
}
