import { WrongUse } from '../wrong-use.ts';

type Headers = Readonly<Record<string, string>>;

/**
 * Which records are wanted, by their headers alone: a value that nobody wants is not decoded. Of one name any value will do, of
 * several names each has to be there.
 *
 * @throws WrongUse
 */
export function acceptHeaders({
  type: types = [],
  header: given = [],
}: {
  readonly type?: readonly string[];
  readonly header?: readonly string[];
}): (headers: Headers) => boolean {
  const wanted = new Map<string, string[]>();
  const add = (name: string, value: string) => wanted.set(name, [...(wanted.get(name) ?? []), value]);
  for (const type of types) add('eventType', type);
  for (const text of given) {
    const at = text.indexOf('=');
    if (at < 1) throw new WrongUse('--header takes name=value, as tenant=acme');
    add(text.slice(0, at), text.slice(at + 1));
  }
  const all = [...wanted];
  return (headers) =>
    all.every(([name, values]) => Object.hasOwn(headers, name) && values.includes(headers[name] as string));
}
