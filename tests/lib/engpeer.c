#include "engpeer.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

struct order {
	enum engpeer_op op;
	uint64_t addr, len, seed;
};

/*
 * ---- the pattern ----
 *
 * Who reads and writes it here is ordered with the engine's thread by messages
 * through another process, which ThreadSanitizer cannot know.
 */
#define UNSEEN __attribute__((no_sanitize("thread")))

UNSEEN static uint64_t
word_at(uint64_t seed, uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u ^ seed;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return x ^ x >> 32;
}

UNSEEN void
engpeer_fill(void *p, uint64_t at, size_t len, uint64_t seed)
{
	uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		b[i] = (uint8_t)(word_at(seed, (at + i) / 8) >>
				 ((at + i) % 8 * 8));
}

UNSEEN uint64_t
engpeer_verify(const void *p, uint64_t at, size_t len, uint64_t seed)
{
	const uint8_t *b = p;
	uint64_t wrong = 0;

	for (size_t i = 0; i < len; i++)
		wrong += b[i] != (uint8_t)(word_at(seed, (at + i) / 8) >>
					   ((at + i) % 8 * 8));
	return wrong;
}

/* ---- the other process ---- */

static void *
new_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	return p;
}

static int64_t
fetch_notes(struct kv_engine *e)
{
	struct kv_note_in in[64];
	long n, all = 0, last = 0;

	while ((n = kv_engine_notes(e, in, 64)) > 0)
		for (long i = 0; i < n; i++) {
			last = strtol(in[i].text, NULL, 10);
			free(in[i].text);
			all++;
		}
	return all << 32 | last;
}

/* ---- as a client ---- */

static char met[32];

static int
client_write(struct kv_engine *e, const struct order *o, bool again)
{
	uint8_t *p = new_memory(o->len);
	struct kv_xfer_item item = { p, o->addr, o->len };
	int rc;

	engpeer_fill(p, 0, o->len, o->seed);
	do
		rc = kv_engine_transfer(e, KV_ENGINE_WRITE, met, &item, 1, 0);
	while (rc == 0 && again);
	munmap(p, o->len);
	return rc;
}

static int
client_read(struct kv_engine *e, const struct order *o)
{
	uint8_t *p = new_memory(o->len);
	struct kv_xfer_item item = { p, o->addr, o->len };
	int rc = kv_engine_transfer(e, KV_ENGINE_READ, met, &item, 1, 0);

	if (rc == 0 && engpeer_verify(p, 0, o->len, o->seed))
		rc = 1;
	munmap(p, o->len);
	return rc;
}

static int
client_path(struct kv_engine *e)
{
	char path[256];
	int rc = kv_engine_path(e, met, path, sizeof(path));

	return rc ? rc : path[0];
}

static int
deny(uint32_t a, uint32_t b)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, a, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, b, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) ? -errno : 0;
}

static int64_t
obey_client(struct kv_engine *e, const struct order *o)
{
	switch (o->op) {
	case ENGPEER_MEET:
		snprintf(met, sizeof(met), "127.0.0.1:%d", (int)o->addr);
		return 0;
	case ENGPEER_WRITE:
		return client_write(e, o, false);
	case ENGPEER_FLOOD:
		return client_write(e, o, true);
	case ENGPEER_READ:
		return client_read(e, o);
	case ENGPEER_PATH:
		return client_path(e);
	case ENGPEER_DENY:
		return deny((uint32_t)o->addr, (uint32_t)o->len);
	default:
		return -KV_EINTERNAL;
	}
}

static int64_t
obey(struct kv_engine *e, const struct order *o)
{
	void *p = (void *)(uintptr_t)o->addr;

	switch (o->op) {
	case ENGPEER_MAP:
		return (int64_t)(uintptr_t)new_memory(o->len);
	case ENGPEER_REGISTER:
		return kv_engine_register(e, p, o->len);
	case ENGPEER_UNREGISTER:
		return kv_engine_unregister(e, p);
	case ENGPEER_ALLOC:
		return (int64_t)(uintptr_t)kv_engine_alloc(e, o->len);
	case ENGPEER_FREE:
		return kv_engine_free(e, p);
	case ENGPEER_FILL:
		engpeer_fill(p, 0, o->len, o->seed);
		return 0;
	case ENGPEER_VERIFY:
		return (int64_t)engpeer_verify(p, 0, o->len, o->seed);
	case ENGPEER_NOTES:
		return fetch_notes(e);
	case ENGPEER_UNMAP:
		return munmap(p, o->len);
	default:
		return obey_client(e, o);
	}
}

static int
serve(int fd, const struct engpeer_opts *opts)
{
	struct kv_engine_opts eo = opts->engine;
	struct kv_engine *e;
	struct order o;
	char err[256];
	int64_t answer = getpid();

	if (opts->prepare && opts->prepare())
		return 1;
	eo.size = sizeof(eo);
	if (!eo.listen)
		eo.listen = "127.0.0.1:0";
	e = kv_engine_open(&eo, err, sizeof(err));
	if (!e) {
		fprintf(stderr, "peer: %s\n", err);
		return 1;
	}
	send(fd, &answer, sizeof(answer), 0);
	answer = kv_engine_port(e);
	while (send(fd, &answer, sizeof(answer), 0) == sizeof(answer) &&
	       recv(fd, &o, sizeof(o), 0) == sizeof(o) && o.op != ENGPEER_STOP)
		answer = obey(e, &o);
	kv_engine_close(e);
	return 0;
}

