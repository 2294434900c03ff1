/*
 * Plays a master and a requester for a kvclient in which one thing fails:
 *
 *	faultplay FOLDER KVCLIENT N [POOL_FILE]
 *
 * starts it with KV_FAULT=N (base/fault.h) and uses everything of it once; with
 * a pool file it leaves values there for the next one.
 * Any step may fail then; but nothing may hang, and once the fault is over
 * (FOLDER/report says so) all of it has to work. Exit status: 0 it did, 1 it
 * did not (the reason is on stderr), 2 the daemon never started, in order.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/log.h"
#include "base/status.h"
#include "event/loop.h"
#include "net/sock.h"
#include "svc/master.h"
#include "wirepeer.h"

enum {
	POOL = 4 << 20,
	VALUE = 1 << 20,
};

static struct kv_loop *loop;
static struct kv_net *net;
static struct kv_master *master;
static const char *folder, *pool_file, *why = "";
static char bound[KV_NET_BOUND_BYTES];
static pid_t daemon_pid;
static uint8_t value[VALUE];

static void
broken(const char *what)
{
	fprintf(stderr, "faultplay: %s (%s)\n", what, why);
	kill(daemon_pid, SIGKILL);
	exit(1);
}

/* Turns until the condition holds; false after ms. */
#define WITHIN(ms, condition)                                                \
	({                                                                   \
		uint64_t end_ = kv_loop_refresh(loop) + (ms)*KV_NS_PER_MS;   \
		bool holds_;                                                 \
		while (!(holds_ = (condition)) &&                            \
		       kv_loop_refresh(loop) < end_)                         \
			kv_loop_turn(loop,                                   \
				     kv_loop_now(loop) + 10 * KV_NS_PER_MS); \
		holds_;                                                      \
	})

/* ---- the daemon ---- */

static pid_t
daemon_start(const char *program, const char *fault)
{
	char socket[256], report[256], log[256];
	int fd;
	pid_t pid;

	snprintf(socket, sizeof(socket), "%s/s", folder);
	snprintf(report, sizeof(report), "%s/report", folder);
	snprintf(log, sizeof(log), "%s/log", folder);
	pid = fork();
	if (pid != 0)
		return pid;
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dup2(fd, STDERR_FILENO);
	setenv("KV_FAULT", fault, 1);
	setenv("KV_FAULT_REPORT", report, 1);
	execl(program, program, "--global-segment-size", "4MB", "--port", "0",
	      "--host", "127.0.0.1", "--socket", socket, "--master", bound,
	      "--workers", "1", pool_file ? "--pool-file" : (char *)NULL,
	      pool_file, (char *)NULL);
	_exit(127);
}

static bool
file_has(const char *name, const char *word, char *after, size_t n)
{
	static char text[1 << 16];
	char path[256], *at;
	FILE *f;
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[len] = '\0';
	at = strstr(text, word);
	if (at && after)
		snprintf(after, n, "%.*s",
			 (int)strcspn(at + strlen(word), " \n"),
			 at + strlen(word));
	return at;
}

/* Its exit status, or -1 while it runs. */
static int
daemon_status(void)
{
	int status;

	if (waitpid(daemon_pid, &status, WNOHANG) != daemon_pid)
		return -1;
	if (WIFSIGNALED(status))
		broken("the daemon was killed by a signal");
	return WEXITSTATUS(status);
}

/* ---- the requester; every step is true when it went well ---- */

struct session {
	struct wirepeer local, remote, data;
	uint64_t data_token;
	uint8_t *map;
};

struct dialled {
	struct wirepeer *p;
	bool is_told;
	struct kv_dial *dial;
};

static void
on_dial(void *arg, struct kv_stream *s, int status)
{
	struct dialled *d = arg;

	(void)status;
	d->is_told = true;
	if (s)
		wirepeer_open(d->p, loop, s);
}

/* Something came, or nothing will. */
static bool
came(struct wirepeer *p, enum kv_msg_type type)
{
	return wirepeer_count(p, type) || p->is_lost ||
	       wirepeer_count(p, KV_MSG_ERROR_R);
}

