/* Engines that meet a shortage of memory once, anywhere: a call says so, or
 * another path is taken; the same call works the next time, and nothing is
 * left behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engpeer.h"
#include "kvpool.h"
#include "nth_fault.h"

enum {
	REGION = 300000,
	POINTS = 120, /* more than the scene passes */
};

/* Exit codes of the body. */
enum {
	ALL_WENT_WELL,
	ONE_CALL_FAILED,
	BROKEN
};

struct scene {
	struct kv_engine *near, *far;
	char addr[32];
	uint8_t *local, *plain, *own;
	int failed;
};

static void
quiet(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

/* One failure may be; which one depends on what the peer could do. */
static bool
worked(struct scene *s, int rc)
{
	switch (rc) {
	case 0:
		return true;
	case -KV_ENOMEM:
	case -KV_ECONNLOST:
	case -KV_EUNREACHABLE:
	case -KV_EBUSY:
		s->failed++;
		return false;
	default:
		fprintf(stderr, "unexpected: %s\n", kv_status_text(rc));
		exit(BROKEN);
	}
}

#define TRY(s, call)                                              \
	do {                                                      \
		if (!worked((s), (call)) && !worked((s), (call))) \
			exit(BROKEN);                             \
	} while (0)

static struct kv_engine *
open_engine(struct scene *s, const struct kv_engine_opts *opts)
{
	char err[256];
	struct kv_engine *e = kv_engine_open(opts, err, sizeof(err));

	if (e)
		return e;
	s->failed++;
	e = kv_engine_open(opts, err, sizeof(err));
	if (!e)
		exit(BROKEN);
	return e;
}

static int
move(struct scene *s, enum kv_engine_op op, uint8_t *to)
{
	struct kv_xfer_item item = { s->local, (uintptr_t)to, REGION };

	return kv_engine_transfer(s->near, op, s->addr, &item, 1, 0);
}

static void
check_bytes(struct scene *s, uint8_t *there, uint64_t seed)
{
	engpeer_fill(s->local, 0, REGION, seed);
	TRY(s, move(s, KV_ENGINE_WRITE, there));
	if (engpeer_verify(there, 0, REGION, seed))
		exit(BROKEN);
	memset(s->local, 0, REGION);
	TRY(s, move(s, KV_ENGINE_READ, there));
	if (engpeer_verify(s->local, 0, REGION, seed))
		exit(BROKEN);
}

static int
submit(struct scene *s)
{
	struct kv_xfer_item item = { s->local, (uintptr_t)s->plain, REGION };
	struct kv_op *op = kv_engine_submit(s->near, KV_ENGINE_WRITE, s->addr,
					    &item, 1, 0);
	long rc = 0;

	if (!op)
		return -KV_ENOMEM;
	if (kv_op_wait(op, 20000, &rc))
		exit(BROKEN);
	return (int)rc;
}

static void
check_note(struct scene *s)
{
	struct kv_note_in in;

	TRY(s, kv_engine_notify(s->near, s->addr, "name", "text", 4));
	if (kv_engine_notes(s->far, &in, 1) != 1)
		exit(BROKEN);
	free(in.text);
}

static int
scene(int no_attach)
{
	struct kv_engine_opts opts = {
		.size = sizeof(opts),
		.listen = "127.0.0.1:0",
		.timeout_ms = 20000,
		.no_attach = no_attach,
	};
	struct scene s = { 0 };

	kv_log_set_sink(quiet, NULL);
	s.far = open_engine(&s, &opts);
	s.near = open_engine(&s, &opts);
	snprintf(s.addr, sizeof(s.addr), "127.0.0.1:%d", kv_engine_port(s.far));
	s.local = malloc(REGION);
	s.plain = malloc(REGION);
	TRY(&s, kv_engine_register(s.far, s.plain, REGION));
	s.own = kv_engine_alloc(s.far, REGION);
	if (!s.own) {
		s.failed++;
		s.own = kv_engine_alloc(s.far, REGION);
	}
	if (!s.own)
		exit(BROKEN);
	check_bytes(&s, s.plain, 1);
	check_bytes(&s, s.own, 2);
	TRY(&s, submit(&s));
	check_note(&s);
	TRY(&s, kv_engine_probe(s.near, s.addr));
	TRY(&s, kv_engine_unregister(s.far, s.plain));
	TRY(&s, kv_engine_free(s.far, s.own));
	kv_engine_close(s.near);
	kv_engine_close(s.far);
	free(s.plain);
	free(s.local);
	return s.failed ? ONE_CALL_FAILED : ALL_WENT_WELL;
}

static int
over_attach(void)
{
	return scene(0);
}

static int
over_tcp(void)
{
	return scene(1);
}

static void
check(int (*body)(void), int failures_min)
{
	int failures = 0;

	for (unsigned n = 1; n <= POINTS; n++) {
		int code = nth_fault_run(n, body);

		if (code != ALL_WENT_WELL && code != ONE_CALL_FAILED)
			fail_msg("fault %u: exit code %d", n, code);
		failures += code == ONE_CALL_FAILED;
	}
	assert_true(failures >= failures_min);
	assert_int_equal(nth_fault_run(100000, body), ALL_WENT_WELL);
}

static void
attach_works_the_second_time(void **state)
{
	(void)state;
	check(over_attach, 15);
}

static void
tcp_works_the_second_time(void **state)
{
	(void)state;
	check(over_tcp, 20);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(attach_works_the_second_time),
		nth_fault_test(tcp_works_the_second_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
