/* nearest.c: the name that was probably meant. */
#include "complain.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 63 };

static int least(int a, int b) { return a < b ? a : b; }

/* letters to insert, drop, change or swap with the next (Damerau, Levenshtein) */
static int changes(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), row[3][LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return LONGEST;
    int *before = row[0], *last = row[1], *now = row[2];
    for (int j = 0; j <= m; j++) last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
        int *spare = before;
        before = last, last = now, now = spare;
    }
    return last[m];
}

/* A typed beginning of a name counts as one change, and a hint needs fewer changes than the name has characters. */
const char *nearest_hint(const char *typed, const char *const *known, int n, char hint[static 96])
{
    int best = -1, distance = 0;
    for (int i = 0; i < n; i++) {
        int d = changes(typed, known[i]);
        if (strlen(typed) > 2 && strncmp(known[i], typed, strlen(typed)) == 0) d = 1; /* its beginning */
        if (best < 0 || d < distance) best = i, distance = d;
    }
    hint[0] = 0;
    if (best >= 0 && distance <= 1 + (int)strlen(typed) / 4 && distance < (int)strlen(known[best]))
        snprintf(hint, 96, "; did you mean '%s'?", known[best]);
    return hint;
}
