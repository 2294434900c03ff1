/* The listening side: memory, an engine, and what the other side orders. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/num.h"
#include "base/sample.h"
#include "base/str.h"
#include "cli/tool.h"
#include "cmd/kvbench_link.h"
#include "cmd/kvbench_linkctl.h"
#include "net/lookup.h"

enum {
	NOTES_MAX = 64,
	NOTES_CHECKED = 64, /* of a round; the others are counted */
	LOOK_MS = 200,      /* whether it is to end */
	NOTES_MS = 1,       /* messages that wait are taken so often */
	PAGE_BYTES = 4096,
	DEAD_MS = 30000, /* the other side is lost */
};

struct server {
	const struct kvbench_link *l;
	struct kv_engine *engine;
	struct kvbench_ctl_page *page;
	char *memory;
	char host[KV_ADDR_NAME_BYTES_MAX + 1]; /* that it listens on */
	uint16_t port;
	int listener;
	int fd; /* the other side; -1: none */
	/* Messages that are to come. */
	bool has_notes;
	uint64_t note_bytes, note_seed;
	uint64_t notes, bad_notes;
	uint64_t last; /* kind of order; 0: none yet */
	struct kvbench_tool tool;
	struct kv_rdmadev *devices; /* for perftest */
	long n_devices;
};

static volatile sig_atomic_t is_stopped;

static void
on_signal(int number)
{
	(void)number;
	is_stopped = 1;
}

/* ---- messages ---- */

static void
note_check(struct server *s, const struct kv_note_in *note)
{
	bool is_read = s->notes++ < NOTES_CHECKED;

	if (note->text_len != s->note_bytes ||
	    (is_read && kv_sample_check(note->text, note->text_len,
					s->note_seed) != note->text_len))
		s->bad_notes++;
}

static void
notes_take(struct server *s)
{
	struct kv_note_in notes[NOTES_MAX];
	long n, i;

	do {
		n = kv_engine_notes(s->engine, notes, NOTES_MAX);
		for (i = 0; i < n; i++) {
			note_check(s, &notes[i]);
			free(notes[i].text);
		}
	} while (n == NOTES_MAX);
}

/* ---- orders ---- */

/* The engine's thread and this one take turns at the memory, as the other side
 * says. Nothing else tells the one of them what the other did: the lock of the
 * engine's regions does. */
static void
hand_over(struct server *s)
{
	(void)kv_engine_register(s->engine, s->page, PAGE_BYTES);
	(void)kv_engine_unregister(s->engine, s->page);
}

/* Whether they lie in the memory. */
static bool
slots_parse(const struct server *s, const struct kvbench_ctl_order *o,
	    struct kvbench_link_cell *out)
{
	*out = (struct kvbench_link_cell){
		.size = kv_get64(o->v[0]),
		.stride = kv_get64(o->v[1]),
		.slots = kv_get64(o->v[2]),
		.seed = kv_get64(o->v[3]),
	};
	return out->slots > 0 && out->size <= out->stride && out->stride > 0 &&
	       out->slots <= s->l->memory / out->stride;
}

static int
on_slots(struct server *s, const struct kvbench_ctl_order *o, bool is_fill)
{
	struct kvbench_link_cell cell;
	int64_t bad = -1;

	if (!slots_parse(s, o, &cell))
		return kvbench_ctl_answer(s->fd, -EINVAL, 0, 0);
	if (is_fill)
		kvbench_load_fill(s->memory, &cell);
	else
		bad = kvbench_load_check(s->memory, &cell);
	hand_over(s);
	return kvbench_ctl_answer(s->fd, 0,
				  bad < 0 ? cell.slots : (uint64_t)bad, 0);
}

static int
on_notes(struct server *s, const struct kvbench_ctl_order *o)
{
	notes_take(s);
	s->has_notes = true;
	s->note_bytes = kv_get64(o->v[0]);
	s->note_seed = kv_get64(o->v[3]);
	s->notes = s->bad_notes = 0;
	return kvbench_ctl_answer(s->fd, 0, 0, 0);
}

static int
on_noted(struct server *s)
{
	notes_take(s);
	s->has_notes = false;
	return kvbench_ctl_answer(s->fd, 0, s->notes, s->bad_notes);
}

/* Only where whoever listens agreed to it. */
static int
on_tool(struct server *s, const struct kvbench_ctl_order *o)
{
	int rc = -EPERM;

	s->tool = (struct kvbench_tool){
		.op = kv_get64(o->v[0]) % 256,
		.bytes = kv_get64(o->v[1]),
		.calls = kv_get64(o->v[2]),
		.depth = kv_get64(o->v[3]),
		.device = kvbench_tool_device(s->devices, s->n_devices,
					      kv_get64(o->v[0]) / 256),
	};
	if (s->tool.device)
		rc = kvbench_tool_listen(&s->tool);
	return kvbench_ctl_answer(s->fd, rc, s->tool.port, 0);
}

