/* nearest.h: "did you mean". */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

/* "; did you mean 'causal'?" for the known name that is fewest changes away, as long as these are few; else "". `hint`
   has room for the text. */
const char *nearest_hint(const char *typed, const char *const *known, int n, char hint[static 96]);

#endif
