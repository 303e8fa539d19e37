/* errors.c: the status of a call, and the text of a thread's last error. */
#include "hga_base.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char detail[512];

hga_status hga_fail(hga_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    return status;
}

const char *hga_error_detail(void) { return detail; }

const char *hga_status_name(hga_status status)
{
    static const char *const names[HGA_EEXTERNAL + 1] = {
        "HGA_OK",  "HGA_EINVAL", "HGA_EGRAPH",    "HGA_EPROGRAM",     "HGA_EFORMAT",
        "HGA_EIO", "HGA_ENOMEM", "HGA_EOVERFLOW", "HGA_EUNSUPPORTED", "HGA_EEXTERNAL"};
    return (size_t)status < sizeof names / sizeof *names ? names[status] : "an unknown status";
}
