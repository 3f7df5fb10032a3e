/** Configuration files of the cases, as objects: `svc.config.json`. */
export interface CaseTarget {
  readonly module: string;
  readonly function: string;
  readonly [field: string]: unknown;
}

/** `svc.config.json` with the topic `events`; `rest` is merged into `svc`, `broker` of it into `svc.broker`. */
export function configOf(targets: readonly CaseTarget[], rest: Record<string, unknown> = {}): object {
  const { broker, ...others } = rest as { broker?: object };
  return { svc: { broker: { topic: 'events', ...broker }, ...others, targets } };
}
