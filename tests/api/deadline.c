/*
 * What a call does when no owner answers, or no master.
 *
 *	deadline MASTER PID...
 *
 * MASTER has the nodes of these processes, which are stopped for a while.
 */
#include <arpa/inet.h>
#include <kvpool.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

enum {
	TIMEOUT_MS = 500,
	SLACK_MS = 2000, /* a busy machine */
	OPEN_SLACK_MS = 1200,
	BYTES = 1 << 20,
};

static char value[BYTES], got[BYTES];
static long begin_ms;

static long
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void
signal_all(char **pids, int sig)
{
	for (; *pids; pids++)
		EXPECT(kill(atoi(*pids), sig), 0);
}

/* A short wait ends by itself, the call by its deadline. Returns when. */
static long
ends(struct kv_op *op)
{
	long result, ms;
	int rc;

	EXPECT(op != NULL, 1);
	do
		rc = kv_op_wait(op, 50, &result);
	while (rc == -KV_ETIMEOUT);
	EXPECT(rc, 0);
	EXPECT(result, 0);
	ms = now_ms() - begin_ms;
	EXPECT(ms < TIMEOUT_MS + SLACK_MS, 1);
	return ms;
}

/* case-014: four masters to which one can connect, and which never answer. */
static void
test_open(void)
{
	char masters[128] = "", err[256];
	const struct kv_client_opts o = {
		.size = sizeof(o),
		.master = masters,
		.socket = "",
		.timeout_ms = 60000,
		.open_timeout_ms = TIMEOUT_MS,
	};
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int fd[4], at = 0;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 4; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		a.sin_port = 0;
		EXPECT(bind(fd[i], (struct sockaddr *)&a, sizeof(a)), 0);
		EXPECT(listen(fd[i], 16), 0);
		EXPECT(getsockname(fd[i], (struct sockaddr *)&a, &len), 0);
		at += snprintf(masters + at, sizeof(masters) - (size_t)at,
			       "%s127.0.0.1:%d", at ? "," : "",
			       ntohs(a.sin_port));
	}
	begin_ms = now_ms();
	EXPECT(kv_client_open(&o, err, sizeof(err)) == NULL, 1);
	EXPECT(now_ms() - begin_ms < TIMEOUT_MS + OPEN_SLACK_MS, 1);
	for (int i = 0; i < 4; i++)
		close(fd[i]);
}

int
main(int argc, char **argv)
{
	const struct kv_client_opts o = {
		.size = sizeof(o),
		.master = argv[1],
		.socket = "",
		.timeout_ms = TIMEOUT_MS,
	};
	struct kv_buf from = { value, BYTES }, to = { got, BYTES };
	struct kv_put_item p = { .key = { "stopped", 7 },
				 .bufs = &from,
				 .nbufs = 1 };
	struct kv_get_item g = { .key = { "there", 5 },
				 .bufs = &to,
				 .nbufs = 1 };
	struct kv_op *put, *get;
	struct kv_client *c;
	char err[256];
	long result, ms;

	EXPECT(argc > 2, 1);
	test_open();
	c = kv_client_open(&o, err, sizeof(err));
	EXPECT(c != NULL, 1);
	EXPECT(kv_client_put_one(c, "there", 5, value, BYTES), 0);
	signal_all(argv + 2, SIGSTOP);
	begin_ms = now_ms();
	get = kv_client_get_submit(c, &g, 1, NULL);
	put = kv_client_put_submit(c, &p, 1, NULL);
	EXPECT(kv_op_wait(get, 50, &result), -KV_ETIMEOUT);
	ms = now_ms() - begin_ms;
	EXPECT(ms >= 50, 1);
	EXPECT(ms < 50 + SLACK_MS, 1);
	ms = ends(put);
	/* The deadline is named when it has passed, and only then. */
	if (p.status == -KV_ETIMEOUT)
		EXPECT(ms >= TIMEOUT_MS, 1);
	else
		EXPECT(p.status, -KV_EUNREACHABLE);
	ends(get);
	EXPECT(g.status == -KV_EMISS || g.status == -KV_ETIMEOUT, 1);
	signal_all(argv + 2, SIGCONT);
	EXPECT(kv_client_remove(c, &g.key, 1, 0, NULL, NULL), 1);
	kv_client_close(c);
	return 0;
}
