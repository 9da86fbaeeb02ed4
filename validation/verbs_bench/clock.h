/* Time: the cycle counter where it ticks evenly, else clock_gettime. */
#ifndef RPSIM_VERBS_CLOCK_H
#define RPSIM_VERBS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

struct clock {
	bool cycles;        /* ticks are cycles of the time stamp counter, else nanoseconds */
	double ns_per_tick;
	double overhead_ns; /* of reading it once; part of every latency, not subtracted */
};

extern struct clock the_clock;

/* Chooses and calibrates (a twentieth of a second). */
void clock_start(void);

static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	if (the_clock.cycles) {
		unsigned processor;
		return __rdtscp(&processor); /* waits for earlier instructions, not for earlier stores */
	}
#endif
	return monotonic_ns();
}

static inline double ticks_to_ns(uint64_t ticks_passed)
{
	return (double)ticks_passed * the_clock.ns_per_tick;
}

#endif
