/*
 * usage: garbage --targets=T,... --http=T,... --corpus=FOLDER --seconds=N
 *
 * Throws at every target (host:port, or the path of a socket) what no honest
 * program sends, and at every HTTP port what no browser does. Prints how much
 * of it there was. Whether the others survive it is for others to see.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/num.h"
#include "driver.h"
#include "forge.h"

enum {
	THREADS_MAX = 16,
	TARGETS_MAX = 16,
	IDLE_MAX = 40, /* connections held open by a thread */
	FDS_MAX = 250,
};

static struct driver d;
static const char *targets_text = "", *http_text = "", *corpus;
static uint64_t seconds = 5, threads = 3;

static const struct driver_opt options[] = {
	{ "targets", DRIVER_TEXT, &targets_text },
	{ "http", DRIVER_TEXT, &http_text },
	{ "corpus", DRIVER_TEXT, &corpus },
	{ "seconds", DRIVER_NUMBER, &seconds },
	{ "threads", DRIVER_NUMBER, &threads },
	{ 0 },
};

static char *targets[TARGETS_MAX], *https[TARGETS_MAX];
static size_t ntargets, nhttps;
static uint64_t end_ns;

struct thrower {
	pthread_t thread;
	struct forge forge;
	uint8_t *frame; /* FORGE_BYTES_MAX */
	int idle[IDLE_MAX];
	uint64_t conns;
	uint64_t frames;
	uint64_t bytes;
	uint64_t refused; /* connections */
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static uint64_t
below(struct thrower *t, uint64_t n)
{
	return kv_rng_below(&t->forge.rng, n);
}

static bool
throw_bytes(struct thrower *t, int fd, const void *bytes, size_t len)
{
	t->bytes += len;
	return forge_send(fd, bytes, len);
}

/* ---- at the ports of the protocol ---- */

static void
throw_random(struct thrower *t, int fd)
{
	size_t len = 1 + below(t, below(t, 4) ? 200 : 200000);

	kv_rng_bytes(&t->forge.rng, t->frame, len);
	if (below(t, 2)) /* a good beginning */
		memcpy(t->frame, "KVP1\1", 5);
	throw_bytes(t, fd, t->frame, len);
}

static void
throw_cut(struct thrower *t, int fd)
{
	const struct forge_seed *s = forge_of_type(&t->forge, KV_MSG_HELLO);
	size_t len = forge_change(&t->forge, s, t->frame);
	size_t cut = below(t, len), at = 0, n;

	while (at < cut) {
		n = kv_min_u64(1 + below(t, 40), cut - at);
		if (!throw_bytes(t, fd, t->frame + at, n))
			return;
		at += n;
		usleep((useconds_t)below(t, 3000));
	}
}

static void
throw_hello(struct thrower *t, int fd)
{
	const struct forge_seed *s = forge_of_type(&t->forge, KV_MSG_HELLO);

	for (int i = 0; i < 3; i++)
		throw_bytes(t, fd, t->frame,
			    forge_change(&t->forge, s, t->frame));
}

/* Payload that a frame announced, or a part of it. */
static bool
throw_payload(struct thrower *t, int fd, uint64_t left)
{
	size_t n = kv_min_u64(left, 300000);

	if (below(t, 8) == 0)
		n = below(t, n + 1);
	kv_rng_bytes(&t->forge.rng, t->frame, n);
	return throw_bytes(t, fd, t->frame, n);
}

static void
throw_frames(struct thrower *t, int fd)
{
	enum kv_role role = (enum kv_role)(1 + below(t, 5));
	uint64_t token = forge_hello(&t->forge, fd, role, below(t, 20));
	bool reads = below(t, 3) != 0;

	if (token == 0)
		t->refused++;
	for (uint64_t n = 1 + below(t, 60); n > 0; n--) {
		const struct forge_seed *s = forge_pick(&t->forge);
		size_t len = forge_change(&t->forge, s, t->frame);

		if (below(t, 30) == 0) /* one bit, under the old sum */
			t->frame[below(t, len)] ^= (uint8_t)(1 << below(t, 8));
		t->frames++;
		if (!throw_bytes(t, fd, t->frame, len))
			return;
		if (s->payload && !throw_payload(t, fd, s->payload))
			return;
		if (reads && !forge_drain(fd, 0))
			return;
	}
	forge_drain(fd, (int)below(t, 30));
}

/* Lets go, fills, gives up what others hold: names counted through. */
static void
throw_names(struct thrower *t, int fd)
{
	static const enum kv_msg_type types[] = { KV_MSG_RELEASE,
						  KV_MSG_FILLED };
	struct forge_seed like = { .type = types[below(t, 2)], .id = 1 };
	size_t body = kv_msg_body_bytes(like.type), n = 4000;
	uint8_t *bytes = t->frame + KV_HEADER_BYTES;
	struct kv_le64 *names = (void *)(bytes + body);
	uint64_t first = below(t, 2) ? 0 : below(t, 100000);

	if (!forge_hello(&t->forge, fd, KV_ROLE_REQUESTER, 0))
		return;
	memset(bytes, 0, body);
	memcpy(bytes, &n, sizeof(uint32_t));
	if (like.type == KV_MSG_FILLED)
		bytes[sizeof(uint32_t)] = (uint8_t)below(t, 2);
	for (uint64_t i = 0; i < n; i++)
		names[i] = kv_le64(first + i);
	t->frames++;
	throw_bytes(t, fd, t->frame,
		    forge_seal(t->frame, &like, body + n * sizeof(*names)));
	forge_drain(fd, 20);
}

/* Questions by the thousand whose answers nobody reads. */
static void
throw_questions(struct thrower *t, int fd)
{
	static const enum kv_msg_type types[] = {
		KV_MSG_STATS, KV_MSG_NODES,  KV_MSG_PING,
		KV_MSG_GET,   KV_MSG_LOOKUP, KV_MSG_KEYS,
	};
	const struct forge_seed *s =
		forge_of_type(&t->forge, types[below(t, 6)]);
	size_t len;

	if (!forge_hello(&t->forge, fd, KV_ROLE_REQUESTER, 0))
		return;
	memcpy(t->frame + KV_HEADER_BYTES, s->bytes, s->len);
	len = forge_seal(t->frame, s, s->len);
	for (int i = 0; i < 3000; i++) {
		t->frames++;
		if (!throw_bytes(t, fd, t->frame, len))
			return;
	}
	usleep(50000);
}

/* Descriptors that nobody asked for. */
static void
throw_fds(struct thrower *t, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	size_t n = 1 + below(t, FDS_MAX);
	const struct forge_seed *s = forge_of_type(&t->forge, KV_MSG_PING);
	size_t len = forge_change(&t->forge, s, t->frame);
	struct iovec iov = { t->frame, len };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (below(t, 2))
		forge_hello(&t->forge, fd, KV_ROLE_REQUESTER, 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
	for (int i = 0; i < 3; i++)
		sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	forge_drain(fd, 5);
}

/* Holds it, in the place of one that it lets go. False: nothing was held. */
static bool
keep_idle(struct thrower *t, int fd)
{
	int *slot = &t->idle[below(t, IDLE_MAX)];

	if (*slot >= 0)
		close(*slot);
	*slot = fd;
	return true;
}

static void
reset(int fd)
{
	const struct linger hard = { 1, 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static void
attack(struct thrower *t, const char *target)
{
	int fd = forge_connect(target);

	if (fd < 0) {
		t->refused++;
		usleep(1000);
		return;
	}
	t->conns++;
	switch (below(t, 12)) {
	case 0:
		throw_random(t, fd);
		break;
	case 1:
		throw_cut(t, fd);
		break;
	case 2:
		throw_hello(t, fd);
		break;
	case 3:
		throw_names(t, fd);
		break;
	case 4:
		throw_questions(t, fd);
		break;
	case 5:
		throw_fds(t, fd);
		break;
	case 6:
		if (keep_idle(t, fd))
			return;
		break;
	default:
		throw_frames(t, fd);
	}
	if (below(t, 4) == 0)
		reset(fd);
	close(fd);
}

/* ---- at the ports of HTTP ---- */

static const char *const requests[] = {
	"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /query_key?key=%s HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /get_all_keys HTTP/1.0\r\n\r\n",
	"GET /get_all_segments HTTP/1.1\r\nHost: x\r\nRange: bytes=5-\r\n\r\n",
	"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
	"PUT /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
	"GET /%s?%s&&&=%zz%00%s HTTP/1.1\r\nHost: x\r\n\r\n",
	"HEAD /metrics/summary HTTP/1.1\r\nHost:\r\n\r\n",
	"GET http://[::1/../../etc/passwd HTTP/9.9\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
};

static void
attack_http(struct thrower *t, const char *target)
{
	char *text = (char *)t->frame;
	int fd = forge_connect(target);
	size_t len;

	if (fd < 0) {
		t->refused++;
		usleep(1000);
		return;
	}
	t->conns++;
	strcpy(text, requests[below(t, KV_ARRAY_LEN(requests))]);
	len = strlen(text);
	for (uint64_t n = below(t, 3); n > 0; n--)
		text[below(t, len)] = (char)below(t, 256);
	if (below(t, 10) == 0) { /* without an end */
		len = 1000 + below(t, 200000);
		memset(text + 12, "a%/&"[below(t, 4)], len - 12);
	}
	for (uint64_t n = 1 + below(t, 4); n > 0; n--)
		throw_bytes(t, fd, text, below(t, 6) ? len : below(t, len));
	if (below(t, 3))
		forge_drain(fd, 20);
	if (below(t, 10) == 0 && keep_idle(t, fd))
		return;
	if (below(t, 4) == 0)
		reset(fd);
	close(fd);
}

/* ---- the run ---- */

static void *
run(void *arg)
{
	struct thrower *t = arg;

	while (now_ns() < end_ns) {
		if (nhttps && (ntargets == 0 || below(t, 5) == 0))
			attack_http(t, https[below(t, nhttps)]);
		else
			attack(t, targets[below(t, ntargets)]);
	}
	for (size_t i = 0; i < IDLE_MAX; i++)
		if (t->idle[i] >= 0)
			close(t->idle[i]);
	return NULL;
}

static size_t
split(const char *list, char **out)
{
	char *rest = strdup(list), *one;
	size_t n = 0;

	while ((one = strsep(&rest, ",")))
		if (*one && n < TARGETS_MAX)
			out[n++] = one;
	return n;
}

static struct thrower *
thrower_new(uint64_t number)
{
	struct thrower *t = calloc(1, sizeof(*t));

	if (!t || !(t->frame = malloc(FORGE_BYTES_MAX + 1000)))
		exit(EX_OSERR);
	kv_rng_seed(&t->forge.rng, d.seed * 1000003 + number);
	for (size_t i = 0; i < IDLE_MAX; i++)
		t->idle[i] = -1;
	if (!corpus || forge_load(&t->forge, corpus) == 0) {
		fprintf(stderr, "no frames in %s\n", corpus ? corpus : "");
		exit(EX_USAGE);
	}
	return t;
}

int
main(int argc, char **argv)
{
	struct thrower *all[THREADS_MAX], sum = { 0 };

	(void)argc;
	driver_parse(&d, options, argv);
	ntargets = split(targets_text, targets);
	nhttps = split(http_text, https);
	if (threads > THREADS_MAX || ntargets + nhttps == 0)
		return EX_USAGE;
	end_ns = now_ns() + seconds * KV_NS_PER_S;
	for (uint64_t i = 0; i < threads; i++) {
		all[i] = thrower_new(i);
		if (pthread_create(&all[i]->thread, NULL, run, all[i]))
			return EX_OSERR;
	}
	for (uint64_t i = 0; i < threads; i++) {
		pthread_join(all[i]->thread, NULL);
		sum.conns += all[i]->conns;
		sum.frames += all[i]->frames;
		sum.bytes += all[i]->bytes;
		sum.refused += all[i]->refused;
		forge_fini(&all[i]->forge);
		free(all[i]->frame);
		free(all[i]);
	}
	printf("{\"connections\":%" PRIu64 ",\"frames\":%" PRIu64
	       ",\"bytes\":%" PRIu64 ",\"refused\":%" PRIu64 "}\n",
	       sum.conns, sum.frames, sum.bytes, sum.refused);
	return 0;
}
