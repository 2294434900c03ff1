/*
 * Every call of kvpool.h on objects, once as it is meant to be used and once
 * with what it must refuse.
 *
 *	store MASTER SOCKET PEER
 *
 * MASTER has two nodes: the one of SOCKET, and PEER, an address.
 */

#include <kvpool.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

enum {
	BLOCK_BYTES = 3 << 20,
	BLOCKS = 8,
	BATCH = 300,
};

static char err[512];
static unsigned char block[BLOCKS][BLOCK_BYTES];
static unsigned char got[BLOCKS][BLOCK_BYTES];

static struct kv_client *
open_or_die(const char *master, const char *socket, const char *tenant)
{
	const struct kv_client_opts o = {
		.size = sizeof(o),
		.master = master,
		.socket = socket,
		.tenant = tenant,
		.copy_threads = 3,
	};
	struct kv_client *c = kv_client_open(&o, err, sizeof(err));

	if (!c) {
		fprintf(stderr, "kv_client_open: %s\n", err);
		exit(1);
	}
	return c;
}

static struct kv_key
key_of(const char *text)
{
	return (struct kv_key){ text, strlen(text) };
}

static void
blocks_fill(void)
{
	uint32_t x = 1;

	for (int i = 0; i < BLOCKS; i++)
		for (int j = 0; j < BLOCK_BYTES; j++) {
			x = x * 1664525 + 1013904223;
			block[i][j] = (unsigned char)(x >> 24);
		}
}

static void
test_open(void)
{
	struct kv_client_opts o = { .size = sizeof(o), .socket = "" };
	int status = 1;

	err[0] = '\0';
	EXPECT(kv_client_open(&o, err, sizeof(err)) == NULL, 1);
	EXPECT(err[0] != '\0', 1);
	o.status = &status;
	EXPECT(kv_client_open(NULL, err, sizeof(err)) == NULL, 1);
	EXPECT(strcmp(err, "no options"), 0);
	for (o.size = 0; o.size < 2 * sizeof(o); o.size += sizeof(o) + 8) {
		EXPECT(kv_client_open(&o, err, sizeof(err)) == NULL, 1);
		EXPECT(strncmp(err, "options of a wrong size", 23), 0);
	}
	o.size = sizeof(o);
	o.master = "no such host.invalid";
	EXPECT(kv_client_open(&o, err, sizeof(err)) == NULL, 1);
	EXPECT(status, -KV_EINVALID);
	o.master = "127.0.0.1:1";
	o.open_timeout_ms = 100;
	EXPECT(kv_client_open(&o, err, sizeof(err)) == NULL, 1);
	EXPECT(status, -KV_EUNREACHABLE);
	EXPECT(kv_client_open(&o, NULL, 0) == NULL, 1);
	kv_client_close(NULL);
	EXPECT(strcmp(kv_status_name(-KV_EMISS), "EMISS"), 0);
	EXPECT(strlen(kv_status_text(KV_EMISS)) > 0, 1);
}

/* One object a call. */
static void
test_one(struct kv_client *c)
{
	char long_key[1025] = { 0 }, buf[8];
	uint64_t size = 0;

	EXPECT(kv_client_put_one(c, "one", 3, "value", 5), 0);
	EXPECT(kv_client_put_one(c, "one", 3, "other", 5), -KV_EEXISTS);
	EXPECT(kv_client_get_one(c, "one", 3, buf, sizeof(buf), NULL), 5);
	EXPECT(memcmp(buf, "value", 5), 0);
	EXPECT(kv_client_get_one(c, "one", 3, buf, 4, &size), -KV_ETOOBIG);
	EXPECT(size, 5);
	EXPECT(kv_client_get_one(c, "none", 4, buf, 8, NULL), -KV_EMISS);
	EXPECT(kv_client_put_one(c, "nothing", 7, "", 0), 0);
	EXPECT(kv_client_get_one(c, "nothing", 7, buf, 8, &size), 0);
	EXPECT(size, 0);
	EXPECT(kv_client_put_one(c, "", 0, "v", 1), -KV_EINVALID);
	EXPECT(kv_client_put_one(c, long_key, 1025, "v", 1), -KV_EINVALID);
	EXPECT(kv_client_put_one(c, long_key, 1024, "v", 1), 0);
	EXPECT(kv_client_get_one(c, long_key, 1024, buf, 8, NULL), 1);
}