static struct wireframe *
ask(struct wirepeer *p, enum kv_msg_type type, enum kv_msg_type answer,
    const void *body, const void *tail, size_t n)
{
	if (!p->c || p->is_lost || !kv_conn_is_open(p->c))
		return NULL;
	if (type)
		wirepeer_send(p, type, 1, body, tail, n);
	if (!WITHIN(8000, came(p, answer)))
		broken("no answer");
	return wirepeer_take(p, answer);
}

/* The first byte of a body is the status in most of them. */
static bool
is_ok(struct wireframe *f)
{
	bool is_good = f && f->body[0] == KV_OK;

	wireframe_free(f);
	return is_good;
}

static bool
dial(struct wirepeer *p, const char *addr, enum kv_role role, uint64_t token,
     uint64_t *out)
{
	struct kv_hello h = {
		.version_min = kv_le16(KV_WIRE_VERSION),
		.version_max = kv_le16(KV_WIRE_VERSION),
		.role = (uint8_t)role,
		.boot = { { 4 } },
		.token = kv_le64(token),
	};
	struct dialled d = { .p = p };
	struct wireframe *f;

	why = "dialling";
	net->connect(net, loop, addr, kv_loop_now(loop) + 5 * KV_NS_PER_S,
		     on_dial, &d);
	if (!WITHIN(6000, d.is_told))
		broken("a dial without an end");
	f = p->c ? ask(p, KV_MSG_HELLO, KV_MSG_HELLO_R, &h, NULL, 0) : NULL;
	if (f)
		*out = kv_get64(((struct kv_hello_r *)(void *)f->body)->token);
	return is_ok(f);
}

static bool
attach(struct session *s)
{
	struct kv_attach a = { .flags = KV_ATTACH_WRITE };
	struct wireframe *f;
	void *map;

	why = "attaching";
	f = ask(&s->local, KV_MSG_ATTACH, KV_MSG_ATTACH_R, &a, NULL, 0);
	if (!f || f->body[0] != KV_OK || f->fd < 0) {
		wireframe_free(f);
		return false;
	}
	map = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (map == MAP_FAILED)
		broken("the descriptor is none of a pool");
	s->map = map;
	wireframe_free(f);
	return true;
}

static bool
put_end(struct wirepeer *p)
{
	struct wireframe *f = ask(p, 0, KV_MSG_PUT_R, NULL, NULL, 0);
	bool is_good = f && f->tail_len == 1 &&
		       (f->tail[0] == KV_OK || f->tail[0] == KV_EEXISTS);

	wireframe_free(f);
	return is_good;
}

static struct wireframe *
put_begin(struct session *s, struct wirepeer *p, const char *key, size_t size,
	  const char *inl)
{
	struct {
		struct kv_put_ent e;
		char bytes[64];
	} tail = { .e = { .size = kv_le64(size),
			  .key_len = kv_le16((uint16_t)strlen(key)),
			  .flags = inl ? KV_ENT_INLINE : 0 } };
	struct kv_put m = {
		.put_id.random = kv_le64((uint64_t)random()),
		.count = kv_le32(1),
		.budget_ms = kv_le32(3000),
		.mode = p == &s->local ? KV_MODE_SHM : KV_MODE_DATA,
		.data_token = kv_le64(s->data_token),
	};
	size_t n = sizeof(tail.e) + strlen(key);

	memcpy(tail.bytes, key, strlen(key));
	if (inl) {
		memcpy(tail.bytes + strlen(key), inl, size);
		n += size;
	}
	if (!p->c || !kv_conn_is_open(p->c))
		return NULL;
	wirepeer_send(p, KV_MSG_PUT, 1, &m, &tail, n);
	if (inl)
		return NULL;
	if (!WITHIN(8000,
		    came(p, KV_MSG_GRANT_R) || wirepeer_count(p, KV_MSG_PUT_R)))
		broken("neither grant nor answer");
	return wirepeer_take(p, KV_MSG_GRANT_R);
}

static bool
put_shm(struct session *s, const char *key)
{
	struct kv_filled filled = { .count = kv_le32(1) };
	const struct kv_grant_ent *g;
	const struct kv_extent_le *e;
	struct wireframe *f;
	uint64_t at = 0;

	why = "putting in place";
	f = put_begin(s, &s->local, key, VALUE, NULL);
	if (!f)
		return put_end(&s->local);
	g = (void *)f->tail;
	e = (const void *)(g + 1);
	for (uint32_t i = 0; i < kv_get32(g->extents); i++) {
		uint64_t n = kv_get64(e[i].len);

		n = n < VALUE - at ? n : VALUE - at;
		memcpy(s->map + kv_get64(e[i].off), value + at, n);
		at += n;
	}
	wirepeer_send(&s->local, KV_MSG_FILLED, 1, &filled, &g->grant, 8);
	wireframe_free(f);
	return put_end(&s->local);
}

