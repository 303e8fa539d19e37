/* progress.c: how far we are. */
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

progress progress_start(const char *what)
{
    const char *terminal = getenv("TERM");
    int shown = isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
    return (progress){what, shown, -1};
}

static int coloured(void)
{
    const char *no = getenv("NO_COLOR");
    return !(no && *no);
}

void progress_show(double done, void *context)
{
    progress *bar = context;
    int percent = (int)(100 * done);
    if (!bar->shown || percent == bar->percent) return;
    bar->percent = percent;
    char cells[41];
    for (int i = 0; i < 40; i++) cells[i] = i < percent * 40 / 100 ? '#' : '.';
    cells[40] = 0;
    const char *on = coloured() ? "\x1b[32m" : "", *off = coloured() ? "\x1b[0m" : "";
    fprintf(stderr, "\r%s%s%s %3d %% %-40s", on, cells, off, percent, bar->what);
    fflush(stderr);
}

void progress_end(progress *bar)
{
    if (bar->percent >= 0) fprintf(stderr, "\r%*s\r", 90, "");
    bar->percent = -1;
}
