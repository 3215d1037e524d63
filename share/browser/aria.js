// What assistive technology would be told of an element: its role, its name and its states; and whether it can be seen.

// A tree of a page may be of any size: what is shown of a text is cut.
const shown = (text, max = 200) => (text.length > max ? text.slice(0, max) + '…' : text);
const squeeze = (text) => text.replace(/[\u200b\u00ad]/g, '').replace(/\s+/g, ' ').trim();

const parentOf = (element) => dom.slot(element) || dom.around(element) ||
  (dom.top(element) instanceof ShadowRoot ? dom.top(element).host : null);

function* above(element) {
  for (let at = element; at; at = parentOf(at)) yield at;
}

const isVisible = (element) => {
  const style = getComputedStyle(element);
  if (style.display === 'contents')
    return [...dom.nodes(element)].some((child) => (dom.kind(child) === Node.ELEMENT_NODE ? isVisible(child) : hasBox(child)));
  if (!dom.shown(element, { visibilityProperty: true })) return false;
  const box = dom.box(element);
  return box.width > 0 && box.height > 0;
};

const hasBox = (text) => {
  if (dom.kind(text) !== Node.TEXT_NODE) return false;
  const range = document.createRange();
  range.selectNode(text);
  const box = range.getBoundingClientRect();
  return box.width > 0 && box.height > 0;
};

// How an element is named in messages: <button id="save" class="primary">.
const describe = (element) => {
  if (!(element instanceof Element)) return 'the page';
  const words = ['id', 'name', 'class', 'type', 'href', 'aria-label'].map((name) => [name, dom.rawAttribute(element, name)])
    .filter(([, value]) => value).map(([name, value]) => ` ${name}="${shown(value, 60)}"`);
  return `<${dom.tag(element)}${words.slice(0, 3).join('')}>`;
};

// ---- roles ----

const inputRoles = {
  button: 'button', image: 'button', reset: 'button', submit: 'button', file: 'button', color: 'button',
  checkbox: 'checkbox', radio: 'radio', range: 'slider', number: 'spinbutton', search: 'searchbox', hidden: '',
};
const tagRoles = {
  article: 'article', aside: 'complementary', blockquote: 'blockquote', button: 'button', caption: 'caption', code: 'code',
  datalist: 'listbox', dd: 'definition', del: 'deletion', details: 'group', dfn: 'term', dialog: 'dialog', dt: 'term', em: 'emphasis',
  fieldset: 'group', figure: 'figure', h1: 'heading', h2: 'heading', h3: 'heading', h4: 'heading', h5: 'heading', h6: 'heading',
  hr: 'separator', html: 'document', iframe: 'iframe', ins: 'insertion', li: 'listitem', main: 'main', math: 'math', menu: 'list',
  meter: 'meter', nav: 'navigation', ol: 'list', optgroup: 'group', option: 'option', output: 'status', p: 'paragraph',
  progress: 'progressbar', search: 'search', strong: 'strong', sub: 'subscript', summary: 'button', sup: 'superscript', svg: 'img',
  table: 'table', tbody: 'rowgroup', textarea: 'textbox', tfoot: 'rowgroup', thead: 'rowgroup', time: 'time', tr: 'row', ul: 'list',
};
const sectioning = 'article, aside, main, nav, section, [role=article], [role=complementary], [role=main], [role=navigation], [role=region]';
const roleByTag = {
  a: (el) => (dom.has(el, 'href') ? 'link' : ''),
  area: (el) => (dom.has(el, 'href') ? 'link' : ''),
  footer: (el) => (dom.around(el) && dom.closest(dom.around(el), sectioning) ? '' : 'contentinfo'),
  form: (el) => (givenName(el) ? 'form' : ''),
  header: (el) => (dom.around(el) && dom.closest(dom.around(el), sectioning) ? '' : 'banner'),
  img: (el) => (dom.rawAttribute(el, 'alt') === '' && !dom.has(el, 'title') ? 'presentation' : 'img'),
  input: (el) => (el.list && ['text', 'search', 'tel', 'url', 'email'].includes(el.type) ? 'combobox' : inputRoles[el.type] ?? 'textbox'),
  section: (el) => (givenName(el) ? 'region' : ''),
  select: (el) => (el.multiple || el.size > 1 ? 'listbox' : 'combobox'),
  td: (el) => (dom.closest(el, '[role=grid], [role=treegrid]') ? 'gridcell' : 'cell'),
  th: (el) => (el.scope === 'row' || el.scope === 'rowgroup' ? 'rowheader' : 'columnheader'),
};
const knownRoles = new Set(('alert alertdialog application article banner blockquote button caption cell checkbox code columnheader ' +
  'combobox complementary contentinfo definition deletion dialog directory document emphasis feed figure form generic grid gridcell ' +
  'group heading img insertion link list listbox listitem log main marquee math meter menu menubar menuitem menuitemcheckbox ' +
  'menuitemradio navigation none note option paragraph presentation progressbar radio radiogroup region row rowgroup rowheader ' +
  'scrollbar search searchbox separator slider spinbutton status strong subscript superscript switch tab table tablist tabpanel term ' +
  'textbox time timer toolbar tooltip tree treegrid treeitem').split(' '));

