/*
 * usage: watch --do=put|get|exist|view [--OPTION=VALUE...]
 *
 * Makes the same calls again and again, on `batch` keys PREFIX/0... at a time,
 * and writes a line about each: when it began (ms since 1970), how many ms it
 * took, and keys with status 0, EMISS, EBUSY, ENOSPACE, EEXISTS, any other; at
 * last the name of one other status, or -. It ends after --seconds, or as soon
 * as the file --until exists. --once goes through the keys once, --hold too,
 * keeps the views until the file --until exists, and looks at them again. Exits
 * as hammer does.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "driver.h"
#include "tally.h"
#include "value.h"

enum {
	THREADS_MAX = 16,
	BATCH_MAX = 100000,
	NAME_BYTES = 64,
	WRITER = 3,
};

static struct driver d = { .timeout_ms = 3000 };
static const char *what = "get", *prefix = "watch", *prefer, *until;
static uint64_t keys = 100, batch = 20, size = 100000, seconds = 5, threads = 1;
static uint64_t replicas = 1, once, hold, hard_pin, pause_ms;

static const struct driver_opt options[] = {
	{ "do", DRIVER_TEXT, &what },
	{ "prefix", DRIVER_TEXT, &prefix },
	{ "prefer", DRIVER_TEXT, &prefer },
	{ "until", DRIVER_TEXT, &until },
	{ "keys", DRIVER_NUMBER, &keys },
	{ "batch", DRIVER_NUMBER, &batch },
	{ "size", DRIVER_NUMBER, &size },
	{ "seconds", DRIVER_NUMBER, &seconds },
	{ "threads", DRIVER_NUMBER, &threads },
	{ "replicas", DRIVER_NUMBER, &replicas },
	{ "pause-ms", DRIVER_NUMBER, &pause_ms },
	{ "once", DRIVER_FLAG, &once },
	{ "hold", DRIVER_FLAG, &hold },
	{ "hard-pin", DRIVER_FLAG, &hard_pin },
	{ 0 },
};

static uint64_t end_ns;

struct hand {
	pthread_t thread;
	struct kv_client *c;
	struct guard guard;
	struct tally tally;
	char (*names)[NAME_BYTES];
	uint8_t *bytes; /* batch * size */
	struct kv_buf *bufs;
	struct kv_put_item *puts;
	struct kv_get_item *gets;
	struct kv_key *keys;
	uint8_t *there;
	int *statuses;
	struct kv_view *views; /* of all keys, with hold */
};

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

static uint8_t *
bytes_of(struct hand *h, size_t i)
{
	return h->bytes + i * size;
}

static struct value_part
part_of(struct kv_key key)
{
	return (struct value_part){ key, size, 0, size };
}

static void
judge(struct hand *h, struct kv_key key, const struct kv_buf *pieces,
      uint64_t len)
{
	struct value_part all = part_of(key);
	uint32_t writer;
	uint64_t bad = 0;

	if (len != size || !value_check(pieces, &all, &writer, &bad))
		tally_wrong(&h->tally, "%.*s: %" PRIu64 " bytes, byte %" PRIu64,
			    (int)key.len, (const char *)key.data, len, bad);
}

static long
do_put(struct hand *h, size_t n)
{
	const struct kv_put_opts opts = {
		.size = sizeof(opts),
		.replicas = (uint32_t)replicas,
		.hard_pin = hard_pin != 0,
		.prefer = prefer,
	};
	long rc;

	for (size_t i = 0; i < n; i++) {
		struct value_part all = part_of(h->keys[i]);

		value_fill(bytes_of(h, i), &all, WRITER);
		h->puts[i] = (struct kv_put_item){
			.key = h->keys[i],
			.bufs = &h->bufs[i],
			.nbufs = 1,
		};
	}
	tally_enter(&h->guard, TALLY_PUT, d.timeout_ms);
	rc = kv_client_put(h->c, h->puts, n, &opts);
	tally_leave(&h->tally, &h->guard, TALLY_PUT);
	for (size_t i = 0; i < n; i++)
		h->statuses[i] = rc < 0 ? (int)rc : h->puts[i].status;
	return rc;
}

static long
do_get(struct hand *h, size_t n)
{
	long rc;

	for (size_t i = 0; i < n; i++)
		h->gets[i] = (struct kv_get_item){
			.key = h->keys[i],
			.bufs = &h->bufs[i],
			.nbufs = 1,
		};
	tally_enter(&h->guard, TALLY_GET, d.timeout_ms);
	rc = kv_client_get(h->c, h->gets, n, NULL);
	tally_leave(&h->tally, &h->guard, TALLY_GET);
	for (size_t i = 0; i < n; i++) {
		h->statuses[i] = rc < 0 ? (int)rc : h->gets[i].status;
		if (h->statuses[i] == 0)
			judge(h, h->keys[i], &h->bufs[i], h->gets[i].len);
	}
	return rc;
}

static long
do_exist(struct hand *h, size_t n)
{
	long rc;

	tally_enter(&h->guard, TALLY_EXIST, d.timeout_ms);
	rc = kv_client_exist(h->c, h->keys, n, h->there, 0);
	tally_leave(&h->tally, &h->guard, TALLY_EXIST);
	for (size_t i = 0; i < n; i++)
		h->statuses[i] = rc < 0 ? (int)rc : h->there[i] ? 0 : -KV_EMISS;
	return rc;
}

