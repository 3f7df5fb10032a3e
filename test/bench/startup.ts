import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Bench } from '../../scripts/bench.ts';
import { installPacked } from '../support/packed.ts';

const runs = 31;

/** Wall time is what a user waits for; the processor's time hardly changes with what else the machine does. */
interface Cost {
  readonly wallMs: number;
  readonly cpuMs: number;
}

const telemetry = '@opentelemetry/auto-instrumentations-node/register';

/** By case: its folder, and what it preloads. */
const cases = {
  bare: ['hello', undefined],
  hook: ['hello', './nothing.mjs'],
  'svc-idle': ['idle', 'svc/register'],
  svc: ['hello', 'svc/register'],
  'svc-own-files': ['own-files', 'svc/register'],
  // With the list of `svc manifest`, and what Node has compiled before.
  'svc-manifest': ['manifest', 'svc/register'],
  auto: ['hello', telemetry],
} as const satisfies Readonly<Record<string, readonly [folder: string, preload: string | undefined]>>;
type Case = keyof typeof cases;

const hello = `export async function greet(name) { return 'hello ' + name; }\nconsole.log(await greet('world'));\n`;
const helloConfig = JSON.stringify({
  svc: { broker: { topic: 'hello' }, targets: [{ module: './hello.mjs', function: 'greet' }] },
  management: { server: { port: 0 } },
});
const ownFiles = ['orders', 'payments', 'users'];

const files: Readonly<Record<string, string>> = {
  'hello/hello.mjs': hello,
  'hello/nothing.mjs': '',
  'hello/svc.config.json': helloConfig,
  'manifest/hello.mjs': hello,
  'manifest/svc.config.json': helloConfig,
  'idle/hello.mjs': hello,
  'idle/svc.config.yaml': 'svc:\n  broker:\n    topic: hello\n',
  'own-files/hello.mjs': [
    ...ownFiles.map((name) => `import { greet as ${name} } from './${name}.mjs';`),
    ...ownFiles.map((name) => `console.log(await ${name}('${name}'));`),
  ].join('\n'),
  ...Object.fromEntries(
    ownFiles.map((name) => [`own-files/${name}.mjs`, hello.slice(0, hello.indexOf('\n') + 1)]),
  ),
  'own-files/svc.config.json': JSON.stringify({
    svc: {
      broker: { topic: 'hello' },
      targets: ownFiles.map((name) => ({ module: `./${name}.mjs`, function: 'greet' })),
    },
    management: { server: { port: 0 } },
  }),
  'processor-time.cjs': `
    process.on('exit', () => {
      const { userCPUTime, systemCPUTime } = process.resourceUsage();
      require('node:fs').writeSync(3, String((userCPUTime + systemCPUTime) / 1000));
    });`,
};

/** Milliseconds that a preload adds to hello world, beside what OpenTelemetry's own zero-code preload adds. */
export const bench: Bench = async (progress) => {
  progress('installing the packed svc and OpenTelemetry auto-instrumentations (cached)');
  const application = installPacked('bench-startup', {
    '@opentelemetry/api': '1.10.0',
    '@opentelemetry/auto-instrumentations-node': '0.82.0',
  });
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(application, file)), { recursive: true });
    writeFileSync(join(application, file), text);
  }
  const command = [join(application, 'node_modules/svc/bin/svc.cjs'), 'manifest'];
  const listed = spawnSync(process.execPath, command, {
    cwd: join(application, 'manifest'),
    encoding: 'utf8',
  });
  if (listed.status !== 0) throw new Error(`svc manifest: ${listed.stdout}${listed.stderr}`);
  const names = Object.keys(cases) as Case[];
  const costs = new Map<Case, Cost[]>(names.map((name) => [name, []]));
  for (let run = 0; run <= runs; run++) {
    for (const name of names) {
      const cost = runOnce(application, name);
      // The first one fills the caches of the file system.
      if (run > 0) costs.get(name)?.push(cost);
    }
    progress(`run ${run} of ${runs}`);
  }
  const median = (name: Case, of: keyof Cost) =>
    (costs.get(name) ?? []).map((cost) => cost[of]).sort((a, b) => a - b)[Math.floor(runs / 2)] ?? Number.NaN;
  const added = (name: Case, of: keyof Cost) => median(name, of) - median('bare', of);
  return names.flatMap((name) =>
    (['wallMs', 'cpuMs'] as const).map((of) => ({
      case: of === 'wallMs' ? name : `${name} cpu`,
      value: rounded(name === 'bare' ? median(name, of) : added(name, of), 1),
      unit: 'ms',
      ...(name !== 'bare' && { against: 'bare', ratio: rounded(added(name, of) / median('bare', of), 2) }),
    })),
  );
};

function runOnce(application: string, name: Case): Cost {
  const [folder, preload] = cases[name];
  const args = preload === undefined ? [] : ['--import', preload];
  const started = performance.now();
  const { status, stderr, output } = spawnSync(
    process.execPath,
    ['--require', '../processor-time.cjs', ...args, 'hello.mjs'],
    {
      cwd: join(application, folder),
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      env: {
        ...process.env,
        OTEL_TRACES_EXPORTER: 'none',
        OTEL_METRICS_EXPORTER: 'none',
        OTEL_LOGS_EXPORTER: 'none',
        ...(name === 'svc-manifest' && { NODE_COMPILE_CACHE: join(application, 'compile-cache') }),
      },
    },
  );
  const wallMs = performance.now() - started;
  if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`);
  return { wallMs, cpuMs: Number(output[3]) };
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
