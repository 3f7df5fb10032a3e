import { who } from '../failure-lines.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';

/** Lines for an operator about a group that gives no worker ids. */
export interface GroupRefusals {
  readonly byError: Readonly<Record<string, string>>;
  readonly noneFree: string;
  /** The leader gave something else than a worker id. */
  wrong(given: string): string;
  notYet(reason: string): string;
}

const meanwhile = 'until then event ids carry a worker id of this host, which other hosts may use too';
const setting = 'svc.id-generator.group';

export function groupRefusals(group: string, options: KafkaClientOptions): GroupRefusals {
  const name = JSON.stringify(group);
  const line = (problem: string, fix: string): string =>
    `no worker id from Kafka: ${problem}: ${fix}; ${meanwhile}`;
  const another = line(`the group ${name} belongs to others`, `name another one in ${setting}`);
  return {
    byError: {
      GROUP_AUTHORIZATION_FAILED: line(
        `${who(options)} may not use the group ${name}`,
        'give it the Read permission on this group, or set svc.id-generator.lease to host',
      ),
      INCONSISTENT_GROUP_PROTOCOL: another,
      INVALID_GROUP_ID: line(`Kafka refuses the name of the group ${name}`, `set ${setting}`),
      GROUP_MAX_SIZE_REACHED: line(
        `the group ${name} has as many members as the brokers allow`,
        'raise group.max.size there',
      ),
      INVALID_SESSION_TIMEOUT: line(
        'the brokers do not allow sessions of 10 s',
        'set group.min.session.timeout.ms and group.max.session.timeout.ms around that',
      ),
      UNSUPPORTED_VERSION: line(
        'these brokers do not speak the group protocol',
        'set svc.id-generator.lease to host',
      ),
    },
    noneFree: `all 1,024 worker ids of the group ${name} are taken: let services that nobody reads together have groups of their own (${setting}), or set svc.id-generator.type to uuidv7; ${meanwhile}`,
    wrong: (given) =>
      line(
        `the leader of the group ${name} gave this process ${given}, which is no worker id`,
        'see who else is a member of it, and let only processes of svc read it',
      ),
    notYet: (reason) => `no worker id from Kafka yet (${reason}); ${meanwhile}`,
  };
}

export function refusalOf(errorName: string | undefined, { byError }: GroupRefusals): string | undefined {
  return errorName === undefined ? undefined : byError[errorName];
}
