import { readdirSync } from 'node:fs';
import type { DemoKafka } from './demo-kafka.ts';
import { ledgerTable, type Moment, problemsOf, readLedger } from './demo-ledger.ts';

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

/** The broker goes and comes back; every event is accounted for, or this rejects. */
export async function showOutage(scene: OutageScene): Promise<void> {
  const { kafka, address, management, say, title, until } = scene;
  const at = async (name: string, counted: boolean): Promise<Moment> => {
    const ledger = await readLedger(management);
    const inKafka = counted
      ? await kafka.countEvents(scene.topics, ledger.published + ledger.drained)
      : undefined;
    return { name, ledger, inKafka };
  };
  const order = async (product: string): Promise<void> => {
    const body = JSON.stringify({ customer: 'Ada', product, quantity: 1 });
    const headers = { 'content-type': 'application/json' };
    const { status } = await fetch(`${address}/orders`, { method: 'POST', headers, body });
    if (status !== 201) throw new Error(`the application answered ${status}`);
  };
  const isSettled = async (): Promise<true | undefined> =>
    (await readLedger(management)).inFlight === 0 || undefined;
  const moments = [await at('before', true)];

  title('The broker goes: its process is killed');
  await kafka.kill();
  const started = Date.now();
  await Promise.all(Array.from({ length: ordersDuringOutage }, () => order('umbrella')));
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
  await order('umbrella');
  say(`   One more order: ${Date.now() - quick} ms. Its events are files, as all that were not published:`);
  await until('the last event in its place', isSettled, 20_000);
  const files = readdirSync(scene.backupFolder).filter((name) => name.endsWith('.json'));
  for (const name of files.slice(0, 3)) say(`   ${scene.backupFolder}/${name}`);
  say(`   … ${files.length} files in all`);
  const health = await (await fetch(`${management}/actuator/health/svc`)).text();
  say(`   health: ${health}`);
  moments.push(await at('broker away', false));

  title('The broker is back');
  await kafka.restart();
  const before = (moments[1] as Moment).ledger.published;
  await until(
    'an event in Kafka',
    async () => {
      await order('bell');
      return (await readLedger(management)).published > before ? true : undefined;
    },
    20_000,
  );
  say('   The next order reached it. That is the sign for svc to send what lies in the backup.');
  await until(
    'an empty backup',
    async () => {
      const { backup, drained, waiting } = await readLedger(management);
      return drained === backup && waiting === 0 ? true : undefined;
    },
    40_000,
  );
  const last = await at('broker back', true);
  moments.push(last);

  title('The ledger');
  for (const line of ledgerTable(moments)) say(`   ${line}`);
  const problems = problemsOf(last);
  if (problems.length > 0) throw new Error(`the ledger does not add up: ${problems.join('; ')}`);
  const { calls, published, backup } = last.ledger;
  say(
    `\n   ${calls} events = ${published} published at once + ${backup} through the backup. Nothing is missing, nothing is there twice.`,
  );
}
