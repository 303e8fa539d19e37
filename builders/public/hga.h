/* hga.h: hierarchical graph attention on CPUs. This page is what most programs need; at its end it includes the headers
   of libhga, which say everything in full. (Graphs and documents in other programs' files: hga_files.h.)

   A GRAPH says who attends to whom: tokens, nodes that stand for groups of tokens, and edges between them. A PROGRAM
   says what is computed along the edges, stage after stage. A builder makes both. A PLAN is a program on a graph, made
   ready for a shape (heads, columns), a number of threads and a machine; many threads may share it. A WORKSPACE is the
   memory of one caller. Each call has its tensors: an execution reads queries, keys and values and writes the
   output. A gradient call computes their gradients from the output's.

       hga_build                a published hierarchy and its settings in words, over n tokens: graph and program.
                                hga_variants.h lists them; hga_builders.h has a function and a struct for each
       hga_attention            all at once: plan, workspace, execution. To run often, use the next three
       hga_plan_create          check the program against the graph, and plan. Options NULL: the defaults
       hga_workspace_create     memory for the plan's executions; one for each thread of yours that calls
       hga_plan_execute         run on the tensors of an hga_io
       hga_plan_tape_bytes      bytes of the tape that an execution writes for a gradient
       hga_plan_gradient        gradients of what the execution read, given those of what it wrote (hga_grad_io)
       hga_workspace_destroy    free, in this order ..
       hga_plan_destroy
       hga_graph_destroy        .. NULL is accepted by all three
       hga_error_detail         what was wrong with the last call of this thread that did not return HGA_OK

   Functions that can fail return an hga_status, HGA_OK being 0. HGA_TRY(call) goes to `done` when a call fails.

   Structs that you fill are zero but for what you name, and 0 is the default of everything: hga_shape (heads and
   columns), hga_tensor (data, rows, perhaps strides and a type of 16 bits), hga_io (the tensors of a call, its scale
   and tables), hga_options (threads, precision, gradient, dropout). Parameters of hierarchies (hga_builders.h) have
   other defaults, which hga_defaults(&p) sets. Tensors are [rows][heads][columns], stay yours, and are read and written
   where they are. Their rows are tokens, or nodes for a few programs, as the program's fields say.

   Attention of 1000 tokens to their own past, exactly to the near and by means to the far, and its gradients:

       #include <hga.h>
       #include <stdio.h>
       #include <stdlib.h>

       enum { N = 1000, HEADS = 4, DIM = 32 };
       static float query[N][HEADS][DIM], key[N][HEADS][DIM], value[N][HEADS][DIM], out[N][HEADS][DIM];
       static float d_out[N][HEADS][DIM], d_query[N][HEADS][DIM], d_key[N][HEADS][DIM], d_value[N][HEADS][DIM];

       int main(void)
       {
           hga_status st;
           hga_graph *graph = NULL;
           hga_program program;
           hga_plan *plan = NULL;
           hga_workspace *workspace = NULL;
           void *tape = NULL;
           for (int i = 0; i < N; i++) query[i][0][0] = key[i][0][0] = value[i][0][0] = 1, d_out[i][0][0] = 1;

           HGA_TRY(hga_build("htransformer block=16 causal=1", N, &graph, &program));
           hga_shape shape = {.n_heads = HEADS, .dim = DIM};
           hga_options options = {.gradient = 1}; // NULL in its place where no gradient is wanted
           HGA_TRY(hga_plan_create(graph, &program, &shape, &options, &plan));
           HGA_TRY(hga_workspace_create(plan, &workspace));
           tape = malloc((size_t)hga_plan_tape_bytes(plan));

           // As often as you like, with other tensors: nothing is planned again.
           hga_io io = {.query = {.data = query, .rows = N}, .key = {.data = key, .rows = N},
                        .value = {.data = value, .rows = N}, .out = {.data = out, .rows = N}, .tape = tape};
           HGA_TRY(hga_plan_execute(plan, workspace, &io));
           hga_grad_io grad = {.d_out = {.data = d_out, .rows = N}, .d_query = {.data = d_query, .rows = N},
                               .d_key = {.data = d_key, .rows = N}, .d_value = {.data = d_value, .rows = N}};
           HGA_TRY(hga_plan_gradient(plan, workspace, &io, &grad));
           printf("the output is %.3f, and value 0 has the gradient %.3f\n", out[N - 1][0][0], d_value[0][0][0]);
       done:
           if (st != HGA_OK) fprintf(stderr, "%s: %s\n", hga_status_name(st), hga_error_detail());
           free(tape);
           hga_workspace_destroy(workspace);
           hga_plan_destroy(plan);
           hga_graph_destroy(graph);
           return st != HGA_OK;
       }

   cc -std=c11 first.c $(pkg-config --cflags --libs hga) -o first

   A hierarchy of your own is made with hga_builder (hga_graph.h) and hga_program_attention, or stage by stage
   (hga_program.h); docs/c.md does it step by step, and docs/howto-c.md has a program for each of the other headers. */
#ifndef HGA_H
#define HGA_H
#include "hga_builders.h" /* the published hierarchies, a function and a struct of parameters each */
#include "hga_call.h"     /* tables: scale, biases, positions, sinks, slopes and what else a call may bring */
#include "hga_decode.h"   /* token by token, with a cache */
#include "hga_select.h"   /* attention chosen by content: which blocks */
#include "hga_dist.h"     /* what carries messages between ranks */
#include "hga_exchange.h" /* ranks: several processes share one call */
#include "hga_gradient.h" /* gradients */
#include "hga_graph.h"    /* graphs: built, looked at, put in order */
#include "hga_halo.h"     /* what ranks send each other, before they do */
#include "hga_inspect.h"  /* who sees whom, with what weight */
#include "hga_machine.h"  /* instruction sets and threads */
#include "hga_plan.h"     /* plans, workspaces, options, tensors, executions, batches */
#include "hga_program.h"  /* programs: fields and stages */
#include "hga_variants.h" /* the published hierarchies by name */
#endif