/* case-002: each of these is one caller's mistake. */
static void
test_nulls(struct kv_client *c)
{
	struct kv_buf none = { NULL, 3 }, nothing = { NULL, 0 };
	struct kv_put_item p[] = {
		{ .key = key_of("nulls"), .nbufs = 3 },
		{ .key = key_of("nulls"), .bufs = &none, .nbufs = 1 },
		{ .key = { NULL, 5 }, .bufs = &nothing, .nbufs = 1 },
		{ .key = key_of("nulls"), .bufs = &nothing, .nbufs = 1 },
	};
	struct kv_get_item g[4];
	struct kv_view v = { .key = { NULL, 5 } };
	uint8_t found;
	size_t i;

	for (i = 0; i < 4; i++)
		g[i] = (struct kv_get_item){ .key = p[i].key,
					     .bufs = p[i].bufs,
					     .nbufs = p[i].nbufs };
	EXPECT(kv_client_put(c, p, 4, NULL), 1);
	EXPECT(kv_client_get(c, g, 4, NULL), 1);
	for (i = 0; i < 4; i++) {
		EXPECT(p[i].status, i < 3 ? -KV_EINVALID : 0);
		EXPECT(g[i].status, i < 3 ? -KV_EINVALID : 0);
	}
	/* Nothing is none. */
	EXPECT(kv_client_put(c, NULL, 0, NULL), 0);
	EXPECT(kv_client_get(c, NULL, 0, NULL), 0);
	EXPECT(kv_client_view(c, NULL, 0, 0), 0);
	EXPECT(kv_client_exist(c, NULL, 0, NULL, 0), 0);
	EXPECT(kv_client_remove(c, NULL, 0, 0, NULL, NULL), 0);
	EXPECT(kv_client_put(c, NULL, 1, NULL), -KV_EINVALID);
	EXPECT(kv_client_get(c, NULL, 1, NULL), -KV_EINVALID);
	EXPECT(kv_client_put(NULL, p, 1, NULL), -KV_EINVALID);
	EXPECT(kv_client_get(NULL, g, 1, NULL), -KV_EINVALID);
	EXPECT(kv_client_put_one(c, NULL, 5, "v", 1), -KV_EINVALID);
	EXPECT(kv_client_put_one(c, "k", 1, NULL, 1), -KV_EINVALID);
	EXPECT(kv_client_get_one(c, "k", 1, NULL, 1, NULL), -KV_EINVALID);
	EXPECT(kv_client_view(c, &v, 1, 0), -KV_EINVALID);
	EXPECT(kv_client_view(c, NULL, 1, 0), -KV_EINVALID);
	EXPECT(kv_client_exist(c, &v.key, 1, &found, 0), -KV_EINVALID);
	EXPECT(kv_client_exist(c, NULL, 1, &found, 0), -KV_EINVALID);
	EXPECT(kv_client_remove(c, &v.key, 1, 0, NULL, NULL), -KV_EINVALID);
	EXPECT(kv_client_remove(c, NULL, 1, 0, NULL, NULL), -KV_EINVALID);
	EXPECT(kv_client_query(c, v.key, 0, NULL, 0, NULL), -KV_EINVALID);
	EXPECT(kv_client_query(c, p[0].key, 0, NULL, 1, NULL), -KV_EINVALID);
	EXPECT(kv_client_list(c, NULL, NULL, NULL, NULL, NULL), -KV_EINVALID);
	EXPECT(kv_client_nodes(c, NULL, 1), -KV_EINVALID);
	EXPECT(kv_client_links(c, NULL, 1), -KV_EINVALID);
	EXPECT(kv_client_stats(c, NULL, NULL, 0), -KV_EINVALID);
	EXPECT(strcmp(kv_client_node_addr(NULL), ""), 0);
	EXPECT(kv_client_open(NULL, NULL, 1) == NULL, 1);
	kv_client_release(c, NULL, 1);
	EXPECT(kv_client_remove(c, &p[3].key, 1, 0, NULL, NULL), 1);
}

/* Options whose size nobody set would count for nothing. */
static void
test_opts(struct kv_client *c)
{
	const struct kv_put_opts put = { .replicas = 2 };
	const struct kv_get_opts get = { .timeout_ms = 1000 };
	struct kv_put_item p = { .key = key_of("opts") };
	struct kv_get_item g = { .key = p.key };

	EXPECT(kv_client_put(c, &p, 1, &put), -KV_EINVALID);
	EXPECT(kv_client_get(c, &g, 1, &get), -KV_EINVALID);
	EXPECT(kv_client_get(c, &g, 1, NULL), 0);
	EXPECT(g.status, -KV_EMISS);
}

