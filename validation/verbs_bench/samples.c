#include "samples.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

struct samples samples_open(uint32_t room)
{
	struct samples samples = {.room = room, .ticks = malloc(room * sizeof(uint64_t))};

	if (!samples.ticks)
		stop("out of memory for %u samples", room);
	memset(samples.ticks, 1, room * sizeof(uint64_t)); /* no page fault may fall into a measurement */
	return samples;
}

void samples_close(struct samples *samples)
{
	free(samples->ticks);
	samples->ticks = NULL;
}

static int ascending(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

/* From the sorted samples, in nanoseconds; a half round trip is half of what was taken. */
static double share(const struct measurement *m)
{
	return m->method == HALF_ROUND_TRIP ? 0.5 : 1.0;
}

static double percentile_ns(const struct measurement *m, const struct samples *samples, double part)
{
	uint32_t rank = (uint32_t)((double)samples->count * part); /* nearest rank, from 0 */

	if (rank >= samples->count)
		rank = samples->count - 1;
	return share(m) * ticks_to_ns(samples->ticks[rank]);
}

static double mean_ns(const struct measurement *m, const struct samples *samples)
{
	double sum = 0;

	for (uint32_t i = 0; i < samples->count; i++)
		sum += (double)samples->ticks[i];
	return share(m) * sum / samples->count * the_clock.ns_per_tick;
}

static double operations_per_s(const struct samples *samples)
{
	double ns = ticks_to_ns(samples->end - samples->start);

	return ns > 0 ? samples->count * 1e9 / ns : 0;
}

/* The upper edge of a sample's bin: of 1 ns up to 64 ns, then 32 bins to each power of two. */
static uint64_t upper_edge_ns(double ns)
{
	uint64_t value = (uint64_t)ns;
	unsigned shift = value < 64 ? 0 : (unsigned)(58 - __builtin_clzll(value));

	return ((value >> shift) + 1) << shift;
}

static void write_histogram(FILE *out, const struct measurement *m, const struct samples *samples)
{
	const char *comma = "";

	fputs("\"histogram\": [", out);
	for (uint32_t i = 0, first = 0; i < samples->count; first = i) {
		uint64_t edge = upper_edge_ns(share(m) * ticks_to_ns(samples->ticks[i]));

		while (i < samples->count && share(m) * ticks_to_ns(samples->ticks[i]) < (double)edge)
			i++;
		fprintf(out, "%s[%llu, %u]", comma, (unsigned long long)edge, i - first);
		comma = ", ";
	}
	fputs("]", out);
}

void measurement_write(FILE *out, const struct measurement *m, const char *inline_data)
{
	fprintf(out, "{\"id\": \"%s\", \"verb\": \"%s\", \"transport\": \"%s\", \"size_bytes\": %u, ", m->id,
		verb_names[m->verb], transport_names[m->transport], m->size_bytes);
	fprintf(out, "\"inline\": %s, \"qps\": %u, \"depth\": %u, \"method\": \"%s\", \"memory\": \"%s\", ",
		inline_data, m->qps, m->depth, method_names[m->method], memory_names[m->memory]);
	fprintf(out, "\"region_bytes\": %llu, \"access\": \"%s\", ", (unsigned long long)m->region_bytes,
		access_names[m->access]);
	if (has_flush(m->verb))
		fprintf(out, "\"placement\": \"%s\", \"level\": \"%s\", ", placement_names[m->placement],
			level_names[m->level]);
	fprintf(out, "\"iterations\": %u, \"warmup\": %u", m->iterations, m->warmup);
}

void samples_write(FILE *out, const struct measurement *m, struct samples *samples)
{
	measurement_write(out, m, samples->inline_data ? "true" : "false");
	fputs(", ", out);
	if (samples->verdict.outcome != OUTCOME_DONE) {
		fputs(samples->verdict.outcome == OUTCOME_SKIPPED ? "\"skipped\": " : "\"failed\": ", out);
		json_string(out, samples->verdict.reason);
	} else {
		qsort(samples->ticks, samples->count, sizeof *samples->ticks, ascending);
		fprintf(out, "\"latency_ns\": {\"min\": %.1f, \"mean\": %.1f, \"p50\": %.1f, \"p90\": %.1f, "
			"\"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}, ", percentile_ns(m, samples, 0),
			mean_ns(m, samples), percentile_ns(m, samples, 0.5), percentile_ns(m, samples, 0.9),
			percentile_ns(m, samples, 0.99), percentile_ns(m, samples, 0.999),
			percentile_ns(m, samples, 1));
		fprintf(out, "\"mtu_bytes\": %u, \"operations_per_s\": %.1f, \"bytes_per_s\": %.1f, ",
			samples->mtu_bytes, operations_per_s(samples), operations_per_s(samples) * m->size_bytes);
		write_histogram(out, m, samples);
	}
	fputs("}", out);
}

void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ')
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

/* The table ---------------------------------------------------------------------------------------------- */

static const char *size_text(uint64_t bytes, char *text, size_t room)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	unsigned unit = 0;

	while (unit < 4 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, room, "%llu %s", (unsigned long long)bytes, units[unit]);
	return text;
}

/* In lines of 80 columns. */
static void print_reason(FILE *out, const char *reason)
{
	enum { WIDTH = 76 };

	while (*reason) {
		size_t length = strlen(reason);

		if (length > WIDTH)
			for (length = WIDTH; length > 1 && reason[length] != ' '; length--)
				;
		fprintf(out, "    %.*s\n", (int)length, reason);
		reason += length;
		reason += strspn(reason, " ");
	}
}

void table_head(FILE *out)
{
	fprintf(out, "%-29s %-3s %7s %4s %5s %8s %8s %8s\n", "verb, and what is special", "on", "size", "qps", "depth",
		"p50 us", "p99 us", "kops/s");
}

void table_row(FILE *out, const struct measurement *m, struct samples *samples)
{
	char special[64] = "", size[24];

	if (has_flush(m->verb))
		snprintf(special, sizeof special, " %s %s", m->placement == PERSISTENT ? "pers." : "global",
			 level_names[m->level]);
	else if (m->method == HALF_ROUND_TRIP)
		snprintf(special, sizeof special, " half rtt");
	else if (samples->inline_data)
		snprintf(special, sizeof special, " inline");
	if (m->memory != DRAM)
		snprintf(special + strlen(special), sizeof special - strlen(special), " %s", memory_names[m->memory]);
	if (m->access == RANDOM)
		snprintf(special + strlen(special), sizeof special - strlen(special), " in %s",
			 size_text(m->region_bytes, size, sizeof size));
	int room = 29 - (int)strlen(verb_names[m->verb]);

	fprintf(out, "%s%-*.*s %-3s %7s %4u %5u", verb_names[m->verb], room, room, special,
		transport_names[m->transport], size_text(m->size_bytes, size, sizeof size), m->qps, m->depth);
	if (samples->verdict.outcome == OUTCOME_DONE) {
		qsort(samples->ticks, samples->count, sizeof *samples->ticks, ascending);
		fprintf(out, " %8.2f %8.2f %8.1f\n", percentile_ns(m, samples, 0.5) / 1000,
			percentile_ns(m, samples, 0.99) / 1000, operations_per_s(samples) / 1000);
	} else {
		fprintf(out, "  %s\n", samples->verdict.outcome == OUTCOME_SKIPPED ? "skipped" : "FAILED");
		print_reason(out, samples->verdict.reason);
	}
	fflush(out);
}
