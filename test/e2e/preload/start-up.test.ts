import assert from 'node:assert/strict';
import { plainApp } from '../support/apps.ts';
import { endOf } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

/** Each takes 2 to 9 ms to load, and an application that publishes to files needs none of them for its first event. */
const heavy = ['crypto', 'net', 'http', 'https', 'tls', 'zlib', 'child_process'];

describe('start-up', function () {
  this.timeout(180_000);

  it('loads no heavy module of Node, up to and with the first event', async () => {
    const { hasSoundSyncHooks } = await subject();
    const { code, stdout, stderr, topics } = await endOf({
      app: plainApp(),
      args: ['--import', 'svc/register', 'main.cjs'],
      files: {
        'svc.config.json': {
          ...configOf([{ module: './main.cjs', function: 'order', eventType: 'ORDERED' }]),
          // On a slow machine it would start before the process ends.
          management: { endpoints: { web: { exposure: { include: [] } } } },
        },
        'main.cjs': `
          function order(id) { return { id }; }
          order(1);
          process.on('exit', () => console.log(process.moduleLoadList.join('\\n')));`,
      },
    });
    assert.equal(code, 0, stderr);
    assert.equal(Object.values(topics).flat().length, 1, stderr);
    const loaded = stdout.split('\n').map((line) => line.replace('NativeModule ', ''));
    assert.ok(loaded.includes('fs'), 'the list of loaded modules is there');
    // Without sound synchronous hooks Node starts a thread for them, and with it loads what pipes consist of.
    const own = hasSoundSyncHooks ? [] : ['net'];
    assert.deepEqual(
      heavy.filter((name) => loaded.includes(name)),
      own,
    );
  });
});
