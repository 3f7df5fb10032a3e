import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { SvcError } from '../../ground/errors.ts';
import { createRanges, type Ranges } from '../../ground/ranges.ts';

/** What of one partition is done: everything before `base`, and `done` behind it. */
export interface Marks {
  base: number;
  readonly done: Ranges;
}

/** Kafka's default for `offset.metadata.max.bytes` is 4,096. */
export const maxMetadataLength = 4_000;

/** Out of a committed offset and the text beside it, which Kafka keeps for whoever commits. */
export function readMarks(low: number, offset: number | undefined, metadata: string | null): Marks {
  const base = Math.max(low, offset ?? low);
  if (offset === undefined || metadata === null || !metadata.startsWith(prefix))
    return { base, done: createRanges() };
  try {
    const packed = Buffer.from(metadata.slice(prefix.length), 'base64');
    const text = inflateRawSync(packed, { maxOutputLength: maxTextBytes }).toString();
    const ranges: [number, number][] = [];
    let at = offset;
    for (const pair of text.split(',')) {
      const [gap = 0, length = 0] = pair.split('.').map((number) => Number.parseInt(number, 36));
      ranges.push([at + gap, at + gap + length]);
      at += gap + length;
    }
    return { base, done: createRanges(ranges) };
  } catch {
    return { base, done: createRanges() };
  }
}

const prefix = 'svc1:';
/** More than 4,000 characters of what svc writes can expand to; whoever may read the group can commit any text. */
const maxTextBytes = 4 * 1024 * 1024;

/** Moves `base` over what is done, and says what is to be committed. */
export function writeMarks(marks: Marks): { offset: number; metadata: string } {
  let ranges = marks.done.toJSON().filter(([, last]) => last >= marks.base);
  const first = ranges[0];
  if (first !== undefined && first[0] <= marks.base) {
    marks.base = first[1] + 1;
    ranges = ranges.slice(1);
  }
  if (ranges.length === 0) return { offset: marks.base, metadata: '' };
  let at = marks.base;
  const pairs = ranges.map(([start, last]) => {
    const pair = `${(start - at).toString(36)}.${(last - start).toString(36)}`;
    at = last;
    return pair;
  });
  const metadata = prefix + deflateRawSync(Buffer.from(pairs.join(','))).toString('base64');
  if (metadata.length > maxMetadataLength) {
    throw new SvcError(
      'SVC_ADAPTERS_MARKS_FULL',
      'the filters leave more gaps in a partition than Kafka can remember: recover without them, or in one go for each type; the last batch is sent again the next time',
    );
  }
  return { offset: marks.base, metadata };
}
