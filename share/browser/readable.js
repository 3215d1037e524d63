// Which part of a page is its content: what is left without navigation, banners, advertisements and the
// like, and of that the part with most of the prose.

const reading = (() => {
const SURVEY_NODES = 400_000;
const SURVEY_MS = 8_000;
const ENOUGH = 250; // characters that make a content

const NEVER = new Set(`script style noscript template head link meta title base param source track object embed
	canvas svg audio video map area select option datalist textarea progress meter frame frameset`.split(/\s+/));
const CONTROLS = new Set(['button', 'input', 'select', 'textarea']);
const SIDE_ROLES = new Set(`navigation banner contentinfo complementary search menu menubar tablist toolbar dialog
	alertdialog tooltip`.split(/\s+/));
const SIDE_NAMES = new RegExp(String.raw`(?:^|[-_\s])(?:cookies?|consent|gdpr|newsletter|subscribe|subscription|social|
	share|sharing|adverts?|advertisement|ads?|sponsor(?:ed|s)?|promo|popup|modal|overlay|sidebar|breadcrumbs?|
	pagination|pager|related|recommended|recommendations|skip|skiplink|toc|toolbar|navbar|navigation|nav|menu|
	masthead|banner|paywall|site-header|site-footer|footer|copyright|edit-?link|vote|votes|voting)(?:$|[-_\s])`
	.replace(/\s*\n\s*/g, ''), 'i');
const NOTE_NAMES = /(?:^|[-_\s])(?:note|tip|warning|caution|important|info|callout|admonition)(?:$|[-_\s])/i;
const PROSE = new Set(['p', 'pre', 'td', 'blockquote', 'li', 'dd']);
const LANDMARKS = new Set(['main', 'article']);

const classOf = (element) =>
	`${dom.attribute(element, 'class')} ${dom.attribute(element, 'id')}`.slice(0, 400);
const givenRole = (element) => dom.attribute(element, 'role').trim().toLowerCase();

const isHidden = (style) => style.display === 'none' || style.visibility !== 'visible';

// Icons and doubles of text for the eye. Larger parts are hidden so while a dialog covers them.
const isDecoration = (element) =>
	dom.attribute(element, 'aria-hidden') === 'true' && /^(?:span|i|a|em|b|small|sup)$/.test(dom.tag(element));

const isLandmark = (record) => LANDMARKS.has(record.tag) || record.role === 'main' || record.role === 'article';

const within = (record, test) => {
	for (let up = record.up, steps = 0; up && steps < 100; up = up.up, steps++)
		if (test(up))
			return true;
	return false;
};

// Each says by what an element is beside the content.
const SIDES = [
	(r) => r.tag === 'nav' || r.tag === 'dialog',
	(r) => r.tag === 'aside' && !(NOTE_NAMES.test(classOf(r.element)) || r.role === 'note'),
	(r) => r.tag === 'footer' && !within(r, (up) => up.tag === 'blockquote'),
	(r) => r.tag === 'header' && !within(r, isLandmark),
	(r) => SIDE_ROLES.has(r.role),
	(r) => r.style.position === 'fixed',
];
const isAside = (record, strict) =>
	SIDES.some((test) => test(record)) ||
	(strict && !isLandmark(record) && !PROSE.has(record.tag) && SIDE_NAMES.test(classOf(record.element)));

const styleOf = (element) => {
	const { display, visibility, position } = getComputedStyle(element);
	return { display, visibility, position };
};
const makeRecord = (element, up) => ({
	element, up, tag: dom.tag(element), role: givenRole(element), style: styleOf(element),
	below: [], text: 0, link: 0, links: 0, own: 0, commas: 0, score: 0, aside: false,
});

const isSkipped = (record) =>
	NEVER.has(record.tag) || record.tag === 'iframe' || isHidden(record.style) || isDecoration(record.element);

// What there is, as records: how much text is below each element, and how much of it is links. What is
// beside the content counts for `whole` only.
const survey = (root, strict) => {
	const result = { top: null, records: new Map(), whole: 0, cut: false };
	const until = performance.now() + SURVEY_MS;
	let at = null, aside = 0, link = 0, nodes = 0;
	const addText = (data) => {
		const chars = data.replace(/\s+/g, ' ').trim().length;
		result.whole += chars;
		if (aside || !chars)
			return;
		at.text += chars;
		at.own += chars;
		at.link += link ? chars : 0;
		at.commas += (data.match(/[,;、，。،؛]/g) ?? []).length;
	};
	const enter = (node) => {
		if (++nodes > SURVEY_NODES || (nodes % 1000 === 0 && performance.now() > until)) {
			result.cut = enter.stop = true;
			return false;
		}
		if (isText(node) && at)
			addText(dom.data(node));
		if (!isElement(node))
			return false;
		const record = makeRecord(node, at);
		if (isSkipped(record) || CONTROLS.has(record.tag))
			return false;
		record.aside = aside > 0 || (at !== null && isAside(record, strict));
		aside += record.aside ? 1 : 0;
		link += record.tag === 'a' ? 1 : 0;
		record.links = record.tag === 'a' ? 1 : 0;
		result.records.set(node, record);
		result.top ??= record;
		at?.below.push(record);
		at = record;
		return true;
	};
	const leave = () => {
		const { up } = at;
		aside -= at.aside ? 1 : 0;
		link -= at.tag === 'a' ? 1 : 0;
		if (up && !at.aside) {
			up.text += at.text;
			up.link += at.link;
			up.links += at.links;
			up.commas += at.commas;
		}
		at = up;
	};
	walk(root, enter, leave);
	return result;
};

const density = (record) => (record.text ? record.link / record.text : 0);

// Prose counts for what it is in, the less the farther up.
const score = (records) => {
	for (const record of records.values()) {
		const text = PROSE.has(record.tag) ? record.text : record.own;
		if (record.aside || text < 25)
			continue;
		const points = 1 + Math.min(record.commas, 10) + Math.min(text / 100, 3);
		for (let up = record.up ?? record, level = 1; up && level <= 5; up = up.up, level++)
			up.score += points / level;
	}
	for (const record of records.values())
		record.score *= 1 - density(record);
};

// A part that is one of several like it is not the whole: up to what they have in common.
const widen = (top) => {
	let best = top;
	for (let up = best.up; up; up = up.up) {
		const peers = up.below.filter((r) => !r.aside && r.score >= best.score * 0.25).length;
		if (peers > 1 || (up.text > best.text * 1.3 && density(up) < 0.5))
			best = up;
	}
	return best;
};

const byScore = (found) => {
	score(found.records);
	let best = null;
	for (const record of found.records.values())
		if (!record.aside && record.score > (best?.score ?? 0))
			best = record;
	return best && widen(best);
};

const landmark = (found, test, share, least) => {
	const fit = [...found.records.values()].filter((r) => !r.aside && test(r) && !within(r, test));
	return fit.length === 1 && fit[0].text >= Math.min(least, found.top.text * share) ? fit[0] : null;
};

// The author's word, where it is plausible: one main part, or one article.
const byLandmark = (found) => {
	const main = landmark(found, (r) => r.tag === 'main' || r.role === 'main', 0.3, ENOUGH);
	const article = landmark(found, (r) => r.tag === 'article' || r.role === 'article', 0.5, ENOUGH * 2);
	if (main && article && within(article, (r) => r === main) && article.text < main.text * 0.6)
		return main;
	return article ?? main;
};

// The content of a document: the records of the survey, which of them is its root, and whether it reads
// like an article. Where hardly anything is left without what is beside it, that is content too.
const readable = () => {
	const body = dom.body(document) ?? dom.root(document);
	for (const strict of [true, false]) {
		const found = body && survey(body, strict);
		if (!found?.top)
			return null;
		if (found.top.text < ENOUGH && found.top.text < found.whole * 0.5)
			continue;
		const root = byLandmark(found) ?? byScore(found) ?? found.top;
		const article = root.text >= ENOUGH && density(root) < 0.5;
		return { found, root: article ? root : wider(found, root), article, asides: false };
	}
	const found = survey(body, false);
	return { found, root: found.top, article: false, asides: true };
};

// Of a page without an article all that is not beside it, unless a landmark says less.
const wider = (found, root) => (isLandmark(root) ? root : found.top);

// Lists of links in an article: what else there is to read.
const isLinkList = (content, record) => {
	const { root, article } = content;
	return article && record !== root && !isLandmark(record) && record.links >= 3 && record.text > 0 &&
		density(record) > 0.7 && record.text < root.text * 0.2 && density(root) < 0.4 &&
		/^(?:div|section|ul|ol|table|form|center)$/.test(record.tag) && !within(record, (up) => PROSE.has(up.tag));
};

return { NEVER, CONTROLS, readable, isLinkList, makeRecord, styleOf, classOf, givenRole, isHidden, isDecoration };
})();
