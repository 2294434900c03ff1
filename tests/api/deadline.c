/*
 * What a call does when no owner answers, or no master.
 *
 *	deadline MASTER PID...
 *
 * MASTER has the nodes of these processes, which are stopped for a while.
 */
#include <arpa/inet.h>
#include <kvpool.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
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

static int
port_open(struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*a);

	*a = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	EXPECT(bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	EXPECT(listen(fd, 16), 0);
	EXPECT(getsockname(fd, (struct sockaddr *)a, &len), 0);
	return fd;
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
	struct sockaddr_in a;
	int fd[4], at = 0;

	for (int i = 0; i < 4; i++) {
		fd[i] = port_open(&a);
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

/* ---- a master that is far away ---- */

enum {
	FAR_US = 20000
};

struct far {
	int listener;
	struct sockaddr_in master;
};

/* What comes from one goes to the other, later. False: it has ended. */
static bool
pass_on(int from, int to)
{
	char bytes[65536];
	ssize_t n = recv(from, bytes, sizeof(bytes), 0);

	usleep(FAR_US);
	return n > 0 && send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

/* One connection after the other, until the listener is shut. */
static void *
far_run(void *arg)
{
	struct far *f = arg;
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
	bool is_open;

	while ((p[0].fd = accept(f->listener, NULL, NULL)) >= 0) {
		p[1].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		is_open = connect(p[1].fd, (struct sockaddr *)&f->master,
				  sizeof(f->master)) == 0;
		while (is_open && poll(p, 2, -1) > 0)
			is_open =
				(!p[0].revents || pass_on(p[0].fd, p[1].fd)) &&
				(!p[1].revents || pass_on(p[1].fd, p[0].fd));
		close(p[0].fd);
		close(p[1].fd);
	}
	return NULL;
}

/* What calls may take says nothing of what the opening may. */
static void
test_open_far(const char *master)
{
	char addr[64], err[256];
	const struct kv_client_opts o = {
		.size = sizeof(o),
		.master = addr,
		.socket = "",
		.timeout_ms = FAR_US / 1000,
		.open_timeout_ms = 9000,
	};
	struct far f = { .master.sin_family = AF_INET };
	struct sockaddr_in a;
	struct kv_client *c;
	pthread_t thread;

	f.listener = port_open(&a);
	f.master.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	f.master.sin_port = htons((uint16_t)atoi(strrchr(master, ':') + 1));
	snprintf(addr, sizeof(addr), "127.0.0.1:%d", ntohs(a.sin_port));
	EXPECT(pthread_create(&thread, NULL, far_run, &f), 0);
	c = kv_client_open(&o, err, sizeof(err));
	EXPECT(c != NULL, 1);
	kv_client_close(c);
	shutdown(f.listener, SHUT_RDWR);
	EXPECT(pthread_join(thread, NULL), 0);
	close(f.listener);
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
	test_open_far(argv[1]);
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
