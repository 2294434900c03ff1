/* A node with real memory, sockets and threads, seen from a process that
 * attaches and from one that dials it. */

#include "svc/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "event/loop.h"
#include "mem/seg.h"
#include "net/sock.h"
#include "svc/node.h"
#include "wirepeer.h"

#include "test.h"

enum {
	BYTES = 8 << 20,
};

static char folder[] = "/tmp/kv.test_pool.XXXXXX";
static char path[64];
static bool is_file; /* the pool is in one */
static struct kv_loop *loop;
static struct kv_net *net;

static int
setup(void **state)
{
	(void)state;
	kv_log_set_level(KV_LOG_ERR);
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s", folder);
	loop = kv_loop_new(NULL);
	net = kv_sock_net_new();
	assert_non_null(loop);
	assert_non_null(net);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	kv_sock_net_free(net);
	kv_loop_free(loop);
	/* Nothing was left in it. */
	return rmdir(folder);
}

static void
turn(const char *what)
{
	static uint64_t end;
	uint64_t now = kv_loop_refresh(loop);

	if (!what) {
		end = now + 10 * KV_NS_PER_S;
		return;
	}
	if (now > end)
		fail_msg("waited in vain for %s", what);
	assert_true(kv_loop_turn(loop, now + 10 * KV_NS_PER_MS) >= 0);
}

