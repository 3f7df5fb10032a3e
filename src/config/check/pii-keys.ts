import { keyIdPattern, keyIdProblem, keyLengthBytes, readKeyText } from '../../ground/key-text.ts';
import { isNamedValues } from '../../ground/named-values.ts';
import { camelCase } from '../schema/option.ts';
import { type Mistake, orMistakes } from './problem.ts';
import { shownName } from './shown-name.ts';

/** One of `svc.pii.crypto.keys`. */
export interface EncryptionKeyConfig {
  readonly id: string;
  readonly key: string;
  readonly status: 'primary' | 'decrypt' | undefined;
}

const fields = ['id', 'key', 'status'];
/** Readers try them one by one. */
const most = 8;

/** `svc.pii.crypto.keys`, and all that is wrong with it; a text is JSON. No message holds a key. */
export function checkKeys(given: unknown): ReturnType<typeof orMistakes<readonly EncryptionKeyConfig[]>> {
  const value = typeof given === 'string' ? parsed(given) : given;
  const only = (message: string) => orMistakes([], [{ message }]);
  if (value === undefined) return only('is not valid JSON');
  if (!Array.isArray(value)) return only('must be a list of { id, key, status }');
  if (value.length > most) return only(`must hold at most ${most} keys`);
  const keys: EncryptionKeyConfig[] = [];
  const mistakes: Mistake[] = [];
  for (const [index, item] of Array.from(value as unknown[]).entries()) {
    const key = checkKey(item, `item ${index + 1}`);
    if (typeof key === 'string') mistakes.push({ message: key });
    else if (keys.some(({ id }) => id === key.id))
      mistakes.push({ message: `item ${index + 1} has an id that stands there twice` });
    else keys.push(key);
  }
  if (keys.filter(({ status }) => status === 'primary').length > 1)
    mistakes.push({ message: 'has more than one primary key' });
  return orMistakes(keys, mistakes);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function checkKey(item: unknown, name: string): EncryptionKeyConfig | string {
  if (!isNamedValues(item)) return `${name} must be { id, key, status }`;
  const found: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(item)) {
    if (!fields.includes(camelCase(key))) return `${name} has the unknown field ${shownName(key, fields)}`;
    found[camelCase(key)] = value;
  }
  const { id, key, status } = found;
  if (typeof id !== 'string' || !keyIdPattern.test(id)) return `${name} has an ${keyIdProblem}`;
  if (typeof key !== 'string') return `${name} must have a key: Base64 of 32 bytes`;
  const wrong = wrongKey(key);
  if (wrong !== undefined) return `${name} ${wrong}`;
  const known = typeof status === 'string' ? status.toLowerCase() : status;
  if (known !== undefined && known !== null && known !== 'primary' && known !== 'decrypt')
    return `${name} must have the status primary or decrypt, or none`;
  return { id, key, status: known ?? undefined };
}

/** What is wrong with a key, or `undefined`. The kind of error is the one that the specification names. */
export function wrongKey(key: string): string | undefined {
  const { bytes, spelling } = readKeyText(key);
  if (bytes.length === keyLengthBytes) return undefined;
  return `must be exactly ${keyLengthBytes} bytes, written in Base64; found ${bytes.length}, read as ${spelling} (IllegalArgumentException)`;
}
