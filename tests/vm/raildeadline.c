/*
 * raildeadline MASTERS BYTES MS SECONDS
 *
 * Gets and puts values of so many bytes with deadlines of up to so many
 * milliseconds, most of which expire in the middle, and uses the memory for
 * something else at once. Says how many there were, and how many bytes are
 * wrong: of what was got, of what was put, if it was, and of that something
 * else a second later.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "kvpool.h"
#include "value.h"

enum {
	SLOTS = 6,
	LONG_MS = 30000,
};

/* Half of them are registered. */
struct slot {
	uint8_t *bytes;
	uint64_t since; /* ns; 0: it is free */
	uint8_t mark;
};

static struct kv_client *c;
static char base[32]; /* a key */
static struct kv_rng rng;
static struct slot slots[SLOTS];
static size_t bytes;
static unsigned n_gets, late_gets, n_puts, late_puts, wrong, failed;

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

/* ---- memory that is used for something else ---- */

static void
slot_give(struct slot *s)
{
	s->mark = (uint8_t)kv_rng_below(&rng, 256);
	memset(s->bytes, s->mark, bytes);
	s->since = now_ns();
}

/* A second after it was given. */
static struct slot *
slot_take(void)
{
	static unsigned next;
	struct slot *s = &slots[next++ % SLOTS];
	uint64_t end = s->since + KV_NS_PER_S, now = now_ns();
	struct timespec rest = { 0 };
	size_t i;

	if (s->since == 0)
		return s;
	if (now < end) {
		rest.tv_nsec = (long)(end - now - 1);
		nanosleep(&rest, NULL);
	}
	for (i = 0; i < bytes; i++)
		wrong += s->bytes[i] != s->mark;
	return s;
}

/* ---- calls ---- */

static void
check(const struct kv_get_item *g)
{
	struct value_part all = { g->key, bytes, 0, bytes };
	uint64_t bad;
	uint32_t writer;

	wrong += g->len != bytes || !value_check(g->bufs, &all, &writer, &bad);
}

static int
get(const char *key, struct slot *s, uint32_t ms)
{
	const struct kv_get_opts o = { .size = sizeof(o), .timeout_ms = ms };
	const struct kv_buf buf = { s->bytes, bytes };
	struct kv_get_item g = {
		.key = { key, strlen(key) },
		.bufs = &buf,
		.nbufs = 1,
	};
	long rc;

	memset(s->bytes, 0, bytes);
	rc = kv_client_get(c, &g, 1, &o);
	if (rc == 1)
		check(&g);
	return rc < 0 ? (int)rc : g.status;
}

static int
put(const char *key, struct slot *s, uint32_t writer, uint32_t ms)
{
	const struct kv_put_opts o = { .size = sizeof(o), .timeout_ms = ms };
	const struct kv_buf buf = { s->bytes, bytes };
	struct kv_put_item p = {
		.key = { key, strlen(key) },
		.bufs = &buf,
		.nbufs = 1,
	};
	struct value_part all = { p.key, bytes, 0, bytes };
	long rc;

	value_fill(s->bytes, &all, writer);
	rc = kv_client_put(c, &p, 1, &o);
	return rc < 0 ? (int)rc : p.status;
}

/* What was put is there; what was not is not, or whole. */
static void
look_back(const char *key, int status)
{
	const struct kv_key name = { key, strlen(key) };
	struct slot *s = slot_take();
	int rc = get(key, s, LONG_MS);

	slot_give(s);
	if (status == 0 ? rc != 0 : rc != 0 && rc != -KV_EMISS) {
		printf("%s: put %s, get %s\n", key, kv_status_text(status),
		       kv_status_text(rc));
		failed++;
	}
	kv_client_remove(c, &name, 1, 1, NULL, NULL);
}

static void
round_one(unsigned i, uint32_t ms_max)
{
	uint32_t ms = 5 + (uint32_t)kv_rng_below(&rng, ms_max);
	struct slot *s = slot_take();
	char key[48];
	int rc = get(base, s, ms);

	slot_give(s);
	n_gets++;
	late_gets += rc != 0;
	s = slot_take();
	snprintf(key, sizeof(key), "%s/%u", base, i);
	rc = put(key, s, i, ms);
	slot_give(s);
	n_puts++;
	late_puts += rc != 0;
	look_back(key, rc);
}

static int
prepare(const char *masters)
{
	const struct kv_client_opts o = {
		.size = sizeof(o),
		.master = masters,
		.socket = "",
	};
	char err[256];
	unsigned i;

	c = kv_client_open(&o, err, sizeof(err));
	if (!c) {
		fprintf(stderr, "raildeadline: %s\n", err);
		return 69;
	}
	for (i = 0; i < SLOTS; i++) {
		slots[i].bytes = malloc(bytes);
		if (!slots[i].bytes ||
		    (i % 2 &&
		     kv_client_register(c, slots[i].bytes, bytes) != 0))
			return 70;
	}
	return put(base, &slots[0], 1, LONG_MS) == 0 ? 0 : 70;
}

int
main(int argc, char **argv)
{
	uint64_t end;
	unsigned i;
	int rc;

	if (argc != 5)
		return 64;
	bytes = strtoul(argv[2], NULL, 10);
	kv_rng_seed(&rng, now_ns());
	snprintf(base, sizeof(base), "base%d", (int)getpid());
	rc = prepare(argv[1]);
	end = now_ns() + strtoul(argv[4], NULL, 10) * KV_NS_PER_S;
	for (i = 0; rc == 0 && now_ns() < end; i++)
		round_one(i, (uint32_t)atoi(argv[3]));
	kv_client_close(c);
	for (i = 0; i < SLOTS; i++)
		free(slots[i].bytes);
	printf("%u gets, %u late; %u puts, %u late: %u wrong, %u failed\n",
	       n_gets, late_gets, n_puts, late_puts, wrong, failed);
	return rc ? rc : wrong > 0 || failed > 0;
}
