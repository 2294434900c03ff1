/*
 * What one rank of an inference engine does with the pool: it puts KV blocks
 * that it has computed, and gets those that others have.
 *
 *	rank NAME MASTER SEGMENT_BYTES [SOCKET]
 *
 * With SEGMENT_BYTES it owns memory of the pool (embedded), with 0 the
 * kvclient at SOCKET does (standalone-store). It works until SIGTERM or SIGINT,
 * and says what it does, a line every few seconds. Exit status 1: a block had
 * other bytes than were put.
 */

#include <inttypes.h>
#include <kvpool.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	BLOCK_BYTES = 1 << 20,
	BLOCKS = 8, /* of one step */
	STEPS_KEPT = 4,
	STEPS_A_LINE = 10,
	STEP_MS = 500,
};

struct rank {
	const char *name;
	struct kv_client *c;
	unsigned step;
	char keys[BLOCKS][160];
	unsigned char blocks[BLOCKS][BLOCK_BYTES];
	uint64_t n_put, n_there, n_got, n_missed;
};

static volatile sig_atomic_t is_ending;

static void
end(int signo)
{
	(void)signo;
	is_ending = 1;
}

/* The bytes of a block follow from its key, so that who gets it knows them. */
static uint32_t
seed_of(const char *key)
{
	uint32_t h = 2166136261;

	while (*key)
		h = (h ^ (unsigned char)*key++) * 16777619;
	return h;
}

static void
block_fill(unsigned char *block, const char *key)
{
	uint32_t x = seed_of(key);

	for (int i = 0; i < BLOCK_BYTES; i++) {
		x = x * 1664525 + 1013904223;
		block[i] = (unsigned char)(x >> 24);
	}
}

static int
block_is_right(const unsigned char *block, const char *key)
{
	uint32_t x = seed_of(key);

	for (int i = 0; i < BLOCK_BYTES; i++) {
		x = x * 1664525 + 1013904223;
		if (block[i] != (unsigned char)(x >> 24))
			return 0;
	}
	return 1;
}

static struct kv_buf
block_buf(struct rank *r, int i)
{
	return (struct kv_buf){ r->blocks[i], BLOCK_BYTES };
}

static struct kv_key
block_key(const struct rank *r, int i)
{
	return (struct kv_key){ r->keys[i], strlen(r->keys[i]) };
}

static void
put_step(struct rank *r)
{
	struct kv_put_item items[BLOCKS] = { 0 };
	struct kv_buf bufs[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		snprintf(r->keys[i], sizeof(r->keys[i]), "%.120s/%u/%d",
			 r->name, r->step % STEPS_KEPT, i);
		bufs[i] = block_buf(r, i);
		block_fill(bufs[i].data, r->keys[i]);
		items[i] = (struct kv_put_item){ .key = block_key(r, i),
						 .bufs = &bufs[i],
						 .nbufs = 1 };
	}
	kv_client_put(r->c, items, BLOCKS, NULL);
	for (int i = 0; i < BLOCKS; i++) {
		r->n_put += items[i].status == 0;
		r->n_there += items[i].status == -KV_EEXISTS;
		if (items[i].status < 0 && items[i].status != -KV_EEXISTS)
			fprintf(stderr, "rank %s: put %s: %s\n", r->name,
				r->keys[i], kv_status_text(items[i].status));
	}
}

/* The next keys to get: a few of everybody's, from anywhere in the list. */
struct choice {
	struct rank *r;
	unsigned skip;
	int n;
};

static int
choose(void *arg, struct kv_key key, uint64_t size, const char *node)
{
	struct choice *ch = arg;
	char *to = ch->r->keys[ch->n];

	(void)node;
	if (size != BLOCK_BYTES || key.len >= sizeof(ch->r->keys[0]) ||
	    ch->skip-- > 0)
		return 0;
	memcpy(to, key.data, key.len);
	to[key.len] = '\0';
	ch->skip = 2;
	return ++ch->n == BLOCKS;
}

static int
get_step(struct rank *r)
{
	struct kv_get_item items[BLOCKS] = { 0 };
	struct choice ch = { .r = r, .skip = r->step % 5 };
	struct kv_buf bufs[BLOCKS];

	kv_client_list(r->c, "^rank-[^/]*/[0-9]+/[0-9]+$", choose, &ch, NULL,
		       NULL);
	for (int i = 0; i < ch.n; i++) {
		bufs[i] = block_buf(r, i);
		items[i] = (struct kv_get_item){ .key = block_key(r, i),
						 .bufs = &bufs[i],
						 .nbufs = 1 };
	}
	kv_client_get(r->c, items, (size_t)ch.n, NULL);
	for (int i = 0; i < ch.n; i++) {
		if (items[i].status < 0) {
			r->n_missed++;
			continue;
		}
		r->n_got++;
		if (!block_is_right(bufs[i].data, r->keys[i])) {
			fprintf(stderr, "rank %s: %s has other bytes\n",
				r->name, r->keys[i]);
			return -1;
		}
	}
	return 0;
}

static void
work(struct rank *r)
{
	const struct timespec step = { 0, STEP_MS * 1000000 };

	while (!is_ending) {
		put_step(r);
		if (get_step(r) < 0)
			exit(1);
		if (r->step % STEPS_A_LINE == 0) {
			printf("%s: put %" PRIu64 " blocks of 1 MiB, %" PRIu64
			       " times they were there; got %" PRIu64
			       ", missed %" PRIu64 " of all ranks'\n",
			       r->name, r->n_put, r->n_there, r->n_got,
			       r->n_missed);
			fflush(stdout);
		}
		r->step++;
		nanosleep(&step, NULL);
	}
}

int
main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = end };
	struct kv_client_opts o = { .size = sizeof(o), .socket = "" };
	static struct rank r;
	char err[512];

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: rank NAME MASTER SEGMENT_BYTES "
				"[SOCKET]\n");
		return 64;
	}
	o.name = r.name = argv[1];
	o.master = argv[2];
	o.segment_bytes = strtoull(argv[3], NULL, 10);
	if (argc == 5)
		o.socket = argv[4];
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	r.c = kv_client_open(&o, err, sizeof(err));
	if (!r.c) {
		fprintf(stderr, "rank %s: %s\n", r.name, err);
		return 69;
	}
	if (o.segment_bytes)
		printf("%s: ready, embedded node %s\n", r.name,
		       kv_client_node_addr(r.c));
	else
		printf("%s: ready, node %s\n", r.name, o.socket);
	work(&r);
	kv_client_close(r.c);
	return 0;
}
