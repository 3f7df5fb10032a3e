import type { PathRule } from '../../../ground/pii-rule.ts';
import { variableOf } from '../../schema/option.ts';
import type { TargetConfig } from '../../schema/target.ts';
import type { CheckInput, CheckResult } from '../check-input.ts';
import type { Names } from '../names.ts';
import { type EncryptionKeyConfig, wrongKey } from '../pii-keys.ts';
import type { Problem } from '../problem.ts';

type Rule = Pick<PathRule, 'strategy' | 'keyId'>;

const crypto = 'svc.pii.crypto';
const kms = 'svc.pii.kms';

/** What rules for personal data ask of keys and salt. Whatever cannot be protected later is refused here. */
export function checkPii(input: CheckInput, targets: readonly TargetConfig[]): CheckResult {
  const { values, settings } = input;
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const given = [...settings.keys()].filter((name) => name.startsWith('svc.pii.'));
  const add = (name: string, message: string, fix?: string) =>
    problems.push({ name, message, where: settings.get(name)?.where(), fix });

  if (values.get('svc.pii.enabled') === false) {
    const unused = given.filter((name) => name !== 'svc.pii.enabled');
    for (const name of unused) {
      const message = 'has no effect while svc.pii.enabled is false: personal data is published as it is';
      warnings.push({ name, message, where: settings.get(name)?.where() });
    }
    return { problems, warnings };
  }

  const rules: readonly Rule[] = [
    ...input.rules,
    ...(values.get('svc.pii.fields') as readonly PathRule[]),
    ...targets.flatMap(({ pii = [] }) => pii),
  ];
  const key = values.get(`${crypto}.default-key`) as string | undefined;
  const wrong = key === undefined ? undefined : wrongKey(key);
  if (wrong !== undefined) add(`${crypto}.default-key`, wrong, 'Make one with openssl rand -base64 32');
  if (values.get(`${kms}.enabled`) === true) problems.push(...checkService(input, rules));
  else if (!input.invalid.has(`${crypto}.keys`) && !input.invalid.has(`${crypto}.default-key`))
    problems.push(...checkConfigured(input, rules, key));

  const hashes = rules.some(({ strategy }) => strategy === 'HASH');
  const mustSalt = values.get(`${crypto}.require-salt`) ?? input.env.NODE_ENV === 'production';
  if (hashes && mustSalt === true && !settings.has(`${crypto}.salt`)) {
    const why = settings.has(`${crypto}.require-salt`) ? 'require-salt is set' : 'NODE_ENV is production';
    add(
      `${crypto}.salt`,
      `is required to hash: ${why}`,
      `Set ${variableOf(`${crypto}.salt`)} or PII_HASH_SALT`,
    );
  }
  return { problems, warnings };
}

function checkConfigured(
  { values, settings }: CheckInput,
  rules: readonly Rule[],
  defaultKey: string | undefined,
): Problem[] {
  const problems: Problem[] = [];
  const keys = (values.get(`${crypto}.keys`) ?? []) as readonly EncryptionKeyConfig[];
  const encrypting = rules.filter(({ strategy }) => strategy === 'ENCRYPT');
  const hasDefault =
    defaultKey !== undefined || keys.length === 1 || keys.some(({ status }) => status === 'primary');
  const where = settings.get(`${crypto}.keys`)?.where();
  if (defaultKey !== undefined && keys.some(({ id }) => id === 'default')) {
    const message = 'has the id "default", which is that of svc.pii.crypto.default-key';
    problems.push({ name: `${crypto}.keys`, message, where, fix: 'Give one of them up' });
  }
  if (!hasDefault && encrypting.some(({ keyId }) => keyId === undefined)) {
    const message = 'PII encryption key is not configured';
    const fix = 'Set PII_ENCRYPTION_KEY to Base64 of 32 random bytes (openssl rand -base64 32)';
    problems.push({ name: `${crypto}.default-key`, message, where, fix });
  }
  const usable = keys.filter(({ status }) => status !== 'decrypt').map(({ id }) => id);
  if (defaultKey !== undefined) usable.push('default');
  for (const id of new Set(encrypting.map(({ keyId }) => keyId))) {
    if (id === undefined || usable.includes(id)) continue;
    const message = `has no key with the id "${id}" to encrypt with, which a rule names`;
    problems.push({
      name: `${crypto}.keys`,
      message,
      where,
      fix: 'Add it, or correct the keyId of the rule',
    });
  }
  return problems;
}

function checkService({ values, settings }: CheckInput, rules: readonly Rule[]): Problem[] {
  const problems: Problem[] = [];
  const require = (name: string, message: string) => {
    if (settings.has(name)) return;
    problems.push({ name, message, where: settings.get(`${kms}.enabled`)?.where(), fix: `Set ${name}` });
  };
  require(`${kms}.type`, 'is required when svc.pii.kms.enabled is true: aws or vault');
  for (const name of [`${crypto}.default-key`, `${crypto}.keys`]) {
    if (!settings.has(name)) continue;
    const message =
      'is given although svc.pii.kms.enabled is true: which of them encrypts must not be a guess';
    problems.push({ name, message, where: settings.get(name)?.where(), fix: 'Remove one of them' });
  }
  const type = values.get(`${kms}.type`);
  const names = (values.get(`${kms}.keys`) ?? {}) as Names;
  const usesDefault = rules.some(({ strategy, keyId }) => strategy === 'ENCRYPT' && keyId === undefined);
  if (usesDefault && !Object.hasOwn(names, 'default')) {
    const message = 'PII encryption key is not configured: it is that of rules without keyId';
    if (type === 'aws') require(`${kms}.aws.default-key-arn`, message);
    if (type === 'vault') require(`${kms}.vault.default-key-path`, message);
  }
  if (type === 'vault') {
    const [token, file] = [`${kms}.vault.token`, `${kms}.vault.token-file`];
    if (settings.has(token) && settings.has(file)) {
      const message = 'is given beside svc.pii.kms.vault.token';
      problems.push({ name: file, message, where: settings.get(file)?.where(), fix: 'Keep one of them' });
    } else if (!settings.has(file)) require(token, 'is required for Vault (or token-file)');
  }
  return problems;
}
