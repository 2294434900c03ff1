#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/num.h"
#include "store/key.h"
#include "svc/floor.h"
#include "svc/floorcore.h"

/* Sent and read at a time: the other side looks them up while the next ones are
 * hashed. */
#define CHUNK 2048

static int
fill(struct kv_floor_table *t, const struct kv_floor_probe_opts *o)
{
	char key[KV_KEY_BYTES_MAX];
	int rc = kv_floor_table_init(t, o->held);
	struct kv_hash h;
	uint64_t i;

	for (i = 0; rc == 0 && i < o->held; i++) {
		o->key(o->arg, o->first + i, key);
		h = kv_key_hash(0, key, o->key_len);
		kv_floor_table_add(t, &h, 1);
	}
	return rc;
}

/* The directory: a number, so many hashes; so many bytes back. */
static void
serve(int fd, const struct kv_floor_probe_opts *o)
{
	struct kv_hash *h = malloc(CHUNK * sizeof(*h));
	uint8_t *out = malloc(o->ask_max);
	int epoll = kv_floor_io_watch(fd);
	struct kv_floor_table t = { 0 };
	uint64_t n, i;
	size_t m;

	if (!h || !out || fill(&t, o) < 0 || kv_floor_io_give(fd, "", 1) < 0)
		_exit(1);
	while (kv_floor_io_take(epoll, fd, &n, sizeof(n)) == 0 &&
	       n <= o->ask_max) {
		for (i = 0; i < n; i += m) {
			m = kv_min_u64(n - i, CHUNK);
			if (kv_floor_io_take(epoll, fd, h, m * sizeof(*h)) < 0)
				_exit(0);
			kv_floor_table_find(&t, h, m, out + i);
		}
		if (kv_floor_io_give(fd, out, n) < 0)
			break;
	}
	_exit(0);
}

int
kv_floor_probe_open(struct kv_floor_probe *p,
		    const struct kv_floor_probe_opts *o)
{
	int fds[2], rc;
	char ready;

	*p = (struct kv_floor_probe){ .fd = -1, .epoll = -1 };
	p->max = o->ask_max;
	rc = kv_floor_io_pair(fds);
	if (rc < 0)
		return rc;
	p->fd = fds[0];
	p->pid = kv_floor_io_fork();
	if (p->pid == 0) {
		close(fds[0]);
		serve(fds[1], o);
	}
	close(fds[1]);
	p->epoll = kv_floor_io_watch(p->fd);
	if (p->pid < 0 || p->epoll < 0)
		return -EAGAIN;
	return kv_floor_io_take(p->epoll, p->fd, &ready, 1);
}

int64_t
kv_floor_probe_ask(struct kv_floor_probe *p, const struct kv_key *keys,
		   size_t n, uint8_t *found)
{
	uint64_t start = kv_floor_io_now(), count = n;
	struct kv_hash h[CHUNK];
	size_t i, j, m;
	int rc;

	if (n > p->max)
		return -EINVAL;
	rc = kv_floor_io_give(p->fd, &count, sizeof(count));
	for (i = 0; i < n && rc == 0; i += m) {
		m = kv_min_size(n - i, CHUNK);
		for (j = 0; j < m; j++)
			h[j] = kv_key_hash(0, keys[i + j].data,
					   keys[i + j].len);
		rc = kv_floor_io_give(p->fd, h, m * sizeof(*h));
	}
	if (rc == 0)
		rc = kv_floor_io_take(p->epoll, p->fd, found, n);
	return rc < 0 ? rc : (int64_t)(kv_floor_io_now() - start);
}

void
kv_floor_probe_close(struct kv_floor_probe *p)
{
	if (!p->max)
		return;
	kv_floor_io_end(p->pid);
	if (p->fd >= 0)
		close(p->fd);
	if (p->epoll >= 0)
		close(p->epoll);
	*p = (struct kv_floor_probe){ 0 };
}
