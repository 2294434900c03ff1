/*
 * usage: evil --listen=127.0.0.1:PORT --corpus=FOLDER --seconds=N
 *             [--join=MASTER --prefix=P --keys=N]
 *
 * A node, or a master, whose answers fit the questions in nothing but type and
 * id. With --join it makes itself known to a master as a node with much room
 * that holds keys P/0 to P/N. Those who ask it must survive that.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver.h"
#include "forge.h"
#include "store/key.h"

enum {
	QUIET_MS = 2000,
	KEYS_MAX = 1000,
};

static struct driver d;
static const char *listen_at = "", *corpus = "", *join, *prefix = "h";
static uint64_t seconds = 5, keys = 200;

static const struct driver_opt options[] = {
	{ "listen", DRIVER_TEXT, &listen_at },
	{ "corpus", DRIVER_TEXT, &corpus },
	{ "join", DRIVER_TEXT, &join },
	{ "prefix", DRIVER_TEXT, &prefix },
	{ "keys", DRIVER_NUMBER, &keys },
	{ "seconds", DRIVER_NUMBER, &seconds },
	{ 0 },
};

static struct forge seeds; /* loaded once; each connection has a copy */
static _Atomic uint64_t conns, answers, asked[256];

/* A connection, with its own random numbers. */
struct liar {
	struct forge forge;
	uint8_t *in;
	uint8_t *out;
	int fd;
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static uint64_t
below(struct liar *l, uint64_t n)
{
	return kv_rng_below(&l->forge.rng, n);
}

static struct liar *
liar_new(int fd)
{
	struct liar *l = malloc(sizeof(*l));

	if (!l)
		exit(EX_OSERR);
	l->forge = seeds;
	kv_rng_seed(&l->forge.rng, d.seed + ++conns);
	l->in = malloc(FORGE_BYTES_MAX);
	l->out = malloc(2 * FORGE_BYTES_MAX);
	if (!l->in || !l->out)
		exit(EX_OSERR);
	l->fd = fd;
	return l;
}

static void
liar_free(struct liar *l)
{
	close(l->fd);
	free(l->in);
	free(l->out);
	free(l);
}

static bool
say(struct liar *l, struct forge_seed like, const void *bytes, size_t len)
{
	memcpy(l->out + KV_HEADER_BYTES, bytes, len);
	answers++;
	return forge_send(l->fd, l->out, forge_seal(l->out, &like, len));
}

static bool
say_hello(struct liar *l, uint64_t id)
{
	struct kv_hello_r r = { .version = kv_le16(1), .boot = seeds.boot };

	r.token = kv_le64(1 + below(l, 1000));
	if (below(l, 30) == 0)
		kv_rng_bytes(&l->forge.rng, &r, sizeof(r));
	return say(l, (struct forge_seed){ .type = KV_MSG_HELLO_R, .id = id },
		   &r, sizeof(r));
}

/* A changed frame of that type, with that id, and some of its payload. */
static bool
lie(struct liar *l, enum kv_msg_type type, uint64_t id)
{
	struct forge_seed s = *forge_of_type(&l->forge, type);
	size_t len;

	s.id = id;
	if (s.type == KV_MSG_DATA)
		s.payload = (uint32_t)below(l, 100000);
	if (below(l, 3)) /* as it is in the corpus */
		return say(l, s, s.bytes, s.len) &&
		       forge_send(l->fd, l->in, s.payload);
	len = forge_change(&l->forge, &s, l->out);
	if (below(l, 20) == 0)
		len = below(l, len);
	answers++;
	return forge_send(l->fd, l->out, len);
}

/* ---- answers of the right form ---- */

/* Mostly what it should be. */
static uint32_t
near(struct liar *l, uint64_t n)
{
	uint64_t odd = n + below(l, 5);

	return (uint32_t)(below(l, 15) || odd < 2 ? n : odd - 2);
}

static uint8_t
some_status(struct liar *l)
{
	return (uint8_t)(below(l, 2) ? 0 : below(l, 26));
}

static bool
lie_put(struct liar *l, uint64_t id, uint32_t n)
{
	struct forge_seed like = { .type = KV_MSG_GRANT_R, .id = id };
	uint8_t bytes[sizeof(struct kv_grant_r) + 8 * 64] = { 0 };
	struct kv_grant_r *g = (void *)bytes;
	struct kv_grant_ent *e = (void *)(bytes + sizeof(*g));
	struct kv_put_r *r = (void *)bytes;
	uint32_t i;

	n = n < 8 ? n : 8;
	g->count = kv_le32(near(l, n));
	for (i = 0; i < n; i++)
		e[i] = (struct kv_grant_ent){
			.grant = kv_le64(below(l, 100)),
			.index = kv_le32(near(l, i)),
			.extents = kv_le32(below(l, 9) ? 0 : 2),
		};
	like.flags = KV_FLAG_MORE;
	if (below(l, 4) &&
	    !say(l, like, bytes, sizeof(*g) + near(l, n * sizeof(*e))))
		return false;
	memset(bytes, 0, sizeof(bytes));
	r->status = below(l, 20) ? 0 : some_status(l);
	r->count = kv_le32(near(l, n));
	for (i = 0; i < n; i++)
		bytes[sizeof(*r) + i] = some_status(l);
	like.type = KV_MSG_PUT_R;
	like.flags = below(l, 20) ? 0 : KV_FLAG_MORE;
	return say(l, like, bytes, sizeof(*r) + near(l, n));
}

static bool
lie_get(struct liar *l, uint64_t id, uint32_t n)
{
	const struct forge_seed like = { .type = KV_MSG_GET_R, .id = id };
	uint8_t bytes[sizeof(struct kv_get_r) + 8 * 64 + 4000] = { 0 };
	struct kv_get_r *g = (void *)bytes;
	struct kv_get_ent_r *e = (void *)(bytes + sizeof(*g));
	size_t len = 0;

	n = n < 8 ? n : 8;
	g->count = kv_le32(near(l, n));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t size = (uint32_t)below(l, 400);

		e[i] = (struct kv_get_ent_r){
			.status = some_status(l),
			.how = (uint8_t)below(l, below(l, 9) ? 4 : 256),
			.extents = kv_le16(below(l, 9) ? 0 : 3),
			.inline_len = kv_le32(size),
			.size = kv_le64(below(l, 9)
						? near(l, size)
						: kv_rng_u64(&l->forge.rng)),
			.pin = kv_le64(below(l, 100)),
		};
		len += e[i].how == KV_HOW_INLINE ? size : 0;
	}
	return say(l, like, bytes, sizeof(*g) + n * sizeof(*e) + near(l, len));
}

