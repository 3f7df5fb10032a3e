/** What a piece of personal data is; it decides what a mask leaves to be seen. */
export const piiTypes = [
  'NAME',
  'EMAIL',
  'PHONE',
  'ADDRESS',
  'CARD',
  'NATIONAL_ID',
  'ACCOUNT',
  'IP',
  'CUSTOM',
] as const;
export type PiiType = (typeof piiTypes)[number];

export const piiStrategies = ['MASK', 'ENCRYPT', 'HASH', 'EXCLUDE'] as const;
export type PiiStrategy = (typeof piiStrategies)[number];

export const piiLevels = ['WEAK', 'NORMAL', 'STRONG'] as const;
export type PiiLevel = (typeof piiLevels)[number];

/** What happens to one marked value. */
export interface FieldRule {
  readonly type: PiiType;
  readonly strategy: PiiStrategy;
  /** Of a mask: how much it hides. */
  readonly level: PiiLevel;
  /** Of ENCRYPT: which key; `undefined` is the default key. */
  readonly keyId?: string | undefined;
  /** Of MASK: the name of a registered masker, instead of the one of the type. */
  readonly masker?: string | undefined;
}

/** A rule for the values at a path (`rule-path.ts`); the empty path is the payload itself. */
export interface PathRule extends FieldRule {
  readonly path: string;
}

/** What rules can say about one value; the rest has defaults: the type that the name suggests, MASK, NORMAL. */
export type RuleParts = Partial<FieldRule>;

/**
 * Rules as they are written in code: paths (`customer.email`, `**.ssn=NATIONAL_ID:HASH`), objects with a path, or an object of
 * paths. A rule without a path, or a type alone, means the payload as a whole.
 */
export type PiiRules =
  | PiiType
  | RuleParts
  | readonly (string | (RuleParts & { readonly path: string }))[]
  | { readonly [path: string]: PiiType | RuleParts };

const names: readonly (readonly [RegExp, PiiType])[] = [
  [/^ip|ip$|ipaddr/, 'IP'],
  [/mail/, 'EMAIL'],
  [/phone|mobile|^tel|fax/, 'PHONE'],
  [/card|^pan$/, 'CARD'],
  [/iban|account/, 'ACCOUNT'],
  [/ssn|nationalid|passport|taxid|socialsecurity/, 'NATIONAL_ID'],
  [/address|street/, 'ADDRESS'],
  [/name$/, 'NAME'],
];

/** The type that a field of this name most likely has, where a mark does not say: `workEmail` is EMAIL. */
export function typeOfName(field: string): PiiType {
  const bare = field.toLowerCase().replace(/[^a-z]/g, '');
  return names.find(([pattern]) => pattern.test(bare))?.[1] ?? 'CUSTOM';
}
