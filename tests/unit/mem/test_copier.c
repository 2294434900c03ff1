#include "mem/copier.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "test.h"

#define MIB     ((size_t)1 << 20)
#define PIECES  48
#define CALLERS 6

/* Pieces of some sizes, in a buffer each side, with a gap behind each. */
struct call {
	struct kv_copier_piece pieces[PIECES];
	size_t n;
	size_t bytes; /* of a buffer */
	unsigned char *from, *to;
};

static void
call_make(struct call *call, struct kv_rng *rng, size_t n, size_t len_max)
{
	size_t len[PIECES], at = 0, i;

	call->n = n;
	call->bytes = 0;
	for (i = 0; i < n; i++) {
		len[i] = kv_rng_below(rng, len_max + 1);
		call->bytes += len[i] + 1;
	}
	call->from = malloc(call->bytes);
	call->to = calloc(1, call->bytes);
	assert_non_null(call->from);
	assert_non_null(call->to);
	for (i = 0; i < call->bytes; i++)
		call->from[i] = (unsigned char)(i * 7 + i / 251 + 1) | 1;
	for (i = 0; i < n; i++, at += len[i - 1] + 1)
		call->pieces[i] = (struct kv_copier_piece){
			.dst = call->to + at,
			.src = call->from + at,
			.len = len[i],
		};
}

/* Every byte of the pieces, and none of the gaps. */
static bool
call_is_done(const struct call *call)
{
	const unsigned char *at = call->to;
	size_t i;

	for (i = 0; i < call->n; i++) {
		const struct kv_copier_piece *p = &call->pieces[i];

		if (memcmp(p->dst, p->src, p->len) != 0)
			return false;
		at = (unsigned char *)p->dst + p->len;
		if (*at != 0)
			return false;
	}
	return true;
}

static void
call_free(struct call *call)
{
	free(call->from);
	free(call->to);
}

static void
one(struct kv_copier *c, struct kv_rng *rng, size_t n, size_t len_max)
{
	struct call call;

	call_make(&call, rng, n, len_max);
	kv_copier_run(c, call.pieces, call.n);
	assert_true(call_is_done(&call));
	call_free(&call);
}

static void
sizes(void **state)
{
	static const unsigned threads[] = { 1, 2, 3, 8 };
	struct kv_copier *c;
	struct kv_rng rng;
	size_t i;

	(void)state;
	kv_rng_seed(&rng, 1);
	one(NULL, &rng, PIECES, 300000);
	for (i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
		c = kv_copier_new(threads[i]);
		assert_non_null(c);
		kv_copier_run(c, NULL, 0);
		one(c, &rng, 1, 0);
		one(c, &rng, 3, 5000);
		one(c, &rng, 1, 9 * MIB);
		one(c, &rng, PIECES, 300000);
		one(c, &rng, 2, 3 * MIB);
		kv_copier_free(c);
	}
	kv_copier_free(NULL);
}

static void *
caller(void *arg)
{
	struct kv_copier *c = arg;
	struct kv_rng rng;
	struct call call;
	bool good = true;
	unsigned i;

	kv_rng_seed(&rng, (uintptr_t)&rng);
	for (i = 0; i < 20 && good; i++) {
		call_make(&call, &rng, 1 + i % PIECES, MIB / (1 + i % 7));
		kv_copier_run(c, call.pieces, call.n);
		good = call_is_done(&call);
		call_free(&call);
	}
	return good ? c : NULL;
}

static void
many_callers(void **state)
{
	struct kv_copier *c = kv_copier_new(3);
	pthread_t t[CALLERS];
	void *good;
	unsigned i;

	(void)state;
	assert_non_null(c);
	for (i = 0; i < CALLERS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, caller, c), 0);
	for (i = 0; i < CALLERS; i++) {
		assert_int_equal(pthread_join(t[i], &good), 0);
		assert_ptr_equal(good, c);
	}
	kv_copier_free(c);
}

static void
usual(void **state)
{
	cpu_set_t before, one_cpu;
	size_t cpu = 0;

	(void)state;
	assert_in_range(kv_copier_threads_usual(), 1, 4);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	while (!CPU_ISSET(cpu, &before))
		cpu++;
	CPU_ZERO(&one_cpu);
	CPU_SET(cpu, &one_cpu);
	assert_int_equal(sched_setaffinity(0, sizeof(one_cpu), &one_cpu), 0);
	assert_int_equal(kv_copier_threads_usual(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(many_callers),
		cmocka_unit_test(usual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
