#include "pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	AUTO_INLINE_BYTES = 1024,
	HOP_LIMIT = 64,
	TIMEOUT = 14, /* 4.096 us * 2^14 = 67 ms */
	RETRIES = 7,
	MIN_RNR_TIMER = 1,
	MAX_READS_IN_FLIGHT = 16,
};

unsigned reads_in_flight(struct ibv_context *device, bool serving)
{
	struct ibv_device_attr attributes;
	int most;

	if (ibv_query_device(device, &attributes))
		return 1;
	most = serving ? attributes.max_qp_rd_atom : attributes.max_qp_init_rd_atom;
	return most < 1 ? 1 : most > MAX_READS_IN_FLIGHT ? MAX_READS_IN_FLIGHT : (unsigned)most;
}

/* Own memory --------------------------------------------------------------------------------------------- */

static struct verdict open_own(struct pairs *pairs, struct ibv_pd *pd)
{
	uint64_t stride = slots_of(pairs->m).stride_bytes;
	uint64_t requests = (uint64_t)pairs->count * (pairs->receives + pairs->m->depth);

	pairs->own_data = 0;
	pairs->own_grh = stride;
	pairs->own_echo = stride + CACHE_LINE;
	pairs->own_requests = pairs->own_echo + stride;
	struct verdict verdict = region_open(&pairs->own, pd, DRAM, pairs->own_requests + (requests + 1) * CACHE_LINE,
					     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, "", NULL);
	if (verdict.outcome == OUTCOME_DONE)
		memset(pairs->own.base + pairs->own_data, PATTERN, stride);
	return verdict;
}

/* Queue pairs -------------------------------------------------------------------------------------------- */

static struct verdict open_one(struct pairs *pairs, struct control *control, unsigned q, unsigned sends,
			       unsigned inline_bytes)
{
	static const enum ibv_qp_type types[TRANSPORTS] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_qp_init_attr_ex wanted = {
		.send_cq = pairs->cq,
		.recv_cq = pairs->cq,
		.cap = {.max_send_wr = sends, .max_recv_wr = pairs->receives ? pairs->receives : 1, .max_send_sge = 1,
			.max_recv_sge = 2, .max_inline_data = inline_bytes},
		.qp_type = types[pairs->m->transport],
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = control->pd,
	};

	if (is_extension(pairs->m->verb)) {
		wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		wanted.send_ops_flags = extension_send_ops();
	}
	pairs->qps[q] = ibv_create_qp_ex(control->id->verbs, &wanted);
	if (!pairs->qps[q])
		return refused("ibv_create_qp_ex", errno, "queue pair %u of %u, %u sends, %u receives, %u bytes inline",
			       q + 1, pairs->count, sends, pairs->receives, inline_bytes);
	if (is_extension(pairs->m->verb))
		pairs->extended[q] = ibv_qp_to_qp_ex(pairs->qps[q]);
	pairs->max_inline_bytes = wanted.cap.max_inline_data;
	return done();
}

/* Inline data: what the plan wants if the device can. */
static struct verdict open_first(struct pairs *pairs, struct control *control, unsigned sends)
{
	const struct measurement *m = pairs->m;
	bool possible = carries_data(m->verb) && m->inline_mode != INLINE_NO;
	unsigned least = m->verb == VERB_WRITE_SEND ? REQUEST_BYTES : 0;
	struct verdict verdict;

	if (possible && (m->inline_mode == INLINE_YES || m->size_bytes <= AUTO_INLINE_BYTES)) {
		verdict = open_one(pairs, control, 0, sends, m->size_bytes > least ? m->size_bytes : least);
		pairs->inline_data = verdict.outcome == OUTCOME_DONE && pairs->max_inline_bytes >= m->size_bytes;
		if (pairs->inline_data)
			return verdict;
		if (m->inline_mode == INLINE_YES)
			return skipped("the device does not take %u bytes inline", m->size_bytes);
		if (verdict.outcome == OUTCOME_DONE)
			return verdict;
	}
	verdict = open_one(pairs, control, 0, sends, least);
	return verdict.outcome == OUTCOME_DONE || !least ? verdict : open_one(pairs, control, 0, sends, 0);
}

static struct verdict check_limits(const struct ibv_context *device, const struct ibv_device_attr *limits,
				   const struct pairs *pairs, unsigned sends, unsigned completions)
{
	if (sends > (unsigned)limits->max_qp_wr || pairs->receives > (unsigned)limits->max_qp_wr)
		return skipped("%s has room for %d work requests a queue, not %u", device->device->name,
			       limits->max_qp_wr, sends > pairs->receives ? sends : pairs->receives);
	if (completions > (unsigned)limits->max_cqe)
		return skipped("%s has room for %d completions a queue, not %u", device->device->name, limits->max_cqe,
			       completions);
	if (pairs->count > (unsigned)limits->max_qp)
		return skipped("%s has %d queue pairs, not %u", device->device->name, limits->max_qp, pairs->count);
	return done();
}

struct verdict pairs_open(struct pairs *pairs, struct control *control, const struct measurement *m, bool serving)
{
	/* A queue pair may have all operations in flight at once, each of two work requests; answers may all be due. */
	unsigned share = (m->depth + m->qps - 1) / m->qps, sends = 2 * m->depth + 4;
	bool receives = serving ? consumes_receive(m->verb)
				: m->verb == VERB_WRITE_SEND || (m->method == HALF_ROUND_TRIP && m->verb != VERB_WRITE);
	struct ibv_device_attr limits;
	struct verdict verdict;

