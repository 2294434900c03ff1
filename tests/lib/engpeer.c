#include "engpeer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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

	return p == MAP_FAILED ? NULL : p;
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
	case ENGPEER_PROTECT:
		return mprotect(p, o->len, PROT_NONE);
	case ENGPEER_STOP:
		break;
	}
	return 0;
}

/* Ends with the process that started it. */
static int
serve(int fd, const struct engpeer_opts *opts)
{
	struct kv_engine_opts eo = opts->engine;
	struct kv_engine *e;
	struct order o;
	char err[256];
	int64_t answer;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
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
	answer = kv_engine_port(e);
	while (send(fd, &answer, sizeof(answer), 0) == sizeof(answer) &&
	       recv(fd, &o, sizeof(o), 0) == sizeof(o) && o.op != ENGPEER_STOP)
		answer = obey(e, &o);
	kv_engine_close(e);
	return 0;
}

/* ---- this process ---- */

static bool
start_at(struct engpeer *p, const struct engpeer_opts *opts)
{
	static const struct engpeer_opts plain;
	int pair[2];
	int64_t port;

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fflush(NULL);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (p->pid == 0) {
		close(pair[0]);
		_exit(serve(pair[1], opts ? opts : &plain));
	}
	close(pair[1]);
	p->fd = pair[0];
	if (recv(p->fd, &port, sizeof(port), 0) == sizeof(port)) {
		snprintf(p->addr, sizeof(p->addr), "127.0.0.1:%d", (int)port);
		return true;
	}
	engpeer_kill(p);
	return false;
}

bool
engpeer_start(struct engpeer *p, const struct engpeer_opts *opts)
{
	return start_at(p, opts);
}

bool
engpeer_restart(struct engpeer *p, const struct engpeer_opts *opts)
{
	struct engpeer_opts same = opts ? *opts : (struct engpeer_opts){ 0 };
	char addr[sizeof(p->addr)];

	memcpy(addr, p->addr, sizeof(addr));
	same.engine.listen = addr;
	return start_at(p, &same);
}

void
engpeer_stop(struct engpeer *p)
{
	struct order o = { .op = ENGPEER_STOP };
	int status = -1;

	assert_int_equal(send(p->fd, &o, sizeof(o), MSG_NOSIGNAL), sizeof(o));
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	assert_int_equal(status, 0);
	close(p->fd);
}

void
engpeer_kill(struct engpeer *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->fd);
}

int64_t
engpeer_do(const struct engpeer *p, enum engpeer_op op, uint64_t addr,
	   uint64_t len, uint64_t seed)
{
	struct order o = { .op = op, .addr = addr, .len = len, .seed = seed };
	int64_t answer = 0;

	assert_int_equal(send(p->fd, &o, sizeof(o), MSG_NOSIGNAL), sizeof(o));
	assert_int_equal(recv(p->fd, &answer, sizeof(answer), 0),
			 sizeof(answer));
	return answer;
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
