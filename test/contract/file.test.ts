import { join } from 'node:path';
import { fileBroker } from '../../src/adapters/file/file-broker.ts';
import { readTopicFile } from '../adapters/file/read-topic-file.ts';
import { temporaryFolder } from '../support/folders.ts';
import { recordOf, testBroker } from './broker.ts';

describe('broker contract: file', () => {
  const directory = temporaryFolder('file');

  testBroker(() => ({
    open: () => fileBroker.open({ directory: join(directory, 'topics') }),
    createTopic: async () => {},
    read: async (topic) => readTopicFile(join(directory, 'topics', `${topic}.ndjson`)),
    count: async (topic) => readTopicFile(join(directory, 'topics', `${topic}.ndjson`)).length,
    hasPartitions: false,
    isCluster: false,
    longestTopicName: 248,
    refused: { record: recordOf(0, { value: Buffer.from('{\n}') }), kind: 'fatal' },
  }));
});