/* Blocks of a model's layers: each value out of three buffers. One that is
 * absent fails alone (case-002). */
static void
test_batch(struct kv_client *c, const char *peer)
{
	const struct kv_put_opts two = { .size = sizeof(two), .replicas = 2 };
	const struct kv_put_opts there = { .size = sizeof(there),
					   .prefer = peer };
	struct kv_put_item puts[BLOCKS + 1] = { 0 };
	struct kv_get_item gets[BLOCKS + 1] = { 0 };
	struct kv_buf from[BLOCKS][3], to[BLOCKS][2];
	char keys[BLOCKS][24];

	for (int i = 0; i < BLOCKS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "block/%d", i);
		from[i][0] = (struct kv_buf){ block[i], 1 };
		from[i][1] = (struct kv_buf){ block[i] + 1, 4095 };
		from[i][2] =
			(struct kv_buf){ block[i] + 4096, BLOCK_BYTES - 4096 };
		to[i][0] = (struct kv_buf){ got[i], 1000 };
		to[i][1] = (struct kv_buf){ got[i] + 1000, BLOCK_BYTES - 1000 };
		puts[i] = (struct kv_put_item){ .key = key_of(keys[i]),
						.bufs = from[i],
						.nbufs = 3 };
		gets[i] = (struct kv_get_item){ .key = key_of(keys[i]),
						.bufs = to[i],
						.nbufs = 2 };
	}
	/* Of equal keys the first wins. */
	puts[BLOCKS] = puts[0];
	puts[BLOCKS].bufs = from[1];
	gets[BLOCKS] = (struct kv_get_item){ .key = key_of("absent") };

	EXPECT(kv_client_put(c, puts, BLOCKS / 2, &two), BLOCKS / 2);
	EXPECT(puts[0].replicas, 2);
	EXPECT(kv_client_put(c, puts + BLOCKS / 2, BLOCKS / 2, &there),
	       BLOCKS / 2);
	EXPECT(kv_client_put(c, puts, BLOCKS + 1, NULL), BLOCKS + 1);
	for (int i = 0; i <= BLOCKS; i++)
		EXPECT(puts[i].status, -KV_EEXISTS);
	EXPECT(kv_client_get(c, gets, BLOCKS + 1, NULL), BLOCKS);
	EXPECT(gets[BLOCKS].status, -KV_EMISS);
	for (int i = 0; i < BLOCKS; i++) {
		EXPECT(gets[i].len, BLOCK_BYTES);
		EXPECT(memcmp(got[i], block[i], BLOCK_BYTES), 0);
	}
}

static void
test_part(struct kv_client *c)
{
	struct kv_buf buf = { got[0], 100 };
	struct kv_get_item g = {
		.key = key_of("block/5"),
		.bufs = &buf,
		.nbufs = 1,
		.off = BLOCK_BYTES - 60,
		.is_part = 1,
	};

	EXPECT(kv_client_get(c, &g, 1, NULL), 1);
	EXPECT(g.len, 60);
	EXPECT(g.size_total, BLOCK_BYTES);
	EXPECT(memcmp(got[0], block[5] + BLOCK_BYTES - 60, 60), 0);
	g.is_part = 0;
	g.off = 0;
	EXPECT(kv_client_get(c, &g, 1, NULL), 0);
	EXPECT(g.status, -KV_ETOOBIG);
	EXPECT(g.size_total, BLOCK_BYTES);
}

static void
test_exist(struct kv_client *c)
{
	struct kv_key keys[] = { key_of("block/0"), key_of("absent"),
				 key_of("block/7") };
	uint8_t found[3];

	EXPECT(kv_client_exist(c, keys, 3, found, 0), 2);
	EXPECT(found[0], 1);
	EXPECT(found[1], 0);
	EXPECT(found[2], 1);
}

/* Pointers into the pool. block/0 has a copy on each node; block/7 is at the
 * other one only. */
