/* command.h: the table of subcommands. To add one, write its file and add a row to main.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

typedef struct command {
    const char *name, *says;
    int (*run)(int argc, char **argv); /* argv[0] is "hga NAME"; returns the exit status */
    int shares;                        /* several ranks can do it together (world.h) */
    int more;                          /* `hga help --all` has it, `hga help` does not */
} command;

int run_run(int argc, char **argv);
int run_build(int argc, char **argv);
int run_attend(int argc, char **argv);
int run_decode(int argc, char **argv);
int run_inspect(int argc, char **argv);
int run_check(int argc, char **argv);
int run_export(int argc, char **argv);
int run_explain(int argc, char **argv);
int run_bench(int argc, char **argv);
int run_flops(int argc, char **argv);
int run_view(int argc, char **argv);
int run_choose(int argc, char **argv);
int run_variants(int argc, char **argv);
int run_tensor(int argc, char **argv);
int run_topo(int argc, char **argv);

#endif
