/* How this processor pushes a cache line towards memory. */
#ifndef RPSIM_VERBS_CPU_FLUSH_H
#define RPSIM_VERBS_CPU_FLUSH_H

#include <stddef.h>

/* "clwb", "clflushopt", "clflush" or "dc cvac"; NULL if none is known for this architecture. */
const char *cpu_flush_name(void);

/* Writes the lines of a range back, and waits until the stores are ordered (sfence). */
void cpu_flush(const void *start, size_t bytes);

#endif
