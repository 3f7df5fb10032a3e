import assert from 'node:assert/strict';
import axe from 'axe-core';
import type { ConsoleDocument } from '../../src/manage/views.ts';
import { requiring } from '../support/requires.ts';
import { openPage, stopBrowser, type WatchedPage } from './browser.ts';
import { startBusyService } from './busy-service.ts';

/** What does not fit: beyond the page, cut off by what it is in, only seen when something is scrolled sideways, or out of its box. */
const misfits = `[...document.querySelectorAll('body *')].flatMap((element) => {
  const { left, right, width } = element.getBoundingClientRect();
  // What is there for those who hear it.
  if (width <= 1 || element.closest('.u-over, thead, title') !== null) return [];
  const of = element.tagName + '.' + (element.getAttribute('class') ?? '') + ': ' + element.textContent.slice(0, 60);
  const box = element.matches('.station text') ? element.parentElement.querySelector('rect').getBoundingClientRect() : undefined;
  return [
    ...(left < -0.5 || right > innerWidth + 0.5 ? ['beyond the page, ' + of] : []),
    ...(element instanceof HTMLElement && element.tagName !== 'INPUT' && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX !== 'visible' ? ['cut off or scrolled, ' + of] : []),
    ...(box !== undefined && right > box.right - 4 ? ['out of its box, ' + of] : []),
  ];
}).slice(0, 10)`;

const long = 'a-name-that-somebody-made-as-long-as-it-gets'.repeat(5).slice(0, 200);

/** Names as long as they may be. */
const withLongNames = (document: ConsoleDocument): object => ({
  ...document,
  process: {
    ...document.process,
    ...{ service: { name: long, version: long }, host: long, environment: long },
  },
  health: {
    ...document.health,
    details: {
      ...document.health.details,
      topic: long,
      error: long,
      keys: [{ provider: 'vault', keyId: long, status: 'UP' }],
    },
  },
  types: document.types.map((type, n) => ({ ...type, eventType: `${n}${long}`, published: 123_456_789 })),
  targets: document.targets.map((target) => ({ ...target, target: long, reason: long })),
  deadLetters: {
    waiting: 1_234_567,
    recent: document.deadLetters.recent.map((one, n) => ({
      ...one,
      eventType: `${n}${long}`,
      failureReason: long,
    })),
  },
});

requiring('chromium', 'the console, large and small', function () {
  this.timeout(120_000);
  const ends: (() => Promise<void>)[] = [];
  after(stopBrowser);
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });

  const findings = async ({ page }: WatchedPage): Promise<string[]> => {
    const { violations } = (await page.evaluate(`${axe.source}; axe.run()`)) as axe.AxeResults;
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
  };

  for (const [what, options, change] of [
    ['1280 pixels', { width: 1280, dark: true }],
    ['1280 pixels at 200 %', { width: 640, scale: 2 }],
    ['1280 pixels at 200 % with long names', { width: 640, scale: 2, dark: true }, withLongNames],
    ['1280 pixels at 400 %, which are 320', { width: 320, scale: 4, dark: true }],
    ['390 pixels with long names', { width: 390 }, withLongNames],
    ['320 pixels with long names', { width: 320 }, withLongNames],
  ] as const)
    it(`fits within ${what}, and axe finds nothing`, async () => {
      const service = await startBusyService({ ...(change && { change }) });
      const seen = await openPage(options);
      const { page, shows, complaints } = seen;
      ends.push(() => page.browserContext().close(), service.close);
      await page.goto(service.address);
      await page.waitForSelector('.plot canvas');
      assert.equal(await page.evaluate('devicePixelRatio'), 'scale' in options ? options.scale : 1);
      const fits = async (when: string): Promise<void> => {
        assert.deepEqual(await page.evaluate(misfits), [], when);
        assert.equal(await page.evaluate('document.documentElement.scrollWidth'), options.width, when);
        assert.deepEqual(await findings(seen), [], when);
      };
      await fits('as it opens');
      await page.click('[aria-label="Waiting as a table"]');
      await page.click('::-p-text(Read the topic)');
      await shows(/of 2 records that were looked at/);
      await fits('with tables');
      await page.click('::-p-text(Replay…)');
      await shows(/Count first/);
      await fits('with a dialog');
      await page.keyboard.press('Escape');
      await page.click('::-p-text(Token…)');
      await shows(/Use this token/);
      await fits('with the field for a token');
      assert.deepEqual(complaints, []);
    });
});
