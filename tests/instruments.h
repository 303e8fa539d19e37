/* instruments.h: whether the program runs under a sanitizer, which takes malloc and address space for itself. */
#ifndef HGA_INSTRUMENTS_H
#define HGA_INSTRUMENTS_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED
#endif

#endif
