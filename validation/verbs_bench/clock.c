#include "clock.h"

#include <stdio.h>
#include <string.h>

struct clock the_clock = {.ns_per_tick = 1.0};

/* The counter ticks at one rate, also while cores sleep or change their frequency. */
static bool even_cycles(void)
{
	bool even = false;
#if defined(__x86_64__)
	char line[8192];
	FILE *file = fopen("/proc/cpuinfo", "r");

	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, "flags", 5)) {
			even = strstr(line, " constant_tsc") && strstr(line, " nonstop_tsc") && strstr(line, " rdtscp");
			break;
		}
	if (file)
		fclose(file);
#endif
	return even;
}

void clock_start(void)
{
	enum { CALIBRATION_NS = 50 * 1000 * 1000, READS = 1000 };

	the_clock.cycles = even_cycles();
	if (the_clock.cycles) {
		uint64_t start_ns = monotonic_ns(), start = ticks(), end_ns;

		do
			end_ns = monotonic_ns();
		while (end_ns - start_ns < CALIBRATION_NS);
		the_clock.ns_per_tick = (double)(end_ns - start_ns) / (double)(ticks() - start);
	}
	uint64_t start = ticks();
	for (int i = 0; i < READS; i++)
		(void)ticks();
	the_clock.overhead_ns = ticks_to_ns(ticks() - start) / (READS + 1);
}
