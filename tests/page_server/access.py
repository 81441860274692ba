"""Judges what a tab shows as people see it who do not see, hear or move as most do: names and roles, colours, the order of the focus, and fingers on
small screens. Each check looks at all that is there at the moment, so a test brings something to the screen and asks."""

# Each visible text has its colour, the nearest background that is not clear, and whether it is large. A control that cannot be used may be pale.
TEXTS = """() => {
  const rgb = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const at = node.parentElement, text = node.textContent.trim();
    if (!text || !at.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) || at.closest(':disabled, .skip, option, [aria-disabled=true]')) continue;
    const box = at.getBoundingClientRect(), style = getComputedStyle(at);
    if (!box.width || !box.height) continue;
    let back = at;
    while (back && rgb(getComputedStyle(back).backgroundColor)[3] < 1) back = back.parentElement;
    const size = parseFloat(style.fontSize);
    found.push({text: text.slice(0, 40), ink: rgb(style.color), back: rgb(getComputedStyle(back ?? document.body).backgroundColor),
                large: size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700)});
  }
  for (const one of document.querySelectorAll(':placeholder-shown:enabled'))
    if (one.checkVisibility())
      found.push({text: one.placeholder, ink: rgb(getComputedStyle(one, '::placeholder').color), back: rgb(getComputedStyle(one).backgroundColor), large: false});
  return found;
}"""
NAMED = {"button", "link", "textbox", "combobox", "checkbox", "radio", "slider", "spinbutton", "searchbox", "tab", "dialog", "progressbar", "ProgressIndicator", "image",
         "switch", "listbox", "application", "radiogroup"}
# Returns all that Tab reaches in an element, in the order of the page. Of radio buttons that belong together it reaches the chosen one.
REACHED = """selector => {
  const all = [...document.querySelectorAll(`${selector} :is(a[href], button, input, select, textarea, summary, audio[controls], [tabindex])`)];
  const reached = all.filter(one => one.checkVisibility({checkVisibilityCSS: true}) && !one.disabled && one.tabIndex >= 0 && one.getClientRects().length &&
    !(one.type === 'radio' && !one.checked && all.some(other => other.type === 'radio' && other.name === one.name && other.checked)));
  all.forEach(one => delete one.dataset.order);
  reached.forEach((one, order) => { one.dataset.order = order; });
  return reached.map(one => one.getAttribute('aria-label') || one.textContent.trim().slice(0, 30) || one.id || one.type);
}"""
# Returns where the focus is: its number, whether a ring is shown (around it or the label that stands for it), and whether its middle is in sight.
FOCUS = """() => {
  const at = document.activeElement, box = at.getBoundingClientRect(), stand = at.closest('label') ?? at;
  const rings = [at, stand, at.previousElementSibling].some(one => one && getComputedStyle(one).outlineStyle !== 'none');
  const there = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height / 2, 200));
  return {order: at.dataset.order === undefined ? null : Number(at.dataset.order), rings, name: at.outerHTML.slice(0, 120),
          seen: there !== null && (stand.contains(there) || there.contains(at))};
}"""


def luminance(colour):
    parts = [one / 255 for one in colour[:3]]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def check_colours(app, least=6):
    """Every text is read easily, in the dark and in the light; there are at least so many of them."""
    for scheme in "dark", "light":
        app.page.emulate_media(color_scheme=scheme)
        texts = app.page.evaluate(TEXTS)
        pale = [(text["text"], round(contrast(text["ink"], text["back"]), 2)) for text in texts
                if contrast(text["ink"], text["back"]) < (3 if text["large"] else 4.5)]
        assert not pale, (scheme, pale)
        assert len(texts) > least, "there was something to look at"
        assert (luminance(texts[0]["back"]) < 0.2) == (scheme == "dark")
        check_edges(app)


def check_edges(app):
    colours = app.page.evaluate("""() => Object.fromEntries(['accent', 'line', 'ground', 'panel'].map(name => {
      const probe = document.body.appendChild(document.createElement('i'));
      probe.style.color = `var(--${name})`;
      const colour = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
      probe.remove();
      return [name, colour];
    }))""")
    for back in "ground", "panel":
        assert contrast(colours["accent"], colours[back]) >= 3, "the ring around what has the focus"
        assert contrast(colours["line"], colours[back]) >= 3, "the edges of what can be filled in"


