/* main.c: the subcommands, help and version. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "complain.h"
#include "outfile.h"
#include "table.h"
#include "variant.h"
#include "version.h"
#include "world.h"

static const command commands[] = {
    {"run", "every variant on a text, in one table", run_run, 0, 0},
    {"build", "a variant's graph, to a file", run_build, 0, 0},
    {"attend", "attention on tensors from .npy files", run_attend, 1, 0},
    {"decode", "a causal variant fed token by token, or in chunks", run_decode, 0, 0},
    {"inspect", "what a graph is, and who sees whom in it", run_inspect, 0, 0},
    {"check", "a graph's rules, its coverage and causality", run_check, 0, 0},
    {"export", "a graph in another format", run_export, 0, 0},
    {"explain", "the plan of a variant: stages, kernels, threads, workspace", run_explain, 0, 0},
    {"bench", "benchmark tables", run_bench, 1, 0},
    {"flops", "operation counts by formula and by counting edges", run_flops, 0, 1},
    {"view", "a graph as an interactive page, one .html file", run_view, 0, 0},
    {"choose", "variants and parameters against dense attention on given tensors: error, FLOP, time", run_choose, 0, 0},
    {"variants", "the hierarchies that are built in, with their parameters", run_variants, 0, 0},
    {"tensor", "the arrays in a .npy, .npz or .safetensors file", run_tensor, 0, 1},
    {"topo", "the machine as the engine sees it", run_topo, 0, 1},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

/* Complains about a name that is no subcommand nor, if `variants`, a variant; suggests the nearest. */
static int complain_of_name(const char *name, int variants)
{
    enum { MOST = 64 };
    const char *known[MOST];
    char hint[96];
    int n = 0;
    const char *here = variants ? hga_variant_elsewhere(name) : NULL;
    if (here) return complain(CLI_USAGE, "no subcommand and no variant '%s': as a variant it is %s", name, here);
    if (!variants && hga_variant_named(name))
        return complain(CLI_USAGE, "'%s' is a variant, not a subcommand: `hga help %s` has its parameters", name, name);
    for (size_t i = 0; i < N_COMMANDS; i++) known[n++] = commands[i].name;
    for (const hga_variant *v = hga_variants(); variants && v->name && n < MOST; v++) known[n++] = v->name;
    nearest_hint(name, known, n, hint);
    return complain(CLI_USAGE, "no subcommand%s '%s'%s", variants ? " and no variant" : "", name,
                    *hint ? hint : "; `hga help` lists them");
}

/* ---- help and version ---- */

/* the subcommands that beginners need, or all */
static int print_help(int all)
{
    int left_out = 0;
    printf("Usage: hga SUBCOMMAND [OPTION...]\n       hga help SUBCOMMAND|VARIANT [--all]\n       hga version "
           "[--json]\n\nHierarchical graph attention on CPUs.\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].more && !all)
            left_out++;
        else
            printf("  %-8s  %s\n", commands[i].name, commands[i].says);
    if (left_out) printf("\n%d more: `hga help --all`\n", left_out);
    printf("\nExit status: 0 good, 1 a check failed, 2 wrong usage, 3 bad input data, 4 out of memory or an external "
           "failure.\n");
    return CLI_GOOD;
}

/* The version, the commit, the compiler and the instruction sets; in JSON the packages as well. */
static int print_version(int json)
{
    if (!json) {
        printf("hga %s (%s), %s, isa: %s\n", hga_version(), BUILD_COMMIT, BUILD_COMPILER, hga_isa_list());
        return CLI_GOOD;
    }
    json_t *packages =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "jansson", BUILD_JANSSON, "hwloc", BUILD_HWLOC, "icu", BUILD_ICU,
                  "cxsparse", BUILD_CXSPARSE, "metis", BUILD_METIS, "openmp", BUILD_OPENMP);
    return json_print(stdout, json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "version", hga_version(), "commit",
                                        BUILD_COMMIT, "compiler", BUILD_COMPILER, "build_type", BUILD_TYPE, "isa",
                                        json_words(hga_isa_list()), "packages", packages));
}

/* --version and --json in any order, and nothing else */
static int version(int argc, char **argv)
{
    int json = 0;
    if (argc == 3 && strcmp(argv[2], "--help") == 0) return print_help(0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = 1;
        else if (strcmp(argv[i], "--version") != 0 && (i > 1 || strcmp(argv[i], "version") != 0))
            return complain(CLI_USAGE, "unexpected argument '%s' beside %s", argv[i], argv[1]);
    }
    return print_version(json);
}

/* ---- dispatch ---- */

static int asks_for_help(int argc, char **argv)
{
    return argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "--help-all") == 0);
}

/* Under mpirun only commands that share their work run, though all of them give help. */
static int run_command(const char *name, int argc, char **argv)
{
    const command *c = find_command(name);
    if (!c) return complain_of_name(name, 0);
    if (world_ranks() > 1 && !c->shares && !asks_for_help(argc, argv))
        return complain(CLI_USAGE, "%s: works in one process, and mpirun has started %d", name, world_ranks());
    char title[32];
    snprintf(title, sizeof title, "hga %s", c->name);
    argv[0] = title;
    return c->run(argc, argv);
}

/* What the tool says of itself: its own help has all that there is to say of it. */
static int is_of_tool(const char *name) { return strcmp(name, "help") == 0 || strcmp(name, "version") == 0; }

/* hga help NAME is hga NAME --help, or a variant's description; with --all nothing is left out */
static int help(int argc, char **argv)
{
    char option[] = "--help", every[] = "--help-all";
    int all = argc > 2 && strcmp(argv[argc - 1], "--all") == 0;
    char *shown[] = {NULL, all ? every : option, NULL};
    argc -= all;
    if (argc == 2 || (argc == 3 && is_of_tool(argv[2]))) return print_help(all);
    if (argc > 3) return complain(CLI_USAGE, "unexpected argument '%s'", argv[3]);
    if (find_command(argv[2])) return run_command(argv[2], 2, shown);
    const hga_variant *v = hga_variant_named(argv[2]);
    if (!v && strcmp(argv[2], "graph") != 0 && strncmp(argv[2], "graph=", 6) != 0) return complain_of_name(argv[2], 1);
    variant_print(stdout, v);
    return CLI_GOOD;
}

static int wants_version(int argc, char **argv)
{
    return strcmp(argv[1], "--version") == 0 ||
           (argc > 2 && strcmp(argv[1], "--json") == 0 && strcmp(argv[2], "--version") == 0);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) return complain(CLI_USAGE, "a subcommand is missing; `hga help` lists them");
    if (strcmp(argv[1], "help") == 0) return help(argc, argv);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return print_help(0);
    if (wants_version(argc, argv) || strcmp(argv[1], "version") == 0) return version(argc, argv);
    if (argv[1][0] == '-') return complain(CLI_USAGE, "unknown option '%s'", argv[1]);
    return run_command(argv[1], argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    outfile_reserve_standard_streams();
    outfile_watch_signals();
    int status = world_open(argc > 1 ? argv[1] : "");
    if (!status) status = world_close(dispatch(argc, argv));
    if (fflush(stdout) != 0 || ferror(stdout))
        return status ? status : complain(CLI_OUTSIDE, "standard output cannot be written");
    return status;
}
