/*
 * A process with an embedded node.
 *
 *	inproc MASTER POOL_FILE
 *
 * It gives memory to the pool, another client finds what lies there, and when
 * it is closed it is gone; unless it is in the file.
 */

#include <kvpool.h>
#include <string.h>
#include <time.h>

#include "expect.h"

static char err[512];

static struct kv_client *
open_or_die(const char *master, uint64_t segment_bytes)
{
	const struct kv_client_opts o = {
		.size = sizeof(o),
		.master = master,
		.socket = "",
		.segment_bytes = segment_bytes,
	};
	struct kv_client *c = kv_client_open(&o, err, sizeof(err));

	if (!c) {
		fprintf(stderr, "kv_client_open: %s\n", err);
		exit(1);
	}
	return c;
}

/* No master answers: it is waited for, then the node is alone. */
static void
test_alone(void)
{
	const struct kv_client_opts o = {
		.size = sizeof(o),
		.master = "127.0.0.1:1",
		.socket = "",
		.segment_bytes = 64 << 20,
		.open_timeout_ms = 500,
	};
	struct timespec a, b;
	struct kv_client *c;

	clock_gettime(CLOCK_MONOTONIC, &a);
	c = kv_client_open(&o, err, sizeof(err));
	clock_gettime(CLOCK_MONOTONIC, &b);
	EXPECT(c != NULL, 1);
	EXPECT(strcmp(err, ""), 0);
	EXPECT((b.tv_sec - a.tv_sec) * 1000 +
			       (b.tv_nsec - a.tv_nsec) / 1000000 >
		       300,
	       1);
	EXPECT(strcmp(kv_client_node_addr(c), ""), 0);
	EXPECT(kv_client_put_one(c, "own", 3, "x", 1), 0);
	kv_client_close(c);
}

/* The second one has what the first one put. */
static void
test_file(const char *file)
{
	static char large[300000], got[sizeof(large)];
	struct kv_client_opts o = {
		.size = sizeof(o),
		.socket = "",
		.segment_bytes = 16 << 20,
		.pool_file = file,
	};
	struct kv_client *c = kv_client_open(&o, err, sizeof(err));

	memset(large, 'y', sizeof(large));
	EXPECT(c != NULL, 1);
	EXPECT(kv_client_put_one(c, "kept", 4, large, sizeof(large)), 0);
	EXPECT(kv_client_open(&o, err, sizeof(err)) == NULL, 1);
	EXPECT(strstr(err, "in use by pid") != NULL, 1);
	kv_client_close(c);
	c = kv_client_open(&o, err, sizeof(err));
	EXPECT(c != NULL, 1);
	EXPECT(kv_client_get_one(c, "kept", 4, got, sizeof(got), NULL),
	       sizeof(large));
	EXPECT(memcmp(got, large, sizeof(large)), 0);
	kv_client_close(c);
}

int
main(int argc, char **argv)
{
	struct kv_client *node, *other;
	struct kv_put_opts po = { .size = sizeof(po) };
	struct kv_view v = { .key = { "view", 4 } };
	struct kv_replica_info r;
	static char large[300000], got[sizeof(large)];
	struct kv_buf value = { large, sizeof(large) };
	struct kv_put_item p = { .bufs = &value, .nbufs = 1 };

	EXPECT(argc, 3);
	test_alone();
	test_file(argv[2]);
	memset(large, 'x', sizeof(large));
	node = open_or_die(argv[1], 64 << 20);
	EXPECT(kv_client_node_addr(node)[0] != '\0', 1);

	/* Its own objects, as pointers into its own memory. */
	po.prefer = kv_client_node_addr(node);
	p.key = v.key;
	EXPECT(kv_client_put(node, &p, 1, &po), 1);
	EXPECT(kv_client_view(node, &v, 1, 0), 1);
	EXPECT(v.size, sizeof(large));
	EXPECT(*(const char *)v.pieces[0].data, 'x');
	kv_client_release(node, &v, 1);

	/* Those of somebody who owns nothing. */
	other = open_or_die(argv[1], 0);
	EXPECT(kv_client_get_one(other, "view", 4, got, sizeof(got), NULL),
	       sizeof(large));
	EXPECT(memcmp(got, large, sizeof(large)), 0);
	p.key = (struct kv_key){ "there", 5 };
	EXPECT(kv_client_put(other, &p, 1, &po), 1);
	EXPECT(kv_client_query(other, p.key, 0, &r, 1, NULL), 1);
	EXPECT(strcmp(r.addr, po.prefer), 0);
	EXPECT(kv_client_get_one(node, "there", 5, got, sizeof(got), NULL),
	       sizeof(large));

	kv_client_close(node);
	EXPECT(kv_client_get_one(other, "view", 4, got, sizeof(got), NULL),
	       -KV_EMISS);
	kv_client_close(other);
	return 0;
}
