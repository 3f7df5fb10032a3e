import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from './fault.ts';

export const clusterFaults: readonly Fault[] = [
  {
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
    name: 'broker-hung',
    title: 'a broker stopped with SIGSTOP, its connections open, and continued 20 s later',
    async run({ leaderOf, say }) {
      const node = await leaderOf(0);
      node.pause();
      say(`node ${node.id} stopped`);
      await sleep(20_000);
      node.resume();
      say(`node ${node.id} goes on`);
      await sleep(5_000);
    },
  },
  {
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
    name: 'all-killed',
    title: 'all brokers killed, and started again',
    rate: 500,
    broker: { backup: { drain: { rate: 5_000 } } },
    async run({ nodes, outageMs, say }) {
      await Promise.all(nodes.map((node) => node.kill()));
      say(`all nodes killed, for ${outageMs / 1000} s`);
      await sleep(outageMs);
      for (const node of nodes) node.launch();
      await Promise.all(nodes.map((node) => node.ready()));
      say('all are back');
      await sleep(5_000);
    },
  },
];
