/*
 * How a call goes by rails, and by TCP where they cannot: two engines of this
 * process, and rails between them that copy, or fail, as they are told. What
 * is here of the names of rdma*.c and railset.c stands in for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "engpeer.h"
#include "kvpool.h"
#include "test.h"
#include "xfer/railset.h"
#include "xfer/rdmacall.h"
#include "xfer/rdmalink.h"
#include "xfer/rdmaregion.h"

enum {
	BYTES = 4 << 20,
	BIG = (int)KV_RAILBATCH_REGISTER_BYTES,
	MOVES_MAX = 16,
};

static uint8_t *local, *remote;

/* ---- devices ---- */

struct kv_rdma {
	int unused;
};

static struct {
	unsigned opened, ports;
	const void *unwilling; /* memory that cannot be registered */
	bool no_ring;
	/* Rails. */
	unsigned made, settled, moves;
	uint64_t bytes;         /* that they moved */
	int settles[MOVES_MAX]; /* what each says in turn */
	int outcomes[MOVES_MAX];
	int noted; /* what becomes of a message */
	unsigned notes;
} fake;

struct kv_rdma *
kv_rdma_open(const struct kv_rdma_opts *o, char *err, size_t n)
{
	fake.opened++;
	snprintf(err, n, "no device is called %s; look",
		 o->wanted ? o->wanted : "so");
	errno = ENODEV;
	return fake.ports ? calloc(1, sizeof(struct kv_rdma)) : NULL;
}

void
kv_rdma_close(struct kv_rdma *r)
{
	free(r);
}

unsigned
kv_rdma_ports(const struct kv_rdma *r)
{
	(void)r;
	return fake.ports;
}

struct kv_rdmaregion {
	struct kv_rdmamem mem;
};

struct kv_rdmaregion *
kv_rdmaregion_new(struct kv_rdma *r, void *addr, size_t bytes,
		  enum kv_rdmaregion_use use)
{
	struct kv_rdmaregion *g;

	(void)r;
	(void)use;
	errno = EFAULT;
	if (addr == fake.unwilling)
		return NULL;
	if (fake.no_ring && (uintptr_t)addr - (uintptr_t)local >= BYTES)
		return NULL;
	g = calloc(1, sizeof(*g));
	g->mem.addr = (uintptr_t)addr;
	g->mem.len = bytes;
	return g;
}

void
kv_rdmaregion_free(struct kv_rdmaregion *g)
{
	free(g);
}

unsigned
kv_rdmaregion_near(const struct kv_rdmaregion *g, uint64_t off, uint64_t bytes,
		   struct kv_rdmarange *out, unsigned max)
{
	(void)max;
	*out = (struct kv_rdmarange){ g->mem.addr + off, bytes, &g->mem };
	return 1;
}

const struct kv_rdmamem *
kv_rdmaregion_far(const struct kv_rdmaregion *g)
{
	return &g->mem;
}

/* ---- the serving side has none ---- */

struct kv_rdmaloop *
kv_rdmaloop_new(struct kv_rdma *r, struct kv_loop *loop, bool listens)
{
	(void)r;
	(void)loop;
	(void)listens;
	errno = ENODEV;
	return NULL;
}

void
kv_rdmaloop_free(struct kv_rdmaloop *rl)
{
	assert_null(rl);
}

struct kv_rdmalink *
kv_rdmalink_new(struct kv_rdmaloop *rl, struct kv_conn *c,
		const struct kv_rdmalink_opts *o)
{
	(void)rl;
	(void)c;
	(void)o;
	return NULL;
}

void
kv_rdmalink_free(struct kv_rdmalink *l)
{
	assert_null(l);
}

void
kv_rdmalink_tell(struct kv_rdmalink *l)
{
	(void)l;
}

bool
kv_rdmalink_take(struct kv_rdmalink *l, const struct kv_msg *msg)
{
	(void)l;
	(void)msg;
	return false;
}

struct kv_rdmacall *
kv_rdmacall_new(const struct kv_rdmacall_opts *o)
{
	(void)o;
	errno = ENODEV;
	return NULL;
}

void
kv_rdmacall_free(struct kv_rdmacall *c)
{
	assert_null(c);
}

