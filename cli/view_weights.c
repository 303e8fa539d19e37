/* view_weights.c: the edges of all query tokens, token after token, with their weights. */
#include "view_weights.h"

#include <stdlib.h>

#include "progress.h"

enum { MOST_WEIGHTS = 1 << 20 };

static int grow_numbers(int64_t room, int64_t **x)
{
    int64_t *more = realloc(*x, (size_t)room * sizeof **x);
    if (!more) return complain(CLI_OUTSIDE, "out of memory: %lld edges", (long long)room);
    *x = more;
    return CLI_GOOD;
}

/* Room for n edges and the weights of their heads. */
static int room_for(int64_t n, view_weights *w)
{
    int64_t room = 2 * n + 64;
    int status = CLI_GOOD;
    if (n <= w->room) return status;
    TRY(grow_numbers(room, &w->stage));
    TRY(grow_numbers(room, &w->destination));
    TRY(grow_numbers(room, &w->source));
    float *value = realloc(w->value, (size_t)(room * w->heads) * sizeof *value);
    if (!value) TRY(complain(CLI_OUTSIDE, "out of memory: %lld edges", (long long)room));
    w->value = value, w->room = room;
done:
    return status;
}

static hga_status count_edge(const hga_seen *seen, void *context)
{
    (void)seen;
    ++*(int64_t *)context;
    return HGA_OK;
}

/* Counting is quick, weighing is not: nobody should wait to hear that it was too much. */
static int check_room(const graph_file *f, const char *path, hga_id n_queries, hga_id heads)
{
    int64_t n = 0;
    for (hga_id token = 0; token < n_queries; token++) {
        int status = complain_of(hga_program_row(&f->program, f->graph, token, count_edge, &n), CLI_DATA, path);
        if (status) return status;
    }
    if (n * heads <= MOST_WEIGHTS) return CLI_GOOD;
    return complain(CLI_USAGE, "--query: %lld edges of %d tokens in %d head%s are more than the %d weights of a page%s",
                    (long long)n, n_queries, heads, heads == 1 ? "" : "s", MOST_WEIGHTS,
                    n <= MOST_WEIGHTS ? "; --head H takes one head" : "");
}

/* Heads from l's head `first` on. */
static int add_token(const row_edge_list *l, hga_id token, hga_id first, view_weights *w)
{
    int status = CLI_GOOD;
    TRY(room_for(w->n + l->n, w));
    for (int64_t i = 0; i < l->n; i++, w->n++) {
        w->stage[w->n] = l->seen[i].stage;
        w->destination[w->n] = l->seen[i].destination;
        w->source[w->n] = l->seen[i].source;
        for (hga_id h = 0; h < w->heads; h++)
            w->value[w->n * w->heads + h] = (float)l->weight[i * l->heads + first + h];
    }
    w->count[token] = l->n;
done:
    return status;
}

/* The edges of all query tokens with their weights, telling how far it is. */
static int weigh_tokens(const graph_file *f, const row_tensors *t, hga_id n_queries, view_weights *w)
{
    progress bar = progress_start("weighing");
    int status = take(n_queries, sizeof *w->count, &w->count);
    for (hga_id token = 0; token < n_queries && !status; token++) {
        row_edge_list l = {0};
        progress_show((double)token / n_queries, &bar);
        status = row_weights(f, t, token, &l);
        if (status == CLI_GOOD) status = add_token(&l, token, w->first_head - t->first, w);
        free(l.seen);
        free(l.weight);
    }
    progress_end(&bar);
    return status;
}

/* One head's weights, or all heads', once it is known that there are not too many for a page. */
int view_weigh(const weighing *by, const graph_file *f, const char *path, hga_id head, int quiet, view_weights *out)
{
    row_tensors t = {0};
    hga_id n_queries = hga_graph_nodes(f->graph).n_queries;
    int status = CLI_GOOD;
    *out = (view_weights){0};
    if (!f->text) return complain(CLI_DATA, "--query: %s has no program: %s", path, f->lacks);
    TRY(row_tensors_read(by, f, path, &t));
    if (!quiet) tensor_file_say(&t.io.query);
    if (head >= t.io.shape.n_heads)
        TRY(complain(CLI_USAGE, "--head: %d, but %s has heads 0 .. %d", head, by->tensors.query,
                     t.io.shape.n_heads - 1));
    out->first_head = head < 0 ? t.first : head;
    out->heads = head < 0 ? t.heads : 1;
    TRY(check_room(f, path, n_queries, out->heads));
    TRY(weigh_tokens(f, &t, n_queries, out));
done:
    row_tensors_clear(&t);
    return status;
}

void view_weights_clear(view_weights *w)
{
    free(w->count);
    free(w->stage);
    free(w->destination);
    free(w->source);
    free(w->value);
    *w = (view_weights){0};
}
