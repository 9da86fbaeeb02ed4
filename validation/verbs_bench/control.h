/* The connection between client and server: set up by librdmacm, then one message each way at a time.
 *
 * The connection manager finds device, port, GID and path by the IP address. The queue pairs that are measured
 * (pairs.h) take the path from here; there can be many of them, also UC and UD.
 */
#ifndef RPSIM_VERBS_CONTROL_H
#define RPSIM_VERBS_CONTROL_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "measurement.h"
#include "report.h"

enum message_kind {
	HELLO,    /* both ways: facts of the machine, as JSON */
	PREPARE,  /* client: make ready for this measurement */
	READY,    /* server: ready */
	REFUSED,  /* server: skipped or failed, and why */
	FINISH,   /* client: no more operations */
	FINISHED, /* server: its resources are free again */
};

struct message {
	uint32_t magic, bytes; /* do both sides mean the same? */
	uint32_t kind, outcome;
	struct measurement measurement;
	uint64_t address; /* of the target: the responder's region, or where the requester waits for answers */
	uint32_t rkey, psn, reads_in_flight, unused;
	uint32_t qpns[MAX_QPS];
	char text[8192];
};

/* What the paths of the measured queue pairs look like, as the connection manager sets them up. */
struct path {
	struct ibv_qp_attr init, rtr;
	unsigned port;
};

struct control {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *completions;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct message *messages; /* [0] to send, [1] received */
	struct path path;
	bool received, sent;
};

/* These end the program with a message if they cannot work. */
struct rdma_cm_id *control_listen(const char *address, const char *port);
void control_connect(struct control *control, const char *host, const char *port, const char *own_address);

/* Waits for a client. False: it went away again before it was connected; to be closed all the same. */
bool control_accept(struct control *control, struct rdma_cm_id *listener);

struct message *control_draft(struct control *control, enum message_kind kind);
bool control_send(struct control *control); /* false: the other side is gone */

/* The next message. NULL: the other side is gone, or nothing came in time (-1: wait for ever). */
const struct message *control_receive(struct control *control, int timeout_ms);

/* Whether a message is there, without waiting; control_receive then returns it. */
bool control_waiting(struct control *control);
bool control_alive(struct control *control);
void control_close(struct control *control);

#endif
