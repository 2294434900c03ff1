#include "http/server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/fault.h"
#include "http/httpcore.h"

enum {
	BACKLOG = 512,
	ACCEPTS_MAX = 16, /* in one turn */
	/* Of a request all but the body, some 70 bytes more for each argument,
	 * and the headers of the answer. All of it is touched each time. */
	MEMORY_BYTES = 256 << 10,
};

#define SHORTAGE_NS (100 * KV_NS_PER_MS) /* then accepting is tried again */
#define SWEEP_NS    KV_NS_PER_S

/* ---- the daemon and the loop ---- */

static void
schedule(struct kv_server *s)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(s->daemon, &ms) != MHD_YES)
		kv_loop_timer_del(&s->timer);
	else if (kv_loop_timer_set(s->loop, &s->timer,
				   kv_loop_now(s->loop) + ms * KV_NS_PER_MS))
		kv_server_wake(s); /* no memory for a timer: ask again */
}

static void
drive(struct kv_server *s)
{
	MHD_run(s->daemon);
	schedule(s);
}

static void
on_events(struct kv_io *io, uint32_t ready)
{
	(void)ready;
	drive(KV_CONTAINER_OF(io, struct kv_server, events));
}

static void
on_timer(struct kv_timer *t)
{
	drive(KV_CONTAINER_OF(t, struct kv_server, timer));
}

static void
on_run(struct kv_defer *d)
{
	drive(KV_CONTAINER_OF(d, struct kv_server, run));
}

void
kv_server_wake(struct kv_server *s)
{
	kv_loop_defer(s->loop, &s->run);
}

KV_PRINTF(2, 0)
static void
on_log(void *arg, const char *fmt, va_list ap)
{
	char line[256];

	(void)arg;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	kv_debug("libmicrohttpd: %s", line);
}

/* ---- connections ---- */

static void
listen_again(struct kv_server *s)
{
	if (s->listener.loop && kv_loop_io_mod(&s->listener, EPOLLIN) < 0)
		(void)kv_loop_timer_set(s->loop, &s->retry,
					kv_loop_now(s->loop) + SHORTAGE_NS);
}

static void
on_retry(struct kv_timer *t)
{
	listen_again(KV_CONTAINER_OF(t, struct kv_server, retry));
}

