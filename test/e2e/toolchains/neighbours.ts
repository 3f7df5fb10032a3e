/** Others that take part in loading modules or in wrapping functions, and that svc has to live with. */
export interface Neighbour {
  readonly id: string;
  readonly title: string;
}

export interface OtelWay extends Neighbour {
  /** What stands before the entry file, without svc and with it. */
  readonly bare: readonly string[];
  readonly captured: readonly string[];
  /** `npm test` runs it too; the others are for the matrix. */
  readonly isEveryday?: boolean;
  /** Only for CommonJS. */
  readonly isRequired?: boolean;
}

const otel = '@opentelemetry/auto-instrumentations-node/register';
const auto = ['--import', otel];
const loader = ['--experimental-loader=@opentelemetry/instrumentation/hook.mjs'];
const svc = ['--import', 'svc/register'];
const name = 'OpenTelemetry auto-instrumentations';

/** All forms of ES modules, CommonJS and packages are run each of these ways, on both lines of OpenTelemetry. */
export const otelWays: readonly OtelWay[] = [
  {
    id: 'otel-first',
    title: `${name}, before svc`,
    bare: auto,
    captured: [...auto, ...svc],
    isEveryday: true,
  },
  { id: 'otel-last', title: `${name}, after svc`, bare: auto, captured: [...svc, ...auto] },
  {
    id: 'otel-loader-first',
    title: `${name} and OpenTelemetry's loader (\`--experimental-loader\`), before svc`,
    bare: [...loader, ...auto],
    captured: [...loader, ...auto, ...svc],
  },
  {
    id: 'otel-loader-last',
    title: `${name} and OpenTelemetry's loader, after svc`,
    bare: [...loader, ...auto],
    captured: [...loader, ...svc, ...auto],
  },
  {
    id: 'otel-required',
    title: `${name}, both with \`--require\`, in CommonJS`,
    bare: ['--require', otel],
    captured: ['--require', otel, '--require', 'svc/register'],
    isRequired: true,
  },
];

export const nest: Neighbour = {
  id: 'nest',
  title: 'NestJS: routes, guards, pipes, dependency injection and metadata go on working',
};

export const neighbours: readonly Neighbour[] = [...otelWays, nest];