void
kv_rdmacall_listen(struct kv_rdmacall *c, uint16_t port, kv_net_accept_fn *fn,
		   void *arg)
{
	(void)c;
	(void)port;
	(void)fn;
	(void)arg;
}

unsigned
kv_rdmacall_listens(const struct kv_rdmacall *c)
{
	(void)c;
	return 0;
}

struct kv_rdmacall_dial *
kv_rdmacall_dial(struct kv_rdmacall *c, const struct kv_rdmacall_to *to,
		 kv_net_connect_fn *fn, void *arg)
{
	(void)c;
	(void)to;
	(void)fn;
	(void)arg;
	return NULL;
}

void
kv_rdmacall_cancel(struct kv_rdmacall_dial *d)
{
	assert_null(d);
}

/* ---- rails ---- */

struct kv_railset {
	bool is_dialled;
};

struct kv_railset *
kv_railset_new(const struct kv_railset_opts *opts)
{
	assert_non_null(opts->rdma);
	fake.made++;
	return calloc(1, sizeof(struct kv_railset));
}

void
kv_railset_free(struct kv_railset *s)
{
	free(s);
}

void
kv_railset_dial(struct kv_railset *s, const char *addr, uint64_t deadline_ns)
{
	(void)addr;
	(void)deadline_ns;
	assert_false(s->is_dialled);
	s->is_dialled = true;
}

int
kv_railset_settle(struct kv_railset *s, const struct kv_wait *wait)
{
	(void)wait;
	assert_true(s->is_dialled);
	assert_true(fake.settled < MOVES_MAX);
	return fake.settles[fake.settled++];
}

unsigned
kv_railset_rails(const struct kv_railset *s)
{
	(void)s;
	return 2;
}

const char *
kv_railset_why(const struct kv_railset *s)
{
	(void)s;
	return "the wire was bitten through";
}

/* Peer and engine are one process, so addresses there are addresses here. */
static void
copy(enum kv_engine_op op, const struct kv_railbatch *b)
{
	uint64_t near_off = 0, far_off = 0;
	unsigned i = 0, j = 0;

	while (i < b->n_near && j < b->n_far) {
		uint64_t n = b->near[i].len - near_off;
		void *near = (void *)(uintptr_t)(b->near[i].addr + near_off);
		void *far = (void *)(uintptr_t)(b->far[j].addr + far_off);

		if (n > b->far[j].len - far_off)
			n = b->far[j].len - far_off;
		memcpy(op == KV_ENGINE_WRITE ? far : near,
		       op == KV_ENGINE_WRITE ? near : far, n);
		near_off += n;
		far_off += n;
		if (near_off == b->near[i].len) {
			near_off = 0;
			i++;
		}
		if (far_off == b->far[j].len) {
			far_off = 0;
			j++;
		}
	}
	assert_int_equal(i, b->n_near);
	assert_int_equal(j, b->n_far);
}

int
kv_railset_move(struct kv_railset *s, const struct kv_railbatch *b,
		const struct kv_wait *wait)
{
	(void)s;
	(void)wait;
	assert_true(fake.moves < MOVES_MAX);
	if (fake.outcomes[fake.moves] == 0) {
		copy(b->op, b);
		fake.bytes += b->bytes;
	}
	return fake.outcomes[fake.moves++];
}

int
kv_railset_note(struct kv_railset *s, const struct kv_railnote_text *note,
		const struct kv_wait *wait)
{
	(void)s;
	(void)wait;
	assert_string_equal(note->name, "name");
	assert_int_equal(note->text_len, 4);
	assert_memory_equal(note->text, "text", 4);
	fake.notes++;
	return fake.noted;
}

/* ---- two engines ---- */

static struct kv_engine *near, *far;
static char addr[32];

