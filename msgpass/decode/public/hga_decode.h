/* hga_decode.h: token by token. A program on a causal graph computes a token's rows when the token comes. In every
   hierarchy the cache holds the rows that later tokens read, and nothing else. You append the queries, keys and values
   of new tokens and get their rows of the output. Make the graph of the longest sequence once. A decoder on it is
   const; any number of caches, layers and threads may share it. */
#ifndef HGA_DECODE_H
#define HGA_DECODE_H

#include "hga_exchange.h"
#include "hga_plan.h"
#include "hga_select.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hga_decoder hga_decoder;
typedef struct hga_decode_workspace hga_decode_workspace;
typedef struct hga_pages hga_pages;
typedef struct hga_cache hga_cache;

typedef struct hga_decode_options {
    hga_options plan; /* threads, isa, precision, generic, cut_edges, allocator, ..; no edge_bias, gradient, dropout */
    hga_id rollback;  /* hga_cache_cut can remove at least so many tokens; the rows that this needs stay cached */
    hga_id page_rows; /* rows of a page: a power of two, at most 64; 0: 16 */
    /* 1: rows of the output have the bits that hga_plan_execute gives them on the decoder's graph with the same
       options, however the tokens were cut into appends, and whatever is appended with them. 0: within 2e-6 of these */
    int same_bits;
    /* HGA_BF16: pages hold the keys, values and queries of your tensors in 16 bits, rounded to nearest even once, when
       they are appended; the output is then that of rounded tensors. Rows that the program computes of them are cached
       unrounded. Else HGA_F32 */
    hga_dtype page_type;
    /* NULL, or how each token chooses the blocks of earlier tokens that it sees (copied). It must be causal, with
       query_block 1 and without scores of the caller's, and the graph must be hga_build_routed_decoder's. The same rows
       result from hga_select_blocks, hga_build_routed and hga_plan_execute over all tokens. A cache has one row more
       for each complete block */
    const hga_selection *selection;
    /* Above 1: in an append of several tokens, blocks of so many queries, counted from token 0, choose together. They
       choose by the mean of the queries that the append has, or by samples of them, so a choice reads up to prefill - 1
       tokens ahead. A selection whose score is sampled needs this; a single token then chooses by means. 0: as 1 */
    hga_id prefill;
    uint64_t reserved[2]; /* 0 */
} hga_decode_options;

/* Make a decoder of at most as many tokens as the graph has, which is held by reference; `o` may be NULL.
   HGA_EUNSUPPORTED, with the token and the later one that it sees, where a row of the output depends on a later token;
   and for programs without meaning token by token: queries that are other tokens than keys, tensors of HGA_IO_USER,
   programs whose rows cannot stay (HGA_ROWS_THAT_STAY). With a selection, for graphs on which not every block can be
   chosen, and for scores that rows of chosen blocks do not support; appends refuse such tables likewise. */
HGA_API hga_status hga_decoder_create(const hga_graph *capacity, const hga_program *p, const hga_shape *shape,
                                      const hga_decode_options *o, hga_decoder **out);
/* Free a decoder, after its pages and workspaces; NULL is accepted. */
HGA_API void hga_decoder_destroy(hga_decoder *d);

/* The most tokens of a cache. */
HGA_API hga_id hga_decoder_tokens(const hga_decoder *d);
/* The rows that tensors have of tokens [first_token, first_token + n): the nodes, ordered by the token with which they
   are whole, then by number. They are the tokens themselves where the program's tensors have rows of tokens; where they
   have rows of nodes, spans come with their last token. Writes at most `capacity` of them; returns how many there
   are; -1 where the tokens are not the graph's. */
HGA_API hga_id hga_decoder_rows(const hga_decoder *d, hga_id first_token, hga_id n, hga_id *node, hga_id capacity);
/* Bytes of the pages that a cache of so many tokens holds, none of which are shared; -1 where the graph has fewer. */
HGA_API int64_t hga_decoder_cache_bytes(const hga_decoder *d, hga_id tokens);
/* Rows that a cache of so many tokens holds: keys, values and whatever else later tokens read; -1 where the graph has
   fewer tokens. */
HGA_API int64_t hga_decoder_cache_rows(const hga_decoder *d, hga_id tokens);
/* Rows that a cache of so many tokens holds of nodes of one level of the graph; -1 where the graph has fewer tokens, or
   no such level. */
HGA_API int64_t hga_decoder_cache_level_rows(const hga_decoder *d, hga_id tokens, hga_id level);

/* Bytes of a workspace of the decoder before its first append: four for each node of the graph and each field, the
   threads' scratch memory, and a few rows. Appends add copies of the cache's computed rows (coarse keys and values),
   and rows for an append's inputs and results. How many depends on the cache and on the length of appends, not on the
   number of tokens so far. A cache's keys, values and queries are read in its pages; they are copied only if pages are
   of 16 bits or the plan rounds rows. */
HGA_API int64_t hga_decoder_workspace_bytes(const hga_decoder *d);
/* Make a workspace for appends: one for each thread that calls hga_decoder_append at a time. It serves the caches of
   all pools of the decoder; appending to the cache that it served last is faster. */
