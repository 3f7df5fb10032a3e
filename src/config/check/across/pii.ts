import type { PathRule } from '../../../ground/pii-rule.ts';
import { variableOf } from '../../schema/option.ts';
import type { TargetConfig } from '../../schema/target.ts';
import type { Names } from '../names.ts';
import { type EncryptionKeyConfig, wrongKey } from '../pii-keys.ts';
import type { Findings } from './findings.ts';

type Rule = Pick<PathRule, 'strategy' | 'keyId'>;

const crypto = 'svc.pii.crypto';
const kms = 'svc.pii.kms';

/** What rules for personal data ask of keys and salt. Whatever cannot be protected later is refused here. */
export function checkPii(findings: Findings, targets: readonly TargetConfig[]): void {
  const { values, settings, invalid, isGiven, add } = findings;
  if (values.get('svc.pii.enabled') === false) {
    const message = 'has no effect while svc.pii.enabled is false: personal data is published as it is';
    for (const name of settings.keys())
      if (name.startsWith('svc.pii.') && name !== 'svc.pii.enabled') findings.warn(name, message);
    return;
  }

  const rules: readonly Rule[] = [
    ...findings.rules,
    ...(values.get('svc.pii.fields') as readonly PathRule[]),
    ...targets.flatMap(({ pii = [] }) => pii),
  ];
  const key = values.get(`${crypto}.default-key`) as string | undefined;
  const wrong = key === undefined ? undefined : wrongKey(key);
  if (wrong !== undefined) add(`${crypto}.default-key`, wrong, 'Make one with openssl rand -base64 32');
  if (values.get(`${kms}.enabled`) === true) checkService(findings, rules);
  else if (!invalid.has(`${crypto}.keys`) && !invalid.has(`${crypto}.default-key`))
    checkConfigured(findings, rules, key);

  const hashes = rules.some(({ strategy }) => strategy === 'HASH');
  const mustSalt = values.get(`${crypto}.require-salt`) ?? findings.env.NODE_ENV === 'production';
  if (hashes && mustSalt === true && !isGiven(`${crypto}.salt`)) {
    const why = isGiven(`${crypto}.require-salt`) ? 'require-salt is set' : 'NODE_ENV is production';
    add(
      `${crypto}.salt`,
      `is required to hash: ${why}`,
      `Set ${variableOf(`${crypto}.salt`)} or PII_HASH_SALT`,
    );
  }
}

function checkConfigured(
  { values, add }: Findings,
  rules: readonly Rule[],
  defaultKey: string | undefined,
): void {
  const keys = (values.get(`${crypto}.keys`) ?? []) as readonly EncryptionKeyConfig[];
  const encrypting = rules.filter(({ strategy }) => strategy === 'ENCRYPT');
  const hasDefault =
    defaultKey !== undefined || keys.length === 1 || keys.some(({ status }) => status === 'primary');
  if (defaultKey !== undefined && keys.some(({ id }) => id === 'default')) {
    const message = 'has the id "default", which is that of svc.pii.crypto.default-key';
    add(`${crypto}.keys`, message, 'Give one of them up');
  }
  if (!hasDefault && encrypting.some(({ keyId }) => keyId === undefined)) {
    const message = 'PII encryption key is not configured';
    const fix = 'Set PII_ENCRYPTION_KEY to Base64 of 32 random bytes (openssl rand -base64 32)';
    add(`${crypto}.default-key`, message, fix, `${crypto}.keys`);
  }
  const usable = keys.filter(({ status }) => status !== 'decrypt').map(({ id }) => id);
  if (defaultKey !== undefined) usable.push('default');
  for (const id of new Set(encrypting.map(({ keyId }) => keyId))) {
    if (id === undefined || usable.includes(id)) continue;
    const message = `has no key with the id "${id}" to encrypt with, which a rule names`;
    add(`${crypto}.keys`, message, 'Add it, or correct the keyId of the rule');
  }
}

function checkService({ values, isGiven, add }: Findings, rules: readonly Rule[]): void {
  const require = (name: string, message: string) => {
    if (!isGiven(name)) add(name, message, `Set ${name}`, `${kms}.enabled`);
  };
  require(`${kms}.type`, 'is required when svc.pii.kms.enabled is true: aws or vault');
  for (const name of [`${crypto}.default-key`, `${crypto}.keys`]) {
    const message =
      'is given although svc.pii.kms.enabled is true: which of them encrypts must not be a guess';
    if (isGiven(name)) add(name, message, 'Remove one of them');
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
    if (!isGiven(file)) require(token, 'is required for Vault (or token-file)');
    else if (isGiven(token)) add(file, `is given beside ${token}`, 'Keep one of them');
  }
}
