#include "cmd/kvdiag_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/num.h"
#include "cli/tool.h"
#include "cmd/kvdiag_screen.h"

/* Who is slower holds up the screen. */
#define ANSWER_MS 500

static uint64_t
now_ns(void)
{
	return kv_clock_now(&(struct kv_clock){ 0 });
}

/* 0 when it was told to end, or -errno. */
static int
show(struct kvdiag_watch *w, struct kvdiag_screen *s)
{
	enum kvdiag_screen_event event;
	uint64_t next = now_ns();
	char *text;
	int rc;

	for (;;) {
		text = kvdiag_follow_look(w) == 0 ? kvdiag_picture(w) : NULL;
		if (!text)
			return -ENOMEM;
		next = kv_max_u64(next + w->round.d->interval_ns, now_ns());
		do {
			rc = kvdiag_screen_paint(s, text);
			event = rc < 0 ? KVDIAG_SCREEN_END
				       : kvdiag_screen_wait(s, next);
		} while (event == KVDIAG_SCREEN_SIZE && s->is_terminal);
		free(text);
		if (event == KVDIAG_SCREEN_END)
			return rc;
	}
}

static int
watch(struct kvdiag_watch *w)
{
	const struct kv_doctor_pool *p = &w->round.pool;
	struct kvdiag_screen s;
	bool is_reached = p->own;
	int rc;

	for (size_t i = 0; i < p->n_masters; i++)
		is_reached |= p->masters[i].d.status == 0;
	if (!is_reached)
		return kvdiag_fail(w->round.d, -KV_EUNREACHABLE);
	rc = kvdiag_screen_open(&s);
	if (rc == 0) {
		w->has_keys = s.has_keys;
		rc = show(w, &s);
		kvdiag_screen_close(&s);
	}
	/* What stdout did not take is told by main. */
	return rc == -ENOMEM ? kv_tool_say(EX_OSERR, "out of memory") : 0;
}

int
kvdiag_watch(struct kvdiag *d)
{
	struct kvdiag_watch *w = calloc(1, sizeof(*w));
	int code;

	if (!d->interval_ns)
		d->interval_ns = KV_NS_PER_S;
	if (!d->common.timeout_ms)
		d->common.timeout_ms = ANSWER_MS;
	if (!w)
		return kv_tool_say(EX_OSERR, "out of memory");
	if (kvdiag_round_start(&w->round, d) < 0)
		code = kv_tool_say(EX_OSERR, "out of memory");
	else
		code = watch(w);
	kvdiag_follow_end(w);
	kvdiag_round_end(&w->round);
	free(w);
	return code;
}
