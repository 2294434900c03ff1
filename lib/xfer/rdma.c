#include "xfer/rdma.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/num.h"
#include "xfer/devlist.h"
#include "xfer/rdmacore.h"
#include "xfer/rdmaport.h"

/* ---- which ---- */

/* Which of two ports that cannot be used is nearer to it. */
static unsigned
promise_of(const struct kv_rdmadev *d)
{
	if (!d->is_wanted)
		return 0;
	if (!d->port)
		return 1;
	return strcmp(d->state, "active") == 0 ? 3 : 2;
}

static void
say_best(const struct kv_rdmadev *list, size_t n, char *err, size_t errlen)
{
	const struct kv_rdmadev *best = list;
	char port[16] = "";

	for (size_t i = 1; i < n; i++)
		if (promise_of(&list[i]) > promise_of(best))
			best = &list[i];
	if (best->port)
		snprintf(port, sizeof(port), " port %u", best->port);
	snprintf(err, errlen, "%s%s: %s", best->name, port, best->why);
}

static bool
is_any_awaited(const struct kv_rdmadev *list, size_t n)
{
	size_t i;

	for (i = 0; i < n && !list[i].is_awaited; i++)
		;
	return i < n;
}

/* Whether there is something to open: 0 or -ENODEV. */
static int
check(const struct kv_rdma_opts *o, const char *wanted,
      const struct kv_rdmadev *list, size_t n, char *err, size_t errlen)
{
	int rc = kv_devlist_check(wanted, list, n, err, errlen);

	if (kv_devlist_usable(list, n) ||
	    (o->waits && is_any_awaited(list, n))) {
		if (rc < 0)
			kv_warn("%s", err);
		return 0;
	}
	if (rc < 0)
		return rc;
	if (n)
		say_best(list, n, err, errlen);
	else
		snprintf(err, errlen,
			 "this machine has no RDMA device; is its driver loaded?");
	return -ENODEV;
}

/* ---- devices ---- */

static struct ibv_context *
device_open(const struct kv_rdmaverbs *v, const char *name)
{
	struct ibv_device **list = v->get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	int err = list ? ENODEV : errno;
	size_t i = 0;

	while (list && list[i] &&
	       strcmp(v->get_device_name(list[i]), name) != 0)
		i++;
	if (list && list[i]) {
		ctx = v->open_device(list[i]);
		err = errno;
	}
	if (list)
		v->free_device_list(list);
	errno = err;
	return ctx;
}

/* Context and domain: 0, or -errno and nothing is open. */
static int
nic_open(struct kv_rdmanic *nic, const char *device)
{
	int err;

	if (KV_FAULT_POINT())
		return -ENOMEM;
	nic->ctx = device_open(nic->v, device);
	if (!nic->ctx)
		return -errno;
	errno = ENOMEM;
	nic->pd = KV_FAULT_POINT() ? NULL : nic->v->alloc_pd(nic->ctx);
	if (nic->pd)
		return 0;
	err = errno;
	nic->v->close_device(nic->ctx);
	return -err;
}

static void
nic_close(const struct kv_rdmanic *nic)
{
	nic->v->dealloc_pd(nic->pd);
	nic->v->close_device(nic->ctx);
}

/* With none at a time there would be no READ at all. */
static uint8_t
reads_of(int limit)
{
	if (limit < 1)
		return 1;
	return (uint8_t)(limit < UINT8_MAX ? limit : UINT8_MAX);
}

/* ---- ports ---- */

/* What the environment wants of queue pairs, or what the port has. */
static void
wishes_set(struct kv_rdmanic *nic, const struct kv_mcenv *env,
	   const struct kv_rdmadev *d)
{
	uint32_t mtu = d->mtu_bytes;

	if (env->mtu_bytes && (!mtu || env->mtu_bytes < mtu))
		mtu = env->mtu_bytes;
	nic->mtu = kv_rdmaport_mtu_code(mtu);
	if (env->service_level >= 0)
		nic->service_level = (uint8_t)env->service_level;
	if (env->traffic_class >= 0)
		nic->traffic_class = (uint8_t)env->traffic_class;
	if (env->pkey_index >= 0)
		nic->pkey_index = (uint16_t)env->pkey_index;
	nic->gid_index = d->gid_index;
	nic->local_gid_index = d->local_gid_index;
	if (env->gid_index >= 0)
		nic->gid_index = nic->local_gid_index = env->gid_index;
}

