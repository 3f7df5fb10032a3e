export type { FieldRule, PathRule, PiiLevel, PiiStrategy, PiiType } from '../field-rule.ts';
export { piiLevels, piiStrategies, piiTypes } from '../field-rule.ts';
