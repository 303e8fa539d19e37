/* attend_rest.h: a row's state, begun and continued (attend_rows.c). */
#ifndef ATTEND_REST_H
#define ATTEND_REST_H

#include "attend.h"

/* Initializes a row with an empty state, or with its output's state where the stage continues from that. */
void attend_start(worker *w, const row_job *job);

/* Attends to the row's edges outside the segments `done`, continuing the current state, and stores it. */
void attend_rest(worker *w, const row_job *job, const uint16_t *done, unsigned done_bits);

#endif
