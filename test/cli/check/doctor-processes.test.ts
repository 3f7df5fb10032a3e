import assert from 'node:assert/strict';
import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { temporaryFolder } from '../../support/folders.ts';
import { runSvc } from '../../support/run-svc.ts';

interface Finding {
  readonly area: string;
  readonly state: string;
  readonly text: string;
  readonly fix?: string;
}

describe('svc doctor and the processes that were started in its folder', function () {
  this.timeout(120_000);
  const server = createServer((request, response) => {
    const isMetrics = request.url === '/actuator/prometheus';
    response.writeHead(isMetrics ? 200 : 404).end(isMetrics ? 'svc_outbox_unjoined_total 3\n' : '');
  });
  before((done) => void server.listen(0, '127.0.0.1', done));
  after(() => server.close());

  async function found(onNoTransaction: string, startedIn?: string): Promise<readonly Finding[]> {
    const cwd = realpathSync(temporaryFolder('doctor-processes'));
    const files = join(cwd, `svc-${userInfo().uid}`);
    mkdirSync(files, { mode: 0o700 });
    const { port } = server.address() as AddressInfo;
    const entry = { pid: process.pid, port, address: '127.0.0.1', tls: false, cwd: startedIn ?? cwd };
    writeFileSync(join(files, `${process.pid}.json`), JSON.stringify(entry), { mode: 0o600 });
    const outbox = { enabled: true, onNoTransaction, datasource: { url: 'sqlite:./shop.db' } };
    const svc = { broker: { client: 'memory' }, outbox };
    writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ svc }));
    const { stdout, stderr } = await runSvc(['doctor', '--json'], { cwd, env: { TMPDIR: cwd } });
    assert.notEqual(stdout, '', stderr);
    const { findings } = JSON.parse(stdout) as { findings: readonly Finding[] };
    return findings.filter(({ area }) => area === 'transactions');
  }

  it('warns of events that were stored outside any transaction, and says what to do', async () => {
    const [finding, ...others] = await found('autocommit');
    assert.deepEqual(others, []);
    assert.equal(finding?.state, 'warning');
    assert.match(finding?.text ?? '', new RegExp(`^process ${process.pid} has stored 3 events outside any`));
    assert.match(finding?.fix ?? '', /on-no-transaction: error/);
  });

  it('asks no process of another folder, nor where such calls fail', async () => {
    assert.deepEqual(await found('autocommit', '/somewhere/else'), []);
    assert.deepEqual(await found('error'), []);
  });
});