static void
test_view(struct kv_client *c)
{
	struct kv_view v[] = { { .key = key_of("block/0") },
			       { .key = key_of("absent") },
			       { .key = key_of("block/7") } };
	const unsigned char *want = block[0];

	EXPECT(kv_client_view(c, v, 3, 0), 1);
	EXPECT(v[0].size, BLOCK_BYTES);
	for (size_t i = 0; i < v[0].npieces; i++) {
		EXPECT(memcmp(v[0].pieces[i].data, want, v[0].pieces[i].len),
		       0);
		want += v[0].pieces[i].len;
	}
	EXPECT(want - block[0], BLOCK_BYTES);
	EXPECT(v[1].status, -KV_EMISS);
	EXPECT(v[2].status, -KV_EMISS);
	kv_client_release(c, v, 3);
}

static long
wait_for(struct kv_op *op)
{
	long result = 0;
	int rc;

	EXPECT(op != NULL, 1);
	do {
		rc = kv_op_wait(op, 100, &result);
	} while (rc == -KV_ETIMEOUT);
	EXPECT(rc, 0);
	return result;
}

static void
test_submit(struct kv_client *c)
{
	struct kv_buf from = { block[1], BLOCK_BYTES };
	struct kv_buf to = { got[1], BLOCK_BYTES };
	struct kv_put_item p = { .key = key_of("later"),
				 .bufs = &from,
				 .nbufs = 1 };
	struct kv_get_item g = { .key = key_of("later"),
				 .bufs = &to,
				 .nbufs = 1 };

	memset(got[1], 0, BLOCK_BYTES);
	EXPECT(kv_client_register(c, got, sizeof(got)), 0);
	EXPECT(kv_client_register(c, got[1], BLOCK_BYTES), -KV_EINVALID);
	EXPECT(wait_for(kv_client_put_submit(c, &p, 1, NULL)), 1);
	EXPECT(p.status, 0);
	EXPECT(wait_for(kv_client_get_submit(c, &g, 1, NULL)), 1);
	EXPECT(memcmp(got[1], block[1], BLOCK_BYTES), 0);
	EXPECT(wait_for(kv_client_put_submit(c, NULL, 0, NULL)), 0);
	EXPECT(wait_for(kv_client_get_submit(c, NULL, 0, NULL)), 0);
	EXPECT(wait_for(kv_client_put_submit(c, NULL, 1, NULL)), -KV_EINVALID);
	EXPECT(wait_for(kv_client_get_submit(c, NULL, 1, NULL)), -KV_EINVALID);
	EXPECT(kv_client_unregister(c, got), 0);
	EXPECT(kv_client_unregister(c, got), -KV_EINVALID);
}

static int
count(void *arg, struct kv_key key, uint64_t size, const char *node)
{
	EXPECT(key.len, strlen("block/0"));
	EXPECT(size, BLOCK_BYTES);
	EXPECT(node[0] != '\0', 1);
	++*(int *)arg;
	return 0;
}

static void
test_look(struct kv_client *c, const char *peer)
{
	struct kv_replica_info r[4];
	struct kv_node_info n[4];
	uint32_t away = 9;
	char text[64];
	int calls = 0;

	EXPECT(kv_client_nodes(c, n, 4), 2);
	EXPECT(kv_client_nodes(c, n, 1), 2);
	EXPECT(strcmp(n[0].state, "live"), 0);
	EXPECT(n[0].pool_bytes > 0, 1);
	EXPECT(kv_client_query(c, key_of("block/1"), 1, r, 4, &away), 2);
	EXPECT(away, 0);
	EXPECT(r[0].size, BLOCK_BYTES);
	EXPECT(r[0].sum == r[1].sum && r[0].sum != 0, 1);
	EXPECT(strcmp(r[0].boot, r[1].boot) != 0, 1);
	EXPECT(kv_client_query(c, key_of("block/7"), 0, r, 4, NULL), 1);
	EXPECT(strcmp(r[0].addr, peer), 0);
	EXPECT(kv_client_query(c, key_of("absent"), 0, r, 4, NULL), 0);
	/* Once for each copy. */
	EXPECT(kv_client_list(c, "^block/", count, &calls, NULL, &away),
	       BLOCKS + BLOCKS / 2);
	EXPECT(calls, BLOCKS + BLOCKS / 2);
	EXPECT(away, 0);
	EXPECT(kv_client_list(c, "(", count, &calls, NULL, NULL), -KV_EINVALID);
	EXPECT(kv_client_stats(c, "local", text, sizeof(text)) > 64, 1);
	EXPECT(strlen(text), 63);
	EXPECT(kv_client_stats(c, "master", NULL, 0) > 0, 1);
	EXPECT(kv_client_stats(c, "client", NULL, 0) > 0, 1);
	EXPECT(kv_client_stats(c, "nobody", NULL, 0), -KV_EINVALID);
	EXPECT(kv_client_node_addr(c)[0], '\0');
}

