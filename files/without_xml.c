/* without_xml.c: replaces write_xml.c and read_graphml.c in builds without libxml2. */
#include "hga_export.h"
#include "readers.h"

static hga_status refuse_xml(const char *path, const char *format)
{
    return hga_fail(HGA_EUNSUPPORTED, "%s: %s needs libxml2, which this library was built without (HGA_WITH_XML=OFF)",
                    path, format);
}

hga_status hga_graph_write_graphml(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                   void *context)
{
    (void)g, (void)relation, (void)progress, (void)context;
    return refuse_xml(path, "GraphML");
}

hga_status hga_graph_write_gexf(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                void *context)
{
    (void)g, (void)relation, (void)progress, (void)context;
    return refuse_xml(path, "GEXF");
}

hga_status import_graphml(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
    (void)a, (void)o;
    *out = NULL;
    return refuse_xml(path, "GraphML");
}
