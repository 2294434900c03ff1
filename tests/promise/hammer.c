/*
 * usage: hammer [--OPTION=VALUE...]
 *
 * Threads that put, get, check, view and remove keys at random, and look at
 * every byte that they are given. Prints a line of JSON; exits with 0, or 1
 * (wrong bytes, a broken promise), 2 (a call over its deadline), 3 (an error
 * outside of the contract), 69 (cannot open).
 *
 * --strict: nothing is being broken meanwhile, so errors must not occur.
 * --durable: nobody removes, nothing is evicted: what was put must be found.
 * --verify=SECONDS: the same, but only in the end and within that time.
 * --untrusted: a node lies. What it gives is not judged, only that it comes.
 * --wait-file=FILE: stays (with its node) until there is such a file.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/rng.h"
#include "driver.h"
#include "tally.h"
#include "value.h"

enum {
	THREADS_MAX = 64,
	BATCH_MAX = 8,
	PIECES_MAX = 3,
	KEYS_MAX = 100000,
	KEY_BYTES = 1024,
	INLINE_BYTES = 65536,
};

#define BIT(status) (1ull << (status))

static struct driver d = { .timeout_ms = 4000 };
static uint64_t keys = 200, size_max = 1 << 20, replicas, seconds = 5;
static uint64_t threads = 4, remove_percent = 3, strict, durable, verify;
static uint64_t no_views, hard_pin, untrusted;
static const char *prefix = "h", *wait_file;

static const struct driver_opt options[] = {
	{ "keys", DRIVER_NUMBER, &keys },
	{ "size-max", DRIVER_NUMBER, &size_max },
	{ "replicas", DRIVER_NUMBER, &replicas },
	{ "seconds", DRIVER_NUMBER, &seconds },
	{ "threads", DRIVER_NUMBER, &threads },
	{ "remove", DRIVER_NUMBER, &remove_percent },
	{ "prefix", DRIVER_TEXT, &prefix },
	{ "wait-file", DRIVER_TEXT, &wait_file },
	{ "strict", DRIVER_FLAG, &strict },
	{ "durable", DRIVER_FLAG, &durable },
	{ "verify", DRIVER_NUMBER, &verify },
	{ "untrusted", DRIVER_FLAG, &untrusted },
	{ "no-views", DRIVER_FLAG, &no_views },
	{ "hard-pin", DRIVER_FLAG, &hard_pin },
	{ 0 },
};

/* A put of this key succeeded once. */
static _Atomic uint8_t is_put[KEYS_MAX];
static uint64_t end_ns;

struct item {
	uint64_t number; /* of the key */
	uint8_t key[KEY_BYTES];
	uint8_t *bytes; /* size_max + 1 */
	uint64_t size;
	struct kv_buf bufs[PIECES_MAX];
	uint8_t was_put; /* before the call */
};

