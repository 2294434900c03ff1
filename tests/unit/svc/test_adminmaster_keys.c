/* What a master says over HTTP of many keys at once, and of all. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "wire/msg.h"

#include "adminrig.h"
#include "test.h"

static void
append(struct kv_bytes *to, const void *p, size_t n)
{
	assert_int_equal(kv_bytes_append(to, p, n), 0);
}

struct page {
	struct kv_bytes ents, keys;
	uint32_t count;
};

static void
page_add(struct page *p, const void *key, size_t len)
{
	struct kv_keys_ent ent = { .size = kv_le64(1),
				   .key_len = kv_le16((uint16_t)len) };

	append(&p->ents, &ent, sizeof(ent));
	append(&p->keys, key, len);
	p->count++;
}

/* A page of which `cursor` is where the next one begins. */
static void
answer_page(struct rignode *n, struct page *p, uint64_t cursor)
{
	struct wireframe *f = adminrig_asked(n, KV_MSG_KEYS);
	struct kv_keys_r r = { .cursor = kv_le64(cursor),
			       .count = kv_le32(p->count) };

	if (p->count)
		append(&p->ents, p->keys.data, p->keys.len);
	adminrig_answer(n, f, &r, &p->ents);
	kv_bytes_fini(&p->ents);
	kv_bytes_fini(&p->keys);
	*p = (struct page){ 0 };
	rig_ms(2);
}

/* ---- many keys ---- */

static void
a_batch(void **state)
{
	(void)state;
	adminrig_publish(&web.a, "", "k1", 2);
	adminrig_publish(&web.a, "", "k,2", 3);
	adminrig_publish(&web.b, "", "\xff", 1);
	adminrig_say(&web.c, "GET",
		     "/batch_query_keys?keys=k1,none,k1&key=k%2c2&key=%ff");
	adminrig_tell(&web.a, "", "k,2", 3, 2);
	adminrig_tell(&web.a, "", "k1", 2, 1);
	adminrig_tell(&web.b, "", "\xff", 1, 3);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("{\"success\":true,\"data\":{"
		    "\"k,2\":{\"ok\":true,\"values\":[{\"size_\":2,"
		    "\"buffer_address_\":4096,\"protocol_\":\"tcp\","
		    "\"transport_endpoint_\":\"10.0.0.2:50052\"}]},"
		    "\"k1\":{\"ok\":true,\"values\":[{\"size_\":1,"
		    "\"buffer_address_\":4096,\"protocol_\":\"tcp\","
		    "\"transport_endpoint_\":\"10.0.0.2:50052\"}]},"
		    "\"none\":{\"ok\":false,\"error\":\"no such key\"},"
		    "\"%FF\":{\"key\":{\"b64\":\"/w==\"},\"ok\":true,"
		    "\"values\":[{\"size_\":3,"
		    "\"buffer_address_\":4096,\"protocol_\":\"tcp\","
		    "\"transport_endpoint_\":\"10.0.0.3:50052\"}]}}}");
}

static void
a_batch_joined_and_escaped(void **state)
{
	(void)state;
	adminrig_say(&web.c, "GET", "/batch_query_keys?keys=a%2Cb,,c%2C");
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("{\"success\":true,\"data\":{"
		    "\"a\":{\"ok\":false,\"error\":\"no such key\"},"
		    "\"b\":{\"ok\":false,\"error\":\"no such key\"},"
		    "\"c\":{\"ok\":false,\"error\":\"no such key\"}}}");
}

static void
a_batch_with_bad_keys(void **state)
{
	char target[2000], name[1026];

	(void)state;
	assert_int_equal(httpclient_get(&web.c, "/batch_query_keys"), 400);
	adminrig_has("No keys provided. Use ?keys=key1,key2,...");
	assert_int_equal(httpclient_get(&web.c, "/batch_query_keys?keys=,"),
			 400);
	memset(name, 'k', 1025);
	name[1025] = '\0';
	snprintf(target, sizeof(target), "/batch_query_keys?keys=a,%s", name);
	adminrig_say(&web.c, "GET", target);
	assert_int_equal(adminrig_take(), 200);
	adminrig_has("\"a\":{\"ok\":false,\"error\":\"no such key\"}");
	adminrig_has("k\":{\"ok\":false,\"error\":\"invalid argument\"}");
}