#define WAIT(condition)                   \
	do {                              \
		turn(NULL);               \
		while (!(condition))      \
			turn(#condition); \
	} while (0)

static void
dialled(void *arg, struct kv_stream *s, int status)
{
	struct wirepeer *p = arg;

	assert_int_equal(status, 0);
	wirepeer_open(p, loop, s);
}

static uint64_t
greet(struct wirepeer *p, enum kv_role role, uint64_t token)
{
	struct kv_hello h = {
		.version_min = kv_le16(KV_WIRE_VERSION),
		.version_max = kv_le16(KV_WIRE_VERSION),
		.role = (uint8_t)role,
		.boot = { { 4 } },
		.token = kv_le64(token),
	};
	const struct kv_hello_r *r;
	struct wireframe *f;

	WAIT(p->c);
	wirepeer_send(p, KV_MSG_HELLO, 1, &h, NULL, 0);
	WAIT(wirepeer_count(p, KV_MSG_HELLO_R));
	f = wirepeer_take(p, KV_MSG_HELLO_R);
	r = (void *)f->body;
	assert_int_equal(r->status, KV_OK);
	token = kv_get64(r->token);
	wireframe_free(f);
	return token;
}

static uint64_t
dial(struct wirepeer *p, const char *addr, enum kv_role role, uint64_t token)
{
	memset(p, 0, sizeof(*p));
	net->connect(net, loop, addr, kv_loop_now(loop) + 5 * KV_NS_PER_S,
		     dialled, p);
	return greet(p, role, token);
}

static struct kv_pool *
start_in(const char *file, struct kv_loop *on)
{
	struct kv_pool_opts o = {
		.bytes = BYTES,
		.file = file,
		.listen = "127.0.0.1:0",
		.socket = path,
		.name = "p",
	};
	char err[512] = "";
	struct kv_pool *p = kv_pool_start(&o, on, err, sizeof(err));

	if (!p)
		print_error("%s\n", err);
	assert_non_null(p);
	assert_string_equal(kv_pool_socket(p), path);
	assert_false(kv_id_is_zero(*kv_pool_boot(p)));
	return p;
}

static struct kv_pool *
start(struct kv_loop *on)
{
	return start_in(NULL, on);
}

/* The pool's descriptor, by ATTACH. */
static int
attach(struct wirepeer *p, uint8_t flags)
{
	struct kv_attach a = { .flags = flags };
	const struct kv_attach_r *r;
	struct wireframe *f;
	int fd;

	wirepeer_send(p, KV_MSG_ATTACH, 2, &a, NULL, 0);
	WAIT(wirepeer_count(p, KV_MSG_ATTACH_R));
	f = wirepeer_take(p, KV_MSG_ATTACH_R);
	r = (void *)f->body;
	assert_int_equal(r->status, KV_OK);
	assert_int_equal(kv_get64(r->pool_bytes), BYTES);
	assert_int_equal(r->flags & KV_POOL_SEALED ? 0 : 1, is_file);
	fd = dup(f->fd);
	assert_true(fd >= 0);
	wireframe_free(f);
	return fd;
}

static void
put_begin(struct wirepeer *p, const char *key, uint64_t size, enum kv_mode mode,
	  uint64_t data_token)
{
	struct {
		struct kv_put_ent e;
		char key[16];
	} tail = { .e = { .size = kv_le64(size),
			  .key_len = kv_le16((uint16_t)strlen(key)) } };
	struct kv_put m = {
		.put_id.random = kv_le64(7),
		.count = kv_le32(1),
		.budget_ms = kv_le32(5000),
		.mode = (uint8_t)mode,
		.data_token = kv_le64(data_token),
	};

	memcpy(tail.key, key, strlen(key));
	wirepeer_send(p, KV_MSG_PUT, 3, &m, &tail,
		      sizeof(tail.e) + strlen(key));
	WAIT(wirepeer_count(p, KV_MSG_GRANT_R));
}

static void
put_end(struct wirepeer *p)
{
	struct wireframe *f;

	WAIT(wirepeer_count(p, KV_MSG_PUT_R));
	f = wirepeer_take(p, KV_MSG_PUT_R);
	assert_int_equal(f->tail_len, 1);
	assert_int_equal(f->tail[0], KV_OK);
	wireframe_free(f);
}

static void
get(struct wirepeer *p, const char *key, enum kv_mode mode, uint64_t data_token)
{
	struct {
		struct kv_get_ent e;
		char key[16];
	} tail = { .e = { .len = kv_le64(BYTES),
			  .key_len = kv_le16((uint16_t)strlen(key)) } };
	struct kv_get m = {
		.count = kv_le32(1),
		.budget_ms = kv_le32(5000),
		.mode = (uint8_t)mode,
		.data_token = kv_le64(data_token),
	};

	memcpy(tail.key, key, strlen(key));
	wirepeer_send(p, KV_MSG_GET, 4, &m, &tail,
		      sizeof(tail.e) + strlen(key));
	WAIT(wirepeer_count(p, KV_MSG_GET_R));
}

/* One writes in place, the other reads over TCP, and the other way round. */
static void
values_pass_between_mapping_and_network(void **state)
{
	struct kv_pool *pool = start(NULL);
	uint8_t *bytes = malloc(1 << 20), *map;
	struct wirepeer local, remote, data;
	const struct kv_grant_ent *g;
	const struct kv_extent_le *e;
	const struct kv_get_ent_r *r;
	struct kv_filled filled = { .count = kv_le32(1) };
	uint64_t token, data_token;
	struct wireframe *f;
	char addr[80];
	size_t got = 0;
	int fd;

	(void)state;
	snprintf(addr, sizeof(addr), "unix:%s", path);
	dial(&local, addr, KV_ROLE_REQUESTER, 0);
	fd = attach(&local, KV_ATTACH_WRITE);
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	token = dial(&remote, kv_pool_addr(pool), KV_ROLE_REQUESTER, 0);
	data_token = dial(&data, kv_pool_addr(pool), KV_ROLE_DATA, token);
	for (size_t i = 0; i < 1 << 20; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 253);

	put_begin(&local, "shm", 1 << 20, KV_MODE_SHM, 0);
	f = wirepeer_take(&local, KV_MSG_GRANT_R);
	g = (void *)f->tail;
	e = (const void *)(g + 1);
	assert_int_equal(kv_get32(g->extents), 1);
	memcpy(map + kv_get64(e->off), bytes, 1 << 20);
	wirepeer_send(&local, KV_MSG_FILLED, 3, &filled, &g->grant, 8);
	wireframe_free(f);
	put_end(&local);
	get(&remote, "shm", KV_MODE_DATA, data_token);
	while (got < 1 << 20) {
		WAIT(wirepeer_count(&data, KV_MSG_DATA));
		f = wirepeer_take(&data, KV_MSG_DATA);
		assert_memory_equal(f->payload, bytes + got, f->payload_len);
		got += f->payload_len;
		wireframe_free(f);
	}

	for (size_t i = 0; i < 1 << 20; i++)
		bytes[i] ^= 0xff;
	put_begin(&remote, "tcp", 1 << 20, KV_MODE_DATA, data_token);
	f = wirepeer_take(&remote, KV_MSG_GRANT_R);
	g = (void *)f->tail;
	wirepeer_send_data(&data, kv_get64(g->grant), 0, bytes, 1 << 20);
	wireframe_free(f);
	put_end(&remote);
	get(&local, "tcp", KV_MODE_SHM, 0);
	f = wirepeer_take(&local, KV_MSG_GET_R);
	r = (void *)f->tail;
	e = (const void *)(r + 1);
	assert_int_equal(r->status, KV_OK);
	assert_int_equal(r->how, KV_HOW_EXTENTS);
	assert_memory_equal(map + kv_get64(e->off), bytes, 1 << 20);
	wireframe_free(f);

	munmap(map, BYTES);
	close(fd);
	wirepeer_close(&data);
	wirepeer_close(&remote);
	wirepeer_close(&local);
	kv_pool_close(pool);
	free(bytes);
}

/* Put in place, and found again over TCP by the next process; by one that was
 * attached before the bytes are the same all the time. */
static void
a_pool_file_is_there_again(void **state)
{
	struct kv_filled filled = { .count = kv_le32(1) };
	uint64_t token, data_token, off;
	const struct kv_grant_ent *g;
	struct wirepeer local, data;
	struct kv_pool *pool;
	struct wireframe *f;
	char addr[80], file[80], index[96];
	uint8_t *map;
	int fd;

	(void)state;
	is_file = true;
	snprintf(file, sizeof(file), "%s/pool", folder);
	snprintf(index, sizeof(index), "%s.index", file);
	pool = start_in(file, NULL);
	snprintf(addr, sizeof(addr), "unix:%s", path);
	dial(&local, addr, KV_ROLE_REQUESTER, 0);
	fd = attach(&local, KV_ATTACH_WRITE);
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	put_begin(&local, "k", 200000, KV_MODE_SHM, 0);
	f = wirepeer_take(&local, KV_MSG_GRANT_R);
	g = (void *)f->tail;
	off = kv_get64(
		((const struct kv_extent_le *)(const void *)(g + 1))->off);
	memset(map + off, 0x5a, 200000);
	wirepeer_send(&local, KV_MSG_FILLED, 3, &filled, &g->grant, 8);
	wireframe_free(f);
	put_end(&local);
	wirepeer_close(&local);
	kv_pool_close(pool);

	pool = start_in(file, NULL);
	token = dial(&local, kv_pool_addr(pool), KV_ROLE_REQUESTER, 0);
	data_token = dial(&data, kv_pool_addr(pool), KV_ROLE_DATA, token);
	get(&local, "k", KV_MODE_DATA, data_token);
	WAIT(wirepeer_count(&data, KV_MSG_DATA));
	f = wirepeer_take(&data, KV_MSG_DATA);
	assert_int_equal(f->payload_len, 200000);
	assert_memory_equal(f->payload, map + off, 200000);
	assert_int_equal(map[off + 199999], 0x5a);
	wireframe_free(f);
	wirepeer_close(&data);
	wirepeer_close(&local);
	kv_pool_close(pool);
	munmap(map, BYTES);
	close(fd);
	unlink(file);
	unlink(index);
	is_file = false;
}

static void
a_reader_cannot_write(void **state)
{
	struct kv_pool *pool = start(NULL);
	struct wirepeer p;
	char addr[80];
	int fd;

	(void)state;
	snprintf(addr, sizeof(addr), "unix:%s", path);
	dial(&p, addr, KV_ROLE_REQUESTER, 0);
	fd = attach(&p, 0);
	assert_ptr_equal(
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
		MAP_FAILED);
	close(fd);
	wirepeer_close(&p);
	kv_pool_close(pool);
}

static void
attaching_needs_the_unix_socket(void **state)
{
	struct kv_pool *pool = start(NULL);
	struct kv_attach a = { 0 };
	struct wirepeer p;
	struct wireframe *f;

	(void)state;
	dial(&p, kv_pool_addr(pool), KV_ROLE_REQUESTER, 0);
	wirepeer_send(&p, KV_MSG_ATTACH, 2, &a, NULL, 0);
	WAIT(wirepeer_count(&p, KV_MSG_ATTACH_R));
	f = wirepeer_take(&p, KV_MSG_ATTACH_R);
	assert_int_equal(((struct kv_attach_r *)(void *)f->body)->status,
			 KV_EDENIED);
	assert_int_equal(f->fd, -1);
	wireframe_free(f);
	wirepeer_close(&p);
	kv_pool_close(pool);
}

static void
set_true(void *arg)
{
	*(bool *)arg = true;
}

static void
it_runs_on_a_loop_of_its_owner(void **state)
{
	struct kv_pool *pool = start(loop);
	struct kv_heartbeat room;
	bool is_done = false;

	(void)state;
	do {
		turn("pages");
		kv_node_room(kv_pool_node(pool), &room);
	} while (kv_get64(room.ready_bytes) < BYTES);
	assert_int_equal(kv_get64(room.free_bytes), BYTES);
	kv_pool_stop(pool, set_true, &is_done);
	assert_false(is_done);
	WAIT(is_done);
	kv_pool_free(pool);
}

/* What cannot be had: an errno and one line that names it. */
static void
refuses(const struct kv_pool_opts *o, int err, const char *word)
{
	char text[512] = "";

	assert_null(kv_pool_start(o, NULL, text, sizeof(text)));
	assert_int_equal(errno, err);
	assert_non_null(strstr(text, word));
	assert_null(strchr(text, '\n'));
}

static void
what_cannot_be_had_is_told(void **state)
{
	struct kv_pool *pool = start(NULL);
	struct kv_pool_opts o = { .bytes = BYTES, .listen = "127.0.0.1:0" };

	(void)state;
	o.masters = "a,b,c,d,e";
	refuses(&o, E2BIG, "4");
	o.masters = "::x::";
	refuses(&o, EINVAL, "::x::");
	o.masters = NULL;
	o.listen = kv_pool_addr(pool);
	refuses(&o, EADDRINUSE, kv_pool_addr(pool));
	o.listen = NULL;
	o.socket = path;
	refuses(&o, EADDRINUSE, path);
	o.socket = "/nowhere/at/all";
	refuses(&o, ENOENT, "/nowhere/at/all");
	o.socket = NULL;
	o.socket_group = "no-such-group";
	refuses(&o, ENOENT, "no-such-group");
	o.socket_group = NULL;
	o.bytes = KV_POOL_BYTES_MIN - 1;
	refuses(&o, EINVAL, "1 MiB");
	o.bytes = UINT64_C(1) << 50;
	refuses(&o, ENOMEM, "memory");
	kv_pool_close(pool);
	kv_pool_close(NULL);
	kv_pool_free(NULL);
}

static char logged[512];

static void
on_log(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	if (level == KV_LOG_WARN)
		snprintf(logged, sizeof(logged), "%s", msg);
}

static bool
is_in_memory(const char *file)
{
	const struct kv_seg_opts o = { .bytes = BYTES, .path = file };
	char err[512] = "";
	struct kv_seg *seg;
	bool is;

	assert_int_equal(kv_seg_open(&o, &seg, err, sizeof(err)), 0);
	is = kv_seg_is_in_memory(seg);
	kv_seg_close(seg);
	unlink(file);
	return is;
}

static void
a_file_on_a_disk_is_not_for_nics(void **state)
{
	int none; /* ports that nobody may ask anything */
	struct kv_pool_opts o = {
		.bytes = BYTES,
		.socket = path,
		.rdma = (void *)&none,
	};
	char file[80], index[96], shm[64], err[512] = "";
	struct kv_pool *p;

	(void)state;
	snprintf(shm, sizeof(shm), "/dev/shm/kv.test_pool.%d", (int)getpid());
	assert_true(is_in_memory(shm));
	snprintf(file, sizeof(file), "%s/pool", folder);
	snprintf(index, sizeof(index), "%s.index", file);
	if (is_in_memory(file))
		skip();
	kv_log_set_level(KV_LOG_WARN);
	kv_log_set_sink(on_log, NULL);
	o.file = file;
	p = kv_pool_start(&o, NULL, err, sizeof(err));
	assert_non_null(p);
	assert_string_equal(logged,
			    "the pool is not served by RDMA: NICs do not write "
			    "to files on a disk; let the pool's lie on tmpfs "
			    "or hugetlbfs");
	kv_pool_close(p);
	kv_log_set_sink(NULL, NULL);
	unlink(file);
	unlink(index);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(values_pass_between_mapping_and_network),
		TEST(a_pool_file_is_there_again),
		TEST(a_reader_cannot_write),
		TEST(attaching_needs_the_unix_socket),
		TEST(it_runs_on_a_loop_of_its_owner),
		TEST(what_cannot_be_had_is_told),
		TEST(a_file_on_a_disk_is_not_for_nics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
