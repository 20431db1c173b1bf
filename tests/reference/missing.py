"""Missing values, slowly: loops over steps and features, as the definitions read."""

import math


def fill(x, time, seen, tells, typical, time_scale):
    """Values, known and recency of one sequence: lists [T][F]."""
    values, known, recency = [], [], []
    for t in range(len(x)):
        row = [[], [], []]
        for f in range(len(x[t])):
            before = [s for s in range(t) if seen[s][f] and tells[s]]
            if seen[t][f]:
                parts = x[t][f], True, 1.0
            elif before:
                parts = x[before[-1]][f], True, time_scale / (time_scale + time[t] - time[before[-1]])
            else:
                parts = typical[f], False, 0.0
            for column, part in zip(row, parts, strict=True):
                column.append(part)
        for table, part in zip((values, known, recency), row, strict=True):
            table.append(part)
    return values, known, recency


def events(rows, times, static=()):
    """(column, value, stamp) of each observed number: static columns at the first row only."""
    found = []
    for number, (row, time) in enumerate(zip(rows, times, strict=True)):
        order = [*static, *(c for c in range(len(row)) if c not in static)] if number == 0 else range(len(row))
        for column in order:
            if not math.isnan(row[column]) and (number == 0 or column not in static):
                found.append((column, row[column], time))
    return found
