/*
 * usage: unread --target=T --what=REQUEST --seconds=N [--key=KEY]
 *
 * Sends one kind of request after the other to T (host:port, or the path of a
 * socket) and reads no answer. What they ask for are KEY's bytes, or keys that
 * nobody has. Prints how many were taken; then it waits to be killed.
 *
 *        unread --target=T --halves=N
 *
 * Sends most of one long request on each of N connections, and no more.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver.h"
#include "rawreq.h"

enum {
	KEYS = KV_BATCH_KEYS_MAX,
	HASHES = 16384,
};

static struct driver d;
static const char *target, *what = "ping", *key = "";
static uint64_t seconds = 3, halves;

static const struct driver_opt options[] = {
	{ "target", DRIVER_TEXT, &target },
	{ "what", DRIVER_TEXT, &what },
	{ "key", DRIVER_TEXT, &key },
	{ "seconds", DRIVER_NUMBER, &seconds },
	{ "halves", DRIVER_NUMBER, &halves },
	{ 0 },
};

static struct forge forge;
static struct rawreq r;
static uint8_t frame[FORGE_BYTES_MAX];

/* ---- requests: the body, and the tail behind it; the tail's length ---- */

static size_t
nothing(void *body, uint8_t *tail)
{
	(void)body;
	(void)tail;
	return 0;
}

static size_t
lookup(void *body, uint8_t *tail)
{
	struct kv_lookup *m = body;

	m->count = kv_le32(HASHES);
	memset(tail, 7, HASHES * sizeof(struct kv_id));
	return HASHES * sizeof(struct kv_id);
}

static size_t
query(void *body, uint8_t *tail)
{
	struct kv_query *m = body;

	m->key_len = kv_le16((uint16_t)strlen(key));
	m->flags = KV_QUERY_SUM;
	memcpy(tail, key, strlen(key));
	return strlen(key);
}

static size_t
regex(void *body, uint8_t *tail)
{
	struct kv_remove *m = body;

	m->op = KV_REMOVE_REGEX;
	m->count = kv_le32(4);
	memcpy(tail, "none", 4);
	return 4;
}

static size_t
removal(void *body, uint8_t *tail)
{
	struct kv_remove *m = body;
	struct kv_le16 len = kv_le16(1);

	m->op = KV_REMOVE_KEYS;
	m->count = kv_le32(KEYS);
	for (size_t i = 0; i < KEYS; i++)
		memcpy(tail + i * sizeof(len), &len, sizeof(len));
	memset(tail + KEYS * sizeof(len), '\1', KEYS);
	return KEYS * (sizeof(len) + 1);
}

static size_t
get(void *body, uint8_t *tail, enum kv_mode mode, uint8_t flags)
{
	struct kv_get_ent *e = (void *)tail;
	struct kv_get *m = body;
	size_t len = strlen(key);

	m->count = kv_le32(KEYS);
	m->budget_ms = kv_le32(60000);
	m->mode = (uint8_t)mode;
	m->flags = flags;
	m->data_token = kv_le64(r.data_token);
	tail += KEYS * sizeof(*e);
	for (size_t i = 0; i < KEYS; i++, tail += len) {
		e[i] = (struct kv_get_ent){ .len = kv_le64(1 << 30),
					    .key_len = kv_le16((uint16_t)len) };
		memcpy(tail, key, len);
	}
	return KEYS * (sizeof(*e) + len);
}

static size_t
get_pinned(void *body, uint8_t *tail)
{
	return get(body, tail, KV_MODE_SHM, KV_GET_ZERO_COPY);
}

static size_t
get_data(void *body, uint8_t *tail)
{
	return get(body, tail, KV_MODE_DATA, 0);
}

/* Values that never come, of keys that are the same in each put or not. */
static size_t
put(void *body, uint8_t *tail, uint32_t salt)
{
	struct kv_put_ent *e = (void *)tail;
	struct kv_put *m = body;
	uint32_t id[2] = { salt, 0 };

	m->count = kv_le32(KEYS);
	m->budget_ms = kv_le32(60000);
	m->mode = r.is_local ? KV_MODE_SHM : KV_MODE_DATA;
	m->data_token = kv_le64(r.data_token);
	tail += KEYS * sizeof(*e);
	for (; id[1] < KEYS; id[1]++, tail += sizeof(id)) {
		e[id[1]] = (struct kv_put_ent){
			.size = kv_le64(1),
			.key_len = kv_le16(sizeof(id)),
		};
		memcpy(tail, id, sizeof(id));
	}
	return KEYS * (sizeof(*e) + sizeof(id));
}

