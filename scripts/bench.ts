import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

// `npm run bench -- <name> [--json] [options]`: one measurement, run by itself. Timings never gate a test.
const folder = resolve(import.meta.dirname, '../test/bench');
const names = [
  'capture',
  'startup',
  'throughput',
  'protect',
  'outage',
  'http',
  'outbox',
  'serde',
  'management',
  'maps',
  'consumer',
  'scale',
] as const;

/** One line of the result: `against` and `ratio` where a case is compared with another of the same run. */
export interface Figure {
  readonly bench: string;
  readonly case: string;
  readonly value: number;
  readonly unit: string;
  readonly against?: string;
  readonly ratio?: number;
  /** What must not be. The run then ends with exit code 1. */
  readonly isFailure?: boolean;
}

/** `args`: options of this bench. */
export type Bench = (
  progress: (text: string) => void,
  args?: readonly string[],
) => Promise<readonly Omit<Figure, 'bench'>[]>;

async function main(args: readonly string[]): Promise<number> {
  const asJson = args.includes('--json');
  const name = args.find((arg) => !arg.startsWith('-'));
  if (name === undefined || args.includes('--help') || !existsSync(join(folder, `${name}.ts`))) {
    const text = `npm run bench -- <name> [--json] [options]\n\nnames: ${names.join(', ')}\nthroughput: --client <names> --rounds <count> --profile <folder>\noutage: --outage <seconds> --rate <events a second> --client <name> --profile <folder>\nhttp: --rate <requests a second> --client <names> --rounds <count> --profile <folder>\noutbox: --rounds <count> --only <join, drain or latency>\nscale: --only <application or crowds> --rounds <count> --processes <counts> --relays <counts> --members <counts> --seconds <count>\n`;
    (args.includes('--help') ? process.stdout : process.stderr).write(text);
    return args.includes('--help') ? 0 : 2;
  }
  if (!existsSync(resolve(import.meta.dirname, '../dist/register.mjs'))) {
    process.stderr.write('nothing is built: npm run build first\n');
    return 1;
  }
  const { bench } = (await import(join(folder, `${name}.ts`))) as { bench: Bench };
  const options = args.filter((arg) => arg !== name && arg !== '--json');
  const figures = await bench((text) => process.stderr.write(`${text}\n`), options);
  for (const figure of figures) {
    const compared = figure.ratio === undefined ? '' : `  ${figure.ratio} x ${figure.against}`;
    const failed = figure.isFailure === true ? '  FAILED' : '';
    process.stdout.write(
      asJson
        ? `${JSON.stringify({ bench: name, ...figure })}\n`
        : `${name}  ${figure.case.padEnd(24)} ${String(figure.value).padStart(10)} ${figure.unit}${compared}${failed}\n`,
    );
  }
  return figures.some(({ isFailure }) => isFailure) ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
