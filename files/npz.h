/* npz.h: archives of arrays, .npz, packed or not. Only files/ includes this. */
#ifndef NPZ_H
#define NPZ_H

#include "hga_arrays.h"

typedef struct npz npz;
/* Opens the archive `path`, or, where `bytes` is not NULL, an archive of n bytes for which `path` is only a name in
   errors; the bytes must stay until it is closed. HGA_EFORMAT for anything else, and where two arrays have one name;
   HGA_EUNSUPPORTED in a build without libzip. *out is yours: npz_close. */
hga_status npz_open(const hga_allocator *a, const char *path, const void *bytes, int64_t n, npz **out);
/* Closes an archive; NULL is accepted. */
void npz_close(npz *z);
/* The number of arrays of an archive. */
int64_t npz_count(const npz *z);
/* The name of an array without ".npy", valid while the archive is open; NULL: there is no array i. */
const char *npz_name(const npz *z, int64_t i);
/* The size of array i in bytes as the archive states it; -1 where it does not. */
int64_t npz_bytes(const npz *z, int64_t i);
/* Unpacks array i, which is a .npy file, or its first `most` bytes. The bytes are yours: *n of them in a buffer of
   *capacity bytes, for hga_delete with the archive's allocator. HGA_EFORMAT for an array that has fewer or more bytes
   than the archive states; for a wrong checksum only where it is read to its end. */
hga_status npz_unpack(npz *z, int64_t i, int64_t most, uint8_t **bytes, int64_t *n, int64_t *capacity);

#endif
