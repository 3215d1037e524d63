// As client.py says, with Puppeteer.
import { createRequire } from 'node:module';
import readline from 'node:readline';

// argv: the browser's address, and where packages are.
const { default: puppeteer } = await createRequire(`${process.argv[3]}/`)('puppeteer-core');

const say = (said) => console.log(JSON.stringify(said));
const browser = await puppeteer.connect({ browserURL: process.argv[2], defaultViewport: null });
let page;
const orders = {
	async open(url) {
		page = await browser.newPage();
		await page.goto(url);
		return page.title();
	},
	evaluate: (code) => page.evaluate(code),
	click: (selector) => page.click(selector),
	fill: (selector, text) => page.locator(selector).fill(text),
	pages: async () => (await browser.pages()).map((one) => one.url()),
	leave: () => browser.disconnect(),
	close: () => browser.close(),
};
say({ ready: true });
for await (const line of readline.createInterface(process.stdin)) {
	const [what, ...values] = JSON.parse(line);
	try {
		say({ value: (await orders[what](...values)) ?? null });
	} catch (error) {
		say({ error: String(error) });
	}
	if (what === 'leave' || what === 'close') process.exit();
}
