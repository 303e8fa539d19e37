/* goals_table.c: goals as the table of `hga bench --table goals` shows them. */
#include "goals.h"

static json_t *figure(double value, const char *unit)
{
    return isfinite(value) ? json_sprintf("%.3g %s", value, unit) : json_string("-");
}

/* The note, behind what the two passes came to where these differ. */
static json_t *said_of(const json_t *row)
{
    const char *note = text_of(row, "note");
    const json_t *x = json_object_get(row, "reached_in_passes");
    if (!json_is_true(json_object_get(row, "differs"))) return json_string(note ? note : "");
    return json_sprintf("%.3g, then %.3g%s%s", json_number_value(json_array_get(x, 0)),
                        json_number_value(json_array_get(x, 1)), note ? "; " : "", note ? note : "");
}

/* numbers with their units, as the table shows them */
static json_t *printed(const json_t *row)
{
    const char *unit = text_of(row, "unit"), *peer = text_of(row, "peer");
    double wanted = number_of(row, "goal");
    json_t *other = peer ? json_sprintf("%s %.3g", peer, number_of(row, "peer_value")) : json_string("-");
    json_t *met = json_object_get(row, "met");
    json_t *aim =
        json_sprintf("%s %.3g %s", json_is_true(json_object_get(row, "at_least")) ? ">=" : "<=", wanted, unit);
    return json_pack("{s:O, s:o, s:o, s:o, s:O, s:o, s:O, s:O, s:O, s:O, s:O}", "case", json_object_get(row, "case"),
                     "goal", aim, "reached", figure(number_of(row, "reached"), unit), "peer", other, "met", met, "note",
                     said_of(row), "bytes", json_object_get(row, "bytes"), "cpu_over_wall",
                     json_object_get(row, "cpu_over_wall"), "disturbed", json_object_get(row, "disturbed"), "mark",
                     json_object_get(row, "mark"), "differs", json_object_get(row, "differs"));
}

const column goals_columns[] = {
    {"case", "case", NULL, 0}, {"goal", "goal", NULL, 0}, {"reached", "reached", NULL, 0}, {"peer", "peer", NULL, 0},
    {"met", "met", NULL, 0},   MEASURED_COLUMNS,          {"note", "note", NULL, 0},       {0}};
const column goals_dry_columns[] = {{"case", "case", NULL, 0},
                                    {"goal", "goal", NULL, 0},
                                    {"bytes", "MB without peers", "%.1f", 1e-6},
                                    {"note", "note", NULL, 0},
                                    {0}};

json_t *goals_as_text(const json_t *measured)
{
    json_t *rows = json_array(), *row;
    size_t i;
    json_array_foreach(measured, i, row) json_array_append_new(rows, printed(row));
    return rows;
}
