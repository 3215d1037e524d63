// Selectors: CSS that looks into open shadow roots, text=, xpath=, role=, and others, chained by `>>`.
//
//   query(selector, root = document)   the elements that match, in the order of the tree; throws what is wrong with a selector
//
// What is written is what Playwright understands: `css`, `//xpath`, `"exact text"`, `text=part`, `text=/regex/i`, `role=button[name="Save"]`,
// `id=`, `data-testid=`, `label=`, `placeholder=`, `alt=`, `title=`, `nth=-1`, `visible=true`, `has=`, `has-text=`; and in CSS :has-text(),
// :text(), :text-is(), :text-matches(), :visible, :nth-match(), also within :is(), :not() and :has().

const SELECTOR_MAX = 10000;

const bad = (selector, why) => {
  throw new Error(`invalid selector '${shown(selector)}': ${why}`);
};

// ---- reading ----

const closers = { '[': ']', '(': ')' };

// Where the string or bracket that begins at `from` ends: just after it.
const skip = (text, from) => {
  const open = text[from];
  for (let at = from + 1; at < text.length; at++) {
    const c = text[at];
    if (c === '\\') at++;
    else if (open === '"' || open === "'" || open === '`') {
      if (c === open) return at + 1;
    } else if (c === closers[open]) return at + 1;
    else if (c === '"' || c === "'" || c in closers) at = skip(text, at) - 1;
  }
  return bad(text, `missing ${closers[open] ?? open}`);
};

