/*
 * Processes of this host that use the pool, and what they hold: pins of
 * objects that they read, grants of space that they fill. A connection from
 * another host counts as a process of its own that holds nothing but what is
 * on its way to it.
 *
 * Space that a process may still read or write is not used again before it
 * says so or the kernel says that it has ended (its pidfd), whatever became of
 * its connections.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/status.h"
#include "svc/nodecore.h"
#include "svc/putkey.h"
#include "wire/msg.h"

struct pin {
	struct kv_htab_node node; /* node->pins, by id */
	struct kv_list link;      /* proc->pins, or node->free_pins */
	struct kv_proc *proc;
	struct kv_object *object;
	uint64_t token; /* of the connection that it goes with, or 0 */
};

static void
proc_ended(struct kv_io *io, uint32_t ready)
{
	(void)ready;
	kv_proc_exit(KV_CONTAINER_OF(io, struct kv_proc, io));
}

static bool
fd_has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* One that is known. The number is its own only while its pidfd lives. */
static struct kv_proc *
proc_find(struct kv_node *node, pid_t pid)
{
	struct kv_proc *p;

	KV_LIST_FOREACH(p, &node->procs, link) {
		if (p->pid != pid || p->is_gone)
			continue;
		if (p->pidfd < 0 || !fd_has_ended(p->pidfd))
			return p;
		kv_proc_exit(p);
		return NULL;
	}
	return NULL;
}

static int
proc_watch(struct kv_proc *p, int pidfd)
{
	int rc;

	p->pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
	if (p->pidfd < 0)
		return -errno;
	p->io.fn = proc_ended;
	rc = kv_loop_io_add(p->node->loop, &p->io, p->pidfd, EPOLLIN);
	if (rc < 0) {
		close(p->pidfd);
		p->pidfd = -1;
	}
	return rc;
}

struct kv_proc *
kv_proc_of(struct kv_node *node, const struct kv_peer *who)
{
	/* pid 0: of another pid name space, known by its pidfd alone. */
	pid_t pid = who->is_unix && who->pid > 0 ? who->pid : 0;
	struct kv_proc *p = pid ? proc_find(node, pid) : NULL;

	if (p) {
		p->refs++;
		return p;
	}
	p = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->node = node;
	p->refs = 1;
	p->pid = pid;
	p->pidfd = -1;
	kv_list_init(&p->grants);
	kv_list_init(&p->pins);
	if (who->is_unix && who->pidfd >= 0 && proc_watch(p, who->pidfd) < 0) {
		free(p);
		return NULL;
	}
	kv_list_add_tail(&node->procs, &p->link);
	node->n_procs++;
	return p;
}

void
kv_proc_ref(struct kv_proc *p)
{
	p->refs++;
}

void
kv_proc_unref(struct kv_proc *p)
{
	if (--p->refs)
		return;
	assert(kv_list_is_empty(&p->pins));
	assert(kv_list_is_empty(&p->grants));
	kv_loop_io_del(&p->io);
	if (p->pidfd >= 0)
		close(p->pidfd);
	kv_list_del(&p->link);
	p->node->n_procs--;
	free(p);
}

/* A pin costs memory of its own. */
static uint64_t
pin_bytes(const struct kv_object *o)
{
	return kv_max_u64(o->size, KV_PIN_BYTES_MIN);
}

static void
pin_free(struct pin *pin)
{
	struct kv_proc *p = pin->proc;
	struct kv_node *node = p->node;

	kv_htab_del(&node->pins, &pin->node);
	kv_list_del(&pin->link);
	kv_list_add_head(&node->free_pins, &pin->link);
	p->pinned_bytes -= pin_bytes(pin->object);
	if (--p->n_pins == 0)
		node->n_pinning--;
	kv_index_unpin(node->index, pin->object);
	kv_proc_unref(p);
}

/* The caller holds p. */
static void
pins_free(struct kv_proc *p)
{
	struct pin *pin, *next;

	KV_LIST_FOREACH_SAFE(pin, next, &p->pins, link)
		pin_free(pin);
}

void
kv_proc_exit(struct kv_proc *p)
{
	struct kv_node *node = p->node;

	kv_proc_ref(p);
	p->is_gone = true;
	kv_loop_io_del(&p->io);
	if (!kv_list_is_empty(&p->pins) || !kv_list_is_empty(&p->grants)) {
		kv_stats_add(&node->stats, KV_STAT_PROCESSES_LOST, 1);
		kv_log_limited(
			&node->lost_log, kv_loop_now(node->loop), KV_LOG_INFO,
			"a process ended with memory in use pid=%d "
			"pinned=%llu",
			(int)p->pid, (unsigned long long)p->pinned_bytes);
	}
	kv_nodepeer_close_of(node, p);
	kv_putkey_proc_gone(p);
	pins_free(p);
	kv_proc_unref(p);
}

void
kv_proc_exit_pid(struct kv_node *node, pid_t pid)
{
	struct kv_proc *p = proc_find(node, pid);

	if (p)
		kv_proc_exit(p);
}

void
kv_proc_fini(struct kv_node *node)
{
	struct kv_proc *p, *next;
	struct pin *pin;

	/* Without connections, what lives is held by pins and grants. */
	KV_LIST_FOREACH_SAFE(p, next, &node->procs, link) {
		kv_proc_ref(p);
		kv_putkey_proc_gone(p);
		pins_free(p);
		kv_proc_unref(p);
	}
	assert(kv_list_is_empty(&node->procs));
	while ((pin = KV_LIST_FIRST(&node->free_pins, struct pin, link))) {
		kv_list_del(&pin->link);
		free(pin);
	}
}