/* ---- the process that makes them ---- */

struct wish {
	struct engpeer_opts opts;
	char listen[32]; /* "": any port */
};

static int maker_fd;

/* Left alone by its parent it is this test's child, and ends with it. */
static void
become_peer(int fd, struct wish *w, pid_t test)
{
	while (getppid() != test)
		usleep(100);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (w->listen[0])
		w->opts.engine.listen = w->listen;
	_exit(serve(fd, &w->opts));
}

static bool
receive_wish(int from, struct wish *w, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { w, sizeof(*w) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};

	if (recvmsg(from, &msg, MSG_CMSG_CLOEXEC) != sizeof(*w))
		return false;
	memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(*fd));
	return true;
}

static void
send_wish(const struct wish *w, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct wish copy = *w;
	struct iovec iov = { &copy, sizeof(copy) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	assert_int_equal(sendmsg(maker_fd, &msg, MSG_NOSIGNAL), sizeof(copy));
}

static void
make_peers(int from, pid_t test)
{
	struct wish w = { 0 };
	int fd = -1;

	while (receive_wish(from, &w, &fd)) {
		pid_t pid = fork();

		if (pid == 0 && fork() == 0)
			become_peer(fd, &w, test);
		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
		close(fd);
	}
	_exit(0);
}

void
engpeer_init(void)
{
	pid_t test = getpid();
	int pair[2];

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fflush(NULL);
	if (fork() == 0) {
		close(pair[0]);
		make_peers(pair[1], test);
	}
	close(pair[1]);
	maker_fd = pair[0];
}

/* ---- this process ---- */

static bool
start_at(struct engpeer *p, const struct engpeer_opts *opts, const char *addr)
{
	struct wish w = { .opts = opts ? *opts : (struct engpeer_opts){ 0 } };
	const struct timeval patience = { .tv_sec = 60 };
	int64_t pid, port;
	int pair[2];
	bool ok;

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	snprintf(w.listen, sizeof(w.listen), "%s", addr);
	send_wish(&w, pair[1]);
	close(pair[1]);
	p->fd = pair[0];
	setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	ok = recv(p->fd, &pid, sizeof(pid), 0) == sizeof(pid) &&
	     recv(p->fd, &port, sizeof(port), 0) == sizeof(port);
	if (!ok) {
		close(p->fd);
		return false;
	}
	p->pid = (pid_t)pid;
	snprintf(p->addr, sizeof(p->addr), "127.0.0.1:%d", (int)port);
	return true;
}

bool
engpeer_start(struct engpeer *p, const struct engpeer_opts *opts)
{
	return start_at(p, opts, "");
}

bool
engpeer_restart(struct engpeer *p, const struct engpeer_opts *opts)
{
	char addr[sizeof(p->addr)];

	memcpy(addr, p->addr, sizeof(addr));
	return start_at(p, opts, addr);
}

void
engpeer_expect_exit(pid_t pid, int code)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), code);
}

void
engpeer_stop(struct engpeer *p)
{
	struct order o = { .op = ENGPEER_STOP };

	assert_int_equal(send(p->fd, &o, sizeof(o), MSG_NOSIGNAL), sizeof(o));
	engpeer_expect_exit(p->pid, 0);
	close(p->fd);
}

void
engpeer_kill(struct engpeer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->fd);
}

void
engpeer_tell(const struct engpeer *p, enum engpeer_op op, uint64_t addr,
	     uint64_t len, uint64_t seed)
{
	struct order o = { .op = op, .addr = addr, .len = len, .seed = seed };

	assert_int_equal(send(p->fd, &o, sizeof(o), MSG_NOSIGNAL), sizeof(o));
}

int64_t
engpeer_answer(const struct engpeer *p)
{
	int64_t answer = 0;

	assert_int_equal(recv(p->fd, &answer, sizeof(answer), 0),
			 sizeof(answer));
	return answer;
}

int64_t
engpeer_do(const struct engpeer *p, enum engpeer_op op, uint64_t addr,
	   uint64_t len, uint64_t seed)
{
	engpeer_tell(p, op, addr, len, seed);
	return engpeer_answer(p);
}

uint64_t
engpeer_region(const struct engpeer *p, uint64_t len)
{
	uint64_t addr = (uint64_t)engpeer_do(p, ENGPEER_MAP, 0, len, 0);

	assert_int_not_equal(addr, 0);
	assert_int_equal(engpeer_do(p, ENGPEER_REGISTER, addr, len, 0), 0);
	return addr;
}

struct kv_engine *
engpeer_open(const struct kv_engine_opts *opts)
{
	struct kv_engine_opts o = opts ? *opts : (struct kv_engine_opts){ 0 };
	struct kv_engine *e;
	char err[256] = "";

	o.size = sizeof(o);
	if (!o.listen)
		o.listen = "127.0.0.1:0";
	e = kv_engine_open(&o, err, sizeof(err));
	if (!e)
		fail_msg("%s", err);
	return e;
}
