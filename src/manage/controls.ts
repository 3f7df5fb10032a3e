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
  /** Worker id in event ids, and how it was come by: `configured`, `kafka`, `host` or `derived`. */
  readonly worker?: { readonly id: number; readonly source: string };
  /** Keys of marked fields; absent where nothing is encrypted. */
  readonly keys?: readonly KeyHealth[];
  /** Present where the broker is being asked and has not answered yet: how old the answer is that this is from. */
  readonly ageMs?: number;
  /** One line, present when DOWN. */
  readonly error?: string;
}

/** A key that configured rules or marks need. DOWN: events with such fields are refused. */
export interface KeyHealth {
  /** `configuration`, `aws-kms`, `vault-transit`, … */
  readonly provider: string;
  /** The name that rules use. */
  readonly keyId: string;
  readonly status: 'UP' | 'DOWN';
  /** One line: why it is DOWN; of one that is UP, why it cannot be replaced at the moment. */
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
 * - `health` never rejects and answers within a second whatever the broker does.
 * - `metricsText` and `info` are synchronous and cheap.
 * - Nothing here ever holds payload values.
 */
export interface Controls {
  health(): Promise<Health>;
  /** The Prometheus text format. */
  metricsText(): string;
  info(): Info;
}
