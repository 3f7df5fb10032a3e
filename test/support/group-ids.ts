import { setTimeout as sleep } from 'node:timers/promises';
import type { Admin, KafkaJSProtocolError } from 'kafkajs';

/** Of all consumer groups of a cluster, sorted. Asked again while a broker still loads those that it knows of. */
export async function groupIds(admin: Admin): Promise<string[]> {
  for (;;) {
    try {
      return (await admin.listGroups()).groups.map(({ groupId }) => groupId).sort();
    } catch (error) {
      if ((error as KafkaJSProtocolError).type !== 'COORDINATOR_LOAD_IN_PROGRESS') throw error;
      await sleep(50);
    }
  }
}
