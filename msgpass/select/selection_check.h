/* selection_check.h: checks of a selection (check.c, choosers.c): HGA_EINVAL names what is wrong. */
#ifndef SELECTION_CHECK_H
#define SELECTION_CHECK_H

#include "select.h"

/* Checks whether the selection can choose from this input. */
hga_status selection_check(const hga_selection *s, const hga_select_input *in);
/* choosers.c: checks whether k is one number, or one for each of n choosers. */
hga_status selection_check_choosers(const hga_selection *s, hga_id n);
/* Checks a tensor of n rows; HGA_EUNSUPPORTED for a folded one. `name` is its name in errors. */
hga_status selection_check_tensor(const char *name, const hga_tensor *t, hga_id n);

#endif
