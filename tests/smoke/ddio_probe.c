/* For test_verbs_bench.py: what the benchmark says of DDIO for a device's folder. */
#include <stdio.h>

#include "ddio.h"

int main(int count, char **arguments)
{
	puts(count > 1 ? ddio_state(arguments[1]) : "");
	return 0;
}