static uint8_t *
map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void
quiet(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

static int
set_up(void **state)
{
	const struct kv_engine_opts opts = {
		.listen = "127.0.0.1:0",
		.no_attach = 1,
	};

	(void)state;
	kv_log_set_sink(quiet, NULL);
	memset(&fake, 0, sizeof(fake));
	fake.ports = 2;
	near = engpeer_open(&opts);
	far = engpeer_open(&opts);
	snprintf(addr, sizeof(addr), "127.0.0.1:%d", kv_engine_port(far));
	local = map(BYTES);
	remote = map(BYTES);
	assert_int_equal(kv_engine_register(far, remote, BYTES), 0);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	kv_engine_close(near);
	kv_engine_close(far);
	munmap(local, BYTES);
	munmap(remote, BYTES);
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static void
register_local(size_t at, size_t len)
{
	assert_int_equal(kv_engine_register(near, local + at, len), 0);
}

/* n pieces with gaps between them, there and back again. */
static void
move_pieces(size_t n, size_t len, size_t gap)
{
	struct kv_xfer_item *items = calloc(n, sizeof(*items));

	for (size_t i = 0; i < n; i++)
		items[i] = (struct kv_xfer_item){
			.local = local + i * (len + gap),
			.remote = (uintptr_t)remote + (n - 1 - i) * len,
			.len = len,
		};
	engpeer_fill(local, 0, BYTES, n);
	memset(remote, 0, BYTES);
	assert_int_equal(
		kv_engine_transfer(near, KV_ENGINE_WRITE, addr, items, n, 0),
		0);
	for (size_t i = 0; i < n; i++)
		assert_memory_equal(items[i].local,
				    (void *)(uintptr_t)items[i].remote, len);
	for (size_t i = 0; i < n; i++)
		memset(items[i].local, 0, len);
	assert_int_equal(
		kv_engine_transfer(near, KV_ENGINE_READ, addr, items, n, 0), 0);
	assert_int_equal(engpeer_verify(local, 0, BYTES, n), 0);
	free(items);
}

static void
expect_path(const char *want)
{
	char path[512];

	assert_int_equal(kv_engine_path(near, addr, path, sizeof(path)), 0);
	if (strncmp(path, want, strlen(want)))
		fail_msg("path is \"%s\", not %s", path, want);
}

static void
all_goes_by_the_same_rails(void **state)
{
	(void)state;
	register_local(0, BYTES);
	expect_path("rdma: 2 rails");
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.bytes, 2 * 100 * 10000);
	assert_int_equal(fake.moves, 2);
	assert_int_equal(fake.made, 1);
}

static int
notify(void)
{
	return kv_engine_notify(near, addr, "name", "text", 4);
}

static unsigned
notes_by_tcp(void)
{
	struct kv_note_in in;
	unsigned n;

	for (n = 0; kv_engine_notes(far, &in, 1) == 1; n++) {
		assert_int_equal(in.text_len, 4);
		assert_memory_equal(in.text, "text", 4);
		free(in.text);
	}
	return n;
}

static void
messages_go_by_rails_that_are_there(void **state)
{
	(void)state;
	assert_int_equal(notify(), 0);
	assert_int_equal(fake.notes, 0);
	assert_int_equal(notes_by_tcp(), 1);
	expect_path("rdma: 2 rails");
	assert_int_equal(notify(), 0);
	assert_int_equal(fake.notes, 1);
	assert_int_equal(notes_by_tcp(), 0);
	expect_path("rdma: 2 rails, messages too");
	fake.noted = -EBUSY;
	assert_int_equal(notify(), -KV_EBUSY);
	assert_int_equal(fake.made, 1);
}

static void
messages_that_rails_refuse_go_by_tcp(void **state)
{
	char path[512];

	(void)state;
	expect_path("rdma: 2 rails");
	fake.noted = 1;
	assert_int_equal(notify(), 0);
	assert_int_equal(fake.notes, 1);
	assert_int_equal(notes_by_tcp(), 1);
	assert_int_equal(kv_engine_path(near, addr, path, sizeof(path)), 0);
	assert_string_equal(path, "rdma: 2 rails");
	fake.settles[fake.settled] = 1;
	fake.settles[fake.settled + 1] = 1;
	assert_int_equal(notify(), 0);
	assert_int_equal(fake.notes, 1);
	assert_int_equal(notes_by_tcp(), 1);
}

static void
a_message_that_may_have_come_is_not_sent_again(void **state)
{
	(void)state;
	expect_path("rdma: 2 rails");
	fake.noted = -ECONNRESET;
	assert_int_not_equal(notify(), 0);
	assert_int_equal(notes_by_tcp(), 0);
}

/* What is registered, and what is too small for that, in turn. */
static void
memory_of_all_kinds_in_one_call(void **state)
{
	(void)state;
	fake.no_ring = true;
	for (size_t i = 0; i < 10; i += 3)
		register_local(i * 210000, 200000);
	register_local(12 * 210000 + 50000, 100000);
	move_pieces(19, 200000, 10000);
	assert_int_equal(fake.bytes, 2 * (4 * 200000 + 100000));
	assert_int_equal(fake.made, 1);
}

static void
large_memory_need_not_be_registered(void **state)
{
	(void)state;
	move_pieces(3, 2 * BIG, 4096);
	assert_int_equal(fake.bytes, 2 * 3 * 2 * BIG);
}

static void
small_memory_goes_through_the_ring(void **state)
{
	(void)state;
	for (size_t i = 0; i < 10; i += 3)
		register_local(i * 210000, 200000);
	register_local(12 * 210000 + 50000, 100000);
	move_pieces(19, 200000, 10000);
	assert_int_equal(fake.bytes, 2 * 19 * 200000);
	assert_int_equal(fake.made, 1);
	assert_in_range(fake.moves, 2, 6);
}

static void
small_pieces_go_through_the_ring(void **state)
{
	(void)state;
	move_pieces(900, 4000, 96);
	assert_int_equal(fake.bytes, 2 * 900 * 4000);
	assert_in_range(fake.moves, 4, 6);
}

static void
small_memory_goes_by_tcp_without_a_ring(void **state)
{
	(void)state;
	fake.no_ring = true;
	move_pieces(10, BIG - 1, 4096);
	assert_int_equal(fake.bytes, 0);
	assert_int_equal(fake.made, 0);
}

static void
what_is_packed_and_fails_goes_by_tcp(void **state)
{
	(void)state;
	fake.outcomes[0] = 1;
	move_pieces(10, 5000, 5000);
	assert_int_equal(fake.bytes, 0);
	assert_int_equal(fake.moves, 1); /* then rails are left alone */
}

static void
what_cannot_be_registered_goes_by_tcp(void **state)
{
	(void)state;
	fake.unwilling = local;
	move_pieces(2, 2 * BIG, 4096);
	assert_int_equal(fake.bytes, 2 * 2 * BIG);
}

static void
what_rails_cannot_goes_by_tcp(void **state)
{
	(void)state;
	register_local(0, BYTES);
	fake.outcomes[0] = 1;
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.moves, 1);
	expect_path("tcp: cross-memory attach is switched off; no RDMA: the "
		    "wire was bitten through");
	/* For some seconds they are let alone. */
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.moves, 1);
	assert_int_equal(fake.made, 1);
}

