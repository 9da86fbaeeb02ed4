/* The client: makes the operations of a measurement and times them. */
#ifndef RPSIM_VERBS_REQUESTER_H
#define RPSIM_VERBS_REQUESTER_H

#include "control.h"
#include "samples.h"

/* Agrees with the server, measures, lets go of everything again. False: the server is gone. */
bool measure(struct control *control, const struct measurement *m, struct samples *samples);

#endif
