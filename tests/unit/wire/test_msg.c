#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/attr.h"
#include "test.h"

static const struct kind {
	unsigned type;
	const char *name;
	size_t body, tail_min, tail_max;
} kinds[] = {
#define KV_MSG(number, NAME, body, tmin, tmax, text) \
	{ number, #NAME, sizeof(struct body), tmin, tmax },
#include "wire/proto.def"
#undef KV_MSG
};

enum {
	SAMPLE_ID = 0x1234567
};

static uint8_t frame[KV_FRAME_BYTES_MAX];
static struct kv_header *const head = (struct kv_header *)frame;

/* Makes `frame` one of that type with a content; gives its length. */
static size_t
make(unsigned type, size_t tail)
{
	size_t body_len = kv_msg_body_bytes(type) + tail;

	for (size_t i = 0; i < body_len; i++)
		frame[KV_HEADER_BYTES + i] = (uint8_t)(i * 7 + type);
	kv_msg_seal(frame, (enum kv_msg_type)type, 0, SAMPLE_ID, body_len, 0);
	return KV_HEADER_BYTES + body_len;
}

/* Sums of a frame whose fields a test has changed, from the text in proto.h;
 * the bytes behind the frame are part of the body if `len` says so. */
static void
sign(void)
{
	uint64_t seed = kv_get64(head->id) ^ (uint64_t)kv_get16(head->type)
						     << 48;
	uint64_t sum = XXH3_64bits_withSeed(frame + KV_HEADER_BYTES,
					    kv_get32(head->len), seed);

	head->body_sum = kv_le32((uint32_t)sum);
	head->head_sum = kv_le32((uint32_t)XXH3_64bits(frame, 28));
}

/* Parses a copy that ends where the bytes end, for the sanitizer to see. */
static long
parse(size_t len)
{
	uint8_t *copy = malloc(len);
	struct kv_msg msg;
	long n;

	assert_non_null(copy);
	memcpy(copy, frame, len);
	n = kv_msg_parse(copy, len, &msg, NULL);
	free(copy);
	return n;
}

static void
check_round_trip(const struct kind *k, size_t tail)
{
	size_t len = make(k->type, tail);
	size_t body_len = len - KV_HEADER_BYTES;
	struct kv_msg msg;

	assert_int_equal(kv_msg_parse(frame, sizeof(frame), &msg, NULL), len);
	assert_int_equal(msg.type, k->type);
	assert_int_equal(msg.flags, 0);
	assert_int_equal(msg.id, SAMPLE_ID);
	assert_int_equal(msg.payload, 0);
	assert_ptr_equal(msg.body, frame + KV_HEADER_BYTES);
	assert_ptr_equal(msg.tail, frame + KV_HEADER_BYTES + k->body);
	assert_int_equal(msg.tail_len, tail);
	for (size_t i = 0; i < body_len; i++)
		assert_int_equal(((const uint8_t *)msg.body)[i],
				 (uint8_t)(i * 7 + k->type));
}

static void
every_type_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(kinds); i++) {
		check_round_trip(&kinds[i], kinds[i].tail_min);
		check_round_trip(&kinds[i], kinds[i].tail_max);
	}
}

static void
facts_of_types(void **state)
{
	size_t known = 0;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(kinds); i++) {
		const struct kind *k = &kinds[i];

		assert_string_equal(kv_msg_name(k->type), k->name);
		assert_int_equal(kv_msg_body_bytes(k->type), k->body);
		assert_int_equal(kv_msg_tail_max(k->type), k->tail_max);
		assert_int_equal(kv_msg_has_payload(k->type),
				 k->type == KV_MSG_DATA ||
					 k->type == KV_MSG_XFER ||
					 k->type == KV_MSG_XFER_R);
	}
	for (unsigned t = 0; t < 70000; t++)
		known += kv_msg_body_bytes(t) != 0;
	assert_int_equal(known, KV_ARRAY_LEN(kinds));
	assert_string_equal(kv_msg_name(0), "?");
	assert_string_equal(kv_msg_name(255), "?");
	assert_string_equal(kv_msg_name(256 + KV_MSG_PING), "?");
	assert_int_equal(kv_msg_tail_max(0), 0);
	assert_false(kv_msg_has_payload(0));
}

static void
layout_and_sums_are_as_documented(void **state)
{
	static const uint8_t start[28] = {
		'K', 'V', 'P', '1', 1, 1, 144, 0, 22, 0, 0, 0,
		0,   0,   0,   0,   8, 7, 6,   5, 4,  3, 2, 1,
	};
	size_t body_len = sizeof(struct kv_publish_r) + 14;
	uint8_t as_sealed[KV_HEADER_BYTES];

	(void)state;
	memset(frame, 'x', sizeof(frame));
	kv_msg_seal(frame, KV_MSG_PUBLISH_R, KV_FLAG_MORE, 0x0102030405060708,
		    body_len, 0);
	assert_memory_equal(frame, start, 24);
	memcpy(as_sealed, frame, sizeof(as_sealed));
	sign();
	assert_memory_equal(frame, as_sealed, sizeof(as_sealed));
}

