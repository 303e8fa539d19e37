#!/usr/bin/env python3
"""Which mistakes would the tests not notice? Makes one-line mutants of the library, or of the Python package, and runs tests against each.

    tests/mutate.py [--list FILE] [--mutants 100] [--seed 1] [--tests REGEX] [--folders graph,msgpass,kernels,builders] BUILD
    tests/mutate.py --folders python/hga --tests '^python_' BUILD

BUILD is a configured build folder of a copy of the tree that may be changed: the script edits a source there, builds what ctest's REGEX needs,
runs it, and puts the line back. A mutant that does not compile, or gives the same object, is none and another is drawn. Survivors are listed
with place and change; each is killed by a new test or told to be the same program. With --list the mutants are those of a file instead:
blocks of three lines, a path, what is looked for in it (once) and what comes in its place, and an empty line between them.
"""
import argparse, ast, os, pathlib, random, re, signal, subprocess, sys, time

# What is looked for, and what comes in its place; one place of a line at a time.
RULES = [(r'(?<![<>=!+\-*/%&|^-])<(?![<=])', '<='), (r'<=', '<'), (r'(?<![<>=!-])>(?![>=])', '>='), (r'>=', '>'), (r'==', '!='), (r'!=', '=='),
         (r'&&', '||'), (r'\|\|', '&&'), (r' \+ ', ' - '), (r' - ', ' + '), (r' \* ', ' + '), (r'\+\+', '--'), (r'\+= ', '-= '), (r'-= ', '+= '),
         (r'(?<![\w.])0(?![\w.])', '1'), (r'(?<![\w.])1(?![\w.])', '0'), (r'(?<![\w.])1(?![\w.])', '2'), (r'\bbreak;', ';'), (r'\bcontinue;', ';'),
         (r'!(?=[\w(])', ''), (r'\bif \(', 'if (0 && '), (r'\? ', '? 0 * ')]
PYTHON_RULES = RULES[:6] + [(r'\band\b', 'or'), (r'\bor\b', 'and'), (r'\bnot ', ''), (r' \+ ', ' - '), (r' - ', ' + '), (r' \* ', ' + '),
                            (r' // ', ' * '), (r'(?<![\w.])0(?![\w.])', '1'), (r'(?<![\w.])1(?![\w.])', '0'), (r'\bbreak$', 'pass'),
                            (r'\bcontinue$', 'pass'), (r'\bis None\b', 'is not None'), (r'\bis not None\b', 'is None'),
                            (r'\bTrue\b', 'False'), (r'\bFalse\b', 'True'), (r'\bif ', 'if False and ')]


def python_lines(text):
    """The same of Python: statements inside functions, first lines only; no signatures and no texts."""
    inside = [n for f in ast.walk(ast.parse('\n'.join(text))) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) for n in f.body]
    nodes = [n for f in inside for n in ast.walk(f) if isinstance(n, ast.stmt)]
    texts = (n for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
    skipped = {n.lineno for n in texts} | {n.lineno for n in nodes if isinstance(n, (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.AnnAssign))}
    return sorted({n.lineno - 1 for n in nodes if n.lineno not in skipped})


def code_lines(text):
    """Numbers of lines that are code inside functions: no comments, directives, blank lines or declarations at the margin."""
    comment = False
    for number, line in enumerate(text):
        begins, stripped = comment, line.strip()
        comment = ('/*' in line and '*/' not in line.split('/*')[-1]) or (comment and '*/' not in line)
        if begins or stripped.startswith(('/*', '#', '//')) or not line.startswith(' ') or not stripped:
            continue
        yield number


def mutants(files, rng):
    while True:
        path = rng.choice(files)
        text = path.read_text().split('\n')
        is_python = path.suffix == '.py'
        lines = list((python_lines if is_python else code_lines)(text))
        if not lines:
            continue
        number = rng.choice(lines)
        pattern, by = rng.choice(PYTHON_RULES if is_python else RULES)
        places = [m for m in re.finditer(pattern, text[number]) if '"' not in text[number][:m.start()]]
        if places:
            m = rng.choice(places)
            yield path, number, text[number][:m.start()] + by + text[number][m.end():]


def listed_mutants(source, file):
    """The mutants of a list; a place that is not there, or there twice, is a mistake in it."""
    for block in pathlib.Path(file).read_text().strip().split('\n\n'):
        name, old, new = [line for line in block.split('\n') if not line.startswith('#')]
        path = source / name
        text = path.read_text().split('\n')
        places = [i for i, line in enumerate(text) if old in line]
        if len(places) != 1:
            sys.exit(f'{name}: "{old}" is in {len(places)} lines')
        yield path, places[0], text[places[0]].replace(old, new)


def run(words, seconds):
    started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        text = started.communicate(timeout=seconds)[0]
        return started.returncode, text
    except subprocess.TimeoutExpired:  # a test that does not end would outlive ctest
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        return 'too slow', ''


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--mutants', type=int, default=100)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--tests', default='^test_|^fuzz_engine$')
    parser.add_argument('--folders', default='graph,msgpass,kernels,builders')
    parser.add_argument('--jobs', default='2')
    parser.add_argument('--list')
    options = parser.parse_args()
    cache = (options.build / 'CMakeCache.txt').read_text()
    source = pathlib.Path(re.search(r'CMAKE_HOME_DIRECTORY:INTERNAL=(.*)', cache)[1])
    files = sorted(f for folder in options.folders.split(',') for f in (source / folder).rglob('*') if f.suffix in ('.c', '.inc', '.py'))
    ctest = ['ctest', '--test-dir', str(options.build), '-R', options.tests, '-j', options.jobs, '--stop-on-failure']
    listed = run(ctest + ['-N'], 60)[1]
    targets = re.findall(r': (test_\w+|fuzz_\w+)$', listed, re.M) + ['hga_python'] * (': python_' in listed)
    build = ['cmake', '--build', str(options.build), '-j', options.jobs, '--target'] + targets
    if run(build, 3600)[0]:
        sys.exit('what ctest would run does not build')
    began = time.monotonic()
    if run(ctest, 3600)[0]:
        sys.exit('the tests fail before any line is changed')
    patience = max(60, 4 * (time.monotonic() - began))
    tried = died = 0
    survivors = []
    rng = random.Random(options.seed)
    for path, number, line in list(listed_mutants(source, options.list)) if options.list else mutants(files, rng):
        if tried == options.mutants:
            break
        whole = path.read_text()
        text = whole.split('\n')
        old, text[number] = text[number], line
        try:
            path.write_text('\n'.join(text))
            if run(build, 1200)[0] != 0:
                continue
            tried += 1
            status = run(ctest, patience)[0]
        finally:
            path.write_text(whole)
        place = f'{path.relative_to(source)}:{number + 1}'
        if status:
            died += 1
            print(f'died      {place}', flush=True)
        else:
            survivors.append(place)
            print(f'SURVIVED  {place}\n    - {old.strip()}\n    + {line.strip()}', flush=True)
    print(f'{died} of {tried} died')
    sys.exit(bool(survivors))


main()
