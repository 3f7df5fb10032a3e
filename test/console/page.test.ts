import assert from 'node:assert/strict';
import kafkajs from 'kafkajs';
import { plainApp } from '../e2e/support/apps.ts';
import { type RunningApp, startApp } from '../e2e/support/start-app.ts';
import { configOf } from '../e2e/support/topic-config.ts';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { openPage, stopBrowser, type WatchedPage } from './browser.ts';

/** In the name of an event type, and in that of a service. */
const markup = '<img src=x onerror=alert(1)>';
const token = 'a-token-of-some-length';
const deadLetters = 3;

/** Publishes 30 events a second, of a type that is markup, too. */
const main = `
  function order(id) { return { id }; }
  function odd(id) { return { id }; }
  function rare(id) { return { id }; }
  let sent = 0;
  setInterval(() => { order(++sent); if (sent % 2) odd(sent); }, 50);`;

requiring(['chromium', 'own-kafka'], 'the console of a process, in a browser', function () {
  this.timeout(60_000);
  let kafka: OwnKafka;
  let app: RunningApp;
  let seen: WatchedPage;

  before(async () => {
    kafka = await startOwnKafka();
    for (const topic of ['events', 'dead', 'recovered']) await kafka.createTopic(topic);
    const producer = new kafkajs.Kafka({ brokers: kafka.brokers, logLevel: 0 }).producer();
    await producer.connect();
    const values = Array.from({ length: deadLetters }, (_, n) => ({
      ...{ eventId: `${n}`, originalTopic: 'recovered', originalPayload: `{"n":${n}}` },
    }));
    const messages = values.map((value) => ({ value: JSON.stringify(value) }));
    await producer.send({ topic: 'dead', messages });
    await producer.disconnect();
    app = await startApp({
      app: plainApp(),
      timeoutMs: 60_000,
      env: { NODE_ENV: 'staging', MANAGEMENT_SERVER_TOKEN: token },
      files: {
        'svc.config.json': configOf(
          [
            { module: './main.mjs', function: 'order', eventType: 'ORDERED' },
            { module: './main.mjs', function: 'odd', eventType: markup },
            { module: './main.mjs', function: 'rare', eventType: 'RARE', topic: 'recovered' },
          ],
          {
            service: { name: `orders ${markup}`, version: '1.4.0' },
            broker: { bootstrapServers: kafka.brokers, dlqTopic: 'dead' },
            retry: { enabled: false },
          },
        ),
        'main.mjs': main,
      },
    });
    const [, address] = await app.waitFor(/management on (http:\/\/\S+)\/metrics/);
    seen = await openPage();
    await seen.page.goto(`${address}/actuator/svc`);
  });
  after(async () => {
    await stopBrowser();
    await app?.kill('SIGKILL');
    await kafka?.stop();
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
    await seen.page.waitForFunction(
      `Number(document.querySelector('.station.topic .number').textContent) > ${before}`,
    );
    await seen.page.waitForSelector('.line.published.flows');
    assert.ok((await numberOf('targets')) > before);
  });

  it('shows markup as the text that it is', async () => {
    assert.ok((await seen.text()).includes(markup));
    assert.equal(await seen.page.$('img'), null);
  });

  it('recovers dead letters: counted first, then confirmed with the count and the environment', async () => {
    const { page, shows } = seen;
    await page.click('::-p-text(Token…)');
    await page.type('#token', token);
    await page.keyboard.press('Enter');
    await page.click('::-p-text(Recover…)');
    await page.click('::-p-text(Count first)');
    await shows(/3 dead letters will be sent to their topics: orders .* in staging\./);
    assert.equal(await kafka.count('recovered'), 0);
    await page.click('::-p-text(Send 3 events)');
    await shows(/3 events sent, 0 failed/);
    assert.equal(await kafka.count('recovered'), deadLetters);
    await page.click('::-p-text(Close)');
  });

  it('reads the dead letter topic of Kafka, where what was recovered still stands', async () => {
    await seen.page.click('::-p-text(Read the topic)');
    await seen.shows(/3 dead letters of 3 records that were looked at\./);
    assert.match(await seen.text(), /the newest in the topic dead/);
    await seen.page.click('::-p-text(Those of this process)');
  });

  it('draws the last hour from the first ten seconds on', async () => {
    await seen.page.waitForSelector('.plot canvas', { timeout: 20_000 });
    const labels = await seen.page.$$eval('.plot', (plots) =>
      plots.map((plot) => plot.getAttribute('aria-label')),
    );
    assert.equal(labels.length, 4);
    assert.match(String(labels[0]), /^Rate, the last hour\. Now: [1-9][\d.]*\/s to their topics/);
    const trend = await seen.page.waitForSelector('.sparkline');
    assert.match(
      String(await trend?.evaluate((svg) => svg.getAttribute('aria-label'))),
      /^[1-9].*\/s on average, .*\/s at most, .*\/s now$/,
    );
    await seen.page.click('[aria-label="Rate as a table"]');
    await seen.shows(/Until/);
  });

  it('lives through an outage of Kafka, and the way back', async () => {
    const { shows, page } = seen;
    await kafka.kill();
    await shows(/Critical\s+.*The breaker is open/s, 20_000);
    await page.waitForSelector('.line.backup.flows');
    assert.ok((await numberOf('backup')) > 0);
    await kafka.restart();
    await page.waitForFunction(`/CLOSED/.test(document.querySelector('.repair').textContent)`, {
      timeout: 30_000,
    });
    await page.waitForSelector('.line.published.flows');
    await page.waitForFunction(`document.querySelector('.station.backup .number').textContent === '0'`);
    assert.ok(!(await seen.text()).includes('The breaker is open'));
  });

  it('says so when the process has ended, and keeps what it knew', async () => {
    const { complaints, shows, text } = seen;
    await app.kill('SIGKILL');
    await shows(/No answer\s+The process cannot be reached\. Since \d\d:\d\d:\d\d/);
    assert.match(await text(), /ORDERED/);
    // What the browser itself says of a request without an answer.
    assert.ok(complaints.splice(0).every((each) => /ERR_CONNECTION/.test(each)));
  });
});
