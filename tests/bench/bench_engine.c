/*
 * Raw transfers between two processes of this host, 32 KiB pieces, by each
 * path, beside what it cannot beat: a bare process_vm_writev() loop, copies
 * within one process, a plain TCP connection.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/log.h"
#include "kvpool.h"
#include "mem/copy.h"

#define PIECE   32768
#define PIECES  10000
#define BYTES   ((size_t)PIECES * PIECE)
#define ROUNDS  5
#define VEC     1024
#define THREADS 8

struct target {
	pid_t pid;
	uint64_t plain, own; /* addresses there */
	int64_t port, sink_port;
	int pipe[2];
};

static struct target target;
static struct kv_xfer_item items[PIECES];
static char *local;

static void
check(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static char *
area_new(void)
{
	char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(p != MAP_FAILED, "mmap");
	madvise(p, BYTES, MADV_HUGEPAGE);
	memset(p, 1, BYTES);
	return p;
}

/* ---- the other process ---- */

static void
sink(int listener, char *to)
{
	int fd = accept(listener, NULL, NULL);
	size_t at = 0;
	ssize_t n;
	char ack = 1;

	while ((n = recv(fd, to + at, BYTES - at, 0)) > 0) {
		at += (size_t)n;
		if (at == BYTES) {
			at = 0;
			check(send(fd, &ack, 1, 0) == 1, "send");
		}
	}
	exit(0);
}

static int
listen_any(int64_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	check(fd >= 0 && !bind(fd, (void *)&a, len) && !listen(fd, 1) &&
		      !getsockname(fd, (void *)&a, &len),
	      "listen");
	*port = ntohs(a.sin_port);
	return fd;
}

static void
run_target(void)
{
	struct kv_engine_opts opts = {
		.size = sizeof(opts),
		.listen = "127.0.0.1:0",
	};
	char err[256], *plain = area_new();
	struct kv_engine *e;
	int listener;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	e = kv_engine_open(&opts, err, sizeof(err));
	check(e && !kv_engine_register(e, plain, BYTES), "engine");
	target.plain = (uintptr_t)plain;
	target.own = (uintptr_t)kv_engine_alloc(e, BYTES);
	check(target.own, "alloc");
	target.port = kv_engine_port(e);
	listener = listen_any(&target.sink_port);
	target.pid = getpid();
	check(write(target.pipe[1], &target, sizeof(target)) == sizeof(target),
	      "write");
	sink(listener, plain);
}

/* ---- floors ---- */

static void
floor_writev(size_t from, size_t to)
{
	struct iovec here[VEC], there[VEC];

	while (from < to) {
		size_t n = 0;

		for (; n < VEC && from < to; n++, from++) {
			here[n] = (struct iovec){ items[from].local, PIECE };
			there[n] = (struct iovec){
				(void *)(uintptr_t)items[from].remote, PIECE
			};
		}
		check(process_vm_writev(target.pid, here, n, there, n, 0) ==
			      (ssize_t)(n * PIECE),
		      "process_vm_writev");
	}
}

static char *copy_to;

static void
floor_copy(size_t from, size_t to)
{
	for (; from < to; from++)
		kv_copy(copy_to + from * PIECE, items[from].local, PIECE);
}

struct part {
	pthread_t thread;
	void (*fn)(size_t from, size_t to);
	size_t from, to;
};

static void *
run_part(void *arg)
{
	struct part *p = arg;

	p->fn(p->from, p->to);
	return NULL;
}

static void
with_threads(void (*fn)(size_t from, size_t to), unsigned n)
{
	struct part parts[THREADS];

	for (unsigned i = 0; i < n; i++) {
		parts[i] = (struct part){ .fn = fn,
					  .from = PIECES * i / n,
					  .to = PIECES * (i + 1) / n };
		if (i + 1 < n)
			pthread_create(&parts[i].thread, NULL, run_part,
				       &parts[i]);
		else
			run_part(&parts[i]);
	}
	for (unsigned i = 0; i + 1 < n; i++)
		pthread_join(parts[i].thread, NULL);
}

static int
dial_sink(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons((uint16_t)target.sink_port);
	check(!connect(fd, (void *)&a, sizeof(a)), "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void
floor_stream(int fd)
{
	char ack;

	for (size_t at = 0; at < BYTES;) {
		struct iovec iov[64];
		size_t n = 0, first = at / PIECE;
		ssize_t sent;

		for (; n < 64 && first + n < PIECES; n++)
			iov[n] =
				(struct iovec){ items[first + n].local, PIECE };
		iov[0].iov_base = (char *)iov[0].iov_base + at % PIECE;
		iov[0].iov_len -= at % PIECE;
		sent = writev(fd, iov, (int)n);
		check(sent > 0, "writev");
		at += (size_t)sent;
	}
	check(recv(fd, &ack, 1, 0) == 1, "recv");
}

/* ---- measuring ---- */

static uint64_t
now(void)
{
	static const struct kv_clock clock_real;

	return kv_clock_now(&clock_real);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare);
	return v[ROUNDS / 2];
}

enum way {
	ATTACH,
	SHM,
	TCP,
};

static void
set_remote(uint64_t base)
{
	for (size_t i = 0; i < PIECES; i++)
		items[i].remote = base + (i * 7919 % PIECES) * PIECE;
}

static double
floor_round(enum way way, unsigned threads, int fd)
{
	uint64_t start = now();

	if (way == ATTACH)
		with_threads(floor_writev, threads);
	else if (way == SHM)
		with_threads(floor_copy, threads);
	else
		floor_stream(fd);
	return (double)BYTES / (double)(now() - start);
}

static double
engine_round(struct kv_engine *e, enum kv_engine_op op, const char *addr)
{
	uint64_t start = now();
	int rc = kv_engine_transfer(e, op, addr, items, PIECES, 0);

	if (rc) {
		fprintf(stderr, "transfer: %s\n", kv_status_text(rc));
		exit(1);
	}
	return (double)BYTES / (double)(now() - start);
}

static void
measure(enum way way, unsigned threads)
{
	static const char *const names[] = { "raw_write", "raw_write_own",
					     "raw_write_tcp" };
	struct kv_engine_opts opts = {
		.size = sizeof(opts),
		.listen = "127.0.0.1:0",
		.no_attach = way != ATTACH,
		.copy_threads = threads,
	};
	double floors[ROUNDS], rates[ROUNDS], reads[ROUNDS];
	char err[256], addr[32];
	struct kv_engine *e = kv_engine_open(&opts, err, sizeof(err));
	int fd = way == TCP ? dial_sink() : -1;

	check(e, "kv_engine_open");
	snprintf(addr, sizeof(addr), "127.0.0.1:%d", (int)target.port);
	set_remote(way == SHM ? target.own : target.plain);
	engine_round(e, KV_ENGINE_WRITE, addr);
	for (int i = 0; i < ROUNDS; i++) {
		floors[i] = floor_round(way, threads, fd);
		rates[i] = engine_round(e, KV_ENGINE_WRITE, addr);
		reads[i] = engine_round(e, KV_ENGINE_READ, addr);
	}
	printf("%-14s %u thread%s %6.2f GB/s, floor %6.2f, ratio %.2f; read "
	       "%6.2f\n",
	       names[way], threads, threads > 1 ? "s" : " ", median(rates),
	       median(floors), median(rates) / median(floors), median(reads));
	kv_engine_close(e);
	if (fd >= 0)
		close(fd);
}

int
main(void)
{
	kv_log_set_level(KV_LOG_WARN);
	check(!pipe(target.pipe), "pipe");
	if (fork() == 0)
		run_target();
	check(read(target.pipe[0], &target, sizeof(target)) == sizeof(target),
	      "read");
	local = area_new();
	copy_to = area_new();
	for (size_t i = 0; i < PIECES; i++)
		items[i] = (struct kv_xfer_item){
			.local = local + (i * 4729 % PIECES) * PIECE,
			.len = PIECE,
		};
	for (unsigned threads = 1; threads <= 2; threads++) {
		measure(ATTACH, threads);
		measure(SHM, threads);
	}
	measure(TCP, 1);
	kill(target.pid, SIGKILL);
	return 0;
}
