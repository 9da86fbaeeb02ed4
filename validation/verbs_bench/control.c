#include "control.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESOLVE_MS = 3000, CONNECT_MS = 10000, MAGIC = 0x72707631 /* "rpv1" */ };

/* The connection manager's events ------------------------------------------------------------------------ */

static const char *advice_on(enum rdma_cm_event_type event)
{
	switch (event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		return "no RDMA device leads there: is the address right, is it one of an RDMA port (rdma link show), "
		       "is the link up?";
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return "no route: link down, no matching GID, or no subnet manager (InfiniBand)";
	case RDMA_CM_EVENT_UNREACHABLE:
		return "unreachable: is the server's machine up and on this network?";
	case RDMA_CM_EVENT_REJECTED:
		return "rejected: nobody listens there; start 'rpsim-verbs serve' first, with the same --port";
	default:
		return "see ibv_devinfo and the kernel's messages (dmesg)";
	}
}

static struct rdma_cm_event *expect(struct rdma_event_channel *events, enum rdma_cm_event_type wanted, int timeout_ms,
				    const char *what)
{
	struct pollfd waiting = {.fd = events->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	if (poll(&waiting, 1, timeout_ms) == 0)
		stop("%s: no answer within %d s: is the server's machine up and on this network?", what,
		     timeout_ms / 1000);
	if (rdma_get_cm_event(events, &event))
		stop("%s: rdma_get_cm_event (%s)", what, errno_name(errno));
	if (event->event != wanted)
		stop("%s: %s (%s)", what, advice_on(event->event), rdma_event_str(event->event));
	return event;
}

static struct rdma_event_channel *open_events(void)
{
	struct rdma_event_channel *events = rdma_create_event_channel();

	if (!events)
		stop("the connection manager cannot be opened (%s): is the module rdma_ucm loaded, and may you open "
		     "/dev/infiniband/rdma_cm?", errno_name(errno));
	return events;
}

static struct sockaddr_storage resolve(const char *host, const char *port, bool passive)
{
	struct addrinfo hints = {.ai_flags = passive ? AI_PASSIVE : 0, .ai_socktype = SOCK_STREAM}, *found;
	struct sockaddr_storage address = {0};
	int error = getaddrinfo(host, port, &hints, &found);

	if (error)
		stop("address '%s', port '%s': %s", host ? host : "any", port, gai_strerror(error));
	memcpy(&address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return address;
}

/* The queue pair for messages ---------------------------------------------------------------------------- */

static bool post_room(struct control *control)
{
	struct ibv_sge room = {(uintptr_t)&control->messages[1], sizeof(struct message), control->mr->lkey};
	struct ibv_recv_wr request = {.sg_list = &room, .num_sge = 1}, *bad;

	return !ibv_post_recv(control->id->qp, &request, &bad);
}

static void open_queue_pair(struct control *control)
{
	struct ibv_context *device = control->id->verbs;
	const char *name = ibv_get_device_name(device->device);
	struct ibv_qp_init_attr wanted = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	control->pd = ibv_alloc_pd(device);
	control->completions = ibv_create_comp_channel(device);
	if (control->completions)
		control->cq = ibv_create_cq(device, 8, NULL, control->completions, 0);
	control->messages = calloc(2, sizeof(struct message));
	if (!control->pd || !control->cq || !control->messages)
		stop("control connection: %s", refused("ibv_alloc_pd or ibv_create_cq", errno, "on %s", name).reason);
	control->mr = ibv_reg_mr(control->pd, control->messages, 2 * sizeof(struct message), IBV_ACCESS_LOCAL_WRITE);
	if (!control->mr)
		stop("control connection: %s", refused("ibv_reg_mr", errno, "on %s", name).reason);
	wanted.send_cq = wanted.recv_cq = control->cq;
	if (rdma_create_qp(control->id, control->pd, &wanted))
		stop("control connection: %s", refused("rdma_create_qp", errno, "on %s", name).reason);
	if (!post_room(control))
		stop("control connection: ibv_post_recv failed on %s", name);
}

static struct rdma_conn_param parameters(void)
{
	return (struct rdma_conn_param){.responder_resources = 1, .initiator_depth = 1, .retry_count = 7,
					.rnr_retry_count = 7};
}

struct rdma_cm_id *control_listen(const char *own_address, const char *port)
{
	struct sockaddr_storage address = resolve(own_address, port, true);
	struct rdma_event_channel *events = open_events();
	struct rdma_cm_id *listener;

	if (rdma_create_id(events, &listener, NULL, RDMA_PS_TCP))
		stop("rdma_create_id (%s)", errno_name(errno));
	if (rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 8))
		stop("cannot listen on '%s', port %s (%s): is the address one of an RDMA port (rdma link show), "
		     "is the port free?", own_address ? own_address : "any", port, errno_name(errno));
	return listener;
}

static bool learn_path(struct control *control)
{
	struct path *path = &control->path;
	int mask;

	*path = (struct path){.init = {.qp_state = IBV_QPS_INIT}, .rtr = {.qp_state = IBV_QPS_RTR}};
	if (rdma_init_qp_attr(control->id, &path->init, &mask) || rdma_init_qp_attr(control->id, &path->rtr, &mask))
		return false;
	path->port = control->id->port_num;
	path->rtr.ah_attr.port_num = control->id->port_num;
	return true;
}

/* A client that dies meanwhile is nothing to end a server for. */
static bool established(struct control *control)
{
	struct pollfd waiting = {.fd = control->events->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	if (poll(&waiting, 1, CONNECT_MS) <= 0 || rdma_get_cm_event(control->events, &event))
		return false;
	bool good = event->event == RDMA_CM_EVENT_ESTABLISHED;
	rdma_ack_cm_event(event);
	return good;
}

bool control_accept(struct control *control, struct rdma_cm_id *listener)
{
	struct rdma_cm_event *event = expect(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST, -1, "waiting");
	struct rdma_conn_param wanted = parameters();

	*control = (struct control){.id = event->id, .events = open_events()};
	rdma_ack_cm_event(event);
	if (rdma_migrate_id(control->id, control->events))
		stop("rdma_migrate_id (%s)", errno_name(errno));
	open_queue_pair(control);
	return !rdma_accept(control->id, &wanted) && established(control) && learn_path(control);
}

void control_connect(struct control *control, const char *host, const char *port, const char *own_address)
{
	struct sockaddr_storage peer = resolve(host, port, false), own;
	struct rdma_conn_param wanted = parameters();

	if (own_address)
		own = resolve(own_address, NULL, true);
	*control = (struct control){.events = open_events()};
	if (rdma_create_id(control->events, &control->id, NULL, RDMA_PS_TCP))
		stop("rdma_create_id (%s)", errno_name(errno));
	if (rdma_resolve_addr(control->id, own_address ? (struct sockaddr *)&own : NULL, (struct sockaddr *)&peer,
			      RESOLVE_MS))
		stop("%s: %s (%s)", host, advice_on(RDMA_CM_EVENT_ADDR_ERROR), errno_name(errno));
	rdma_ack_cm_event(expect(control->events, RDMA_CM_EVENT_ADDR_RESOLVED, 2 * RESOLVE_MS, host));
	if (rdma_resolve_route(control->id, RESOLVE_MS))
		stop("%s: %s (%s)", host, advice_on(RDMA_CM_EVENT_ROUTE_ERROR), errno_name(errno));
	rdma_ack_cm_event(expect(control->events, RDMA_CM_EVENT_ROUTE_RESOLVED, 2 * RESOLVE_MS, host));
	open_queue_pair(control);
	if (rdma_connect(control->id, &wanted))
		stop("%s: rdma_connect (%s)", host, errno_name(errno));
	rdma_ack_cm_event(expect(control->events, RDMA_CM_EVENT_ESTABLISHED, CONNECT_MS, host));
	if (!learn_path(control))
		stop("%s: rdma_init_qp_attr (%s): the server went away again", host, errno_name(errno));
}

/* Messages ----------------------------------------------------------------------------------------------- */

/* Takes what completed. False: the connection is broken. */
static bool collect(struct control *control)
{
	struct ibv_wc completion;

	while (ibv_poll_cq(control->cq, 1, &completion) > 0) {
		if (completion.status != IBV_WC_SUCCESS)
			return false;
		if (completion.opcode & IBV_WC_RECV)
			control->received = true;
		else
			control->sent = true;
	}
	return true;
}

bool control_alive(struct control *control)
{
	struct pollfd waiting = {.fd = control->events->fd, .events = POLLIN};

	return poll(&waiting, 1, 0) == 0; /* after the connection is there, the only event is its end */
}

/* Sleeps until something completed. False: broken, or nothing in time. */
static bool wait(struct control *control, int timeout_ms)
{
	struct pollfd waiting[] = {{.fd = control->completions->fd, .events = POLLIN},
				   {.fd = control->events->fd, .events = POLLIN}};
	struct ibv_cq *cq;
	void *context;

	if (poll(waiting, 2, timeout_ms) <= 0)
		return false;
	if (waiting[0].revents & POLLIN && !ibv_get_cq_event(control->completions, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		return true;
	}
	return !waiting[1].revents;
}

static bool wait_for(struct control *control, const bool *flag, int timeout_ms)
{
	for (;;) {
		if (!collect(control))
			return false;
		if (*flag)
			return true;
		if (ibv_req_notify_cq(control->cq, 0) || !collect(control))
			return false;
		if (*flag)
			return true;
		if (!wait(control, timeout_ms))
			return collect(control) && *flag;
	}
}

struct message *control_draft(struct control *control, enum message_kind kind)
{
	struct message *message = &control->messages[0];

	memset(message, 0, sizeof *message);
	message->magic = MAGIC;
	message->bytes = sizeof *message;
	message->kind = kind;
	return message;
}

bool control_send(struct control *control)
{
	struct ibv_sge bytes = {(uintptr_t)&control->messages[0], sizeof(struct message), control->mr->lkey};
	struct ibv_send_wr request = {.sg_list = &bytes, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	control->sent = false;
	return !ibv_post_send(control->id->qp, &request, &bad) && wait_for(control, &control->sent, CONNECT_MS);
}

const struct message *control_receive(struct control *control, int timeout_ms)
{
	static struct message copy;

	if (!wait_for(control, &control->received, timeout_ms))
		return NULL;
	copy = control->messages[1];
	control->received = false;
	if (!post_room(control))
		return NULL;
	if (copy.magic != MAGIC || copy.bytes != sizeof copy) {
		fputs("rpsim-verbs: the other side runs another version; build both from the same sources\n", stderr);
		return NULL;
	}
	copy.text[sizeof copy.text - 1] = 0;
	return &copy;
}

bool control_waiting(struct control *control)
{
	return !collect(control) || control->received;
}

void control_close(struct control *control)
{
	if (!control->id)
		return;
	rdma_disconnect(control->id);
	if (control->id->qp)
		rdma_destroy_qp(control->id);
	if (control->mr)
		ibv_dereg_mr(control->mr);
	if (control->cq)
		ibv_destroy_cq(control->cq);
	if (control->completions)
		ibv_destroy_comp_channel(control->completions);
	if (control->pd)
		ibv_dealloc_pd(control->pd);
	rdma_destroy_id(control->id);
	rdma_destroy_event_channel(control->events);
	free(control->messages);
	*control = (struct control){0};
}
