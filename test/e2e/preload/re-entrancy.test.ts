import assert from 'node:assert/strict';
import { plainApp } from '../support/apps.ts';
import { endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

let app: string;
before('npm install', function () {
  this.timeout(180_000);
  app = plainApp();
});

describe('targets that svc itself calls', function () {
  this.timeout(60_000);

  it('are captured when the application calls them, and never for the work of svc', async () => {
    const run = await endOf({
      app,
      env: { KAFKA_BROKERS: '127.0.0.1:1', SVC_BROKER_CLIENT: 'file' },
      files: {
        'svc.config.json': configOf([
          {
            module: 'kafkajs',
            function: 'Kafka.prototype.producer',
            eventType: 'PRODUCER',
            payload: '{ made: true }',
          },
          { module: './clock.mjs', function: 'Clock.prototype.toJSON', eventType: 'TO_JSON' },
          { module: './main.mjs', function: 'order', eventType: 'ORDERED' },
        ]),
        'clock.mjs': `export class Clock { toJSON() { return 'noon'; } }`,
        'main.mjs': `
          import kafkajs from 'kafkajs';
          import { Clock } from './clock.mjs';
          async function order(id) { return { id, at: new Clock() }; }
          await order(1);
          JSON.stringify(new Clock());
          new kafkajs.Kafka({ brokers: ['127.0.0.1:1'], logLevel: 0 }).producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
        `,
      },
    });
    assert.equal(run.code, 0, run.stderr);
    assert.deepEqual(
      run.topics.events?.map(({ value }) => [value.eventType, value.payload]),
      [
        ['ORDERED', { id: 1, at: 'noon' }],
        ['TO_JSON', { value: 'noon' }],
        ['PRODUCER', { made: true }],
      ],
    );
  });

  it('do not recurse when svc sends through them', async () => {
    const run = await endOf({
      app,
      env: { KAFKA_BROKERS: '127.0.0.1:1' },
      files: {
        'svc.config.json': configOf(
          [
            {
              module: 'kafkajs',
              function: 'Kafka.prototype.producer',
              eventType: 'PRODUCER',
              payload: '{ made: true }',
            },
            {
              module: 'kafkajs',
              function: 'Kafka.prototype.admin',
              eventType: 'ADMIN',
              payload: '{ made: true }',
            },
            { module: './main.mjs', function: 'order', eventType: 'ORDERED' },
          ],
          { broker: { backup: { 'local-enabled': false } }, retry: { 'initial-interval': 10 } },
        ),
        'main.mjs': `
          import { onEventLost } from 'svc';
          const lost = [];
          onEventLost(({ eventType }) => lost.push(eventType));
          async function order(id) { return { id }; }
          await order(1);
          console.log(lost.join());`,
      },
    });
    assert.equal(run.code, 0, run.stderr);
    assert.equal(run.stdout, 'ORDERED\n');
  });

  it("may be Node's own, which svc writes its topic files with", async () => {
    const run = await endOf({
      app,
      files: {
        'svc.config.json': configOf(
          ['node:fs/promises#open', 'fs#promises.mkdir'].map((name) => {
            const [module = '', path = ''] = name.split('#');
            return { module, function: path, eventType: path, payload: '{ path: #args[0] }' };
          }),
        ),
        'main.mjs': `
          import fs from 'node:fs';
          import { open } from 'node:fs/promises';
          await (await open('main.mjs')).close();
          await fs.promises.mkdir('made');`,
      },
    });
    assert.equal(run.code, 0, run.stderr);
    assert.deepEqual(
      run.topics.events?.map(({ value }) => [value.eventType, value.payload.path]),
      [
        ['open', 'main.mjs'],
        ['promises.mkdir', 'made'],
      ],
    );
  });
});
