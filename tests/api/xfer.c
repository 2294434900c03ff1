/*
 * Raw transfers between the registered memories of two processes.
 *
 *	xfer [no-attach]
 *
 * Starts itself again as the other process, whose memory it reads and writes:
 * memory that both map, or with "no-attach" such that bytes need a TCP
 * connection, as between hosts.
 */

#include <inttypes.h>
#include <kvpool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

enum {
	BYTES = 4 << 20,
	PIECES = 1000,
};

static char err[512];

static unsigned char
byte_at(size_t i)
{
	return (unsigned char)(i * 2654435761u >> 13);
}

static void
test_opts(void)
{
	const struct kv_engine_opts o = { .no_attach = 1 };

	EXPECT(kv_engine_open(&o, err, sizeof(err)) == NULL, 1);
	EXPECT(strncmp(err, "options of a wrong size", 23), 0);
	EXPECT(kv_engine_open(&o, NULL, 0) == NULL, 1);
}

static struct kv_engine *
open_or_die(int no_attach)
{
	const struct kv_engine_opts o = {
		.size = sizeof(o),
		.listen = "127.0.0.1:0",
		.no_attach = no_attach,
	};
	struct kv_engine *e = kv_engine_open(&o, err, sizeof(err));

	if (!e) {
		fprintf(stderr, "kv_engine_open: %s\n", err);
		exit(1);
	}
	return e;
}

/* ---- the other process: says where its memory is, then waits to be told that
 * its second half is written ---- */

static int
serve(int no_attach)
{
	struct kv_engine *e = open_or_die(no_attach);
	unsigned char *memory =
		no_attach ? malloc(BYTES) : kv_engine_alloc(e, BYTES);
	struct kv_note_in note;

	EXPECT(memory != NULL, 1);
	for (size_t i = 0; i < BYTES; i++)
		memory[i] = i < BYTES / 2 ? byte_at(i) : 0;
	EXPECT(kv_engine_register(e, memory, BYTES), 0);
	printf("127.0.0.1:%u %" PRIuPTR "\n", kv_engine_port(e),
	       (uintptr_t)memory);
	fflush(stdout);
	/* Nobody may be left to send it. */
	for (int i = 0; kv_engine_notes(e, &note, 1) == 0; i++) {
		EXPECT(i < 60000, 1);
		usleep(1000);
	}
	EXPECT(strcmp(note.name, "done"), 0);
	EXPECT(note.text_len, 5);
	EXPECT(memcmp(note.text, "bytes", 5), 0);
	free(note.text);
	for (size_t i = 0; i < BYTES; i++)
		EXPECT(memory[i], byte_at(i));
	EXPECT(kv_engine_unregister(e, memory), 0);
	if (no_attach)
		free(memory);
	else
		EXPECT(kv_engine_free(e, memory), 0);
	kv_engine_close(e);
	return 0;
}

/* ---- this one ---- */

static pid_t
other_start(char **argv, char *peer, uint64_t *remote)
{
	int out[2];
	pid_t pid;
	FILE *f;

	EXPECT(pipe(out), 0);
	pid = fork(); /* before there is anything of the library */
	EXPECT(pid >= 0, 1);
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		close(out[0]);
		close(out[1]);
		execl(argv[0], argv[0], "serve", argv[1], (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	EXPECT(f != NULL, 1);
	EXPECT(fscanf(f, "%63s %" SCNu64, peer, remote), 2);
	fclose(f);
	return pid;
}

static void
test_paths(struct kv_engine *e, const char *peer, uint64_t remote,
	   int no_attach)
{
	char path[128];

	EXPECT(kv_engine_probe(e, peer), 0);
	EXPECT(kv_engine_probe(e, "127.0.0.1:1"), -KV_EUNREACHABLE);
	EXPECT(kv_engine_first_region(e, peer) == remote, 1);
	EXPECT(kv_engine_first_region(e, "127.0.0.1:1"), 0);
	EXPECT(kv_engine_path(e, peer, path, sizeof(path)), 0);
	printf("# %s\n", path);
	EXPECT(strncmp(path, "tcp", 3) == 0, no_attach);
}

static void
test_read(struct kv_engine *e, const char *peer, uint64_t remote,
	  unsigned char *memory)
{
	static struct kv_xfer_item items[PIECES];
	struct kv_xfer_item bad = { memory, remote + BYTES, 1 };
	const size_t piece = 1999;

	/* Pieces that do not follow each other, in one call. */
	for (size_t i = 0; i < PIECES; i++)
		items[i] = (struct kv_xfer_item){ memory + i * piece,
						  remote + i * piece, piece };
	EXPECT(kv_engine_transfer(e, KV_ENGINE_READ, peer, items, PIECES, 0),
	       0);
	for (size_t i = 0; i < PIECES * piece; i++)
		EXPECT(memory[i], byte_at(i));
	EXPECT(kv_engine_transfer(e, KV_ENGINE_READ, peer, &bad, 1, 0) < 0, 1);
	EXPECT(kv_engine_transfer(e, KV_ENGINE_READ, peer, NULL, 0, 0), 0);
}

static void
test_write(struct kv_engine *e, const char *peer, uint64_t remote,
	   unsigned char *memory)
{
	struct kv_xfer_item item = { memory + BYTES / 2, remote + BYTES / 2,
				     BYTES / 4 };
	struct kv_op *op;
	long result = 1;
	int rc;

	for (size_t i = BYTES / 2; i < BYTES; i++)
		memory[i] = byte_at(i);
	EXPECT(kv_engine_transfer(e, KV_ENGINE_WRITE, peer, &item, 1, 0), 0);
	item.local = memory + BYTES / 4 * 3;
	item.remote = remote + BYTES / 4 * 3;
	op = kv_engine_submit(e, KV_ENGINE_WRITE, peer, &item, 1, 0);
	EXPECT(op != NULL, 1);
	do {
		rc = kv_op_wait(op, 100, &result);
	} while (rc == -KV_ETIMEOUT);
	EXPECT(rc, 0);
	EXPECT(result, 0);
}

int
main(int argc, char **argv)
{
	int no_attach = strcmp(argv[argc - 1], "no-attach") == 0, status;
	struct kv_engine *e;
	unsigned char *memory;
	char peer[64];
	uint64_t remote;
	pid_t pid;

	if (argc > 1 && strcmp(argv[1], "serve") == 0)
		return serve(no_attach);
	test_opts();
	pid = other_start(argv, peer, &remote);
	e = open_or_die(no_attach);
	memory = malloc(BYTES);
	EXPECT(memory != NULL, 1);
	EXPECT(kv_engine_register(e, memory, BYTES), 0);
	EXPECT(kv_engine_register(e, memory + 1, BYTES), -KV_EINVALID);
	EXPECT(kv_engine_register(e, NULL, BYTES), -KV_EINVALID);
	test_paths(e, peer, remote, no_attach);
	test_read(e, peer, remote, memory);
	test_write(e, peer, remote, memory);
	EXPECT(kv_engine_notify(e, peer, "done", "bytes", 5), 0);
	EXPECT(waitpid(pid, &status, 0), pid);
	EXPECT(status, 0);
	EXPECT(kv_engine_probe(e, peer), -KV_EUNREACHABLE);
	EXPECT(kv_engine_unregister(e, memory), 0);
	EXPECT(kv_engine_unregister(e, memory), -KV_EINVALID);
	kv_engine_close(e);
	free(memory);
	return 0;
}
