#ifndef KV_SIM_SIMNET_H
#define KV_SIM_SIMNET_H

/*
 * A network for simulated processes on one virtual loop: a struct kv_net for
 * each of them. Named hosts ("tcp:n1:50052"), Unix sockets within a host,
 * delay, bandwidth, bounded buffers, cut links, resets. The same seed and the
 * same calls give the same run.
 *
 * How links fail: while the way from one host to another is cut nothing passes
 * and nobody is told, as when a cable is out. What was sent meanwhile goes on
 * its way when the cut is healed (TCP sends it again); a connection of which
 * one end was closed meanwhile is half open until then. Connection attempts
 * wait for their deadline.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "net/net.h"

struct simnet;

struct simnet_opts {
	uint64_t seed;
	uint64_t latency_ns; /* one way between hosts */
	uint64_t jitter_ns;  /* up to so much more for each write */
	uint64_t local_ns;   /* one way within a host */
	double bytes_per_ns; /* of all connections from one host to another
			      * together; 0: no limit. Within a host: none. */
	size_t pipe_bytes;   /* sent and not yet read, one direction of one
			      * connection; 0: 256 KiB */
	bool chunked;        /* reads and writes take random parts of what they
			      * could, now and then nothing */
};

/* `loop` is virtual, on `clock`. Both outlive it. Never NULL. */
struct simnet *simnet_new(struct kv_loop *loop, struct kv_clock *clock,
			  const struct simnet_opts *opts);

/* Every stream is closed and every listener and dial gone (asserted). */
void simnet_free(struct simnet *sn);

/* Turns the loop, moving the clock from event to event, until `until_ns`, where
 * the clock then stands. */
void simnet_run(struct simnet *sn, uint64_t until_ns);

/* The network as a process sees it; valid until simnet_free(). pid must be new.
 * net->move is NULL. net->peer says of a connection over a Unix socket: pid of
 * the other process, this process's real uid and gid, no pidfd. Streams over
 * Unix sockets pass descriptors on. */
struct kv_net *simnet_process(struct simnet *sn, const char *host, pid_t pid);

/* The process has ended: its connections are closed as the kernel would, its
 * listeners refuse. What it still has of them (it must give that up as always)
 * is dead: no callback comes any more, reads fail. Whoever has a pidfd for it
 * in the real world is for the caller to tell. */
void simnet_process_exit(struct simnet *sn, pid_t pid);

/* A loop of its own for a new process, on the same clock: what lives there can
 * be stopped. Everything of the process is to be on it. It goes with the
 * process, once nothing is armed on it. */
struct kv_loop *simnet_process_loop(struct simnet *sn, pid_t pid);
/* SIGSTOP, SIGCONT: it does not run; connections to it are made by the kernel,
 * what it is sent waits. */
void simnet_process_stop(struct simnet *sn, pid_t pid, bool stop);

/* The way from one host to another; NULL: all other hosts known so far. */
void simnet_cut(struct simnet *sn, const char *from, const char *to);
void simnet_heal(struct simnet *sn, const char *from, const char *to);
/* So much is added to the latency of what is sent from now on. */
void simnet_delay(struct simnet *sn, const char *from, const char *to,
		  uint64_t ns);

/* Resets all connections between two hosts, in both ends at once. */
void simnet_reset(struct simnet *sn, const char *a, const char *b);

/* Open stream ends. */
size_t simnet_streams(const struct simnet *sn);

#endif