static long
do_view(struct hand *h, size_t n)
{
	long rc;

	for (size_t i = 0; i < n; i++)
		h->views[i] = (struct kv_view){ .key = h->keys[i] };
	tally_enter(&h->guard, TALLY_VIEW, d.timeout_ms);
	rc = kv_client_view(h->c, h->views, n, 0);
	tally_leave(&h->tally, &h->guard, TALLY_VIEW);
	for (size_t i = 0; i < n; i++) {
		h->statuses[i] = rc < 0 ? (int)rc : h->views[i].status;
		if (h->statuses[i] == 0)
			judge(h, h->keys[i], h->views[i].pieces,
			      h->views[i].size);
	}
	if (hold)
		h->views += n;
	else if (rc >= 0)
		kv_client_release(h->c, h->views, n);
	return rc;
}

static void
say(const struct hand *h, size_t n, uint64_t began_ms, uint64_t took_ms)
{
	static const int columns[] = { 0, KV_EMISS, KV_EBUSY, KV_ENOSPACE,
				       KV_EEXISTS };
	unsigned counts[6] = { 0 };
	const char *name = "-";
	size_t k;

	for (size_t i = 0; i < n; i++) {
		for (k = 0; k < 5 && -h->statuses[i] != columns[k]; k++)
			;
		counts[k]++;
		if (k == 5)
			name = kv_status_name(h->statuses[i]);
	}
	printf("%" PRIu64 " %" PRIu64 " %u %u %u %u %u %u %s\n", began_ms,
	       took_ms, counts[0], counts[1], counts[2], counts[3], counts[4],
	       counts[5], name);
	fflush(stdout);
}

static void
call(struct hand *h, uint64_t first, size_t n)
{
	uint64_t began_ms = kv_clock_wall_ms(), ns = now_ns();
	char(*names)[NAME_BYTES] = h->names + (hold ? first : 0);

	for (size_t i = 0; i < n; i++) {
		int len = snprintf(names[i], NAME_BYTES, "%s/%" PRIu64, prefix,
				   first + i);

		h->keys[i] = (struct kv_key){ names[i], (size_t)len };
		h->bufs[i] = (struct kv_buf){ bytes_of(h, i), size };
	}
	if (strcmp(what, "put") == 0)
		do_put(h, n);
	else if (strcmp(what, "get") == 0)
		do_get(h, n);
	else if (strcmp(what, "view") == 0)
		do_view(h, n);
	else
		do_exist(h, n);
	say(h, n, began_ms, (now_ns() - ns) / KV_NS_PER_MS);
}

static bool
is_until(void)
{
	return until && access(until, F_OK) == 0;
}

static void
hold_views(struct hand *h)
{
	while (until && !is_until())
		usleep(10000);
	h->views -= keys;
	for (uint64_t i = 0; i < keys; i++)
		if (h->views[i].status == 0)
			judge(h, h->views[i].key, h->views[i].pieces,
			      h->views[i].size);
	kv_client_release(h->c, h->views, keys);
}

static void *
run(void *arg)
{
	struct hand *h = arg;

	do {
		for (uint64_t i = 0; i < keys; i += batch) {
			call(h, i, keys - i < batch ? keys - i : batch);
			if (!once && (now_ns() >= end_ns || is_until()))
				return NULL;
			usleep((useconds_t)(pause_ms * 1000));
		}
	} while (!once);
	if (hold)
		hold_views(h);
	return NULL;
}

static void *
need(size_t n, size_t each)
{
	void *p = calloc(n + 1, each);

	if (!p)
		exit(EX_OSERR);
	return p;
}

static struct hand *
hand_new(struct kv_client *c)
{
	struct hand *h = need(1, sizeof(*h));

	h->c = c;
	h->names = need(hold ? keys : batch, sizeof(*h->names));
	h->bytes = need(batch, size);
	h->bufs = need(batch, sizeof(*h->bufs));
	h->puts = need(batch, sizeof(*h->puts));
	h->gets = need(batch, sizeof(*h->gets));
	h->keys = need(batch, sizeof(*h->keys));
	h->there = need(batch, sizeof(*h->there));
	h->statuses = need(batch, sizeof(*h->statuses));
	h->views = need(hold ? keys : batch, sizeof(*h->views));
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
	once |= hold;
	if (batch == 0 || batch > BATCH_MAX || threads > THREADS_MAX)
		return EX_USAGE;
	c = driver_open(&d);
	fprintf(stderr, "running\n");
	end_ns = now_ns() + seconds * KV_NS_PER_S;
	for (uint64_t i = 0; i < threads; i++) {
		hands[i] = hand_new(c);
		if (pthread_create(&hands[i]->thread, NULL, run, hands[i]))
			return EX_OSERR;
	}
	for (uint64_t i = 0; i < threads; i++) {
		pthread_join(hands[i]->thread, NULL);
		tally_add(&sum, &hands[i]->tally);
	}
	kv_client_close(c);
	return tally_code(&sum);
}
