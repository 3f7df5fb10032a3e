import { printable, printableJson } from '../../observe/printable.ts';
import { askProcess, expectFound, NoAnswer } from './ask-process.ts';
import { findProcess, type ProcessOptions } from './find-process.ts';
import { takeSample } from './sample.ts';

export interface BreakerOptions extends ProcessOptions {
  readonly dryRun?: true;
}

interface Reset {
  readonly before: string;
  readonly after: string;
}
type Resets = Readonly<Record<'broker' | 'outbox', Reset | null>>;

/** `svc breaker reset`: closes the circuit breakers of a running process. With `--dry-run` it only says how they are. */
export async function runBreakerReset(options: BreakerOptions): Promise<number> {
  const found = findProcess(options, options.dryRun !== true);
  try {
    if (options.dryRun) {
      const { broker, outbox } = (await takeSample(found)).breakers;
      const stays = (state: string | null): Reset | null =>
        state === null ? null : { before: state, after: state };
      return say(options, { broker: stays(broker), outbox: stays(outbox) });
    }
    const answer = await askProcess(found, '/actuator/svc/circuit-breaker/reset', 'POST');
    expectFound(answer, found, 'svc-metrics');
    const { detail, broker, outbox } = (answer.body ?? {}) as Partial<Resets> & { detail?: string };
    if (answer.status !== 200 || broker === undefined || outbox === undefined)
      throw new NoAnswer(`not reset: ${found.url} answers ${answer.status}${detail ? `: ${detail}` : ''}`);
    return say(options, { broker, outbox });
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    process.stderr.write(`svc: ${printable(error.message)}\n`);
    return 1;
  }
}

function say({ json, dryRun = false }: { json?: true; dryRun?: boolean }, resets: Resets): number {
  const lines = Object.entries(resets).map(([name, reset]) =>
    reset === null
      ? `${name}: no breaker in this process`
      : `${name}: ${dryRun ? `${reset.before}, would be reset` : `${reset.before}, now ${reset.after}`}`,
  );
  process.stdout.write(
    json ? `${printableJson({ dryRun, ...resets }, 2)}\n` : `${lines.map(printable).join('\n')}\n`,
  );
  return 0;
}