struct hand {
	pthread_t thread;
	struct kv_client *c;
	struct guard guard;
	struct tally tally;
	struct kv_rng rng;
	struct item items[BATCH_MAX];
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static uint64_t
below(struct hand *h, uint64_t n)
{
	return kv_rng_below(&h->rng, n);
}

/* Short and long ones, with any byte in them. */
static struct kv_key
name_key(struct item *it, uint64_t number)
{
	int n = snprintf((char *)it->key, sizeof(it->key), "%s/%llu", prefix,
			 (unsigned long long)number);
	size_t len = (size_t)n;

	if (number % 7 == 3)
		len = KEY_BYTES;
	else if (number % 5 == 2)
		len = len + number % 50;
	for (size_t i = (size_t)n; i < len; i++)
		it->key[i] = (uint8_t)(i * 37 + number);
	it->number = number;
	it->was_put = is_put[number];
	return (struct kv_key){ it->key, len };
}

static uint64_t
choose_size(struct hand *h)
{
	switch (below(h, 8)) {
	case 0:
		return below(h, kv_min_u64(200, size_max + 1));
	case 1:
		return kv_min_u64(size_max, INLINE_BYTES - 2 + below(h, 5));
	case 2:
		return size_max;
	default:
		return below(h, size_max + 1);
	}
}

/* Cuts the item's bytes in pieces, empty ones among them. */
static size_t
cut(struct hand *h, struct item *it)
{
	size_t n = 1 + below(h, PIECES_MAX), i;
	uint64_t at = 0, len;

	if (it->size == 0)
		return below(h, 2) ? 0 : (it->bufs[0].len = 0, 1);
	for (i = 0; i < n; i++) {
		len = i + 1 < n ? below(h, it->size - at + 1) : it->size - at;
		it->bufs[i] = (struct kv_buf){ it->bytes + at, len };
		at += len;
	}
	return n;
}

/* A failure that the outside can cause. */
static uint64_t
faults(void)
{
	return strict ? 0
		      : BIT(KV_ETIMEOUT) | BIT(KV_EUNREACHABLE) |
				BIT(KV_ECONNLOST) | BIT(KV_EGONE);
}

/* ---- put ---- */

static void
judge_puts(struct hand *h, struct kv_put_item *puts, size_t n, long rc)
{
	uint64_t allowed = BIT(0) | BIT(KV_EEXISTS) | BIT(KV_ENOSPACE) |
			   BIT(KV_EBUSY) | faults();
	long good = 0;

	for (size_t i = 0; i < n; i++) {
		int status = rc < 0 ? (int)rc : puts[i].status;

		tally_key(&h->tally, TALLY_PUT, status, allowed);
		if (status != 0 && status != -KV_EEXISTS)
			continue;
		good++;
		is_put[h->items[i].number] = 1;
		for (size_t k = 0; k < i; k++)
			if (h->items[k].number == h->items[i].number &&
			    puts[k].status == 0 && status == 0)
				tally_wrong(&h->tally, "put twice in a batch");
	}
	if (rc >= 0 && rc != good)
		tally_wrong(&h->tally, "put says %ld of %ld", rc, good);
}

static long
put(struct hand *h, struct kv_put_item *puts, size_t n)
{
	const struct kv_put_opts opts = {
		.size = sizeof(opts),
		.replicas = (uint32_t)(replicas ? replicas : 1 + below(h, 2)),
		.soft_pin = below(h, 8) == 0,
		.hard_pin = hard_pin && below(h, 8) == 0,
		.timeout_ms = below(h, 2) ? (uint32_t)d.timeout_ms : 0,
	};
	struct kv_op *op;
	long rc = 0;

	if (below(h, 4))
		return kv_client_put(h->c, puts, n, &opts);
	op = kv_client_put_submit(h->c, puts, n, &opts);
	while (op && kv_op_wait(op, (uint32_t)below(h, 50), &rc) != 0)
		;
	return op ? rc : -KV_ENOMEM;
}

static void
do_put(struct hand *h)
{
	size_t n = 1 + below(h, BATCH_MAX);
	struct kv_put_item puts[BATCH_MAX] = { 0 };
	long rc;

	for (size_t i = 0; i < n; i++) {
		struct item *it = &h->items[i];
		struct kv_key key = name_key(it, below(h, keys));
		struct value_part all;

		it->size = choose_size(h);
		all = (struct value_part){ key, it->size, 0, it->size };
		value_fill(it->bytes, &all, (uint32_t)below(h, UINT32_MAX));
		puts[i].key = key;
		puts[i].bufs = it->bufs;
		puts[i].nbufs = cut(h, it);
		puts[i].status = 1;
	}
	tally_enter(&h->guard, TALLY_PUT, d.timeout_ms);
	rc = put(h, puts, n);
	tally_leave(&h->tally, &h->guard, TALLY_PUT);
	judge_puts(h, puts, n, rc);
}

/* ---- get ---- */

static void
judge_bytes(struct hand *h, const char *how, const struct kv_buf *pieces,
	    const struct value_part *p)
{
	uint64_t bad = 0;
	uint32_t writer;

	if (p->size > size_max)
		tally_wrong(&h->tally, "%s: %llu bytes of %llu at most", how,
			    (unsigned long long)p->size,
			    (unsigned long long)size_max);
	else if (!value_check(pieces, p, &writer, &bad))
		tally_wrong(
			&h->tally,
			"%s: %.20s: byte %llu of %llu (part %llu+%llu, "
			"writer %08x)",
			how, (const char *)p->key.data, (unsigned long long)bad,
			(unsigned long long)p->size, (unsigned long long)p->off,
			(unsigned long long)p->len, writer);
}

static void
judge_hit(struct hand *h, const struct item *it, const struct kv_get_item *g)
{
	uint64_t room = it->size, want = g->size_total;
	struct value_part p = { g->key, g->size_total, g->off, g->len };

	if (g->is_part)
		want = g->off >= want ? 0 : kv_min_u64(want - g->off, room);
	if (g->len != want)
		tally_wrong(&h->tally, "get: %llu bytes instead of %llu",
			    (unsigned long long)g->len,
			    (unsigned long long)want);
	else
		judge_bytes(h, g->is_part ? "part" : "get", it->bufs, &p);
}

static void
judge_gets(struct hand *h, struct kv_get_item *gets, size_t n, long rc)
{
	uint64_t common = BIT(0) | BIT(KV_EMISS) | faults();
	long good = 0;

	for (size_t i = 0; i < n; i++) {
		const struct item *it = &h->items[i];
		int status = rc < 0 ? (int)rc : gets[i].status;
		uint64_t allowed = common;

		if (!gets[i].is_part && it->size < size_max)
			allowed |= BIT(KV_ETOOBIG);
		tally_key(&h->tally, TALLY_GET, status, allowed);
		good += status == 0;
		if (status == 0)
			judge_hit(h, it, &gets[i]);
		else if (status == -KV_ETOOBIG &&
			 gets[i].size_total <= it->size)
			tally_wrong(&h->tally, "get: too big, yet it fits");
		else if (status == -KV_EMISS && durable && it->was_put)
			tally_wrong(&h->tally, "get: %.20s: lost", it->key);
	}
	if (rc >= 0 && rc != good)
		tally_wrong(&h->tally, "get says %ld of %ld", rc, good);
}

static long
get(struct hand *h, struct kv_get_item *gets, size_t n)
{
	const struct kv_get_opts opts = {
		.size = sizeof(opts),
		.timeout_ms = below(h, 2) ? (uint32_t)d.timeout_ms : 0,
	};
	struct kv_op *op;
	long rc = 0;

	if (below(h, 4))
		return kv_client_get(h->c, gets, n, &opts);
	op = kv_client_get_submit(h->c, gets, n, &opts);
	while (op && kv_op_wait(op, (uint32_t)below(h, 50), &rc) != 0)
		;
	return op ? rc : -KV_ENOMEM;
}

static void
do_get(struct hand *h)
{
	size_t n = 1 + below(h, BATCH_MAX);
	struct kv_get_item gets[BATCH_MAX] = { 0 };
	long rc;

	for (size_t i = 0; i < n; i++) {
		struct item *it = &h->items[i];

		gets[i].key = name_key(it, below(h, keys));
		gets[i].is_part = below(h, 6) == 0;
		gets[i].off = gets[i].is_part ? below(h, size_max + 2) : 0;
		it->size = below(h, 6) ? size_max : choose_size(h);
		gets[i].bufs = it->bufs;
		gets[i].nbufs = cut(h, it);
		gets[i].status = 1;
	}
	tally_enter(&h->guard, TALLY_GET, d.timeout_ms);
	rc = get(h, gets, n);
	tally_leave(&h->tally, &h->guard, TALLY_GET);
	judge_gets(h, gets, n, rc);
}

/* ---- exist, view, remove ---- */

static void
do_exist(struct hand *h)
{
	size_t n = 1 + below(h, BATCH_MAX);
	struct kv_key names[BATCH_MAX];
	uint8_t there[BATCH_MAX];
	long rc, good = 0;

	for (size_t i = 0; i < n; i++)
		names[i] = name_key(&h->items[i], below(h, keys));
	memset(there, 7, sizeof(there));
	tally_enter(&h->guard, TALLY_EXIST, d.timeout_ms);
	rc = kv_client_exist(h->c, names, n, there, (uint32_t)d.timeout_ms);
	tally_leave(&h->tally, &h->guard, TALLY_EXIST);
	for (size_t i = 0; i < n; i++) {
		long status = rc < 0 ? rc : there[i] ? 0 : -KV_EMISS;

		tally_key(&h->tally, TALLY_EXIST, status,
			  BIT(0) | BIT(KV_EMISS) | faults());
		if (there[i] > 1 || (rc < 0 && there[i]))
			tally_wrong(&h->tally, "exist: %u", there[i]);
		if (status == -KV_EMISS && durable && h->items[i].was_put)
			tally_wrong(&h->tally, "exist: %.20s: lost",
				    h->items[i].key);
		good += there[i];
	}
	if (rc >= 0 && rc != good)
		tally_wrong(&h->tally, "exist says %ld of %ld", rc, good);
}

static void
judge_views(struct hand *h, const struct kv_view *views, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct kv_view *v = &views[i];
		struct value_part all = { v->key, v->size, 0, v->size };

		if (v->status == 0)
			judge_bytes(h, "view", v->pieces, &all);
	}
}