static void
tell_shortage(struct kv_server *s, int err)
{
	uint64_t now = kv_loop_now(s->loop);
	struct rlimit limit = { 0 };

	errno = err;
	if (err != EMFILE) {
		kv_log_limited(&s->shortage_log, now, KV_LOG_ERR,
			       "no new HTTP connections on port %u: %m",
			       s->port);
		return;
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	kv_log_limited(&s->shortage_log, now, KV_LOG_ERR,
		       "no new HTTP connections on port %u: all %llu file "
		       "descriptors are in use; raise the limit (ulimit -n)",
		       s->port, (unsigned long long)limit.rlim_cur);
}

static void
conn_end(struct kv_server_conn *c)
{
	c->is_ended = true;
	shutdown(c->fd, SHUT_RDWR);
}

static uint64_t
conn_age(const struct kv_server_conn *c)
{
	return kv_loop_now(c->s->loop) - c->since;
}

/* The oldest one that asks for nothing; if all do, one that was asked for long
 * ago, and perhaps does not read the answer. */
static void
make_room(struct kv_server *s)
{
	uint64_t limit = s->o.request_s * KV_NS_PER_S;
	struct kv_server_conn *c;

	KV_LIST_FOREACH(c, &s->conns, link)
		if (c->is_ended)
			return; /* its place is about to be free */
	KV_LIST_FOREACH(c, &s->conns, link)
		if (!c->is_busy) {
			conn_end(c);
			return;
		}
	c = KV_LIST_FIRST(&s->conns, struct kv_server_conn, link);
	if (c && conn_age(c) >= limit)
		conn_end(c);
}

/* Rather than be called all the time with what cannot be accepted. */
static void
rest(struct kv_server *s, int err)
{
	tell_shortage(s, err);
	make_room(s);
	if (!kv_loop_timer_set(s->loop, &s->retry,
			       kv_loop_now(s->loop) + SHORTAGE_NS))
		(void)kv_loop_io_mod(&s->listener, 0);
}

/* Somebody waits to be accepted, and there are as many as may be. */
static void
crowded(struct kv_server *s)
{
	kv_log_limited(&s->full_log, kv_loop_now(s->loop), KV_LOG_WARN,
		       "%u HTTP connections are open: for each new one the "
		       "oldest idle one is closed",
		       s->n_conns);
	make_room(s);
	(void)kv_loop_io_mod(&s->listener, 0);
}

static bool
is_shortage(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS ||
	       err == ENOMEM;
}

static void
on_listener(struct kv_io *io, uint32_t ready)
{
	struct kv_server *s = KV_CONTAINER_OF(io, struct kv_server, listener);
	struct sockaddr_storage addr;
	socklen_t len;
	int i, fd;

	(void)ready;
	if (s->n_conns >= s->o.conns_max)
		crowded(s);
	for (i = 0; i < ACCEPTS_MAX && s->n_conns < s->o.conns_max; i++) {
		len = sizeof(addr);
		fd = accept4(s->fd, (struct sockaddr *)&addr, &len,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (is_shortage(errno))
				rest(s, errno);
			break;
		}
		/* Closes fd when it fails. */
		if (MHD_add_connection(s->daemon, fd, (struct sockaddr *)&addr,
				       len) != MHD_YES) {
			rest(s, errno);
			break;
		}
		kv_log_recovered(&s->shortage_log, KV_LOG_INFO,
				 "new HTTP connections on port %u again",
				 s->port);
	}
	kv_server_wake(s);
}

static struct kv_server_conn *
conn_of(struct MHD_Connection *conn)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void
conn_is(struct MHD_Connection *conn, bool is_busy, bool is_kept)
{
	struct kv_server_conn *c = conn_of(conn);

	if (!c)
		return;
	c->is_busy = is_busy;
	c->is_kept = is_kept;
	c->since = kv_loop_now(c->s->loop);
	kv_list_del(&c->link);
	kv_list_add_tail(&c->s->conns, &c->link);
}

void
kv_server_begins(struct MHD_Connection *conn)
{
	conn_is(conn, false, false);
}

void
kv_server_busy(struct MHD_Connection *conn, bool is_busy)
{
	conn_is(conn, is_busy, !is_busy);
}

static void
sweep_soon(struct kv_server *s)
{
	if (!s->sweep.loop)
		(void)kv_loop_timer_set(s->loop, &s->sweep,
					kv_loop_now(s->loop) + SWEEP_NS);
}

/* libmicrohttpd closes what is silent; this is for what trickles. */
static void
on_sweep(struct kv_timer *t)
{
	struct kv_server *s = KV_CONTAINER_OF(t, struct kv_server, sweep);
	uint64_t limit = s->o.request_s * KV_NS_PER_S;
	struct kv_server_conn *c;

	KV_LIST_FOREACH(c, &s->conns, link) {
		if (conn_age(c) < limit)
			break;
		if (!c->is_busy && !c->is_ended &&
		    (!c->is_kept ||
		     conn_age(c) >= KV_SERVER_KEPT_S * KV_NS_PER_S))
			conn_end(c);
	}
	/* Nobody may have been old enough when a newcomer came. */
	if (s->n_conns >= s->o.conns_max)
		listen_again(s);
	if (s->n_conns > 0)
		sweep_soon(s);
}

static void
conn_start(struct kv_server *s, struct MHD_Connection *conn, void **context)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct kv_server_conn *c = NULL;

	s->n_conns++;
	if (info && !KV_FAULT_POINT())
		c = calloc(1, sizeof(*c));
	*context = c;
	if (!c)
		return; /* then only its silence has a bound */
	c->s = s;
	c->fd = info->connect_fd;
	c->since = kv_loop_now(s->loop);
	kv_list_add_tail(&s->conns, &c->link);
	sweep_soon(s);
}

static void
on_conn(void *arg, struct MHD_Connection *conn, void **context,
	enum MHD_ConnectionNotificationCode code)
{
	struct kv_server *s = arg;
	struct kv_server_conn *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		conn_start(s, conn, context);
		return;
	}
	if (c)
		kv_list_del(&c->link);
	free(c);
	*context = NULL;
	if (s->n_conns-- == s->o.conns_max)
		listen_again(s);
}

/* ---- the beginning and the end ---- */

static int
bind_one(const struct addrinfo *a)
{
	int off = 0, on = 1;
	kv_auto_close int fd = socket(
		a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)))
		return -errno;
	if (a->ai_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)))
		return -errno;
	if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG))
		return -errno;
	return kv_steal_fd(&fd);
}

/* The first address that this host has, IPv6 first: it brings IPv4 along. */
static int
bind_any(const struct addrinfo *list)
{
	static const int families[] = { AF_INET6, AF_INET };
	const struct addrinfo *a;
	int fd = -EADDRNOTAVAIL;

	for (size_t i = 0; i < KV_ARRAY_LEN(families); i++)
		for (a = list; a; a = a->ai_next) {
			if (a->ai_family != families[i])
				continue;
			fd = bind_one(a);
			if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL)
				return fd;
		}
	return fd;
}

