/* Regions that go away while other processes and threads are at them. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "engpeer.h"
#include "kvpool.h"
#include "test.h"

enum {
	REGION = 4 << 20,
};

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

static uint64_t
now_ms(void)
{
	const struct kv_clock clock = { 0 };

	return kv_clock_now(&clock) / KV_NS_PER_MS;
}

static void
start_client(struct engpeer *p, const struct way *w, struct kv_engine *e)
{
	const struct engpeer_opts opts = {
		.engine = { .no_attach = w->no_attach, .timeout_ms = 30000 },
	};

	assert_true(engpeer_start(p, &opts));
	engpeer_do(p, ENGPEER_MEET, kv_engine_port(e), 0, 0);
	assert_int_equal(engpeer_do(p, ENGPEER_PATH, 0, 0, 0), w->name[0]);
}

static uint8_t *
memory_new(struct kv_engine *e, const struct way *w)
{
	uint8_t *p;

	if (w->shared)
		return kv_engine_alloc(e, REGION);
	p = mmap(NULL, REGION, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(kv_engine_register(e, p, REGION), 0);
	return p;
}

/*
 * The peer writes without end and is stopped at any point; the region goes.
 * When that has returned 0, no byte of the peer comes any more; when it could
 * not be awaited, it says so and can be done later.
 */
static void
unregister_from_a_stopped_writer(const struct way *w, struct kv_engine *e,
				 unsigned round, int *late)
{
	uint8_t *memory = memory_new(e, w);
	struct engpeer p;
	int rc;

	start_client(&p, w, e);
	engpeer_tell(&p, ENGPEER_FLOOD, (uintptr_t)memory, REGION, round);
	usleep(20000 + round * 1777 % 5000);
	kill(p.pid, SIGSTOP);
	rc = w->shared ? -KV_ETIMEOUT : kv_engine_unregister(e, memory);
	if (rc == -KV_ETIMEOUT) {
		++*late;
		kill(p.pid, SIGCONT);
		rc = w->shared ? kv_engine_free(e, memory)
			       : kv_engine_unregister(e, memory);
	}
	assert_int_equal(rc, 0);
	if (!w->shared) {
		memset(memory, 0x5a, REGION);
		kill(p.pid, SIGCONT);
	}
	assert_int_equal(engpeer_answer(&p), -KV_EINVALID);
	for (size_t i = 0; !w->shared && i < REGION; i++)
		assert_int_equal(memory[i], 0x5a);
	engpeer_stop(&p);
	if (!w->shared)
		munmap(memory, REGION);
}

static void
no_byte_comes_after_the_unregistering(void **state)
{
	const struct kv_engine_opts opts = { .timeout_ms = 200 };

	(void)state;
	for (int i = 0; i < WAYS; i++) {
		struct kv_engine *e = engpeer_open(&opts);
		int late = 0;

		for (unsigned round = 0; round < 8; round++)
			unregister_from_a_stopped_writer(&ways[i], e, round,
							 &late);
		/* What this process serves itself can always be cut. */
		if (!strcmp(ways[i].name, "tcp"))
			assert_int_equal(late, 0);
		kv_engine_close(e);
	}
}

