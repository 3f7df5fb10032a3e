import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { hostEnvironment } from '../support/run-app.ts';

const demo = resolve(import.meta.dirname, '../../../scripts/demo.ts');

describe('npm run demo', function () {
  this.timeout(60_000);

  it('shows the trace of a request: its event has the same trace id, and the span that the tree shows', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [demo], {
      env: hostEnvironment(),
      timeout: 50_000,
    });
    const [, traceId] = /belongs to the trace (\w{32})/.exec(stdout) ?? [];
    const { trace } = (JSON.parse(/^ {3}\{\n[\s\S]*?\n {3}\}$/m.exec(stdout)?.[0] ?? '') as Event).value
      .metadata;
    assert.equal(trace.traceId, traceId);
    const tree =
      /SERVER POST +[\d.]+ ms {3}span (\w{16})\n.*PRODUCER send .*span \w{16}\n.*PRODUCER send .*\n/;
    const [lines = '', server] = tree.exec(stdout) ?? [];
    assert.equal(trace.parentSpanId, server);
    assert.match(lines, new RegExp(`PRODUCER send orders\\.events\\.v1 +[\\d.]+ ms {3}span ${trace.spanId}`));
  });
});

interface Event {
  readonly value: {
    readonly metadata: { readonly trace: { traceId: string; spanId: string; parentSpanId: string } };
  };
}
