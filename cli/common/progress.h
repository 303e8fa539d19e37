/* progress.h: a bar on stderr, on terminals only, with an estimate of what is left. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

typedef struct progress {
    const char *what;
    int shown, percent;    /* percent -1: nothing drawn yet */
    double started, drawn; /* seconds by the clock */
} progress;

/* ", 3 s left", ", 12 min left", after `passed` seconds for a share done; "" as long as that says little. */
const char *progress_left(double done, double passed, char text[static 32]);

/* Nothing is drawn unless stderr is a terminal. */
progress progress_start(const char *what);
/* An hga_progress; `bar` is a progress. */
void progress_show(double done, void *bar);
/* Clear the line. */
void progress_end(progress *bar);

#endif
