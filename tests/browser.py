"""Pages as a reader meets them: each is opened in Chromium, and what it says on the console, what it asks the network for and
what it draws is told. Spoken over Chromium's own pipe, so that nothing but Python and Chromium is needed.

In Python:  with opened() as browser: problems = browser.open("page.html").problems()
In a shell: browser.py [--shots FOLDER] <JOBS, where each line of JOBS is NAME|PAGE[|CHECK.js|EXPECTED.js]
            a line `true NAME_fact` or `FALSE NAME_fact: why` for each fact, then `end`; 77 where Chromium is missing
For many:   browser.py --serve SOCKET starts a Chromium that opens pages for whoever has HGA_BROWSER=SOCKET in the environment,
            one page at a time, until browser.py --end SOCKET, or until the process that started it has ended.
            Without HGA_BROWSER each has a Chromium of its own.

CHECK.js is run in the page, after EXPECTED.js (`const expected = ..`); once it, or its promise, is done there is an
element `verdict` whose lines are facts."""

import argparse
import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

WIDTH, HEIGHT = 1500, 1000
LEAST_INK = 0.0005  # the share of a picture that a few thin lines have
PATIENCE = 120  # seconds: what takes longer hangs
# Seconds in which a picture that is blank may still be drawn.
LATE = 4
NAMES = ("chromium", "chromium-browser", "google-chrome")

# Pictures, in frames, too, where the page shows them; and whether something is still to come.
PICTURES = """(() => {
  const found = [];
  let loading = false;
  // The colour of what lies under a picture of which nothing is drawn.
  const paper = (e) => {
    for (; e; e = e.parentElement) {
      const [r, g, b, a = 1] = getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).map(Number);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const look = (doc, left, top) => {
    loading = loading || doc.readyState !== "complete" || (doc.defaultView.hga !== undefined && !doc.defaultView.hga.ready);
    for (const e of doc.querySelectorAll("canvas, svg, img, iframe")) {
      const box = e.getBoundingClientRect(), x = left + box.left, y = top + box.top;
      if (e.parentElement && e.parentElement.closest("svg")) continue;
      if (e.tagName === "IMG" && !e.complete) loading = true;
      if (!e.checkVisibility() || box.width < 1 || box.height < 1) continue;
      if (e.tagName !== "IFRAME") found.push({ tag: e.tagName.toLowerCase(), id: e.id, x, y, width: box.width, height: box.height, paper: paper(e) });
      else if (e.contentDocument) look(e.contentDocument, x + e.clientLeft, y + e.clientTop);
    }
  };
  look(document, scrollX, scrollY);
  return JSON.stringify({ loading, found, width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight });
})()"""

# What a page puts off is done soon, so that it is seen: 20 ms later at most.
SOON = "{ const later = setTimeout; window.setTimeout = (what, ms, ...rest) => later(what, Math.min(ms || 0, 20), ...rest); }"

# The share of what is not of the paper's colour in rectangles of a picture: in a tab of its own, so that the page is left alone.
INK = """(async (png, boxes) => {
  const picture = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
  return JSON.stringify(boxes.map(([x, y, w, h, paper]) => {
    const canvas = new OffscreenCanvas(Math.max(1, w), Math.max(1, h)), pen = canvas.getContext("2d");
    pen.drawImage(picture, -x, -y);
    const bytes = pen.getImageData(0, 0, canvas.width, canvas.height).data;
    let inked = 0;
    for (let i = 0; i < bytes.length; i += 4) inked += paper.some((c, j) => Math.abs(c - bytes[i + j]) > 6);
    return inked * 4 / bytes.length;
  }));
})"""


