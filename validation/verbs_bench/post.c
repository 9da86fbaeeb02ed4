/* Posting: one function that builds the work requests of an operation, by the verb. */
#include <stdlib.h>
#include <string.h>

#include "pairs.h"

static struct ibv_sge data_of(const struct pairs *pairs, uint64_t offset, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)pairs->own.base + offset, bytes, pairs->own.mr->lkey};
}

static void to_peer(const struct pairs *pairs, unsigned q, struct ibv_send_wr *request)
{
	if (pairs->m->transport == UD) {
		request->wr.ud.ah = pairs->ah;
		request->wr.ud.remote_qpn = pairs->peers[q];
		request->wr.ud.remote_qkey = QKEY;
	}
}

static int post_extended(struct pairs *pairs, unsigned q, uint64_t offset, uint32_t id)
{
	const struct measurement *m = pairs->m;
	struct ibv_qp_ex *qp = pairs->extended[q];
	uint64_t address = pairs->remote + offset;
	char *data = pairs->own.base + pairs->own_data;

	ibv_wr_start(qp);
	qp->wr_id = id;
	if (m->verb == VERB_WRITE_FLUSH) {
		/* Not asked for by ibv_wr_post(3), but rxe looks for inline data only if the flag says so. */
		qp->wr_flags = pairs->inline_data ? IBV_SEND_INLINE : 0;
		ibv_wr_rdma_write(qp, pairs->rkey, address);
		if (pairs->inline_data)
			ibv_wr_set_inline_data(qp, data, m->size_bytes);
		else
			ibv_wr_set_sge(qp, pairs->own.mr->lkey, (uintptr_t)data, m->size_bytes);
	}
	qp->wr_flags = IBV_SEND_SIGNALED;
	if (m->verb == VERB_ATOMIC_WRITE)
		extension_atomic_write(qp, pairs->rkey, address, data);
	else
		extension_flush(qp, pairs->rkey, m->level == REGION ? pairs->remote : address,
				m->level == REGION ? 0 : m->size_bytes, m);
	return ibv_wr_complete(qp);
}

/* The second work request of WRITE+READ and WRITE+SEND. */
static void follow(struct pairs *pairs, uint64_t offset, uint32_t id, struct ibv_send_wr *request, struct ibv_sge *sge)
{
	const struct measurement *m = pairs->m;
	uint32_t tail = m->size_bytes < 8 ? m->size_bytes : 8;
	/* No two requests in flight may share their bytes: the id says which of the queue pair's this one is. */
	uint64_t slot = pairs->own_requests + (uint64_t)(id % MAX_QPS * m->depth + id / MAX_QPS) * CACHE_LINE;
	uint64_t wanted[2] = {offset, m->size_bytes};

	if (m->verb == VERB_WRITE_READ) {
		*sge = data_of(pairs, pairs->own_echo, tail);
		request->opcode = IBV_WR_RDMA_READ;
		request->wr.rdma.remote_addr = pairs->remote + offset + m->size_bytes - tail;
		request->wr.rdma.rkey = pairs->rkey;
	} else {
		memcpy(pairs->own.base + slot, wanted, sizeof wanted);
		*sge = data_of(pairs, slot, REQUEST_BYTES);
		request->opcode = IBV_WR_SEND;
		if (pairs->max_inline_bytes >= REQUEST_BYTES)
			request->send_flags |= IBV_SEND_INLINE;
	}
}

int post_operation(struct pairs *pairs, unsigned q, uint64_t offset, uint32_t id)
{
	static const enum ibv_wr_opcode opcodes[VERBS] = {
		[VERB_WRITE] = IBV_WR_RDMA_WRITE,       [VERB_WRITE_WITH_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[VERB_SEND] = IBV_WR_SEND,              [VERB_READ] = IBV_WR_RDMA_READ,
		[VERB_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP, [VERB_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
		[VERB_WRITE_READ] = IBV_WR_RDMA_WRITE,  [VERB_WRITE_SEND] = IBV_WR_RDMA_WRITE,
	};
	const struct measurement *m = pairs->m;
	struct ibv_sge first_data = data_of(pairs, pairs->own_data, m->size_bytes), second_data;
	struct ibv_send_wr second = {.wr_id = id, .sg_list = &second_data, .num_sge = 1,
				     .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr first = {.wr_id = id, .sg_list = &first_data, .num_sge = 1, .opcode = opcodes[m->verb],
				    .send_flags = IBV_SEND_SIGNALED | (pairs->inline_data ? IBV_SEND_INLINE : 0u)};
	struct ibv_send_wr *bad;

	if (is_extension(m->verb))
		return post_extended(pairs, q, offset, id);
	if (m->verb == VERB_CAS || m->verb == VERB_FETCH_ADD) {
		first.wr.atomic.remote_addr = pairs->remote + offset;
		first.wr.atomic.rkey = pairs->rkey;
		first.wr.atomic.compare_add = m->verb == VERB_FETCH_ADD; /* CAS: 0 by 0, which always succeeds */
	} else {
		first.wr.rdma.remote_addr = pairs->remote + offset;
		first.wr.rdma.rkey = pairs->rkey;
		to_peer(pairs, q, &first);
	}
	if (m->verb == VERB_WRITE_READ || m->verb == VERB_WRITE_SEND) {
		first.send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
		first.next = &second;
		follow(pairs, offset, id, &second, &second_data);
	}
	return ibv_post_send(pairs->qps[q], &first, &bad);
}

int post_reply(struct pairs *pairs, unsigned q, uint32_t id)
{
	struct ibv_sge data = data_of(pairs, pairs->own_data, REPLY_BYTES);
	struct ibv_send_wr request = {.wr_id = id, .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_SEND,
				      .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	if (pairs->max_inline_bytes >= REPLY_BYTES)
		request.send_flags |= IBV_SEND_INLINE;
	return ibv_post_send(pairs->qps[q], &request, &bad);
}

int post_receive(struct pairs *pairs, unsigned q, char *address, uint32_t bytes, uint32_t lkey, uint32_t id)
{
	bool grh = pairs->m->transport == UD;
	struct ibv_sge rooms[2] = {data_of(pairs, pairs->own_grh, GRH_BYTES), {(uintptr_t)address, bytes, lkey}};
	struct ibv_recv_wr request = {.wr_id = id | ID_RECEIVE, .sg_list = grh ? rooms : &rooms[1],
				      .num_sge = !address ? 0 : grh ? 2 : 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(pairs->qps[q], &request, &bad);
}