	*pairs = (struct pairs){.m = m, .count = m->qps, .own.fd = -1};
	pairs->receives = !receives ? 0 : serving ? 2 * share + 32 : m->depth + 4;
	if (m->transport == UD && serving)
		pairs->receives = 4 * m->depth + 64; /* nobody sends again what found no receive */
	pairs->qps = calloc(m->qps, sizeof *pairs->qps);
	pairs->extended = calloc(m->qps, sizeof *pairs->extended);
	pairs->peers = calloc(m->qps, sizeof *pairs->peers);
	if (!pairs->qps || !pairs->extended || !pairs->peers)
		stop("out of memory");
	if (ibv_query_device(control->id->verbs, &limits))
		return failed("ibv_query_device failed");
	/* One signalled send an operation. */
	unsigned completions = m->depth + 64 + m->qps * (serving ? pairs->receives : pairs->receives ? m->depth : 0);
	verdict = check_limits(control->id->verbs, &limits, pairs, sends, completions);
	if (verdict.outcome == OUTCOME_DONE)
		verdict = open_own(pairs, control->pd);
	if (verdict.outcome == OUTCOME_DONE) {
		pairs->cq = ibv_create_cq(control->id->verbs, (int)completions, NULL, NULL, 0);
		if (!pairs->cq)
			verdict = refused("ibv_create_cq", errno, "%u completions", completions);
	}
	if (verdict.outcome == OUTCOME_DONE)
		verdict = open_first(pairs, control, sends);
	for (unsigned q = 1; q < m->qps && verdict.outcome == OUTCOME_DONE; q++)
		verdict = open_one(pairs, control, q, sends, pairs->max_inline_bytes);
	return verdict;
}

/* States ------------------------------------------------------------------------------------------------- */

static struct verdict move_to(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask, const char *state)
{
	int error = ibv_modify_qp(qp, attributes, mask | IBV_QP_STATE);

	return error ? failed("queue pair to %s: ibv_modify_qp (%s); is the link up, is the GID index right?", state,
			      errno_name(error))
		     : done();
}

static struct verdict connect_one(struct pairs *pairs, unsigned q, const struct path *path,
				  const struct message *peer, uint32_t psn, unsigned reads)
{
	const struct measurement *m = pairs->m;
	struct ibv_qp *qp = pairs->qps[q];
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .pkey_index = path->init.pkey_index,
				   .port_num = (uint8_t)path->port, .qkey = QKEY,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = path->rtr.path_mtu,
				  .ah_attr = path->rtr.ah_attr, .dest_qp_num = peer->qpns[q], .rq_psn = peer->psn,
				  .max_dest_rd_atomic = (uint8_t)reads, .min_rnr_timer = MIN_RNR_TIMER};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = TIMEOUT, .retry_cnt = RETRIES,
				  .rnr_retry = RETRIES, .max_rd_atomic = (uint8_t)reads};
	int init_mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT, rtr_mask = 0, rts_mask = IBV_QP_SQ_PSN;
	struct verdict verdict;

	if (m->transport == UD)
		init_mask |= IBV_QP_QKEY;
	else
		init_mask |= IBV_QP_ACCESS_FLAGS;
	if (m->transport == RC)
		init.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | extension_access(m);
	if (m->transport != UD)
		rtr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (m->transport == RC) {
		rtr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	verdict = move_to(qp, &init, init_mask, "INIT");
	if (verdict.outcome == OUTCOME_DONE)
		verdict = move_to(qp, &rtr, rtr_mask, "RTR");
	if (verdict.outcome == OUTCOME_DONE)
		verdict = move_to(qp, &rts, rts_mask, "RTS");
	return verdict;
}

struct verdict pairs_connect(struct pairs *pairs, struct control *control, const struct message *peer,
			     uint32_t own_psn, unsigned reads)
{
	struct path path = control->path;
	struct verdict verdict = done();

	pairs->remote = peer->address;
	pairs->rkey = peer->rkey;
	memcpy(pairs->peers, peer->qpns, pairs->count * sizeof *pairs->peers);
	pairs->mtu_bytes = 128u << path.rtr.path_mtu; /* enum ibv_mtu: 1 is 256 */
	if (pairs->m->transport == UD && pairs->m->size_bytes > pairs->mtu_bytes)
		return skipped("%u bytes are more than the path's MTU of %u; a UD message is one packet",
			       pairs->m->size_bytes, pairs->mtu_bytes);
	for (unsigned q = 0; q < pairs->count && verdict.outcome == OUTCOME_DONE; q++)
		verdict = connect_one(pairs, q, &path, peer, own_psn, reads);
	if (verdict.outcome == OUTCOME_DONE && pairs->m->transport == UD) {
		if (!path.rtr.ah_attr.grh.hop_limit)
			path.rtr.ah_attr.grh.hop_limit = HOP_LIMIT;
		pairs->ah = ibv_create_ah(control->pd, &path.rtr.ah_attr);
		if (!pairs->ah)
			verdict = refused("ibv_create_ah", errno, "address of the other side");
	}
	return verdict;
}

void pairs_close(struct pairs *pairs)
{
	for (unsigned q = 0; pairs->qps && q < pairs->count; q++)
		if (pairs->qps[q])
			ibv_destroy_qp(pairs->qps[q]);
	if (pairs->ah)
		ibv_destroy_ah(pairs->ah);
	if (pairs->cq)
		ibv_destroy_cq(pairs->cq);
	region_close(&pairs->own);
	free(pairs->qps);
	free(pairs->extended);
	free(pairs->peers);
	*pairs = (struct pairs){.own.fd = -1};
}
