import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { outOfOrder } from '../test/support/key-order.ts';

/** What became of the events so far, as `/metrics` counts them. */
export interface Ledger {
  readonly calls: number;
  readonly published: number;
  readonly backup: number;
  readonly drained: number;
  readonly refused: number;
  readonly lost: number;
  /** Without an outcome yet. */
  readonly inFlight: number;
  /** Waiting in the backup. */
  readonly waiting: number;
}

const names: Readonly<Record<keyof Ledger, string>> = {
  calls: 'svc_events_calls_total',
  published: 'svc_events_published_total',
  backup: 'svc_events_backup_total',
  drained: 'svc_backup_drained_total',
  refused: 'svc_events_refused_total',
  lost: 'svc_events_lost_total',
  inFlight: 'svc_events_in_flight',
  waiting: 'svc_backup_events',
};

export async function readLedger(management: string): Promise<Ledger> {
  const lines = (await (await fetch(`${management}/metrics`)).text()).split('\n');
  const sum = (name: string): number =>
    lines
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .reduce((total, line) => total + Number(line.split(' ').at(-1)), 0);
  return Object.fromEntries(
    Object.entries(names).map(([key, name]) => [key, sum(name)]),
  ) as unknown as Ledger;
}

/** A record of a topic. The ids count up with the calls. */
export interface TopicEvent {
  readonly id: string;
  readonly key: string;
  readonly value: string;
}

/** What lies in the topics at last, and which of it came through the backup. */
export interface TopicAccount {
  readonly events: number;
  readonly keys: number;
  readonly throughBackup: number;
  /** Behind a later event of their key. */
  readonly outOfOrder: number;
  readonly repeated: number;
  /** Were in the backup, and are not in the topics. */
  readonly missing: number;
  /** Hold a text that should have been masked. */
  readonly inClear: number;
}

/**
 * @param found in the order of each partition
 * @param backedUp ids of what was taken out of the backup
 * @param clearTexts what no event may hold
 */
export function accountOf(
  found: readonly TopicEvent[],
  backedUp: ReadonlySet<string>,
  clearTexts: readonly string[],
): TopicAccount {
  const ids = new Set(found.map(({ id }) => id));
  const throughBackup = [...backedUp].filter((id) => ids.has(id)).length;
  return {
    events: ids.size,
    keys: new Set(found.map(({ key }) => key)).size,
    throughBackup,
    outOfOrder: outOfOrder(found.map(({ id, key }) => ({ key, turn: BigInt(id) }))).length,
    repeated: found.length - ids.size,
    missing: backedUp.size - throughBackup,
    inClear: found.filter(({ value }) => clearTexts.some((text) => value.includes(text))).length,
  };
}

/** Ids of the events that lie in files and segments of a folder. */
export function idsIn(folder: string): Set<string> {
  const names = readdirSync(folder).filter((name) => /\.(json|ndjson|open)$/.test(name));
  const ids = names.flatMap((name) =>
    [...readFileSync(join(folder, name), 'utf8').matchAll(/^\{"eventId":"(\d+)"/gm)].map(([, id = '']) => id),
  );
  return new Set(ids);
}

/** One moment of the demo: the ledger, and how many events are in the topics if somebody counted them. */
export interface Moment {
  readonly name: string;
  readonly ledger: Ledger;
  readonly inTopics: number | undefined;
}

/** The moments side by side, as lines of text. */
export function ledgerTable(moments: readonly Moment[]): string[] {
  const rows: [string, (moment: Moment) => number | string][] = [
    ['', ({ name }) => name],
    ['calls', ({ ledger }) => ledger.calls],
    ['published directly', ({ ledger }) => ledger.published],
    ['stored in the backup', ({ ledger }) => ledger.backup],
    ['  sent from there', ({ ledger }) => ledger.drained],
    ['refused or lost', ({ ledger }) => ledger.refused + ledger.lost],
    ['counted in the topics', ({ inTopics }) => inTopics ?? '-'],
  ];
  return rows.map(([what, read]) =>
    [what.padEnd(24), ...moments.map((moment) => String(read(moment)).padStart(14))].join('').trimEnd(),
  );
}

/** The account of a demo that went well, as lines of text. */
export function accountLines({ calls, published, backup, lost }: Ledger, account: TopicAccount): string[] {
  const { events, keys, repeated, outOfOrder: late, inClear } = account;
  return [
    `${calls} calls = ${published} published + ${backup} through the backup + ${lost} lost`,
    `${events} events over ${keys} keys in the topics: ${repeated} twice, ${late} out of order, ${inClear} with personal data in clear`,
  ];
}

/** What does not add up at the end; empty when everything does. */
export function problemsOf(ledger: Ledger, inTopics: TopicAccount): string[] {
  const { calls, published, backup, drained, refused, lost, inFlight, waiting } = ledger;
  const { events, throughBackup, repeated, missing } = inTopics;
  const checks: [boolean, string][] = [
    [calls === published + backup + refused + lost && inFlight === 0, 'an event has no outcome, or two'],
    [backup > 0, 'the outage was over before an event noticed it'],
    [drained === backup && waiting === 0, 'the backup is not empty'],
    [refused + lost === 0, 'events were refused or lost'],
    [inTopics.inClear === 0, `${inTopics.inClear} events hold personal data in clear`],
    [events === calls, `Kafka holds ${events} different events, not ${calls}`],
    [repeated === 0, `${repeated} events are in Kafka twice`],
    [missing === 0, `${missing} events of the backup are not in Kafka`],
    [throughBackup === drained, `${throughBackup} events of the backup are in Kafka, not ${drained}`],
    [inTopics.outOfOrder === 0, `${inTopics.outOfOrder} events are behind later ones of their key`],
  ];
  return checks.filter(([holds]) => !holds).map(([, problem]) => problem);
}