/* One more; left out, with words in err, when its device does not open. */
static void
port_add(struct kv_rdma *r, const struct kv_rdmadev *d, char *err,
	 size_t errlen)
{
	struct kv_rdmanic *nic = &r->nics[r->n];
	int rc = 0;

	*nic = (struct kv_rdmanic){
		.v = r->v,
		.number = r->n,
		.port = d->port,
		.initiates = reads_of(d->limits.init_rd_atom_max),
		.responds = reads_of(d->limits.rd_atom_max),
		.is_ordered = r->env.is_ordered,
		.is_soft = d->is_soft,
	};
	wishes_set(nic, &r->env, d);
	if (r->n && strcmp(r->devs[r->n - 1].name, d->name) == 0) {
		nic->ctx = nic[-1].ctx;
		nic->pd = nic[-1].pd;
	} else {
		rc = nic_open(nic, d->name);
	}
	if (rc < 0) {
		snprintf(err, errlen, "%s cannot be opened: %s; see dmesg",
			 d->name, strerror(-rc));
		kv_warn("%s", err);
		return;
	}
	r->devs[r->n] = *d;
	if (!d->is_usable)
		r->watched.ports[r->n].is = KV_RDMAWATCH_DOWN;
	r->ports[r->n++] = nic;
}

static void
numa_read(struct kv_rdma *r, const char *root)
{
	int at[KV_RDMA_PORTS_MAX];
	unsigned i;

	for (i = 0; i < r->n; i++)
		at[i] = r->devs[i].numa_node;
	kv_rdmanuma_read(&r->numa, root, at, r->n);
}

static bool
is_for(const struct kv_mcenv *env, const struct kv_rdmadev *d)
{
	return (d->is_usable || d->is_awaited) &&
	       (env->port == 0 || env->port == d->port);
}

/* So many may be opened that are not usable. */
static unsigned
room_for_awaited(const struct kv_mcenv *env, const struct kv_rdmadev *list,
		 size_t n)
{
	unsigned room = KV_RDMA_PORTS_MAX;
	size_t i;

	for (i = 0; i < n && room > 0; i++)
		room -= is_for(env, &list[i]) && list[i].is_usable;
	return room;
}

static bool
has_room(const struct kv_rdmadev *d, unsigned *room)
{
	if (d->is_usable)
		return true;
	if (*room == 0)
		return false;
	--*room;
	return true;
}

/* Of the one port that is wanted of each device: why it is not used. */
static void
say_port(unsigned port, const struct kv_rdmadev *list, size_t n, char *err,
	 size_t errlen)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].port != port || list[i].is_usable)
			continue;
		snprintf(err, errlen, "%s port %u: %s", list[i].name, port,
			 list[i].why);
		return;
	}
	snprintf(err, errlen, "no device has a port %u; unset MC_IB_PORT",
		 port);
}

/* NULL, with errno and words, when none of them opens. */
static struct kv_rdma *
open_all(const struct kv_rdma *like, bool waits, const struct kv_rdmadev *list,
	 size_t n, char *err, size_t errlen)
{
	struct kv_rdma *r = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*r));
	unsigned room;

	if (!r) {
		snprintf(err, errlen, "out of memory; free some");
		errno = ENOMEM;
		return NULL;
	}
	*r = *like;
	/* Unless one of them says more. */
	if (r->env.port)
		say_port(r->env.port, list, n, err, errlen);
	kv_rdmawatch_open(&r->watched);
	room = room_for_awaited(&r->env, list, n);
	if (room == KV_RDMA_PORTS_MAX && !waits)
		room = 0; /* none is usable */
	for (size_t i = 0; i < n && r->n < KV_RDMA_PORTS_MAX; i++)
		if (is_for(&r->env, &list[i]) && has_room(&list[i], &room))
			port_add(r, &list[i], err, errlen);
	if (r->n)
		return r;
	kv_rdmawatch_close(&r->watched);
	free(r);
	errno = ENODEV;
	return NULL;
}