static bool
lie_lookup(struct liar *l, uint64_t id, uint32_t n)
{
	const struct forge_seed like = { .type = KV_MSG_LOOKUP_R, .id = id };
	uint8_t bytes[sizeof(struct kv_lookup_r) + 64] = { 0 };
	struct kv_lookup_r *r = (void *)bytes;

	n = n < 60 ? n : 60;
	r->count = kv_le32(near(l, n));
	memset(bytes + sizeof(*r), 1, n);
	return say(l, like, bytes, sizeof(*r) + near(l, n));
}

/* Bytes that nobody asked for, as long as they are taken. */
static bool
lie_data(struct liar *l)
{
	struct forge_seed like = { .type = KV_MSG_DATA };
	struct kv_data b = {
		.ref = kv_le64(below(l, 60)),
		.off = kv_le64(below(l, 3) ? 0 : below(l, 100000)),
		.index = kv_le32((uint32_t)below(l, 9)),
	};

	usleep((useconds_t)below(l, 20000));
	like.payload = (uint32_t)below(l, 3000);
	return say(l, like, &b, sizeof(b)) &&
	       forge_send(l->fd, l->in, like.payload);
}

static bool
lie_well(struct liar *l, const struct kv_msg *msg)
{
	const struct forge_seed like = { .type = KV_MSG_PING_R, .id = msg->id };
	uint32_t n = kv_get32(*(const struct kv_le32 *)msg->body);

	switch (msg->type) {
	case KV_MSG_PING:
		return say(l, like, msg->body, sizeof(struct kv_ping));
	case KV_MSG_PUT:
		n = kv_get32(((const struct kv_put *)msg->body)->count);
		return lie_put(l, msg->id, n);
	case KV_MSG_GET:
		return lie_get(l, msg->id, n);
	case KV_MSG_LOOKUP:
		return lie_lookup(l, msg->id, n);
	default:
		return lie(l, msg->type + 128, msg->id);
	}
}

static bool
answer(struct liar *l, const struct kv_msg *msg)
{
	const struct kv_hello *h = msg->body;

	asked[msg->type & 255]++;
	if (msg->type == KV_MSG_HELLO) {
		if (!say_hello(l, msg->id))
			return false;
		while (h->role == KV_ROLE_DATA && below(l, 200))
			if (!lie_data(l))
				return false;
		return true;
	}
	switch (below(l, 40)) {
	case 0:
		return false;
	case 1:
		return true; /* and lets it wait */
	case 2:
		return lie(l, forge_pick(&l->forge)->type, msg->id);
	case 3:
		return lie(l, msg->type + 128, msg->id);
	default:
		return lie_well(l, msg);
	}
}

