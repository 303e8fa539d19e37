/* progress.c: the progress bar. */
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

progress progress_start(const char *what)
{
    const char *terminal = getenv("TERM");
    int shown = isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
    return (progress){what, shown, -1, bench_seconds(), 0};
}

static int coloured(void)
{
    const char *no = getenv("NO_COLOR");
    return !(no && *no);
}

/* ", 3 s left", ", 12 min left", after `passed` seconds for a share done; "" as long as that says little. */
static const char *progress_left(double done, double passed, char text[static 32])
{
    double left = done > 0 ? passed / done * (1 - done) : 0;
    text[0] = 0;
    if (done < 0.02 || done >= 1 || passed < 1) return text;
    if (left < 100)
        snprintf(text, 32, ", %d s left", (int)(left + 0.999));
    else if (left < 100 * 60)
        snprintf(text, 32, ", %d min left", (int)(left / 60 + 0.999));
    else
        snprintf(text, 32, ", %d h left", (int)(left / 3600 + 0.999));
    return text;
}

/* Draws the bar again when another percent is done, or after half a second. */
void progress_show(double done, void *context)
{
    progress *bar = context;
    int percent = (int)(100 * done);
    if (!bar->shown) return;
    double at = bench_seconds();
    if (percent == bar->percent && at < bar->drawn + 0.5) return;
    bar->percent = percent, bar->drawn = at;
    char cells[41], left[32], line[80];
    snprintf(line, sizeof line, "%s%s", bar->what, progress_left(done, at - bar->started, left));
    for (int i = 0; i < 40; i++) cells[i] = i < percent * 40 / 100 ? '#' : '.';
    cells[40] = 0;
    const char *on = coloured() ? "\x1b[32m" : "", *off = coloured() ? "\x1b[0m" : "";
    fprintf(stderr, "\r%s%s%s %3d %% %-40s", on, cells, off, percent, line);
    fflush(stderr);
}

void progress_end(progress *bar)
{
    if (bar->percent >= 0) fprintf(stderr, "\r%*s\r", 90, "");
    bar->percent = -1;
}
