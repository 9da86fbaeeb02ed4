/* For test_verbs_bench.py: durations in ns, one a line, to a result as the benchmark writes it. */
#include <stdlib.h>
#include <string.h>

#include "samples.h"

int main(int count, char **arguments)
{
	struct measurement m = {.id = "probe", .size_bytes = 64, .qps = 1, .depth = 1, .iterations = 1,
				.method = count > 1 && !strcmp(arguments[1], "half") ? HALF_ROUND_TRIP : COMPLETION};
	struct samples samples = samples_open(100000);
	unsigned long long value;

	while (samples.count < samples.room && scanf("%llu", &value) == 1) {
		samples.ticks[samples.count++] = value;
		samples.end += value;
	}
	samples.mtu_bytes = 1024;
	samples_write(stdout, &m, &samples);
	samples_close(&samples);
	return 0;
}
