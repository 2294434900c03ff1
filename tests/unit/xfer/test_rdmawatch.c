#include "xfer/rdmawatch.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "event/loop.h"
#include "nth_fault.h"
#include "test.h"
#include "xfer/rdmacore.h"
#include "xfer/rdmacq.h"

/* A process of two devices, of which the first one has two ports; events are
 * what is written to pipes. */
enum {
	DEVICES = 2,
	PORTS = 3,
	LOOPS = 3,
	WATCHES = 2, /* of a loop */
};

struct watcher {
	struct kv_rdmawatch w; /* first */
	atomic_uint told[PORTS][KV_RDMAWATCH_QUEUE + 1];
};

static struct kv_rdma r;
static struct kv_rdmaverbs v;
static struct ibv_device hca = { .transport_type = IBV_TRANSPORT_IB };
static struct ifaddrs no_addr;
static struct ibv_context ctxs[DEVICES];
static int pipes[DEVICES]; /* to be written to */
static struct kv_loop *loops[LOOPS];
static struct watcher watchers[LOOPS][WATCHES];
static atomic_uint acked;
static atomic_uint lines[KV_LOG_DEBUG + 1];

static int
get_event(struct ibv_context *ctx, struct ibv_async_event *e)
{
	ssize_t n = read(ctx->async_fd, e, sizeof(*e));

	if (n == sizeof(*e))
		return 0;
	if (n == 0)
		errno = EIO;
	return -1;
}

static atomic_bool is_down[DEVICES][2]; /* silently */
static atomic_uint lid = 7;

static int
query_port(struct ibv_context *ctx, uint8_t port,
	   struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

	*attr = (struct ibv_port_attr){
		.state = is_down[ctx - ctxs][port - 1] ? IBV_PORT_INIT
						       : IBV_PORT_ACTIVE,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.lid = (uint16_t)lid,
	};
	return 0;
}

static int
query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){ .phys_port_cnt = 2 };
	return 0;
}

static void
ack_event(struct ibv_async_event *e)
{
	(void)e;
	acked++;
}

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)msg;
	lines[level]++;
}

static void
on_news(struct kv_rdmawatch *w, unsigned port, enum kv_rdmawatch_news news)
{
	struct watcher *x = (struct watcher *)w;

	assert_true(port < PORTS);
	if (news != KV_RDMAWATCH_QUEUE)
		assert_int_equal(kv_rdmawatch_port(w, port), news);
	x->told[port][news]++;
}

static void
say(unsigned device, enum ibv_event_type type, int port)
{
	struct ibv_async_event e = { .event_type = type };

	e.element.port_num = port;
	assert_int_equal(write(pipes[device], &e, sizeof(e)), sizeof(e));
}

static void
turn(unsigned loop)
{
	while (kv_loop_turn(loops[loop], 0) > 0)
		;
}

static void
turn_all(void)
{
	unsigned i;

	for (i = 0; i < 2 * LOOPS; i++)
		turn(i % LOOPS);
}

static int
setup_silent(void **state)
{
	unsigned i;
	int fds[2];

	(void)state;
	memset(&r, 0, sizeof(r));
	memset(watchers, 0, sizeof(watchers));
	memset(lines, 0, sizeof(lines));
	acked = 0;
	v = (struct kv_rdmaverbs){ .get_async_event = get_event,
				   .ack_async_event = ack_event,
				   .query_port = query_port,
				   .query_device = query_device };
	memset(is_down, 0, sizeof(is_down));
	lid = 7;
	r.v = &v;
	r.addrs = &no_addr;
	r.n = PORTS;
	kv_rdmawatch_open(&r.watched);
	for (i = 0; i < DEVICES; i++) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return -1;
		ctxs[i].async_fd = fds[0];
		ctxs[i].device = &hca;
		pipes[i] = fds[1];
	}
	for (i = 0; i < PORTS; i++) {
		r.nics[i].ctx = &ctxs[i / 2];
		r.nics[i].port = r.devs[i].port = (uint8_t)(1 + i % 2);
		r.devs[i].lid = 7;
		r.devs[i].is_usable = true;
		r.devs[i].gid_index = r.devs[i].local_gid_index = -1;
		snprintf(r.devs[i].name, sizeof(r.devs[i].name), "dev%u",
			 i / 2);
	}
	for (i = 0; i < LOOPS; i++)
		loops[i] = kv_loop_new(NULL);
	kv_log_set_sink(on_log, NULL);
	kv_log_set_level(KV_LOG_DEBUG);
	return 0;
}

static int
start(unsigned loop, unsigned i)
{
	struct watcher *x = &watchers[loop][i];

	x->w.fn = on_news;
	return kv_rdmawatch_start(&x->w, &r, loops[loop]);
}

static int
setup(void **state)
{
	unsigned i;

	if (setup_silent(state) < 0)
		return -1;
	for (i = 0; i < LOOPS * WATCHES; i++)
		if (start(i / WATCHES, i % WATCHES) < 0)
			return -1;
	return 0;
}