static void
truncation_asks_for_more(void **state)
{
	size_t len = make(KV_MSG_PUT, 71), need;
	struct kv_msg msg;

	(void)state;
	for (size_t n = 0; n < len; n++) {
		uint8_t *copy = malloc(n ? n : 1);

		assert_non_null(copy);
		memcpy(copy, frame, n);
		assert_int_equal(kv_msg_parse(copy, n, &msg, &need), 0);
		assert_int_equal(kv_msg_parse(copy, n, &msg, NULL), 0);
		assert_int_equal(need,
				 n < KV_HEADER_BYTES ? KV_HEADER_BYTES : len);
		free(copy);
	}
	assert_int_equal(parse(len), len);
}

static void
a_wrong_beginning_is_refused_at_once(void **state)
{
	(void)state;
	make(KV_MSG_PING, 0);
	for (size_t n = 1; n <= sizeof(struct kv_le32); n++) {
		frame[n - 1] ^= 1;
		assert_int_equal(parse(n), -EPROTO);
		assert_int_equal(parse(KV_HEADER_BYTES - 1), -EPROTO);
		frame[n - 1] ^= 1;
	}
	assert_int_equal(parse(0), 0);
}

static void
any_flipped_bit_is_refused(void **state)
{
	size_t len = make(KV_MSG_GET, 60);

	(void)state;
	for (size_t bit = 0; bit < len * 8; bit++) {
		long want = bit / 8 == offsetof(struct kv_header, version)
				    ? -EPROTONOSUPPORT
				    : -EPROTO;

		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(parse(len), want);
		/* A length is not waited for before it is known to be right. */
		if (bit < (size_t)KV_HEADER_BYTES * 8)
			assert_int_equal(parse(KV_HEADER_BYTES), want);
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(parse(len), len);
}

static void
header_of_another_body_is_refused(void **state)
{
	uint8_t other[KV_HEADER_BYTES];
	size_t len = make(KV_MSG_GET, 60);

	(void)state;
	memcpy(other, frame, sizeof(other));
	frame[KV_HEADER_BYTES + 9]++;
	kv_msg_seal(frame, KV_MSG_GET, 0, SAMPLE_ID, len - KV_HEADER_BYTES, 0);
	assert_int_equal(parse(len), len);
	memcpy(frame, other, sizeof(other));
	assert_int_equal(parse(len), -EPROTO);
}

/* The same bytes as the body of another id, or of another type that allows
 * them, have another sum: a body sum cannot be moved to a new header. */
static void
body_sum_belongs_to_its_header(void **state)
{
	struct kv_le32 sum;

	(void)state;
	make(KV_MSG_CHECK, 60);
	sum = head->body_sum;
	head->id = kv_le64(SAMPLE_ID + 1);
	sign();
	assert_int_not_equal(kv_get32(head->body_sum), kv_get32(sum));
	head->id = kv_le64(SAMPLE_ID);
	head->type = kv_le16(KV_MSG_WANT);
	sign();
	assert_int_not_equal(kv_get32(head->body_sum), kv_get32(sum));
}

static void
other_version_is_not_supported(void **state)
{
	size_t len = make(KV_MSG_PING, 0);

	(void)state;
	head->version = KV_WIRE_VERSION + 1;
	assert_int_equal(parse(len), -EPROTONOSUPPORT);
	sign();
	assert_int_equal(parse(len), -EPROTONOSUPPORT);
}

static void
unknown_type_is_refused(void **state)
{
	size_t len = make(KV_MSG_PING, 0);

	(void)state;
	for (unsigned t = 0; t <= UINT16_MAX; t++) {
		size_t body = kv_msg_body_bytes(t);

		head->type = kv_le16((uint16_t)t);
		sign();
		if (body == 0)
			assert_int_equal(parse(len), -EPROTO);
	}
}

static void
unknown_flag_is_refused(void **state)
{
	size_t len = make(KV_MSG_PING_R, 0);

	(void)state;
	for (unsigned flags = 0; flags < 256; flags++) {
		head->flags = (uint8_t)flags;
		sign();
		if (flags == 0 || flags == KV_FLAG_MORE)
			assert_int_equal(parse(len), len);
		else
			assert_int_equal(parse(len), -EPROTO);
	}
}

static void
more_on_a_request_is_refused(void **state)
{
	size_t len = make(KV_MSG_PING, 0);

	(void)state;
	head->flags = KV_FLAG_MORE;
	sign();
	assert_int_equal(parse(len), -EPROTO);
}

static void
length_out_of_bounds_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(kinds); i++) {
		const struct kind *k = &kinds[i];
		size_t min = k->body + k->tail_min, max = k->body + k->tail_max;

		make(k->type, k->tail_min);
		head->len = kv_le32((uint32_t)min - 1);
		sign();
		assert_int_equal(parse(KV_HEADER_BYTES), -EPROTO);
		assert_int_equal(parse(KV_HEADER_BYTES + max), -EPROTO);
		head->len = kv_le32((uint32_t)max + 1);
		sign();
		assert_int_equal(parse(KV_HEADER_BYTES), -EPROTO);
		head->len = kv_le32(UINT32_MAX);
		head->head_sum = kv_le32((uint32_t)XXH3_64bits(frame, 28));
		assert_int_equal(parse(KV_HEADER_BYTES), -EPROTO);
	}
}

