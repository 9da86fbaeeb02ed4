/* Registered memory: what the requester's operations read and write on the responder. */
#ifndef RPSIM_VERBS_REGION_H
#define RPSIM_VERBS_REGION_H

#include <infiniband/verbs.h>

#include "measurement.h"
#include "report.h"

/* Where memory comes from that is not plain DRAM. */
struct places {
	const char *dax;    /* /dev/dax0.0, or a file on a file system mounted with -o dax; NULL: none */
	const char *dmabuf; /* /dev/udmabuf or /dev/dma_heap/NAME; NULL: none */
	bool huge_pages;
};

struct region {
	enum memory memory;
	uint64_t bytes;
	unsigned access;
	char *base;
	size_t mapped_bytes;
	int fd; /* of the dma-buf, else -1 */
	struct ibv_mr *mr;
};

/* `use` says in the message of a device that does not register it what for, e.g. " for persistent FLUSH". */
struct verdict region_open(struct region *region, struct ibv_pd *pd, enum memory memory, uint64_t bytes,
			   unsigned access, const char *use, const struct places *places);
void region_close(struct region *region); /* also one that is closed, or all zero */

#endif
