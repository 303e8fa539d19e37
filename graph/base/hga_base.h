/* hga_base.h: integer types, status codes, the text of the last error, checked allocation.
   The only header that every folder of hga includes. */
#ifndef HGA_BASE_H
#define HGA_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HGA_API                 __attribute__((visibility("default")))
#define HGA_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define HGA_EXTENSION           __extension__ /* unnamed members are C11's, and not C++'s */
#else
#define HGA_API
#define HGA_PRINTF(text, first)
#define HGA_EXTENSION
#endif

/* The version of these headers. */
#define HGA_VERSION_MAJOR 0
#define HGA_VERSION_MINOR 6
#define HGA_VERSION_PATCH 0
#define HGA_VERSION_STAGE ".dev0" /* ".dev0" behind it: a state before the release */

/* As the offset of a member: there is none. */
#define HGA_NOWHERE ((size_t)-1)

typedef int32_t hga_id;  /* a node, a relation, a level, a head, a field */
typedef int64_t hga_pos; /* a position among edges */

/* What a function that can fail returns. HGA_OK is 0; every other value comes with hga_error_detail(). */
typedef enum hga_status {
    HGA_OK = 0,
    HGA_EINVAL,       /* an argument is out of range or contradicts another */
    HGA_EGRAPH,       /* the nodes, blocks or edges of a graph break a rule */
    HGA_EPROGRAM,     /* a program breaks a rule, or does not fit its graph or tensors */
    HGA_EFORMAT,      /* the content of a file is not what it should be */
    HGA_EIO,          /* a file cannot be opened, read or written */
    HGA_ENOMEM,       /* an allocation failed */
    HGA_EOVERFLOW,    /* a size does not fit its integer type */
    HGA_EUNSUPPORTED, /* the combination has no meaning, or this machine lacks it */
    HGA_EEXTERNAL     /* the system or another library failed: CXSparse, METIS, hwloc, ICU or MPI */
} hga_status;

/* What a description is written as: lines for people, or JSON. */
typedef enum hga_format { HGA_TEXT, HGA_JSON } hga_format;

/* The name of a status as text, "HGA_EINVAL" for HGA_EINVAL; static, never NULL. */
HGA_API const char *hga_status_name(hga_status status);

/* One line on the calling thread's last failure, naming the number that was wrong. Valid until that thread's next
   failure. */
HGA_API const char *hga_error_detail(void);

/* Set the calling thread's error text and return `status`, so that one writes: return hga_fail(HGA_EINVAL, "block %d",
   b). For the library and for builders outside of it alike. */
HGA_API hga_status hga_fail(hga_status status, const char *format, ...) HGA_PRINTF(2, 3);

/* A function of yours that says whether a call is to go on: HGA_OK, or the status with which it is to end. */
typedef hga_status (*hga_interrupt)(void *context);

/* Have long calls on the calling thread ask your function now and then, at most fifty times a second, on that thread.
   Where it says no the call ends as it does on any failure: what it made is gone, files that it wrote are not there,
   and it returns your status. Building, ordering and clustering graphs, questions about them and plans ask, and so does
   every allocation; kernels do not, so that attention and gradients run to their end once they have begun to compute.
   METIS cannot be stopped: a thread of the library goes on with it for a while, in memory of the C library's. Your
   function must not call this library. NULL: nobody is asked, as at first. */
HGA_API void hga_set_interrupt(hga_interrupt ask, void *context);

/* Public structs that callers fill end in `reserved` words, which are zero: start from a zeroed struct, a designated
   initialiser or the struct's function of defaults. New members take reserved words, so that a struct keeps its size
   and old callers keep running; words that are not zero tell an older library that it is asked for what it does not
   know, and it says HGA_EINVAL naming the struct. This is that check. */
HGA_API hga_status hga_check_reserved(const char *what, const void *words, size_t bytes);

/* Where memory comes from. `allocate` returns 64-byte aligned storage or NULL; `release` gets back what it returned and
   the same size. Both may be called from any thread. A NULL hga_allocator * everywhere means the C library's. What
   other libraries take for themselves comes from malloc: jansson, METIS, hwloc, libxml2, libzip and ICU, and CXSparse
   while it sorts or transposes edges. */
typedef struct hga_allocator {
    void *(*allocate)(size_t bytes, void *context);
    void (*release)(void *memory, size_t bytes, void *context);
    void *context;
} hga_allocator;

/* Allocate n * size bytes, the product checked, with whatever was in them. *out, the address of a pointer of any type,
   is NULL when n * size is 0 or on failure (HGA_EOVERFLOW, HGA_ENOMEM). Give them back with hga_delete. */
HGA_API hga_status hga_new(const hga_allocator *a, int64_t n, size_t size, void *out);
/* Allocate as hga_new does, and clear the bytes. */
HGA_API hga_status hga_new_zero(const hga_allocator *a, int64_t n, size_t size, void *out);

/* Grow an array of capacity *capacity to at least `n` elements, keeping the first `used`; grows by half again at least.
   `array` is the address of the pointer. */
HGA_API hga_status hga_grow(const hga_allocator *a, void *array, int64_t *capacity, int64_t used, int64_t n,
                            size_t size);

/* Give back n * size bytes that hga_new, hga_new_zero or hga_grow allocated, with the same allocator; NULL is accepted.
   */
HGA_API void hga_delete(const hga_allocator *a, void *memory, int64_t n, size_t size);

/* Leave the function through `done:` with the status of a call that failed; the enclosing function declares hga_status
   st. */
#define HGA_TRY(call)                \
    do {                             \
        st = (call);                 \
        if (st != HGA_OK) goto done; \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
