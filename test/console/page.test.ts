import assert from 'node:assert/strict';
import { plainApp } from '../e2e/support/apps.ts';
import { type RunningApp, startApp } from '../e2e/support/start-app.ts';
import { configOf } from '../e2e/support/topic-config.ts';
import { openPage, stopBrowser, type WatchedPage } from './browser.ts';

/** In the name of an event type, and in that of a service. */
const markup = '<img src=x onerror=alert(1)>';

/** Publishes 20 events a second, of a type that is markup, too. */
const main = `
  function order(id) { return { id }; }
  function odd(id) { return { id }; }
  let sent = 0;
  setInterval(() => { order(++sent); if (sent % 2) odd(sent); }, 50);`;

describe('the console, in a browser', function () {
  this.timeout(60_000);
  let app: RunningApp;
  let address: string;
  let seen: WatchedPage;

  before(async () => {
    app = await startApp({
      app: plainApp(),
      timeoutMs: 60_000,
      env: { SVC_BROKER_CLIENT: 'memory', NODE_ENV: 'staging' },
      files: {
        'svc.config.json': configOf(
          [
            { module: './main.mjs', function: 'order', eventType: 'ORDERED' },
            { module: './main.mjs', function: 'odd', eventType: markup },
          ],
          { service: { name: `orders ${markup}`, version: '1.4.0' } },
        ),
        'main.mjs': main,
      },
    });
    address = (await app.waitFor(/management on (http:\/\/\S+)\/metrics/))[1] as string;
    seen = await openPage();
    await seen.page.goto(`${address}/actuator/svc`);
  });
  after(async () => {
    await stopBrowser();
    await app?.kill('SIGKILL');
  });
  afterEach(() => assert.deepEqual(seen.complaints.splice(0), []));

  const numberOf = (station: string): Promise<number> =>
    seen.page.$eval(`.station.${station} .number`, (element) =>
      Number(element.textContent?.replaceAll(',', '')),
    );

  it('shows who it is, that all is well, and counts that grow', async () => {
    await seen.shows(/All is well/);
    const text = await seen.text();
    assert.match(text, /orders .* 1\.4\.0/s);
    assert.match(text, /staging/);
    assert.ok(text.includes(`pid ${app.child.pid}`), text);
    assert.match(text, /this process only/);
    const before = await numberOf('topic');
    await seen.shows(/[1-9][\d.]*\/s/);
    const after = await numberOf('topic');
    assert.ok(after > before, `${before}, then ${after}`);
    assert.ok((await numberOf('targets')) >= after);
  });

  it('draws the last hour from the first ten seconds on', async () => {
    await seen.page.waitForSelector('.plot canvas', { timeout: 20_000 });
    const labels = await seen.page.$$eval('.plot', (plots) =>
      plots.map((plot) => plot.getAttribute('aria-label')),
    );
    assert.equal(labels.length, 4);
    assert.match(String(labels[0]), /^Rate, the last hour\. Now: [1-9][\d.]*\/s to their topics/);
    await seen.page.click('[aria-label="Rate as a table"]');
    await seen.shows(/UNTIL|Until/);
  });

  it('shows markup as the text that it is', async () => {
    assert.ok((await seen.text()).includes(markup));
    assert.equal(await seen.page.$('img'), null);
  });
});