// `a >> b` as its parts. In a text an apostrophe begins no string.
const splitParts = (selector) => {
  const parts = [];
  let begin = 0, at = 0;
  const isText = () => /^\s*(text|has-text|label|placeholder|alt|title)\s*=\s*[^\s"']/.test(selector.slice(begin, at + 1));
  while (at < selector.length) {
    const c = selector[at];
    if (c === '\\') at += 2;
    else if ((c === '"' || c === "'" || c === '`' || c in closers) && !isText()) at = skip(selector, at);
    else if (c === '>' && selector[at + 1] === '>') {
      parts.push(selector.slice(begin, at).trim());
      at = begin = at + 2;
    } else at++;
  }
  parts.push(selector.slice(begin).trim());
  return parts;
};

const readPart = (part, selector) => {
  const named = /^([a-zA-Z][\w:-]*)\s*=(?!=)\s*([^]*)$/.exec(part);
  if (!part) return bad(selector, 'a part of it is empty');
  if (/^(["'])[^]*\1$/.test(part) && part.length > 1) return { engine: 'text', body: part };
  if (/^\(*\/\//.test(part) || part.startsWith('..')) return { engine: 'xpath', body: part };
  if (!named) return { engine: 'css', body: part };
  const engine = named[1].replace(/:light$/, '');
  if (!Object.hasOwn(engines, engine))
    return bad(selector, `unknown engine '${named[1]}='; known: ${Object.keys(engines).map((name) => `${name}=`).join(' ')}`);
  return { engine, body: named[2].trim() };
};

// ---- trees ----

const openRoots = (root) => {
  const roots = [root];
  if (dom.shadow(root)) roots.push(...openRoots(dom.shadow(root)));
  for (const element of dom.all(root, '*')) if (dom.shadow(element)) roots.push(...openRoots(dom.shadow(element)));
  return roots;
};

// Every element below a root, those of open shadow roots before the children of their host.
function* below(root) {
  const stack = [...children(root)].reverse();
  while (stack.length) {
    const element = stack.pop();
    yield element;
    const inside = children(element);
    for (let i = inside.length - 1; i >= 0; i--) stack.push(inside[i]);
  }
}
const children = (node) => (dom.shadow(node) ? [...dom.children(dom.shadow(node)), ...dom.children(node)] : dom.children(node));

const up = (element, scope) => {
  if (element === scope) return null;
  const parent = dom.parent(element);
  return parent instanceof ShadowRoot ? parent.host : parent instanceof Element ? parent : null;
};

// ---- text ----

const noText = (element) => dom.name(element) === 'SCRIPT' || dom.name(element) === 'STYLE' || dom.name(element) === 'NOSCRIPT' ||
  !!document.head?.contains(element);

const textOf = (node, cache) => {
  let text = cache.get(node);
  if (text) return text;
  text = { full: '', own: [] };
  cache.set(node, text);
  if (node instanceof Element && noText(node)) return text;
  if (node instanceof HTMLInputElement && (node.type === 'submit' || node.type === 'button')) {
    text.full = node.value;
    text.own = [node.value];
    return text;
  }
  let run = '';
  const endRun = () => {
    if (run) text.own.push(run);
    run = '';
  };
  for (const child of dom.nodes(node)) {
    if (dom.kind(child) === Node.TEXT_NODE) {
      text.full += child.data;
      run += child.data;
    } else if (dom.kind(child) === Node.ELEMENT_NODE) {
      endRun();
      text.full += textOf(child, cache).full;
    }
  }
  endRun();
  if (dom.shadow(node)) text.full += textOf(dom.shadow(node), cache).full;
  return text;
};

// The text of a string in quotes; null: it is not in quotes.
const unquote = (text) => (text.length > 1 && /^(["'])[^]*\1$/.test(text) ? text.slice(1, -1).replace(/\\([^])/g, '$1') : null);

const regexOf = (text, selector) => {
  const parts = /^\/([^]+)\/([a-z]*)$/.exec(text);
  if (!parts) return null;
  try {
    return new RegExp(parts[1], parts[2].replace(/[gy]/g, ''));
  } catch (error) {
    return bad(selector, error.message);
  }
};

// How a text is compared: {test(text), strict}.
const textMatcher = (body, selector) => {
  const regex = regexOf(body, selector);
  if (regex) return { test: (text) => regex.test(text.full) };
  const exact = unquote(body);
  if (exact !== null) {
    const wanted = squeeze(exact);
    return { strict: true, test: (text) => (!wanted && !text.own.length) || text.own.some((own) => squeeze(own) === wanted) };
  }
  const wanted = squeeze(body).toLowerCase();
  return { lax: true, test: (text) => squeeze(text.full).toLowerCase().includes(wanted) };
};

// Whether an element has the text and none of its children has; of an exact text: whether it has it.
const isSmallest = (element, matcher, cache) => {
  if (noText(element) || !matcher.test(textOf(element, cache))) return false;
  if (matcher.strict) return true;
  for (const child of dom.children(element)) if (matcher.test(textOf(child, cache))) return false;
  return !dom.shadow(element) || !matcher.test(textOf(dom.shadow(element), cache));
};

const hasText = (element, wanted, cache) => !noText(element) && squeeze(textOf(element, cache).full).toLowerCase().includes(wanted);

// ---- CSS ----

const lists = new Set(['is', 'where', 'not', 'matches']); // the browser's own, as long as what they list is
const ours = /:(has-text|text|text-is|text-matches|visible|nth-match|hidden-text)\b/;

const splitArgs = (text) => {
  const args = [];
  let begin = 0;
  for (let at = 0; at <= text.length; at++) {
    const c = text[at];
    if (c === '\\') at++;
    else if (c === '"' || c === "'" || c in closers) at = skip(text, at) - 1;
    else if (c === ',' || at === text.length) {
      args.push(text.slice(begin, at).trim());
      begin = at + 1;
    }
  }
  return args;
};

const stringArg = (arg, name, selector) => {
  const text = unquote(arg.trim()) ?? arg.trim();
  if (!text) bad(selector, `:${name}() wants a text`);
  return text;
};

// Our own pseudo-classes: from the argument, a test of an element.
const pseudos = {
  'has-text': (arg, selector) => {
    const wanted = squeeze(stringArg(arg, 'has-text', selector)).toLowerCase();
    return (element, context) => hasText(element, wanted, context.cache);
  },
  text: (arg, selector) => {
    const matcher = textMatcher(stringArg(arg, 'text', selector), selector);
    return (element, context) => isSmallest(element, matcher, context.cache);
  },
  'text-is': (arg, selector) => {
    const wanted = squeeze(stringArg(arg, 'text-is', selector));
    return (element, context) => !noText(element) && textOf(element, context.cache).own.some((own) => squeeze(own) === wanted);
  },
  'text-matches': (arg, selector) => {
    const [source, flags] = splitArgs(arg).map((one) => unquote(one) ?? one);
    const matcher = textMatcher(`/${source}/${flags ?? ''}`, selector);
    return (element, context) => isSmallest(element, matcher, context.cache);
  },
  visible: () => (element) => isVisible(element),
  scope: () => (element, context) => element === (context.scope instanceof Element ? context.scope : document.documentElement),
  'nth-match': (arg, selector) => {
    const args = splitArgs(arg), nth = Number(args.pop());
    if (!(nth >= 1) || !args.length) bad(selector, ':nth-match() wants a selector and a number from 1');
    const list = readList(args.join(','), selector);
    return (element, context) => (context.nth ??= new Map()).get(list)?.[nth - 1] === element ||
      (!context.nth.has(list) && !!context.nth.set(list, [...queryList(list, context.scope)]) && context.nth.get(list)[nth - 1] === element);
  },
  is: (arg, selector) => {
    const list = readList(arg, selector);
    return (element, context) => list.some((complex) => matches(element, complex, context));
  },
  not: (arg, selector) => {
    const list = readList(arg, selector);
    return (element, context) => !list.some((complex) => matches(element, complex, context));
  },
  has: (arg, selector) => {
    const list = readList(arg, selector, true);
    return (element, context) => {
      const inside = { ...context, scope: element, nth: undefined };
      for (const other of around(element, list)) if (list.some((complex) => matches(other, complex, inside))) return true;
      return false;
    };
  },
};
pseudos.where = pseudos.matches = pseudos.is;

// What :has() looks at: what is below, and beside where it has + or ~.
function* around(element, list) {
  yield* below(element);
  if (!list.some((complex) => complex.joins.some((join) => join === '+' || join === '~'))) return;
  for (let next = dom.after(element); next; next = dom.after(next)) {
    yield next;
    yield* below(next);
  }
}

const isOurs = (name, arg) => Object.hasOwn(pseudos, name) && !(lists.has(name) && !ours.test(arg));

const scopeCompound = () => ({ css: '', tests: [Object.assign(pseudos.scope(), { isScope: true })] });

// A list of complex selectors: [{compounds: [{css, tests}], joins: [' ', '>', …]}].
const readList = (text, selector, relative = false) => {
  const list = [];
  let complex = { compounds: [], joins: [] }, compound = null, join = null, at = 0;
  const endCompound = () => {
    if (!compound) return;
    checkCss(compound.css || '*', selector);
    if (complex.compounds.length || join) {
      if (!complex.compounds.length) complex.compounds.push(scopeCompound());
      complex.joins.push(join ?? ' ');
    }
    complex.compounds.push(compound);
    compound = join = null;
  };
  const endComplex = () => {
    endCompound();
    if (join && join !== ' ' || !complex.compounds.length) bad(selector, 'something is missing');
    if (relative && !complex.compounds[0].tests.some((test) => test.isScope)) {
      complex.compounds.unshift(scopeCompound());
      complex.joins.unshift(' ');
    }
    list.push(complex);
    complex = { compounds: [], joins: [] };
    join = null;
  };
  while (at < text.length) {
    const c = text[at];
    const space = /^\s*([>+~])?\s*/.exec(text.slice(at, at + 1000))[0];
    if (space) {
      endCompound();
      const sign = space.trim();
      if (sign && join && join !== ' ') bad(selector, `unexpected '${sign}'`);
      if (sign || complex.compounds.length) join = sign || join || ' ';
      at += space.length;
      continue;
    }
    if (c === ',') {
      endComplex();
      if (++at >= text.trimEnd().length) bad(selector, 'something is missing after the last comma');
      continue;
    }
    compound ??= { css: '', tests: [] };
    let end = at + 1;
    if (c === '\\') end = at + 2;
    else if (c === '[') end = skip(text, at);
    else if (c === ':') end = readPseudo(text, at, compound, selector);
    if (c !== ':') compound.css += text.slice(at, end);
    at = end;
  }
  endComplex();
  return list;
};

const readPseudo = (text, at, compound, selector) => {
  const name = /^::?[\w-]*/.exec(text.slice(at, at + 200))[0];
  let end = at + name.length, arg = '';
  if (text[end] === '(') {
    end = skip(text, end);
    arg = text.slice(at + name.length + 1, end - 1);
  }
  if (isOurs(name.slice(1), arg)) {
    const test = pseudos[name.slice(1)](arg, selector);
    test.isScope = name === ':scope';
    compound.tests.push(test);
  } else compound.css += text.slice(at, end);
  return end;
};

const checker = document.createDocumentFragment();
const checkCss = (css, selector) => {
  try {
    checker.querySelector(css);
  } catch {
    bad(selector, `'${shown(css)}' is not CSS`);
  }
};

const matchesCompound = (element, { css, tests }, context) =>
  (!css || dom.matches(element, css)) && tests.every((test) => test(element, context));

// Whether what stands to the left of a compound is where it should be, seen from an element that matches it.
const leads = (element, complex, index, context) => {
  if (index === 0) return true;
  const join = complex.joins[index - 1], left = complex.compounds[index - 1];
  const fits = (other) => matchesCompound(other, left, context) && leads(other, complex, index - 1, context);
  if (join === '>' || join === ' ') {
    for (let at = up(element, context.scope); at; at = join === ' ' ? up(at, context.scope) : null) if (fits(at)) return true;
    return false;
  }
  for (let at = dom.before(element); at; at = join === '~' ? dom.before(at) : null) if (fits(at)) return true;
  return false;
};

const matches = (element, complex, context, knownAsCss = false) => {
  const last = complex.compounds.length - 1, { css, tests } = complex.compounds[last];
  return matchesCompound(element, { css: knownAsCss ? '' : css, tests }, context) && leads(element, complex, last, context);
};

// Those that match the last compound of one of them as CSS, in a document or a shadow root and all that are open in it. The browser's search
// does at once what element.matches() does in a time that grows with the page, as for :nth-child().
const candidates = (list, root) => {
  const css = list.map((complex) => complex.compounds.at(-1).css || '*').join(',');
  const roots = openRoots(root);
  if (roots.length === 1) return dom.all(root, css);
  const found = new Set(roots.flatMap((one) => [...dom.all(one, css)]));
  return [...below(root)].filter((element) => found.has(element));
};

function* queryList(list, root, cache = new Map()) {
  const context = { scope: root, cache };
  for (const element of candidates(list, root))
    if (list.some((complex) => matches(element, complex, context, list.length === 1))) yield element;
}

const nativeOnly = (body) => !ours.test(body) && !/^\s*[>+~]|:scope/.test(body);

const queryCss = (root, body, { selector, cache }) => {
  const list = readList(body, selector);
  if (root === document && nativeOnly(body) && openRoots(root).length === 1) return root.querySelectorAll(body);
  return queryList(list, root, cache);
};

// ---- roles ----

const attributeOf = /^\s*([\w-]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\/(?:[^/\\]|\\.)+\/[a-z]*|[^\s\]]+)\s*([is])?)?\s*$/;

const nameTest = (value, flag, selector) => {
  const regex = regexOf(value, selector);
  if (regex) return (name) => regex.test(name);
  const wanted = squeeze(unquote(value) ?? value);
  if (flag === 's') return (name) => name === wanted;
  return (name) => name.toLowerCase().includes(wanted.toLowerCase());
};

const readRole = (body, selector) => {
  const role = /^[\w-]*/.exec(body)[0].toLowerCase(), tests = [];
  if (!role) bad(selector, 'role= wants the name of a role');
  let hidden = false;
  for (let at = role.length; at < body.length;) {
    if (/\s/.test(body[at])) {
      at++;
      continue;
    }
    if (body[at] !== '[') bad(selector, `unexpected '${shown(body.slice(at), 20)}' after the role`);
    const end = skip(body, at), parts = attributeOf.exec(body.slice(at + 1, end - 1));
    if (!parts) bad(selector, `'${shown(body.slice(at, end), 60)}' is not an attribute`);
    const [, name, value, flag] = parts;
    if (name === 'include-hidden') hidden = value !== 'false';
    else if (name === 'name') {
      const test = nameTest(value ?? '', flag, selector);
      tests.push((element) => test(nameOf(element)));
    } else if (Object.hasOwn(stateReaders, name)) {
      const wanted = value === undefined ? 'true' : unquote(value) ?? value;
      tests.push((element) => String(stateReaders[name](element) ?? false) === wanted);
    } else bad(selector, `unknown attribute '${name}' of a role; known: name, include-hidden, ${Object.keys(stateReaders).join(', ')}`);
    at = end;
  }
  return { role, tests, hidden };
};

// ---- engines: from the elements below a root, those that match ----

const everything = (root) => (root instanceof Element ? [root, ...below(root)] : below(root));

const attributeEngine = (attribute) => (root, body, { selector }) => {
  const regex = regexOf(body, selector), exact = unquote(body), part = squeeze(body).toLowerCase();
  const test = regex ? (value) => regex.test(value) : exact !== null ? (value) => value === exact
    : (value) => squeeze(value).toLowerCase().includes(part);
  return [...below(root)].filter((element) => dom.has(element, attribute) && test(dom.rawAttribute(element, attribute)));
};
const exactEngine = (attribute) => (root, body, { selector }) => {
  const wanted = unquote(body) ?? body;
  return [...below(root)].filter((element) => dom.rawAttribute(element, attribute) === wanted);
};

const engines = {
  css: queryCss,
  text: (root, body, { selector, cache }) => {
    const matcher = textMatcher(body, selector);
    return [...everything(root)].filter((element) => isSmallest(element, matcher, cache));
  },
  xpath: (root, body, { selector }) => {
    const path = root === document || !body.startsWith('/') ? body : `.${body}`;
    let found;
    try {
      found = document.evaluate(path, root, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
    } catch {
      bad(selector, `'${shown(body)}' is not an XPath that gives nodes`);
    }
    const nodes = Array.from({ length: found.snapshotLength }, (_, i) => found.snapshotItem(i));
    return nodes.filter((node) => node instanceof Element);
  },
  role: (root, body, { selector }) => {
    const { role, tests, hidden } = readRole(body, selector);
    return [...below(root)].filter((element) => roleOf(element) === role && (hidden || !isHiddenFromAria(element)) &&
      tests.every((test) => test(element)));
  },
  label: (root, body, { selector }) => {
    const test = nameTest(body, unquote(body) !== null ? 's' : '', selector);
    return [...below(root)].filter((element) => dom.matches(element, 'input, textarea, select, button, meter, output, progress, [aria-label], [aria-labelledby]') &&
      test(labelText(element) || givenName(element)));
  },
  id: exactEngine('id'),
  'data-testid': exactEngine('data-testid'),
  'data-test-id': exactEngine('data-test-id'),
  'data-test': exactEngine('data-test'),
  placeholder: attributeEngine('placeholder'),
  alt: attributeEngine('alt'),
  title: attributeEngine('title'),
};

// Those that choose among what has been found so far.
const filters = {
  nth: (found, body, selector) => {
    const nth = Number(body);
    if (!Number.isInteger(nth) || body === '') bad(selector, `nth= wants a whole number, not '${shown(body, 20)}'`);
    return found.slice(nth < 0 ? found.length + nth : nth).slice(0, nth < -found.length ? 0 : 1);
  },
  visible: (found, body, selector) => {
    if (body !== 'true' && body !== 'false') bad(selector, `visible= wants true or false, not '${shown(body, 20)}'`);
    return found.filter((element) => isVisible(element) === (body === 'true'));
  },
  has: (found, body, selector) => {
    const inner = unquote(body) ?? body;
    return found.filter((element) => query(inner, element).length > 0);
  },
  'has-text': (found, body, selector) => {
    const wanted = squeeze(unquote(body) ?? body).toLowerCase(), regex = regexOf(body, selector), cache = new Map();
    return found.filter((element) => (regex ? regex.test(textOf(element, cache).full) : hasText(element, wanted, cache)));
  },
};
Object.assign(engines, filters);

const step = (found, { engine, body }, context, isFirst) => {
  if (Object.hasOwn(filters, engine)) {
    if (isFirst) bad(context.selector, `'${engine}=' has nothing before it to choose from`);
    return filters[engine](found, body, context.selector);
  }
  if (found.length === 1) return [...engines[engine](found[0], body, context)];
  const all = new Set();
  for (const root of found) for (const element of engines[engine](root, body, context)) all.add(element);
  return [...all];
};

const query = (selector, root = document) => {
  if (typeof selector !== 'string' || !selector.trim()) bad(String(selector), 'it is empty');
  if (selector.length > SELECTOR_MAX) bad(selector, `it exceeds ${SELECTOR_MAX} characters`);
  const parts = splitParts(selector).map((part) => readPart(part, selector));
  const context = { selector, cache: new Map() };
  return parts.reduce((found, part, i) => step(found, part, context, i === 0), [root]);
};

// ---- waiting ----

// Resolves when something may have changed: a mutation, or some time later. `busy_ms`: how long the look before has taken, which is
// not to take up the page's whole time.
const change = (busy_ms, longest_ms) => new Promise((done) => {
  const observer = new MutationObserver(() => setTimeout(end, Math.max(10, busy_ms * 2)));
  const timer = setTimeout(end, Math.max(longest_ms, busy_ms * 2));
  let ended = false;
  function end() {
    if (ended) return;
    ended = true;
    observer.disconnect();
    clearTimeout(timer);
    done();
  }
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
});

// Calls look() until it returns something other than undefined, or the time is over: then undefined.
const until = async (look, timeout_ms) => {
  const end = performance.now() + timeout_ms;
  for (let longest = 20; ; longest = Math.min(longest * 2, 200)) {
    const began = performance.now(), result = look();
    if (result !== undefined) return result;
    const now = performance.now();
    if (now >= end) return undefined;
    await change(now - began, Math.min(longest, end - now));
  }
};

const states = {
  attached: (element) => !!element,
  detached: (element) => !element,
  visible: (element) => !!element && isVisible(element),
  hidden: (element) => !element || !isVisible(element),
};

// Waits until the first element of a selector is attached, visible, hidden (or gone) or detached; what it is then, as it is named in messages,
// or null. Throws when the time is over.
// soft: false instead of an error when it was in vain. waited_ms: how long that took altogether.
library.await_selector = async ({ selector, state = 'visible', timeout_ms = 30000, soft, waited_ms = timeout_ms }) => {
  if (!Object.hasOwn(states, state)) throw new Error(`invalid state '${state}': expected ${Object.keys(states).join(', ')}`);
  let element;
  const met = await until(() => {
    element = query(selector)[0];
    return states[state](element) || undefined;
  }, timeout_ms);
  if (met) return element ? describe(element) : null;
  if (soft) return false;
  const what = element ? `the element ${describe(element)} of '${shown(selector)}' is not ${state}` : `no element matches '${shown(selector)}'`;
  throw new Error(`${what} after ${Math.round(waited_ms)} ms`);
};
