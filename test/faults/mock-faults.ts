import { setTimeout as sleep } from 'node:timers/promises';
import type { MockFault } from './fault.ts';

/** Errors of the protocol that a real cluster does not give on demand, answered to produce requests. */
const codes: readonly [name: string, code: number, requests: number][] = [
  ['NOT_LEADER_OR_FOLLOWER', 6, 20],
  ['LEADER_NOT_AVAILABLE', 5, 20],
  ['UNKNOWN_TOPIC_OR_PARTITION', 3, 20],
  ['NOT_ENOUGH_REPLICAS', 19, 20],
  ['NOT_ENOUGH_REPLICAS_AFTER_APPEND', 20, 20],
  ['REQUEST_TIMED_OUT', 7, 20],
  ['KAFKA_STORAGE_ERROR', 56, 20],
  ['CORRUPT_MESSAGE', 2, 20],
  ['UNKNOWN_SERVER_ERROR', -1, 20],
  ['MESSAGE_TOO_LARGE', 10, 20],
  ['TOPIC_AUTHORIZATION_FAILED', 29, 20],
];

/** A topic without leaders is waited for before anything is counted: it may be in the making. */
const unseen = new Set(['LEADER_NOT_AVAILABLE', 'UNKNOWN_TOPIC_OR_PARTITION']);

export const mockFaults: readonly MockFault[] = [
  ...codes.map(
    ([name, code, requests]): MockFault => ({
      on: 'mock',
      name: name.toLowerCase().replaceAll('_', '-'),
      title: `${requests} produce requests answered ${name}`,
      ...(unseen.has(name) ? {} : { shows: ({ retries, dlq, backup }) => retries + dlq + backup > 0 }),
      async run({ mock }) {
        // So that there is more than one event of a key in a batch.
        await mock.tell('rtt 200');
        await mock.tell(`push ${code} ${requests}`);
        await sleep(4_000);
        await mock.tell('clear');
        await mock.tell('rtt 0');
      },
    }),
  ),
  {
    on: 'mock',
    name: 'slow-answers',
    title: 'every answer late by 3.5 s, for 8 s',
    async run({ mock }) {
      await mock.tell('rtt 3500');
      await sleep(8_000);
      await mock.tell('rtt 0');
    },
  },
];
