#include "extensions.h"

/* enum ib_uverbs_device_cap_flags of the kernel's rdma/ib_user_verbs.h, reported in device_cap_flags_ex */
static const uint64_t CAP_FLUSH_GLOBAL = 1ull << 38, CAP_FLUSH_PERSISTENT = 1ull << 39, CAP_ATOMIC_WRITE = 1ull << 40;

bool is_extension(enum verb verb)
{
	return has_flush(verb) || verb == VERB_ATOMIC_WRITE;
}

struct verdict extension_available(struct ibv_context *device, const struct measurement *m)
{
	struct ibv_device_attr_ex attributes;
	const char *name = verb_names[m->verb];

	if (!is_extension(m->verb))
		return done();
	if (has_flush(m->verb) && !HAVE_FLUSH)
		return skipped("the libibverbs that this was built with has no FLUSH (rdma-core 56 has)");
	if (m->verb == VERB_ATOMIC_WRITE && !HAVE_ATOMIC_WRITE)
		return skipped("the libibverbs that this was built with has no ATOMIC_WRITE (rdma-core 44 has)");
	if (ibv_query_device_ex(device, NULL, &attributes))
		return skipped("%s: the device does not answer ibv_query_device_ex", name);
	uint64_t has = attributes.device_cap_flags_ex;

	if (m->verb == VERB_ATOMIC_WRITE && !(has & CAP_ATOMIC_WRITE))
		return skipped("the device has no ATOMIC_WRITE");
	if (has_flush(m->verb) && m->placement == GLOBAL && !(has & CAP_FLUSH_GLOBAL))
		return skipped("the device has no FLUSH to global visibility");
	if (has_flush(m->verb) && m->placement == PERSISTENT && !(has & CAP_FLUSH_PERSISTENT))
		return skipped("the device has no FLUSH to persistence");
	return done();
}

unsigned extension_send_ops(void)
{
	unsigned operations = IBV_QP_EX_WITH_RDMA_WRITE;

#if HAVE_FLUSH
	operations |= IBV_QP_EX_WITH_FLUSH;
#endif
#if HAVE_ATOMIC_WRITE
	operations |= IBV_QP_EX_WITH_ATOMIC_WRITE;
#endif
	return operations;
}

unsigned extension_access(const struct measurement *m)
{
#if HAVE_FLUSH
	if (has_flush(m->verb))
		return m->placement == PERSISTENT ? IBV_ACCESS_FLUSH_PERSISTENT : IBV_ACCESS_FLUSH_GLOBAL;
#endif
	(void)m;
	return 0;
}

const char *extension_use(const struct measurement *m)
{
	if (!has_flush(m->verb))
		return "";
	return m->placement == PERSISTENT ? " for FLUSH to persistence" : " for FLUSH to global visibility";
}

void extension_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, size_t bytes, const struct measurement *m)
{
#if HAVE_FLUSH
	ibv_wr_flush(qp, rkey, address, bytes, m->placement == PERSISTENT ? IBV_FLUSH_PERSISTENT : IBV_FLUSH_GLOBAL,
		     m->level == REGION ? IBV_FLUSH_MR : IBV_FLUSH_RANGE);
#else
	(void)qp, (void)rkey, (void)address, (void)bytes, (void)m;
#endif
}

void extension_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, const void *value)
{
#if HAVE_ATOMIC_WRITE
	ibv_wr_atomic_write(qp, rkey, address, value);
#else
	(void)qp, (void)rkey, (void)address, (void)value;
#endif
}
