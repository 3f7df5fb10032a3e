import assert from 'node:assert/strict';
import { plainApp } from '../support/apps.ts';
import { endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

/** Applications that leave svc little to work with, by what they do to it. */
const programs: Readonly<Record<string, string>> = {
  'use up the stack': `
    function down() {
      note(1);
      return down();
    }
    try { down(); } catch (error) { console.log(error.name); }
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
        assert.equal(without.code, 0);
        const endsOf = ({ code, stdout }: typeof under): unknown => ({ code, stdout });
        assert.deepEqual(endsOf(under), endsOf(without), under.stderr.slice(0, 2_000));
        const [last] = under.topics.events?.slice(-1) ?? [];
        assert.deepEqual(last?.value.payload, { value: 3 });
      });
    }
  }
});
