/* What has to be known of a machine to make sense of its numbers. */
#ifndef RPSIM_VERBS_MACHINE_H
#define RPSIM_VERBS_MACHINE_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "control.h"

/* Ends the program if there is no RDMA device, or none with a port that is up. */
void machine_check(void);

/* A JSON object; `control` says which device, port and GID. */
void machine_facts(const struct control *control, char *text, size_t room);

#endif
