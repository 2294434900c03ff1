/*
 * usage: protodump FILE...             what lib/wire makes of each frame
 *        protodump -o FOLDER FILE...   writes each good one again, there
 *        protodump -k                  the types with their lengths
 * For 10-proto.t, which holds it against tests/python/kvproto.py.
 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/msg.h"

static uint8_t bytes[2 * KV_FRAME_BYTES_MAX];

static void
show_hex(const char *label, const void *p, size_t n)
{
	const uint8_t *b = p;

	printf(" %s=", label);
	for (size_t i = 0; i < n; i++)
		printf("%02x", b[i]);
}

static void
show(long n, const struct kv_msg *msg, size_t need)
{
	if (n == 0) {
		printf("more %zu", need);
	} else if (n < 0) {
		printf("refused %s", n == -EPROTO ? "protocol" : "version");
	} else {
		printf("%ld %s id=%llx flags=%u payload=%u", n,
		       kv_msg_name(msg->type), (unsigned long long)msg->id,
		       msg->flags, msg->payload);
		show_hex("body", msg->body, kv_msg_body_bytes(msg->type));
		show_hex("tail", msg->tail, msg->tail_len);
	}
	printf("\n");
}

/* Builds the frame from what was read of it. 0 or -1. */
static int
write_again(const char *path, const struct kv_msg *msg)
{
	size_t body = kv_msg_body_bytes(msg->type);
	size_t len = KV_HEADER_BYTES + body + msg->tail_len;
	uint8_t *frame = calloc(1, len);
	FILE *f = fopen(path, "wbe");
	int rc = -1;

	if (!frame || !f)
		goto out;
	memcpy(frame + KV_HEADER_BYTES, msg->body, body + msg->tail_len);
	kv_msg_seal(frame, msg->type, msg->flags, msg->id, len - 32,
		    msg->payload);
	if (fwrite(frame, 1, len, f) == len)
		rc = 0;
out:
	free(frame);
	if (f && fclose(f) != 0)
		rc = -1;
	return rc;
}

static int
dump(char *path, const char *folder)
{
	FILE *f = fopen(path, "rbe");
	char again[4096];
	struct kv_msg msg;
	size_t len, need = 0;
	long n;

	if (!f)
		return -1;
	len = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	n = kv_msg_parse(bytes, len, &msg, &need);
	if (!folder) {
		printf("%s ", basename(path));
		show(n, &msg, need);
	} else if (n > 0) {
		snprintf(again, sizeof(again), "%s/%s", folder, basename(path));
		return write_again(again, &msg);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	const char *folder = NULL;
	int first = 1;

	if (argc == 2 && strcmp(argv[1], "-k") == 0) {
		for (unsigned t = 0; t < 256; t++)
			if (kv_msg_body_bytes(t) > 0)
				printf("%u %s %zu %zu %d\n", t, kv_msg_name(t),
				       kv_msg_body_bytes(t), kv_msg_tail_max(t),
				       kv_msg_has_payload(t));
		return 0;
	}
	if (argc > 2 && strcmp(argv[1], "-o") == 0) {
		folder = argv[2];
		first = 3;
	}
	for (int i = first; i < argc; i++) {
		if (dump(argv[i], folder) < 0) {
			perror(argv[i]);
			return 1;
		}
	}
	return 0;
}
