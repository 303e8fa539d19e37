/* progress.h: a bar on stderr, on terminals only, with an estimate of what is left. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

typedef struct progress {
    const char *what;
    int shown, percent;    /* percent -1: nothing drawn yet */
    double started, drawn; /* seconds by the clock */
} progress;

/* Nothing is drawn unless stderr is a terminal. */
progress progress_start(const char *what);
/* An hga_progress; `bar` is a progress. */
void progress_show(double done, void *bar);
/* Clear the line. */
void progress_end(progress *bar);

#endif
