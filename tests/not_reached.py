#!/usr/bin/env python3
"""Branches that no test took, one line each, from gcovr's JSON: not_reached.py FILE"""
import json
import sys

for file in json.load(open(sys.argv[1]))['files']:
    for line in file['lines']:
        missed = sum(1 for branch in line['branches'] if branch['count'] == 0)
        if missed or (line['count'] == 0 and not line.get('gcovr/noncode')):
            print(f"{file['file']}:{line['line_number']}: {missed} of {len(line['branches'])} branches, {line['count']} times")
