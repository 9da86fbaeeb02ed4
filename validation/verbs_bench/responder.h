/* The server: memory and queue pairs for one measurement after the other, and the part that its CPU takes. */
#ifndef RPSIM_VERBS_RESPONDER_H
#define RPSIM_VERBS_RESPONDER_H

#include "control.h"
#include "region.h"

/* Serves one client until it goes. */
void serve(struct control *control, const struct places *places);

#endif