static void
tell_bind(const struct kv_server_opts *o, int code, char *err, size_t n)
{
	const char *where = o->host ? o->host : "all addresses";

	errno = -code;
	if (code == -EADDRINUSE)
		snprintf(err, n, "HTTP port %u is in use already", o->port);
	else
		snprintf(err, n, "cannot listen for HTTP on %s, port %u: %m",
			 where, o->port);
	errno = -code;
}

static int
open_listener(const struct kv_server_opts *o, char *err, size_t n)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *list;
	char port[8];
	int code, fd;

	snprintf(port, sizeof(port), "%u", o->port);
	code = getaddrinfo(o->host, port, &hints, &list);
	if (code) {
		snprintf(err, n, "cannot look up %s for HTTP: %s",
			 o->host ? o->host : "own addresses",
			 gai_strerror(code));
		errno = EADDRNOTAVAIL;
		return -1;
	}
	fd = bind_any(list);
	freeaddrinfo(list);
	if (fd < 0)
		tell_bind(o, fd, err, n);
	return fd < 0 ? -1 : fd;
}

static uint16_t
bound_port(int fd)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a = { .in6 = { 0 } };
	socklen_t len = sizeof(a);

	if (getsockname(fd, &a.sa, &len) < 0)
		return 0;
	return ntohs(a.sa.sa_family == AF_INET6 ? a.in6.sin6_port
						: a.in.sin_port);
}

static struct MHD_Daemon *
start_daemon(struct kv_server *s)
{
	if (KV_FAULT_POINT())
		return NULL;
	return MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
			MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
		0, NULL, NULL, kv_exchange_handle, s,
		MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_URI_LOG_CALLBACK, kv_exchange_begin, s,
		MHD_OPTION_NOTIFY_COMPLETED, kv_exchange_completed, s,
		MHD_OPTION_NOTIFY_CONNECTION, on_conn, s,
		MHD_OPTION_CONNECTION_LIMIT, s->o.conns_max,
		MHD_OPTION_CONNECTION_TIMEOUT, s->o.idle_s,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES,
		MHD_OPTION_END);
}

/* 0 or -errno. */
static int
join_loop(struct kv_server *s)
{
	const union MHD_DaemonInfo *info;
	int err;

	errno = ENOMEM;
	s->daemon = start_daemon(s);
	if (!s->daemon)
		return errno == EMFILE || errno == ENFILE ? -errno : -ENOMEM;
	info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	err = kv_loop_io_add(s->loop, &s->events, info->epoll_fd, EPOLLIN);
	if (!err)
		err = kv_loop_io_add(s->loop, &s->listener, s->fd, EPOLLIN);
	return err;
}

static struct kv_server *
server_new(const struct kv_server_opts *opts)
{
	struct kv_server *s = KV_FAULT_POINT() ? NULL : calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->o = *opts;
	if (s->o.conns_max == 0)
		s->o.conns_max = KV_SERVER_CONNS_MAX;
	if (s->o.idle_s == 0)
		s->o.idle_s = KV_SERVER_IDLE_S;
	if (s->o.request_s == 0)
		s->o.request_s = KV_SERVER_REQUEST_S;
	s->loop = opts->loop;
	s->fd = -1;
	s->events.fn = on_events;
	s->listener.fn = on_listener;
	s->timer.fn = on_timer;
	s->retry.fn = on_retry;
	s->sweep.fn = on_sweep;
	s->run.fn = on_run;
	kv_list_init(&s->conns);
	kv_list_init(&s->exchanges);
	return s;
}

struct kv_server *
kv_server_new(const struct kv_server_opts *opts, char *err, size_t err_bytes)
{
	struct kv_server *s = server_new(opts);
	int code;

	if (!s) {
		snprintf(err, err_bytes, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	s->fd = open_listener(opts, err, err_bytes);
	if (s->fd < 0)
		goto free_server;
	s->port = bound_port(s->fd);
	code = join_loop(s);
	if (code) {
		errno = -code;
		snprintf(err, err_bytes, "cannot start the HTTP server: %m");
		errno = -code;
		goto free_server;
	}
	return s;

free_server:
	code = errno;
	kv_server_free(s);
	errno = code;
	return NULL;
}

void
kv_server_free(struct kv_server *s)
{
	struct kv_exchange *x;

	if (!s)
		return;
	kv_loop_io_del(&s->listener);
	/* None of them may be suspended when the daemon stops. */
	KV_LIST_FOREACH(x, &s->exchanges, link)
		kv_exchange_abandon(x);
	kv_loop_io_del(&s->events);
	if (s->daemon)
		MHD_stop_daemon(s->daemon);
	kv_loop_timer_del(&s->timer);
	kv_loop_timer_del(&s->retry);
	kv_loop_timer_del(&s->sweep);
	kv_loop_defer_del(&s->run);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

uint16_t
kv_server_port(const struct kv_server *s)
{
	return s->port;
}
