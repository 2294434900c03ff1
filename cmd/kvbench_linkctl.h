#ifndef KVBENCH_LINKCTL_H
#define KVBENCH_LINKCTL_H

/*
 * The TCP connection between the two sides of kvbench link. The measuring side
 * sends orders, the other one answers each in turn; a plain stream goes here,
 * too. It leads to the port that the first region of the listening engine
 * names.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/le.h"

#define KVBENCH_CTL_MAGIC "kvbench link 2\n"

/* What lies in the first region of the listening side's engine. */
struct kvbench_ctl_page {
	char magic[16];
	struct kv_le64 memory_at;
	struct kv_le64 memory_bytes;
	struct kv_le64 port;         /* TCP */
	struct kv_le64 tool_devices; /* for perftest */
};
KV_LE_SIZE(kvbench_ctl_page, 48);

enum kvbench_ctl_type {
	KVBENCH_CTL_GIVE =
		1,         /* bytes: so many follow, then they are answered */
	KVBENCH_CTL_TAKE,  /* bytes: they are the answer */
	KVBENCH_CTL_FILL,  /* size, stride, slots, seed */
	KVBENCH_CTL_CHECK, /* the same; answer: slots that are as they should
			    * be, then comes one that is not */
	KVBENCH_CTL_CPU,   /* answer: ns */
	KVBENCH_CTL_NOTES, /* size, seed: such ones are to come */
	KVBENCH_CTL_NOTED, /* answer: how many came, how many were wrong */
	KVBENCH_CTL_TOOL,  /* number of the operation and, times 256, of the
			    * device, bytes, calls, depth; answer: port */
	KVBENCH_CTL_OVER,
};

struct kvbench_ctl_order {
	struct kv_le64 type;
	struct kv_le64 v[4];
};
KV_LE_SIZE(kvbench_ctl_order, 40);

struct kvbench_ctl_answer {
	struct kv_le64 status; /* 0 or an errno */
	struct kv_le64 v[2];
};
KV_LE_SIZE(kvbench_ctl_answer, 24);

/* -errno. A name is looked up; each of its addresses is tried. */
int kvbench_ctl_dial(const char *host, uint16_t port, uint32_t timeout_ms);
/* At the address or another port of it, if that is taken; *port is which. */
int kvbench_ctl_listen(const char *host, uint16_t *port);

/* Who waits longer gets -ETIMEDOUT from the two below. */
void kvbench_ctl_prepare(int fd, uint32_t timeout_ms);
int kvbench_ctl_send(int fd, const void *p, size_t n);
int kvbench_ctl_recv(int fd, void *p, size_t n);

int kvbench_ctl_order(int fd, enum kvbench_ctl_type type, const uint64_t v[4]);
/* One that is answered so; a status of the other side is -errno, too. out NULL:
 * nothing is wanted. */
int kvbench_ctl_ask(int fd, enum kvbench_ctl_type type, const uint64_t v[4],
		    uint64_t out[2]);

/* GIVE and TAKE, of the other side: through a buffer. 0 or -errno: the
 * connection is of no use any more. */
int kvbench_ctl_take_given(int fd, char *buf, size_t buf_bytes, uint64_t bytes);
int kvbench_ctl_give_taken(int fd, const char *buf, size_t buf_bytes,
			   uint64_t bytes);
int kvbench_ctl_answer(int fd, int status, uint64_t v0, uint64_t v1);

#endif
