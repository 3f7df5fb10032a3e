import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from '../../scripts/bench.ts';
import { installPacked } from '../support/packed.ts';

const runs = 15;

/** Milliseconds that a preload adds to hello world, beside what OpenTelemetry's own zero-code preload adds. */
export const bench: Bench = async (progress) => {
  progress('installing the packed svc and OpenTelemetry auto-instrumentations (cached)');
  const application = installPacked('bench-startup', {
    '@opentelemetry/api': '1.10.0',
    '@opentelemetry/auto-instrumentations-node': '0.82.0',
  });
  const folder = join(application, 'hello');
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, 'hello.mjs'),
    "export async function greet(name) { return 'hello ' + name; }\nconsole.log(await greet('world'));\n",
  );
  writeFileSync(
    join(folder, 'svc.config.json'),
    JSON.stringify({
      svc: { broker: { topic: 'hello' }, targets: [{ module: './hello.mjs', function: 'greet' }] },
      management: { server: { port: 0 } },
    }),
  );
  writeFileSync(join(folder, 'nothing.mjs'), '');
  const cases = {
    bare: [],
    hook: ['--import', './nothing.mjs'],
    svc: ['--import', 'svc/register'],
    auto: ['--import', '@opentelemetry/auto-instrumentations-node/register'],
  };
  const times: Record<string, number[]> = { bare: [], hook: [], svc: [], auto: [] };
  for (let run = 0; run <= runs; run++) {
    for (const [name, args] of Object.entries(cases)) {
      const started = performance.now();
      const { status, stderr } = spawnSync(process.execPath, [...args, 'hello.mjs'], {
        cwd: folder,
        encoding: 'utf8',
        env: {
          ...process.env,
          OTEL_TRACES_EXPORTER: 'none',
          OTEL_METRICS_EXPORTER: 'none',
          OTEL_LOGS_EXPORTER: 'none',
        },
      });
      if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`);
      if (run > 0) times[name]?.push(performance.now() - started);
    }
    progress(`run ${run} of ${runs}`);
  }
  const median = (name: string) =>
    [...(times[name] ?? [])].sort((a, b) => a - b)[Math.floor(runs / 2)] ?? Number.NaN;
  const added = (name: string) => Number((median(name) - median('bare')).toFixed(1));
  return [
    { case: 'bare', value: Number(median('bare').toFixed(1)), unit: 'ms' },
    { case: 'hook', value: added('hook'), unit: 'ms' },
    {
      case: 'svc',
      value: added('svc'),
      unit: 'ms',
      against: 'auto',
      ratio: Number((added('svc') / added('auto')).toFixed(3)),
    },
    { case: 'auto', value: added('auto'), unit: 'ms' },
  ];
};
