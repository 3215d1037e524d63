// A page's content as Markdown (CommonMark with GitHub's tables, task lists and deleted text).

{
const { NEVER, CONTROLS, readable, isLinkList, makeRecord, styleOf, classOf, givenRole, isHidden, isDecoration } = reading;

const MARKDOWN_MAX = 500_000; // characters
const NESTED_MAX = 40; // of quotes, lists and tables; deeper ones are plain text
const URL_TEXT_MAX = 2_000;
const TITLE_MAX = 500;

// ---- text ----

const WIDE = '[\\u2e80-\\u303f\\u3041-\\u9fff\\uf900-\\ufaff\\uff00-\\uffef]';
const WIDE_BREAK = new RegExp(`(${WIDE})[ \\t]*\\n\\s*(?=${WIDE})`, 'g');

// As it is shown: lines of a script without spaces are joined without one.
const collapse = (text) =>
	text.replace(WIDE_BREAK, '$1').replace(/[\u00ad\u200b\ufeff\0]/g, '').replace(/\s+/g, ' ');

const ESCAPES = [
	[/[\\`[\]]/g, '\\$&'],
	[/\*/g, (star, at, text) => (text[at - 1] === ' ' && text[at + 1] === ' ' ? star : '\\*')],
	[/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_'],
	[/~(?=~)|(?<=~)~/g, '\\~'],
	[/<(?=[a-z/!?])/gi, '\\<'],
	[/&(?=#?\w+;)/g, '\\&'],
];
const START_ESCAPES = [
	[/^(#{1,6}|[-+*>])(?=\s|$)/, '\\$1'],
	[/^>/, '\\>'],
	[/^(\d{1,9})([.)])(?=\s|$)/, '$1\\$2'],
	[/^(?=(?:-{3,}|={3,})\s*$)/, '\\'],
];
const substitute = (text, rows) => rows.reduce((result, [from, to]) => result.replace(from, to), text);
const escape = (text) => substitute(text, ESCAPES);
const escapeStart = (text) => substitute(text, START_ESCAPES);

const longestRun = (text, character) => {
	let longest = 0;
	for (const run of text.match(new RegExp(`${character}+`, 'g')) ?? [])
		longest = Math.max(longest, run.length);
	return longest;
};

const inlineCode = (text) => {
	const code = collapse(text).trim();
	const ticks = '`'.repeat(longestRun(code, '`') + 1);
	const pad = /^`|`$/.test(code) ? ' ' : '';
	return code && `${ticks}${pad}${code}${pad}${ticks}`;
};

const fenced = (code, language) => {
	const fence = '`'.repeat(Math.max(3, longestRun(code, '`') + 1));
	return `${fence}${language}\n${code}\n${fence}`;
};

const destination = (url) => (/[()\s]/.test(url) ? `<${url.replace(/\s/g, '%20')}>` : url);
const indented = (text, by) => text.replace(/\n(?=[^\n])/g, `\n${by}`);
const onOneLine = (text) => text.replace(/\\?\n\s*/g, ' ').trim();

// ---- what grows ----

// Markdown with the breaks between its pieces. Space at either end is not its own.
class Flow {
	text = '';
	breaks = 0;
	before = false;
	after = false;

	// Something inline, complete.
	add(piece) {
		if (!piece)
			return;
		if (this.breaks && this.text)
			this.text += '\n'.repeat(this.breaks);
		else if (this.after)
			this.text += ' ';
		this.text += piece;
		this.breaks = 0;
		this.after = false;
	}
	get atStart() {
		return !this.text || this.breaks > 0;
	}
	space() {
		if (!this.text)
			this.before = true;
		else if (!this.breaks)
			this.after = true;
	}
	addText(data) {
		const text = collapse(data);
		if (text.startsWith(' '))
			this.space();
		const bare = escape(text.trim());
		this.add(this.atStart ? escapeStart(bare) : bare);
		if (bare && text.endsWith(' '))
			this.space();
	}
	break(lines) {
		this.breaks = Math.max(this.breaks, lines);
		this.after = false;
	}
	addBlock(block, lines = 2) {
		if (!block)
			return;
		this.break(lines);
		this.add(block);
		this.break(lines);
	}
	// What a part inside of it has become, with the space that was around that.
	addInline(inner, piece) {
		if (inner.before || (!piece && inner.after))
			this.space();
		this.add(piece);
		if (inner.after)
			this.space();
	}
}

// ---- what elements become ----

const INLINE = new Set(`a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q rp rt ruby s
	samp small span strike strong sub sup time tt u var wbr`.split(/\s+/));

const absolute = (url) => {
	try {
		return new URL(url, dom.base(document)).href;
	} catch {
		return '';
	}
};
const isLink = (url) => /^(?:https?|mailto|tel|ftp|file|ftps|sms|geo|magnet):/i.test(url) && url.length <= URL_TEXT_MAX;

// A link around a heading is a heading that is a link.
const headed = (level, text) => (level.rank && !level.state.cell ? `${'#'.repeat(level.rank)} ${text}` : text);

const closeLink = (flow, level, inner) => {
	const text = onOneLine(inner.text);
	const raw = dom.attribute(level.element, 'href').trim();
	const url = raw && absolute(raw);
	if (raw.startsWith('#') && /^[¶#§🔗]?$/u.test(text.replaceAll('\\', '')))
		return;
	if (level.hasBlock)
		flow.addBlock(text && headed(level, isLink(url) ? `[${text}](${destination(url)})` : text));
	else if (!isLink(url) || !text)
		flow.addInline(inner, text);
	else if (dom.text(level.element).trim() === url)
		flow.addInline(inner, `<${url}>`);
	else
		flow.addInline(inner, `[${text}](${destination(url)})`);
};

const openLink = (level) => {
	level.state = { ...level.state, link: level };
};

const imageSource = (element) => {
	const lazy = ['data-src', 'data-original', 'data-lazy-src'].map((name) => dom.attribute(element, name)).find(Boolean);
	const raw = dom.attribute(element, 'src');
	const url = absolute(lazy && (!raw || raw.startsWith('data:')) ? lazy : raw);
	return isLink(url) ? url : '';
};

const image = (flow, element) => {
	const alt = escape(oneLine(dom.attribute(element, 'alt'), TITLE_MAX));
	const url = imageSource(element);
	const { width, height } = dom.box(element);
	const matters = alt || (width >= 150 && height >= 100 && url);
	const declared = Number.parseInt(dom.attribute(element, 'width'), 10);
	const tiny = (width > 0 && width <= 3 && height <= 3) || declared <= 3;
	if (matters && !tiny)
		flow.add(`![${alt}](${destination(url)})`);
};

const mark = (sign) => ({
	plainInside: true,
	close: (flow, level, inner) => {
		const bare = inner.text.trim();
		if (level.state.link && bare.startsWith('!['))
			flow.addInline(inner, bare);
		else
			flow.addInline(inner, bare && !bare.includes('\n') ? `${sign}${bare}${sign}` : bare);
	},
});

const heading = (rank) => ({
	block: true,
	close: (flow, level, inner) => {
		const text = onOneLine(inner.text), { link } = level.state;
		if (link && flow.atStart && !flow.text)
			link.rank = rank;
		flow.addBlock(text && (link || level.state.cell ? text : `${'#'.repeat(rank)} ${text}`));
	},
});

const list = {
	block: true, nests: true,
	open: (level) => {
		const start = Number.parseInt(dom.attribute(level.element, 'start'), 10);
		level.list = { ordered: level.tag === 'ol', number: Number.isFinite(start) && start >= 0 ? start : 1 };
	},
	lines: (outer) => (outer.tag === 'li' ? 1 : 2),
	close: (flow, level, inner) => flow.addBlock(inner.text, list.lines(level.outer)),
};

const task = (element) => {
	const box = dom.find(element, ':scope > input[type=checkbox], :scope > label > input[type=checkbox], :scope > p > input[type=checkbox]');
	return box ? (dom.has(box, 'checked') || box.checked ? '[x] ' : '[ ] ') : '';
};

const item = {
	block: true, nests: true, lines: () => 1,
	close: (flow, level, inner) => {
		const holder = level.outer?.list;
		const marker = holder?.ordered ? `${holder.number++}. ` : '- ';
		if (inner.text)
			flow.addBlock(marker + task(level.element) + indented(inner.text, ' '.repeat(marker.length)), 1);
	},
};

const quote = {
	block: true, nests: true,
	close: (flow, level, inner) => flow.addBlock(inner.text && inner.text.replace(/^(?=.)/gm, '> ').replace(/^$/gm, '>')),
};

const term = {
	block: true,
	close: (flow, level, inner) => flow.addBlock(inner.text && `**${onOneLine(inner.text)}**`),
};

const LANGUAGE = /(?:^|\s)(?:language-|lang-|highlight-source-|brush:\s*)([\w+#.-]{1,30})/i;
const languageOf = (element) => {
	let near = dom.find(element, 'code') ?? element;
	for (let steps = 0; near && isElement(near) && steps < 8; near = dom.parent(near), steps++) {
		const found = LANGUAGE.exec(classOf(near))?.[1] ?? dom.attribute(near, 'data-lang');
		if (/^[\w+#.-]{1,30}$/.test(found))
			return found.toLowerCase();
	}
	return '';
};

const GUTTER = /(?:^|[-_\s])(?:line-?numbers?|linenos?|lineno|gutter|line-?nums?|rouge-gutter)(?:$|[-_\s])/i;
const isGutter = (element) => GUTTER.test(classOf(element)) && !/\p{L}/u.test(dom.text(element).slice(0, 100));
const codeOf = (element) => {
	let code = '';
	const enter = (node) => {
		if (code.length > MARKDOWN_MAX)
			enter.stop = true;
		if (isText(node))
			code += dom.data(node);
		if (!isElement(node))
			return false;
		const tag = dom.tag(node);
		if (tag === 'br' || (tag === 'tr' && code && !code.endsWith('\n')))
			code += '\n';
		return !(node !== element && isGutter(node)) && !NEVER.has(tag) && !CONTROLS.has(tag) && !isHidden(styleOf(node));
	};
	walk(element, enter);
	return code.slice(0, MARKDOWN_MAX).replace(/^\s*\n|\s+$/g, '').replaceAll('\u00a0', ' ');
};

const codeInCell = (code) => code.split('\n').map(inlineCode).filter(Boolean).join('<br>');

// What is not gone into: its Markdown at once.
const LEAVES = {
	br: (flow, element, state) => {
		if (state.link || state.heading)
			flow.space();
		else if (!flow.atStart)
			flow.text += state.cell ? '<br>' : '\\\n';
		flow.after = false;
	},
	hr: (flow) => flow.addBlock('---'),
	img: (flow, element) => image(flow, element),
	pre: (flow, element, state) => {
		const code = codeOf(element);
		if (code)
			flow.addBlock(state.cell || state.link ? codeInCell(code) : fenced(code, languageOf(element)));
	},
	code: (flow, element) => flow.add(inlineCode(dom.text(element).slice(0, MARKDOWN_MAX))),
	iframe: (flow, element) => {
		const title = escape(oneLine(dom.attribute(element, 'title'), TITLE_MAX)), url = absolute(dom.attribute(element, 'src'));
		if (title && isLink(url))
			flow.addBlock(`[${title}](${destination(url)})`);
	},
	math: (flow, element) => {
		const tex = dom.find(element, 'annotation[encoding="application/x-tex"]');
		flow.add(tex ? `$${oneLine(dom.text(tex), URL_TEXT_MAX)}$` : escape(oneLine(dom.text(element), URL_TEXT_MAX)));
	},
};
LEAVES.samp = LEAVES.kbd = LEAVES.tt = LEAVES.code;

// ---- tables ----

const BLOCKS_IN_CELLS = 'h1, h2, h3, form, pre, table, article, section, blockquote';
const isData = (element) => {
	if (/^(?:presentation|none)$/.test(givenRole(element)) || dom.find(element, 'table'))
		return false;
	if (dom.find(element, 'th, caption, thead'))
		return true;
	return !dom.find(element, BLOCKS_IN_CELLS) && dom.find(element, 'td + td') !== null;
};

const spanOf = (element) => Math.min(Math.max(Number.parseInt(dom.attribute(element, 'colspan'), 10) || 1, 1), 100);

const cell = {
	block: true,
	close: (flow, level, inner) => {
		const { row } = level.state.table;
		const text = inner.text.replace(/\\?\n+\s*/g, '<br>').replace(/(?<!\\)\|/g, '\\|').replace(/(?:<br>)+$/, '');
		row?.cells.push(text, ...Array(spanOf(level.element) - 1).fill(''));
		if (row && level.tag !== 'th')
			row.head = false;
	},
};

const row = {
	open: (level) => {
		level.state.table.row = { cells: [], head: true };
	},
	close: (flow, level) => {
		const { table } = level.state;
		if (table.row?.cells.some(Boolean))
			table.rows.push(table.row);
		table.row = null;
	},
};

const line = (cells, width) => `| ${[...cells, ...Array(width - cells.length).fill('')].join(' | ')} |`.replace(/ {2,}/g, ' ');

const tableText = (rows) => {
	const width = rows.reduce((most, { cells }) => Math.max(most, cells.length), 0);
	const [head, ...rest] = rows[0].head ? rows : [{ cells: [] }, ...rows];
	const rule = `|${' --- |'.repeat(width)}`;
	return [line(head.cells, width), rule, ...rest.map(({ cells }) => line(cells, width))].join('\n');
};

const table = {
	block: true, nests: true,
	open: (level) => {
		level.state = { ...level.state, table: { rows: [], row: null }, cell: true };
	},
	close: (flow, level, inner) => {
		flow.addBlock(onOneLine(inner.text)); // its caption
		if (level.state.table.rows.length)
			flow.addBlock(tableText(level.state.table.rows));
	},
};

const RULES = {
	p: { block: true }, a: { open: openLink, close: closeLink },
	strong: mark('**'), b: mark('**'), em: mark('*'), i: mark('*'), del: mark('~~'), s: mark('~~'), strike: mark('~~'),
	q: { close: (flow, level, inner) => flow.addInline(inner, inner.text && `"${inner.text}"`) },
	ul: list, ol: list, menu: list, li: item, blockquote: quote, dt: term,
	dd: { ...item, nests: false }, th: cell, td: cell, tr: row, table,
};
for (let rank = 1; rank <= 6; rank++)
	RULES[`h${rank}`] = { ...heading(rank), state: { heading: true } };

const NO_RULE = {};
const CELLS = new Set(['td', 'th', 'tr']);
const ruleOf = (record, outer) => {
	const { tag } = record, { state } = outer;
	const rule = Object.hasOwn(RULES, tag) ? RULES[tag] : NO_RULE;
	if ((CELLS.has(tag) && !state.table) || (tag === 'table' && !isData(record.element)))
		return { block: true };
	if ((rule.nests && outer.nested >= NESTED_MAX) || (rule.plainInside && (state.marks.has(tag) || state.heading)))
		return NO_RULE;
	if (state.link && rule.block && !rule.close)
		return { spaced: true };
	return rule;
};

// ---- the page ----

const isBlock = (record) => !/^(?:inline|contents|ruby|none|table-cell)/.test(record.style.display);

const isApart = (record, rule) => rule.block || (isBlock(record) && !INLINE.has(record.tag));

// An inline element that is made a block by its style, most often in a row: apart from what is beside it.
const separate = (flow, record, rule, outer) => {
	if (isApart(record, rule))
		flow.break(outer.state.link ? 1 : (rule.lines?.(outer) ?? 2));
	else if (rule.spaced || (isBlock(record) && !record.style.display.startsWith('inline')))
		flow.space();
};

class Writer {
	constructor(content) {
		this.content = content;
		this.cut = content.found.cut;
		this.length = 0;
		this.levels = [{ flow: new Flow(), state: { marks: new Set() }, nested: 0, tag: '' }];
	}
	get level() {
		return this.levels[this.levels.length - 1];
	}
	isLeftOut(record) {
		const { root, asides } = this.content;
		return record !== root && !asides &&
			((record.aside && !root.aside) || isLinkList(this.content, record) || isGutter(record.element));
	}
	open(record) {
		const outer = this.level, rule = ruleOf(record, outer);
		separate(outer.flow, record, rule, outer);
		if (outer.state.link && isApart(record, rule))
			outer.state.link.hasBlock = true;
		const level = { record, rule, element: record.element, tag: record.tag, outer, flow: rule.close ? new Flow() : outer.flow,
			nested: outer.nested + (rule.nests ? 1 : 0), list: rule.close ? undefined : outer.list,
			state: rule.state ? { ...outer.state, ...rule.state } : outer.state };
		if (rule.plainInside)
			level.state = { ...level.state, marks: new Set([...level.state.marks, record.tag]) };
		rule.open?.(level);
		this.levels.push(level);
	}
	close() {
		const level = this.levels.pop(), { flow } = this.level;
		level.rule.close?.(flow, level, level.flow);
		separate(flow, level.record, level.rule, this.level);
	}
	leaf(record) {
		const { flow, state } = this.level, block = isBlock(record) && !INLINE.has(record.tag) && record.tag !== 'img';
		if (block)
			flow.break(2);
		LEAVES[record.tag](flow, record.element, state);
		if (block)
			flow.break(2);
	}
	text(node) {
		const data = dom.data(node);
		const left = MARKDOWN_MAX - this.length;
		this.length += data.length;
		if (left > 0)
			this.level.flow.addText(data.slice(0, left));
	}
	enter(node) {
		if (isText(node))
			this.text(node);
		if (this.length > MARKDOWN_MAX)
			this.cut = true;
		if (!isElement(node) || this.cut && this.length > MARKDOWN_MAX)
			return false;
		const record = this.content.found.records.get(node) ?? leafRecord(node);
		if (!record || this.isLeftOut(record))
			return false;
		if (Object.hasOwn(LEAVES, record.tag)) {
			this.leaf(record);
			return false;
		}
		this.open(record);
		return true;
	}
}

// The survey leaves out what has no text; some of that says something nevertheless.
const leafRecord = (element) => {
	if (!Object.hasOwn(LEAVES, dom.tag(element)))
		return null;
	const record = makeRecord(element, null);
	return isHidden(record.style) || isDecoration(element) ? null : record;
};

const firstHeading = () => {
	for (const element of document.querySelectorAll('h1'))
		if (!isHidden(styleOf(element)) && dom.text(element).trim())
			return oneLine(dom.text(element), TITLE_MAX);
	return '';
};

const titled = (text, content) => {
	if (!content.article || /^# /m.test(text.slice(0, 5_000)))
		return text;
	const title = firstHeading() || oneLine(dom.title(document), TITLE_MAX);
	return title ? `# ${escape(title)}\n\n${text}` : text;
};

const cutAtLine = (text) => {
	const cut = text.slice(0, MARKDOWN_MAX), end = cut.lastIndexOf('\n');
	return (end > MARKDOWN_MAX / 2 ? cut.slice(0, end) : cut).trimEnd();
};

const write = (content) => {
	const writer = new Writer(content);
	const enter = (node) => {
		const into = writer.enter(node);
		enter.stop = writer.length > MARKDOWN_MAX;
		return into;
	};
	walk(content.root.element, enter, () => writer.close());
	const text = titled(writer.level.flow.text.trim(), content);
	return { text: cutAtLine(text), cut: writer.cut || text.length > MARKDOWN_MAX };
};

const METADATA = {
	byline: ['meta[name="author"]', 'meta[property="article:author"]', '[rel="author"]', '[itemprop="author"]', '[class~="byline"]'],
	published: ['meta[property="article:published_time"]', 'meta[itemprop="datePublished"]', 'time[datetime]'],
	excerpt: ['meta[name="description"]', 'meta[property="og:description"]'],
	site: ['meta[property="og:site_name"]'],
};
const metadata = (selectors) => {
	for (const selector of selectors) {
		const element = dom.query(document, selector);
		const value = element && (dom.attribute(element, 'content') || dom.attribute(element, 'datetime') || dom.text(element));
		if (value && !/^https?:/.test(value))
			return oneLine(value, TITLE_MAX);
	}
	return null;
};

library.markdown = () => {
	const content = readable();
	const { text, cut } = content ? write(content) : { text: '', cut: false };
	const result = { title: oneLine(dom.title(document), TITLE_MAX), url: plain(location.href, 32_768), markdown: plain(text) };
	for (const [name, selectors] of Object.entries(METADATA))
		result[name] = metadata(selectors);
	result.language = dom.root(document) ? oneLine(dom.attribute(dom.root(document), 'lang'), 50) || null : null;
	return { ...result, article: content?.article ?? false, truncated: cut };
};
}
