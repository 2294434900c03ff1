#include "net/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/attr.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/thread.h"
#include "event/loop.h"

/*
 * The thread can stay in the C library for longer than anybody waits, so it
 * shares nothing with the loop but this, and the last of both frees it.
 */
struct kv_lookup {
	atomic_int refs;
	atomic_bool is_done;
	struct kv_io io; /* the loop's, but for its descriptor */
	void (*fn)(void *arg, int status, const struct kv_lookup_result *r);
	void *arg;
	struct kv_addr addr;
	int status; /* the thread's, until is_done */
	struct kv_lookup_result result;
};

/* A bound on the threads of the process, not on those of one caller. */
static atomic_int under_way;

static int
from_gai(int gai)
{
	switch (gai) {
	case 0:
		return 0;
	case EAI_MEMORY:
		return -ENOMEM;
	case EAI_AGAIN:
	case EAI_FAIL:
		return -ENONET;
	case EAI_SYSTEM:
		return errno ? -errno : -ENXIO;
	default:
		return -ENXIO;
	}
}

static void
append(struct kv_lookup_result *r, const void *sa, size_t len)
{
	struct kv_lookup_addr *a = &r->addrs[r->n];

	if (r->n == KV_LOOKUP_ADDRS_MAX || len > sizeof(a->addr))
		return;
	memcpy(&a->addr, sa, len);
	a->len = (socklen_t)len;
	r->n++;
}

static void
append_any(struct kv_lookup_result *r, uint16_t port)
{
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
	};
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};

	append(r, &in6, sizeof(in6));
	append(r, &in, sizeof(in));
}

static void
append_unix(struct kv_lookup_result *r, const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	memcpy(un.sun_path, path, strlen(path));
	if (path[0] == '@')
		un.sun_path[0] = 0; /* abstract, see unixsock.h */
	append(r, &un, sizeof(un));
}

/* No AI_ADDRCONFIG: on a host without a network it hides the loopback. */
static int
append_names(struct kv_lookup_result *r, const struct kv_addr *a)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICSERV |
			    (kv_addr_is_numeric(a) ? AI_NUMERICHOST : 0),
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *list, *i;
	char port[8];
	int err;

	snprintf(port, sizeof(port), "%u", a->port);
	errno = 0;
	err = from_gai(getaddrinfo(a->name, port, &hints, &list));
	if (err)
		return err;
	for (i = list; i; i = i->ai_next)
		append(r, i->ai_addr, i->ai_addrlen);
	freeaddrinfo(list);
	return r->n ? 0 : -ENXIO;
}

int
kv_lookup_now(const struct kv_addr *a, struct kv_lookup_result *out)
{
	out->n = 0;
	if (a->kind == KV_ADDR_UNIX)
		append_unix(out, a->name);
	else if (!a->name[0])
		append_any(out, a->port);
	else
		return append_names(out, a);
	return 0;
}

void
kv_lookup_name(const struct kv_lookup_addr *from, struct kv_addr *out)
{
	const struct sockaddr_in6 *in6 = &from->addr.in6;
	union kv_sockaddr v4 = { .in.sin_family = AF_INET };
	const struct sockaddr *sa = &from->addr.sa;
	socklen_t len = from->len;

	*out = (struct kv_addr){ .kind = KV_ADDR_TCP };
	if (sa->sa_family == AF_INET6 &&
	    IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		memcpy(&v4.in.sin_addr, &in6->sin6_addr.s6_addr[12], 4);
		sa = &v4.sa;
		len = sizeof(v4.in);
	}
	/* The port lies at the same place in both. */
	out->port = ntohs(from->addr.in.sin_port);
	if (getnameinfo(sa, len, out->name, sizeof(out->name), NULL, 0,
			NI_NUMERICHOST))
		snprintf(out->name, sizeof(out->name), "unknown");
}

static void
unref(struct kv_lookup *l)
{
	if (atomic_fetch_sub(&l->refs, 1) > 1)
		return;
	close(l->io.fd);
	free(l);
}

static void *
run(void *arg)
{
	struct kv_lookup *l = arg;

	pthread_setname_np(pthread_self(), "lookup");
	l->status = kv_lookup_now(&l->addr, &l->result);
	atomic_store(&l->is_done, true);
	(void)eventfd_write(l->io.fd, 1);
	atomic_fetch_sub(&under_way, 1);
	unref(l);
	return NULL;
}

static int
start_thread(struct kv_lookup *l)
{
	pthread_t thread;
	int rc = kv_thread_start(&thread, KV_THREAD_ANY_CPU, run, l);

	if (rc == 0)
		pthread_detach(thread);
	return rc;
}

static void
on_done(struct kv_io *io, uint32_t ready)
{
	struct kv_lookup *l = KV_CONTAINER_OF(io, struct kv_lookup, io);

	(void)ready;
	if (!atomic_load(&l->is_done))
		return;
	kv_loop_io_del(&l->io);
	l->fn(l->arg, l->status, &l->result);
	unref(l);
}

static int
start(struct kv_lookup *l, struct kv_loop *loop)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int err;

	if (fd < 0)
		return -errno;
	err = kv_loop_io_add(loop, &l->io, fd, EPOLLIN);
	if (err)
		goto close_fd;
	err = start_thread(l);
	if (err)
		goto del_io;
	return 0;
del_io:
	kv_loop_io_del(&l->io);
close_fd:
	close(fd);
	return err;
}

struct kv_lookup *
kv_lookup_start(struct kv_loop *loop, const struct kv_addr *a,
		void (*fn)(void *arg, int status,
			   const struct kv_lookup_result *r),
		void *arg)
{
	struct kv_lookup *l;
	int err = -EAGAIN;

	if (atomic_fetch_add(&under_way, 1) >= KV_LOOKUPS_MAX)
		goto count_down;
	err = -ENOMEM;
	l = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*l));
	if (!l)
		goto count_down;
	l->refs = 2;
	l->io.fn = on_done;
	l->fn = fn;
	l->arg = arg;
	l->addr = *a;
	err = start(l, loop);
	if (!err)
		return l;
	free(l);
count_down:
	atomic_fetch_sub(&under_way, 1);
	errno = -err;
	return NULL;
}

void
kv_lookup_cancel(struct kv_lookup *l)
{
	kv_loop_io_del(&l->io);
	unref(l);
}
