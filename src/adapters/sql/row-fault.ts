import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';

/** What of a stored row becomes the record, as it was found: SQLite stores anything in any column. */
export interface FoundRecord {
  readonly topic: unknown;
  readonly key: unknown;
  /** Read as JSON; `undefined`: it was none. */
  readonly headers: unknown;
  readonly payload: unknown;
}

/** Characters of a name that is told. */
const longestName = 60;

/**
 * Why a row cannot become a record; `undefined` where it can. Rows of svc always can; in what somebody else has inserted, one of them would
 * be refused by the client each time, and look as if the cluster were away.
 */
export function rowFault({ topic, key, headers, payload }: FoundRecord): string | undefined {
  if (typeof topic !== 'string' || !topicNamePattern.test(topic)) return `its topic must be ${topicNameForm}`;
  if (typeof key !== 'string') return 'its record_key must be a text';
  if (!Buffer.isBuffer(payload)) return 'its payload must be bytes';
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    return 'its headers must be an object in JSON';
  for (const [name, text] of Object.entries(headers))
    if (typeof text !== 'string')
      return `its header ${JSON.stringify(name.slice(0, longestName))} must be a text`;
  return undefined;
}