/* 0, or -ENODEV: RDMA is not wanted. */
static int
env_take(struct kv_rdma *like, const struct kv_rdma_opts *o, char *err,
	 size_t errlen)
{
	if (o->env)
		like->env = *o->env;
	else
		kv_mcenv_read(&like->env, (const char *const *)environ);
	if (o->qps)
		like->env.qps = (unsigned)kv_min_u64(o->qps, KV_MCENV_QPS_MAX);
	if (o->slice_bytes)
		like->env.slice_bytes = kv_min_u64(
			kv_max_u64(o->slice_bytes, KV_MCENV_SLICE_BYTES_MIN),
			KV_MCENV_SLICE_BYTES_MAX);
	if (!like->env.is_tcp)
		return 0;
	snprintf(err, errlen, "MC_FORCE_TCP is set; unset it");
	return -ENODEV;
}

struct kv_rdma *
kv_rdma_open(const struct kv_rdma_opts *o, char *err, size_t n)
{
	struct kv_rdma like = {
		.v = o->verbs,
		.root = o->root,
		.sys_root = o->root || o->verbs ? o->root : "",
		.addrs = o->addrs,
	};
	const struct kv_rdmadev_opts l = {
		.wanted = o->wanted && o->wanted[0] ? o->wanted
						    : like.env.devices,
		.root = like.sys_root,
		.verbs = o->verbs,
		.addrs = o->addrs,
	};
	kv_auto_free struct kv_rdmadev *list = NULL;
	const char *why = "there is no librdmacm";
	int rc = env_take(&like, o, err, n);
	long found = rc < 0 ? rc : kv_rdmadev_list(&l, &list, err, n);
	struct kv_rdma *r;

	rc = (int)found;
	if (found >= 0)
		rc = check(o, l.wanted, list, (size_t)found, err, n);
	if (rc < 0) {
		errno = -rc;
		return NULL;
	}
	if (!like.v)
		like.v = kv_rdmaverbs_load(&why);
	if (!like.v->create_event_channel)
		kv_warn("rdma: %s: connected without the connection manager",
			why);
	r = open_all(&like, o->waits, list, (size_t)found, err, n);
	if (r)
		numa_read(r, l.root);
	return r;
}

void
kv_rdma_close(struct kv_rdma *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->n; i++)
		if (i + 1 == r->n || r->nics[i].ctx != r->nics[i + 1].ctx)
			nic_close(&r->nics[i]);
	kv_rdmawatch_close(&r->watched);
	free(r);
}

unsigned
kv_rdma_ports(const struct kv_rdma *r)
{
	return r->n;
}

const struct kv_rdmadev *
kv_rdma_port(const struct kv_rdma *r, unsigned number)
{
	assert(number < r->n);
	return &r->devs[number];
}

void
kv_rdma_sockaddr(const void *ip, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	struct in6_addr a;

	memset(out, 0, sizeof(*out));
	memcpy(&a, ip, sizeof(a));
	if (IN6_IS_ADDR_V4MAPPED(&a)) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, &a.s6_addr[12], sizeof(v4->sin_addr));
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		v6->sin6_addr = a;
	}
}

int
kv_rdma_number(const struct kv_rdma *r, const char *device, unsigned port)
{
	unsigned i;

	for (i = 0; i < r->n; i++)
		if (r->devs[i].port == port &&
		    strcmp(r->devs[i].name, device) == 0)
			return (int)i;
	return -1;
}

bool
kv_rdma_look(struct kv_rdma *r, unsigned number, struct kv_rdmadev *dev)
{
	const struct kv_rdmadev_opts o = {
		.root = r->sys_root,
		.verbs = r->v,
		.addrs = r->addrs,
	};

	if (!kv_rdmadev_look(&o, r->nics[number].ctx, dev))
		return false;
	wishes_set(&r->nics[number], &r->env, dev);
	return true;
}
