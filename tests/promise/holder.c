/*
 * usage: holder --target=SOCKET_OR_ADDR --do=WHAT [--key=K] [--size=N]
 *
 * Holds something of a node, says "held PID CHILD", and waits to be killed.
 * WHAT:
 *   reserve  asked for space, got it, wrote nothing
 *   half     wrote the first half of it
 *   full     wrote all of it, and did not say so
 *   commit   said so, and has not waited for the answer
 *   refill   as full; then writes it again and again, whatever becomes of the
 *            connection, and exits with 1 when it finds other bytes there
 *   close    as half, then closed its connection, but lives on
 *   return   as close, then gave the grant back on another connection
 *   pin      pinned what is under the key
 *   fork     as half and pin at once; CHILD keeps the connections open for a
 *            minute (of the others it is 0)
 * A value is of writer 7. Remote: pin asks for the bytes and reads none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/attr.h"
#include "driver.h"
#include "rawreq.h"
#include "value.h"

enum {
	WRITER = 7,
	WAIT_MS = 10000,
	CHILD_S = 60,
};

static struct driver d;
static const char *target = "", *what = "", *key = "held", *pinned = "pinned";
static uint64_t size = 1 << 20;
static pid_t child;

static const struct driver_opt options[] = {
	{ "target", DRIVER_TEXT, &target }, { "do", DRIVER_TEXT, &what },
	{ "key", DRIVER_TEXT, &key },       { "pinned", DRIVER_TEXT, &pinned },
	{ "size", DRIVER_NUMBER, &size },   { 0 },
};

static bool
is(const char *name)
{
	return strcmp(what, name) == 0;
}

static void
need(bool good, const char *step)
{
	if (good)
		return;
	fprintf(stderr, "failed: %s\n", step);
	exit(EX_UNAVAILABLE);
}

static void
reserve(struct rawreq *r)
{
	const struct kv_put how = {
		.put_id.random = kv_le64(d.seed),
		.count = kv_le32(1),
		.budget_ms = kv_le32(60000),
		.mode = r->is_local ? KV_MODE_SHM : KV_MODE_DATA,
		.data_token = kv_le64(r->data_token),
	};
	const struct rawreq_key k = { .key = key, .size = size };

	need(rawreq_put(r, &k, 1, &how), "PUT");
	need(rawreq_wait(r, KV_MSG_GRANT_R, WAIT_MS), "GRANT_R");
	need(r->ngrants == 1, "one grant");
}

/* The first n bytes. */
static void
fill(struct rawreq *r, uint64_t n)
{
	const struct rawreq_name *g = &r->grants[0];
	struct value_part p = { { key, strlen(key) }, size, 0, n };
	uint8_t *bytes = malloc(n + 1), *from = bytes;

	need(bytes != NULL, "memory");
	value_fill(bytes, &p, WRITER);
	if (!r->is_local)
		need(rawreq_data(r, g->name, 0, bytes, (uint32_t)n), "DATA");
	for (size_t i = 0; r->is_local && n > 0; i++) {
		uint64_t len = g->extents[i].len;

		need(i < KV_ARRAY_LEN(g->extents), "few extents");
		len = len < n ? len : n;
		memcpy(r->pool + g->extents[i].off, from, len);
		from += len;
		n -= len;
	}
	free(bytes);
}

static void
pin(struct rawreq *r)
{
	const struct kv_get how = {
		.count = kv_le32(1),
		.budget_ms = kv_le32(60000),
		.mode = r->is_local ? KV_MODE_SHM : KV_MODE_DATA,
		.flags = r->is_local ? KV_GET_ZERO_COPY : 0,
		.data_token = kv_le64(r->data_token),
	};
	const struct rawreq_key k = { .key = pinned, .size = 1ull << 40 };

	need(rawreq_get(r, &k, 1, &how), "GET");
	if (!r->is_local)
		return; /* the node pushes, and nobody reads */
	need(rawreq_wait(r, KV_MSG_GET_R, WAIT_MS), "GET_R");
	need(r->statuses[0] == 0 && r->npins == 1, "a pin");
}

/* Whether all of it is still what fill() wrote. */
static bool
is_mine(const struct rawreq *r)
{
	const struct rawreq_name *g = &r->grants[0];
	struct value_part p = { { key, strlen(key) }, size, 0, size };
	struct kv_buf pieces[KV_ARRAY_LEN(g->extents)];
	uint64_t left = size, bad;
	uint32_t writer;
	size_t i;

	for (i = 0; left > 0; i++) {
		pieces[i].data = r->pool + g->extents[i].off;
		pieces[i].len = g->extents[i].len;
		if (pieces[i].len > left)
			pieces[i].len = left;
		left -= pieces[i].len;
	}
	return value_check(pieces, &p, &writer, &bad) && writer == WRITER;
}

static void
refill(struct rawreq *r)
{
	for (;;) {
		if (!is_mine(r)) {
			fprintf(stderr, "somebody else's bytes are there\n");
			exit(EXIT_FAILURE);
		}
		fill(r, size);
		usleep(2000);
	}
}

static void
split(void)
{
	child = fork();
	need(child >= 0, "fork");
	if (child > 0)
		return;
	/* Nobody shall wait for the child's output. */
	fclose(stdout);
	fclose(stderr);
	sleep(CHILD_S);
	_exit(0);
}

static void
act(struct rawreq *r)
{
	struct rawreq again;
	uint64_t grant;

	if (is("pin")) {
		pin(r);
		return;
	}
	reserve(r);
	grant = r->grants[0].name;
	if (is("half") || is("fork") || is("close") || is("return"))
		fill(r, size / 2);
	if (is("full") || is("commit") || is("refill"))
		fill(r, size);
	if (is("commit") && r->is_local)
		need(rawreq_filled(r, &grant, 1, 0), "FILLED");
	if (is("fork")) {
		pin(r);
		split();
	}
	if (is("close") || is("return"))
		close(r->control);
	if (is("return")) {
		need(rawreq_open(&again, r->forge, target), "second HELLO");
		need(rawreq_filled(&again, &grant, 1, KV_FILLED_GIVE_UP),
		     "giving up");
	}
}

int
main(int argc, char **argv)
{
	static struct forge forge;
	static struct rawreq r;

	(void)argc;
	driver_parse(&d, options, argv);
	kv_rng_seed(&forge.rng, d.seed);
	need(rawreq_open(&r, &forge, target), "HELLO");
	act(&r);
	printf("held %d %d\n", (int)getpid(), (int)child);
	fflush(stdout);
	if (is("refill"))
		refill(&r);
	for (;;)
		pause();
}
