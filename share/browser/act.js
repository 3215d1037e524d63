// Acting on elements as a person would: waiting until one can be acted upon, where to point at, and what needs no real input.

// In a block: its names are its own.
{

const frame = () => new Promise((done) => {
  const timer = setTimeout(done, 400); // a page that is not shown has no frames
  requestAnimationFrame(() => {
    clearTimeout(timer);
    done();
  });
});

const find = (target) => (target.selector !== undefined ? query(target.selector)[0] : byNumber(target));
const named = (target) => (target.selector !== undefined ? `'${shown(target.selector)}'` : `element ${target.index}`);

// A label stands for what it labels.
const controlOf = (element) => {
  const label = dom.closest(element, 'label');
  return dom.matches(element, 'input, textarea, select, button') || dom.editable(element) || !label?.control ? element : label.control;
};

// ---- where to point at ----

const center = (element) => {
  const boxes = [...dom.boxes(element)].slice(0, 1000), whole = dom.box(element);
  if (whole.width * whole.height > 0) boxes.push(whole);
  for (const box of boxes) {
    const left = Math.max(box.left, 0), right = Math.min(box.right, innerWidth);
    const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
    if (right - left >= 1 && bottom - top >= 1) return { x: (left + right) / 2, y: (top + bottom) / 2 };
  }
  return null;
};

const hitAt = (x, y) => {
  let hit = document.elementFromPoint(x, y);
  while (hit && dom.shadow(hit)) {
    const inner = dom.shadow(hit).elementFromPoint(x, y);
    if (!inner || inner === hit || !dom.shadow(hit).contains(inner)) break;
    hit = inner;
  }
  return hit;
};

const isWithin = (element, ancestor) => {
  for (const at of above(element)) if (at === ancestor) return true;
  return false;
};

// Whether a click at a point is one on the element: null, or what is in the way.
const inTheWay = (element, { x, y }) => {
  const hit = hitAt(x, y);
  if (!hit) return 'nothing is';
  const wanted = [element, dom.closest(element, 'button, [role=button], a, [role=link]'), dom.closest(element, 'label')?.control === element && dom.closest(element, 'label'),
    ...(dom.labels(element) || [])];
  if (wanted.some((one) => one && isWithin(hit, one))) return null;
  let blocker = hit;
  for (const at of above(hit)) {
    if (isWithin(element, at)) break;
    if (at !== hit && (at.id || at.className)) blocker = at;
  }
  return blocker === hit || isWithin(element, hit) ? `${describe(hit)} is` : `${describe(hit)} of ${describe(blocker)} is`;
};

const scrolls = [
  (element) => dom.scrollIfNeeded(element, true),
  (element) => dom.scroll(element, { block: 'end', inline: 'end', behavior: 'instant' }),
  (element) => dom.scroll(element, { block: 'center', inline: 'center', behavior: 'instant' }),
  (element) => dom.scroll(element, { block: 'start', inline: 'start', behavior: 'instant' }),
];

// ---- waiting until it can be acted upon ----

// Each: undefined, or what the element is not.
const checks = {
  visible: (element) => (isVisible(element) ? undefined : 'is not visible'),
  enabled: (element) => (isDisabled(element) ? 'is disabled' : undefined),
  editable: (element) => (element.readOnly === true || dom.rawAttribute(element, 'aria-readonly') === 'true' ? 'is read-only' : undefined),
};

const sameBox = (a, b) => a.x === b.x && a.y === b.y && a.width === b.width && a.height === b.height;

const isStable = async (element) => {
  const first = dom.box(element);
  await frame();
  const second = dom.box(element);
  await frame();
  return sameBox(first, second) && sameBox(second, dom.box(element));
};

// One look at an element: {point} or {problem}.
const look = async (element, { wants, point, attempt }) => {
  for (const want of wants) {
    const problem = checks[want](element);
    if (problem) return { problem: `${describe(element)} ${problem}` };
  }
  if (!point) return {};
  if (!(await isStable(element))) return { problem: `${describe(element)} is moving` };
  if (!dom.connected(element)) return { problem: `${describe(element)} was removed from the page` };
  if (attempt > 0 || !center(element)) scrolls[attempt % scrolls.length](element);
  else scrolls[0](element);
  const at = center(element);
  if (!at) return { problem: `${describe(element)} is outside of the viewport and cannot be scrolled into it` };
  const other = inTheWay(element, at);
  return other ? { problem: `${describe(element)} cannot be clicked: ${other} in the way` } : { point: at };
};

// What a call is about, once it can be acted upon. With `soft`, null at once where there is no such element.
//   wants    what it has to be: visible, enabled, editable
//   point    where it can be clicked is wanted, too
//   choose   which element is meant by the one that was found
const await_element = async ({ target, wants = [], point = false, timeout_ms, soft }, choose = (element) => element) => {
  const end = performance.now() + timeout_ms;
  let problem, attempt = 0;
  for (let longest = 20; ; longest = Math.min(longest * 2, 200)) {
    const began = performance.now(), found = find(target), element = found && choose(found);
    if (!found && soft) return null;
    if (!element) problem = `no element matches ${named(target)}`;
    else {
      const seen = await look(element, { wants, point, attempt });
      if (!seen.problem) return { element, ...seen };
      problem = seen.problem;
      attempt++;
    }
    const now = performance.now();
    if (now >= end) throw new Error(`${problem} (waited ${Math.round(timeout_ms)} ms)`);
    await change(found ? 0 : now - began, Math.min(longest, end - now));
  }
};

// What is about to be clicked or filled, by a number that C code has of it.
const prepared = new Map();
let preparations = 0;

const prepare = (element) => {
  prepared.set(++preparations, new WeakRef(element));
  prepared.delete(preparations - 100);
  return preparations;
};
const preparedElement = (number) => {
  const element = prepared.get(number)?.deref();
  return element && dom.connected(element) ? element : null;
};

// Where the page was last told that the pointer is. A frame may be of another process, and that has the pointer by the last picture that
// was made of the page: what has just been scrolled is elsewhere there for a moment, and a click then would be one beside the frame.
const pointer = { watched: false, at: null, missed: 0 };
const MISSED = 20; // then the page keeps such events to itself

const watchPointer = () => {
  pointer.at = null;
  if (pointer.watched || window === top) return;
  pointer.watched = true;
  addEventListener('pointermove', ({ isTrusted, clientX, clientY }) => {
    if (isTrusted) pointer.at = { x: clientX, y: clientY };
  }, { capture: true, passive: true });
};

const hasArrived = (element) => {
  if (!pointer.watched || (pointer.at && !inTheWay(element, pointer.at))) pointer.missed = 0;
  else pointer.missed++;
  return pointer.missed === 0 || pointer.missed > MISSED;
};

const place = ({ element, point }) => {
  watchPointer();
  return { ...point, width: innerWidth, height: innerHeight, element: describe(element), prepared: prepare(element) };
};

library.has = ({ target }) => !!find(target);

// Waits a moment for an element to come, in the main frame.
library.await_target = async ({ target, timeout_ms }) => !!(await until(() => find(target), timeout_ms));

// Where an element can be clicked.
library.point = async (args) => {
  const wants = args.enabled ? ['visible', 'enabled'] : ['visible'];
  const ready = await await_element({ ...args, wants, point: true });
  return ready && place(ready);
};

// Whether it is still there that a click would hit it, now that the pointer is: null, or what is in the way.
library.still = ({ x, y, prepared: number }) => {
  const element = preparedElement(number);
  if (!element) return 'the element was removed from the page';
  const other = inTheWay(element, { x, y });
  if (other) return `${describe(element)} cannot be clicked: ${other} in the way`;
  return hasArrived(element) ? null : `${describe(element)} is in a frame that the pointer does not come to`;
};

// The same point seen from the frame around: `owner` shows the frame that the point is of.
library.around = async ({ x, y, width, height }, owner) => {
  const map = () => {
    const box = dom.box(owner), style = getComputedStyle(owner);
    const scaleX = owner.offsetWidth ? box.width / owner.offsetWidth : 1, scaleY = owner.offsetHeight ? box.height / owner.offsetHeight : 1;
    return {
      x: box.left + (owner.clientLeft + parseFloat(style.paddingLeft) + x) * scaleX,
      y: box.top + (owner.clientTop + parseFloat(style.paddingTop) + y) * scaleY,
    };
  };
  const inside = (at) => at.x >= 0 && at.y >= 0 && at.x < innerWidth && at.y < innerHeight;
  let at = map();
  if (!inside(at)) {
    dom.scroll(owner, { block: 'center', inline: 'center', behavior: 'instant' });
    at = map();
    if (!inside(at)) {
      scrollBy({ left: at.x - innerWidth / 2, top: at.y - innerHeight / 2, behavior: 'instant' });
      at = map();
    }
  }
  if (!inside(at)) return { problem: `${describe(owner)} shows the element outside of the viewport` };
  const hit = hitAt(at.x, at.y);
  if (hit !== owner) return { problem: `${describe(owner)}, which shows the element, cannot be clicked: ${describe(hit)} is in the way` };
  return { ...at, width: innerWidth, height: innerHeight };
};

library.viewport = () => ({ width: innerWidth, height: innerHeight });

// ---- fields ----

const setTypes = new Set(['color', 'date', 'time', 'datetime-local', 'month', 'range', 'week']);
const typedTypes = new Set(['', 'email', 'number', 'password', 'search', 'tel', 'text', 'url']);

const announce = (element, ...names) => {
  for (const name of names) element.dispatchEvent(new Event(name, { bubbles: true, composed: name === 'input' }));
};

const focusOn = (element) => {
  element.focus({ preventScroll: false });
  const active = deepActive();
  if (active !== element && !isWithin(active, element)) throw new Error(`${describe(element)} cannot be given the focus`);
};

const setValue = (element, text) => {
  const wanted = element.type === 'color' ? text.toLowerCase() : text;
  element.focus();
  element.value = wanted;
  if (element.value !== wanted)
    throw new Error(`'${shown(text, 60)}' is not a value for ${describe(element)} of type ${element.type}`);
  announce(element, 'input', 'change');
};

const selectAll = (element) => {
  if (dom.matches(element, 'input, textarea')) {
    element.select();
    return;
  }
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
};

const cannotFill = (element) => {
  if (dom.tag(element) === 'select') return `${describe(element)} is a list: use select_option`;
  if (dom.tag(element) === 'input' && !setTypes.has(element.type) && !typedTypes.has(element.type))
    return { checkbox: `${describe(element)} is a checkbox: use check or uncheck`, radio: `${describe(element)} is a radio button: use check`,
      file: `${describe(element)} takes files: use upload_file` }[element.type] ?? `${describe(element)} of type ${element.type} takes no text`;
  if (!dom.matches(element, 'input, textarea') && !dom.editable(element)) return `${describe(element)} takes no text: it is not a field`;
  return null;
};

// Waits for a field for text. Of some kinds it is set at once; of the others `prepared` is for library.focus, after which it is to be
// entered.
library.fill = async ({ text, ...args }) => {
  const ready = await await_element({ ...args, wants: ['visible', 'enabled', 'editable'] }, (found) => {
    const element = controlOf(found), why = cannotFill(element);
    if (why) throw new Error(why);
    return element;
  });
  if (!ready) return null;
  const { element } = ready;
  if (dom.tag(element) === 'input' && setTypes.has(element.type)) {
    setValue(element, text);
    return { element: describe(element) };
  }
  if (element.type === 'number' && text !== '' && Number.isNaN(Number(text)))
    throw new Error(`'${shown(text, 60)}' is not a number, which ${describe(element)} takes alone`);
  return { element: describe(element), prepared: prepare(element) };
};

// Gives a field the focus and selects all that it has: whether that is anything.
library.focus = ({ prepared: number }) => {
  const element = preparedElement(number);
  if (!element) throw new Error('the field was removed from the page');
  focusOn(element);
  selectAll(element);
  return !!(element.value ?? dom.text(element));
};

// ---- lists ----

const optionFits = (option, index, { value, label, index: wanted }) => (value == null || option.value === value || squeeze(option.label) === squeeze(value)) &&
  (label == null || squeeze(option.label) === squeeze(label)) && (wanted == null || index === wanted);

const listOf = (found) => {
  const element = controlOf(found);
  if (dom.tag(element) !== 'select') throw new Error(`${describe(element)} is not a list (<select>)`);
  return element;
};

const chosen = (element, wanted) => {
  const options = [...element.options].slice(0, 100000);
  return wanted.map((one) => options.find((option, i) => (one.value == null || option.value === one.value) && optionFits(option, i, one)) ??
    options.find((option, i) => optionFits(option, i, one)));
};

// Selects options: `wanted` is a list of {value, label, index}, of each of which an option has to have all.
const OPTIONS_MS = 3000; // for options that a page fetches first: one that is not offered is no reason to wait longer

library.select = async ({ wanted, ...args }) => {
  const end = performance.now() + args.timeout_ms;
  const ready = await await_element({ ...args, wants: ['visible', 'enabled'] }, listOf);
  if (!ready) return null;
  const { element } = ready;
  if (wanted.length > 1 && !element.multiple) throw new Error(`${describe(element)} takes one option, not ${wanted.length}`);
  let options;
  await until(() => {
    options = chosen(element, wanted);
    return options.every((option) => option && !isDisabled(option)) || undefined;
  }, Math.min(end - performance.now(), OPTIONS_MS));
  const missing = options.findIndex((option) => !option), disabled = options.find((option) => option && isDisabled(option));
  if (missing >= 0) {
    const have = [...element.options].slice(0, 20).map((option) => `'${shown(option.label, 40)}'`).join(', ');
    throw new Error(`${describe(element)} has no option ${JSON.stringify(wanted[missing])}; it has ${have || 'none'}`);
  }
  if (disabled) throw new Error(`the option '${shown(disabled.label, 60)}' of ${describe(element)} is disabled`);
  element.focus();
  for (const option of element.options) option.selected = options.includes(option);
  announce(element, 'input', 'change');
  return { values: [...element.selectedOptions].slice(0, 1000).map((option) => option.value), element: describe(element) };
};

// ---- what is checked ----

const radios = (element) => [...dom.all(element.form ?? dom.top(element), 'input[type=radio]')]
  .filter((one) => one.name === element.name && one.form === element.form);

// `option`: of the group of a radio button, the one of this value or label.
const checkable = (found, option) => {
  let element = controlOf(found);
  if (option != null && dom.matches(element, 'input[type=radio]')) {
    const group = radios(element);
    element = group.find((one) => one.value === option) ?? group.find((one) => nameOf(one) === squeeze(option));
    if (!element) throw new Error(`there is no radio button '${shown(option, 60)}' beside ${describe(controlOf(found))}`);
  }
  if (dom.matches(element, 'input[type=checkbox], input[type=radio]')) return element;
  if (/^(checkbox|radio|switch|menuitemcheckbox|menuitemradio)$/.test(roleOf(element))) return element;
  throw new Error(`${describe(element)} is not a checkbox, radio button or switch`);
};

// A checkbox that is drawn by its label cannot be seen itself: its label is clicked.
const clickable = (found, option) => {
  const element = checkable(found, option);
  if (isVisible(element) && getComputedStyle(element).opacity !== '0') return element;
  return [...(dom.labels(element) || [])].find(isVisible) ?? element;
};

// Whether something is checked as wanted; else where to click.
library.check = async ({ checked, option, ...args }) => {
  const found = find(args.target);
  if (!found && args.soft) return null;
  const isDone = () => {
    const now = find(args.target);
    return !!now && stateReaders.checked(checkable(now, option)) === checked;
  };
  if (found && isDone()) return { done: true, element: describe(checkable(found, option)) };
  if (found && !checked && checkable(found).type === 'radio')
    throw new Error(`${describe(checkable(found))} is a radio button, which cannot be unchecked: check another one`);
  const ready = await await_element({ ...args, wants: ['visible', 'enabled'], point: true }, (one) => clickable(one, option));
  if (!ready) return null;
  if (isDone()) return { done: true, element: describe(ready.element) };
  return { done: false, ...place(ready) };
};

// Waits until it is.
library.is_checked = async ({ target, checked, option, timeout_ms }) => await until(() => {
  const element = find(target);
  return !element || stateReaders.checked(checkable(element, option)) === checked || undefined;
}, timeout_ms) ?? false;

// ---- files ----

// The field that takes so many files: itself, to be called with a handle.
library.file_field = async ({ count, directory, ...args }) => {
  const ready = await await_element(args, (found) => {
    const element = dom.matches(found, 'input[type=file]') ? found : dom.matches(controlOf(found), 'input[type=file]') ? controlOf(found)
      : dom.find(found, 'input[type=file]');
    if (!element) throw new Error(`${describe(found)} is not a field for files (<input type="file">)`);
    return element;
  });
  if (!ready) return null;
  const { element } = ready;
  if (count > 1 && !element.multiple && !element.webkitdirectory) throw new Error(`${describe(element)} takes one file, not ${count}`);
  if (directory && !element.webkitdirectory) throw new Error(`${describe(element)} takes files, not a directory`);
  if (isDisabled(element)) throw new Error(`${describe(element)} is disabled`);
  if (count === 0 && element.files.length) {
    element.value = '';
    announce(element, 'input', 'change');
  }
  return element;
};

// ---- forms ----

// What kind of field it is: text, list, check, radio or file.
library.kind = async (args) => {
  const ready = await await_element(args, controlOf);
  if (!ready) return null;
  const { element } = ready;
  if (dom.tag(element) === 'select') return 'list';
  if (dom.matches(element, 'input[type=file]')) return 'file';
  if (/^(radio|menuitemradio)$/.test(roleOf(element))) return 'radio';
  return /^(checkbox|switch|menuitemcheckbox)$/.test(roleOf(element)) ? 'check' : 'text';
};

// ---- scrolling ----

const directions = { down: [0, 1], up: [0, -1], right: [1, 0], left: [-1, 0] };

const canScroll = (element, [x, y]) => {
  if (element !== document.scrollingElement && !/auto|scroll/.test(getComputedStyle(element)[x ? 'overflowX' : 'overflowY'])) return false;
  const [at, most] = x ? [element.scrollLeft, element.scrollWidth - element.clientWidth] : [element.scrollTop, element.scrollHeight - element.clientHeight];
  return x + y > 0 ? at < most - 1 : at > 0;
};

// What a wheel in the middle of the page would scroll.
const scroller = (way) => {
  for (const at of above(hitAt(innerWidth / 2, innerHeight / 2) ?? document.documentElement)) if (canScroll(at, way)) return at;
  return document.scrollingElement ?? document.documentElement;
};

const scrolled = (element = document.scrollingElement ?? document.documentElement) => ({
  x: number(element.scrollLeft), y: number(element.scrollTop),
  max_x: element.scrollWidth - element.clientWidth, max_y: element.scrollHeight - element.clientHeight,
});

library.scroll = async ({ direction, amount }) => {
  const way = directions[direction], element = scroller(way), before = scrolled(element);
  element.scrollBy({ left: way[0] * amount, top: way[1] * amount, behavior: 'instant' });
  await frame();
  const after = scrolled(element);
  return { ...after, moved_x: number(after.x - before.x), moved_y: number(after.y - before.y), element: element === document.scrollingElement ? 'the page' : describe(element) };
};

library.scroll_to = async ({ x, y }) => {
  scrollTo({ left: x, top: y, behavior: 'instant' });
  await frame();
  return scrolled();
};

library.scroll_to_element = async (args) => {
  const ready = await await_element({ ...args, wants: [] });
  if (!ready) return null;
  ready.element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
  await frame();
  const box = dom.box(ready.element);
  return { ...scrolled(), box: { x: number(box.x), y: number(box.y), width: number(box.width), height: number(box.height) }, element: describe(ready.element) };
};

}
