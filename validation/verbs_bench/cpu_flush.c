#include "cpu_flush.h"

#include <stdbool.h>
#include <stdint.h>

#include "measurement.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

enum { LEAF_7_EBX_CLFLUSHOPT = 1 << 23, LEAF_7_EBX_CLWB = 1 << 24 }; /* Intel SDM, volume 2, CPUID */

static unsigned leaf_7_ebx(void)
{
	unsigned eax, ebx = 0, ecx, edx;

	__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
	return ebx;
}

const char *cpu_flush_name(void)
{
	unsigned features = leaf_7_ebx();

	return features & LEAF_7_EBX_CLWB ? "clwb" : features & LEAF_7_EBX_CLFLUSHOPT ? "clflushopt" : "clflush";
}

__attribute__((target("clwb"))) static void write_back(const char *line, const char *end)
{
	for (; line < end; line += CACHE_LINE)
		_mm_clwb((void *)line);
}

__attribute__((target("clflushopt"))) static void flush_unordered(const char *line, const char *end)
{
	for (; line < end; line += CACHE_LINE)
		_mm_clflushopt((void *)line);
}

void cpu_flush(const void *start, size_t bytes)
{
	static unsigned features;
	const char *line = (const char *)((uintptr_t)start & ~(uintptr_t)(CACHE_LINE - 1));
	const char *end = (const char *)start + bytes;

	if (!features)
		features = leaf_7_ebx() | 1; /* 1: asked */
	if (features & LEAF_7_EBX_CLWB)
		write_back(line, end);
	else if (features & LEAF_7_EBX_CLFLUSHOPT)
		flush_unordered(line, end);
	else
		for (; line < end; line += CACHE_LINE)
			_mm_clflush(line);
	_mm_sfence();
}

#elif defined(__aarch64__)

const char *cpu_flush_name(void)
{
	return "dc cvac"; /* to the point of coherency; cvap, to that of persistence, needs Armv8.2 */
}

void cpu_flush(const void *start, size_t bytes)
{
	uintptr_t line = (uintptr_t)start & ~(uintptr_t)(CACHE_LINE - 1);

	for (; line < (uintptr_t)start + bytes; line += CACHE_LINE)
		__asm__ volatile("dc cvac, %0" : : "r"(line) : "memory");
	__asm__ volatile("dsb sy" : : : "memory");
}

#else

const char *cpu_flush_name(void)
{
	return NULL;
}

void cpu_flush(const void *start, size_t bytes)
{
	(void)start;
	(void)bytes;
}

#endif
