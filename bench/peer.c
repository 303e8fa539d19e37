/* peer.c: the table of peers. To add one, write its file and add a row. */
#include "peer.h"

#include <string.h>

const peer *const peers[] = {&peer_openblas, &peer_passes, &peer_graphblas, NULL};

/* the bit of a word of n bytes; 0: none */
static unsigned bit_of(const char *word, size_t n)
{
    for (int i = 0; peers[i]; i++)
        if (strlen(peers[i]->name) == n && strncmp(peers[i]->name, word, n) == 0) return 1u << i;
    return 0;
}

hga_status peers_read(const char *list, unsigned *out)
{
    *out = strcmp(list, "all") == 0 ? ~0u : 0;
    if (*out || strcmp(list, "none") == 0) return HGA_OK;
    for (const char *word = list;; word += strcspn(word, ",") + 1) {
        size_t n = strcspn(word, ",");
        unsigned bit = bit_of(word, n);
        if (!bit) return hga_fail(HGA_EINVAL, "'%.*s' is not one of: openblas passes graphblas all none", (int)n, word);
        *out |= bit;
        if (!word[n]) return HGA_OK;
    }
}