static void
do_view(struct hand *h)
{
	uint64_t allowed = BIT(0) | BIT(KV_EMISS) | BIT(KV_EBUSY) | faults();
	struct kv_view views[BATCH_MAX] = { 0 };
	size_t n = 1 + below(h, BATCH_MAX);
	long rc, good = 0;

	for (size_t i = 0; i < n; i++) {
		views[i].key = name_key(&h->items[i], below(h, keys));
		views[i].status = 1;
	}
	tally_enter(&h->guard, TALLY_VIEW, d.timeout_ms);
	rc = kv_client_view(h->c, views, n, (uint32_t)d.timeout_ms);
	tally_leave(&h->tally, &h->guard, TALLY_VIEW);
	for (size_t i = 0; i < n; i++) {
		long status = rc < 0 ? rc : views[i].status;

		tally_key(&h->tally, TALLY_VIEW, status, allowed);
		good += status == 0;
	}
	if (rc < 0)
		return;
	if (rc != good)
		tally_wrong(&h->tally, "view says %ld of %ld", rc, good);
	judge_views(h, views, n);
	usleep((useconds_t)below(h, 20000));
	judge_views(h, views, n); /* nobody has touched them */
	kv_client_release(h->c, views, n);
}

static void
do_remove(struct hand *h)
{
	size_t n = 1 + below(h, BATCH_MAX);
	struct kv_key names[BATCH_MAX];
	int status[BATCH_MAX];
	uint32_t away;
	long rc;

	for (size_t i = 0; i < n; i++)
		names[i] = name_key(&h->items[i], below(h, keys));
	tally_enter(&h->guard, TALLY_REMOVE, d.timeout_ms);
	rc = kv_client_remove(h->c, names, n, below(h, 2) != 0, status, &away);
	tally_leave(&h->tally, &h->guard, TALLY_REMOVE);
	for (size_t i = 0; i < n; i++)
		tally_key(&h->tally, TALLY_REMOVE, rc < 0 ? rc : status[i],
			  BIT(0) | BIT(KV_EMISS) | BIT(KV_EBUSY) | faults());
}

