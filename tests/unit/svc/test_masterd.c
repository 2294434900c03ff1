/* A master on real sockets: where it listens, and what keeps it from it. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "event/loop.h"
#include "net/sock.h"
#include "net/stream.h"
#include "svc/masterd.h"

#include "test.h"

static struct kv_loop *loop;
static struct kv_net *net;
static char err[512];
static unsigned lines;

static void
count_line(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
	lines++;
}

static int
setup(void **state)
{
	(void)state;
	loop = kv_loop_new(NULL);
	net = kv_sock_net_new();
	assert_non_null(loop);
	assert_non_null(net);
	kv_log_set_sink(count_line, NULL);
	lines = 0;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_log_set_sink(NULL, NULL);
	kv_sock_net_free(net);
	kv_loop_free(loop);
	return 0;
}

static struct kv_masterd *
start(const char *listen, uint16_t port, uint16_t http_port)
{
	const struct kv_masterd_opts o = { .listen = listen,
					   .port = port,
					   .http_port = http_port };

	return kv_masterd_start(&o, loop, err, sizeof(err));
}

static void
refused(int want, const char *text, const char *listen, uint16_t port,
	uint16_t http_port)
{
	assert_null(start(listen, port, http_port));
	assert_int_equal(errno, want);
	if (text)
		assert_non_null(strstr(err, text));
	else
		assert_string_equal(err, "");
	assert_null(strchr(err, '\n'));
	/* Told once: in err, or in the log. */
	assert_int_equal(lines, text ? 0 : 1);
	lines = 0;
}

static uint16_t
port_of(const char *addr)
{
	return (uint16_t)strtoul(strrchr(addr, ':') + 1, NULL, 10);
}

static int answer;

static void
dialled(void *arg, struct kv_stream *s, int status)
{
	(void)arg;
	answer = s ? 0 : status;
	if (s)
		s->ops->close(s);
}

static int
dial(const char *host, uint16_t port)
{
	char addr[64];

	snprintf(addr, sizeof(addr), "tcp:%s:%u", host, port);
	answer = 1;
	net->connect(net, loop, addr, kv_loop_refresh(loop) + 5 * KV_NS_PER_S,
		     dialled, NULL);
	while (answer == 1)
		kv_loop_turn(loop, kv_loop_refresh(loop) + KV_NS_PER_S);
	return answer;
}

static void
listens_where_it_is_told(void **state)
{
	struct kv_masterd *d;
	uint16_t port;

	(void)state;
	d = start("127.0.0.1", 0, 0);
	assert_non_null(d);
	assert_memory_equal(kv_masterd_addr(d), "127.0.0.1:", 10);
	assert_int_equal(kv_masterd_http_port(d), 0);
	port = port_of(kv_masterd_addr(d));
	assert_int_equal(dial("127.0.0.1", port), 0);
	assert_int_equal(dial("127.0.0.2", port), -ECONNREFUSED);
	refused(EADDRINUSE, NULL, "127.0.0.1", port, 0);
	kv_masterd_free(d);
}

static void
several_addresses_have_one_port(void **state)
{
	struct kv_masterd *d, *first;
	uint16_t port;

	(void)state;
	first = start("127.0.0.1", 0, 0);
	assert_non_null(first);
	port = port_of(kv_masterd_addr(first));
	kv_masterd_free(first);
	d = start("127.0.0.1, 127.0.0.3", port, 0);
	assert_non_null(d);
	assert_int_equal(dial("127.0.0.1", port), 0);
	assert_int_equal(dial("127.0.0.3", port), 0);
	kv_masterd_free(d);
}

static void
no_address_means_all(void **state)
{
	struct kv_masterd *d = start("", 0, 0);

	(void)state;
	assert_non_null(d);
	assert_int_equal(dial("127.0.0.7", port_of(kv_masterd_addr(d))), 0);
	kv_masterd_free(d);
}

