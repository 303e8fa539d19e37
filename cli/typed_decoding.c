/* typed_decoding.c: words for chunks, forks, cuts and files of caches. */
#include "typed_decoding.h"

#include <string.h>

#include "arguments.h"
#include "numbers.h"
#include "outfile.h"

/* Sizes with commas between them, or random:SEED. */
static int read_chunks(const char *text, void *input)
{
    typed_decoding *out = input;
    int64_t seed = 0;
    out->chunks_text = text;
    out->random_chunks = strncmp(text, "random:", 7) == 0;
    if (!out->random_chunks) return read_list("--chunks", text, 1, INT32_MAX, MOST_CHUNKS, &out->n_chunks, out->chunk);
    int status = read_whole("--chunks random", text + 7, 0, INT64_MAX, &seed);
    out->seed = (uint64_t)seed;
    return status;
}

/* T:BACK */
static int read_cut(const char *text, void *input)
{
    typed_decoding *out = input;
    char at[32];
    size_t n = strcspn(text, ":");
    if (!text[n] || n >= sizeof at) return complain(CLI_USAGE, "--cut: '%s' is not T:BACK", text);
    memcpy(at, text, n), at[n] = 0;
    int status = read_id("--cut", at, 1, INT32_MAX, &out->cut_at);
    return status ? status : read_id("--cut", text + n + 1, 1, out->cut_at, &out->back);
}

static void start(void *input)
{
    typed_decoding *typed = input;
    typed->fork_at = typed->cut_at = typed->save_at = NEVER, typed->n_chunks = 1, typed->chunk[0] = 1;
}

static const option_row options[] = {
    {"chunks", READ(read_chunks), "LIST", 0,
     "numbers of tokens of the appends; the list is repeated. random:SEED: 1 to 64, drawn at random (default: 1)", 5},
    {"same", FLAG(typed_decoding, same), NULL, 0,
     "rows have the bits that `hga attend` gives them (default: within 2e-6)", 5},
    {"fork-at", ID(typed_decoding, fork_at, 0, INT32_MAX), "T", 0,
     "fork the cache when it has T tokens, and continue in the fork", 5},
    {"cut", READ(read_cut), "T:BACK", 0, "when the cache has T tokens, take back the last BACK and append them again",
     5},
    {"save", TEXT(typed_decoding, save), "FILE", 0, "write the cache to a file", 5},
    {"save-at", ID(typed_decoding, save_at, 0, INT32_MAX), "T", 0,
     "save the cache when it has T tokens (default: at the end)", 5},
    {"resume", TEXT(typed_decoding, resume), "FILE", 0,
     "start with the cache of a file; the tensors also have its tokens, whose rows of the output are NaN", 5},
    {0},
};
const option_list decoding_list = {.rows = options, .start = start};

int decoding_check(const typed_decoding *typed, const attend_paths *paths)
{
    const outfile_wish files[] = {{"--out", paths->out}, {"--lse", paths->lse}, {"--save", typed->save}};
    if (typed->save_at != NEVER && !typed->save) return complain(CLI_USAGE, "--save-at: there is no --save FILE");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].path && outfile_same(files[i].path, "-"))
            return complain(CLI_USAGE, "%s %s: standard output has the table", files[i].option, files[i].path);
    return outfiles_apart(files, (int)(sizeof files / sizeof *files));
}

/* A cache that is resumed cannot be forked, cut or saved before where it ends. */
int decoding_check_tokens(const typed_decoding *typed, hga_id first, hga_id end)
{
    const struct {
        const char *option;
        hga_id at;
    } moments[] = {{"--fork-at", typed->fork_at}, {"--cut", typed->cut_at}, {"--save-at", typed->save_at}};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        if (moments[i].at == NEVER) continue;
        if (moments[i].at > end)
            return complain(CLI_USAGE, "%s: %d is beyond the %d tokens", moments[i].option, moments[i].at, end);
        if (moments[i].at < first)
            return complain(CLI_USAGE, "%s: the cache of %s has %d tokens already, not %d", moments[i].option,
                            typed->resume, first, moments[i].at);
    }
    return CLI_GOOD;
}

hga_id decoding_chunk(const typed_decoding *typed, uint64_t i)
{
    if (typed->random_chunks) return 1 + (hga_id)(number_bits(typed->seed, i) % LONGEST_RANDOM_CHUNK);
    return typed->chunk[i % (uint64_t)typed->n_chunks];
}
