/* without_zip.c: replaces npz.c in builds without libzip: no archive is ever open. */
#include "npz.h"

hga_status npz_open(const hga_allocator *a, const char *path, const void *bytes, int64_t n, npz **out)
{
    (void)a, (void)bytes, (void)n;
    *out = NULL;
    return hga_fail(HGA_EUNSUPPORTED, "%s: .npz needs libzip, which this library was built without (HGA_WITH_ZIP=OFF)",
                    path);
}

void npz_close(npz *z) { (void)z; }

int64_t npz_count(const npz *z) { return (void)z, 0; }

const char *npz_name(const npz *z, int64_t i) { return (void)z, (void)i, NULL; }

int64_t npz_bytes(const npz *z, int64_t i) { return (void)z, (void)i, -1; }

hga_status npz_unpack(npz *z, int64_t i, int64_t most, uint8_t **bytes, int64_t *n, int64_t *capacity)
{
    (void)z, (void)i, (void)most;
    *bytes = NULL, *n = *capacity = 0;
    return hga_fail(HGA_EUNSUPPORTED, "no archive is open");
}
