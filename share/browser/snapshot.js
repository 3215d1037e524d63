// A page as assistive technology has it: a tree of roles, names, states and texts, as lines of YAML.
//
//   - heading "Sign in" [level=1] [ref=e2]
//   - textbox "Mail" [ref=e5]: ines@example.org
//   - link "Help" [ref=e7]:
//     - /url: https://example.org/help
//
// A ref stays its element's own for as long as the page has it; `aria-ref=e5` is a selector. In a frame it begins with
// the frame's, as f1e5.

{
const { NEVER, styleOf } = reading;
const LINES_MAX = 10_000;
const NODES_MAX = 200_000;
const LOOK_MS = 8_000;
const CHARACTERS_MAX = 200_000;
const LEVELS_MAX = 60;
const NAME_LENGTH = 300;
const TEXT_LENGTH = 2_000;

const refs = { prefix: '', next: 1, numbers: new WeakMap(), elements: [] };

const refOf = (element) => {
	if (!refs.numbers.has(element)) {
		refs.elements[refs.next] = new WeakRef(element);
		refs.numbers.set(element, refs.next++);
	}
	return `${refs.prefix}e${refs.numbers.get(element)}`;
};

const byRef = (ref) => {
	const [, prefix, number] = /^((?:f\d+)?)e(\d{1,9})$/.exec(ref) ?? [];
	const element = prefix === refs.prefix ? refs.elements[number]?.deref() : undefined;
	return element && dom.connected(element) ? element : undefined;
};

engines['aria-ref'] = (root, body) => [byRef(unquote(body) ?? body)].filter(Boolean);

// ---- YAML ----

const needsQuotes = /^$|^[\s\-?:,[\]{}#&*!|>'"%@`]|[:\s]$|: | #|[\0-\x1f\x7f\x85\u2028\u2029]|^(?:true|false|null|yes|no|on|off|y|n|~|[-+.\d].*)$/i;
const value = (text) => (needsQuotes.test(text) ? JSON.stringify(text) : text);
const key = (text) => (/: | #|[:\s]$|^[`'"%@]/.test(text) ? `'${text.replaceAll("'", "''")}'` : text);

// ---- what an element is ----

const NAMELESS = new Set(['generic', 'presentation', 'none', '']);
// Their text stands for itself, in the text around it.
const FLAT = new Set(['emphasis', 'strong', 'code', 'subscript', 'superscript', 'deletion', 'insertion', 'time', 'mark', 'term', 'definition']);
const FIELDS = new Set(['textbox', 'searchbox', 'spinbutton', 'combobox', 'slider']);
// What is in them is for the eye, or is their name.
const CLOSED = new Set(['img', 'math', 'separator', 'progressbar', 'meter', 'slider', 'textbox', 'searchbox', 'spinbutton', 'iframe']);

const statesOf = (element) => {
	const words = [];
	for (const [name, read] of Object.entries(stateReaders)) {
		const state = read(element);
		if (state === true || (name === 'pressed' && state === 'mixed'))
			words.push(state === 'mixed' ? `[${name}=mixed]` : `[${name}]`);
		else if (state !== undefined && state !== false)
			words.push(`[${name}=${state}]`);
	}
	if (element === document.activeElement && element !== document.body)
		words.push('[active]');
	return words;
};

const contentOf = (element, role) => {
	if (!FIELDS.has(role))
		return '';
	if (dom.tag(element) === 'select')
		return '';
	if (element.type === 'password')
		return '•'.repeat(Math.min(String(element.value ?? '').length, 20));
	return oneLine(String(element.value ?? (dom.editable(element) ? dom.text(element) : dom.rawAttribute(element, 'aria-valuenow')) ?? ''), TEXT_LENGTH);
};

const isClickable = (element, style) =>
	style.cursor === 'pointer' && (!parentOf(element) || getComputedStyle(parentOf(element)).cursor !== 'pointer');

const makeNode = (element) => {
	const role = roleOf(element) || 'generic', style = getComputedStyle(element);
	const clickable = isClickable(element, style);
	const plainRole = NAMELESS.has(role) || (FLAT.has(role) && !dom.attribute(element, 'aria-label'));
	const node = { element, role: NAMELESS.has(role) ? 'generic' : role, name: '', children: [], text: '', properties: [], clickable };
	node.muted = style.visibility !== 'visible';
	node.flat = node.muted || (plainRole && !clickable && !dom.attribute(element, 'aria-label'));
	node.inline = style.display.startsWith('inline') || style.display === 'contents';
	if (!node.flat)
		node.name = shown(nameOf(element), NAME_LENGTH);
	return node;
};

const fill = (node) => {
	const { element, role } = node;
	node.text = contentOf(element, role);
	if (role === 'link' && dom.attribute(element, 'href'))
		node.properties.push(['/url', shown(dom.attribute(element, 'href'), TEXT_LENGTH)]);
	const placeholder = dom.attribute(element, 'placeholder');
	if (placeholder && squeeze(placeholder) !== node.name)
		node.properties.push(['/placeholder', oneLine(placeholder, NAME_LENGTH)]);
};

// ---- the tree ----

const addText = (node, text, apart) => {
	const last = node.children[node.children.length - 1];
	if (typeof last === 'string' && !(apart && node.apart))
		node.children[node.children.length - 1] = (last + text).slice(0, TEXT_LENGTH * 2);
	else if (text.trim())
		node.children.push(text);
};

const OPTIONS_MAX = 100;
const addOptions = (node) => {
	for (const option of [...node.element.options].slice(0, OPTIONS_MAX)) {
		const child = makeNode(option);
		child.flat = false;
		node.children.push(child);
	}
};

const look = (root) => {
	const top = { children: [] }, open = [top], until = performance.now() + LOOK_MS;
	const state = { nodes: 0, lines: 0, cut: false };
	const holder = () => open.findLast((node) => !node.flat);
	const take = (element) => {
		const node = makeNode(element);
		open.push(node);
		if (node.flat) {
			if (!node.inline)
				addText(holder(), ' ');
			return true;
		}
		fill(node);
		open.findLast((one) => one !== node && !one.flat).children.push(node);
		state.lines++;
		if (dom.tag(element) === 'select')
			addOptions(node);
		if (CLOSED.has(node.role) || dom.tag(element) === 'select' || open.length > LEVELS_MAX * 20) {
			state.cut ||= open.length > LEVELS_MAX * 20;
			open.pop();
			return false;
		}
		return true;
	};
	const enter = (node) => {
		if (++state.nodes > NODES_MAX || state.lines > LINES_MAX || (state.nodes % 500 === 0 && performance.now() > until))
			state.cut = enter.stop = true;
		if (isText(node) && !open[open.length - 1].muted)
			addText(holder(), dom.data(node).slice(0, TEXT_LENGTH));
		if (!isElement(node) || (NEVER.has(dom.tag(node)) && !/^(?:svg|select|progress|meter|textarea|area)$/.test(dom.tag(node))) ||
			dom.attribute(node, 'aria-hidden') === 'true' || enter.stop)
			return false;
		return styleOf(node).display !== 'none' && take(node);
	};
	const leave = () => {
		const node = open.pop();
		if (node.flat && !node.inline)
			addText(holder(), ' ');
	};
	walk(root, enter, leave);
	return { top, cut: state.cut };
};

// ---- its lines ----

const head = (node) => {
	const words = [node.role];
	if (node.name)
		words.push(JSON.stringify(node.name));
	words.push(...statesOf(node.element), `[ref=${refOf(node.element)}]`);
	if (node.clickable)
		words.push('[cursor=pointer]');
	return words.join(' ');
};

const tidy = (node) => {
	const children = [];
	for (const child of node.children) {
		const text = typeof child === 'string' ? oneLine(child, TEXT_LENGTH) : null;
		if (text === null || (text && text !== node.name))
			children.push(text ?? child);
	}
	return children;
};

const isEmptyBox = (node, children) => node.role === 'img' && !node.name && !children.length;

const write = (top) => {
	const lines = [], frames = [];
	let length = 0;
	const add = (line) => {
		length += line.length + 1;
		lines.push(plain(line));
	};
	const stack = [{ list: tidy(top), at: 0, level: 0 }];
	while (stack.length && length < CHARACTERS_MAX) {
		const frame = stack[stack.length - 1];
		if (frame.at >= frame.list.length) {
			stack.pop();
			continue;
		}
		const node = frame.list[frame.at++], indent = '  '.repeat(Math.min(frame.level, LEVELS_MAX));
		if (typeof node === 'string') {
			add(`${indent}- text: ${value(node)}`);
			continue;
		}
		const children = tidy(node), { properties } = node;
		if (isEmptyBox(node, children))
			continue;
		const text = node.text || (children.length === 1 && typeof children[0] === 'string' && !properties.length ? children.shift() : '');
		if (node.element.localName === 'iframe' || node.element.localName === 'frame')
			frames.push({ line: lines.length, level: frame.level + 1, ref: refOf(node.element) });
		const more = children.length || properties.length;
		add(`${indent}- ${key(head(node))}${text && !more ? `: ${value(text)}` : more ? ':' : ''}`);
		for (const [name, property] of properties)
			add(`${indent}  - ${name}: ${value(property)}`);
		if (text && more)
			add(`${indent}  - text: ${value(text)}`);
		stack.push({ list: children, at: 0, level: frame.level + 1 });
	}
	return { lines, frames, cut: length >= CHARACTERS_MAX };
};

library.snapshot = ({ prefix, selector }) => {
	if (prefix !== refs.prefix)
		Object.assign(refs, { prefix });
	const root = selector ? query(selector)[0] : dom.body(document) ?? dom.root(document);
	if (!root && selector)
		throw new Error(`no element matches '${shown(selector)}'`);
	const { top, cut } = root ? look(root) : { top: { children: [] }, cut: false };
	const written = write(top);
	return { ...written, cut: cut || written.cut, title: oneLine(dom.title(document), TEXT_LENGTH) };
};

// The frame element of a ref, for who asks the browser which frame it shows.
library.snapshot_frame = ({ ref }) => byRef(ref) ?? null;
}