static void
payload_only_where_allowed(void **state)
{
	struct kv_msg msg;

	(void)state;
	for (size_t i = 0; i < KV_ARRAY_LEN(kinds); i++) {
		bool allowed = kv_msg_has_payload(kinds[i].type);
		size_t len = make(kinds[i].type, kinds[i].tail_min);

		head->payload = kv_le32(1);
		sign();
		assert_int_equal(parse(len), allowed ? (long)len : -EPROTO);
		head->payload = kv_le32(KV_PAYLOAD_MAX);
		sign();
		assert_int_equal(parse(len), allowed ? (long)len : -EPROTO);
		if (allowed) {
			kv_msg_parse(frame, len, &msg, NULL);
			assert_int_equal(msg.payload, KV_PAYLOAD_MAX);
		}
		head->payload = kv_le32(KV_PAYLOAD_MAX + 1);
		sign();
		assert_int_equal(parse(len), -EPROTO);
	}
}

static void
frames_follow_each_other(void **state)
{
	size_t first = make(KV_MSG_STATS_R, 10);
	size_t n = kv_msg_body_bytes(KV_MSG_PING);
	struct kv_msg msg;

	(void)state;
	memset(frame + first + KV_HEADER_BYTES, 0, n);
	kv_msg_seal(frame + first, KV_MSG_PING, 0, 2, n, 0);
	assert_int_equal(kv_msg_parse(frame, sizeof(frame), &msg, NULL), first);
	assert_int_equal(msg.type, KV_MSG_STATS_R);
	assert_int_equal(
		kv_msg_parse(frame + first, sizeof(frame) - first, &msg, NULL),
		KV_HEADER_BYTES + n);
	assert_int_equal(msg.type, KV_MSG_PING);
}

static void
cut_takes_pieces_in_order(void **state)
{
	const struct kv_msg msg = { .tail = frame, .tail_len = 20 };
	struct kv_cut c;

	(void)state;
	kv_cut_init(&c, &msg);
	assert_false(kv_cut_done(&c));
	assert_ptr_equal(kv_cut_take(&c, 4), frame);
	assert_non_null(kv_cut_take(&c, 0));
	assert_ptr_equal(kv_cut_array(&c, 2, 8), frame + 4);
	assert_true(kv_cut_done(&c));
	assert_non_null(kv_cut_array(&c, 0, 8));
	assert_true(kv_cut_done(&c));
}

static void
cut_stays_bad(void **state)
{
	const struct kv_msg msg = { .tail = frame, .tail_len = 20 };
	struct kv_cut c;

	(void)state;
	kv_cut_init(&c, &msg);
	assert_null(kv_cut_take(&c, 21));
	assert_null(kv_cut_take(&c, 1));
	assert_null(kv_cut_take(&c, 20));
	assert_false(kv_cut_done(&c));

	kv_cut_init(&c, &msg);
	assert_null(kv_cut_array(&c, SIZE_MAX / 8 + 2, 8));
	assert_null(kv_cut_array(&c, 1, 1));
	assert_false(kv_cut_done(&c));

	kv_cut_init(&c, &msg);
	assert_non_null(kv_cut_take(&c, 19));
	assert_false(kv_cut_done(&c));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_round_trip),
		cmocka_unit_test(facts_of_types),
		cmocka_unit_test(layout_and_sums_are_as_documented),
		cmocka_unit_test(truncation_asks_for_more),
		cmocka_unit_test(a_wrong_beginning_is_refused_at_once),
		cmocka_unit_test(any_flipped_bit_is_refused),
		cmocka_unit_test(header_of_another_body_is_refused),
		cmocka_unit_test(body_sum_belongs_to_its_header),
		cmocka_unit_test(other_version_is_not_supported),
		cmocka_unit_test(unknown_type_is_refused),
		cmocka_unit_test(unknown_flag_is_refused),
		cmocka_unit_test(more_on_a_request_is_refused),
		cmocka_unit_test(length_out_of_bounds_is_refused),
		cmocka_unit_test(payload_only_where_allowed),
		cmocka_unit_test(frames_follow_each_other),
		cmocka_unit_test(cut_takes_pieces_in_order),
		cmocka_unit_test(cut_stays_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