/* 1: the other side is done. */
static int
on_order(struct server *s, const struct kvbench_ctl_order *o)
{
	/* Who orders the next thing is done with it. */
	kvbench_tool_end(&s->tool);
	if (kv_get64(o->type) != s->last)
		hand_over(s);
	s->last = kv_get64(o->type);
	switch (s->last) {
	case KVBENCH_CTL_GIVE:
		return kvbench_ctl_take_given(s->fd, s->memory, s->l->memory,
					      kv_get64(o->v[0]));
	case KVBENCH_CTL_TAKE:
		return kvbench_ctl_give_taken(s->fd, s->memory, s->l->memory,
					      kv_get64(o->v[0]));
	case KVBENCH_CTL_FILL:
		return on_slots(s, o, true);
	case KVBENCH_CTL_CHECK:
		return on_slots(s, o, false);
	case KVBENCH_CTL_CPU:
		return kvbench_ctl_answer(s->fd, 0, kvbench_load_cpu_ns(), 0);
	case KVBENCH_CTL_NOTES:
		return on_notes(s, o);
	case KVBENCH_CTL_NOTED:
		return on_noted(s);
	case KVBENCH_CTL_TOOL:
		return on_tool(s, o);
	case KVBENCH_CTL_OVER:
		(void)kvbench_ctl_answer(s->fd, 0, 0, 0);
		return 1;
	default:
		return -EPROTO;
	}
}

/* While messages come they are taken; else it sleeps in recv(). */
static int
wait_order(struct server *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	while (s->has_notes && !is_stopped) {
		if (poll(&p, 1, NOTES_MS) > 0)
			break;
		notes_take(s);
	}
	return is_stopped ? -EINTR : 0;
}

static int
serve(struct server *s)
{
	struct kvbench_ctl_order o;
	int rc = 0;

	s->has_notes = false;
	while (rc == 0) {
		rc = wait_order(s);
		if (rc == 0)
			rc = kvbench_ctl_recv(s->fd, &o, sizeof(o));
		if (rc == 0)
			rc = on_order(s, &o);
	}
	kvbench_tool_end(&s->tool);
	return rc;
}

/* ---- the other side ---- */

static void
prepare(int fd)
{
	const int dead_ms = DEAD_MS, on = 1, idle_s = DEAD_MS / 3000, times = 2;

	kvbench_ctl_prepare(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms,
		   sizeof(dead_ms));
}

static void
tell(const struct kv_lookup_addr *who, const char *what)
{
	char text[KV_ADDR_TEXT_BYTES_MAX];
	struct kv_addr a;

	kv_lookup_name(who, &a);
	fprintf(stderr, "kvbench: %s: %s\n", kv_addr_format(&a, text), what);
}

/* 1: it came, measured, and is done. */
static int
serve_next(struct server *s)
{
	struct pollfd p = { .fd = s->listener, .events = POLLIN };
	struct kv_lookup_addr who = { .len = sizeof(who.addr) };
	int rc;

	if (poll(&p, 1, LOOK_MS) <= 0)
		return 0;
	s->fd = accept4(s->listener, &who.addr.sa, &who.len, SOCK_CLOEXEC);
	if (s->fd < 0)
		return 0;
	prepare(s->fd);
	tell(&who, "measures");
	rc = serve(s);
	if (rc == 1)
		tell(&who, "is done");
	else if (!is_stopped)
		tell(&who, rc == -ECONNRESET ? "has ended" : strerror(-rc));
	close(s->fd);
	return rc == 1 && !s->l->keep;
}

/* ---- open ---- */

