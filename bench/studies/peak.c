/* peak COMMAND..: run it; print seconds and peak memory to stderr as "SECONDS s, KILOBYTES kB"; exit with its status.
   */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int n_words, char **word)
{
    if (n_words < 2) return fprintf(stderr, "peak COMMAND..\n"), 2;
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        execvp(word[1], word + 1);
        perror(word[1]);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) < 0) return perror("peak"), 2;
    fprintf(stderr, "%.2f s, %ld kB\n", now() - start, used.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
