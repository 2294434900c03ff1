#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "svc/floor.h"
#include "svc/floorcore.h"
#include "wire/proto.h"

#define CHAIN_MAX (1u << 20)

/* ---- as many bytes as the protocol has ---- */

struct kv_floor_hops
kv_floor_hops_put(size_t keys, size_t key_len, size_t bytes)
{
	return (struct kv_floor_hops){
		.ask = KV_HEADER_BYTES + sizeof(struct kv_put) +
		       keys * (sizeof(struct kv_put_ent) + key_len + bytes),
		.hop = KV_HEADER_BYTES + sizeof(struct kv_publish) +
		       keys * sizeof(struct kv_publish_ent),
		.hop_back =
			KV_HEADER_BYTES + sizeof(struct kv_publish_r) + keys,
		.back = KV_HEADER_BYTES + sizeof(struct kv_put_r) + keys,
	};
}

struct kv_floor_hops
kv_floor_hops_get(size_t key_len, size_t bytes)
{
	return (struct kv_floor_hops){
		.ask = KV_HEADER_BYTES + sizeof(struct kv_get) +
		       sizeof(struct kv_get_ent) + key_len,
		.back = KV_HEADER_BYTES + sizeof(struct kv_get_r) +
			sizeof(struct kv_get_ent_r) + bytes,
	};
}

struct kv_floor_hops
kv_floor_hops_exist(size_t keys)
{
	return (struct kv_floor_hops){
		.is_tcp = true,
		.ask = KV_HEADER_BYTES + sizeof(struct kv_lookup) +
		       keys * sizeof(struct kv_id),
		.back = KV_HEADER_BYTES + sizeof(struct kv_lookup_r) + keys,
	};
}

/* ---- the processes ---- */

/* The end of a hop. */
struct ear {
	int fd;
	int epoll;
	bool is_awake;
	bool is_brisk;
};

static struct ear
ear_make(int fd, bool is_awake)
{
	return (struct ear){ .fd = fd,
			     .epoll = fd >= 0 ? kv_floor_io_watch(fd) : -1,
			     .is_awake = is_awake };
}

static int
hear(struct ear *e, void *buf, size_t n)
{
	int rc = e->is_awake ? kv_floor_io_wait_awake(e->epoll, &e->is_brisk)
			     : kv_floor_io_wait(e->epoll);

	return rc < 0 ? rc : kv_floor_io_take(e->epoll, e->fd, buf, n);
}

/* Takes what is asked, asks the next one, if any, and answers. */
static void
serve(const struct kv_floor_hops *h, int fd, int next)
{
	char *buf = malloc(CHAIN_MAX);
	struct ear near = ear_make(fd, h->is_awake);
	struct ear far = ear_make(next, h->is_awake);

	while (buf && hear(&near, buf, h->ask) == 0) {
		if (next >= 0 && (kv_floor_io_give(next, buf, h->hop) < 0 ||
				  hear(&far, buf, h->hop_back) < 0))
			break;
		if (kv_floor_io_give(fd, buf, h->back) < 0)
			break;
	}
	_exit(0);
}

static int
pair(bool is_tcp, int fds[2])
{
	if (is_tcp)
		return kv_floor_io_pair(fds);
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0
		       ? -errno
		       : 0;
}

/* The one behind the first hop, and the one behind that. */
static int
processes_start(struct kv_floor_chain *c, int first, int near, int far)
{
	const struct kv_floor_hops last = { .is_awake = c->hops.is_awake,
					    .ask = c->hops.hop,
					    .back = c->hops.hop_back };

	c->pids[0] = kv_floor_io_fork();
	if (c->pids[0] == 0) {
		close(c->fd);
		close(far);
		serve(&c->hops, first, near);
	}
	if (c->pids[0] < 0 || c->hops.hop == 0)
		return c->pids[0] < 0 ? -errno : 0;
	c->pids[1] = kv_floor_io_fork();
	if (c->pids[1] == 0) {
		close(c->fd);
		close(first);
		close(near);
		serve(&last, far, -1);
	}
	return c->pids[1] < 0 ? -errno : 0;
}

int
kv_floor_chain_open(struct kv_floor_chain *c, const struct kv_floor_hops *hops)
{
	int first[2], next[2] = { -1, -1 }, rc;

	*c = (struct kv_floor_chain){ .hops = *hops, .fd = -1, .epoll = -1 };
	if (hops->ask > CHAIN_MAX || hops->hop > CHAIN_MAX ||
	    hops->hop_back > CHAIN_MAX || hops->back > CHAIN_MAX)
		return -EINVAL;
	c->buf = calloc(1, CHAIN_MAX);
	if (!c->buf)
		return -ENOMEM;
	rc = pair(hops->is_tcp, first);
	if (rc < 0)
		return rc;
	c->fd = first[0];
	if (hops->hop > 0)
		rc = kv_floor_io_pair(next);
	if (rc == 0)
		rc = processes_start(c, first[1], next[0], next[1]);
	close(first[1]);
	if (next[0] >= 0) {
		close(next[0]);
		close(next[1]);
	}
	c->epoll = kv_floor_io_watch(c->fd);
	return rc == 0 && c->epoll < 0 ? -errno : rc;
}

static int
hear_answer(struct kv_floor_chain *c)
{
	int rc = c->hops.is_awake
			 ? kv_floor_io_wait_awake(c->epoll, &c->is_brisk)
			 : kv_floor_io_wait(c->epoll);

	return rc < 0 ? rc
		      : kv_floor_io_take(c->epoll, c->fd, c->buf, c->hops.back);
}

int64_t
kv_floor_chain_round(struct kv_floor_chain *c)
{
	uint64_t start = kv_floor_io_now();
	int rc;

	rc = kv_floor_io_give(c->fd, c->buf, c->hops.ask);
	if (rc == 0)
		rc = hear_answer(c);
	return rc < 0 ? rc : (int64_t)(kv_floor_io_now() - start);
}

void
kv_floor_chain_close(struct kv_floor_chain *c)
{
	if (!c->buf)
		return;
	/* Others forked since then hold its socket open. */
	kv_floor_io_end(c->pids[0]);
	kv_floor_io_end(c->pids[1]);
	if (c->fd >= 0)
		close(c->fd);
	if (c->epoll >= 0)
		close(c->epoll);
	free(c->buf);
	*c = (struct kv_floor_chain){ 0 };
}
