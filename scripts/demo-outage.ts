import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { DemoKafka } from './demo-kafka.ts';
import {
  accountOf,
  idsIn,
  ledgerTable,
  type Moment,
  orderLine,
  problemsOf,
  readLedger,
} from './demo-ledger.ts';

export interface OutageScene {
  readonly kafka: DemoKafka;
  readonly topics: readonly string[];
  /** Addresses of the application and of its management server. */
  readonly address: string;
  readonly management: string;
  readonly backupFolder: string;
  readonly say: (text?: string) => void;
  readonly title: (text: string) => void;
  readonly until: <T>(what: string, look: () => Promise<T | undefined>, timeoutMs: number) => Promise<T>;
}

const ordersDuringOutage = 6;

/** The broker goes and comes back; every event is accounted for and in its order, or this rejects. */
export async function showOutage(scene: OutageScene): Promise<void> {
  const { kafka, address, management, backupFolder, say, title, until } = scene;
  const ledger = () => readLedger(management);
  const post = async (path: string, body: unknown): Promise<{ readonly id: number }> => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(address + path, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`the application answered ${answer.status}`);
    return (await answer.json()) as { id: number };
  };
  const order = () => post('/orders', { customer: 'Ada', product: 'umbrella', quantity: 1 });
  const isSettled = async (): Promise<true | undefined> => (await ledger()).inFlight === 0 || undefined;
  const atFirst = await ledger();
  const first = await kafka.readEvents(scene.topics, atFirst.published);
  const before: Moment = { name: 'before', ledger: atFirst, inKafka: accountOf(first, new Set()).events };

  title('The broker goes: its process is killed');
  await kafka.kill();
  const started = Date.now();
  const orders = await Promise.all(Array.from({ length: ordersDuringOutage }, order));
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  say(
    `   ${ordersDuringOutage} more orders were accepted, after ${seconds} s: nobody waits longer than 2 s for an event`,
  );
  say(
    '   (svc.broker.max-wait-ms), and with svc.broker.async-mode for none. svc tries each again after 1, 2 and 4 s.',
  );
  await until('every event in its place', isSettled, 20_000);
  say('   Now svc knows that the cluster is away: the next order is not held up by it.');
  const quick = Date.now();
  orders.push(await order());
  say(
    `   One more order: ${Date.now() - quick} ms. Its events are on the disk, as all that were not published:`,
  );
  await until('the last event in its place', isSettled, 20_000);
  const names = readdirSync(backupFolder).filter((name) => name.startsWith('segment-'));
  for (const name of names) say(`   ${join(backupFolder, name)}`);
  say(`   ${idsIn(backupFolder).size} events in all`);
  const health = await (await fetch(`${management}/actuator/health/svc`)).text();
  say(`   health: ${health}`);
  const away: Moment = { name: 'broker away', ledger: await ledger(), inKafka: undefined };

  title('The broker is back');
  await kafka.restart();
  await Promise.all(orders.map(({ id }) => post(`/orders/${id}/cancel`, { reason: 'it rains no more' })));
  say(
    `   These ${orders.length} orders are cancelled at once. No event overtakes an earlier one of its key:`,
  );
  say('   it goes behind those in the backup, which svc sends first.');
  await until(
    'an empty backup',
    async () => {
      const { backup, drained, waiting } = await ledger();
      return drained === backup && waiting === 0 ? true : undefined;
    },
    40_000,
  );
  await until(
    'an event that goes to Kafka at once',
    async () => {
      await order();
      return (await ledger()).published > away.ledger.published || undefined;
    },
    20_000,
  );
  say('   Nothing is left there: the next order goes to its topic at once again.');
  await until('every event in its place', isSettled, 20_000);
  const atLast = await ledger();
  // One more than there should be would show.
  const found = await kafka.readEvents(scene.topics, atLast.calls + 1);
  const account = accountOf(found, idsIn(join(backupFolder, 'recovered')));
  const last: Moment = { name: 'broker back', ledger: atLast, inKafka: account.events };

  title('The ledger');
  for (const line of ledgerTable([before, away, last])) say(`   ${line}`);
  say(`\n   ${orderLine(account)}`);
  const problems = problemsOf(atLast, account);
  if (problems.length > 0) throw new Error(`the ledger does not add up: ${problems.join('; ')}`);
  const { calls, published, backup } = atLast;
  say(
    `   ${calls} events = ${published} published at once + ${backup} through the backup. Nothing is missing, nothing is there twice.`,
  );
}
