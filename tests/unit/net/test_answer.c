#include "net/answer.h"

#include <string.h>

#include "base/status.h"
#include "simpair.h"
#include "wirepeer.h"

#include "test.h"

struct scene {
	struct simpair p;
	struct wirepeer server, asker;
};

static int
scene_open(void **state)
{
	static const struct simnet_opts net = { .seed = 1 };
	static struct scene sc;

	simpair_open(&sc.p, &net, false);
	wirepeer_open(&sc.asker, sc.p.loop, sc.p.stream[0]);
	wirepeer_open(&sc.server, sc.p.loop, sc.p.stream[1]);
	*state = &sc;
	return 0;
}

static int
scene_close(void **state)
{
	struct scene *sc = *state;

	wirepeer_close(&sc->asker);
	wirepeer_close(&sc->server);
	simpair_close(&sc->p);
	return 0;
}

/* The answer that came. */
static struct wireframe *
take(struct scene *sc, enum kv_msg_type type)
{
	struct wireframe *f;

	simpair_run(&sc->p, KV_NS_PER_S);
	f = wirepeer_take(&sc->asker, type);
	assert_non_null(f);
	return f;
}

static void
a_ping_comes_back_as_it_was(void **state)
{
	struct kv_ping body = { .stamp = kv_le64(0x1122334455667788) };
	struct kv_msg ping = { .type = KV_MSG_PING, .id = 9, .body = &body };
	struct scene *sc = *state;
	struct wireframe *f;

	kv_answer_ping(sc->server.c, &ping);
	f = take(sc, KV_MSG_PING_R);
	assert_int_equal(f->id, 9);
	assert_memory_equal(f->body, &body, sizeof(body));
	wireframe_free(f);
}

static void
error_is(struct scene *sc, const char *text, size_t len)
{
	const struct kv_error_r *r;
	struct wireframe *f;

	kv_answer_error(sc->server.c, 7, KV_EBUSY, text);
	f = take(sc, KV_MSG_ERROR_R);
	r = (const void *)f->body;
	assert_int_equal(f->id, 7);
	assert_int_equal(r->status, KV_EBUSY);
	assert_int_equal(kv_get32(r->text_len), len);
	assert_int_equal(f->tail_len, len);
	if (len)
		assert_memory_equal(f->tail, text, len);
	wireframe_free(f);
}

static void
an_error_says_why(void **state)
{
	char text[600];

	error_is(*state, NULL, 0);
	error_is(*state, "", 0);
	error_is(*state, "too much", 8);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	error_is(*state, text, 512);
}

static void
nothing_is_said_on_a_broken_connection(void **state)
{
	struct kv_ping body = { 0 };
	struct kv_msg ping = { .type = KV_MSG_PING, .body = &body };
	struct scene *sc = *state;

	wirepeer_close(&sc->asker);
	simpair_run(&sc->p, KV_NS_PER_S);
	assert_true(sc->server.is_lost);
	kv_answer_ping(sc->server.c, &ping);
	kv_answer_error(sc->server.c, 7, KV_EBUSY, "why");
}

int
main(void)
{
#define SCENE(t) cmocka_unit_test_setup_teardown(t, scene_open, scene_close)
	const struct CMUnitTest tests[] = {
		SCENE(a_ping_comes_back_as_it_was),
		SCENE(an_error_says_why),
		SCENE(nothing_is_said_on_a_broken_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
