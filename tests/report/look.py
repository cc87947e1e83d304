"""Look at a report by eye and by measure, with a headless Chromium (run by hand; no test needs it).

``python tests/report/look.py PAGE.html [OUT_FOLDER]`` writes screenshots at 1280, 768 and 390
pixels, as the page comes and with
everything opened, and prints for each: the width that the page wants (anything above the window's
    is a horizontal scroll), what is
hidden until its box is scrolled, long text in a narrow column, pairs of overlapping pieces of text,
text that leaves its figure or the page, and text that is too small to read. It exits with status 1
when there is anything to report.
"""

import html
import json
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTHS = (1280, 768, 390)

# Runs inside the page: the boxes of everything that is read, compared with each other.
MEASURE = """
addEventListener('load', () => {
  const found = [], boxes = [];
  if (OPEN) document.querySelectorAll('details').forEach(part => part.open = true);
  for (const box of document.querySelectorAll('.scroll'))
    if (box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
      found.push('hidden until scrolled: ' + (box.scrollWidth - box.clientWidth) + ' px of ' + box.getAttribute('aria-label').slice(0, 60));
  for (const cell of document.querySelectorAll('td,th,.missing,dd'))
    if (cell.checkVisibility() && cell.textContent.length > 60 && cell.clientWidth < 140)
      found.push('set in ' + cell.clientWidth + ' px: ' + cell.textContent.slice(0, 40));
  const name = e => (e.textContent || e.tagName).trim().slice(0, 40);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.textContent.trim() || parent.closest('script,style') || !parent.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const svg = parent.closest('svg'), box = svg ? parent.getBoundingClientRect() : null;
    for (const r of svg ? [box] : range.getClientRects())
      if (r.width > 1) boxes.push({r, name: name(parent), scroll: parent.closest('.scroll'), parent});
    if (svg) {
      const s = svg.getBoundingClientRect();
      if (box.left < s.left - 1 || box.right > s.right + 1 || box.top < s.top - 1 || box.bottom > s.bottom + 1)
        found.push('leaves its figure: ' + name(parent));
      const size = parseFloat(getComputedStyle(parent).fontSize) * s.width / svg.viewBox.baseVal.width;
      if (size < 8.9) found.push('text of only ' + size.toFixed(1) + ' px: ' + name(parent));
    }
  }
  for (const b of boxes)
    if (!b.scroll && (b.r.left < -0.5 || b.r.right > innerWidth + 0.5)) found.push('leaves the page: ' + b.name);
  boxes.sort((a, b) => a.r.top - b.r.top);
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && boxes[j].r.top < boxes[i].r.bottom - 2; j++) {
      const a = boxes[i], b = boxes[j], wide = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
      const high = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
      if (wide > 1.5 && high > 3.5 && a.scroll === b.scroll && a.parent !== b.parent) found.push('overlap: ' + a.name + ' | ' + b.name);
    }
  const root = document.documentElement;
  parent.report({width: innerWidth, wants: root.scrollWidth, height: root.scrollHeight, texts: boxes.length, found});
});
"""


def _chromium(*arguments: str) -> str:
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            *arguments,
        ]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=240
        ).stdout


def _wrapped(page: str, width: int, height: int, opened: bool) -> str:
    """The page in a frame of a fixed width: a headless window cannot be narrower than about 500
    pixels."""
    policy = page.index('<meta http-equiv="Content-Security-Policy"')
    measure = f"const OPEN = {'true' if opened else 'false'};{MEASURE}"
    page = page[:policy] + f"<script>{measure}</script>" + page[page.index(">", policy) + 1 :]
    return (
        "<!DOCTYPE html><body style='margin:0'><pre id=out style='display:none'></pre><script>"
        "function report(r) { document.getElementById('out').textContent = '[[' + "
        "JSON.stringify(r) + ']]' }</script>"
        f'<iframe style="border:0;width:{width}px;height:{height}px" '
        f'srcdoc="{html.escape(page, quote=True)}"></iframe>'
    )


def look(path: Path, out: Path) -> bool:
    """Measure and photograph a page at all widths; whether everything is in order."""
    good, page = True, path.read_text(encoding="utf-8")
    for width, opened in ((width, opened) for width in WIDTHS for opened in (False, True)):
        wrapper = out / f"{path.stem}-{width}.html"
        wrapper.write_text(_wrapped(page, width, 900, opened))
        dump = _chromium(
            "--virtual-time-budget=20000",
            f"--window-size={max(width, 600)},900",
            "--dump-dom",
            f"file://{wrapper.resolve()}",
        )
        measured = json.loads(html.unescape(dump[dump.index("[[") + 2 : dump.index("]]</pre>")]))
        print(
            f"{width} px, {'all opened' if opened else 'as it comes'}: page wants "
            f"{measured['wants']} px, is {measured['height']} px high"
        )
        for line in measured["found"][:40]:
            print("  " + line)
        good = good and not measured["found"] and measured["wants"] <= width
        wrapper.write_text(_wrapped(page, width, measured["height"], opened))
        picture = out / f"{path.stem}-{width}{'-open' if opened else ''}.png"
        _chromium(
            f"--window-size={max(width, 600)},{measured['height']}",
            f"--screenshot={picture}",
            f"file://{wrapper.resolve()}",
        )
        print(f"  {picture}")
    return good


if __name__ == "__main__":
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    sys.exit(0 if look(Path(sys.argv[1]), folder) else 1)
