import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterFault, ClusterScene } from './fault.ts';

export const clusterFaults: readonly ClusterFault[] = [
  {
    on: 'cluster',
    name: 'broker-killed',
    title: 'a broker killed, and started again 8 s later',
    async run({ leaderOf, say }) {
      const node = await leaderOf(0);
      await node.kill();
      say(`node ${node.id} killed`);
      await sleep(8_000);
      node.launch();
      await node.ready();
      say(`node ${node.id} is back`);
      await sleep(3_000);
    },
  },
  {
    on: 'cluster',
    name: 'broker-hung',
    title: 'a broker stopped with SIGSTOP, its connections open, and continued 20 s later',
    async run({ leaderOf, say }) {
      const node = await leaderOf(0);
      await node.pause();
      say(`node ${node.id} stopped`);
      await sleep(20_000);
      node.resume();
      say(`node ${node.id} goes on`);
      await sleep(5_000);
    },
  },
  {
    on: 'cluster',
    name: 'broker-frozen',
    title: 'a broker stopped with SIGSTOP, its connections open, and continued 45 s later',
    async run({ leaderOf, say }) {
      const node = await leaderOf(0);
      await node.pause();
      say(`node ${node.id} stopped`);
      await sleep(45_000);
      node.resume();
      say(`node ${node.id} goes on`);
      await sleep(5_000);
    },
  },
  {
    on: 'cluster',
    name: 'broker-killed-compressed',
    title: 'a broker killed, and started again 8 s later, batches compressed with gzip',
    broker: { compression: 'gzip' },
    async run({ leaderOf, say }) {
      const node = await leaderOf(0);
      await node.kill();
      say(`node ${node.id} killed`);
      await sleep(8_000);
      node.launch();
      await node.ready();
      await sleep(3_000);
    },
  },
  {
    on: 'cluster',
    name: 'quota',
    title: 'a quota of 100 kB/s for each broker, 20 MB of events',
    broker: { buffer: { 'max-events': 60_000 } },
    async run({ setByteRate, say }) {
      await setByteRate(100_000);
      try {
        say('a quota of 100 kB/s');
        await sleep(20_000);
      } finally {
        await setByteRate(undefined);
      }
      say('no quota');
    },
  },
  {
    on: 'cluster',
    name: 'leaders-move',
    title: 'leaders moved to other brokers one after the other for 30 s',
    async run({ moveLeader, say }) {
      const endMs = Date.now() + 30_000;
      for (let moved = 0; Date.now() < endMs; moved++) {
        await moveLeader(moved % 6);
        say(`partition ${moved % 6} moved`);
      }
    },
  },
  {
    on: 'cluster',
    name: 'connections-cut',
    title: 'all connections cut every second, for 20 s',
    network: true,
    async run({ proxies, say }) {
      for (let times = 0; times < 20; times++) {
        proxies.reset();
        await sleep(1_000);
      }
      say('cut 20 times');
      await sleep(3_000);
    },
  },
  {
    on: 'cluster',
    name: 'leader-moved',
    title: 'the leaders of two partitions moved to other brokers',
    async run({ moveLeader, say }) {
      for (const partition of [0, 1]) {
        await moveLeader(partition);
        say(`partition ${partition} moved`);
        await sleep(1_000);
      }
    },
  },
  {
    on: 'cluster',
    name: 'quorum-lost',
    title: 'two of three brokers killed, and started again 10 s later',
    async run({ nodes, say }) {
      const [first, second] = nodes;
      await Promise.all([first?.kill(), second?.kill()]);
      say('two nodes killed');
      await sleep(10_000);
      for (const node of [first, second]) node?.launch();
      await Promise.all(nodes.map((node) => node.ready()));
      say('both are back');
      await sleep(5_000);
    },
  },
  {
    on: 'cluster',
    name: 'all-killed',
    title: 'all brokers killed, and started again',
    rate: 500,
    broker: { backup: { drain: { rate: 5_000 } } },
    run: (scene) => outage(scene, scene.outageMs),
  },
  {
    on: 'cluster',
    name: 'network-cut',
    title: 'the network between client and brokers cut for 12 s, connections left open',
    network: true,
    rate: 500,
    async run({ proxies, say }) {
      proxies.cut();
      say('cut');
      await sleep(12_000);
      proxies.heal();
      say('healed');
      await sleep(6_000);
    },
  },
  {
    on: 'cluster',
    name: 'network-slow',
    title: 'the network late by 0.4 s each way for 6 s, then by 1.8 s for 8 s',
    network: true,
    async run({ proxies, say }) {
      for (const [delayMs, forMs] of [
        [400, 6_000],
        [1_800, 8_000],
      ] as const) {
        proxies.slow(delayMs);
        say(`late by ${delayMs} ms`);
        await sleep(forMs);
      }
      proxies.heal();
      await sleep(4_000);
    },
  },
  {
    on: 'cluster',
    name: 's3-failing',
    title: 'all brokers away for 25 s; S3 answers, then with 500, then not at all',
    rate: 300,
    s3: true,
    broker: { backup: { drain: { rate: 5_000 } } },
    async run(scene) {
      const { s3, say } = scene;
      await outage(scene, 25_000, async () => {
        await sleep(13_000);
        s3.fail({ kind: 'answer', status: 500, body: '<Error><Code>InternalError</Code></Error>' });
        say('S3 answers 500');
        await sleep(6_000);
        s3.fail({ kind: 'hang' });
        say('S3 hangs');
      });
      s3.reset();
    },
  },
  {
    on: 'cluster',
    name: 'disk-full',
    title: 'all brokers away for 15 s, the disk of the backup full, S3 beside it',
    rate: 300,
    s3: true,
    backupBytes: 256 * 1024,
    run: (scene) => outage(scene, 15_000),
  },
  {
    on: 'cluster',
    name: 'disk-full-alone',
    title: 'all brokers away for 15 s, the disk of the only backup full',
    rate: 300,
    backupBytes: 2 * 1024 * 1024,
    losesEvents: true,
    run: (scene) => outage(scene, 15_000),
  },
];

async function outage(
  { nodes, say }: ClusterScene,
  forMs: number,
  meanwhile: () => Promise<void> = async () => {},
): Promise<void> {
  await Promise.all(nodes.map((node) => node.kill()));
  say(`all nodes killed, for ${forMs / 1000} s`);
  await Promise.all([sleep(forMs), meanwhile()]);
  for (const node of nodes) node.launch();
  await Promise.all(nodes.map((node) => node.ready()));
  say('all are back');
  await sleep(5_000);
}
