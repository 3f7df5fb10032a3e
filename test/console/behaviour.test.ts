import assert from 'node:assert/strict';
import type { Controls, DeadLetterAsk, DeadLettersOfTopic } from '../../src/manage/controls.ts';
import type { ConsoleDocument } from '../../src/manage/views.ts';
import { requiring } from '../support/requires.ts';
import { until } from '../support/until.ts';
import { openPage, type PageOptions, stopBrowser, type WatchedPage } from './browser.ts';
import { type BusyOptions, startBusyService } from './busy-service.ts';
import { startProxy } from './prefix-proxy.ts';

const token = 'a-token-of-some-length';
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

requiring('chromium', 'what one can do with the console', function () {
  this.timeout(60_000);
  const services: { close(): Promise<void> }[] = [];
  const pages: WatchedPage[] = [];

  const serve = async (options?: BusyOptions) => {
    const service = await startBusyService(options);
    services.push(service);
    return service;
  };
  async function open(address: string, options?: PageOptions): Promise<WatchedPage> {
    const seen = await openPage(options);
    pages.push(seen);
    await seen.page.goto(address);
    return seen;
  }
  afterEach(async () => {
    for (const { page } of pages) await page.browserContext().close();
    for (const service of services.splice(0)) await service.close();
    assert.deepEqual(
      pages.splice(0).flatMap(({ complaints }) => complaints),
      [],
    );
  });
  after(stopBrowser);

  /** What the browser itself says of an answer that is no good, or of none. */
  const forgive = ({ complaints }: WatchedPage, expected: RegExp): void => {
    complaints.push(...complaints.splice(0).filter((each) => !expected.test(each)));
  };

  it('takes a token that is typed in, keeps it in the tab alone, and asks again when it no longer holds', async () => {
    const server = { address: '0.0.0.0', token };
    const first = await serve({ server });
    const seen = await open(first.address);
    const { page, shows } = seen;
    await shows(/You need a token of this process/);
    await page.type('#token', 'a-token-that-is-wrong');
    await page.keyboard.press('Enter');
    await shows(/not valid, or no longer valid/);
    await page.$eval('#token', (field) => Object.assign(field, { value: '' }));
    await page.type('#token', token);
    await page.keyboard.press('Enter');
    await shows(/shop-orders/);
    assert.equal(page.url(), first.address);
    assert.deepEqual(await page.browserContext().cookies(), []);
    assert.equal(await page.evaluate('localStorage.length'), 0);

    await first.close();
    await serve({ server: { ...server, port: first.port, token: 'another-token-from-now-on' } });
    await shows(/not valid, or no longer valid/);
    assert.match(await seen.text(), /shop-orders/);
    forgive(seen, /status of 401|ERR_CONNECTION/);
  });

  it('asks for nothing while it is paused, nor while nobody sees it', async () => {
    const { page, shows, asked } = await open((await serve()).address);
    await shows(/live/);
    await page.click('::-p-text(Pause)');
    let before = asked.length;
    await pause(2_600);
    assert.equal(asked.length, before);
    await page.click('::-p-text(Go on)');
    await pause(200);
    assert.ok(asked.length > before, 'asked at once');

    const hide = (isHidden: boolean): string =>
      `Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} }); document.dispatchEvent(new Event('visibilitychange'))`;
    await page.evaluate(hide(true));
    await pause(100);
    before = asked.length;
    await pause(2_600);
    assert.equal(asked.length, before);
    await page.evaluate(hide(false));
    await pause(200);
    assert.ok(asked.length > before, 'asked at once');
    const history = asked.map((url) => Number(new URL(url).searchParams.get('after')));
    assert.equal(history[0], 0);
    assert.ok(
      history.slice(1).every((after) => after > 0),
      'the hour is handed over once',
    );
  });

  it('reads the dead letter topic when it is told to, by what was typed in, and shows what it says as text', async () => {
    const asked: DeadLetterAsk[] = [];
    const markup = '<img src=x onerror=alert(1)>';
    const one = {
      ...{ eventId: '4711', eventType: markup, failureReason: 'TimeoutException', originalTopic: 'orders' },
      ...{ timestamp: '2026-03-04T10:00:00.000Z', partition: 3, offset: 12_345 },
    };
    const answers: (Promise<DeadLettersOfTopic> | undefined)[] = [
      Promise.resolve({ topic: 'dead', deadLetters: [one], read: 20_000, unreadable: 2, complete: false }),
      undefined,
    ];
    const newest = (ask: DeadLetterAsk) => {
      asked.push(ask);
      return answers.shift();
    };
    const deadLetterTopic = { missing: () => undefined, newest };
    const seen = await open((await serve({ controls: { deadLetterTopic } })).address);
    const { page, shows } = seen;
    await shows(/the newest of this process; 3 wait in the topic/);
    assert.equal(asked.length, 0);
    await page.type('#dead-type', ` ${markup}`);
    await page.type('#dead-since', '2h');
    await page.keyboard.press('Enter');
    await shows(
      /1 dead letter of 20,000 records that were looked at, 2 of which cannot be read\..*svc dlq list/,
    );
    assert.deepEqual([asked[0]?.types, asked[0]?.topics, asked[0]?.limit], [[markup], undefined, 200]);
    assert.ok(Math.abs(Date.now() - 7_200_000 - (asked[0]?.since ?? 0)) < 60_000);
    const row = await page.$eval('[aria-labelledby="dead-letters"] tbody', (rows) => rows.textContent);
    for (const text of [markup, 'TimeoutException', 'orders', '4711', '3', '12345'])
      assert.ok(row?.includes(text), `${text} in ${row}`);
    assert.equal(await page.$('img'), null);
    await page.click('::-p-text(Those of this process)');
    await shows(/the newest of this process/);

    await page.click('::-p-text(Read the topic)');
    await shows(/Another request is reading it/);
    forgive(seen, /status of 409/);
  });

  it('draws the last ten minutes of each type, and says what a screen reader shall hear', async () => {
    const markup = '<img src=x onerror=alert(1)>';
    const change = (document: ConsoleDocument): object => ({
      ...document,
      types: [
        { ...document.types[0], eventType: markup },
        { ...document.types[1], eventType: 'OTHER' },
      ],
      trends: document.trends.length > 0 ? [{ eventType: markup, events: [0, 30, 60, 30] }] : [],
    });
    const { page, shows, asked } = await open((await serve({ change })).address);
    await shows(/OTHER/);
    const trends = () =>
      page.$$eval('#console [aria-labelledby="types"] tbody tr', (rows) =>
        rows.map((row) => row.querySelector('.sparkline')?.getAttribute('aria-label') ?? null),
      );
    const expected = ['3.0/s on average, 6.0/s at most, 3.0/s now', null];
    assert.deepEqual(await trends(), expected);
    const before = asked.length;
    while (asked.length < before + 2) await pause(100);
    assert.deepEqual(await trends(), expected, 'kept while nothing new comes');
  });

  it('needs no mouse: a dialog opens, holds the focus, and gives it back', async () => {
    const { page, shows } = await open((await serve()).address);
    await shows(/Recover…/);
    const focused = () => page.evaluate('document.activeElement.textContent') as Promise<string>;
    for (let tabs = 0; (await focused()) !== 'Recover…'; tabs++) {
      assert.ok(tabs < 20, 'it is never reached');
      await page.keyboard.press('Tab');
    }
    await page.keyboard.press('Enter');
    await shows(/Count first/);
    assert.ok(await page.$('dialog :focus'));
    await page.keyboard.press('Escape');
    await until(async () => (await page.$('dialog')) === null && (await focused()) === 'Recover…');
  });

  it('stays quick and short with 1,000 event types and targets', async () => {
    const many = (document: ConsoleDocument): object => ({
      ...document,
      types: Array.from({ length: 100 }, (_, n) => ({ ...document.types[0], eventType: `TYPE_${n}` })),
      typeCount: 1_000,
      targets: Array.from({ length: 1_000 }, (_, n) => ({ ...document.targets[0], target: `./a.ts#f${n}` })),
    });
    const { page, shows } = await open((await serve({ change: many })).address);
    await shows(/the busiest 100 of 1,000/);
    assert.ok((await page.$$('tbody tr')).length < 60);
    await page.type('[aria-label="Filter: Targets"]', 'f999');
    await shows(/a\.ts#f999/);
    await page.$eval('[aria-label="Filter: Targets"]', (field) => Object.assign(field, { value: '' }));
    const took = await page.evaluate(`(async () => {
      const begun = performance.now();
      [...document.querySelectorAll('button')].find((each) => each.textContent === 'All 100').click();
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return performance.now() - begun;
    })()`);
    assert.ok(Number(took) < 1_000, `${took} ms`);
    assert.ok((await page.$$('tbody tr')).length > 100);
  });

  it('works behind a proxy that strips a prefix and ends TLS, which may act as well', async () => {
    let resets = 0;
    const resetBreakers = (): ReturnType<Controls['resetBreakers']> => {
      resets++;
      return { broker: { before: 'OPEN', after: 'CLOSED' }, outbox: null };
    };
    const proxy = await startProxy('/team/orders');
    services.push(proxy);
    const server = { token, publicUrl: proxy.url };
    const { port } = await serve({ server, controls: { resetBreakers } });
    proxy.forwardTo(port);
    const seen = await open(`${proxy.url}/team/orders/actuator/svc`);
    const { page, shows } = seen;
    // Everybody looks local behind it, so that reading asks for the token, too.
    await shows(/to read from another machine/);
    await page.type('#token', token);
    await page.keyboard.press('Enter');
    await shows(/shop-orders/);
    forgive(seen, /status of 401/);
    await page.click('::-p-text(Reset…)');
    await shows(/breakers, that of the broker \(CLOSED\) .* will be closed: shop-orders in production/);
    assert.equal(resets, 0);
    await page.click('::-p-text(Close the breakers)');
    await shows(/The breakers are closed/);
    assert.equal(resets, 1);
  });
});
