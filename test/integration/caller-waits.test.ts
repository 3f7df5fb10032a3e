import assert from 'node:assert/strict';
import { freePorts } from '../../scripts/services/ports.ts';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import { forgetDeclarations } from '../capture/forget-declarations.ts';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';
import { type StartedSvc, startSvc } from './started-svc.ts';

/** As in `svc.broker.max-wait-ms`. */
const maxWaitMs = 2_000;
/** Of a busy machine. */
const marginMs = 700;
const atOnceMs = 300;

const until = (isSo: () => Promise<boolean>): Promise<void> =>
  untilSo(isSo, { limitMs: 20_000, everyMs: 100 });

for (const client of ['kafkajs', 'platformatic']) {
  requiring('own-kafka', `whoever calls, while Kafka hangs: ${client}`, function () {
    this.timeout(300_000);
    let kafka: OwnKafka;
    let svc: StartedSvc | undefined;
    let call: (n: number) => Promise<{ n: number }>;

    before(async () => {
      // Here and not above: the declarations of all files of tests are in one list.
      call = publishEvent({ eventType: 'CALLED', key: () => 'k' }, async (n: number) => ({ n }));
      kafka = await startOwnKafka();
      await kafka.createTopic('orders', { partitions: 6 });
    });
    afterEach(async () => {
      await kafka.resume();
      await svc?.end();
      svc = undefined;
    });
    after(async () => {
      forgetDeclarations();
      await kafka.stop();
    });

    async function timed(n: number): Promise<number> {
      const began = performance.now();
      assert.deepEqual(await call(n), { n });
      return performance.now() - began;
    }

    it('waits two seconds at most for a node that hangs, and soon not at all', async () => {
      svc = startSvc({ client, bootstrapServers: kafka.brokers }, { retry: {} });
      await timed(0);
      await kafka.pause();
      const waits: number[] = [];
      for (let n = 1; n <= 8; n++) waits.push(await timed(n));
      for (const wait of waits) assert.ok(wait < maxWaitMs + marginMs, String(waits));
      assert.ok(
        waits.slice(-4).every((wait) => wait < atOnceMs),
        String(waits),
      );
      assert.ok(
        svc.lines.some((line) => line.includes('Circuit breaker is OPEN')),
        String(svc.lines),
      );
    });

    it('asks for health and has an answer within a second, DOWN when the node has not answered for three', async () => {
      let said = (_: string): void => {};
      const url = new Promise<string>((resolve) => (said = resolve));
      const quiet = { debug() {}, warn() {}, error() {} };
      const info = (line: string) => {
        const found = /^management on (http:.*)\/metrics$/.exec(line)?.[1];
        if (found !== undefined) said(found);
      };
      svc = startSvc({ client, bootstrapServers: kafka.brokers }, { logger: { ...quiet, info } });
      const ask = async (route: string): Promise<[string, number]> => {
        const began = performance.now();
        const answer = await fetch(`${await url}/actuator/health${route}`);
        const { status } = (await answer.json()) as { status: string };
        return [`${answer.status} ${status}`, performance.now() - began];
      };
      await timed(0);
      await until(async () => (await ask('/svc'))[0] === '200 UP');
      await kafka.pause();
      const answers: [string, number][] = [];
      await until(async () => {
        answers.push(await ask('/svc'), await ask('/liveness'), await ask('/readiness'));
        return answers.at(-3)?.[0] === '503 DOWN';
      });
      assert.ok(
        answers.every(([, tookMs]) => tookMs < 1_000),
        String(answers),
      );
      assert.deepEqual([...new Set(answers.map(([answer]) => answer))].sort(), ['200 UP', '503 DOWN']);
      assert.deepEqual(
        answers.slice(-2).map(([answer]) => answer),
        ['200 UP', '200 UP'],
      );
    });

    it('does not wait at all for a port that refused svc at its start', async () => {
      const [port] = await freePorts(1);
      svc = startSvc({ client, bootstrapServers: [`127.0.0.1:${port}`] }, { retry: {} });
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      const waits: number[] = [];
      for (let n = 0; n < 4; n++) waits.push(await timed(n));
      assert.ok(
        waits.every((wait) => wait < atOnceMs),
        String(waits),
      );
    });
  });
}
