import { Consumer } from '@platformatic/kafka';

export const consumer = (groupId) =>
  new Consumer({
    ...{ clientId: 'billing', groupId, bootstrapBrokers: [process.env.BROKER], maxWaitTime: 100 },
    ...{ sessionTimeout: 6_000, rebalanceTimeout: 6_000, heartbeatInterval: 500 },
  });
