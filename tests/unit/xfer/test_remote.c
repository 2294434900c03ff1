/* Peers by address: how many there are, and who waits for whom. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "fakeengine.h"
#include "test.h"
#include "xfer/remote.h"

static const struct kv_id own = { .b = "own" };
static struct kv_remote_set set;
static atomic_bool closing;

static struct kv_wait
in_ms(unsigned ms)
{
	const struct kv_clock clock = { 0 };

	return (struct kv_wait){
		.deadline_ns = kv_clock_now(&clock) + ms * KV_NS_PER_MS,
		.closing = &closing,
	};
}

static struct kv_remote *
use(unsigned i)
{
	char addr[32];

	snprintf(addr, sizeof(addr), "10.0.%u.%u:1", i / 256, i % 256);
	return kv_remote_use(&set, addr);
}

static int
set_up(void **state)
{
	const struct kv_contact_opts opts = { .own = &own };

	(void)state;
	kv_remote_init(&set, &opts);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	kv_remote_fini(&set);
	return 0;
}

static void
an_address_is_one_peer(void **state)
{
	struct kv_remote *a = kv_remote_use(&set, "127.0.0.1:5");
	struct kv_remote *b = kv_remote_use(&set, "127.0.0.1:6");

	(void)state;
	assert_non_null(a);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(kv_remote_use(&set, "127.0.0.1:5"), a);
	kv_remote_unuse(a);
	kv_remote_unuse(a);
	kv_remote_unuse(b);
}

static void
what_is_no_address_is_refused(void **state)
{
	static const char *const bad[] = { NULL,     "",        "host",
					   "host:0", "unix:/x", "host:99999",
					   "a:b:c" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_null(kv_remote_use(&set, bad[i]));
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(set.n, 0);
}

/* The one that was used longest ago makes room, if nobody uses it. */
static void
there_is_a_bound(void **state)
{
	static struct kv_remote *all[KV_ENGINE_PEERS_MAX];

	(void)state;
	for (unsigned i = 0; i < KV_ENGINE_PEERS_MAX; i++)
		assert_non_null(all[i] = use(i));
	assert_null(use(KV_ENGINE_PEERS_MAX));
	assert_int_equal(errno, EBUSY);
	kv_remote_unuse(all[3]);
	kv_remote_unuse(all[7]);
	assert_ptr_equal(use(3), all[3]);
	kv_remote_unuse(all[3]);
	all[7] = use(KV_ENGINE_PEERS_MAX);
	assert_non_null(all[7]);
	assert_int_equal(set.n, KV_ENGINE_PEERS_MAX);
	assert_ptr_equal(use(3), all[3]);
	for (unsigned i = 0; i < KV_ENGINE_PEERS_MAX; i++)
		kv_remote_unuse(all[i]);
}

static bool
obey(struct fakeconn *c, const struct kv_msg *msg)
{
	(void)c;
	(void)msg;
	return false;
}

static void *
connect_long(void *arg)
{
	struct kv_wait wait = in_ms(20000);
	struct kv_contact *c;

	assert_int_equal(kv_remote_contact(arg, &wait, &c), -ESHUTDOWN);
	return NULL;
}

/* One thread connects to a peer that says nothing; the others wait for it, but
 * only as long as they may. */
static void
who_waits_has_a_deadline_of_its_own(void **state)
{
	const struct kv_clock clock = { 0 };
	struct fakeengine mute = { .is_mute = true, .obey = obey };
	struct kv_wait wait;
	struct kv_contact *c;
	struct kv_remote *r;
	pthread_t thread;
	uint64_t start;

	(void)state;
	fakeengine_start(&mute);
	r = kv_remote_use(&set, mute.addr);
	assert_int_equal(pthread_create(&thread, NULL, connect_long, r), 0);
	while (atomic_load(&mute.conns) == 0)
		usleep(1000);
	start = kv_clock_now(&clock);
	wait = in_ms(100);
	assert_int_equal(kv_remote_contact(r, &wait, &c), -ETIMEDOUT);
	assert_true(kv_clock_now(&clock) - start <
		    2 * KV_TEST_SLOWER * KV_NS_PER_S);
	assert_int_equal(mute.conns, 1);
	atomic_store(&closing, true);
	pthread_join(thread, NULL);
	wait = in_ms(20000);
	assert_int_equal(kv_remote_contact(r, &wait, &c), -ESHUTDOWN);
	atomic_store(&closing, false);
	kv_remote_unuse(r);
	fakeengine_end(&mute);
}

#define WITH_SET(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SET(an_address_is_one_peer),
		WITH_SET(what_is_no_address_is_refused),
		WITH_SET(there_is_a_bound),
		WITH_SET(who_waits_has_a_deadline_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