/* A peer stops in the middle of a read over TCP: it is cut after a while. */
static void
a_reader_that_stopped_is_cut(void **state)
{
	const struct kv_engine_opts opts = { .timeout_ms = 20000 };
	struct kv_engine *e = engpeer_open(&opts);
	size_t len = (size_t)64 << 20; /* more than sockets hold */
	uint8_t *memory = mmap(NULL, len, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct engpeer p;
	uint64_t start;

	(void)state;
	assert_int_equal(kv_engine_register(e, memory, len), 0);
	start_client(&p, &ways[2], e);
	engpeer_tell(&p, ENGPEER_READ, (uintptr_t)memory, len, 0);
	usleep(30000);
	kill(p.pid, SIGSTOP);
	usleep(100000);
	start = now_ms();
	assert_int_equal(kv_engine_unregister(e, memory), 0);
	assert_true(now_ms() - start < 500 + 1000 * KV_TEST_SLOWER);
	munmap(memory, len);
	kill(p.pid, SIGCONT);
	assert_int_not_equal(engpeer_answer(&p), 0);
	engpeer_stop(&p);
	kv_engine_close(e);
}

/* A guest that died with its foot in the door holds nothing. */
static void
a_writer_that_was_killed_is_not_waited_for(void **state)
{
	const struct kv_engine_opts opts = { .timeout_ms = 20000 };

	(void)state;
	for (int i = 0; i < WAYS; i++) {
		struct kv_engine *e = engpeer_open(&opts);
		uint8_t *memory = memory_new(e, &ways[i]);
		struct engpeer p;
		uint64_t start;

		start_client(&p, &ways[i], e);
		engpeer_tell(&p, ENGPEER_FLOOD, (uintptr_t)memory, REGION, 1);
		usleep(20000);
		engpeer_kill(&p);
		start = now_ms();
		assert_int_equal(ways[i].shared
					 ? kv_engine_free(e, memory)
					 : kv_engine_unregister(e, memory),
				 0);
		assert_true(now_ms() - start < 1000 * KV_TEST_SLOWER);
		kv_engine_close(e);
	}
}

/* ---- churn ---- */

enum {
	PARTS = 8,
	THREADS = 3,
	SHARE = 30000, /* each thread's, of each of them */
	PART = THREADS * SHARE,
};

struct churn {
	struct kv_engine *e;
	char addr[32];
	uint8_t *fixed; /* registered all the time */
	uint8_t *parts; /* come and go */
	atomic_bool over;
	atomic_int moved, refused, failed;
};
static struct churn churn;

struct churner {
	pthread_t thread;
	struct kv_engine *e;
	unsigned seed;
	size_t off; /* of its share */
};

/* The fixed one is always reached, the others perhaps. */
static void *
churn_transfer(void *arg)
{
	struct churner *c = arg;
	struct kv_engine *e = c->e;
	unsigned seed = c->seed;
	uint8_t *buffer = calloc(2, SHARE);

	while (!atomic_load(&churn.over)) {
		size_t off = (size_t)rand_r(&seed) % PARTS * PART + c->off;
		struct kv_xfer_item items[2] = {
			{ buffer, (uintptr_t)churn.fixed + c->off, SHARE },
			{ buffer + SHARE, (uintptr_t)churn.parts + off, SHARE },
		};
		enum kv_engine_op op =
			rand_r(&seed) % 2 ? KV_ENGINE_WRITE : KV_ENGINE_READ;
		int rc = kv_engine_transfer(e, op, churn.addr, items, 1, 0);

		if (rc)
			atomic_fetch_add(&churn.failed, 1);
		rc = kv_engine_transfer(e, op, churn.addr, items, 2, 0);
		if (rc == 0)
			atomic_fetch_add(&churn.moved, 1);
		else if (rc == -KV_EINVALID)
			atomic_fetch_add(&churn.refused, 1);
		else
			atomic_fetch_add(&churn.failed, 1);
	}
	free(buffer);
	return NULL;
}

static void
churn_regions(unsigned ms)
{
	uint64_t end = now_ms() + ms;
	unsigned seed = 7;
	bool on[PARTS] = { false };

	while (now_ms() < end) {
		size_t i = (size_t)rand_r(&seed) % PARTS;
		uint8_t *at = churn.parts + i * PART;

		if (on[i])
			assert_int_equal(kv_engine_unregister(churn.e, at), 0);
		else
			assert_int_equal(kv_engine_register(churn.e, at, PART),
					 0);
		on[i] = !on[i];
		usleep(500);
	}
	for (size_t i = 0; i < PARTS; i++)
		if (on[i])
			assert_int_equal(
				kv_engine_unregister(churn.e,
						     churn.parts + i * PART),
				0);
}

/* Engines of one process: ThreadSanitizer sees both sides. */
static void
run_churn(const struct kv_engine_opts *opts, bool self)
{
	struct kv_engine *other = self ? NULL : engpeer_open(opts);
	struct churner churners[THREADS];

	memset(&churn, 0, sizeof(churn));
	churn.e = engpeer_open(NULL);
	snprintf(churn.addr, sizeof(churn.addr), "127.0.0.1:%d",
		 kv_engine_port(churn.e));
	churn.fixed = kv_engine_alloc(churn.e, PART);
	assert_non_null(churn.fixed);
	churn.parts = mmap(NULL, PARTS * PART, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < THREADS; i++) {
		struct churner *c = &churners[i];

		c->e = self ? churn.e : other;
		c->seed = i;
		c->off = (size_t)i * SHARE;
		assert_int_equal(
			pthread_create(&c->thread, NULL, churn_transfer, c), 0);
	}
	churn_regions(700);
	atomic_store(&churn.over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(churners[i].thread, NULL);
	assert_int_equal(churn.failed, 0);
	assert_true(churn.moved > 0);
	assert_true(churn.refused > 0);
	kv_engine_close(other);
	kv_engine_close(churn.e);
	munmap(churn.parts, PARTS * PART);
}

static void
regions_churn_under_attach(void **state)
{
	(void)state;
	run_churn(NULL, false);
}

static void
regions_churn_under_tcp(void **state)
{
	const struct kv_engine_opts opts = { .no_attach = 1 };

	(void)state;
	run_churn(&opts, false);
}

static void
regions_churn_under_several_copy_threads(void **state)
{
	const struct kv_engine_opts opts = { .copy_threads = 3 };

	(void)state;
	run_churn(&opts, false);
}

static void
regions_churn_under_own_transfers(void **state)
{
	(void)state;
	run_churn(NULL, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_byte_comes_after_the_unregistering),
		cmocka_unit_test(a_reader_that_stopped_is_cut),
		cmocka_unit_test(a_writer_that_was_killed_is_not_waited_for),
		cmocka_unit_test(regions_churn_under_attach),
		cmocka_unit_test(regions_churn_under_tcp),
		cmocka_unit_test(regions_churn_under_several_copy_threads),
		cmocka_unit_test(regions_churn_under_own_transfers),
	};

	engpeer_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
