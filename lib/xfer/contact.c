#include "xfer/contact.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/status.h"
#include "mem/seg.h"
#include "net/fdstream.h"
#include "xfer/crossmem.h"
#include "xfer/fence.h"
#include "xfer/note.h"
#include "xfer/regtable.h"
#include "xfer/samehost.h"

/* ---- life ---- */

struct kv_contact *
kv_contact_ref(struct kv_contact *c)
{
	atomic_fetch_add(&c->refs, 1);
	return c;
}

struct kv_fence *
kv_contact_fence(const struct kv_contact *c)
{
	if (!c->fence_seg)
		return NULL;
	return (struct kv_fence *)(void *)c->fence_seg->base;
}

void
kv_contact_unref(struct kv_contact *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	kv_regtable_unref(c->table);
	if (c->fence_seg)
		atomic_store(&kv_contact_fence(c)->left, 1);
	kv_seg_close(c->fence_seg);
	if (c->pidfd >= 0)
		close(c->pidfd);
	kv_lane_close(&c->local);
	kv_lane_close(&c->tcp);
	kv_loop_free(c->loop);
	free(c);
}

bool
kv_contact_is_alive(const struct kv_contact *c)
{
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

static struct kv_contact *
contact_new(const struct kv_id *own)
{
	struct kv_contact *c = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->refs = 1;
	c->pidfd = -1;
	c->own = *own;
	c->loop = kv_loop_new(NULL);
	if (c->loop)
		return c;
	free(c);
	return NULL;
}

/* ---- requests ---- */

/* Body of a request; an end of the connection that lies back is noticed. */
static void *
begin(struct kv_contact *c, struct kv_lane_ask *ask, enum kv_msg_type type)
{
	if (c->control->state == KV_LANE_READY)
		(void)kv_loop_turn(c->loop, 0);
	return kv_lane_begin(c->control, ask, type);
}

static int
take_regions(void *arg, const struct kv_msg *msg)
{
	struct kv_regtable **out = arg;

	*out = kv_regtable_parse(msg);
	return *out ? 0 : -errno;
}

static int
ask_regions(struct kv_contact *c, const struct kv_wait *wait,
	    struct kv_regtable **out)
{
	struct kv_lane_ask ask = { .take = take_regions, .arg = out };

	*out = NULL;
	if (!begin(c, &ask, KV_MSG_REGIONS))
		return -ESTALE;
	return kv_lane_finish(c->control, &ask, wait);
}

struct memory {
	struct kv_contact *c;
	uint64_t bytes;
	int fd;
};

static int
take_memory(void *arg, const struct kv_msg *msg)
{
	const struct kv_memory_r *r = msg->body;
	struct memory *m = arg;

	if (msg->type != KV_MSG_MEMORY_R)
		return -EPROTO;
	m->fd = kv_conn_recv_fd(m->c->control->conn);
	m->bytes = kv_get64(r->bytes);
	if (r->status == 0)
		return m->fd < 0 ? -EPROTO : 0;
	if (m->fd >= 0)
		close(m->fd);
	return -kv_status_errno(r->status);
}

/* After a failure an answer may still come, and its descriptor must not be
 * taken for another one's: so that ends the connection. */
static int
ask_memory(struct kv_contact *c, const struct kv_wait *wait, uint64_t handle,
	   struct memory *out)
{
	struct kv_lane_ask ask = { .take = take_memory, .arg = out };
	struct kv_memory *body;
	int rc;

	*out = (struct memory){ .c = c, .fd = -1 };
	body = begin(c, &ask, KV_MSG_MEMORY);
	if (!body)
		return -ESTALE;
	body->handle = kv_le64(handle);
	rc = kv_lane_finish(c->control, &ask, wait);
	if (rc && !ask.over)
		kv_lane_close(c->control);
	return rc;
}

/* A region that cannot be mapped is reached in another way. */
static int
map_shared(struct kv_contact *c, const struct kv_wait *wait,
	   struct kv_regtable *table)
{
	for (size_t i = 0; i < table->n; i++) {
		struct kv_regtable_entry *e = &table->entries[i];
		struct memory m;
		int rc;

		if (!e->shared || e->map)
			continue;
		rc = ask_memory(c, wait, e->handle, &m);
		if (rc && c->control->state != KV_LANE_READY)
			return rc;
		if (rc)
			continue;
		if (m.bytes < e->len)
			close(m.fd);
		else
			e->map = kv_regtable_map(m.fd, m.bytes, e->handle);
	}
	return 0;
}

int
kv_contact_regions(struct kv_contact *c, const struct kv_regtable *old,
		   const struct kv_wait *wait, struct kv_regtable **out)
{
	struct kv_regtable *table;
	int rc = ask_regions(c, wait, &table);

	if (rc)
		return rc;
	if (c->fence_seg) {
		kv_regtable_inherit(table, old);
		rc = map_shared(c, wait, table);
	}
	if (rc)
		kv_regtable_unref(table);
	else
		*out = table;
	return rc;
}

static int
take_pong(void *arg, const struct kv_msg *msg)
{
	(void)arg;
	return msg->type == KV_MSG_PING_R ? 0 : -EPROTO;
}

int
kv_contact_ping(struct kv_contact *c, const struct kv_wait *wait)
{
	struct kv_lane_ask ask = { .take = take_pong };

	if (!begin(c, &ask, KV_MSG_PING))
		return -ESTALE;
	return kv_lane_finish(c->control, &ask, wait);
}

int
kv_contact_note(struct kv_contact *c, const struct kv_wait *wait,
		const struct kv_railnote_text *note)
{
	if (c->control->state == KV_LANE_READY)
		(void)kv_loop_turn(c->loop, 0);
	return kv_railnote_send(c->control, note, wait);
}

/* ---- the best path ---- */

KV_PRINTF(2, 3)
static void
say_why(struct kv_contact *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
}

/* Greets the engine at its Unix socket. 0; -errno when the call is over; 1: it
 * must be TCP. */
static int
greet(struct kv_contact *c, const struct kv_wait *wait)
{
	char addr[KV_SAMEHOST_ADDR_BYTES];
	int rc;

	kv_samehost_addr(&c->boot, addr);
	kv_lane_init(&c->local, c->loop, &c->own, &c->boot);
	kv_lane_dial(&c->local, addr, wait->deadline_ns);
	rc = kv_lane_settle(&c->local, wait);
	switch (-rc) {
	case 0:
	case ETIMEDOUT:
	case ESHUTDOWN:
		return rc;
	case EHOSTUNREACH:
		say_why(c, "another host or network name space");
		return 1;
	case EACCES:
		say_why(c, "this process runs as another user");
		return 1;
	default:
		say_why(c, "its Unix socket: %s", strerrordesc_np(-rc));
		return 1;
	}
}

/* The process at the other end, as the kernel says. */
static int
identify(struct kv_contact *c)
{
	struct kv_peer peer;

	if (kv_fdstream_peer(kv_conn_stream(c->local.conn), &peer)) {
		say_why(c, "out of descriptors");
		return 1;
	}
	if (kv_samehost_check(&peer, c->why, sizeof(c->why)))
		return 1;
	c->pidfd = fcntl(peer.pidfd, F_DUPFD_CLOEXEC, 0);
	if (c->pidfd < 0) {
		say_why(c, "out of descriptors");
		return 1;
	}
	c->pid = peer.pid;
	return 0;
}

static int
get_fence(struct kv_contact *c, const struct kv_wait *wait)
{
	struct kv_seg_attach_opts opts = { .writable = true, .sealed = true };
	struct memory m;
	char text[256];
	int rc = ask_memory(c, wait, 0, &m);

	if (rc) {
		say_why(c, "it gives no fence: %s", strerrordesc_np(-rc));
		return rc == -ETIMEDOUT || rc == -ESHUTDOWN ? rc : 1;
	}
	opts.bytes = m.bytes;
	if (m.bytes >= sizeof(struct kv_fence) &&
	    kv_seg_attach(m.fd, &opts, &c->fence_seg, text, sizeof(text)) == 0)
		return 0;
	close(m.fd);
	say_why(c, "its fence cannot be mapped");
	return 1;
}

/* Its memory can be reached, and whose it is stays certain. */
static void
try_attach(struct kv_contact *c, const struct kv_regtable *table)
{
	const char *why;
	int rc =
		kv_crossmem_try(c->pid, table->token_addr, &table->token, &why);

	if (rc) {
		say_why(c, "%s", why);
	} else if (!kv_contact_is_alive(c)) {
		say_why(c, "its process has ended");
	} else {
		atomic_store(&c->path, KV_SLICE_ATTACH);
		say_why(c, "its token was read in process %d", (int)c->pid);
	}
}

/* Leaves everything as TCP needs it when it returns 1. */
static int
try_same_host(struct kv_contact *c, const struct kv_wait *wait)
{
	int rc = greet(c, wait);

	if (rc == 0)
		rc = identify(c);
	if (rc == 0) {
		c->control = &c->local;
		rc = get_fence(c, wait);
	}
	if (rc == 0) {
		kv_lane_close(&c->tcp);
		return 0;
	}
	c->control = &c->tcp;
	kv_lane_close(&c->local);
	return rc;
}

/* Beside what this host alone has. */
static void
find_second(struct kv_contact *c, const struct kv_contact_opts *opts)
{
	const char *why = opts->no_rdma;

	c->second = KV_SLICE_TCP;
	if (opts->rdma && c->table->ports > 0)
		c->second = KV_SLICE_RDMA;
	else if (opts->rdma)
		why = "the peer has no RDMA ports";
	if (c->second == KV_SLICE_TCP && why)
		snprintf(c->rails_why, sizeof(c->rails_why), "%s", why);
	atomic_store(&c->path, c->second);
}

static int
find_path(struct kv_contact *c, const struct kv_contact_opts *opts,
	  const struct kv_wait *wait)
{
	int rc;

	if (kv_id_is_equal(c->boot, c->own)) {
		atomic_store(&c->path, KV_SLICE_SELF);
		say_why(c, "the peer is this process");
		return kv_contact_regions(c, NULL, wait, &c->table);
	}
	rc = try_same_host(c, wait);
	if (rc < 0)
		return rc;
	rc = kv_contact_regions(c, NULL, wait, &c->table);
	if (rc)
		return rc;
	find_second(c, opts);
	if (!c->fence_seg)
		return 0;
	if (opts->no_attach)
		say_why(c, "cross-memory attach is switched off");
	else
		try_attach(c, c->table);
	return 0;
}

int
kv_contact_open(const struct kv_contact_opts *opts, const struct kv_wait *wait,
		struct kv_contact **out)
{
	struct kv_contact *c = contact_new(opts->own);
	int rc;

	if (!c)
		return -ENOMEM;
	c->control = &c->tcp;
	kv_lane_init(&c->tcp, c->loop, opts->own, NULL);
	kv_lane_dial(&c->tcp, opts->addr, wait->deadline_ns);
	rc = kv_lane_settle(&c->tcp, wait);
	if (rc == 0) {
		c->boot = c->tcp.boot;
		rc = find_path(c, opts, wait);
	}
	if (rc == 0)
		*out = c;
	else
		kv_contact_unref(c);
	return rc;
}
