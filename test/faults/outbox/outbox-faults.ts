import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterNode } from '../../../scripts/services/kafka-cluster.ts';
import type { OwnDatabase } from '../../support/database.ts';
import { lockFile } from './file-lock.ts';
import type { OutboxApp } from './outbox-app.ts';
import { type OutboxDatabaseName, pathIn } from './outbox-databases.ts';

/** What a fault can do while two applications store events in their transactions, each with a relay. */
export interface OutboxScene {
  readonly apps: readonly [OutboxApp, OutboxApp];
  /** `sqlite:` and a path, where it is one. */
  readonly databaseUrl: string;
  /** Of databases that have one. */
  readonly server: OwnDatabase;
  readonly nodes: readonly ClusterNode[];
  readonly outageMs: number;
  say(line: string): void;
  /** Rows that wait; `undefined` while the database does not answer. */
  pending(): Promise<number | undefined>;
  /** Shards that are leased to the relay of this process, also after its end. */
  shardsOf(pid: number | undefined): Promise<number>;
  /** The fault has not done what it is there for. */
  complain(problem: string): void;
}

export interface OutboxFault {
  readonly on: 'outbox';
  /** As in `--only`. */
  readonly name: string;
  /** What is done, for the table. */
  readonly title: string;
  /** Default: all. */
  readonly databases?: readonly OutboxDatabaseName[];
  /** It takes all brokers away, for as long as `--outage` says, and so many rows must have waited then. */
  readonly outage?: { readonly leastBacklog: number };
  /** Not among all of them: it takes as long as `--outage` says, and runs where `--only` names it. */
  readonly onlyWhenNamed?: boolean;
  run(scene: OutboxScene): Promise<void>;
}

const kills = 20;
/** The longest lease of a relay that has the usual settings, and a little. */
const leaseMs = 18_000;

/** Bytes that a process keeps in memory, on Linux. */
function residentBytes(pid: number | undefined): number {
  return Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)?.[1]) * 1_024;
}

export const outboxFaults: readonly OutboxFault[] = [
  {
    on: 'outbox',
    name: 'outbox-app-killed',
    title: `an application with its relay killed ${kills} times at random moments, beside another one`,
    async run({ apps: [first], shardsOf, complain, say }) {
      let relays = 0;
      for (let kill = 1; kill <= kills; kill++) {
        const { pid } = first;
        // Every other one is killed at its start, the others once they have shards and send.
        const untilMs = kill % 2 === 0 ? 0 : Date.now() + leaseMs;
        while (Date.now() < untilMs && (await shardsOf(pid)) === 0) await sleep(100);
        await sleep(300 + Math.random() * 1_500);
        await first.kill();
        if ((await shardsOf(pid)) > 0) relays++;
        if (kill % 5 === 0) say(`killed ${kill} times, ${relays} times with shards`);
        await first.start();
      }
      if (relays < kills / 4) complain(`only ${relays} of ${kills} relays that were killed had any shards`);
    },
  },
  {
    on: 'outbox',
    name: 'outbox-both-killed',
    title: 'both applications killed in turn, six times',
    async run({ apps, say }) {
      for (let kill = 0; kill < 6; kill++) {
        const app = apps[kill % 2] as OutboxApp;
        await sleep(500 + Math.random() * 2_000);
        await app.kill();
        say(`application ${(kill % 2) + 1} killed`);
        await sleep(500);
        await app.start();
      }
    },
  },
  {
    on: 'outbox',
    name: 'outbox-relay-paused',
    title: 'an application with its relay stopped with SIGSTOP beyond its lease, and continued',
    async run({ apps: [first], say }) {
      first.pause();
      say('stopped');
      await sleep(leaseMs + 7_000);
      first.resume();
      say('goes on');
      await sleep(5_000);
    },
  },
  {
    on: 'outbox',
    name: 'outbox-database-killed',
    title: 'the database killed three times, and started again 2 s later',
    databases: ['postgres', 'mariadb'],
    async run({ server, say }) {
      for (let kill = 0; kill < 3; kill++) {
        await server.kill();
        say('database killed');
        await sleep(2_000);
        await server.restart();
        say('database is back');
        await sleep(5_000);
      }
    },
  },
  {
    on: 'outbox',
    name: 'outbox-file-locked',
    title: 'the file locked by another process for 20 s, which is killed then',
    databases: ['sqlite'],
    async run({ databaseUrl, say }) {
      const lock = await lockFile(pathIn(databaseUrl));
      say('the file is locked');
      await sleep(20_000);
      await lock.release();
      say('it can be had again');
      await sleep(5_000);
    },
  },
  {
    on: 'outbox',
    name: 'outbox-brokers-away',
    title: 'all brokers killed, and started again',
    outage: { leastBacklog: 10_000 },
    async run({ nodes, outageMs, pending, say }) {
      await Promise.all(nodes.map((node) => node.kill()));
      say('all are away');
      await sleep(outageMs);
      say(`${await pending()} rows wait`);
      for (const node of nodes) node.launch();
      await Promise.all(nodes.map((node) => node.ready()));
      say('all are back');
      await sleep(3_000);
    },
  },
  {
    on: 'outbox',
    name: 'outbox-soak',
    title: 'no fault, load for',
    onlyWhenNamed: true,
    async run({ apps, outageMs, pending, complain, say }) {
      const megabytes = (): number[] => apps.map(({ pid }) => Math.round(residentBytes(pid) / 1e6));
      const stepMs = Math.max(outageMs / 20, 1_000);
      // Pools and caches have filled by then.
      await sleep(stepMs * 2);
      const early = megabytes();
      say(`at first ${early.join(' and ')} MB`);
      for (const endMs = Date.now() + stepMs * 18; Date.now() < endMs; await sleep(stepMs))
        say(`${megabytes().join(' and ')} MB, ${await pending()} rows wait`);
      const late = megabytes();
      say(`at last ${late.join(' and ')} MB`);
      if (late.some((size, at) => size > 2 * (early[at] as number)))
        complain(`memory grew from ${early.join(' and ')} MB to ${late.join(' and ')} MB`);
    },
  },
];