const roleOf = (element) => {
  const given = (dom.rawAttribute(element, 'role') || '').toLowerCase().split(/\s+/).find((role) => knownRoles.has(role));
  if (given) return given;
  const tag = dom.tag(element);
  return (Object.hasOwn(roleByTag, tag) ? roleByTag[tag](element) : Object.hasOwn(tagRoles, tag) ? tagRoles[tag] : '') || '';
};

// Hidden from assistive technology.
const isHiddenFromAria = (element) => {
  if (['STYLE', 'SCRIPT', 'NOSCRIPT', 'TEMPLATE'].includes(dom.name(element))) return true;
  for (const at of above(element)) if (dom.rawAttribute(at, 'aria-hidden') === 'true') return true;
  const style = getComputedStyle(element);
  return style.display !== 'contents' && !dom.shown(element, { visibilityProperty: true });
};

// ---- names ----

const referred = (element, attribute) => (dom.rawAttribute(element, attribute) || '').split(/\s+/).filter(Boolean).slice(0, 20)
  .map((id) => dom.top(element).getElementById?.(id)).filter(Boolean);

const givenName = (element) => {
  const by = referred(element, 'aria-labelledby').map((other) => squeeze(dom.rawAttribute(other, 'aria-label') || contentText(other, true)));
  return by.filter(Boolean).join(' ') || squeeze(dom.rawAttribute(element, 'aria-label') || '') || squeeze(dom.rawAttribute(element, 'title') || '');
};

const NAME_MAX = 2000;

// The text in an element as its name has it: with the names of pictures and values of fields, without what is hidden.
const contentText = (element, hiddenToo = false, depth = 0) => {
  let text = '';
  const nodes = dom.shadow(element) ? dom.shadow(element).childNodes
    : dom.tag(element) === 'slot' && element.assignedNodes().length ? element.assignedNodes() : dom.nodes(element);
  for (const node of nodes) {
    if (text.length > NAME_MAX || depth > 200) break;
    if (dom.kind(node) === Node.TEXT_NODE) text += node.data.slice(0, NAME_MAX);
    if (dom.kind(node) === Node.ELEMENT_NODE) text += partText(node, hiddenToo, depth + 1);
  }
  return text;
};

const partText = (element, hiddenToo, depth) => {
  if (['STYLE', 'SCRIPT', 'NOSCRIPT', 'TEMPLATE'].includes(dom.name(element))) return '';
  if (dom.rawAttribute(element, 'aria-hidden') === 'true') return '';
  const style = getComputedStyle(element);
  if (!hiddenToo && (style.display === 'none' || style.visibility !== 'visible' && style.display !== 'contents')) return '';
  const label = dom.rawAttribute(element, 'aria-label');
  if (label && label.trim()) return ` ${label} `;
  if (dom.tag(element) === 'br') return ' ';
  if (dom.tag(element) === 'img') return ` ${element.alt || element.title} `;
  if (dom.tag(element) === 'input') return ['checkbox', 'radio', 'hidden', 'password', 'file'].includes(element.type) ? '' : ` ${element.value.slice(0, NAME_MAX)} `;
  if (dom.tag(element) === 'select') return ` ${[...element.selectedOptions].slice(0, 20).map((option) => option.label).join(' ')} `;
  const text = contentText(element, hiddenToo, depth);
  return style.display.startsWith('inline') || style.display === 'contents' ? text : ` ${text} `;
};

