// file/: a broker without Kafka: a file for each topic, a line for each record.

import { constants, promises } from 'node:fs';
import { join, resolve } from 'node:path';
import { within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';
import { toSendFailure } from './file-failure.ts';
import { createTopicFile, type TopicFile } from './topic-file.ts';
import { topicNameProblem } from './topic-name.ts';

export interface FileBrokerOptions {
  /** Where the topics lie, as `<topic>.ndjson`. Made when missing, readable for its owner only. */
  readonly directory: string;
}

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the topic files are closed: svc has stopped',
};

/**
 * Topics as files, one record a line, each with one partition: for development and demonstrations, without a broker.
 * A record is acknowledged when the operating system has it; nothing is forced to the disk.
 */
export function createFileBroker(options: FileBrokerOptions): Broker {
  const directory = resolve(options.directory);
  const files = new Map<string, TopicFile>();
  const underWay = new Set<Promise<SendResult>>();
  let closed = false;

  function fileOf(topic: string): TopicFile {
    let file = files.get(topic);
    if (file === undefined) {
      file = createTopicFile(join(directory, `${topic}.ndjson`));
      files.set(topic, file);
    }
    return file;
  }

  async function prepareDirectory(): Promise<void> {
    await promises.mkdir(directory, { recursive: true, mode: 0o700 });
    await promises.access(directory, constants.W_OK | constants.X_OK);
  }

  return {
    name: 'file',

    async connect() {
      if (closed) return failed(closedFailure);
      try {
        await prepareDirectory();
        return { ok: true };
      } catch (error) {
        return failed(toSendFailure(error, directory));
      }
    },

    async send(topic, _partition, records) {
      if (closed) return failed(closedFailure);
      if (records.length === 0) return { ok: true };
      const problem = topicNameProblem(topic);
      if (problem !== undefined)
        return failed({ kind: 'fatal', cause: 'INVALID_TOPIC_EXCEPTION', message: problem });
      if (!records.every(isOneLineOfJson)) {
        const message =
          'a topic file takes JSON text without line breaks: choose svc.broker.client kafkajs for other values';
        return failed({ kind: 'fatal', cause: 'INVALID_RECORD', message });
      }
      const append = fileOf(topic).append(encodeLines(records));
      underWay.add(append);
      const result = await append;
      underWay.delete(append);
      return result;
    },

    async partitionsFor(topic) {
      return topicNameProblem(topic) === undefined ? 1 : undefined;
    },

    async describe() {
      if (closed) throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', closedFailure.message);
      try {
        await prepareDirectory();
      } catch (error) {
        throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', toSendFailure(error, directory).message);
      }
      return { clusterId: null, nodeCount: 1 };
    },

    async close(deadlineMs) {
      closed = true;
      await within(deadlineMs, Promise.all(underWay));
    },
  };
}

function failed(failure: SendFailure): SendResult {
  return { ok: false, failure };
}

const newline = Buffer.from('\n');
const lineFeed = 0x0a;
const beginsJson = new Set([...'{["-0123456789tfn'].map((character) => character.charCodeAt(0)));

/** `{"timestamp":…,"key":…,"headers":{…},"value":` and the value's own bytes, one record a line. */
export function encodeLines(records: readonly BrokerRecord[]): Buffer {
  const parts: Buffer[] = [];
  for (const { timestamp, key, headers, value } of records) {
    const head = `{"timestamp":${timestamp},"key":${JSON.stringify(key)},"headers":${JSON.stringify(headers)},"value":`;
    parts.push(Buffer.from(head), value, Buffer.from('}'), newline);
  }
  return Buffer.concat(parts);
}

/** Whether the value can stand in a line as it is: JSON text without line breaks. Looks at the bytes, parses nothing. */
function isOneLineOfJson({ value }: BrokerRecord): boolean {
  return beginsJson.has(value[0] ?? 0) && !value.includes(lineFeed);
}
