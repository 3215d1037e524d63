// What other parts read of a document, and going through it.

// Members of a form or of the document may be shadowed by a control or an image of that name. The
// accessors of the prototypes are not.
const getter = (prototype, name) => {
	const { get } = Object.getOwnPropertyDescriptor(prototype, name);
	return (object) => get.call(object);
};
const method = (prototype, name) => {
	const { value } = Object.getOwnPropertyDescriptor(prototype, name);
	return (object, ...args) => value.apply(object, args);
};

// Undefined for what has no such member: an SVG element has no innerText.
const soft = (prototype, name) => {
	const get = getter(prototype, name);
	return (object) => {
		try {
			return get(object);
		} catch {
			return undefined;
		}
	};
};
// Of an element, a document or a shadow root: only the first can be a form.
const ofAny = (own, name) => (node, ...args) => {
	if (isElement(node))
		return own(node, ...args);
	return args.length ? node[name](...args) : node[name];
};

const dom = {
	kind: getter(Node.prototype, 'nodeType'),
	parent: getter(Node.prototype, 'parentNode'),
	first: getter(Node.prototype, 'firstChild'),
	next: getter(Node.prototype, 'nextSibling'),
	text: getter(Node.prototype, 'textContent'),
	data: getter(CharacterData.prototype, 'data'),
	tag: getter(Element.prototype, 'localName'),
	shadow: soft(Element.prototype, 'shadowRoot'),
	name: getter(Node.prototype, 'nodeName'),
	nodes: getter(Node.prototype, 'childNodes'),
	around: getter(Node.prototype, 'parentElement'),
	connected: getter(Node.prototype, 'isConnected'),
	owner: getter(Node.prototype, 'ownerDocument'),
	top: method(Node.prototype, 'getRootNode'),
	contains: method(Node.prototype, 'contains'),
	slot: soft(Element.prototype, 'assignedSlot'),
	before: getter(Element.prototype, 'previousElementSibling'),
	after: getter(Element.prototype, 'nextElementSibling'),
	children: ofAny(getter(Element.prototype, 'children'), 'children'),
	all: ofAny(method(Element.prototype, 'querySelectorAll'), 'querySelectorAll'),
	matches: method(Element.prototype, 'matches'),
	closest: method(Element.prototype, 'closest'),
	boxes: method(Element.prototype, 'getClientRects'),
	scroll: method(Element.prototype, 'scrollIntoView'),
	scrollIfNeeded: method(Element.prototype, 'scrollIntoViewIfNeeded'),
	read: soft(HTMLElement.prototype, 'innerText'),
	editable: soft(HTMLElement.prototype, 'isContentEditable'),
	labels: (element) => (element.labels instanceof NodeList ? element.labels : null),
	attribute: (element, name) => dom.rawAttribute(element, name) ?? '',
	rawAttribute: method(Element.prototype, 'getAttribute'),
	has: method(Element.prototype, 'hasAttribute'),
	find: method(Element.prototype, 'querySelector'),
	shown: method(Element.prototype, 'checkVisibility'),
	box: method(Element.prototype, 'getBoundingClientRect'),
	assigned: method(HTMLSlotElement.prototype, 'assignedNodes'),
	root: getter(Document.prototype, 'documentElement'),
	body: getter(Document.prototype, 'body'),
	title: getter(Document.prototype, 'title'),
	query: method(Document.prototype, 'querySelector'),
	named: method(Document.prototype, 'getElementsByName'),
	base: getter(Node.prototype, 'baseURI'),
};

const isElement = (node) => dom.kind(node) === Node.ELEMENT_NODE;
const isText = (node) => dom.kind(node) === Node.TEXT_NODE;

// Text that JSON and its readers can bear: no half characters, no NUL, at most max of them.
const plain = (text, max = Infinity) => {
	const cut = text.length > max ? text.slice(0, max) : text;
	return cut.toWellFormed().replaceAll('\0', '');
};

const oneLine = (text, max) => plain(text, max).replace(/\s+/g, ' ').trim();

// What a person sees below an element: the shadow tree instead of the children, and what a slot was given.
const firstShown = (element) => {
	const shadow = dom.shadow(element);
	return dom.first(shadow ?? element);
};
const slotted = (element) => (dom.tag(element) === 'slot' ? dom.assigned(element, { flatten: true }) : []);

// Goes through what is below a node, and the node itself, depth first and without recursion, because
// pages may nest without end. enter(node) answers whether to go into an element; leave(element) is
// called for each that was gone into. enter.stop = true ends it all.
const walk = (root, enter, leave = () => {}) => {
	const open = [];
	const visit = (node) => {
		if (!enter(node) || !isElement(node))
			return;
		const list = slotted(node);
		open.push({ element: node, list, at: 0, next: list.length ? null : firstShown(node) });
	};
	const take = (level) => {
		if (level.at < level.list.length)
			return level.list[level.at++];
		const node = level.next;
		level.next = node && dom.next(node);
		return node;
	};
	visit(root);
	while (open.length && !enter.stop) {
		const level = open[open.length - 1];
		const node = take(level);
		if (node) {
			visit(node);
		} else {
			open.pop();
			leave(level.element);
		}
	}
	while (open.length)
		leave(open.pop().element);
};
