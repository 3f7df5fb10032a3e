import { formatProblem, type Problem } from '../../config/check/problem.ts';
import type { Config } from '../../config/config.ts';
import { type LoadedConfig, loadConfig } from '../../config/read/load.ts';
import { optionNamed, targetsName } from '../../config/schema/schema.ts';
import { settingsInCode, WrongUse } from '../wrong-use.ts';

/** The configuration of the application, with the brokers of the command line. Without a file, the command line is enough. */
export interface RecoveryConfig {
  readonly config: Config;
  /**
   * Whether somebody has said which broker is meant: an application whose brokers stand in variables of its own machine would
   * else get its events into files of this one.
   *
   * @throws WrongUse
   */
  checkBroker(): void;
}

/** @throws WrongUse */
export function recoveryConfig({
  config: file,
  broker,
}: {
  readonly config?: string | undefined;
  readonly broker?: string | undefined;
}): RecoveryConfig {
  const own = loadConfig({ file });
  const loaded = broker === undefined ? own : loadConfig({ file, code: withBroker(broker, own.config) });
  const wrong = loaded.problems.filter(isInTheWay);
  if (wrong.length > 0) throw new WrongUse(wrong.map(formatProblem).join('\nsvc: '));
  return { config: loaded.config, checkBroker: () => checkBroker(loaded) };
}

/** The other client of Kafka stays: the configuration may ask for what only it can do. */
function withBroker(broker: string, { broker: { client } }: Config): object {
  const kafka = client === 'platformatic' ? client : 'kafkajs';
  return { svc: { broker: { client: kafka, bootstrapServers: broker.split(',') } } };
}

/**
 * Recovery needs the broker and a file that can be read. What else the application could not start with is no matter here:
 * keys that this machine does not have, targets, a topic of its own, for what is stored knows its topic.
 */
export function isInTheWay({ name }: Problem): boolean {
  if (name === 'svc.broker.topic' || name === targetsName) return false;
  return name.startsWith('svc.broker.') || optionNamed(name) === undefined;
}

function checkBroker({ config, isGiven }: LoadedConfig): void {
  const { client } = config.broker;
  if (client === 'memory') throw new WrongUse(`svc.broker.client: memory reaches no broker; ${howTo}`);
  if (client === 'file' && !isGiven('svc.broker.client')) throw new WrongUse(`no broker: ${howTo}`);
}

const howTo = `give --broker <host:port,...>, or set svc.broker.bootstrap-servers (svc.broker.client: file for topic files). ${settingsInCode}`;
