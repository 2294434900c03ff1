/* A server that runs out of descriptors. */

#include "net/sock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#include "netpair.h"
#include "test.h"

enum {
	FILES = 64,
	STRANGERS = 200
};

static int
port_of(const char *bound)
{
	return atoi(strrchr(bound, ':') + 1);
}

struct log_counts {
	int limits, recoveries, others;
};

static void
count_log(void *arg, enum kv_log_level level, const char *msg)
{
	struct log_counts *c = arg;

	(void)level;
	if (strstr(msg, "all 64 file descriptors") && strstr(msg, "ulimit -n"))
		c->limits++;
	else if (strstr(msg, "new connections on"))
		c->recoveries++;
	else
		c->others++;
}

/* The server under test: all that it has accepted. */
struct crowd {
	struct netpair *p;
	struct kv_stream *streams[FILES];
	int n;
};

static void
on_crowd(void *arg, struct kv_stream *s, const struct kv_peer *peer)
{
	struct crowd *c = arg;

	(void)peer;
	assert_true(c->n < FILES);
	c->streams[c->n++] = s;
}

static int
connect_port(int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&in, sizeof(in)))
		_exit(10);
	return fd;
}

/* Connects once, talks, then 200 times, waits, talks on the first one. */
static _Noreturn void
be_strangers(int port, int go)
{
	int fds[1 + STRANGERS];
	char c;

	for (int i = 0; i <= STRANGERS; i++)
		fds[i] = connect_port(port);
	if (read(go, &c, 1) != 1 || write(fds[0], "x", 1) != 1 ||
	    read(fds[0], &c, 1) != 1)
		_exit(11);
	_exit(0);
}

static void
run_for(struct netpair *p, unsigned ms)
{
	uint64_t end = kv_loop_refresh(p->loop) + ms * KV_NS_PER_MS;

	while (kv_loop_refresh(p->loop) < end)
		assert_true(kv_loop_turn(p->loop, end) >= 0);
}

static uint64_t
cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

static void
close_crowd(struct crowd *c)
{
	while (c->n > 0)
		netpair_close_stream(&c->streams[--c->n]);
}

static void
without_descriptors_it_serves_whom_it_has_and_rests(void **state)
{
	struct rlimit limit, low = { .rlim_cur = FILES };
	struct log_counts logs = { 0 };
	struct crowd crowd = { 0 };
	struct netpair p;
	char bound[KV_NET_BOUND_BYTES], c;
	int go[2], err = 0, status = -1;
	uint64_t cpu;
	pid_t pid;

	(void)state;
	netpair_listen(&p, "127.0.0.1:0");
	p.net->unlisten(p.net, p.listener);
	p.listener = p.net->listen(p.net, p.loop, "127.0.0.1:0", on_crowd,
				   &crowd, bound, &err);
	assert_non_null(p.listener);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = fork();
	if (!pid)
		be_strangers(port_of(bound), go[0]);
	getrlimit(RLIMIT_NOFILE, &limit);
	low.rlim_max = limit.rlim_max;
	kv_log_set_level(KV_LOG_INFO);
	kv_log_set_sink(count_log, &logs);
	setrlimit(RLIMIT_NOFILE, &low);
	NETPAIR_WAIT(&p, logs.limits == 1);
	assert_in_range(crowd.n, 20, FILES);
	cpu = cpu_ms();
	run_for(&p, 500);
	assert_true(cpu_ms() - cpu < 100);
	/* The old connection is served, all the time. */
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(netpair_read(&p, crowd.streams[0], &c, 1), 1);
	assert_int_equal(netpair_write(crowd.streams[0], "y"), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(logs.limits + logs.recoveries + logs.others, 1);
	/* They go, and all is well without a restart. */
	close_crowd(&crowd);
	assert_int_equal(netpair_dial(&p, bound, 5000), 0);
	NETPAIR_WAIT(&p, logs.recoveries == 1);
	setrlimit(RLIMIT_NOFILE, &limit);
	kv_log_set_sink(NULL, NULL);
	assert_int_equal(logs.limits + logs.recoveries + logs.others, 2);
	close_crowd(&crowd);
	close(go[0]);
	close(go[1]);
	netpair_close(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		NETPAIR_TIGHT(
			without_descriptors_it_serves_whom_it_has_and_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
