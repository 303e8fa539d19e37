/* npz.h: archives of arrays, .npz, packed or not. Only files/ includes this. */
#ifndef NPZ_H
#define NPZ_H

#include "hga_npy.h"

typedef struct npz npz;
/* Open the archive `path`, or, where `bytes` is not NULL, the n bytes of one that `path` is only the name of in errors;
   they must stay until it is closed. HGA_EFORMAT for anything else, and where two arrays have one name;
   HGA_EUNSUPPORTED in a build without libzip. *out is yours: npz_close. */
hga_status npz_open(const hga_allocator *a, const char *path, const void *bytes, int64_t n, npz **out);
/* Close an archive and forget what it knew; NULL is accepted. */
void npz_close(npz *z);
/* Tell how many arrays an archive has. */
int64_t npz_count(const npz *z);
/* Tell the name of an array, without ".npy", which lives as long as the archive is open; NULL: there is no array i. */
const char *npz_name(const npz *z, int64_t i);
/* Tell how many bytes array i has, as the archive says; -1 where it does not. */
int64_t npz_bytes(const npz *z, int64_t i);
/* Unpack array i, which is a .npy file, or its first `most` bytes. They are yours, *n of them in *room bytes that
   hga_delete takes with the archive's allocator. HGA_EFORMAT for an array that has fewer or more bytes than the archive
   says; for a wrong checksum only where it is read to its end. */
hga_status npz_unpack(npz *z, int64_t i, int64_t most, uint8_t **bytes, int64_t *n, int64_t *capacity);

#endif
