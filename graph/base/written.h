/* written.h: what MemorySanitizer cannot see for itself: memory that was allocated and not yet written, and memory that
   a package wrote, which is not instrumented. Compiled to nothing elsewhere. */
#ifndef HGA_WRITTEN_H
#define HGA_WRITTEN_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define WRITTEN_IS_SEEN
#endif
#endif

#ifdef WRITTEN_IS_SEEN
#include <sanitizer/allocator_interface.h>
#include <sanitizer/msan_interface.h>
static inline void memory_is_unwritten(const void *p, size_t bytes) { __msan_poison(p, bytes); }
static inline void memory_is_written(const void *p, size_t bytes) { __msan_unpoison(p, bytes); }
static inline void memory_must_be_written(const void *p, size_t bytes) { __msan_check_mem_is_initialized(p, bytes); }
#else
static inline void memory_is_unwritten(const void *p, size_t bytes) { (void)p, (void)bytes; }
static inline void memory_is_written(const void *p, size_t bytes) { (void)p, (void)bytes; }
static inline void memory_must_be_written(const void *p, size_t bytes) { (void)p, (void)bytes; }
#endif

#endif
