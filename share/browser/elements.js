// The elements that a person could use, each with an index that stays its own for as long as it is in the page.
//
// Numbers are given out by the library of the main frame, for all frames: `numbering` is which of them, for a number is of no use
// to a page that came later.

const numbered = { numbering: 0, next: 0, elements: [], numbers: new WeakMap(), names: [] };

const startNumbering = (numbering) => {
  Object.assign(numbered, { numbering, next: 0, elements: [], numbers: new WeakMap(), names: [] });
};

const interactive = 'a[href], area[href], button, input:not([type=hidden]), select, textarea, summary, label[for], option, audio[controls], ' +
  'video[controls], iframe, [contenteditable=""], [contenteditable=true], [contenteditable=plaintext-only], [onclick], [tabindex], [draggable=true]';
const interactiveRoles = new Set(('button checkbox combobox gridcell link listbox menuitem menuitemcheckbox menuitemradio option radio ' +
  'scrollbar searchbox slider spinbutton switch tab textbox treeitem').split(' '));

const isInteractive = (element) => {
  if (dom.matches(element, 'label')) return !!element.control && !isVisible(element.control);
  if (dom.matches(element, 'option')) return false; // its select has them
  if (dom.matches(element, interactive)) return dom.matches(element, '[tabindex="-1"]') ? dom.matches(element, 'a[href], button, input, select, textarea') : true;
  if (dom.has(element, 'role')) return interactiveRoles.has(roleOf(element));
  // A pointer over what has none around it: as pages show that something can be clicked.
  return getComputedStyle(element).cursor === 'pointer' && (!parentOf(element) || getComputedStyle(parentOf(element)).cursor !== 'pointer');
};

const valueOf = (element) => {
  if (dom.matches(element, 'input[type=password]')) return element.value ? '•'.repeat(Math.min(element.value.length, 20)) : '';
  if (dom.matches(element, 'input, textarea')) return shown(element.value, 500);
  if (dom.matches(element, 'select')) return [...element.selectedOptions].slice(0, 50).map((option) => shown(option.label, 100)).join(', ');
  if (dom.editable(element)) return shown(dom.read(element) || '', 500);
  return undefined;
};

const OPTIONS_MAX = 100;
const number = (value) => Math.round(value * 10) / 10;

const describeFully = (element) => {
  const box = dom.box(element);
  const states = {};
  for (const name of Object.keys(stateReaders)) states[name] = stateReaders[name](element);
  return {
    index: numbered.numbers.get(element) ?? null,
    tag: dom.tag(element),
    role: roleOf(element) || 'generic',
    name: shown(nameOf(element)),
    text: shown(squeeze((dom.read(element) ?? dom.text(element) ?? '').slice(0, 1000))),
    type: dom.matches(element, 'input, button') ? element.type : undefined,
    value: valueOf(element),
    placeholder: dom.has(element, 'placeholder') ? shown(dom.attribute(element, 'placeholder'), 500) : undefined,
    href: dom.matches(element, 'a, area') ? shown(element.href, 2000) : undefined,
    options: dom.matches(element, 'select') ? [...element.options].slice(0, OPTIONS_MAX).map((option) => shown(option.label, 100)) : undefined,
    ...states,
    disabled: isDisabled(element),
    editable: isEditable(element) || undefined,
    required: element.required === true || dom.rawAttribute(element, 'aria-required') === 'true' || undefined,
    focused: element === deepActive() || undefined,
    in_viewport: box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
    x: number(box.x), y: number(box.y), width: number(box.width), height: number(box.height),
  };
};

const isEditable = (element) => dom.matches(element, 'input:not([type=button], [type=submit], [type=reset], [type=image], [type=checkbox], ' +
  '[type=radio], [type=file], [type=hidden], [type=range], [type=color]), textarea')
  ? !element.readOnly && !isDisabled(element) : !!dom.editable(element);

const deepActive = () => {
  let active = document.activeElement;
  while (active && dom.shadow(active)?.activeElement) active = dom.shadow(active).activeElement;
  return active;
};

const usable = (max) => {
  const found = [];
  for (const element of below(document)) {
    if (found.length >= max) break;
    if (isInteractive(element) && isVisible(element)) found.push(element);
  }
  return found;
};

const giveNumbers = (elements, from, count) => {
  for (const element of elements) {
    if (count <= 0) return;
    if (numbered.numbers.has(element)) continue;
    numbered.numbers.set(element, from);
    numbered.elements[from] = new WeakRef(element);
    numbered.names[from] = describe(element);
    from++;
    count--;
  }
};

// In the main frame: reserves numbers, and says which numbering they are of.
library.allot = ({ count }) => {
  if (!numbered.numbering) startNumbering(1 + Math.floor(Math.random() * 2 ** 50));
  const from = numbered.next;
  numbered.next += count;
  return { numbering: numbered.numbering, from };
};

// The elements of this frame. Those that have no number yet get one: in the main frame at once, elsewhere from those reserved (`from`, `count`).
library.elements = ({ main, numbering, from = 0, count = 0, max }) => {
  if (main) {
    library.allot({ count: 0 });
  } else if (numbering !== numbered.numbering) startNumbering(numbering);
  const all = usable(max);
  const missing = all.filter((element) => !numbered.numbers.has(element)).length;
  if (main) giveNumbers(all, library.allot({ count: missing }).from, missing);
  else giveNumbers(all, from, count);
  return {
    numbering: numbered.numbering,
    missing: main ? 0 : Math.max(0, missing - count),
    elements: all.map(describeFully),
  };
};

const isConnectedTo = (element) => element && dom.connected(element) && dom.owner(element) === document;

// The element of a number, or undefined: this frame has not given it, or it is gone.
const byNumber = ({ index, numbering }) => {
  if (numbering !== numbered.numbering) return undefined;
  const element = numbered.elements[index]?.deref();
  return isConnectedTo(element) ? element : undefined;
};

// What is known of a number in this frame: null, or whether it is still there, and its name.
library.number = ({ index, numbering }) => {
  const current = numbering === numbered.numbering;
  if (!current || !(index in numbered.elements)) return { current, known: false, next: numbered.next };
  return { current, known: true, there: !!byNumber({ index, numbering }), name: numbered.names[index] };
};