static void
a_large_batch_asks_in_portions(void **state)
{
	struct kv_bytes target = { 0 };
	char key[16];

	(void)state;
	append(&target, "/batch_query_keys?keys=", 23);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%03d", i);
		adminrig_publish(&web.a, "", key, 4);
		append(&target, key, 4);
		append(&target, ",", 1);
	}
	append(&target, "", 1);
	adminrig_say(&web.c, "GET", (char *)target.data);
	rig_ms(5);
	assert_int_equal(wirepeer_count(&web.a.p.w, KV_MSG_QUERY), 64);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%03d", i);
		adminrig_tell(&web.a, "", key, 4, 1);
	}
	assert_int_equal(adminrig_take(), 200);
	adminrig_has("\"k000\":{\"ok\":true");
	adminrig_has("\"k299\":{\"ok\":true");
	kv_bytes_fini(&target);
}

static void
a_batch_has_a_bound(void **state)
{
	struct kv_bytes target = { 0 };

	(void)state;
	append(&target, "/batch_query_keys?keys=", 23);
	for (int i = 0; i <= KV_BATCH_KEYS_MAX; i++)
		append(&target, "k,", 2);
	append(&target, "", 1);
	assert_int_equal(httpclient_get(&web.c, (char *)target.data), 400);
	adminrig_has("more than 4096 keys");
	kv_bytes_fini(&target);
}

static void
a_batch_and_a_node_that_is_away(void **state)
{
	(void)state;
	adminrig_publish(&web.a, "", "k", 1);
	adminrig_say(&web.c, "GET", "/batch_query_keys?keys=k");
	rig_ms(2500);
	assert_int_equal(adminrig_take(), 200);
	adminrig_has(
		"\"k\":{\"ok\":false,\"error\":\"node cannot be reached\"}");
}

/* ---- all keys ---- */

static void
pages_of_two_nodes(void **state)
{
	struct page p = { 0 };
	char key[32], *want = NULL;
	size_t n;

	(void)state;
	adminrig_say(&web.c, "GET", "/get_all_keys");
	FILE *f = open_memstream(&want, &n);

	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 2000; j++) {
			snprintf(key, sizeof(key), "key-%d-%d", i, j);
			page_add(&p, key, strlen(key));
			fprintf(f, "%s\n", key);
		}
		answer_page(&web.a, &p, i < 2 ? i + 1 : 0);
	}
	answer_page(&web.b, &p, 9); /* none of it was to be shown */
	page_add(&p, "last", 4);
	answer_page(&web.b, &p, 0);
	fprintf(f, "last\n");
	fclose(f);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is(want);
	free(want);
}

static void
odd_keys_are_lines(void **state)
{
	struct page p = { 0 };

	(void)state;
	page_add(&p, "vllm@/m/@1", 10);
	page_add(&p, "a b%2F", 6);
	page_add(&p, "\n\0\x7f", 3);
	page_add(&p, "\xd0\xba\xff", 3);
	adminrig_say(&web.c, "GET", "/get_all_keys");
	answer_page(&web.a, &p, 0);
	answer_page(&web.b, &p, 0);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("vllm@/m/@1\na b%2F\n%0A%00%7F\n\xd0\xba\xff\n");
}

static void
odd_keys_as_json(void **state)
{
	struct page p = { 0 };

	(void)state;
	page_add(&p, "\n\0\x7f", 3);
	page_add(&p, "\xd0\xba", 2);
	page_add(&p, "\xd0\xba\xff", 3);
	adminrig_say(&web.c, "GET", "/get_all_keys?json=1");
	answer_page(&web.a, &p, 0);
	page_add(&p, "z", 1);
	answer_page(&web.b, &p, 0);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("{\"keys\":[\"\\u000a\\u0000\\u007f\",\"\xd0\xba\","
		    "{\"b64\":\"0Lr/\"},\"z\"],\"away\":[]}");
}

static void
json_by_its_header(void **state)
{
	struct page p = { 0 };

	(void)state;
	httpclient_say(&web.c, "GET /get_all_keys HTTP/1.1\r\nHost: x\r\n"
			       "Accept: application/json\r\n\r\n");
	httpclient_turn(&web.c, 20);
	answer_page(&web.a, &p, 0);
	answer_page(&web.b, &p, 0);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("{\"keys\":[],\"away\":[]}");
}

static void
copies_are_one_key(void **state)
{
	struct page p = { 0 };

	(void)state;
	adminrig_publish(&web.a, "t", "both", 4);
	adminrig_publish(&web.b, "t", "both", 4);
	adminrig_publish(&web.b, "t", "mine", 4);
	adminrig_say(&web.c, "GET", "/get_all_keys?tenant=t");
	page_add(&p, "both", 4);
	answer_page(&web.a, &p, 0);
	page_add(&p, "both", 4);
	page_add(&p, "mine", 4);
	answer_page(&web.b, &p, 0);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("both\nmine\n");
}

