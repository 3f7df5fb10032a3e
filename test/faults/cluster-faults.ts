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
];
