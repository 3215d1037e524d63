// Where a text stands in a page, as a person reads it: over the borders of elements within a paragraph, whatever the
// space between its words, and in capitals or not.

{
const { NEVER, styleOf, isHidden } = reading;
const FOUND_MAX = 1000;
const SEARCH_MS = 10_000;
const AROUND = 80; // characters

// A run of text without a break: its text nodes, each with where it begins.
class Run {
	text = '';
	pieces = [];
	add(node) {
		this.pieces.push({ node, at: this.text.length });
		this.text += dom.data(node);
	}
	// The text node at an index, and the offset in it.
	place(index) {
		let low = 0, high = this.pieces.length - 1;
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			if (this.pieces[middle].at <= index)
				low = middle;
			else
				high = middle - 1;
		}
		const { node, at } = this.pieces[low];
		return [node, index - at];
	}
	range(from, to) {
		const range = document.createRange();
		range.setStart(...this.place(from));
		const [node, offset] = this.place(to - 1);
		range.setEnd(node, offset + 1);
		return range;
	}
}

const wanted = (keyword) => {
	const words = keyword.trim().split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\\/-]/g, '\\$&'));
	return new RegExp(words.join('\\s+'), 'giu');
};

const report = (run, from, to) => {
	const range = run.range(from, to), box = range.getBoundingClientRect();
	const element = dom.parent(run.place(from)[0]);
	return {
		text: oneLine(run.text.slice(from, to)),
		context: oneLine(run.text.slice(Math.max(0, from - AROUND), to + AROUND)),
		element: element && isElement(element) ? dom.tag(element) : null,
		x: Math.round(box.x), y: Math.round(box.y), width: Math.round(box.width), height: Math.round(box.height),
		in_viewport: box.width > 0 && box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
	};
};

const searchRun = (run, pattern, found) => {
	for (const match of run.text.matchAll(pattern)) {
		if (found.length >= FOUND_MAX)
			return;
		found.push(report(run, match.index, match.index + match[0].length));
	}
};

const search = (root, pattern) => {
	const until = performance.now() + SEARCH_MS, found = [], open = [];
	let run = new Run(), nodes = 0;
	const flush = () => {
		if (run.text)
			searchRun(run, pattern, found);
		run = new Run();
	};
	const enter = (node) => {
		if (found.length >= FOUND_MAX || (++nodes % 1000 === 0 && performance.now() > until))
			enter.stop = true;
		if (isText(node))
			run.add(node);
		if (!isElement(node) || NEVER.has(dom.tag(node)))
			return false;
		const style = styleOf(node);
		const block = !/^(?:inline$|contents|ruby)/.test(style.display) || dom.tag(node) === 'br';
		if (block)
			flush();
		if (isHidden(style) && style.display === 'none')
			return false;
		open.push(block);
		return true;
	};
	walk(root, enter, () => {
		if (open.pop())
			flush();
	});
	flush();
	return { found, cut: !!enter.stop || found.length >= FOUND_MAX };
};

library.find_text = ({ keyword }) => {
	const root = dom.body(document) ?? dom.root(document);
	const { found, cut } = root ? search(root, wanted(keyword)) : { found: [], cut: false };
	return { matches: found, cut };
};
}
