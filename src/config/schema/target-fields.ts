import { severities } from '../../ground/event-fields.ts';
import type { FormatName } from './format.ts';

export interface TargetField {
  readonly name: string;
  readonly type: 'string' | 'enum' | 'integer' | 'boolean' | 'list' | 'rules' | 'headers';
  readonly required?: true;
  readonly orFunction?: true;
  readonly values?: readonly string[];
  readonly min?: number;
  readonly max?: number;
  readonly default?: string | number | boolean;
  readonly format?: FormatName;
  readonly description: string;
  /** Any value but false is refused, and why. */
  readonly refused?: string;
}

/** The fields of one entry of `svc.targets`: validation, documentation and JSON Schema read this list. */
export const targetFields: readonly TargetField[] = [
  {
    name: 'module',
    type: 'string',
    required: true,
    format: 'text',
    description:
      'A path relative to the configuration file (`./src/orders.ts`), a package name, or a `#import`.',
  },
  {
    name: 'function',
    type: 'string',
    required: true,
    format: 'text',
    description:
      'Which function: `createOrder`, `default`, `OrderService.prototype.create`, `OrderService.create`, `repo.save`, `createRepository().insert`.',
  },
  {
    name: 'eventType',
    type: 'string',
    format: 'text',
    description:
      'Event type in the envelope. Default: the path of the function, as in `OrderService.create`.',
  },
  {
    name: 'severity',
    type: 'enum',
    values: severities,
    default: 'INFO',
    description: 'Severity in the envelope.',
  },
  { name: 'topic', type: 'string', format: 'topic', description: 'Topic instead of `svc.broker.topic`.' },
  {
    name: 'payload',
    type: 'string',
    orFunction: true,
    format: 'text',
    description:
      'Expression for the payload, such as `#result` or `#args[0].email`. Default: what the function returns.',
  },
  {
    name: 'payloadIndex',
    type: 'integer',
    min: -1,
    max: 254,
    default: -1,
    description: 'Payload by position instead: 0 is the first argument, -1 the returned value.',
  },
  {
    name: 'when',
    type: 'string',
    orFunction: true,
    format: 'text',
    description:
      'Expression for which calls make an event, such as `#result != null`. The others are counted as skipped. Default: all.',
  },
  {
    name: 'key',
    type: 'string',
    orFunction: true,
    format: 'text',
    description: 'Expression for the record key. Default: the event id.',
  },
  {
    name: 'headers',
    type: 'headers',
    description:
      'Headers of the record beside those of svc, each an expression: `{ tenant: "#args[0].tenant" }`. They go out in clear. A value of null is left out.',
  },
  {
    name: 'phase',
    type: 'enum',
    values: ['BEFORE', 'AFTER_RETURNING', 'AFTER'],
    default: 'AFTER_RETURNING',
    description: 'When the event is made: before the call, after it succeeded, or after it ended either way.',
  },
  {
    name: 'callback',
    type: 'enum',
    values: ['last'],
    description:
      'The function ends with a call of its last argument, the error first, as `charge(x, (error, receipt) => …)`: the event is made then, and `#result` is what follows the error. Default: it ends when it returns or its promise settles.',
  },
  {
    name: 'failOnError',
    type: 'boolean',
    default: false,
    description: 'Lets the call fail when its event cannot be published.',
  },
  {
    name: 'params',
    type: 'list',
    format: 'text',
    description:
      'Names of the parameters for expressions, where the source does not tell (minified code, packages).',
  },
  {
    name: 'pii',
    type: 'rules',
    description:
      'Rules for the payload of this event type, as in `svc.pii.fields`, before which they go; or `{ type: EMAIL, strategy: MASK }` for the whole payload, as with `payload: "#newEmail"`.',
  },
  {
    name: 'outbox',
    type: 'string',
    description: 'Transactional outbox. Comes with a later version; until then the target is refused.',
    refused: 'the transactional outbox is not yet available in this version',
  },
];
