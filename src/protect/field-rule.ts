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
  /** Of MASK with type CUSTOM: which registered masker. */
  readonly masker?: string | undefined;
}
