#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 }; /* device DAX maps whole ones */

static size_t round_up(uint64_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static struct verdict map(struct region *region, int flags, int fd, const char *what)
{
	void *base = mmap(NULL, region->mapped_bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (base == MAP_FAILED)
		return refused("mmap", errno, "%s, %zu bytes", what, region->mapped_bytes);
	region->base = base;
	return done();
}

static struct verdict open_dram(struct region *region, const struct places *places)
{
	bool huge = places && places->huge_pages;

	region->mapped_bytes = round_up(region->bytes, huge ? HUGE_PAGE : 4096);
	struct verdict verdict = map(region, MAP_PRIVATE | MAP_ANONYMOUS, -1, "DRAM");
	if (verdict.outcome == OUTCOME_DONE) {
		/* Decided here, not by the system's setting: the number of translations is part of the measurement. */
		madvise(region->base, region->mapped_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		memset(region->base, 0, region->mapped_bytes);
	}
	return verdict;
}

static struct verdict open_dax(struct region *region, const char *path)
{
	struct stat status;
	struct verdict verdict;
	bool is_device = path && !stat(path, &status) && S_ISCHR(status.st_mode);

	if (!path)
		return skipped("the responder was given no DAX file or device (--dax)");
	int fd = open(path, O_RDWR | (is_device ? 0 : O_CREAT), 0600);
	if (fd < 0)
		return refused("open", errno, "%s", path);
	region->mapped_bytes = round_up(region->bytes, HUGE_PAGE);
	if (!is_device && (fstat(fd, &status) || ((uint64_t)status.st_size < region->mapped_bytes &&
						  ftruncate(fd, (off_t)region->mapped_bytes))))
		verdict = refused("ftruncate", errno, "%s", path);
	else /* MAP_SYNC: refused by a file system that is not DAX, and only then are flushed stores durable */
		verdict = map(region, is_device ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC, fd, path);
	close(fd);
	return verdict;
}

/* A dma-buf of a DMA heap, or of a memory file through udmabuf. */
static int dmabuf_of(const char *path, size_t bytes)
{
	int device = open(path, O_RDWR), buffer = -1;

	if (device < 0)
		return -1;
	if (strstr(path, "udmabuf")) {
		int file = memfd_create("rpsim-verbs", MFD_ALLOW_SEALING);

		if (file >= 0 && !ftruncate(file, (off_t)bytes) && !fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK)) {
			struct udmabuf_create wanted = {.memfd = (uint32_t)file, .size = bytes};
			buffer = ioctl(device, UDMABUF_CREATE, &wanted);
		}
		if (file >= 0)
			close(file);
	} else {
		struct dma_heap_allocation_data wanted = {.len = bytes, .fd_flags = O_RDWR | O_CLOEXEC};

		if (!ioctl(device, DMA_HEAP_IOCTL_ALLOC, &wanted))
			buffer = (int)wanted.fd;
	}
	int error = errno;
	close(device);
	errno = error;
	return buffer;
}

static struct verdict open_dmabuf(struct region *region, const char *path)
{
	if (!path)
		return skipped("the responder was given no source of dma-bufs (--dmabuf)");
	region->mapped_bytes = round_up(region->bytes, 4096);
	region->fd = dmabuf_of(path, region->mapped_bytes);
	if (region->fd < 0)
		return refused("allocating a dma-buf", errno, "%s", path);
	return map(region, MAP_SHARED, region->fd, "dma-buf");
}

struct verdict region_open(struct region *region, struct ibv_pd *pd, enum memory memory, uint64_t bytes,
			   unsigned access, const char *use, const struct places *places)
{
	struct verdict verdict;

	*region = (struct region){.memory = memory, .bytes = bytes, .access = access, .fd = -1};
	switch (memory) {
	case DAX: verdict = open_dax(region, places->dax); break;
	case DMABUF: verdict = open_dmabuf(region, places->dmabuf); break;
	default: verdict = open_dram(region, places); break;
	}
	if (verdict.outcome == OUTCOME_DONE) {
		region->mr = memory == DMABUF
				     ? ibv_reg_dmabuf_mr(pd, 0, bytes, (uintptr_t)region->base, region->fd, (int)access)
				     : ibv_reg_mr(pd, region->base, bytes, (int)access);
		if (!region->mr)
			verdict = refused(memory == DMABUF ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr", errno,
					  "the device does not register %llu bytes of %s%s", (unsigned long long)bytes,
					  memory_names[memory], use);
	}
	if (verdict.outcome != OUTCOME_DONE)
		region_close(region);
	return verdict;
}

void region_close(struct region *region)
{
	if (region->mr)
		ibv_dereg_mr(region->mr);
	if (region->base)
		munmap(region->base, region->mapped_bytes);
	if (region->base && region->fd >= 0)
		close(region->fd);
	*region = (struct region){.fd = -1};
}
