import type { Controls, Health } from '../../src/manage/controls.ts';

export const upHealth: Health = {
  status: 'UP',
  details: {
    brokerProducerInitialized: true,
    clusterId: 'MkU3OEVBNTcwNTJENDM2Qk',
    nodeCount: 3,
    topic: 'orders.v1',
    dlqTopic: 'orders.dlq.v1',
  },
};

export const downHealth: Health = {
  status: 'DOWN',
  details: {
    ...upHealth.details,
    clusterId: null,
    nodeCount: null,
    error: 'connect ECONNREFUSED 127.0.0.1:9092',
  },
};

export function fakeControls(overrides: Partial<Controls> = {}): Controls {
  return {
    health: async () => upHealth,
    metricsText: async () => '# TYPE svc_events_in_flight gauge\nsvc_events_in_flight{eventType="é"} 0\n',
    info: () => ({ service: { name: 'orders', version: '1.4.0' }, svc: { version: '0.1.0' } }),
    ...overrides,
  };
}