HGA_API hga_status hga_decode_workspace_create(const hga_decoder *d, hga_decode_workspace **out);
/* Bytes that a decoder's workspace has now: of its own, of the rows of the cache that it served last, and for a while
   of the longest append. May be called while another thread appends in it. */
HGA_API int64_t hga_decode_workspace_bytes(const hga_decode_workspace *w);
/* Free a decoder's workspace; NULL is accepted. */
HGA_API void hga_decode_workspace_destroy(hga_decode_workspace *w);

/* Make a pool of pages for caches: at most most_bytes (0: no limit) of the decoder's allocator. The pool reuses pages
   that caches free. Any number of threads may use a pool. It must outlive its caches; the decoder must outlive both. */
HGA_API hga_status hga_pages_create(const hga_decoder *d, int64_t most_bytes, hga_pages **out);
/* Free a pool, after its caches; NULL is accepted. */
HGA_API void hga_pages_destroy(hga_pages *p);
/* Bytes of the pages that caches hold, each counted once. */
HGA_API int64_t hga_pages_used(const hga_pages *p);
/* Bytes of all pages that the pool has allocated, free ones included. */
HGA_API int64_t hga_pages_bytes(const hga_pages *p);

/* Make an empty cache in a pool. A cache serves one call at a time. */
HGA_API hga_status hga_cache_create(hga_pages *p, hga_cache **out);
/* Free a cache, whose pages return to its pool; NULL is accepted. */
HGA_API void hga_cache_destroy(hga_cache *c);
/* How many tokens a cache has. */
HGA_API hga_id hga_cache_tokens(const hga_cache *c);
/* Make a cache of the same tokens that shares the pages: the first cache that writes to a shared page gets its own
   copy. */
HGA_API hga_status hga_cache_fork(const hga_cache *c, hga_cache **out);
/* Remove all tokens from number `tokens` on. HGA_EINVAL where they are more than the rollback since the cache was
   longest, unless none is left; nothing has changed then. */
HGA_API hga_status hga_cache_cut(hga_cache *c, hga_id tokens);

/* Write a cache as a file: its rows unchanged, with a header that identifies them, and a checksum. */
HGA_API hga_status hga_cache_write(const hga_cache *c, const char *path);
/* Read a cache from a file that hga_cache_write made. HGA_EFORMAT, naming what differs, for a file that is truncated,
   changed, or of another graph, program, shape, precision, type of pages or blocks to choose; for a decoder with
   same_bits also of another version of hga or instruction set. Files are loaded whole. */
HGA_API hga_status hga_cache_read(hga_pages *p, const char *path, hga_cache **out);

/* The next n_tokens >= 1 tokens of one cache. The tensors of `io` have the rows that hga_decoder_rows names, in
   this order, of float32; query, key and value as the program reads them, out and lse (NULL where they are not needed)
   as it writes them. Tables are those of a full pass. No tape, edge_bias or rows. With neither out nor
   lse the cache takes the tokens, and no row of the output is computed. */
typedef struct hga_append {
    hga_cache *cache;
    hga_id n_tokens;
    hga_io io;
} hga_append;

/* Tell before there are tokens whether appends may have these tables: HGA_OK, or the status that they would return.
   Rows of `io` are not read. */
HGA_API hga_status hga_decoder_check_tables(const hga_decoder *d, const hga_io *io);
/* Append to n caches, of one or several pools of the decoder, to each its own number of tokens. All or nothing: on
   failure (HGA_ENOMEM: a pool's limit, too) every cache is unchanged, and outputs are undefined. A prompt is an append
   like any other. */
HGA_API hga_status hga_decoder_append(const hga_decoder *d, hga_decode_workspace *w, const hga_append *list, hga_id n);

/* A prompt whose tokens are divided among ranks: rank r has those of [cuts[r], cuts[r + 1]), and rank `home`
   continues. */
typedef struct hga_prefill {
    const hga_exchange *exchange; /* the rank's end */
    const hga_id *cuts;           /* [n_ranks + 1], from 0 to the prompt's tokens, ascending; equal on all ranks */
    hga_id home;
    hga_cache *cache;     /* an empty one, at home; NULL on the other ranks */
    hga_io io;            /* as an append's of the rank's tokens has it; out and lse NULL */
    uint64_t reserved[4]; /* 0 */
} hga_prefill;

/* Append a prompt that ranks share. Every rank calls it, with a decoder of the same graph, program, shape, options and
   instruction set, else HGA_EINVAL; then the home's cache equals, bit for bit, that of a process which appended all
   tokens. Ranks send home only the rows that the cache holds and those on which rows above a cut depend. No row of the
   output is computed: a plan with options.ranks does that. If one rank fails, the home returns its status with an empty
   cache, and so do ranks that have not yet sent their rows. A rank that has sent them may have returned HGA_OK; its
   next call on the exchange fails. */
HGA_API hga_status hga_decoder_prefill(const hga_decoder *d, hga_decode_workspace *w, const hga_prefill *p);

#ifdef __cplusplus
}
#endif
#endif
