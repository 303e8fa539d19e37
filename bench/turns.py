"""Two calls measured in turns, on a machine that does other things, too."""

import statistics
import time

FEWEST, SECONDS, LONG, CLEAR = 5, 0.25, 2.0, 0.85  # pairs of calls; seconds for them; seconds after which one pair is enough; a ratio


def seconds_of(call):
    begun = time.process_time()
    call()
    return time.process_time() - begun


def in_turns(theirs, ours, most=10**6):
    """Ours over theirs, and theirs in seconds: medians of single calls, one of each in turn, so that what else the machine does meets
    both. Where few calls say it clearly there are no more; where it is close there are more."""
    for call in (theirs, ours):
        call()
    took = {theirs: [], ours: []}
    while True:
        for call in (theirs, ours) if len(took[ours]) % 2 else (ours, theirs):
            took[call].append(seconds_of(call))
        ratio, pairs, spent = statistics.median(took[ours]) / statistics.median(took[theirs]), len(took[ours]), sum(map(sum, took.values()))
        if (pairs >= FEWEST or spent > LONG) and (pairs >= most or ratio < CLEAR or spent > (SECONDS if ratio < 1 else 4 * SECONDS)):
            return ratio, statistics.median(took[theirs])
