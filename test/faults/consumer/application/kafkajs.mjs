import kafkajs from 'kafkajs';

const kafka = new kafkajs.Kafka({ brokers: [process.env.BROKER], logLevel: kafkajs.logLevel.NOTHING });

export const consumer = (groupId) =>
  kafka.consumer({
    groupId,
    sessionTimeout: 6_000,
    rebalanceTimeout: 6_000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 100,
  });