static int
teardown(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < LOOPS * WATCHES; i++)
		kv_rdmawatch_stop(&watchers[i / WATCHES][i % WATCHES].w);
	for (i = 0; i < LOOPS; i++)
		kv_loop_free(loops[i]);
	for (i = 0; i < DEVICES; i++) {
		close(ctxs[i].async_fd);
		if (pipes[i] >= 0)
			close(pipes[i]);
	}
	kv_rdmawatch_close(&r.watched);
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static void
expect_told(unsigned port, enum kv_rdmawatch_news news, unsigned times)
{
	unsigned i;

	for (i = 0; i < LOOPS * WATCHES; i++)
		assert_int_equal(
			watchers[i / WATCHES][i % WATCHES].told[port][news],
			times);
}

/* ---- tests ---- */

static void
all_are_told_once(void **state)
{
	(void)state;
	say(0, IBV_EVENT_PORT_ERR, 2);
	turn(1);
	turn_all();
	expect_told(1, KV_RDMAWATCH_DOWN, 1);
	expect_told(0, KV_RDMAWATCH_DOWN, 0);
	expect_told(2, KV_RDMAWATCH_DOWN, 0);
	say(0, IBV_EVENT_PORT_ACTIVE, 2);
	turn_all();
	expect_told(1, KV_RDMAWATCH_UP, 1);
	assert_int_equal(acked, 2);
	assert_int_equal(lines[KV_LOG_WARN], 1);
	assert_int_equal(lines[KV_LOG_INFO], 1);
}

/* The device says that it is up, and it is not any more; or not yet. */
static void
it_is_up_when_it_can_be_used(void **state)
{
	(void)state;
	say(1, IBV_EVENT_PORT_ERR, 1);
	turn_all();
	expect_told(2, KV_RDMAWATCH_DOWN, 1);
	is_down[1][0] = true;
	say(1, IBV_EVENT_PORT_ACTIVE, 1);
	turn_all();
	expect_told(2, KV_RDMAWATCH_UP, 0);
	is_down[1][0] = false;
	say(1, IBV_EVENT_LID_CHANGE, 1);
	turn_all();
	expect_told(2, KV_RDMAWATCH_UP, 1);
}

/* All have what is known of it by now. */
static void
what_has_changed_is_told(void **state)
{
	unsigned i;

	(void)state;
	lid = 8;
	say(0, IBV_EVENT_LID_CHANGE, 2);
	turn_all();
	expect_told(1, KV_RDMAWATCH_UP, 1);
	expect_told(0, KV_RDMAWATCH_UP, 0);
	for (i = 0; i < LOOPS * WATCHES; i++)
		assert_int_equal(
			watchers[i / WATCHES][i % WATCHES].w.devs[1].lid, 8);
	assert_int_equal(r.devs[1].lid, 7);
	say(0, IBV_EVENT_LID_CHANGE, 2);
	turn_all();
	expect_told(1, KV_RDMAWATCH_UP, 1);
	/* And who comes later. */
	kv_rdmawatch_stop(&watchers[1][1].w);
	assert_int_equal(start(1, 1), 0);
	assert_int_equal(watchers[1][1].w.devs[1].lid, 8);
}

static void
what_does_not_matter_is_read(void **state)
{
	unsigned i;

	(void)state;
	for (i = 0; i < 100; i++)
		say(1, i % 2 ? IBV_EVENT_COMM_EST : IBV_EVENT_GID_CHANGE, 0);
	say(1, IBV_EVENT_PORT_ERR, 9);
	say(1, IBV_EVENT_PORT_ERR, 1);
	say(1, IBV_EVENT_PORT_ACTIVE, 1);
	turn_all();
	assert_int_equal(acked, 103);
	for (i = 0; i < PORTS; i++)
		expect_told(i, KV_RDMAWATCH_DOWN, 0);
	assert_int_equal(lines[KV_LOG_WARN], 0);
}

static void
a_device_goes_for_good(void **state)
{
	unsigned i;

	(void)state;
	say(0, IBV_EVENT_DEVICE_FATAL, 0);
	say(0, IBV_EVENT_PORT_ACTIVE, 1);
	turn_all();
	expect_told(0, KV_RDMAWATCH_GONE, 1);
	expect_told(1, KV_RDMAWATCH_GONE, 1);
	expect_told(2, KV_RDMAWATCH_GONE, 0);
	expect_told(0, KV_RDMAWATCH_UP, 0);
	assert_int_equal(lines[KV_LOG_ERR], 2);
	/* Nobody listens to it any more. */
	say(0, IBV_EVENT_PORT_ERR, 1);
	turn_all();
	assert_int_equal(acked, 2);
	/* Nor who comes later, and knows. */
	for (i = 0; i < WATCHES; i++)
		kv_rdmawatch_stop(&watchers[0][i].w);
	assert_int_equal(start(0, 0), 0);
	assert_int_equal(kv_rdmawatch_port(&watchers[0][0].w, 1),
			 KV_RDMAWATCH_GONE);
	turn_all();
	assert_int_equal(acked, 2);
}

