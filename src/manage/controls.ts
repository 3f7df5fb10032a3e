/** State of the connection to the broker, as `GET /actuator/health/svc` shows it. What is not known is `null`. */
export interface Health {
  readonly status: 'UP' | 'DOWN';
  readonly details: HealthDetails;
}

export interface HealthDetails {
  readonly brokerProducerInitialized: boolean;
  readonly clusterId: string | null;
  readonly nodeCount: number | null;
  /** Default topic and dead letter topic as configured. */
  readonly topic: string | null;
  readonly dlqTopic: string | null;
  /** One line, present when DOWN. */
  readonly error?: string;
}

/** What `GET /actuator/info` shows. */
export interface Info {
  readonly service: { readonly name: string | null; readonly version: string | null };
  readonly svc: { readonly version: string };
}

/**
 * PORT: all that the management server may see of svc. `start.ts` implements it.
 *
 * - `health` never rejects and answers within a few seconds whatever the broker does.
 * - `metricsText` and `info` are synchronous and cheap.
 * - Nothing here ever holds payload values.
 */
export interface Controls {
  health(): Promise<Health>;
  /** The Prometheus text format. */
  metricsText(): string;
  info(): Info;
}