static int
listen_at(struct server *s)
{
	const char *text = s->l->listen ? s->l->listen : "0.0.0.0";
	char err[KV_ADDR_ERROR_BYTES], addr[KV_ADDR_TEXT_BYTES_MAX];
	const struct kv_engine_opts o = {
		.size = sizeof(o),
		.listen = addr,
		.no_attach = !s->l->local,
		.protocol = s->l->protocol == KV_PROTOCOL_TCP    ? "tcp"
			    : s->l->protocol == KV_PROTOCOL_RDMA ? "rdma"
								 : "auto",
		.device = s->l->devices,
		.qps = s->l->client.qps,
		.slice_bytes = s->l->client.slice_bytes,
	};
	struct kv_addr a;

	if (kv_addr_parse(text, KVBENCH_LINK_PORT, &a, err, sizeof(err)) < 0)
		return kv_tool_say(EX_USAGE, "--listen: %s", err);
	if (a.kind != KV_ADDR_TCP)
		return kv_tool_say(EX_USAGE, "--listen: '%s' is not HOST:PORT",
				   text);
	snprintf(s->host, sizeof(s->host), "%s", a.name);
	kv_addr_format(&a, addr);
	s->engine = kv_engine_open(&o, err, sizeof(err));
	if (!s->engine)
		return kv_tool_say(EX_UNAVAILABLE, "%s", err);
	s->port = (uint16_t)(kv_engine_port(s->engine) + 1);
	s->listener = kvbench_ctl_listen(s->host, &s->port);
	return s->listener < 0
		       ? kv_tool_say(EX_UNAVAILABLE, "%s, port %u: %s", s->host,
				     s->port, strerror(-s->listener))
		       : 0;
}

/* The page is the first region, which is how others find it; its magic is the
 * last thing that comes true. */
static int
memory_open(struct server *s)
{
	uint64_t bytes = s->l->memory, n = 0;
	int rc;

	s->page = aligned_alloc(PAGE_BYTES, PAGE_BYTES);
	if (!s->page)
		return kv_tool_fail(-KV_ENOMEM);
	memset(s->page, 0, PAGE_BYTES);
	rc = kv_engine_register(s->engine, s->page, PAGE_BYTES);
	s->memory = s->l->local ? kv_engine_alloc(s->engine, bytes)
				: kvbench_load_memory(bytes);
	if (!s->memory)
		return kv_tool_say(EX_OSERR,
				   "no memory: try a smaller --memory");
	if (rc == 0 && !s->l->local)
		rc = kv_engine_register(s->engine, s->memory, bytes);
	if (rc)
		return kv_tool_fail(rc);
	s->page->memory_at = kv_le64((uintptr_t)s->memory);
	s->page->memory_bytes = kv_le64(bytes);
	s->page->port = kv_le64(s->port);
	while (kvbench_tool_device(s->devices, s->n_devices, n))
		n++;
	s->page->tool_devices = kv_le64(n);
	memcpy(s->page->magic, KVBENCH_CTL_MAGIC, sizeof(s->page->magic));
	hand_over(s);
	return 0;
}

static int
perftest_open(struct server *s)
{
	const struct kv_rdmadev_opts o = { .wanted = s->l->devices,
					   .root = "" };
	char why[KV_RDMADEV_WHY_BYTES];
	long n;

	if (!s->l->perftest)
		return 0;
	n = kv_rdmadev_list(&o, &s->devices, why, sizeof(why));
	if (n < 0)
		return kv_tool_say(EX_UNAVAILABLE, "--perftest: %s", why);
	s->n_devices = n;
	return kvbench_tool_device(s->devices, n, 0)
		       ? 0
		       : kv_tool_say(EX_UNAVAILABLE,
				     "--perftest: this machine has no RDMA "
				     "device that can be used; see `kvdiag "
				     "devices`");
}

static int
say_where(const struct server *s)
{
	struct kv_addr a = { .kind = KV_ADDR_TCP,
			     .port = kv_engine_port(s->engine) };
	char text[KV_ADDR_TEXT_BYTES_MAX], size[16];

	snprintf(a.name, sizeof(a.name), "%s", s->host);
	if (kv_addr_is_unspecified(&a))
		gethostname(a.name, sizeof(a.name) - 1);
	printf("kvbench link listens, TCP ports %u and %u, with %s of "
	       "memory. On the other side:\n\n    kvbench link %s\n\n",
	       a.port, s->port,
	       kv_str_size_format(size, sizeof(size), s->l->memory),
	       kv_addr_format(&a, text));
	return fflush(stdout) == 0 ? 0 : EX_IOERR;
}

static void
server_close(struct server *s)
{
	if (s->listener >= 0)
		close(s->listener);
	if (s->l->local && s->memory)
		(void)kv_engine_free(s->engine, s->memory);
	kv_engine_close(s->engine);
	if (!s->l->local)
		kvbench_load_memory_free(s->memory, s->l->memory);
	free(s->page);
	free(s->devices);
}

int
kvbench_link_serve(const struct kvbench_link *l)
{
	struct server s = { .l = l, .listener = -1, .fd = -1 };
	const struct sigaction sa = { .sa_handler = on_signal };
	int rc = listen_at(&s);

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	if (rc == 0)
		rc = perftest_open(&s);
	if (rc == 0)
		rc = memory_open(&s);
	if (rc == 0)
		rc = say_where(&s);
	while (rc == 0 && !is_stopped && !serve_next(&s))
		;
	server_close(&s);
	return rc;
}