static bool
put_data(struct session *s, const char *key)
{
	const struct kv_grant_ent *g;
	struct wireframe *f;

	why = "putting over a data connection";
	f = put_begin(s, &s->remote, key, VALUE, NULL);
	if (f && s->data.c && kv_conn_is_open(s->data.c)) {
		g = (void *)f->tail;
		wirepeer_send_data(&s->data, kv_get64(g->grant), 0, value,
				   VALUE);
	}
	wireframe_free(f);
	return put_end(&s->remote);
}

static bool
put_inline(struct session *s, const char *key)
{
	why = "putting in the message";
	put_begin(s, &s->remote, key, 5, "hello");
	return put_end(&s->remote);
}

static struct wireframe *
get(struct session *s, struct wirepeer *p, const char *key)
{
	struct {
		struct kv_get_ent e;
		char key[16];
	} tail = { .e = { .len = kv_le64(POOL),
			  .key_len = kv_le16((uint16_t)strlen(key)) } };
	struct kv_get m = {
		.count = kv_le32(1),
		.budget_ms = kv_le32(3000),
		.mode = p == &s->local ? KV_MODE_SHM : KV_MODE_DATA,
		.data_token = kv_le64(s->data_token),
	};

	memcpy(tail.key, key, strlen(key));
	return ask(p, KV_MSG_GET, KV_MSG_GET_R, &m, &tail,
		   sizeof(tail.e) + strlen(key));
}

static bool
get_shm(struct session *s, const char *key)
{
	struct kv_release rel = { .count = kv_le32(1) };
	const struct kv_get_ent_r *r;
	const struct kv_extent_le *e;
	struct wireframe *f;
	bool is_good;
	uint64_t at = 0;

	why = "getting in place";
	f = get(s, &s->local, key);
	if (!f)
		return false;
	r = (void *)f->tail;
	e = (const void *)(r + 1);
	is_good = f->body[0] == KV_OK && r->status == KV_OK;
	for (uint16_t i = 0; is_good && i < kv_get16(r->extents); i++) {
		if (memcmp(s->map + kv_get64(e[i].off), value + at,
			   kv_get64(e[i].len)) != 0)
			broken("other bytes in place");
		at += kv_get64(e[i].len);
	}
	if (is_good)
		wirepeer_send(&s->local, KV_MSG_RELEASE, 1, &rel, &r->pin, 8);
	wireframe_free(f);
	return is_good && at == VALUE;
}

static bool
get_data(struct session *s, const char *key)
{
	const struct kv_get_ent_r *r;
	struct wireframe *f;
	size_t got = 0;
	bool is_good;

	why = "getting over a data connection";
	f = get(s, &s->remote, key);
	if (!f)
		return false;
	r = (void *)f->tail;
	is_good = f->body[0] == KV_OK && r->status == KV_OK;
	wireframe_free(f);
	while (is_good && got < VALUE) {
		f = ask(&s->data, 0, KV_MSG_DATA, NULL, NULL, 0);
		if (!f)
			return false;
		if (memcmp(f->payload, value + got, f->payload_len) != 0)
			broken("other bytes over a data connection");
		got += f->payload_len;
		wireframe_free(f);
	}
	return is_good;
}