static void
where_there_is_no_rail_it_goes_by_tcp(void **state)
{
	(void)state;
	register_local(0, BYTES);
	fake.settles[0] = 1;
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.moves, 0);
	assert_int_equal(fake.settled, 1);
	expect_path("tcp: ");
}

static void
rails_that_were_lost_are_made_again(void **state)
{
	(void)state;
	register_local(0, BYTES);
	fake.settles[1] = -ECONNRESET;
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.made, 2);
	assert_int_equal(fake.bytes, 2 * 100 * 10000);
}

static void
wrong_keys_are_asked_for_once(void **state)
{
	(void)state;
	register_local(0, BYTES);
	fake.outcomes[0] = -EACCES;
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.bytes, 2 * 100 * 10000);
	assert_int_equal(fake.moves, 3);
}

static void
keys_that_stay_wrong_are_not_used(void **state)
{
	(void)state;
	register_local(0, BYTES);
	fake.outcomes[0] = fake.outcomes[1] = -EACCES;
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.bytes, 100 * 10000);
	assert_int_equal(fake.moves, 3);
}

/* The region has gone meanwhile, there. */
static void
what_is_not_registered_any_more_is_refused(void **state)
{
	struct kv_xfer_item item = { local, (uintptr_t)remote, 1000 };

	(void)state;
	register_local(0, BYTES);
	expect_path("rdma: ");
	assert_int_equal(kv_engine_unregister(far, remote), 0);
	fake.outcomes[0] = -EACCES;
	assert_int_equal(
		kv_engine_transfer(near, KV_ENGINE_WRITE, addr, &item, 1, 0),
		-KV_EINVALID);
	assert_int_equal(fake.moves, 1);
}

