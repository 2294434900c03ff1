/*
 * An engine whose process forks:
 *
 *	railfork HOST:PORT [PEER]	listens there, reaches PEER, forks; then
 *					says so and waits for the end of stdin
 *
 * Its children end as they should, whatever NICs know of its memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvpool.h"

enum {
	BYTES = 2 << 20,
	CHILD_STATUS = 7,
};

static int
fork_one(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(CHILD_STATUS);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_STATUS)
		return 0;
	fprintf(stderr, "railfork: the child ended with status 0x%x\n", status);
	return 1;
}

static int
reach(struct kv_engine *e, const char *peer)
{
	char path[256];
	int rc = kv_engine_path(e, peer, path, sizeof(path));

	if (rc == 0 && strncmp(path, "rdma:", 5) == 0)
		return 0;
	fprintf(stderr, "railfork: no RDMA: %s\n",
		rc ? kv_status_text(rc) : path);
	return 1;
}

int
main(int argc, char **argv)
{
	struct kv_engine_opts o = {
		.size = sizeof(o),
		.no_attach = 1,
		.protocol = "rdma",
	};
	void *memory = aligned_alloc(BYTES, BYTES);
	struct kv_engine *e;
	char err[256];
	int rc;

	if (argc < 2 || !memory) {
		free(memory);
		return 64;
	}
	memset(memory, 1, BYTES);
	o.listen = argv[1];
	e = kv_engine_open(&o, err, sizeof(err));
	if (!e) {
		fprintf(stderr, "railfork: %s\n", err);
		free(memory);
		return 1;
	}
	rc = kv_engine_register(e, memory, BYTES) ? 1 : fork_one();
	if (rc == 0 && argc > 2)
		rc = reach(e, argv[2]);
	if (rc == 0)
		rc = fork_one();
	printf("%s\n", rc ? "failed" : "forked");
	fflush(stdout);
	while (rc == 0 && getchar() != EOF)
		;
	kv_engine_close(e);
	free(memory);
	return rc;
}
