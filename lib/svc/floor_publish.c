#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/num.h"
#include "mem/seg.h"
#include "svc/floor.h"
#include "svc/floorcore.h"
#include "wire/proto.h"

/* Values go round in so much: no cache is as large. */
#define VALUES_BYTES (256ull << 20)
/* New memory is faulted in by so much at once. */
#define STEP_BYTES (1ull << 20)

/* A message that comes bit by bit. */
struct incoming {
	int fd;
	char *buf;
	size_t bytes;
	size_t have;
};

struct node {
	const struct kv_floor_publish_opts *o;
	struct kv_floor_hops hops;
	struct kv_floor_table table;
	struct kv_hash *hashes; /* of a call */
	char *values;
	size_t values_at;
	char *keys;
	size_t keys_at;
	size_t keys_ready;
	char *hop;
};

/* 1 when all of it is there, 0, or -errno. */
static int
incoming_read(struct incoming *in)
{
	ssize_t n = recv(in->fd, in->buf + in->have, in->bytes - in->have,
			 MSG_DONTWAIT);

	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	in->have += (size_t)n;
	if (in->have < in->bytes)
		return 0;
	in->have = 0;
	return 1;
}

/* ---- who keeps the values ---- */

static void
key_keep(struct node *n, const char *key)
{
	size_t end = n->keys_at + n->o->key_len;

	for (; n->keys_ready < end; n->keys_ready += STEP_BYTES)
		madvise(n->keys + n->keys_ready, STEP_BYTES,
			MADV_POPULATE_WRITE);
	memcpy(n->keys + n->keys_at, key, n->o->key_len);
	n->keys_at = end;
}

static void
value_keep(struct node *n, const char *value)
{
	if (n->values_at + n->o->bytes > VALUES_BYTES)
		n->values_at = 0;
	memcpy(n->values + n->values_at, value, n->o->bytes);
	n->values_at += n->o->bytes;
}

/* A call's keys and values lie at its end, as in a PUT. */
static void
call_keep(struct node *n, const char *call)
{
	struct kv_publish_ent *e =
		(void *)(n->hop + KV_HEADER_BYTES + sizeof(struct kv_publish));
	const char *values = call + n->hops.ask - n->o->keys * n->o->bytes;
	const char *key = values - n->o->keys * n->o->key_len;
	size_t i;

	for (i = 0; i < n->o->keys; i++, key += n->o->key_len) {
		n->hashes[i] = kv_key_hash(0, key, n->o->key_len);
		e[i].hash = kv_key_hash_build(n->hashes[i]);
		key_keep(n, key);
		value_keep(n, values + i * n->o->bytes);
	}
	kv_floor_table_add(&n->table, n->hashes, n->o->keys);
}

static int
node_init(struct node *n)
{
	uint64_t bytes = n->o->keys_max * n->o->key_len + STEP_BYTES;
	struct kv_seg *pool;
	char err[256];

	n->keys = mmap(NULL, kv_round_up_u64(bytes, STEP_BYTES),
		       PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pool = kv_floor_io_share(VALUES_BYTES, false, err, sizeof(err));
	n->values = pool ? (char *)pool->base : NULL;
	n->hashes = calloc(n->o->keys, sizeof(*n->hashes));
	n->hop = calloc(1, n->hops.hop);
	if (n->keys == MAP_FAILED || !n->values || !n->hashes || !n->hop)
		return -ENOMEM;
	return kv_floor_table_init(&n->table, n->o->keys_max);
}

static int
watch_both(int a, int b)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int epoll = kv_floor_io_watch(a);

	if (epoll >= 0)
		epoll_ctl(epoll, EPOLL_CTL_ADD, b, &ev);
	return epoll;
}

static void
node_serve(struct node *n, int fd, int master)
{
	struct incoming call = { fd, malloc(n->hops.ask), n->hops.ask, 0 };
	struct incoming word = { master, malloc(n->hops.hop_back),
				 n->hops.hop_back, 0 };
	int epoll = watch_both(fd, master), rc = node_init(n);
	char *answer = calloc(1, n->hops.back), ready;
	struct epoll_event ev[2];

	if (!call.buf || !word.buf || !answer || rc < 0 ||
	    recv(master, &ready, 1, MSG_WAITALL) != 1 ||
	    kv_floor_io_give(fd, &ready, 1) < 0)
		_exit(1);
	while (rc >= 0 && epoll_wait(epoll, ev, 2, -1) > 0) {
		rc = incoming_read(&call);
		if (rc > 0) {
			call_keep(n, call.buf);
			rc = kv_floor_io_give(master, n->hop, n->hops.hop);
		}
		if (rc >= 0)
			rc = incoming_read(&word);
		if (rc > 0)
			rc = kv_floor_io_give(fd, answer, n->hops.back);
	}
	_exit(0);
}