/*
 * Half of the pool may be pinned, in equal shares of those who pin; everybody
 * may have one object, so that each makes progress.
 */
bool
kv_proc_has_room(const struct kv_proc *p, const struct kv_object *o)
{
	const struct kv_node *node = p->node;
	uint64_t half = node->pool_bytes / 2;
	uint64_t bytes = pin_bytes(o);
	struct kv_index_stats st;

	if (p->pinned_bytes == 0)
		return true;
	kv_index_stats(node->index, &st);
	return p->pinned_bytes + bytes <= half / node->n_pinning &&
	       st.pinned_bytes + bytes <= half;
}

uint64_t
kv_proc_pin(struct kv_proc *p, struct kv_object *o, uint64_t token)
{
	struct kv_node *node = p->node;
	struct pin *pin;
	uint64_t id = ++node->next_id;

	pin = KV_LIST_FIRST(&node->free_pins, struct pin, link);
	if (pin)
		kv_list_del(&pin->link);
	else
		pin = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*pin));
	if (!pin)
		return 0;
	if (kv_htab_add(&node->pins, &pin->node, id) < 0) {
		free(pin);
		return 0;
	}
	pin->proc = p;
	pin->object = o;
	pin->token = token;
	kv_list_add_tail(&p->pins, &pin->link);
	kv_proc_ref(p);
	p->pinned_bytes += pin_bytes(o);
	if (p->n_pins++ == 0)
		node->n_pinning++;
	kv_index_pin(node->index, o, kv_loop_now(node->loop));
	return id;
}

void
kv_proc_unpin(struct kv_proc *p, uint64_t id)
{
	struct kv_htab_node *n = kv_htab_first(&p->node->pins, id);
	struct pin *pin;

	if (!n)
		return;
	pin = KV_CONTAINER_OF(n, struct pin, node);
	if (pin->proc == p)
		pin_free(pin);
}

/* A connection that the process has closed: what went with it. */
static void
proc_forget(struct kv_proc *p, uint64_t token)
{
	struct pin *pin, *next;

	kv_proc_ref(p);
	KV_LIST_FOREACH_SAFE(pin, next, &p->pins, link)
		if (pin->token == token)
			pin_free(pin);
	kv_putkey_forget(p, token);
	kv_proc_unref(p);
}

bool
kv_proc_release(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_release *r = msg->body;
	const struct kv_le64 *pins;
	uint32_t i, n = kv_get32(r->count);
	struct kv_cut cut;

	kv_cut_init(&cut, msg);
	pins = kv_cut_array(&cut, n, sizeof(*pins));
	if (!kv_cut_done(&cut))
		return false;
	for (i = 0; i < n; i++)
		kv_proc_unpin(peer->proc, kv_get64(pins[i]));
	if (kv_get64(r->closed) != 0)
		proc_forget(peer->proc, kv_get64(r->closed));
	return true;
}

/* There may have been no descriptor left for it when it connected. */
static void
proc_watch_late(struct kv_nodepeer *peer)
{
	struct kv_node *node = peer->node;
	struct kv_peer who;

	node->net->peer(node->net, kv_conn_stream(peer->conn), &who);
	if (who.pidfd >= 0 && proc_watch(peer->proc, who.pidfd) < 0)
		kv_warn("a process cannot attach: %m");
}

static int
attach_status(struct kv_nodepeer *peer)
{
	const struct kv_node *node = peer->node;

	if (!peer->who.is_unix)
		return KV_EDENIED;
	if (kv_loop_is_virtual(node->loop))
		return KV_OK;
	/* Without a pidfd nobody would say when its memory is free again. */
	if (peer->proc->pidfd < 0)
		proc_watch_late(peer);
	if ((node->o.pool_fd < 0 && !node->o.file) || peer->proc->pidfd < 0)
		return KV_ENOTSUP;
	return KV_OK;
}

/* Sends the descriptor along. KV_OK, also where there is none to send. */
static int
attach_send(struct kv_nodepeer *peer, bool may_write)
{
	const struct kv_node_opts *o = &peer->node->o;
	int fd = may_write ? o->pool_fd : o->pool_fd_ro;
	int rc = 0;

	if (o->file)
		fd = o->file->attach(o->file->arg, may_write);
	if (fd >= 0)
		rc = kv_conn_send_fd(peer->conn, fd);
	else if (o->file && !kv_loop_is_virtual(peer->node->loop))
		rc = fd;
	if (o->file && fd >= 0)
		close(fd); /* what was sent is a duplicate */
	return rc < 0 ? KV_ENOMEM : KV_OK;
}

bool
kv_proc_attach(struct kv_nodepeer *peer, const struct kv_msg *msg)
{
	const struct kv_attach *a = msg->body;
	struct kv_node *node = peer->node;
	bool may_write = a->flags & KV_ATTACH_WRITE;
	int status = attach_status(peer);
	struct kv_attach_r *r;

	if (status == KV_OK)
		status = attach_send(peer, may_write);
	r = kv_conn_begin(peer->conn, KV_MSG_ATTACH_R, msg->id, 0);
	if (!r)
		return true;
	r->status = (uint8_t)status;
	if (status == KV_OK) {
		r->flags = node->o.pool_flags;
		r->pool_bytes = kv_le64(node->o.pool_bytes);
		r->ready_bytes = kv_le64(node->ready_bytes);
		peer->proc->is_attached = true;
		peer->proc->may_write |= may_write;
		kv_stats_add(&node->stats, KV_STAT_ATTACHES, 1);
	}
	kv_conn_end(peer->conn);
	return true;
}
