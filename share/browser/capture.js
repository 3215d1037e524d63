// What is to be captured of a page.

const inDocument = (box) => ({ x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height });

// Two frames are shown, or none is, because the page is not: then it does not matter.
const painted = () => new Promise((done) => {
	requestAnimationFrame(() => requestAnimationFrame(done));
	setTimeout(done, 500);
});

const capturedElement = async ({ selector, index, numbering, timeout_ms }) => {
	if (index === undefined)
		await library.await_selector({ selector, state: 'visible', timeout_ms });
	const element = index === undefined ? query(selector)[0] : byNumber({ index, numbering });
	if (!element && index !== undefined)
		throw new Error(`element ${index} is in a frame of the page: only elements of the page itself can be captured`);
	if (!element)
		throw new Error(`the element '${shown(selector)}' went away`);
	return element;
};

// Where the first element of a selector, or that of an index, is in the document, scrolled into view.
library.capture_box = async (args) => {
	const element = await capturedElement(args);
	element.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: 'instant' });
	await painted();
	return inDocument(dom.box(element));
};

// The size of the view with its scrollbars.
library.capture_view = () => ({ width: innerWidth, height: innerHeight });

// Without the scrollbars of the whole page: a picture of more than is in view has none. Where they are left to it, the browser lays the
// page out again after that has been measured, and does not bring them back.
const bars = { sheet: null, users: 0 };
const { get: sheetsOf, set: setSheets } = Object.getOwnPropertyDescriptor(Document.prototype, 'adoptedStyleSheets');

library.capture_bars = ({ hidden }) => {
	bars.users = Math.max(0, bars.users + (hidden ? 1 : -1));
	const others = [...sheetsOf.call(document)].filter((sheet) => sheet !== bars.sheet);
	if (bars.users && !bars.sheet) {
		bars.sheet = new CSSStyleSheet();
		bars.sheet.replaceSync(':root { scrollbar-width: none !important }');
	}
	setSheets.call(document, bars.users ? [...others, bars.sheet] : others);
};
