"""Saving a figure from the page: two buttons, and the page's one script, a few lines that the
page's policy knows by their hash.

Without scripts the page is read all the same; the buttons, which could do nothing, are not shown
then.
"""

import base64
import hashlib

from crosslens.report.parts.wording import tag

__all__ = ["POLICY", "SCRIPT", "save_buttons"]

# A figure is saved as it stands on the page: its pictures where they are, and every word of its
# title and legends at its place.
SCRIPT = """
(() => {
  const doc = document, ns = 'http://www.w3.org/2000/svg', root = doc.documentElement
  root.classList.add('scripted')
  const make = (name, values) => {
    const made = doc.createElementNS(ns, name)
    for (const key in values) made.setAttribute(key, values[key])
    return made
  }
  const drawn = figure => {
    const frame = figure.getBoundingClientRect(), range = doc.createRange()
    const whole = make('svg', {'font-family': getComputedStyle(figure).fontFamily, 'stroke-linejoin': 'round'})
    const skip = '.foot,details'
    let bottom = 0
    const put = (made, box) => { whole.append(made); bottom = Math.max(bottom, box.bottom - frame.top) }
    for (const picture of figure.querySelectorAll('svg')) {
      const box = picture.getBoundingClientRect(), copy = picture.cloneNode(true)
      if (picture.closest(skip) || !box.width) continue
      const place = {x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height}
      for (const key in place) copy.setAttribute(key, place[key].toFixed(1))
      put(copy, box)
    }
    const walker = doc.createTreeWalker(figure, NodeFilter.SHOW_TEXT)
    while (walker.nextNode()) {
      const node = walker.currentNode, holder = node.parentElement, look = getComputedStyle(holder)
      if (holder.closest(skip + ',svg')) continue
      for (const found of node.data.matchAll(/\\S+/g)) {
        range.setStart(node, found.index)
        range.setEnd(node, found.index + found[0].length)
        const box = range.getBoundingClientRect()
        const word = make('text', {x: (box.left - frame.left).toFixed(1), y: (box.top - frame.top + .79 * box.height).toFixed(1),
          'font-size': look.fontSize, 'font-weight': look.fontWeight, fill: look.color})
        word.textContent = found[0]
        if (box.width) put(word, box)
      }
    }
    const size = {width: Math.ceil(frame.width), height: Math.ceil(bottom) + 8}
    for (const key in size) whole.setAttribute(key, size[key])
    whole.setAttribute('viewBox', `0 0 ${size.width} ${size.height}`)
    whole.prepend(make('rect', {...size, fill: '#fff'}))
    return {source: new XMLSerializer().serializeToString(whole), ...size}
  }
  const save = (blob, name) => {
    const link = Object.assign(doc.createElement('a'), {href: URL.createObjectURL(blob), download: name})
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 1e4)
  }
  doc.addEventListener('click', event => {
    const button = event.target.closest('button[data-save]')
    if (!button) return
    const figure = button.closest('figure'), {source, width, height} = drawn(figure)
    if (button.dataset.save === 'svg') return save(new Blob([source], {type: 'image/svg+xml'}), figure.id + '.svg')
    const image = new Image(), canvas = Object.assign(doc.createElement('canvas'), {width: 3 * width, height: 3 * height})
    image.onload = () => {
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height)
      canvas.toBlob(blob => save(blob, figure.id + '.png'))
    }
    image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(source)
  })
  addEventListener('beforeprint', () => doc.querySelectorAll('details').forEach(part => part.open = true))
})()
"""

_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{_HASH}'"
)


def save_buttons(number: int) -> str:
    """Two buttons that save the figure around them as one file."""
    kinds = (("svg", "SVG"), ("png", "PNG"))
    made = [
        tag(
            "button",
            name,
            type="button",
            data_save=kind,
            aria_label=f"Save figure {number} as {name}",
        )
        for kind, name in kinds
    ]
    return tag("span", "Save as " + " ".join(made), class_="save")
