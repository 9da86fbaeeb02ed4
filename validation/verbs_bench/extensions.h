/* What newer libraries have: FLUSH (rdma-core 50 or so) and ATOMIC_WRITE. The Makefile looks into the headers. */
#ifndef RPSIM_VERBS_EXTENSIONS_H
#define RPSIM_VERBS_EXTENSIONS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "measurement.h"
#include "report.h"

#ifndef HAVE_FLUSH
#error "HAVE_FLUSH and HAVE_ATOMIC_WRITE are set by the Makefile"
#endif

/* Does the verb need ibv_create_qp_ex and the ibv_wr_* functions? */
bool is_extension(enum verb verb);

/* Skipped, if the library that this was built with or the device lacks what the measurement needs. */
struct verdict extension_available(struct ibv_context *device, const struct measurement *m);

/* For ibv_create_qp_ex, and for the registration of the responder's region. */
unsigned extension_send_ops(void);
unsigned extension_access(const struct measurement *m);

const char *extension_use(const struct measurement *m); /* of that access, in words */

/* Inside ibv_wr_start .. ibv_wr_complete. */
void extension_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, size_t bytes, const struct measurement *m);
void extension_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, const void *value);

#endif
