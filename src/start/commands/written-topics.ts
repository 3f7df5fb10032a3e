import type { Config } from '../../config/config.ts';

/** Reasons are kept by their text: whoever writes dead letters may name any number of topics. */
const mostNamed = 100;

/**
 * Why events are not sent to a topic: a dead letter, a file or an object names whichever it likes, and is sent with the rights of
 * whoever runs svc. Only topics of the configuration and those that are named by whoever asks are written to, and never one of dead
 * letters, where it would come back.
 *
 * @param naming how a topic is named: `--topic`, or `"topic":`
 */
export function createTopicRefusal(
  config: Config,
  named: readonly (string | undefined)[],
  deadLetterTopics: readonly (string | undefined)[],
  naming = '--topic',
): (topic: string) => string | undefined {
  const allowed = new Set([...topicsOf(config), ...named]);
  const told = new Set<string>();
  return (topic) => {
    if (deadLetterTopics.includes(topic)) return `topic "${topic}" is that of the dead letters themselves`;
    if (allowed.has(topic)) return undefined;
    if (told.size >= mostNamed && !told.has(topic))
      return `more than ${mostNamed} topics that the configuration does not have: the list names them, ${naming} sends one`;
    told.add(topic);
    return `the configuration has no topic "${topic}": if they belong there, send them with ${naming} ${topic}`;
  };
}

/** Those that the configuration sends events to. */
export function topicsOf({ broker, targets }: Config): string[] {
  const named = [broker.topic, ...targets.map(({ topic }) => topic)];
  return [...new Set(named.filter((topic) => topic !== undefined && topic !== ''))] as string[];
}