static void
test_tenants(const char *master, const char *socket)
{
	struct kv_client *c = open_or_die(master, socket, "another");
	char buf[8];

	EXPECT(kv_client_get_one(c, "one", 3, buf, 8, NULL), -KV_EMISS);
	EXPECT(kv_client_put_one(c, "one", 3, "mine", 4), 0);
	EXPECT(kv_client_remove_matching(c, NULL, 0, NULL, NULL, NULL), 1);
	kv_client_close(c);
}

static void
test_remove(struct kv_client *c)
{
	const struct kv_put_opts hard = { .size = sizeof(hard), .hard_pin = 1 };
	struct kv_buf value = { block[0], 10 };
	struct kv_put_item p = { .key = key_of("hard"),
				 .bufs = &value,
				 .nbufs = 1 };
	struct kv_key keys[] = { key_of("one"), key_of("absent"),
				 key_of("hard") };
	int status[3];
	uint64_t kept = 9;
	uint32_t away = 9;
	uint8_t found[3];

	EXPECT(kv_client_put(c, &p, 1, &hard), 1);
	EXPECT(kv_client_remove(c, keys, 3, 0, status, &away), 1);
	EXPECT(away, 0);
	EXPECT(status[0], 0);
	EXPECT(status[1], -KV_EMISS);
	EXPECT(status[2], -KV_EBUSY);
	EXPECT(kv_client_exist(c, keys, 3, found, 0), 1);
	EXPECT(kv_client_remove(c, keys + 2, 1, 1, status, NULL), 1);
	EXPECT(kv_client_remove_matching(c, "(", 0, NULL, NULL, NULL),
	       -KV_EINVALID);
	EXPECT(kv_client_remove_matching(c, "", 0, NULL, NULL, NULL),
	       -KV_EINVALID);
	EXPECT(kv_client_remove_matching(c, "^block/[0-3]", 0, &kept, NULL,
					 &away) > 0,
	       1);
	EXPECT(kept, 0);
	EXPECT(kv_client_remove_matching(c, NULL, 0, NULL, NULL, &away) > 0, 1);
	EXPECT(kv_client_list(c, NULL, count, NULL, NULL, NULL), 0);
}

/* More keys than a frame holds. */
static void
test_many(struct kv_client *c)
{
	static struct kv_put_item puts[BATCH * 30];
	static struct kv_key keys[BATCH * 30];
	static char text[BATCH * 30][24];
	static uint8_t found[BATCH * 30];
	struct kv_buf value = { block[0], 100 };
	const int n = BATCH * 30;

	for (int i = 0; i < n; i++) {
		snprintf(text[i], sizeof(text[i]), "many/%d", i);
		keys[i] = key_of(text[i]);
		puts[i] = (struct kv_put_item){ .key = keys[i],
						.bufs = &value,
						.nbufs = 1 };
	}
	EXPECT(kv_client_put(c, puts, n, NULL), n);
	EXPECT(kv_client_exist(c, keys, n, found, 0), n);
	EXPECT(kv_client_remove(c, keys, n, 0, NULL, NULL), n);
	EXPECT(kv_client_exist(c, keys, n, found, 0), 0);
}

int
main(int argc, char **argv)
{
	struct kv_client *c;

	EXPECT(argc, 4);
	blocks_fill();
	test_open();
	/* With the node of this host, and without: same results. */
	for (int i = 0; i < 2; i++) {
		c = open_or_die(argv[1], i == 0 ? argv[2] : "", NULL);
		test_one(c);
		test_nulls(c);
		test_opts(c);
		test_batch(c, argv[3]);
		test_part(c);
		test_exist(c);
		if (i == 0)
			test_view(c);
		test_submit(c);
		if (i == 0)
			test_look(c, argv[3]);
		test_tenants(argv[1], i == 0 ? argv[2] : "");
		test_remove(c);
		test_many(c);
		kv_client_close(c);
	}
	return 0;
}