/* ---- the run ---- */

static void *
run(void *arg)
{
	struct hand *h = arg;

	while (now_ns() < end_ns) {
		uint64_t dice = below(h, 100);

		if (dice < remove_percent)
			do_remove(h);
		else if (dice < 30)
			do_put(h);
		else if (dice < 75)
			do_get(h);
		else if (dice < 85 || no_views)
			do_exist(h);
		else
			do_view(h);
	}
	return NULL;
}

/* Every key that was ever put, until it is found or the time is over. */
static void
find_all(struct hand *h)
{
	uint64_t until = now_ns() + verify * guard_slow() * KV_NS_PER_S;
	struct item *it = &h->items[0];

	for (uint64_t i = 0; i < keys; i++) {
		struct kv_get_item g = { .key = name_key(it, i), .nbufs = 1 };
		long rc = 0;

		it->size = size_max;
		it->bufs[0] = (struct kv_buf){ it->bytes, size_max };
		g.bufs = it->bufs;
		while (is_put[i] && rc != 1) {
			tally_enter(&h->guard, TALLY_GET, d.timeout_ms);
			rc = kv_client_get(h->c, &g, 1, NULL);
			tally_leave(&h->tally, &h->guard, TALLY_GET);
			if (rc == 1)
				judge_gets(h, &g, 1, rc);
			else if (now_ns() < until)
				usleep(50000);
			else
				break;
		}
		if (is_put[i] && rc != 1)
			tally_wrong(
				&h->tally, "%.20s: lost: %s", it->key,
				kv_status_name(rc < 0 ? (int)rc : g.status));
	}
}

static struct hand *
hand_new(struct kv_client *c, uint64_t number)
{
	struct hand *h = calloc(1, sizeof(*h));

	for (size_t i = 0; h && i < BATCH_MAX; i++) {
		h->items[i].bytes = malloc(size_max + 1);
		if (!h->items[i].bytes)
			exit(DRIVER_UNEXPECTED);
	}
	if (!h)
		exit(DRIVER_UNEXPECTED);
	h->c = c;
	kv_rng_seed(&h->rng, d.seed * 1000003 + number);
	guard_add(&h->guard);
	return h;
}

int
main(int argc, char **argv)
{
	struct hand *hands[THREADS_MAX];
	struct tally sum = { 0 };
	struct kv_client *c;

	(void)argc;
	driver_parse(&d, options, argv);
	if (keys > KEYS_MAX || threads > THREADS_MAX || threads == 0)
		return 64;
	if (durable || verify)
		remove_percent = 0;
	if (!*d.socket && !d.segment_bytes)
		no_views = 1;
	c = driver_open(&d);
	fprintf(stderr, "running\n");
	end_ns = now_ns() + seconds * KV_NS_PER_S;
	for (uint64_t i = 0; i < threads; i++) {
		hands[i] = hand_new(c, i);
		if (pthread_create(&hands[i]->thread, NULL, run, hands[i]))
			return DRIVER_UNEXPECTED;
	}
	for (uint64_t i = 0; i < threads; i++)
		pthread_join(hands[i]->thread, NULL);
	if (verify)
		find_all(hands[0]);
	for (uint64_t i = 0; i < threads; i++)
		tally_add(&sum, &hands[i]->tally);
	if (untrusted)
		sum.wrong = sum.unexpected = 0;
	tally_print(&sum, stdout);
	while (wait_file && access(wait_file, F_OK) != 0)
		usleep(20000);
	kv_client_close(c);
	return tally_code(&sum);
}