static size_t
put_other(void *body, uint8_t *tail)
{
	static uint32_t salt;

	return put(body, tail, ++salt);
}

static size_t
put_same(void *body, uint8_t *tail)
{
	return put(body, tail, UINT32_MAX);
}

static const struct kind {
	const char *name;
	enum kv_msg_type type;
	size_t (*build)(void *body, uint8_t *tail);
} kinds[] = {
	{ "ping", KV_MSG_PING, nothing },
	{ "stats", KV_MSG_STATS, nothing },
	{ "nodes", KV_MSG_NODES, nothing },
	{ "lookup", KV_MSG_LOOKUP, lookup },
	{ "keys", KV_MSG_KEYS, nothing },
	{ "query", KV_MSG_QUERY, query },
	{ "regex", KV_MSG_REMOVE, regex },
	{ "remove", KV_MSG_REMOVE, removal },
	{ "attach", KV_MSG_ATTACH, nothing },
	{ "get", KV_MSG_GET, get_data },
	{ "view", KV_MSG_GET, get_pinned },
	{ "put", KV_MSG_PUT, put_other },
	{ "twins", KV_MSG_PUT, put_same },
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

/* Until the time is over. False: not all of it left, or the socket broke. */
static bool
send_all(int fd, size_t len, uint64_t end_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	size_t at = 0;
	ssize_t n;

	while (at < len && now_ns() < end_ns) {
		n = send(fd, frame + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return false;
		if (n < 0)
			poll(&p, 1, 100);
		else
			at += (size_t)n;
	}
	return at == len;
}

static uint64_t
flood(const struct kind *k, int fd)
{
	uint64_t end_ns = now_ns() + seconds * KV_NS_PER_S, n = 0;
	size_t body = kv_msg_body_bytes(k->type), len;
	uint8_t *at = frame + KV_HEADER_BYTES;

	for (;; n++) {
		const struct forge_seed like = { .type = k->type, .id = n + 1 };

		memset(at, 0, body);
		len = body + k->build(at, at + body);
		len = forge_seal(frame, &like, len);
		if (!send_all(fd, len, end_ns))
			break;
	}
	return n;
}

static uint64_t
say_halves(void)
{
	const struct forge_seed like = { .type = KV_MSG_LOOKUP, .id = 2 };
	size_t len = forge_seal(frame, &like, KV_TAIL_MAX);
	uint64_t n;
	int fd;

	for (n = 0; n < halves; n++) {
		fd = forge_connect(target);
		if (fd < 0 || !forge_hello(&forge, fd, KV_ROLE_REQUESTER, 0) ||
		    !forge_send(fd, frame, len - len / 8))
			break;
	}
	return n;
}

static void
stay(void)
{
	fflush(stdout);
	fputs("running\n", stderr);
	pause();
}

/* A master has no data connections. */
static int
connect_to(void)
{
	int fd;

	if (rawreq_open(&r, &forge, target))
		return r.control;
	fd = forge_connect(target);
	if (fd >= 0 && forge_hello(&forge, fd, KV_ROLE_REQUESTER, 0))
		return fd;
	return -1;
}

int
main(int argc, char **argv)
{
	int fd;

	(void)argc;
	driver_parse(&d, options, argv);
	kv_rng_seed(&forge.rng, d.seed);
	if (target && halves) {
		printf("{\"halves\":%" PRIu64 "}\n", say_halves());
		stay();
	}
	fd = target ? connect_to() : -1;
	if (fd < 0)
		return EX_UNAVAILABLE;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, what) == 0) {
			printf("{\"%s\":%" PRIu64 "}\n", what,
			       flood(&kinds[i], fd));
			stay();
		}
	return EX_USAGE;
}