def roles_of(app):
    """Returns the roles of all that a reader tells, after a look whether each that needs a name has one."""
    session = app.page.context.new_cdp_session(app.page)
    nodes = [node for node in session.send("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
    session.detach()
    nameless = [node["role"]["value"] for node in nodes if node["role"]["value"] in NAMED and not node.get("name", {}).get("value", "").strip()]
    assert not nameless, nameless
    twice = app.page.evaluate("() => { const all = [...document.querySelectorAll('[id]')].map(one => one.id); return all.filter((id, i) => all.indexOf(id) !== i); }")
    assert not twice, f"ids that are there twice: {twice}"
    return [node["role"]["value"] for node in nodes]


def check_names(app, view):
    """Names, landmarks and headings of a view that is shown without a dialog."""
    roles = roles_of(app)
    assert roles.count("main") == 1 and "navigation" in roles and "banner" in roles, roles
    headings = app.page.eval_on_selector_all("main :is(h1,h2,h3,h4)", "all => all.filter(one => one.checkVisibility()).map(one => Number(one.tagName[1]))")
    assert headings.count(1) == 1 and headings[0] == 1, headings
    assert all(later - earlier <= 1 for earlier, later in zip(headings, headings[1:])), headings
    assert app.page.get_attribute("nav [aria-current=page]", "href") == f"#/{view}"
    assert app.page.get_attribute("html", "lang") == "en"
    assert app.page.get_attribute("#notices", "role") == "status" and app.page.get_attribute("#away", "role") == "alert"


def check_phone(app, root="main"):
    """It fits a phone, and what can be pressed is large enough for a finger."""
    before = app.page.viewport_size
    for width in 412, 320:
        app.page.set_viewport_size({"width": width, "height": 700})
        app.page.wait_for_timeout(50)
        assert app.page.evaluate("document.scrollingElement.scrollWidth") <= width, f"it does not fit a phone of {width} pixels"
        assert app.page.eval_on_selector(root, "root => root.scrollWidth <= root.clientWidth"), f"{root} scrolls sideways at {width} pixels"
        small = app.page.eval_on_selector_all(f"{root} button", """all => all.filter(one => one.checkVisibility()).map(one => [one.textContent || one.title, one.getBoundingClientRect()])
          .filter(([, box]) => box.width && (box.width < 24 || box.height < 24)).map(([text]) => text)""")
        assert not small, f"too small for a finger: {small}"
    app.page.set_viewport_size(before)


def check_order(app, root="main"):
    """Tab goes through all that can be used in the order of the page, a ring shows where it is, and that is in sight. Returns how many there are."""
    reached = app.page.evaluate(REACHED, root)
    assert reached, f"there is nothing to use in {root}"
    app.page.keyboard.press("Shift")  # whoever uses keys sees the ring
    app.page.evaluate("() => document.querySelector('[data-order=\"0\"]').focus()")
    visited = []
    for _ in range(8 * len(reached)):
        at = app.page.evaluate(FOCUS)
        if at["order"] is None:
            break
        if visited[-1:] != [at["order"]]:  # a player of sounds has controls of its own
            visited.append(at["order"])
            assert at["rings"], f"nothing shows that the focus is there: {at['name']}"
            assert at["seen"], f"what has the focus is out of sight: {at['name']}"
        if at["order"] == len(reached) - 1:
            break
        app.page.keyboard.press("Tab")
    assert visited == list(range(len(reached))), f"reached {visited} of {list(enumerate(reached))}"
    return len(reached)


def check_dialog(app, cancel="Escape", press=None):
    """A dialog has a name and holds the focus; Escape closes it, and the focus is back where it was. `press` opens it from what has the focus."""
    before = app.page.evaluate("() => { document.activeElement.dataset.before = 'yes'; return document.activeElement.outerHTML.slice(0, 80); }")
    press()
    app.page.wait_for_selector("dialog[open]")
    roles = roles_of(app)
    assert roles.count("dialog") == 1 and "heading" in roles, roles
    assert "main" not in roles and "navigation" not in roles, "a reader stays in the dialog"
    assert app.page.evaluate("document.activeElement.closest('dialog') !== null"), "the focus is in it"
    check_order(app, "dialog")
    for _ in range(3):
        app.page.keyboard.press("Tab")
        assert app.page.evaluate("document.activeElement === document.body || document.activeElement.closest('dialog') !== null"), "the focus stays in it"
    check_colours(app)
    check_phone(app, "dialog")
    app.page.keyboard.press(cancel)
    app.page.wait_for_selector("dialog", state="detached")
    assert app.page.evaluate("document.activeElement.dataset.before") == "yes", f"the focus is not back at {before}"