def chromium():
    """Where Chromium is, None without."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Seen:
    """What a page did."""

    def __init__(self, console=(), requests=(), pictures=(), verdict=None):
        self.console, self.requests, self.pictures, self.verdict = list(console), list(requests), list(pictures), verdict

    def blank(self):
        """Pictures that are paper."""
        return [p for p in self.pictures if p["ink"] < LEAST_INK]

    def problems(self, drawn=1):
        """Sentences; none where the page is right and shows at least so many pictures."""
        found = [f"the console says: {line}" for line in self.console]
        found += [f"the network is asked for {url}" for url in self.requests]
        found += ["{tag} {id} of {width:.0f} x {height:.0f} at {x:.0f}, {y:.0f} is blank".format(**p) for p in self.blank()]
        if len(self.pictures) < drawn:
            found.append(f"{len(self.pictures)} pictures are seen, not {drawn}")
        return found


class Browser:
    """Chromium, with a tab for pages and one that counts colours."""

    def __init__(self, shots=None):
        self.shots = shots

    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        to_read, self.to_write = os.pipe()
        self.to_listen, to_say = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
                   "--disable-background-networking", "--no-first-run", f"--user-data-dir={self.folder}", f"--window-size={WIDTH},{HEIGHT}"]  # fmt: skip
        # Chromium reads from 3 and writes to 4.
        command = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_say}', "bash", chromium(), *options]
        self.process = subprocess.Popen(command, pass_fds=(to_read, to_say), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(to_read)
        os.close(to_say)
        self.asked, self.heard, self.events = 0, b"", []
        self.judge, self.page = self.tab(), self.tab()  # the last one is in front, where frames are drawn
        self.call("Emulation.setDeviceMetricsOverride", session=self.page, width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session=self.page)
        self.call("Page.addScriptToEvaluateOnNewDocument", session=self.page, source=SOON)
        return self

    def __exit__(self, *_):
        os.close(self.to_write)
        os.close(self.to_listen)
        self.process.terminate()
        self.process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the pipe ----

    def message(self, until):
        """The next one that Chromium says."""
        while b"\0" not in self.heard:
            if not select.select([self.to_listen], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError("Chromium says nothing")
            piece = os.read(self.to_listen, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self.heard += piece
        text, self.heard = self.heard.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.asked += 1
        asked = {"id": self.asked, "method": method, "params": parameters}
        if session:
            asked["sessionId"] = session
        left, until = memoryview(json.dumps(asked).encode() + b"\0"), time.monotonic() + PATIENCE
        while left:
            left = left[os.write(self.to_write, left) :]
        while True:
            said = self.message(until)
            if said.get("id") == self.asked:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']['message']}")
                return said["result"]
            if "method" in said:
                self.events.append(said)

    def tab(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def run(self, script, session=None):
        """What a script's last expression, or its promise, is."""
        said = self.call("Runtime.evaluate", session=session or self.page, expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(what_was_thrown(said["exceptionDetails"]))
        return said["result"].get("value")

    # ---- pages ----

    def open(self, path, check=None, expected=None):
        """A page after its scripts ran, and, where there is a check, what that says. Pictures are looked at before it."""
        self.run("location.hash = ''")
        self.call("Page.navigate", session=self.page, url="about:blank")
        self.wait(lambda: self.run("location.href + document.readyState") == "about:blankcomplete")
        self.events.clear()
        seen = Seen()
        said = self.call("Page.navigate", session=self.page, url=pathlib.Path(path).resolve().as_uri())
        if "errorText" in said:
            seen.console.append(said["errorText"])
            return seen
        self.wait(lambda: any(e["method"] == "Page.loadEventFired" for e in self.events) or self.run("0"))
        seen.pictures = self.pictures(path)
        # What fades in, or is late on a busy machine, is looked at again; what is blank stays blank.
        until = time.monotonic() + LATE
        while seen.blank() and time.monotonic() < until:
            time.sleep(0.2)
            seen.pictures = self.pictures(path)
        if check:
            text = [pathlib.Path(file).read_text(encoding="utf-8") for file in (expected, check) if file]
            try:
                self.run("\n".join(text))
                seen.verdict = self.run("document.getElementById('verdict').textContent").splitlines()
            except RuntimeError as e:
                seen.verdict = [f"FALSE the_check_runs: {e}"]
        self.run("new Promise((done) => setTimeout(() => setTimeout(() => done(0), 20), 20))")
        self.collect(seen, check is not None)
        return seen

    def wait(self, holds):
        until = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > until:
                raise TimeoutError("the page does not get ready")
            time.sleep(0.02)

    def pictures(self, path):
        """Boxes and ink of what the page draws, once nothing is still to come and two frames have been drawn."""
        now = {}

        def complete():
            now.update(json.loads(self.run(PICTURES)))
            return not now["loading"]

        until = time.monotonic() + 5
        while not complete() and time.monotonic() < until:
            time.sleep(0.02)
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")
        complete()
        # Without what a neighbour's border may colour.
        boxes = [[round(p["x"]) + 2, round(p["y"]) + 2, round(p["width"]) - 4, round(p["height"]) - 4, p["paper"]] for p in now["found"]]
        clip = {"x": 0, "y": 0, "width": max(WIDTH, now["width"]), "height": max(HEIGHT, now["height"]), "scale": 1}
        shot = self.call("Page.captureScreenshot", session=self.page, format="png", captureBeyondViewport=True, clip=clip, optimizeForSpeed=True)["data"]
        if self.shots:
            (pathlib.Path(self.shots) / (pathlib.Path(path).name + ".png")).write_bytes(base64.b64decode(shot))
        for picture, ink in zip(now["found"], json.loads(self.run(f"{INK}({json.dumps(shot)}, {json.dumps(boxes)})", self.judge))):
            picture["ink"] = ink
        return now["found"]

    def collect(self, seen, checked):
        for e in self.events:
            if e.get("sessionId") != self.page:
                continue
            method, said = e["method"], e["params"]
            if method == "Runtime.consoleAPICalled":
                seen.console.append(" ".join(str(a.get("value", a.get("description", ""))) for a in said["args"]))
            elif method == "Runtime.exceptionThrown":
                seen.console.append(what_was_thrown(said["exceptionDetails"]))
            elif method == "Log.entryAdded":
                # A check reads single pixels, which the browser calls slow; the page never does.
                if not (checked and "willReadFrequently" in said["entry"]["text"]):
                    seen.console.append(said["entry"]["text"])
            elif method == "Network.requestWillBeSent" and said["request"]["url"].split(":")[0] not in ("file", "data", "blob", "about"):
                seen.requests.append(said["request"]["url"])


def what_was_thrown(details):
    thrown = details.get("exception", {}).get("description") or details["text"]
    return f"{thrown.splitlines()[0]} (line {details['lineNumber'] + 1})"


# ---- one Chromium for many ----


@contextlib.contextmanager
def address(path):
    """Of a socket: by its folder's descriptor, since an address has room for 107 bytes."""
    folder, name = os.path.split(os.path.abspath(path))
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{at}/{name}"
    finally:
        os.close(at)


def say(connection, what):
    connection.sendall(json.dumps(what).encode() + b"\n")


def hear(connection):
    with connection.makefile("rb") as lines:
        return json.loads(lines.readline() or b"null")


class Shared:
    """The Chromium that is served at a socket."""

    def __init__(self, path, shots=None):
        self.path, self.shots = path, shots

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, what):
        with socket.socket(socket.AF_UNIX) as connection, address(self.path) as place:
            connection.connect(place)
            say(connection, what)
            return hear(connection)

    def open(self, path, check=None, expected=None):
        files = [file and str(pathlib.Path(file).resolve()) for file in (path, check, expected, self.shots)]
        said = self.ask(files)
        if said is None or "failed" in said:
            raise RuntimeError(said["failed"] if said else "the browser that others share has ended")
        return Seen(**said)