/* ---- who knows of them ---- */

static void
master_serve(const struct kv_floor_publish_opts *o,
	     const struct kv_floor_hops *hops, int fd)
{
	struct kv_hash *hashes = calloc(o->keys, sizeof(*hashes));
	const struct kv_publish_ent *e;
	int epoll = kv_floor_io_watch(fd);
	char *buf = malloc(hops->hop);
	struct kv_floor_table table;
	size_t i;

	if (!hashes || !buf || kv_floor_table_init(&table, o->keys_max) < 0 ||
	    kv_floor_io_give(fd, "", 1) < 0)
		_exit(1);
	e = (void *)(buf + KV_HEADER_BYTES + sizeof(struct kv_publish));
	while (kv_floor_io_take(epoll, fd, buf, hops->hop) == 0) {
		for (i = 0; i < o->keys; i++)
			hashes[i] = kv_key_hash_parse(e[i].hash);
		kv_floor_table_add(&table, hashes, o->keys);
		if (kv_floor_io_give(fd, buf, hops->hop_back) < 0)
			break;
	}
	_exit(0);
}

/* ---- who puts ---- */

struct requester {
	const struct kv_floor_publish_opts *o;
	struct kv_floor_hops hops;
	int fd;
	int epoll;
	char *call;
	char *answer;
	pid_t pids[2];
};

static int
call_send(struct requester *r, uint64_t first)
{
	char *key = r->call + r->hops.ask -
		    r->o->keys * (r->o->bytes + r->o->key_len);
	size_t i;

	for (i = 0; i < r->o->keys; i++, key += r->o->key_len)
		r->o->key(r->o->arg, first + i, key);
	return kv_floor_io_give(r->fd, r->call, r->hops.ask);
}

static int64_t
calls_run(struct requester *r, uint64_t ns, uint64_t *keys)
{
	uint64_t start = kv_floor_io_now(), sent = 0;
	const size_t n = r->o->keys;
	int rc = 0;

	*keys = 0;
	for (;;) {
		while (rc == 0 && sent - *keys < n * r->o->flight &&
		       sent + n <= r->o->keys_max &&
		       kv_floor_io_now() - start < ns) {
			rc = call_send(r, r->o->first + sent);
			sent += n;
		}
		if (rc < 0 || sent == *keys)
			break;
		rc = kv_floor_io_take(r->epoll, r->fd, r->answer, r->hops.back);
		*keys += n;
	}
	return rc < 0 ? rc : (int64_t)(kv_floor_io_now() - start);
}

/* Sockets of the others are closed here, so that each hears of the other's
 * end. */
static int
processes_start(struct requester *r, int near, const int next[2])
{
	struct node node = { .o = r->o, .hops = r->hops };

	r->pids[0] = kv_floor_io_fork();
	if (r->pids[0] == 0) {
		close(r->fd);
		close(next[1]);
		node_serve(&node, near, next[0]);
	}
	if (r->pids[0] < 0)
		return -errno;
	r->pids[1] = kv_floor_io_fork();
	if (r->pids[1] == 0) {
		close(r->fd);
		close(near);
		close(next[0]);
		master_serve(r->o, &r->hops, next[1]);
	}
	return r->pids[1] < 0 ? -errno : 0;
}

static int
requester_open(struct requester *r)
{
	int near[2], next[2], rc;
	char ready;

	r->call = calloc(1, r->hops.ask);
	r->answer = malloc(r->hops.back);
	if (!r->call || !r->answer)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, near) < 0)
		return -errno;
	r->fd = near[0];
	rc = kv_floor_io_pair(next);
	if (rc == 0) {
		rc = processes_start(r, near[1], next);
		close(next[0]);
		close(next[1]);
	}
	close(near[1]);
	r->epoll = kv_floor_io_watch(r->fd);
	if (rc == 0 && r->epoll < 0)
		rc = -errno;
	return rc < 0 ? rc : kv_floor_io_take(r->epoll, r->fd, &ready, 1);
}

static void
requester_close(struct requester *r)
{
	kv_floor_io_end(r->pids[0]);
	kv_floor_io_end(r->pids[1]);
	if (r->fd >= 0)
		close(r->fd);
	if (r->epoll >= 0)
		close(r->epoll);
	free(r->call);
	free(r->answer);
}

int64_t
kv_floor_publish(const struct kv_floor_publish_opts *o, uint64_t ns,
		 uint64_t *keys)
{
	struct requester r = {
		.o = o,
		.hops = kv_floor_hops_put(o->keys, o->key_len, o->bytes),
		.fd = -1,
		.epoll = -1,
	};
	int64_t rc = requester_open(&r);

	if (rc == 0)
		rc = calls_run(&r, ns, keys);
	requester_close(&r);
	return rc;
}
