/* What threads, listeners and dials do when memory, descriptors or threads
 * cannot be had: say so, and leave nothing behind. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "event/worker.h"
#include "net/sock.h"
#include "net/stream.h"

#include "nth_fault.h"

/* Exit codes of the bodies. */
enum {
	NO_FAULT_MET,
	FAULT_TAKEN_WELL,
	BROKEN
};

static char unix_addr[64];

static bool
is_shortage(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -EAGAIN;
}

static int
taken(int err)
{
	return is_shortage(err) ? FAULT_TAKEN_WELL : BROKEN;
}

static int
use_worker(void)
{
	struct kv_worker *w;

	errno = 0;
	w = kv_worker_start("w", KV_WORKER_NO_CPU, NULL, NULL);
	if (!w)
		return taken(-errno);
	kv_worker_stop(w);
	kv_worker_join(w);
	return NO_FAULT_MET;
}

struct scene {
	struct kv_loop *loop;
	struct kv_net *net;
	struct kv_listener *listener;
	struct kv_stream *near, *far;
	int status;
};

static void
on_accept(void *arg, struct kv_stream *s, const struct kv_peer *peer)
{
	struct scene *sc = arg;

	(void)peer;
	sc->far = s;
}

static void
on_connect(void *arg, struct kv_stream *s, int status)
{
	struct scene *sc = arg;

	sc->near = s;
	sc->status = status;
}

static void
turn_for(struct scene *sc, unsigned ms)
{
	uint64_t end = kv_loop_refresh(sc->loop) + ms * KV_NS_PER_MS;

	while (kv_loop_refresh(sc->loop) < end && !(sc->near && sc->far) &&
	       sc->status >= 0)
		if (kv_loop_turn(sc->loop, end) < 0)
			abort();
}

static int
connect_to(struct scene *sc, const char *bound)
{
	uint64_t at = kv_loop_refresh(sc->loop) + 2 * KV_NS_PER_S;
	char addr[KV_NET_BOUND_BYTES + 16];
	const char *port = strrchr(bound, ':');

	/* By name, so that it is looked up. */
	snprintf(addr, sizeof(addr), "%s", bound);
	if (bound[0] != 'u')
		snprintf(addr, sizeof(addr), "localhost%s", port);
	sc->status = 1;
	if (!sc->net->connect(sc->net, sc->loop, addr, at, on_connect, sc))
		return FAULT_TAKEN_WELL;
	turn_for(sc, 600);
	if (sc->status < 0)
		return taken(sc->status);
	/* One that could not be accepted was closed instead. */
	return sc->near && sc->far ? NO_FAULT_MET : FAULT_TAKEN_WELL;
}

static int
use_sockets(const char *addr)
{
	struct scene sc = { .loop = kv_loop_new(NULL),
			    .net = kv_sock_net_new() };
	char bound[KV_NET_BOUND_BYTES];
	int rc, err = 0;

	if (!sc.net)
		return BROKEN;
	if (!sc.loop) {
		kv_sock_net_free(sc.net);
		return FAULT_TAKEN_WELL;
	}
	sc.listener = sc.net->listen(sc.net, sc.loop, addr, on_accept, &sc,
				     bound, &err);
	rc = sc.listener ? connect_to(&sc, bound) : taken(err);
	if (sc.near)
		sc.near->ops->close(sc.near);
	if (sc.far)
		sc.far->ops->close(sc.far);
	if (sc.listener)
		sc.net->unlisten(sc.net, sc.listener);
	kv_sock_net_free(sc.net);
	kv_loop_free(sc.loop);
	return rc;
}

static int
use_tcp(void)
{
	return use_sockets("127.0.0.1:0");
}

static int
use_unix(void)
{
	int rc = use_sockets(unix_addr);

	/* Neither socket nor lock is left. */
	return access(strchr(unix_addr, '/'), F_OK) ? rc : BROKEN;
}

/* Makes the first, the second, ... of `points` fail. */
static void
check(int (*body)(void), unsigned points, unsigned least)
{
	unsigned n, met = 0;
	int rc;

	for (n = 1; n <= points; n++) {
		rc = nth_fault_run(n, body);
		if (rc != NO_FAULT_MET && rc != FAULT_TAKEN_WELL)
			fail_msg("fault %u: %d", n, rc);
		met += rc == FAULT_TAKEN_WELL;
	}
	assert_true(met >= least);
	assert_int_equal(nth_fault_run(100000, body), NO_FAULT_MET);
}

static void
a_worker_starts_or_not(void **state)
{
	(void)state;
	check(use_worker, 5, 4);
}

static void
tcp_works_or_says_so(void **state)
{
	(void)state;
	check(use_tcp, 14, 8);
}

static void
a_unix_socket_works_or_says_so(void **state)
{
	char folder[] = "/tmp/kv-faults-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(unix_addr, sizeof(unix_addr), "unix:%s/s", folder);
	check(use_unix, 10, 6);
	assert_int_equal(rmdir(folder), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		nth_fault_test(a_worker_starts_or_not),
		nth_fault_test(tcp_works_or_says_so),
		nth_fault_test(a_unix_socket_works_or_says_so),
	};

	return cmocka_run_group_tests_name("net_faults", tests, NULL, NULL);
}