static bool
admin(struct session *s)
{
	struct kv_query q = { .key_len = kv_le16(3), .flags = KV_QUERY_SUM };
	struct kv_keys k = { .pattern_len = kv_le16(1) };
	struct kv_remove rm = { .op = KV_REMOVE_REGEX, .count = kv_le32(1) };
	struct kv_lookup l = { .count = kv_le32(1) };
	struct kv_id id = { { 1 } };
	struct wirepeer *p = &s->remote;
	bool is_good;

	why = "asking";
	is_good = is_ok(ask(p, KV_MSG_QUERY, KV_MSG_QUERY_R, &q, "shm", 3));
	/* These have a status elsewhere, or none. */
	if (is_good) {
		struct wireframe *f;

		f = ask(p, KV_MSG_KEYS, KV_MSG_KEYS_R, &k, ".", 1);
		is_good = f;
		wireframe_free(f);
		f = ask(p, KV_MSG_LOOKUP, KV_MSG_LOOKUP_R, &l, &id, sizeof(id));
		is_good &= f != NULL;
		wireframe_free(f);
	}
	return is_good &&
	       is_ok(ask(p, KV_MSG_STATS, KV_MSG_STATS_R, NULL, NULL, 0)) &&
	       is_ok(ask(p, KV_MSG_REMOVE, KV_MSG_REMOVE_R, &rm, ".", 1));
}

/* It has heard what was sent before. */
static bool
told(struct session *s)
{
	return is_ok(
		ask(&s->local, KV_MSG_STATS, KV_MSG_STATS_R, NULL, NULL, 0));
}

/* What the last one left, if it did: it must be what was put. */
static bool
reread(struct session *s)
{
	get_shm(s, "tcp");
	get_data(s, "shm");
	return told(s) && admin(s);
}

static bool
play(const char *addr)
{
	static struct session s;
	char socket[256];
	uint64_t token = 0, local_token = 0;
	bool is_good;

	memset(&s, 0, sizeof(s));
	snprintf(socket, sizeof(socket), "unix:%s/s", folder);
	is_good = dial(&s.local, socket, KV_ROLE_REQUESTER, 0, &local_token) &&
		  dial(&s.remote, addr, KV_ROLE_REQUESTER, 0, &token) &&
		  dial(&s.data, addr, KV_ROLE_DATA, token, &s.data_token) &&
		  attach(&s) && (!pool_file || reread(&s)) &&
		  put_shm(&s, "shm") && put_inline(&s, "inl") &&
		  put_data(&s, "tcp") && get_data(&s, "shm") &&
		  get_shm(&s, "tcp") && (pool_file ? told(&s) : admin(&s));
	if (s.map)
		munmap(s.map, POOL);
	wirepeer_close(&s.local);
	wirepeer_close(&s.remote);
	wirepeer_close(&s.data);
	return is_good;
}

/* ---- all of it ---- */

static void
surroundings(void)
{
	struct kv_master_opts mo = { 0 };
	char err[256];

	kv_log_set_level(KV_LOG_ERR);
	loop = kv_loop_new(NULL);
	net = kv_sock_net_new();
	assert(loop);
	assert(net);
	mo.loop = loop;
	mo.net = net;
	mo.listen[0] = "127.0.0.1:0";
	master = kv_master_new(&mo, err, sizeof(err));
	assert(master);
	snprintf(bound, sizeof(bound), "%s", kv_master_bound(master, 0));
	for (size_t i = 0; i < VALUE; i++)
		value[i] = (uint8_t)(i * 7 + i / 253);
}

int
main(int argc, char **argv)
{
	char addr[128] = "";
	int status = -1;

	assert(argc == 4 || argc == 5);
	folder = argv[1];
	pool_file = argv[4];
	srandom((unsigned)getpid());
	surroundings();
	daemon_pid = daemon_start(argv[2], argv[3]);
	assert(daemon_pid > 0);
	why = "starting";
	if (!WITHIN(20000, (status = daemon_status()) >= 0 ||
				   file_has("log", " ready addr=", addr,
					    sizeof(addr))))
		broken("it neither starts nor ends");
	if (status >= 0) {
		fprintf(stderr, "it ended with %d\n", status);
		return status >= 64 && status <= 78 ? 2 : 1;
	}
	/* A session that was lost is back after a second at most. */
	for (int i = 0; i < 3; i++) {
		bool was_over = file_has("report", "reached", NULL, 0);
		bool is_good = play(addr);

		if (was_over && !is_good)
			broken("it does not work again");
	}
	why = "ending";
	kill(daemon_pid, SIGTERM);
	if (!WITHIN(20000, (status = daemon_status()) >= 0))
		broken("it does not end");
	if (status != 0)
		broken("it did not end with 0");
	kv_master_free(master);
	kv_sock_net_free(net);
	kv_loop_free(loop);
	return 0;
}