static void *
serve(void *arg)
{
	struct liar *l = arg;
	struct kv_msg msg;

	while (forge_read(l->fd, l->in, &msg, QUIET_MS, NULL))
		if (!answer(l, &msg))
			break;
	liar_free(l);
	return NULL;
}

/* ---- as a node of a master ---- */

static size_t
publish_build(uint8_t *to)
{
	struct kv_publish *p = (void *)to;
	struct kv_publish_ent *e = (void *)(to + sizeof(*p));
	char name[64];
	int len;

	memset(p, 0, sizeof(*p));
	p->added = kv_le32((uint32_t)keys);
	p->flags = KV_PUBLISH_SYNC | KV_PUBLISH_SYNC_END;
	for (uint64_t i = 0; i < keys; i++) {
		len = snprintf(name, sizeof(name), "%s/%" PRIu64, prefix, i);
		e[i] = (struct kv_publish_ent){
			.hash = kv_key_hash_build(kv_key_hash(
				kv_key_seed("default", 7), name, (size_t)len)),
			.put_id.random = kv_le64(i),
		};
	}
	return sizeof(*p) + keys * sizeof(*e);
}

static void
joined(struct liar *l)
{
	struct kv_heartbeat h = {
		.pool_bytes = kv_le64(1ull << 40),
		.ready_bytes = kv_le64(1ull << 40),
		.free_bytes = kv_le64(1ull << 40),
	};
	struct {
		struct kv_join body;
		char addr[64];
	} j = { .body.pool_bytes = h.pool_bytes };
	static uint8_t publish[64 + KEYS_MAX * 64];
	uint64_t end_ns = now_ns() + seconds * KV_NS_PER_S;

	j.body.addr_len = (uint8_t)strlen(listen_at);
	strcpy(j.addr, listen_at);
	say(l, (struct forge_seed){ .type = KV_MSG_JOIN, .id = 2 }, &j,
	    sizeof(j.body) + j.body.addr_len);
	forge_drain(l->fd, 200);
	say(l, (struct forge_seed){ .type = KV_MSG_PUBLISH, .id = 3 }, publish,
	    publish_build(publish));
	for (uint64_t id = 4; now_ns() < end_ns; id++) {
		if (!forge_drain(l->fd, 100))
			return;
		usleep(500000);
		say(l,
		    (struct forge_seed){ .type = KV_MSG_HEARTBEAT, .id = id },
		    &h, sizeof(h));
	}
}

static void *
member(void *arg)
{
	uint64_t end_ns = now_ns() + seconds * KV_NS_PER_S;

	(void)arg;
	while (now_ns() < end_ns) {
		struct liar *l = liar_new(forge_connect(join));

		if (l->fd >= 0 &&
		    forge_hello(&l->forge, l->fd, KV_ROLE_NODE, 0))
			joined(l);
		liar_free(l);
		usleep(100000);
	}
	return NULL;
}

static int
open_port(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	const char *colon = strrchr(listen_at, ':');
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (!colon || fd < 0)
		exit(EX_USAGE);
	in.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 ||
	    listen(fd, 100) < 0)
		exit(EX_UNAVAILABLE);
	return fd;
}

int
main(int argc, char **argv)
{
	pthread_t thread;
	uint64_t end_ns;
	int fd, one;

	(void)argc;
	driver_parse(&d, options, argv);
	kv_rng_seed(&seeds.rng, d.seed);
	kv_rng_bytes(&seeds.rng, &seeds.boot, sizeof(seeds.boot));
	seeds.keeps_boot = true;
	if (forge_load(&seeds, corpus) == 0 || keys > KEYS_MAX)
		return EX_USAGE;
	fd = open_port();
	end_ns = now_ns() + seconds * KV_NS_PER_S;
	if (join && pthread_create(&thread, NULL, member, NULL) != 0)
		return EX_OSERR;
	if (join)
		pthread_detach(thread);
	fprintf(stderr, "running\n");
	while (now_ns() < end_ns) {
		one = forge_accept(fd, 200);
		if (one >= 0 &&
		    pthread_create(&thread, NULL, serve, liar_new(one)) == 0)
			pthread_detach(thread);
	}
	printf("{\"connections\":%" PRIu64 ",\"answers\":%" PRIu64,
	       (uint64_t)conns, (uint64_t)answers);
	for (unsigned i = 0; i < 256; i++)
		if (asked[i])
			printf(",\"%s\":%" PRIu64, kv_msg_name(i),
			       (uint64_t)asked[i]);
	printf("}\n");
	fflush(stdout);
	_exit(0); /* threads still lie */
}