def opened(shots=None):
    """A browser: the one that HGA_BROWSER names, or a new one."""
    served = os.environ.get("HGA_BROWSER")
    return Shared(served, shots) if served else Browser(shots)


def seen_by(browser, files):
    *page, browser.shots = files
    try:
        return vars(browser.open(*page))
    except (RuntimeError, TimeoutError, OSError) as e:
        return {"failed": f"{type(e).__name__}: {e}"}


def serve(browser, server, starter, path):
    """Pages, one after the other, for whoever asks, until somebody says `end` or the process that started this ends."""
    while server in select.select([server, starter], [], [])[0]:
        connection, _ = server.accept()
        with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # who asked may have been ended
            asked = hear(connection)
            if asked == "end":
                return os.unlink(path)  # before who said so goes on: the next browser may have this name
            if asked is not None:
                say(connection, seen_by(browser, asked))


def start(path):
    """Returns when pages are served at this socket, by a process that goes on without this one."""
    starter = os.pidfd_open(os.getppid())
    pathlib.Path(path).unlink(missing_ok=True)
    ready, to_say = os.pipe()
    if os.fork():
        os.close(to_say)
        sys.exit(0 if os.read(ready, 1) else f"the browser did not start: see {path}.log")
    os.setsid()
    log = os.open(f"{path}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in range(3):
        os.dup2(log if stream else os.open(os.devnull, os.O_RDONLY), stream)
    with Browser() as browser, socket.socket(socket.AF_UNIX) as server:
        with address(path) as place:
            server.bind(place)
        server.listen(64)
        os.write(to_say, b"1")
        os.close(to_say)
        serve(browser, server, starter, path)


# ---- from a shell ----


def tell(browser, name, page, check=None, expected=None):
    seen = browser.open(page, check, expected)
    facts = [("says_nothing_on_the_console", seen.console), ("needs_no_network", seen.requests)]
    facts += [("is_drawn", [p for p in seen.problems() if "blank" in p or "are seen" in p])]
    for fact, against in facts:
        print(f"FALSE {name}_{fact}: {'; '.join(against)}" if against else f"true {name}_{fact}")
    if check:
        verdict = seen.verdict or []
        print(f"true {name}_was_checked" if verdict[-1:] == ["end"] else f"FALSE {name}_was_checked: {verdict}")
        for line in verdict:
            truth, _, fact = line.partition(" ")
            if fact:
                print(truth, f"{name}_{fact.strip()}")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--shots", help="keep pictures of the pages in this folder")
    a.add_argument("--serve", metavar="SOCKET", help="start a browser that others share")
    a.add_argument("--end", metavar="SOCKET", help="end it")
    a = a.parse_args()
    if not chromium():
        print("skipped: pages in a browser, since chromium is not installed")
        sys.exit(77)
    if a.serve:
        return start(a.serve)
    if a.end:
        return Shared(a.end).ask("end")
    with opened(a.shots) as browser:
        for line in sys.stdin:
            tell(browser, *line.rstrip("\n").split("|"))
            sys.stdout.flush()
    print("end")


if __name__ == "__main__":
    main()
