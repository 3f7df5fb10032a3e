import chromium from '@sparticuz/chromium';
import puppeteer, { type Browser, type Page } from 'puppeteer-core';

export type { Page } from 'puppeteer-core';

let browser: Promise<Browser> | undefined;

/** Chromium without a window, once for all tests of a process. It ends with them. */
export function startBrowser(): Promise<Browser> {
  browser ??= (async () =>
    puppeteer.launch({
      executablePath: await chromium.executablePath(),
      headless: 'shell',
      // It takes its language from there, and that of POSIX is none of a browser.
      env: { ...process.env, LC_ALL: 'en_US.UTF-8' },
      // A certificate of a test is nobody's.
      args: [
        '--ignore-certificate-errors',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--font-render-hinting=none',
      ],
    }))();
  return browser;
}

export async function stopBrowser(): Promise<void> {
  await (await browser)?.close();
  browser = undefined;
}

/** A page that keeps what a browser complains about: what it logs, what the policy of the page refuses, what fails to load. */
export interface WatchedPage {
  readonly page: Page;
  readonly complaints: string[];
  /** Requests for the document of the page. */
  readonly asked: string[];
  /** What is written on it. */
  text(): Promise<string>;
  /** Waits for text. */
  shows(pattern: RegExp, withinMs?: number): Promise<void>;
}

export interface PageOptions {
  /** In pixels of CSS. */
  readonly width?: number;
  /** Pixels of the screen for one of CSS: 2 where somebody has zoomed to 200 %, with half the width. */
  readonly scale?: number;
  readonly dark?: boolean;
}

export async function openPage({
  width = 1280,
  scale = 1,
  dark = false,
}: PageOptions = {}): Promise<WatchedPage> {
  const context = await (await startBrowser()).createBrowserContext();
  const page = await context.newPage();
  await page.setViewport({ width, height: 900, deviceScaleFactor: scale });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }]);
  const complaints: string[] = [];
  const asked: string[] = [];
  page.on('console', (message) => {
    if (message.type() !== 'log') complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => complaints.push(`error: ${error}`));
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (request.url().includes('console.json')) asked.push(request.url());
  });
  await page.evaluateOnNewDocument(`document.addEventListener('securitypolicyviolation', (event) =>
    console.error('refused by the policy: ' + event.effectiveDirective + ' ' + event.blockedURI))`);
  const text = (): Promise<string> => page.evaluate('document.body.innerText') as Promise<string>;
  return {
    ...{ page, complaints, asked, text },
    async shows(pattern, withinMs = 10_000) {
      for (const endMs = performance.now() + withinMs; ; ) {
        const found = await text();
        if (pattern.test(found)) return;
        if (performance.now() > endMs) throw new Error(`no ${pattern} on the page:\n${found}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
  };
}
