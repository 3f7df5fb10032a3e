import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { runCommand } from '../../../scripts/services/commands.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { hostEnvironment, readEvents } from '../support/run-app.ts';
import { subject } from '../support/subject.ts';

const tested = await subject();
const example = resolve(import.meta.dirname, '../../../examples/tickets');
const program = resolve(import.meta.dirname, '../../../bin/svc.cjs');

// TypeScript that Node runs itself. It runs where it stands: the package finds itself by its name.
(tested.stripsTypes ? requiring : () => {})('postgres', 'examples/tickets, with Drizzle', function () {
  this.timeout(60_000);
  const topics = temporaryFolder('tickets');
  let query: (statement: string) => Promise<Record<string, unknown>[]>;
  let env: NodeJS.ProcessEnv;

  before(async () => {
    const server = await startPostgres();
    const url = await server.freshDatabase();
    query = (statement) => server.query(url, statement);
    const own = { DATABASE_URL: url, SVC_BROKER_FILE_PATH: topics, MANAGEMENT_SERVER_PORT: '0' };
    env = { ...hostEnvironment(), ...own };
    await run([program, 'outbox', 'migrate']);
  });

  async function run(args: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<string> {
    const { code, stdout, stderr } = await runCommand(tested.node, args, {
      ...{ cwd: example, timeoutMs: 30_000, env: { ...env, ...more } },
    });
    assert.equal(code, 0, `${stdout}\n${stderr}`);
    return stdout.toString();
  }

  it('an order that is committed has its events, one that fails has none', async () => {
    const said = await run(['--import', 'svc/register', 'src/main.ts']);
    assert.equal(said, 'order 1: 2 tickets\nno order for 99 tickets\norder 3: 4 tickets\n');
    const sent = readEvents(topics).map(({ topic, key, value }) => [topic, key, value.eventType]);
    assert.deepEqual(sent, [
      ['tickets.concerts.v1', 'Night of the Proms', 'TICKETS_TAKEN'],
      ['tickets.concerts.v1', 'Night of the Proms', 'TICKETS_TAKEN'],
      ['tickets.orders.v1', '1', 'TICKETS_ORDERED'],
      ['tickets.orders.v1', '3', 'TICKETS_ORDERED'],
    ]);
    const rows = await query('SELECT status, count(*)::int FROM svc_outbox_events GROUP BY status');
    assert.deepEqual(rows, [{ status: 'PUBLISHED', count: 4 }]);
    assert.deepEqual(await query('SELECT id FROM orders ORDER BY id'), [{ id: 1 }, { id: 3 }]);
  });

  it('has tests of its own, with svc/testing', async () => {
    const said = await run(['--import', 'svc/register', 'test/orders.test.ts'], {
      SVC_BROKER_CLIENT: 'memory',
    });
    assert.match(said, /pass 3\n.*fail 0\n/);
  });

  it('has no line of svc in its source', () => {
    for (const file of readdirSync(join(example, 'src')))
      assert.doesNotMatch(readFileSync(join(example, 'src', file), 'utf8'), /svc/, file);
  });
});
