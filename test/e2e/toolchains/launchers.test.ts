import assert from 'node:assert/strict';
import { freePorts } from '../../../scripts/services/ports.ts';
import { installPacked } from '../../support/packed.ts';
import { endOf } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const { version, otel, isMatrix } = await subject();

const main = `
  export function order(id: number) { return { id }; }
  order(1);
  setTimeout(() => process.exit(), 1_000);`;

/** Arguments of Node -> the file that is captured; what only compiles has none. */
const commands: Readonly<Record<string, { args: readonly string[]; module?: string }>> = {
  'nest start': { args: ['node_modules/@nestjs/cli/bin/nest.js', 'start'], module: './dist/main.js' },
  'nest start --watch': {
    args: ['node_modules/@nestjs/cli/bin/nest.js', 'start', '--watch'],
    module: './dist/main.js',
  },
  'nest build': { args: ['node_modules/@nestjs/cli/bin/nest.js', 'build'] },
  'tsx src/main.ts': { args: ['node_modules/tsx/dist/cli.mjs', 'src/main.ts'], module: './src/main.ts' },
  tsc: { args: ['node_modules/typescript/bin/tsc'] },
  'node --watch': { args: ['--watch', 'src/main.ts'], module: './src/main.ts' },
};

// Once in the matrix: they are the same on each Node, and hide which one it is.
const suite = isMatrix && version.startsWith('26.') && otel === 3 ? describe : () => {};

suite('NODE_OPTIONS reaches what starts the application, and svc runs in the application alone', function () {
  this.timeout(300_000);
  for (const [name, { args, module }] of Object.entries(commands))
    it(name, async () => {
      const app = installPacked('launchers', {
        '@nestjs/cli': '12.0.8',
        '@opentelemetry/api': '1.10.0',
        tsx: '4.23.15',
        typescript: '5.9.3',
      });
      const [port] = await freePorts(1);
      const { stderr, stdout, topics } = await endOf({
        app,
        files: {
          'package.json': { name: 'shop', type: 'module' },
          'nest-cli.json': { sourceRoot: 'src' },
          'tsconfig.json': {
            compilerOptions: { module: 'nodenext', rootDir: 'src', outDir: 'dist', types: [] },
            files: ['src/main.ts'],
          },
          'src/main.ts': `declare const process: any, setTimeout: any;${main}`,
          'svc.config.json': configOf(
            module === undefined ? [] : [{ module, function: 'order', eventType: 'ORDERED' }],
          ),
        },
        args: args.map((each) => each.replace(/^node_modules/, `${app}/node_modules`)),
        env: { NODE_OPTIONS: '--import svc/register', MANAGEMENT_SERVER_PORT: String(port) },
        timeoutMs: /watch/.test(name) ? 20_000 : 60_000,
      });
      const started = [...(stdout + stderr).matchAll(/svc: configuration/g)];
      assert.equal(started.length, module === undefined ? 0 : 1, stdout + stderr);
      assert.equal(/svc: management on \S+:(\d+)/.exec(stderr)?.[1], module && String(port), stderr);
      assert.doesNotMatch(stderr, /svc: (?:warn|error)/);
      assert.equal(topics.events?.length, module && 1);
    });
});
