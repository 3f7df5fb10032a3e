import { type Application, createLearner } from '../../catalog/learner.ts';
import type { Config } from '../../config/config.ts';
import { sleep } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';
import { consoleLogger } from '../../observe/logger.ts';
import { printableJson } from '../../observe/printable.ts';
import { type TailRange, type TopicRecord, tailTopic, valueReader } from '../../start/commands/tail-topic.ts';
import { topicsOf } from '../../start/commands/written-topics.ts';
import { onStopSignal } from '../progress.ts';
import { recoveryConfig } from '../recovery/recovery-config.ts';
import { onRequest } from '../recovery/recovery-output.ts';
import { WrongUse } from '../wrong-use.ts';
import { counted, noteOfUnknown, type Places, say, shown } from './places.ts';
import { createSaving, readApplication } from './saving.ts';

export interface WatchOptions {
  readonly config?: string;
  readonly json?: true;
  readonly since?: number;
  readonly until?: number;
  readonly topic?: readonly string[];
  readonly broker?: string;
}

const askAgainMs = 2_000;

/** `svc catalog --watch`: learns from the events in the topics, until Ctrl-C. Exit code 1: a topic could not be read, or none was there. */
export async function runWatch(options: WatchOptions, places: Places): Promise<number> {
  const { since, until, json } = options;
  if (since !== undefined && until !== undefined && since >= until)
    throw new WrongUse('--since is not before --until');
  const { config, folder, before = new Map() } = places;
  const broker = brokerOf(options);
  const application = readApplication(config, folder);
  const learner = createLearner(application, before);
  const topics = [...new Set([...topicsIn(application), ...(options.topic ?? [])])].sort();
  const saving = createSaving(options, places, learner);
  const counts = { events: 0, others: 0, unreadable: 0 };
  const stopping = new AbortController();
  let isInterrupted = false;
  const forget = onStopSignal(() => {
    isInterrupted = true;
    stopping.abort();
  });
  say([`watching ${topics.join(', ')}${until === undefined ? '; Ctrl-C ends it' : ''}`]);
  const read = valueReader(broker);
  const told = new Set<string>();
  // Its messages hold no values.
  const tell = (error: unknown): undefined => {
    if (!(error instanceof SvcError)) throw error;
    if (!told.has(error.message)) say([`svc: ${error.message}`]);
    told.add(error.message);
  };
  const learn = async (topic: string, records: readonly TopicRecord[]): Promise<void> => {
    for (const record of records) {
      if (stopping.signal.aborted) return;
      const value = await read(record).catch(tell);
      const result = learner.learn(topic, record.headers['content-type'], value);
      if (result === 'learned') counts.events++;
      else if (result === 'no event') counts.unreadable++;
      else counts.others++;
    }
    saving.due();
  };
  let ends: FollowEnd[];
  try {
    ends = await Promise.all(
      topics.map((topic) => follow(broker, { topic, fromMs: since, untilMs: until }, stopping.signal, learn)),
    );
  } finally {
    forget();
    saving.end();
  }
  const { changes, catalog, unknown } = saving.now();
  const held = learner.heldBack();
  const isWell = !ends.includes('failed') && ends.includes('read');
  if (json) {
    const { events, others, unreadable: unread } = counts;
    const document = {
      ...{ ok: isWell, folder, events, leftOut: others, notReadable: unread },
      ...{ eventTypes: [...catalog.keys()], changes, heldBack: held, unknown },
    };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return isWell ? 0 : 1;
  }
  const left = [
    ...(counts.others > 0 ? [`${counts.others} left out, of other services or types`] : []),
    ...(counts.unreadable > 0 ? [`${counts.unreadable} no events of svc, or not readable`] : []),
  ];
  say([
    [`${counted(counts.events, 'event')} of ${counted(learner.seen(), 'type')}`, ...left].join(', '),
    `${isInterrupted ? `${onRequest}: ` : ''}what was learned is in ${shown(folder)}`,
    ...(held > 0 ? [`${counted(held, 'name')} may be data, and wait for more events`] : []),
    ...noteOfUnknown(unknown),
  ]);
  return isWell ? 0 : 1;
}

/** With the brokers of the command line. Without any, the topics are files, which may come yet. */
function brokerOf(options: WatchOptions): Config {
  const { config, checkBroker } = recoveryConfig(options);
  if (config.broker.client !== 'file') checkBroker();
  return config;
}

function topicsIn({ declared, config }: Application): string[] {
  return [...topicsOf(config), ...[...declared.types.values()].flatMap(({ topics }) => topics)];
}

/** `absent`: the topic was not there, or the broker did not answer, until somebody ended it. */
type FollowEnd = 'read' | 'absent' | 'failed';

/** A topic that is not there yet, and a broker that does not answer, are asked again. */
async function follow(
  broker: Config,
  { topic, fromMs: since, untilMs: until }: TailRange,
  signal: AbortSignal,
  learn: (topic: string, records: readonly TopicRecord[]) => Promise<void>,
): Promise<FollowEnd> {
  const beganMs = Date.now();
  const logger = consoleLogger(broker.log.level === 'debug' ? 'debug' : 'warn');
  let told = '';
  const read = new Map<number, number>();
  const isNew = ({ partition, offset }: TopicRecord): boolean => {
    if (offset <= (read.get(partition) ?? -1)) return false;
    read.set(partition, offset);
    return true;
  };
  for (let fromMs = since; ; fromMs ??= beganMs) {
    try {
      const range = { topic, fromMs, untilMs: until };
      await tailTopic(broker, logger, range, signal, (records) => learn(topic, records.filter(isNew)));
      return 'read';
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      if (signal.aborted) return 'absent';
      if (error.message !== told) say([`svc: ${error.message}`]);
      told = error.message;
      if (error.code !== 'SVC_ADAPTERS_NOT_REACHABLE' || (until ?? Number.POSITIVE_INFINITY) <= Date.now())
        return 'failed';
    }
    await sleep(askAgainMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return 'absent';
  }
}