static void
one_that_answers_nothing_is_gone(void **state)
{
	(void)state;
	close(pipes[1]);
	pipes[1] = -1;
	turn_all();
	expect_told(2, KV_RDMAWATCH_GONE, 1);
	expect_told(0, KV_RDMAWATCH_GONE, 0);
	/* The loop does not spin. */
	assert_int_equal(kv_loop_turn(loops[0], 0), 0);
}

static void
queues_are_lost(void **state)
{
	struct kv_rdmacq c = { .is_lost = true }, d = { .is_lost = true };
	struct ibv_async_event e = { .event_type = IBV_EVENT_CQ_ERR };
	struct ibv_srq srq = { .srq_context = &d };
	struct ibv_cq cq = { .cq_context = &c };

	(void)state;
	e.element.cq = &cq;
	assert_int_equal(write(pipes[1], &e, sizeof(e)), sizeof(e));
	turn_all();
	expect_told(2, KV_RDMAWATCH_QUEUE, 1);
	expect_told(0, KV_RDMAWATCH_QUEUE, 0);
	assert_true(c.is_condemned);
	assert_false(d.is_condemned);
	e.event_type = IBV_EVENT_SRQ_ERR;
	e.element.srq = &srq;
	assert_int_equal(write(pipes[1], &e, sizeof(e)), sizeof(e));
	turn_all();
	expect_told(2, KV_RDMAWATCH_QUEUE, 2);
	assert_true(d.is_condemned);
}

static void
who_has_stopped_is_told_nothing(void **state)
{
	(void)state;
	say(0, IBV_EVENT_PORT_ERR, 1);
	turn(0);
	kv_rdmawatch_stop(&watchers[1][0].w);
	kv_rdmawatch_stop(&watchers[2][0].w);
	kv_rdmawatch_stop(&watchers[2][1].w);
	turn_all();
	assert_int_equal(watchers[1][0].told[0][KV_RDMAWATCH_DOWN], 0);
	assert_int_equal(watchers[1][1].told[0][KV_RDMAWATCH_DOWN], 1);
	assert_int_equal(watchers[2][1].told[0][KV_RDMAWATCH_DOWN], 0);
	/* Who begins now knows already. */
	assert_int_equal(start(2, 0), 0);
	turn_all();
	assert_int_equal(watchers[2][0].told[0][KV_RDMAWATCH_DOWN], 0);
	assert_int_equal(kv_rdmawatch_port(&watchers[2][0].w, 0),
			 KV_RDMAWATCH_DOWN);
}

static atomic_bool stop;

static void *
run(void *arg)
{
	unsigned loop = (unsigned)(uintptr_t)arg;

	while (!stop)
		(void)kv_loop_turn(loops[loop],
				   kv_clock_now(&(struct kv_clock){ 0 }) +
					   KV_NS_PER_MS);
	return NULL;
}

/* Whoever reads them, the last state is what all have been told last. */
static void
threads_agree(void **state)
{
	pthread_t threads[LOOPS];
	unsigned i, n;

	(void)state;
	stop = false;
	for (i = 0; i < LOOPS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run,
						(void *)(uintptr_t)i),
				 0);
	for (n = 0; n < 2000; n++)
		say(0, n % 2 ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, 1);
	say(1, IBV_EVENT_PORT_ERR, 1);
	say(0, IBV_EVENT_PORT_ERR, 2);
	for (i = 0; i < 2000 && acked < 2002; i++)
		usleep(1000);
	usleep(20000);
	stop = true;
	for (i = 0; i < LOOPS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(acked, 2002);
	turn_all();
	for (i = 0; i < LOOPS * WATCHES; i++) {
		const struct kv_rdmawatch *w =
			&watchers[i / WATCHES][i % WATCHES].w;

		assert_int_equal(kv_rdmawatch_port(w, 0), KV_RDMAWATCH_UP);
		assert_int_equal(kv_rdmawatch_port(w, 1), KV_RDMAWATCH_DOWN);
		assert_int_equal(kv_rdmawatch_port(w, 2), KV_RDMAWATCH_DOWN);
	}
}

static int
start_with_fault(void)
{
	int rc;

	if (setup_silent(NULL) < 0)
		return 9;
	for (unsigned i = 0; i < LOOPS; i++)
		if (!loops[i])
			return 1;
	rc = start(0, 0);
	if (rc < 0 && watchers[0][0].w.reader)
		return 8;
	teardown(NULL);
	return rc < 0 ? 2 : 0;
}

static void
memory_that_is_short_is_said(void **state)
{
	unsigned n = 0, failed = 0;
	int code;

	(void)state;
	do {
		code = nth_fault_run(++n, start_with_fault);
		assert_in_range(code, 0, 2);
		failed += code == 2;
	} while (code != 0);
	/* Its own, the mailbox, and two devices. */
	assert_int_equal(failed, 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(memory_that_is_short_is_said),
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(all_are_told_once),
		TEST(it_is_up_when_it_can_be_used),
		TEST(what_has_changed_is_told),
		TEST(what_does_not_matter_is_read),
		TEST(a_device_goes_for_good),
		TEST(one_that_answers_nothing_is_gone),
		TEST(queues_are_lost),
		TEST(who_has_stopped_is_told_nothing),
		TEST(threads_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
