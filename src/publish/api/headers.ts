import { SvcError } from '../../ground/errors.ts';
import { headerNameProblem, headerText, headerTextForm, maxHeaders } from '../../ground/event-fields.ts';
import { entriesOf } from '../../ground/named-values.ts';

/**
 * The headers that `publish()` was given, as texts; those that are null or undefined are left out.
 *
 * @throws SvcError `SVC_PUBLISH_HEADERS`, which tells a header by its number: names can be data, too
 */
export function headersOf(given: unknown): Readonly<Record<string, string>> | undefined {
  if (given === undefined || given === null) return undefined;
  const entries = entriesOf(given);
  if (entries === undefined) throw wrong('headers must be an object, a Map, or the Headers of fetch');
  if (entries.length > maxHeaders) throw wrong(`there can be at most ${maxHeaders} headers`);
  const headers: Record<string, string> = {};
  for (const [index, [name, value]] of entries.entries()) {
    if (typeof name !== 'string') throw wrong(`header ${index + 1} must have a text as name`);
    const problem = headerNameProblem(name);
    if (problem !== undefined) throw wrong(`header ${index + 1} ${problem}`);
    const text = headerText(value);
    if (text === undefined) throw wrong(`header ${index + 1} must be ${headerTextForm}`);
    if (text !== null) headers[name] = text;
  }
  return headers;
}

function wrong(message: string): SvcError {
  return new SvcError('SVC_PUBLISH_HEADERS', message);
}