static void
memory_that_is_awaited_is_looked_at_again(void **state)
{
	(void)state;
	register_local(0, BYTES);
	fake.outcomes[0] = -EBUSY;
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.moves, 3);
	assert_int_equal(fake.made, 2);
}

static void
the_end_of_a_call_is_told(void **state)
{
	static const struct {
		int outcome, status;
	} ends[] = {
		{ -ETIMEDOUT, -KV_ETIMEOUT },
		{ -EPROTO, -KV_EPROTO },
		{ -ENOMEM, -KV_ENOMEM },
	};
	struct kv_xfer_item item = { local, (uintptr_t)remote, 1000 };

	(void)state;
	register_local(0, BYTES);
	for (unsigned i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		fake.settled = fake.moves = 0;
		fake.outcomes[0] = ends[i].outcome;
		assert_int_equal(kv_engine_transfer(near, KV_ENGINE_READ, addr,
						    &item, 1, 0),
				 ends[i].status);
	}
}

static void
a_lost_connection_is_made_again(void **state)
{
	(void)state;
	register_local(0, BYTES);
	fake.outcomes[0] = -ECONNRESET;
	move_pieces(100, 10000, 500);
	assert_int_equal(fake.bytes, 2 * 100 * 10000);
}

/* ---- options ---- */

static struct kv_engine *
open_with(const char *protocol, const char *device, char *err, size_t n)
{
	const struct kv_engine_opts opts = {
		.size = sizeof(opts),
		.listen = "127.0.0.1:0",
		.protocol = protocol,
		.device = device,
	};

	memset(&fake, 0, sizeof(fake));
	return kv_engine_open(&opts, err, n);
}

static void
a_device_is_needed_when_it_is_asked_for(void **state)
{
	static const char *const soft[] = { NULL, "auto", "tcp" };
	struct kv_engine *e;
	char err[256];

	(void)state;
	assert_null(open_with("rdma", "mlx5_9", err, sizeof(err)));
	assert_string_equal(err, "no device is called mlx5_9; look");
	for (unsigned i = 0; i < 3; i++) {
		e = open_with(soft[i], NULL, err, sizeof(err));
		assert_non_null(e);
		assert_string_equal(err, "");
		assert_int_equal(fake.opened, i == 2 ? 0 : 1);
		kv_engine_close(e);
	}
	assert_null(open_with("ucx", NULL, err, sizeof(err)));
	assert_string_equal(err, "protocol 'ucx': it is \"auto\", \"rdma\" or "
				 "\"tcp\"");
	assert_null(open_with("ucx", NULL, NULL, 0));
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(all_goes_by_the_same_rails),
		CASE(messages_go_by_rails_that_are_there),
		CASE(messages_that_rails_refuse_go_by_tcp),
		CASE(a_message_that_may_have_come_is_not_sent_again),
		CASE(memory_of_all_kinds_in_one_call),
		CASE(large_memory_need_not_be_registered),
		CASE(small_memory_goes_through_the_ring),
		CASE(small_pieces_go_through_the_ring),
		CASE(small_memory_goes_by_tcp_without_a_ring),
		CASE(what_is_packed_and_fails_goes_by_tcp),
		CASE(what_cannot_be_registered_goes_by_tcp),
		CASE(what_rails_cannot_goes_by_tcp),
		CASE(where_there_is_no_rail_it_goes_by_tcp),
		CASE(rails_that_were_lost_are_made_again),
		CASE(wrong_keys_are_asked_for_once),
		CASE(keys_that_stay_wrong_are_not_used),
		CASE(what_is_not_registered_any_more_is_refused),
		CASE(memory_that_is_awaited_is_looked_at_again),
		CASE(the_end_of_a_call_is_told),
		CASE(a_lost_connection_is_made_again),
		cmocka_unit_test(a_device_is_needed_when_it_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