static void
lists_that_are_none(void **state)
{
	(void)state;
	refused(EINVAL, "--listen", "a b", 0, 0);
	refused(EINVAL, "--listen", "127.0.0.1,,::1", 0, 0);
	refused(EINVAL, "--listen", "1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4",
		0, 0);
	refused(EINVAL, "the port is --rpc-port", "127.0.0.1:50051", 0, 0);
	refused(EINVAL, "the port is --rpc-port", "unix:/tmp/x", 0, 0);
}

static void
http_that_cannot_listen(void **state)
{
	struct kv_masterd *d = start("127.0.0.1", 0, 0);

	(void)state;
	assert_non_null(d);
	refused(EADDRINUSE, "--http-port", "127.0.0.1", 0,
		port_of(kv_masterd_addr(d)));
	kv_masterd_free(d);
}

static int
http_start(const char *http_listen, uint16_t port, struct kv_masterd **out)
{
	const struct kv_masterd_opts o = { .listen = "127.0.0.1",
					   .http_listen = http_listen,
					   .http_port = port };

	*out = kv_masterd_start(&o, loop, err, sizeof(err));
	return *out ? 0 : -errno;
}

static void
http_listens_where_it_is_told(void **state)
{
	struct kv_masterd *d = start("127.0.0.1", 0, 0);
	uint16_t port = port_of(kv_masterd_addr(d));

	(void)state;
	kv_masterd_free(d);
	assert_int_equal(http_start(NULL, port, &d), 0);
	assert_int_equal(dial("127.0.0.1", port), 0);
	assert_int_equal(dial("127.0.0.2", port), -ECONNREFUSED);
	kv_masterd_free(d);
	assert_int_equal(http_start("127.0.0.2", port, &d), 0);
	assert_int_equal(kv_masterd_http_port(d), port);
	assert_int_equal(dial("127.0.0.2", port), 0);
	assert_int_equal(dial("127.0.0.1", port), -ECONNREFUSED);
	kv_masterd_free(d);
	assert_int_equal(http_start("", port, &d), 0);
	assert_int_equal(dial("127.0.0.1", port), 0);
	assert_int_equal(dial("127.0.0.2", port), 0);
	kv_masterd_free(d);
}

static void
http_addresses_that_are_none(void **state)
{
	struct kv_masterd *d;

	(void)state;
	assert_int_equal(http_start("127.0.0.1,127.0.0.2", 1, &d), -EINVAL);
	assert_string_equal(err, "--http-listen 127.0.0.1,127.0.0.2: one "
				 "address");
	assert_int_equal(http_start("127.0.0.1:5", 1, &d), -EINVAL);
	assert_non_null(strstr(err, "the port is --http-port"));
	assert_int_equal(http_start("a b", 1, &d), -EINVAL);
	assert_non_null(strstr(err, "--http-listen: "));
}

static bool is_done;

static void
done(void *arg)
{
	(void)arg;
	is_done = true;
}

static void
stops(void **state)
{
	struct kv_masterd *d = start("127.0.0.1", 0, 0);
	uint16_t port = port_of(kv_masterd_addr(d));

	(void)state;
	is_done = false;
	kv_masterd_stop(d, done, NULL);
	assert_false(is_done);
	while (!is_done)
		kv_loop_turn(loop, kv_loop_refresh(loop) + KV_NS_PER_S);
	assert_int_equal(dial("127.0.0.1", port), -ECONNREFUSED);
	kv_masterd_free(d);
	kv_masterd_free(NULL);
}

#define IN_LOOP(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LOOP(listens_where_it_is_told),
		IN_LOOP(several_addresses_have_one_port),
		IN_LOOP(no_address_means_all),
		IN_LOOP(lists_that_are_none),
		IN_LOOP(http_listens_where_it_is_told),
		IN_LOOP(http_addresses_that_are_none),
		IN_LOOP(http_that_cannot_listen),
		IN_LOOP(stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