const fromContent = new Set(('button cell checkbox columnheader gridcell heading link menuitem menuitemcheckbox menuitemradio option radio ' +
  'row rowheader switch tab tooltip treeitem').split(' '));

const labelText = (element) => [...(dom.labels(element) || [])].slice(0, 20)
  .map((label) => {
    let text = '';
    for (const node of dom.nodes(label))
      if (node !== element)
        text += dom.kind(node) === Node.TEXT_NODE ? node.data : dom.kind(node) === Node.ELEMENT_NODE && !dom.contains(node, element)
          ? partText(node, false, 0) : dom.kind(node) === Node.ELEMENT_NODE ? contentWithout(node, element) : '';
    return squeeze(text);
  }).filter(Boolean).join(' ');

const contentWithout = (element, without) => {
  let text = '';
  for (const node of dom.nodes(element))
    if (dom.kind(node) === Node.TEXT_NODE) text += node.data;
    else if (dom.kind(node) === Node.ELEMENT_NODE && node !== without)
      text += dom.contains(node, without) ? contentWithout(node, without) : partText(node, false, 0);
  return ` ${text} `;
};

const nativeNames = {
  input: (el) => (['button', 'submit', 'reset'].includes(el.type) ? el.value || { submit: 'Submit', reset: 'Reset' }[el.type]
    : el.type === 'image' ? el.alt || el.value || 'Submit' : ''),
  img: (el) => el.alt,
  area: (el) => el.alt,
  fieldset: (el) => el.querySelector(':scope > legend')?.textContent,
  table: (el) => el.caption?.textContent,
  figure: (el) => el.querySelector(':scope > figcaption')?.textContent,
  optgroup: (el) => el.label,
  option: (el) => el.label,
  svg: (el) => el.querySelector(':scope > title')?.textContent,
  iframe: (el) => el.title,
};

const nameOf = (element) => {
  const by = referred(element, 'aria-labelledby').map((other) => squeeze(dom.rawAttribute(other, 'aria-label') || contentText(other, true)));
  const tries = [
    () => by.filter(Boolean).join(' '),
    () => dom.rawAttribute(element, 'aria-label'),
    () => labelText(element),
    () => Object.hasOwn(nativeNames, dom.tag(element)) && nativeNames[dom.tag(element)](element),
    () => (fromContent.has(roleOf(element)) || dom.tag(element) === 'summary') && contentText(element),
    () => dom.rawAttribute(element, 'title'),
    () => dom.rawAttribute(element, 'placeholder') || dom.rawAttribute(element, 'aria-placeholder'),
  ];
  for (const one of tries) {
    const name = squeeze(String(one() || '').slice(0, NAME_MAX));
    if (name) return name;
  }
  return '';
};

// ---- states ----

const isDisabled = (element) => {
  if (dom.matches(element, 'button, input, select, textarea, option, optgroup, fieldset')) {
    if (dom.matches(element, ':disabled')) return true;
  }
  for (const at of above(element)) {
    const given = dom.rawAttribute(at, 'aria-disabled');
    if (given === 'true') return true;
    if (given === 'false') return false;
  }
  return false;
};

const ariaFlag = (element, name) => {
  const given = dom.rawAttribute(element, `aria-${name}`);
  return given === 'true' ? true : given === 'mixed' ? 'mixed' : given === null ? undefined : false;
};

const stateReaders = {
  checked: (el) => (dom.matches(el, 'input[type=checkbox], input[type=radio]')
    ? (el.indeterminate ? 'mixed' : el.checked) : ariaFlag(el, 'checked')),
  pressed: (el) => ariaFlag(el, 'pressed'),
  selected: (el) => (dom.tag(el) === 'option' ? el.selected : ariaFlag(el, 'selected')),
  expanded: (el) => (dom.tag(el) === 'details' ? el.open
    : dom.tag(el) === 'summary' && dom.around(el)?.localName === 'details' ? dom.around(el).open : ariaFlag(el, 'expanded')),
  disabled: (el) => isDisabled(el),
  level: (el) => Number(dom.rawAttribute(el, 'aria-level')) || (/^h[1-6]$/.test(dom.tag(el)) ? Number(dom.tag(el)[1]) : undefined),
};
