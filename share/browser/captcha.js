// Which CAPTCHA a page shows: rules by what stands in the page, and whether it waits for a person.
// It is only reported: nothing here solves, clicks or hides one.

{
const hasToken = (...names) => () => names.some((name) =>
	[...dom.named(document, name)].some((field) => String(field.value ?? '').length > 10));

// `widget`: what shows it; `scripts`: what loads it, which alone says only that it may come;
// `solved`: what a solved one leaves in the page.
const RULES = [
	{ type: 'recaptcha', name: 'reCAPTCHA', widget: 'iframe[src*="/recaptcha/api2/"], iframe[src*="/recaptcha/enterprise/"], .g-recaptcha, #g-recaptcha',
		scripts: 'script[src*="/recaptcha/api.js"], script[src*="/recaptcha/enterprise.js"]',
		invisible: '[data-size="invisible"], iframe[src*="size=invisible"], .grecaptcha-badge', solved: hasToken('g-recaptcha-response') },
	{ type: 'hcaptcha', name: 'hCaptcha', widget: 'iframe[src*="hcaptcha.com"], .h-captcha, h-captcha',
		scripts: 'script[src*="hcaptcha.com/"]', invisible: '.h-captcha[data-size="invisible"]', solved: hasToken('h-captcha-response') },
	{ type: 'turnstile', name: 'Cloudflare Turnstile', widget: 'iframe[src*="challenges.cloudflare.com"], .cf-turnstile, #cf-turnstile',
		scripts: 'script[src*="challenges.cloudflare.com/turnstile"]', solved: hasToken('cf-turnstile-response') },
	{ type: 'cloudflare', name: 'Cloudflare challenge page', widget: '#challenge-form, #challenge-running, #challenge-stage, #cf-challenge-running',
		scripts: 'script[src*="/cdn-cgi/challenge-platform/"]', solved: hasToken('cf_captcha_kind') },
	{ type: 'arkose', name: 'Arkose Labs FunCaptcha', widget: 'iframe[src*="arkoselabs.com"], iframe[src*="funcaptcha.com"], #FunCaptcha, .funcaptcha',
		scripts: 'script[src*="arkoselabs.com"], script[src*="funcaptcha.com"]', solved: hasToken('fc-token', 'verification-token') },
	{ type: 'geetest', name: 'GeeTest', widget: '.geetest_holder, .geetest_captcha, .geetest_panel, .geetest_box, .geetest_btn',
		scripts: 'script[src*="geetest.com"], script[src*="geevisit.com"]', solved: hasToken('geetest_validate', 'geetest_seccode') },
	{ type: 'aws_waf', name: 'AWS WAF CAPTCHA', widget: '#captcha-container awswaf-captcha, awswaf-captcha, #amzn-captcha-verify-button',
		scripts: 'script[src*="awswaf.com"], script[src*="captcha.awswaf"]' },
	{ type: 'datadome', name: 'DataDome', widget: 'iframe[src*="captcha-delivery.com"]', scripts: 'script[src*="captcha-delivery.com"]' },
	{ type: 'perimeterx', name: 'HUMAN (PerimeterX) press and hold', widget: '#px-captcha, .px-captcha-container', scripts: 'script[src*="px-captcha"]' },
	{ type: 'mtcaptcha', name: 'MTCaptcha', widget: '.mtcaptcha, iframe[src*="mtcaptcha.com"]', scripts: 'script[src*="mtcaptcha.com"]', solved: hasToken('mtcaptcha-verifiedtoken') },
	{ type: 'friendly', name: 'Friendly Captcha', widget: '.frc-captcha, iframe[src*="frcapi.com"]', scripts: 'script[src*="friendly-challenge"], script[src*="frcapi.com"]',
		solved: hasToken('frc-captcha-solution', 'frc-captcha-response') },
	{ type: 'altcha', name: 'ALTCHA', widget: 'altcha-widget', solved: hasToken('altcha') },
	{ type: 'yandex', name: 'Yandex SmartCaptcha', widget: '.smart-captcha, .CheckboxCaptcha, .AdvancedCaptcha', scripts: 'script[src*="smartcaptcha"]', solved: hasToken('smart-token') },
	{ type: 'tencent', name: 'Tencent Captcha', widget: '#tcaptcha_transform_dy, #tcaptcha_iframe, iframe[src*="captcha.qq.com"], iframe[src*="captcha.gtimg.com"]',
		scripts: 'script[src*="TCaptcha"]' },
	{ type: 'netease', name: 'NetEase Yidun', widget: '.yidun, .yidun_popup', scripts: 'script[src*="dun.163.com"], script[src*="dun.163yun.com"]', solved: hasToken('NECaptchaValidate') },
	{ type: 'aliyun', name: 'Alibaba Cloud slider', widget: '#nc_1_wrapper, .nc-container, #aliyunCaptcha-window-popup, #baxia-dialog-content', scripts: 'script[src*="AliyunCaptcha"]' },
	{ type: 'slider', name: 'slider puzzle', widget: '.slider-captcha, .captcha-slider, .slidecaptcha, .slide-verify, .verify-slide, .captcha_verify_container, #slide-captcha' },
	{ type: 'image', name: 'text in a picture', widget: 'img[src*="captcha" i], img[id*="captcha" i], img[class*="captcha" i], canvas[id*="captcha" i]' },
	{ type: 'generic', name: 'CAPTCHA of an unknown kind', widget: 'iframe[src*="captcha" i], iframe[title*="captcha" i], input[name*="captcha" i]:not([type=hidden]), [id="captcha"], [class~="captcha"]' },
];
const GENERAL = new Set(['image', 'generic']);

// The first match in the document and in open shadow roots.
const findAll = (css) => openRoots(document).flatMap((root) => [...dom.all(root, css)]).slice(0, 50);

const isSeen = (element) => {
	const { width, height } = dom.box(element);
	return width > 0 && height > 0 && dom.shown(element, { visibilityProperty: true });
};

const look = (rule) => {
	const found = findAll(rule.widget), seen = found.find(isSeen);
	const invisible = !!rule.invisible && findAll(rule.invisible).length > 0;
	const solved = !!rule.solved?.();
	if (!found.length && !(rule.scripts && findAll(rule.scripts).length))
		return null;
	const at = seen && dom.box(seen);
	return {
		type: rule.type, name: rule.name, visible: !!seen, solved,
		// One that is not seen, or that needs no person, stops nobody.
		blocking: !!seen && !solved && !invisible,
		element: found.length ? describe(seen ?? found[0]) : null,
		...(at ? { x: Math.round(at.x), y: Math.round(at.y), width: Math.round(at.width), height: Math.round(at.height) } : {}),
	};
};

const detect = () => {
	const known = [];
	for (const rule of RULES)
		if (!GENERAL.has(rule.type) || !known.length) {
			const found = look(rule);
			if (found)
				known.push(found);
		}
	return { detected: known.some((one) => one.blocking), captchas: known };
};

// The page has come far enough to be judged: what loads a CAPTCHA has mostly run.
const settled = (most_ms) => new Promise((done) => {
	if (document.readyState === 'complete')
		done();
	addEventListener('load', () => setTimeout(done), { once: true });
	setTimeout(done, most_ms);
});

library.captcha = detect;

// Whether none is in the way any more, looked at every poll_ms until the time is over.
library.captcha_wait = async ({ timeout_ms, poll_ms }) => {
	const end = performance.now() + timeout_ms;
	await settled(Math.min(timeout_ms, 5000));
	while (detect().detected) {
		const left = end - performance.now();
		if (left <= 0)
			return { resolved: false };
		await new Promise((done) => setTimeout(done, Math.min(poll_ms, left)));
	}
	return { resolved: true };
};
}
