/* The queue pairs that are measured, on either side, and how operations are posted on them. */
#ifndef RPSIM_VERBS_PAIRS_H
#define RPSIM_VERBS_PAIRS_H

#include "control.h"
#include "extensions.h"
#include "measurement.h"
#include "region.h"

enum { GRH_BYTES = 40, REQUEST_BYTES = 16, REPLY_BYTES = 8 };
enum { PATTERN = 0x5A }; /* every byte that a requester writes */
enum { QKEY = 0x11111111 }; /* of UD; top bit 0: anybody may use it */

/* A work request's wr_id: whether it is a receive, then a number, then (modulo MAX_QPS) the queue pair. */
static const uint32_t ID_RECEIVE = 1u << 31;

struct pairs {
	const struct measurement *m;
	unsigned count, receives; /* queue pairs; receives posted on each */
	struct ibv_qp **qps;
	struct ibv_qp_ex **extended; /* where the verb needs it, else NULL */
	struct ibv_cq *cq;
	struct ibv_ah *ah; /* UD */
	uint32_t *peers;   /* queue pair numbers of the other side */
	unsigned max_inline_bytes, mtu_bytes;

	/* Own memory, for data, answers and requests; plain DRAM. */
	struct region own;
	uint64_t own_data, own_echo, own_grh, own_requests; /* offsets */
	uint64_t remote;                                    /* the other side's memory */
	uint32_t rkey;
	bool inline_data;
};

/* Creates them, up to the state INIT; `serving` is the side that answers. */
struct verdict pairs_open(struct pairs *pairs, struct control *control, const struct measurement *m, bool serving);

/* Connects them to what the message from the other side says. */
struct verdict pairs_connect(struct pairs *pairs, struct control *control, const struct message *peer,
			     uint32_t own_psn, unsigned reads_in_flight);
void pairs_close(struct pairs *pairs);

/* Outstanding READs and atomics that the device can start, or can serve. */
unsigned reads_in_flight(struct ibv_context *device, bool serving);

/* One operation of the measurement on queue pair `q`, at an offset of the remote region; `id` comes with the last
 * completion. Returns an errno. */
int post_operation(struct pairs *pairs, unsigned q, uint64_t offset, uint32_t id);

/* An answer to a request for a flush; signalled, with the same id. */
int post_reply(struct pairs *pairs, unsigned q, uint32_t id);

/* A receive for `bytes` at `address` (none: NULL). `id` comes back with ID_RECEIVE set. */
int post_receive(struct pairs *pairs, unsigned q, char *address, uint32_t bytes, uint32_t lkey, uint32_t id);

#endif
