// What is to be captured of a page.

const inDocument = (box) => ({ x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height });

// Two frames are shown, or none is, because the page is not: then it does not matter.
const painted = () => new Promise((done) => {
	requestAnimationFrame(() => requestAnimationFrame(done));
	setTimeout(done, 500);
});

// Where the first element of a selector is in the document, scrolled into view.
library.capture_box = async ({ selector, timeout_ms }) => {
	await library.await_selector({ selector, state: 'visible', timeout_ms });
	const element = query(selector)[0];
	if (!element)
		throw new Error(`the element '${shown(selector)}' went away`);
	element.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: 'instant' });
	await painted();
	return inDocument(dom.box(element));
};
