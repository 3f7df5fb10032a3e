import { outcomes } from '../../src/observe/outcomes.ts';
import { outOfOrder } from '../support/key-order.ts';
import type { Ledger } from './load-app.ts';
import type { FoundRecord } from './read-topics.ts';
import type { StoredEvent } from './stored-events.ts';

/** All that can be known after a fault, from three sides: the application, svc's ledger, and the places themselves. */
export interface Evidence {
  /** Calls made, by key: those of `k0`, `k1`, ... */
  readonly numbers: readonly number[];
  readonly ledger: Ledger;
  readonly topic: readonly FoundRecord[];
  readonly dlq: readonly FoundRecord[];
  readonly backup: readonly StoredEvent[];
  /** What of the backup was drained into the topic, and must be there too. */
  readonly drained: readonly StoredEvent[];
  readonly loadFrom: number;
  readonly loadUntil: number;
}

export interface Account {
  /** What is not as it must be; empty when all is well. */
  readonly problems: readonly string[];
  /** Records of the topic beyond the first of their event. */
  readonly duplicates: number;
  /** Those of events that no other place has: svc itself has sent them twice. */
  readonly ownDuplicates: number;
  /** The longest time without a new record in a partition while the load was on, in milliseconds. */
  readonly longestPauseMs: number;
}

interface Call {
  readonly key: string;
  readonly number: number;
}

const nameOf = ({ key, number }: Call): string => `${key}/${number}`;

/**
 * calls = published + dlq + backup + refused + lost, each event where the ledger says it is, under one id, and the order of
 * each key intact, whether its events went straight to the topic or came out of the backup.
 */
export function settleAccounts(evidence: Evidence): Account {
  const { numbers, ledger, topic, dlq, backup } = evidence;
  const problems: string[] = [];
  const expect = (what: string, found: number, expected: number): void => {
    if (found !== expected) problems.push(`${what}: ${found}, not ${expected}`);
  };

  const calls = numbers.flatMap((count, index) =>
    Array.from({ length: count }, (_, number) => nameOf({ key: `k${index}`, number })),
  );
  const inTopic = new Set(topic.map(nameOf));
  const inDlq = new Set(dlq.map(nameOf));
  const inBackup = new Set(backup.map(nameOf));
  const { published, refused, lost } = ledger;
  const sum = outcomes.reduce((all, outcome) => all + ledger[outcome], 0);
  expect('calls that svc counted', ledger.calls, calls.length);
  expect('sum of the outcomes', sum, calls.length);
  expect('refused', refused, 0);
  expect('events in the backup', inBackup.size, ledger.backup);
  // A dead letter whose outcome was unknown is in the backup as well, and counted there.
  expect('events in the dead letter topic alone', without(inDlq, inBackup).length, ledger.dlq);

  const straight = calls.filter((call) => inTopic.has(call) && !inBackup.has(call) && !inDlq.has(call));
  const nowhere = calls.filter((call) => !inTopic.has(call) && !inBackup.has(call) && !inDlq.has(call));
  // Of a send whose outcome was unknown, a lost event can be in the topic after all.
  const foundAfterAll = Math.min(Math.max(0, straight.length - published), lost);
  expect('published events found in the topic', straight.length - foundAfterAll, published);
  expect('events found nowhere', nowhere.length, lost - foundAfterAll);
  const known = new Set(calls);
  const strangers = [...inTopic, ...inDlq, ...inBackup].filter((call) => !known.has(call));
  expect('events that nobody made', strangers.length, 0);
  const drained = new Set(evidence.drained.map(nameOf));
  expect('events of the backup missing in the topic', without(drained, inTopic).length, 0);
  expect('events under more than one id', idsPerCall([...topic, ...backup]), 0);

  // Of all events of a key, whichever way they went; a dead letter is out of the order, wherever it is.
  const isDeadLetter = new Set([...inDlq, ...backup.filter(({ isRefused }) => isRefused).map(nameOf)]);
  problems.push(...disorder(topic.filter((record) => !isDeadLetter.has(nameOf(record)))));
  return {
    problems,
    duplicates: topic.length - inTopic.size,
    ownDuplicates: ownDuplicates(topic, (call) => inBackup.has(call) || inDlq.has(call)),
    longestPauseMs: longestPause(topic, evidence.loadFrom, evidence.loadUntil),
  };
}

function ownDuplicates(topic: readonly Call[], isElsewhere: (call: string) => boolean): number {
  const calls = topic.map(nameOf).filter((call) => !isElsewhere(call));
  return calls.length - new Set(calls).size;
}

function without(all: ReadonlySet<string>, others: ReadonlySet<string>): string[] {
  return [...all].filter((one) => !others.has(one));
}

function idsPerCall(found: readonly (Call & { eventId: string })[]): number {
  const ids = new Map<string, string>();
  const double = new Set<string>();
  for (const one of found) {
    const first = ids.get(nameOf(one));
    if (first === undefined) ids.set(nameOf(one), one.eventId);
    else if (first !== one.eventId) double.add(nameOf(one));
  }
  return double.size;
}

function disorder(records: readonly FoundRecord[]): string[] {
  const found = outOfOrder(records.map(({ key, number }) => ({ key, turn: number }))).map(
    ([late, before]) => `${late.key}/${late.turn} behind ${before.key}/${before.turn}`,
  );
  if (found.length === 0) return [];
  return [`${found.length} events out of order: ${found.slice(0, 5).join(', ')}`];
}

function longestPause(records: readonly FoundRecord[], from: number, until: number): number {
  const byPartition = new Map<number, number[]>();
  for (const { partition, appendedAt } of records) {
    const times = byPartition.get(partition);
    if (times === undefined) byPartition.set(partition, [appendedAt]);
    else times.push(appendedAt);
  }
  let longest = 0;
  for (const times of byPartition.values()) {
    const within = times.filter((time) => time >= from && time <= until).sort((a, b) => a - b);
    let before = from;
    for (const time of [...within, until]) {
      longest = Math.max(longest, time - before);
      before = time;
    }
  }
  return longest;
}
