#include "event/mbox.h"

#include <stdlib.h>

#include "base/attr.h"

#include "test.h"

enum {
	SENDERS = 4,
	EACH = 5000
};

struct letter {
	struct kv_mail mail;
	struct inbox *inbox;
	int sender;
	int number;
};

struct inbox {
	struct kv_mbox mbox;
	struct kv_loop *loop;
	int total;
	int next[SENDERS]; /* number due from each */
	bool drain_inside;
	struct letter *second; /* posted by the first letter's callback */
};

static void
on_letter(struct kv_mail *mail)
{
	struct letter *l = KV_CONTAINER_OF(mail, struct letter, mail);
	struct inbox *in = l->inbox;

	assert_int_equal(l->number, in->next[l->sender]);
	in->next[l->sender]++;
	in->total++;
	if (in->second) {
		struct letter *second = in->second;

		in->second = NULL;
		kv_mbox_post(&in->mbox, &second->mail);
	}
	if (in->drain_inside)
		kv_mbox_drain(&in->mbox);
	free(l);
}

static struct letter *
letter_new(struct inbox *in, int sender, int number)
{
	struct letter *l = calloc(1, sizeof(*l));

	if (!l)
		abort();
	l->mail.fn = on_letter;
	l->inbox = in;
	l->sender = sender;
	l->number = number;
	return l;
}

static void
inbox_open(struct inbox *in, struct kv_clock *clock)
{
	*in = (struct inbox){ .loop = kv_loop_new(clock) };
	assert_non_null(in->loop);
	assert_int_equal(kv_mbox_init(&in->mbox, in->loop), 0);
}

static void
inbox_close(struct inbox *in)
{
	kv_mbox_fini(&in->mbox);
	kv_loop_free(in->loop);
}

struct sender {
	pthread_t thread;
	struct inbox *inbox;
	int number;
};

static void *
send_all(void *arg)
{
	struct sender *s = arg;

	for (int i = 0; i < EACH; i++)
		kv_mbox_post(&s->inbox->mbox,
			     &letter_new(s->inbox, s->number, i)->mail);
	return NULL;
}

static void
mail_of_many_threads_arrives_in_the_order_of_each(void **state)
{
	struct sender senders[SENDERS];
	struct inbox in;
	int i;

	(void)state;
	inbox_open(&in, NULL);
	in.drain_inside = true;
	for (i = 0; i < SENDERS; i++) {
		senders[i].inbox = &in;
		senders[i].number = i;
		assert_int_equal(pthread_create(&senders[i].thread, NULL,
						send_all, &senders[i]),
				 0);
	}
	/* No wake-up is lost: this ends without any time limit. */
	while (in.total < SENDERS * EACH)
		assert_true(kv_loop_turn(in.loop, UINT64_MAX) >= 0);
	for (i = 0; i < SENDERS; i++)
		pthread_join(senders[i].thread, NULL);
	inbox_close(&in);
}

static void
mail_posted_by_mail_waits_for_the_next_turn(void **state)
{
	struct inbox in;

	(void)state;
	inbox_open(&in, NULL);
	in.second = letter_new(&in, 0, 1);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 0)->mail);
	assert_int_equal(in.total, 0);
	assert_int_equal(kv_loop_turn(in.loop, UINT64_MAX), 1);
	assert_int_equal(in.total, 1);
	assert_int_equal(kv_loop_turn(in.loop, UINT64_MAX), 1);
	assert_int_equal(in.total, 2);
	assert_int_equal(kv_loop_turn(in.loop, 0), 0);
	inbox_close(&in);
}

static void
drain_delivers_at_once(void **state)
{
	struct inbox in;

	(void)state;
	inbox_open(&in, NULL);
	kv_mbox_drain(&in.mbox);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 0)->mail);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 1)->mail);
	kv_mbox_drain(&in.mbox);
	assert_int_equal(in.total, 2);
	/* Its wake-up is still there and does no harm. */
	assert_int_equal(kv_loop_turn(in.loop, 0), 1);
	assert_int_equal(kv_loop_turn(in.loop, 0), 0);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 2)->mail);
	assert_int_equal(kv_loop_turn(in.loop, UINT64_MAX), 1);
	assert_int_equal(in.total, 3);
	inbox_close(&in);
}

static void
a_drain_inside_a_callback_keeps_the_order(void **state)
{
	struct inbox in;

	(void)state;
	inbox_open(&in, NULL);
	in.drain_inside = true;
	in.second = letter_new(&in, 0, 3);
	for (int i = 0; i < 3; i++)
		kv_mbox_post(&in.mbox, &letter_new(&in, 0, i)->mail);
	kv_mbox_drain(&in.mbox);
	assert_int_equal(in.total, 4);
	inbox_close(&in);
}

static void
fini_delivers_what_is_left(void **state)
{
	struct inbox in;

	(void)state;
	inbox_open(&in, NULL);
	in.second = letter_new(&in, 0, 2);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 0)->mail);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 1)->mail);
	inbox_close(&in);
	assert_int_equal(in.total, 3);
}

static void
on_a_virtual_loop_it_is_a_deferred_call(void **state)
{
	struct kv_clock clock = { .is_virtual = true };
	struct inbox in;

	(void)state;
	inbox_open(&in, &clock);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 0)->mail);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 1)->mail);
	assert_int_equal(in.total, 0);
	assert_int_equal(kv_loop_next(in.loop), 0);
	assert_int_equal(kv_loop_turn(in.loop, 0), 1);
	assert_int_equal(in.total, 2);
	kv_mbox_post(&in.mbox, &letter_new(&in, 0, 2)->mail);
	inbox_close(&in);
	assert_int_equal(in.total, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			mail_of_many_threads_arrives_in_the_order_of_each),
		cmocka_unit_test(mail_posted_by_mail_waits_for_the_next_turn),
		cmocka_unit_test(drain_delivers_at_once),
		cmocka_unit_test(a_drain_inside_a_callback_keeps_the_order),
		cmocka_unit_test(fini_delivers_what_is_left),
		cmocka_unit_test(on_a_virtual_loop_it_is_a_deferred_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
