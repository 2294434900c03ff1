/* Meeting an engine that is of this host and does not keep to the protocol:
 * another path is taken, and no descriptor is left open. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "fakeengine.h"
#include "kvpool.h"
#include "netpair.h"
#include "test.h"
#include "xfer/contact.h"
#include "xfer/fence.h"
#include "xfer/regtable.h"

enum {
	SHARED = 8192
};

static const struct kv_id own = { .b = "dialler" };
static const struct kv_id token = { .b = "0123456789abcde" };

/* What the engine says; from good() on the tests spoil one thing each. */
static struct {
	struct fakeengine engine;
	uint64_t token_addr;
	struct kv_id token;
	uint32_t count;   /* of regions, one of which is told */
	int fence_status; /* of MEMORY for the fence */
	int fence_fd;     /* -1: none goes along */
	uint64_t fence_bytes;
	int shared_status;
	int shared_fd;
	uint64_t shared_bytes;
	atomic_int slow_for; /* a type that is not answered while it is set */
	bool hangs_up;       /* at a PING */
	enum kv_msg_type pong;
} says;

static atomic_bool closing;

static int
sealed_memory(off_t bytes, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void
tell_regions(struct fakeconn *c, uint64_t id)
{
	struct kv_region_rec rec = {
		.addr = kv_le64(0x10000),
		.len = kv_le64(SHARED),
		.handle = kv_le64(5),
		.flags = kv_le32(KV_REGION_SHARED),
	};
	struct kv_regions_r r = {
		.count = kv_le32(says.count),
		.token_addr = kv_le64(says.token_addr),
	};
	struct fakeengine_extra extra = { &rec, sizeof(rec), -1 };

	memcpy(r.token, &says.token, sizeof(r.token));
	fakeengine_answer_more(c, KV_MSG_REGIONS_R, id, &r, &extra);
}

static void
give_memory(struct fakeconn *c, uint64_t id, uint64_t handle)
{
	int status = handle ? says.shared_status : says.fence_status;
	struct kv_memory_r r = {
		.status = (uint8_t)status,
		.bytes = kv_le64(handle ? says.shared_bytes : says.fence_bytes),
	};
	struct fakeengine_extra extra = {
		.fd = handle ? says.shared_fd : says.fence_fd,
	};

	fakeengine_answer_more(c, KV_MSG_MEMORY_R, id, &r, &extra);
}

static bool
obey(struct fakeconn *c, const struct kv_msg *msg)
{
	const struct kv_memory *m = msg->body;
	struct kv_note_r noted = { .status = KV_EBUSY };
	struct kv_ping ping = { 0 };

	while (atomic_load(&says.slow_for) == (int)msg->type &&
	       !atomic_load(&c->engine->over))
		usleep(1000);
	switch (msg->type) {
	case KV_MSG_REGIONS:
		tell_regions(c, msg->id);
		return true;
	case KV_MSG_MEMORY:
		give_memory(c, msg->id, kv_get64(m->handle));
		return true;
	case KV_MSG_NOTE:
		fakeengine_answer(c, KV_MSG_NOTE_R, msg->id, &noted, 0);
		return true;
	default:
		fakeengine_answer(c, says.pong, msg->id, &ping, 0);
		return !says.hangs_up;
	}
}

static void
quiet(void *arg, enum kv_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

static int fds_before;

static int
good(void **state)
{
	static unsigned char n;

	(void)state;
	kv_log_set_sink(quiet, NULL);
	fds_before = netpair_count_fds();
	memset(&says, 0, sizeof(says));
	says.engine.boot.b[0] = ++n;
	says.engine.boot.b[1] = (uint8_t)getpid();
	says.engine.boot.b[2] = (uint8_t)(getpid() >> 8);
	says.engine.is_local = true;
	says.engine.obey = obey;
	says.token_addr = (uintptr_t)&token;
	says.token = token;
	says.count = 1;
	says.fence_fd = sealed_memory(KV_FENCE_BYTES, F_SEAL_SHRINK);
	says.fence_bytes = KV_FENCE_BYTES;
	says.shared_fd = sealed_memory(SHARED, F_SEAL_SHRINK);
	says.shared_bytes = SHARED;
	says.pong = KV_MSG_PING_R;
	fakeengine_start(&says.engine);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	fakeengine_end(&says.engine);
	close(says.shared_fd);
	close(says.fence_fd);
	assert_int_equal(netpair_count_fds(), fds_before);
	kv_log_set_sink(NULL, NULL);
	return 0;
}

static struct kv_wait
in_ms(unsigned ms)
{
	const struct kv_clock clock = { 0 };

	return (struct kv_wait){
		.deadline_ns = kv_clock_now(&clock) + ms * KV_NS_PER_MS,
		.closing = &closing,
	};
}

static int
meet(struct kv_contact **c)
{
	struct kv_contact_opts opts = {
		.addr = says.engine.addr,
		.own = &own,
	};
	struct kv_wait wait = in_ms(20000);

	return kv_contact_open(&opts, &wait, c);
}

/* It is met, but the paths of this host are not to be had. */
static void
expect_tcp(const char *why)
{
	struct kv_contact *c;

	assert_int_equal(meet(&c), 0);
	assert_int_equal(c->path, KV_SLICE_TCP);
	assert_null(kv_contact_fence(c));
	assert_null(c->table->entries[0].map);
	if (!strstr(c->why, why))
		fail_msg("because of \"%s\", not \"%s\"", c->why, why);
	kv_contact_unref(c);
}

static void
a_good_one_is_reached(void **state)
{
	struct kv_fence *fence =
		mmap(NULL, KV_FENCE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		     says.fence_fd, 0);
	struct kv_wait wait = in_ms(20000);
	struct kv_contact *c;

	(void)state;
	assert_int_equal(meet(&c), 0);
	assert_int_equal(c->path, KV_SLICE_ATTACH);
	assert_true(kv_contact_is_alive(c));
	assert_non_null(c->table->entries[0].map);
	assert_int_equal(kv_contact_ping(c, &wait), 0);
	assert_int_equal(
		kv_contact_note(c, &wait,
				&(struct kv_railnote_text){ "n", "t", 1 }),
		-EBUSY);
	assert_int_equal(fence->left, 0);
	kv_contact_unref(kv_contact_ref(c));
	kv_contact_unref(c);
	assert_int_equal(fence->left, 1);
	munmap(fence, KV_FENCE_BYTES);
}

/* What is mapped stays so, what is not can be reached all the same. */
static void
a_token_that_is_not_there_bars_attach_only(void **state)
{
	struct kv_contact *c;

	(void)state;
	says.token.b[3]++;
	assert_int_equal(meet(&c), 0);
	assert_int_equal(c->path, KV_SLICE_TCP);
	assert_non_null(strstr(c->why, "another process"));
	assert_non_null(c->table->entries[0].map);
	kv_contact_unref(c);
	says.token = token;
	says.token_addr = 4096;
	assert_int_equal(meet(&c), 0);
	assert_int_equal(c->path, KV_SLICE_TCP);
	assert_non_null(strstr(c->why, "Bad address"));
	kv_contact_unref(c);
}

static void
no_fence_no_shortcut(void **state)
{
	(void)state;
	says.fence_status = KV_EBUSY;
	expect_tcp("no fence");
	says.fence_status = 0;
	close(says.fence_fd);
	says.fence_fd = -1;
	expect_tcp("no fence");
	says.fence_fd = sealed_memory(KV_FENCE_BYTES, 0);
	expect_tcp("cannot be mapped"); /* it could shrink */
	close(says.fence_fd);
	says.fence_fd = sealed_memory(8, F_SEAL_SHRINK);
	expect_tcp("cannot be mapped"); /* it is shorter than said */
	says.fence_bytes = 8;
	expect_tcp("cannot be mapped");
	close(says.fence_fd);
	says.fence_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	says.fence_bytes = KV_FENCE_BYTES;
	expect_tcp("cannot be mapped");
}

static void
shared_memory_that_is_none_is_not_mapped(void **state)
{
	struct kv_contact *c;

	(void)state;
	for (int i = 0; i < 4; i++) {
		says.shared_status = i == 0 ? KV_EINVALID : 0;
		says.shared_bytes = i == 1 ? SHARED - 1 : SHARED;
		if (i == 2) {
			close(says.shared_fd);
			says.shared_fd = -1;
		} else if (i == 3) {
			says.shared_fd =
				sealed_memory(SHARED - 1, F_SEAL_SHRINK);
		}
		assert_int_equal(meet(&c), 0);
		assert_null(c->table->entries[0].map);
		assert_int_equal(c->path, KV_SLICE_ATTACH);
		kv_contact_unref(c);
	}
}

static void
a_table_that_lies_is_refused(void **state)
{
	struct kv_contact *c;

	(void)state;
	says.count = 2;
	assert_int_equal(meet(&c), -EPROTO);
	says.count = 0;
	assert_int_equal(meet(&c), -EPROTO);
}

static void
a_refusal_is_told(void **state)
{
	struct kv_contact *c;

	(void)state;
	says.engine.hello_status = KV_EVERSION;
	assert_int_equal(meet(&c), -EPROTONOSUPPORT);
	says.engine.hello_status = KV_EDENIED;
	assert_int_equal(meet(&c), -EACCES);
	says.engine.hello_status = 0;
	says.engine.is_mute = true;
	{
		struct kv_contact_opts opts = {
			.addr = says.engine.addr,
			.own = &own,
		};
		struct kv_wait wait = in_ms(100);

		assert_int_equal(kv_contact_open(&opts, &wait, &c), -ETIMEDOUT);
		wait = in_ms(20000);
		atomic_store(&closing, true);
		assert_int_equal(kv_contact_open(&opts, &wait, &c), -ESHUTDOWN);
		atomic_store(&closing, false);
	}
}

/* A late answer is dropped, the connection goes on. */
static void
a_question_may_time_out(void **state)
{
	struct kv_wait wait = in_ms(20000), brief;
	struct kv_contact *c;

	(void)state;
	assert_int_equal(meet(&c), 0);
	atomic_store(&says.slow_for, KV_MSG_PING);
	brief = in_ms(50);
	assert_int_equal(kv_contact_ping(c, &brief), -ETIMEDOUT);
	brief = in_ms(50);
	assert_int_equal(
		kv_contact_note(c, &brief,
				&(struct kv_railnote_text){ "n", "t", 1 }),
		-ETIMEDOUT);
	atomic_store(&says.slow_for, 0);
	assert_int_equal(kv_contact_ping(c, &wait), 0);
	says.pong = KV_MSG_NOTE_R;
	assert_int_equal(kv_contact_ping(c, &wait), -EPROTO);
	kv_contact_unref(c);
}

/* But a descriptor that comes late must not be taken for another one. */
static void
memory_that_comes_late_ends_the_connection(void **state)
{
	struct kv_wait wait = in_ms(20000), brief;
	struct kv_regtable *table;
	struct kv_contact *c;

	(void)state;
	assert_int_equal(meet(&c), 0);
	/* What an older table has is not asked for again. */
	atomic_store(&says.slow_for, KV_MSG_MEMORY);
	assert_int_equal(kv_contact_regions(c, c->table, &wait, &table), 0);
	assert_ptr_equal(table->entries[0].map, c->table->entries[0].map);
	kv_regtable_unref(table);
	brief = in_ms(100);
	assert_int_equal(kv_contact_regions(c, NULL, &brief, &table),
			 -ETIMEDOUT);
	atomic_store(&says.slow_for, 0);
	assert_int_equal(kv_contact_regions(c, NULL, &wait, &table), -ESTALE);
	kv_contact_unref(c);
}

static void
the_end_of_a_connection_is_noticed(void **state)
{
	struct kv_wait wait = in_ms(20000);
	struct kv_regtable *table;
	struct kv_contact *c;

	(void)state;
	assert_int_equal(meet(&c), 0);
	says.hangs_up = true;
	assert_int_equal(kv_contact_ping(c, &wait), 0);
	while (atomic_load(&says.engine.conns) > 0)
		usleep(1000);
	assert_int_equal(kv_contact_ping(c, &wait), -ESTALE);
	assert_int_equal(
		kv_contact_note(c, &wait,
				&(struct kv_railnote_text){ "n", "", 0 }),
		-ESTALE);
	assert_int_equal(kv_contact_regions(c, NULL, &wait, &table), -ESTALE);
	kv_contact_unref(c);
}

static void
another_host_is_reached_by_tcp(void **state)
{
	(void)state;
	fakeengine_end(&says.engine);
	says.engine.is_local = false;
	fakeengine_start(&says.engine);
	expect_tcp("another host");
}

#define MET(fn) cmocka_unit_test_setup_teardown(fn, good, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		MET(a_good_one_is_reached),
		MET(a_token_that_is_not_there_bars_attach_only),
		MET(no_fence_no_shortcut),
		MET(shared_memory_that_is_none_is_not_mapped),
		MET(a_table_that_lies_is_refused),
		MET(a_refusal_is_told),
		MET(a_question_may_time_out),
		MET(memory_that_comes_late_ends_the_connection),
		MET(the_end_of_a_connection_is_noticed),
		MET(another_host_is_reached_by_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
