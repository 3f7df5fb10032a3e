import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';

/** Of a file name's 255 bytes, `.ndjson` takes 7; Kafka itself takes 249 characters. */
const longestName = 248;

/** Kafka's rules. They also keep a topic inside its directory. `undefined`: the name is fine. */
export function topicNameProblem(topic: string): string | undefined {
  if (topic.length > longestName) {
    return `the name of topic "${topic.slice(0, 20)}…" is longer than ${longestName} characters`;
  }
  return topicNamePattern.test(topic)
    ? undefined
    : `the name of topic ${JSON.stringify(topic)} must be ${topicNameForm}`;
}
