import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { plainApp } from '../support/apps.ts';
import { endOf, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

/**
 * Applications that leave svc little to work with, by what they do to it. The first has an AsyncLocalStorage of its own: where a
 * promise is made at the end of the stack, Node before 22.22 ends such a process, whoever made it (CVE-2025-59466).
 */
const programs: Readonly<Record<string, string>> = {
  'use up the stack': `
    const { AsyncLocalStorage } = await import('node:async_hooks');
    new AsyncLocalStorage().enterWith(1);
    function down() {
      note(1);
      Promise.resolve();
      return down();
    }
    try { down(); } catch (error) { console.log(error.name); }
  `,
  'fake their timers, and give them back': `
    const fakes = [];
    for (const module of [globalThis, process.getBuiltinModule('timers'), process.getBuiltinModule('timers/promises')]) {
      for (const [name, own] of Object.entries({ ...module, queueMicrotask: module.queueMicrotask })) {
        if (!/^(set|clear)(Timeout|Interval|Immediate)$|^queueMicrotask$/.test(name) || own === undefined) continue;
        module[name] = () => console.log('asks the fake', name);
        fakes.push(() => { module[name] = own; });
      }
    }
    console.log(await note(Promise.resolve(1)), await note(Promise.resolve(2)));
    for (const giveBack of fakes) giveBack();
    console.log(await note(Promise.resolve(3)));
  `,
  'take the global clock away': `
    delete globalThis.performance;
    console.log(note(2));
  `,
};

describe('applications that leave svc little to work with', function () {
  this.timeout(180_000);
  let app: string;
  before(() => {
    app = plainApp();
  });

  for (const [title, text] of Object.entries(programs)) {
    for (const isAsync of [true, false]) {
      it(`${title}: they run on as without svc, async-mode ${isAsync}`, async () => {
        const files = {
          'main.mjs': `function note(id) { return id; }\n${text}\nsetTimeout(() => console.log('runs on', note(3)), 20);\n`,
          'svc.config.json': configOf([{ module: './main.mjs', function: 'note', eventType: 'NOTED' }], {
            broker: { 'async-mode': isAsync },
            log: { level: 'off' },
            // What was interrupted for want of stack inside the queue has no end: nothing is gained by a longer wait for it.
            shutdown: { 'timeout-ms': 500 },
          }),
        };
        const without = await endOf({ app, files, args: ['main.mjs'] });
        const under = await endOf({ app, files });
        const endsOf = ({ code, stdout }: typeof under): unknown => ({ code, stdout });
        assert.deepEqual(endsOf(under), endsOf(without), under.stderr.slice(0, 2_000));
        const [last] = under.topics.events?.slice(-1) ?? [];
        if (without.code === 0) assert.deepEqual(last?.value.payload, { value: 3 });
        else
          assert.match(without.stderr, /Maximum call stack size exceeded[\s\S]*Node\.js v22\.(1\d|2[01])\./);
      });
    }
  }

  it('use up the stack while svc has no memory, and a backup folder that cannot be: no rejection is left unhandled', async () => {
    const files = {
      'main.mjs': `
        const { AsyncLocalStorage } = await import('node:async_hooks');
        new AsyncLocalStorage().enterWith(1);
        function note(id) { return id; }
        let left = 0;
        function down(at, a, b, c) {
          try { return down(at + 1, a, b, c) + 1; } catch {
            if (left-- > 0) { try { note(1); } catch {} throw 1; }
            return 0;
          }
        }
        function further(depth, work) { return depth > 0 ? further(depth - 1, work) : work(); }
        for (let round = 0; round < 200; round++) {
          left = 1_000;
          further(round % 40, () => { try { down(0); } catch {} });
          if (round % 20 === 0) await new Promise(setImmediate);
        }
        setTimeout(() => { console.log('runs on'); process.exit(); }, 200);`,
      'svc.config.json': configOf([{ module: './main.mjs', function: 'note', eventType: 'NOTED' }], {
        broker: { 'async-mode': true, buffer: { 'max-events': 1 }, 'dlq-backup-path': '/proc/nowhere' },
        log: { level: 'off' },
      }),
    };
    const { code, stdout, stderr } = await endOf({ app, files });
    // There Node itself may fail to hear that a rejection is handled, or ends as above.
    if (/(?:PromiseRejectCallback[\s\S]*Node\.js v22|Node\.js v22\.(1\d|2[01]))\./.test(stderr))
      assert.match(stderr, /Maximum call stack size exceeded/);
    else assert.deepEqual({ code, stdout }, { code: 0, stdout: 'runs on\n' }, stderr.slice(0, 2_000));
  });

  it('make a hundred thousand events in one turn, with a small heap: they end as without svc, and each event is accounted for', async () => {
    const calls = 100_000;
    const { code, stdout, stderr, topics } = await endOf({
      ...{
        app,
        args: ['--max-old-space-size=128', '--import', 'svc/register', 'main.mjs'],
        timeoutMs: 120_000,
      },
      files: {
        'main.mjs': `
          import { onEventLost } from 'svc';
          let lost = 0;
          onEventLost(() => lost++);
          function note(id) { return id; }
          for (let id = 0; id < ${calls}; id++) note(id);
          process.once('beforeExit', () => console.log(lost));`,
        'svc.config.json': configOf([{ module: './main.mjs', function: 'note', eventType: 'NOTED' }], {
          broker: { 'async-mode': true },
          log: { level: 'off' },
          shutdown: { 'timeout-ms': 60_000 },
        }),
      },
    });
    assert.equal(code, 0, stderr.slice(0, 2_000));
    const lost = Number(stdout);
    assert.ok(lost > 0 && lost < calls, stdout);
    assert.equal(new Set(topics.events?.map(({ value }) => value.eventId)).size, calls - lost);
  });

  it('fill the queue with a small heap while Kafka is away: they run on, and all events are in the backup', async () => {
    const calls = 9_900;
    const { folder, ended } = await startApp({
      ...{
        app,
        args: ['--max-old-space-size=96', '--import', 'svc/register', 'main.mjs'],
        timeoutMs: 60_000,
      },
      files: {
        'main.mjs': `
          function note(id) { return { id, text: 'x'.repeat(1_200) }; }
          for (let id = 0; id < ${calls}; id++) note(id);
          setTimeout(() => {}, 10_000);`,
        'svc.config.json': configOf([{ module: './main.mjs', function: 'note', eventType: 'NOTED' }], {
          broker: { 'bootstrap-servers': '127.0.0.1:1', 'async-mode': true },
          log: { level: 'off' },
        }),
      },
    });
    const { code, stderr } = await ended;
    assert.equal(code, 0, stderr.slice(0, 2_000));
    const backup = join(folder, 'dlq-backup');
    const text = readdirSync(backup, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(json|ndjson)$/.test(name))
      .map((name) => readFileSync(join(backup, name), 'utf8'))
      .join('\n');
    assert.equal(new Set(text.match(/(?<=eventId\W+)\d{10,}/g)).size, calls);
  });
});
