import type { Answers } from './config-text.ts';
import type { Candidate } from './find-commands.ts';
import type { ScriptEntry } from './script-entry.ts';

/** Somebody pressed Ctrl-C. */
export class Cancelled extends Error {}

export interface Answered extends Answers {
  readonly withScript: boolean;
}

interface Scene {
  readonly candidates: readonly Candidate[];
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly script: ScriptEntry | undefined;
  /** Why what was typed for brokers and topic cannot be taken. */
  readonly problemOf: (brokers: string, topic: string) => string | undefined;
}

const hintWidth = 60;

/**
 * Asks on the terminal, on standard error.
 *
 * @throws Cancelled
 */
export async function ask({ candidates, brokers, topic, script, problemOf }: Scene): Promise<Answered> {
  const { confirm, isCancel, multiselect, text } = await import('@clack/prompts');
  const streams = { input: process.stdin, output: process.stderr };
  const given = async <T>(answer: Promise<T>): Promise<Exclude<T, symbol>> => {
    const value = await answer;
    if (isCancel(value)) throw new Cancelled();
    return value as Exclude<T, symbol>;
  };
  const targets = await given(
    multiselect({
      ...streams,
      message: 'Which calls become events? (space ticks, enter goes on)',
      options: candidates.map((each) => ({
        value: each,
        label: `${each.eventType}  ${each.module.slice(2)} ${each.path}`,
        hint: (each.payload ?? 'what it returns').slice(0, hintWidth),
      })),
      required: true,
      maxItems: 12,
    }),
  );
  const where = await given(
    text({
      ...streams,
      message: 'Brokers of Kafka? (empty: files in ./svc-topics, to try it)',
      placeholder: 'localhost:9092',
      initialValue: brokers.join(','),
      validate: (value) => problemOf(value ?? '', topic),
    }),
  );
  const named = await given(
    text({
      ...streams,
      message: 'Topic of the events?',
      initialValue: topic,
      validate: (value) => problemOf('', value ?? ''),
    }),
  );
  const withScript =
    script !== undefined &&
    (await given(
      confirm({ ...streams, message: `Add "${script.name}": "${script.command}" to package.json?` }),
    ));
  return { targets, brokers: listOf(where), topic: named.trim(), withScript };
}

export function listOf(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((each) => each.trim())
    .filter(Boolean);
}