static void
nodes_that_give_no_keys_are_named(void **state)
{
	struct page p = { 0 };

	(void)state;
	page_add(&p, "k", 1);
	adminrig_say(&web.c, "GET", "/get_all_keys");
	answer_page(&web.a, &p, 0);
	wireframe_free(adminrig_asked(&web.b, KV_MSG_KEYS));
	rig_ms(2500);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("k\n");
	/* The trailer came behind the body. */
	assert_non_null(strstr((char *)web.c.tail.data,
			       "X-Kvpool-Away: "
			       "b0000000-0000-0000-0000-000000000000\r\n"));
	adminrig_say(&web.c, "GET", "/get_all_keys?json=true");
	wireframe_free(adminrig_asked(&web.a, KV_MSG_KEYS));
	rig_ms(2500);
	answer_page(&web.b, &p, 0);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("{\"keys\":[],\"away\":["
		    "\"a0000000-0000-0000-0000-000000000000\"]}");
}

static void
a_list_of_no_nodes(void **state)
{
	(void)state;
	rig_send(&web.a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_send(&web.b.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(100);
	adminrig_say(&web.c, "GET", "/get_all_keys");
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("");
}

static void
the_reader_of_a_list_leaves(void **state)
{
	struct httpclient other;
	struct page p = { 0 };

	(void)state;
	adminrig_open(&other);
	adminrig_say(&other, "GET", "/get_all_keys");
	page_add(&p, "k", 1);
	answer_page(&web.a, &p, 1);
	httpclient_read(&other, 20);
	httpclient_close(&other);
	answer_page(&web.a, &p, 2);
	httpclient_turn(&web.c, 20);
	assert_int_equal(httpclient_get(&web.c, "/role"), 200);
}

static void
a_node_leaves_in_the_middle_of_a_list(void **state)
{
	struct page p = { 0 };

	(void)state;
	adminrig_say(&web.c, "GET", "/get_all_keys");
	page_add(&p, "first", 5);
	answer_page(&web.a, &p, 1);
	rig_send(&web.a.p, KV_MSG_LEAVE, NULL, NULL, 0);
	rig_ms(10);
	page_add(&p, "second", 6);
	answer_page(&web.b, &p, 0);
	assert_int_equal(adminrig_take(), 200);
	adminrig_is("first\nsecond\n");
	assert_null(strstr((char *)web.c.tail.data, "X-Kvpool-Away"));
}

static void
broken_pages_end_a_list(void **state)
{
	struct kv_keys_r r = { .count = kv_le32(1000) };
	struct page p = { 0 };

	(void)state;
	adminrig_say(&web.c, "GET", "/get_all_keys");
	adminrig_answer(&web.a, adminrig_asked(&web.a, KV_MSG_KEYS), &r, NULL);
	assert_int_equal(adminrig_take(), 503);
	adminrig_say(&web.c, "GET", "/get_all_keys");
	page_add(&p, "k", 1);
	answer_page(&web.a, &p, 0);
	adminrig_answer(&web.b, adminrig_asked(&web.b, KV_MSG_KEYS), &r, NULL);
	assert_int_equal(adminrig_take(), 200);
	assert_false(web.c.is_whole);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ADMINRIG_TEST(a_batch),
		ADMINRIG_TEST(a_batch_joined_and_escaped),
		ADMINRIG_TEST(a_batch_with_bad_keys),
		ADMINRIG_TEST(a_large_batch_asks_in_portions),
		ADMINRIG_TEST(a_batch_has_a_bound),
		ADMINRIG_TEST(a_batch_and_a_node_that_is_away),
		ADMINRIG_TEST(pages_of_two_nodes),
		ADMINRIG_TEST(odd_keys_are_lines),
		ADMINRIG_TEST(odd_keys_as_json),
		ADMINRIG_TEST(json_by_its_header),
		ADMINRIG_TEST(copies_are_one_key),
		ADMINRIG_TEST(nodes_that_give_no_keys_are_named),
		ADMINRIG_TEST(a_list_of_no_nodes),
		ADMINRIG_TEST(the_reader_of_a_list_leaves),
		ADMINRIG_TEST(a_node_leaves_in_the_middle_of_a_list),
		ADMINRIG_TEST(broken_pages_end_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
