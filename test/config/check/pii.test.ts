import assert from 'node:assert/strict';
import { loadConfig } from '../../../src/config/read/load.ts';
import { folderWith, lines, loadCode, loadYaml, removeFolders } from '../config-folder.ts';

const key = Buffer.alloc(32, 1).toString('base64');
const target = { module: './orders.ts', function: 'create' };
const rule = (path: string, parts: object) => ({
  path,
  type: 'CUSTOM',
  strategy: 'MASK',
  level: 'NORMAL',
  keyId: undefined,
  masker: undefined,
  ...parts,
});
const problemsOf = (pii: object, env: Record<string, string> = {}) => {
  const code = { 'svc.broker.topic': 'orders', svc: { pii } };
  return lines(loadConfig({ cwd: folderWith(), env, code }).problems);
};

describe('svc.pii', () => {
  afterEach(removeFolders);

  it('takes rules in each of their forms', () => {
    const expected = [
      rule('customer.email', { type: 'EMAIL' }),
      rule('**.ssn', { type: 'NATIONAL_ID', strategy: 'HASH' }),
      rule('items[*].x', { type: 'PHONE', strategy: 'ENCRYPT', level: 'STRONG', keyId: 'k1' }),
    ];
    const crypto = { keys: [{ id: 'k1', key }], salt: '0123456789abcdef' };
    const last = { type: 'phone', strategy: 'Encrypt', level: 'STRONG', 'key-id': 'k1' };
    const forms = [
      ['customer.email', '**.ssn=NATIONAL_ID:HASH', { path: 'items[*].x', ...last }],
      { 'customer.email': null, '**.ssn': 'NATIONAL_ID:HASH', 'items[*].x': last },
      ['customer.email', { '**.ssn': { strategy: 'HASH' } }, { path: 'items[*].x', ...last }],
      JSON.stringify(['customer.email', '**.ssn=:HASH', { path: 'items[*].x', ...last }]),
    ];
    for (const fields of forms) {
      const { config, problems } = loadCode({ pii: { fields, crypto } });
      assert.deepEqual([config.pii.fields, lines(problems)], [expected, []]);
    }
  });

  it('takes rules from YAML and from the environment', () => {
    const yaml =
      'svc:\n  broker: { topic: a }\n  pii:\n    fields:\n      - customer.email: EMAIL\n      - { path: "**.iban" }\n';
    const fromFile = loadYaml(yaml).config.pii.fields;
    assert.deepEqual(fromFile, [
      rule('customer.email', { type: 'EMAIL' }),
      rule('**.iban', { type: 'ACCOUNT' }),
    ]);
    const env = { SVC_PII_FIELDS: 'a.email, **.b=NAME:HASH:WEAK', SVC_BROKER_TOPIC: 'a' };
    const { config, problems } = loadConfig({ cwd: folderWith(), env });
    assert.deepEqual(config.pii.fields, [
      rule('a.email', { type: 'EMAIL' }),
      rule('**.b', { type: 'NAME', strategy: 'HASH', level: 'WEAK' }),
    ]);
    assert.deepEqual(problems, []);
  });

  it('takes rules of a target for its payload as a whole', () => {
    for (const pii of [{ type: 'EMAIL' }, 'EMAIL', 'email:mask']) {
      const { config, targetProblems } = loadCode({ targets: [{ ...target, pii }] });
      assert.deepEqual([config.targets[0]?.pii, targetProblems], [[rule('', { type: 'EMAIL' })], []]);
    }
    const { config } = loadCode({
      targets: [
        { ...target, pii: false },
        { ...target, function: 'b', pii: ['a'] },
      ],
    });
    assert.deepEqual(
      config.targets.map(({ pii }) => pii),
      [[], [rule('a', {})]],
    );
  });

  for (const [fields, problem] of [
    [7, 'must be a list of rules, got 7 (number)'],
    [[7], 'must hold paths, or objects with path, got 7 (number)'],
    [
      ['a..b'],
      'has a path that must be a path such as customer.email, items[*].phone or **.ssn, got a string',
    ],
    [
      ['a[0]'],
      'has a path that names an element by its number: write a[*], or a["0"] for the key of an object',
    ],
    [
      ['items.0.phone'],
      'has a path that names an element by its number: write items[*].phone, or items["0"].phone for the key of an object',
    ],
    [
      ['0.1'],
      'has a path that names an element by its number: write [*][*], or ["0"]["1"] for the key of an object',
    ],
    [
      ['#result.email'],
      'has a path that must be a path such as customer.email, items[*].phone or **.ssn, got a string',
    ],
    [
      ['/customer/email'],
      'has a path that must be a path such as customer.email, items[*].phone or **.ssn, got a string',
    ],
    [['$'], 'has a path that must be a path such as customer.email, items[*].phone or **.ssn, got a string'],
    [
      ['a=FOO'],
      'has a rule whose type is not one of NAME, EMAIL, PHONE, ADDRESS, CARD, NATIONAL_ID, ACCOUNT, IP, CUSTOM, got a string',
    ],
    [[{ path: 'a', stratgy: 'HASH' }], 'has a rule with the unknown field stratgy'],
    [
      [{ path: 'a', strategy: 'HASHED' }],
      'has a rule whose strategy is not one of MASK, ENCRYPT, HASH, EXCLUDE, got a string',
    ],
    [[{ path: 'a', keyId: '../x' }], 'has a rule with an Invalid key id'],
    [[{ path: 7 }], 'must hold paths that are strings, got 7 (number)'],
    ['[{', 'is not valid JSON'],
    [{ a: 7 }, 'gives path 1 neither a type nor a rule, got 7 (number)'],
    [[`${'a.'.repeat(32)}a`], 'has a path that must be a path of at most 32 steps'],
    [['a'.repeat(513)], 'has a path that must be a path of at most 512 characters'],
  ] as const) {
    it(`refuses fields ${JSON.stringify(fields).slice(0, 40)}`, () => {
      const [line = '', ...more] = problemsOf({ fields });
      const item = Array.isArray(fields) ? '[0]' : '';
      assert.equal(line.startsWith(`svc.pii.fields${item}: ${problem}`), true, line);
      assert.deepEqual(more, []);
    });
  }

  for (const [type, suggested] of [
    ['IBAN', 'ACCOUNT'],
    ['mail', 'EMAIL'],
    ['telephone', 'PHONE'],
    ['passport', 'NATIONAL_ID'],
    ['CREDIT_CARD', 'CARD'],
    ['ACOUNT', 'ACCOUNT'],
  ])
    it(`a rule of type ${type} suggests ${suggested}`, () => {
      for (const fields of [[`a=${type}:HASH`], [{ path: 'a', type }]])
        assert.match(problemsOf({ fields })[0] ?? '', new RegExp(`Did you mean ${suggested}\\?$`));
    });

  it('says everything that is wrong with a list of rules at once, each with its line', () => {
    const yaml = [
      'svc:',
      '  broker: { topic: a }',
      '  pii:',
      '    fields:',
      '      - customer.email',
      '      - a..b',
      '      - { path: c, type: EMAIL, strategy: HASHED, level: STRNG, key-id: "../x" }',
      '      - { d..e: 7, f: FOO }',
      '      - 7',
    ];
    const said = lines(loadYaml(yaml.join('\n')).problems);
    const places = said.map((line) => /^(.*?): .*\((svc\.config\.yaml:\d+)\)/.exec(line)?.slice(1).join(' '));
    const place = (index: number, line: number) => `svc.pii.fields[${index}] svc.config.yaml:${line}`;
    assert.deepEqual(places, [
      place(1, 6),
      ...[7, 7, 7].map((line) => place(2, line)),
      ...[8, 8, 8].map((line) => place(3, line)),
      place(4, 9),
    ]);
    assert.match(said.join('\n'), /Invalid key id.*\n.*strategy is not one of.*\n.*level is not one of/);
    const { targetProblems } = loadCode({ targets: [{ ...target, pii: ['a..b', 'c=FOO'] }] });
    assert.deepEqual(
      targetProblems[0]?.problems.map(({ name }) => name),
      ['svc.targets[0].pii[0]', 'svc.targets[0].pii[1]'],
    );
  });

  it('says everything that is wrong with keys, names and other lists at once', () => {
    const keys = [{ id: 'a b', key }, { id: 'b', key: 'AAAA' }, { id: 'c' }];
    const said = problemsOf({ crypto: { keys }, kms: { keys: { a: 7, b: [], c: 'd' } } });
    const found = /item 1 has an Invalid key id.*\n.*item 2 must be exactly 32.*\n.*item 3 must have a key/;
    assert.match(said.join('\n'), found);
    assert.equal(said.filter((line) => line.startsWith('svc.pii.kms.keys: says of')).length, 2);
    assert.equal(said.join().includes('AAAA'), false);
    const env = { SVC_BROKER_TOPIC: 'a', SVC_PII_FIELDS: 'a..b,c=FOO,d' };
    assert.equal(loadConfig({ cwd: folderWith(), env }).problems.length, 2);
  });

  it('refuses to start where ENCRYPT has no key', () => {
    const line =
      'svc.pii.crypto.default-key: PII encryption key is not configured. Set PII_ENCRYPTION_KEY to Base64 of 32 random bytes (openssl rand -base64 32).';
    assert.deepEqual(problemsOf({ fields: ['a=EMAIL:ENCRYPT'] }), [line]);
    assert.deepEqual(lines(loadCode({ targets: [{ ...target, pii: ['a=:ENCRYPT'] }] }).problems), [line]);
    assert.deepEqual(problemsOf({ fields: ['a=EMAIL:ENCRYPT'] }, { PII_ENCRYPTION_KEY: key }), []);
    assert.deepEqual(problemsOf({ fields: ['a=EMAIL:ENCRYPT'], enabled: false }), []);
  });

  it('refuses a key of another length, and says which it found', () => {
    const found = (defaultKey: string) =>
      problemsOf({ crypto: { defaultKey } }).map((line) => /found \d+, read as \w+ \(\w+\)/.exec(line)?.[0]);
    const of = (bytes: number) => Buffer.alloc(bytes, 200).toString('base64');
    assert.deepEqual(found(of(31)), ['found 31, read as Base64 (IllegalArgumentException)']);
    assert.deepEqual(found(of(33)), ['found 33, read as Base64 (IllegalArgumentException)']);
    assert.deepEqual(found(of(16)), ['found 16, read as Base64 (IllegalArgumentException)']);
    assert.deepEqual(found('not base64!!'), ['found 12, read as characters (IllegalArgumentException)']);
    assert.deepEqual(found(of(32)), []);
    assert.deepEqual(found('0123456789abcdef0123456789abcdef'), [], '32 characters are 32 bytes');
    assert.deepEqual(found(`${of(32)}\n`), ['found 45, read as characters (IllegalArgumentException)']);
  });

  it('checks the keys for rotation', () => {
    const keys = (...list: object[]) => problemsOf({ fields: ['a=:ENCRYPT'], crypto: { keys: list } });
    assert.deepEqual(keys({ id: 'a', key, status: 'primary' }, { id: 'b', key, status: 'decrypt' }), []);
    const bad: readonly (readonly [object[], RegExp])[] = [
      [
        [
          { id: 'a', key, status: 'primary' },
          { id: 'b', key, status: 'primary' },
        ],
        /more than one primary/,
      ],
      [
        [
          { id: 'a', key },
          { id: 'a', key },
        ],
        /item 2 has an id that is in the list twice/,
      ],
      [[{ id: 'a b', key }], /Invalid key id/],
      [
        [{ id: 'a', key: 'AAAA' }],
        /item 1 must be exactly 32 bytes, written in Base64; found 3, read as Base64 /,
      ],
      [[{ id: 'a', key, status: 'old' }], /status primary or decrypt/],
      [[{ id: 'a', key, value: 1 }], /unknown field \?/],
      [Array.from({ length: 9 }, (_, index) => ({ id: `k${index}`, key })), /at most 8 keys/],
      [
        [
          { id: 'a', key, status: 'decrypt' },
          { id: 'b', key, status: 'decrypt' },
        ],
        /PII encryption key is not configured/,
      ],
    ];
    for (const [list, problem] of bad) assert.match(keys(...list).join('\n'), problem);
    const both = { defaultKey: key, keys: [{ id: 'default', key }] };
    assert.match(problemsOf({ crypto: both }).join(), /which svc.pii.crypto.default-key also has/);
  });

  it('refuses a rule whose key nobody has, or that encrypts no more', () => {
    const keys = [
      { id: 'new', key, status: 'primary' },
      { id: 'old', key, status: 'decrypt' },
    ];
    const problems = (keyId: string) =>
      problemsOf({ fields: [{ path: 'a', strategy: 'ENCRYPT', keyId }], crypto: { keys } });
    assert.deepEqual(problems('new'), []);
    assert.match(problems('old').join(), /has no key with the id "old" to encrypt with/);
    assert.match(problems('other').join(), /has no key with the id "other" to encrypt with/);
  });

  it('asks for a salt in production, and where it is told to', () => {
    const pii = { fields: ['a=EMAIL:HASH'] };
    assert.deepEqual(problemsOf(pii), []);
    assert.match(
      problemsOf(pii, { NODE_ENV: 'production' }).join(),
      /crypto.salt: is required to hash: NODE_ENV is production/,
    );
    assert.match(
      problemsOf({ ...pii, crypto: { requireSalt: true } }).join(),
      /is required to hash: require-salt is set/,
    );
    assert.deepEqual(problemsOf({ ...pii, crypto: { requireSalt: false } }, { NODE_ENV: 'production' }), []);
    assert.deepEqual(problemsOf(pii, { NODE_ENV: 'production', PII_HASH_SALT: 's' }), []);
    assert.deepEqual(problemsOf({ fields: ['a'] }, { NODE_ENV: 'production' }), []);
    assert.match(problemsOf({ crypto: { salt: ' ' } }).join(), /must not be empty/);
  });

  it('checks what a key service needs', () => {
    const fields = ['a=:ENCRYPT'];
    const problems = (kms: object, more: object = {}) =>
      problemsOf({ fields, kms: { enabled: true, ...kms }, ...more }).join('\n');
    assert.match(problems({}), /kms.type: is required/);
    assert.match(problems({ type: 'aws' }), /aws.default-key-arn: PII encryption key is not configured/);
    assert.equal(problems({ type: 'aws', aws: { defaultKeyArn: 'alias/a' } }), '');
    assert.equal(problems({ type: 'aws', keys: { default: 'alias/a' } }), '');
    assert.match(
      problems({ type: 'aws', aws: { defaultKeyArn: 'a' } }, { crypto: { defaultKey: key } }),
      /must not guess/,
    );
    assert.match(
      problems({ type: 'vault', vault: { defaultKeyPath: 'a' } }),
      /vault.token: is required for Vault/,
    );
    assert.equal(problems({ type: 'vault', vault: { defaultKeyPath: 'a', token: 't' } }), '');
    assert.match(
      problems({ type: 'vault', vault: { defaultKeyPath: 'a', token: 't', tokenFile: 'f' } }),
      /beside/,
    );
    assert.match(problems({ type: 'aws', keys: 7 }), /kms.keys: must be an object of names, got 7/);
  });

  it('warns where it is switched off', () => {
    const { problems, warnings } = loadCode({ pii: { enabled: false, fields: ['a.b'] } });
    assert.deepEqual(problems, []);
    assert.deepEqual(lines(warnings), [
      'svc.pii.fields: has no effect while svc.pii.enabled is false: personal data is published in clear (code).',
    ]);
  });
});

describe('a record key', () => {
  afterEach(removeFolders);
  const refused = (more: object, fields: readonly string[] = ['email', '**.ssn']) =>
    loadCode({ pii: { fields }, targets: [{ ...target, ...more }] }).targetProblems.length === 1;

  for (const more of [
    { key: '#result.email' },
    { key: 'result?.email' },
    { key: "#result['email']" },
    { key: '#args[0].email', payload: '#args[0]' },
    { key: '#p0.email', payload: '#args[0]' },
    { key: '#args[1].email', payloadIndex: 1 },
    { key: '#order.customer.ssn' },
    { key: '#newEmail', payload: '#newEmail', pii: { type: 'EMAIL' } },
    { key: '#result.items[0].phone', pii: ['items[*].phone'] },
    { key: '#result.customer.id', pii: ['customer'] },
    { key: "#result.email.split('@')[0]" },
    { key: "#args[0].email.split('@')[0]" },
    { key: "#order.email.split('@')[0]", payload: '#order' },
    { key: '#order.email.toLowerCase()', payloadIndex: 0 },
    { key: '#order.email', payloadIndex: 0, params: ['order'] },
    { key: '#order.email', payload: '#p1', params: ['by', 'order'] },
    { key: "'customer-' + result.email" },
    { key: "#result.email != null ? 'a' : 'b'" },
    { key: '#result.id ?: #result.email' },
    { key: '(#result.customer ?: #result).email', pii: ['customer.email'] },
    { key: "{#result.id, #result.email}.join('-')" },
    { key: "#result.id.concat(':', #result.email)" },
    { key: "'x'.concat(#result.email)" },
    { key: '#result.getEmail()' },
    { key: '#result.toDto().email' },
    { key: "#result['em' + 'ail']" },
    { key: "#result?.['email']?.trim()" },
    { key: "#result.items.![phone].join(',')", pii: ['items[*].phone'] },
    { key: '#result.items.?[#this.phone != null][0].id', pii: ['items.phone'] },
    { key: '#order.level', payload: '{floor: #order.level}', pii: ['floor'] },
    { key: '#order.level', payload: '{at: {floor: #order.level}, id: 1}', pii: ['at.floor'] },
    { key: '#result.email', payload: '#result.toDto()' },
    { key: '#args[0].email', payload: () => ({}) },
  ]) {
    it(`must not show a marked field: ${JSON.stringify(more)}`, () => assert.equal(refused(more), true));
  }

  for (const more of [
    { key: '#result.id' },
    { key: '#result.emails' },
    { key: '#args[0].email' },
    { key: '#result.customer.email' },
    { key: '#result.customer', pii: ['customer.name'] },
    { key: '#order.level', payload: '{floor: #order.level, level: #order.id}', pii: ['floor.x'] },
    { key: "#result.id.concat('-', #result.emails)" },
    { key: "#result['a.email'].trim()" },
    { key: "'email'.concat(#result.id)" },
    { key: "'u-' + #userId", payload: '#newEmail', pii: { type: 'EMAIL' } },
    { key: "'u-' + #args[0].id", pii: ['**'] },
    { key: '{email: #result.id}.email', pii: ['contact'] },
    { key: "#result.id ? 'a" },
    { key: () => 'x' },
    {},
  ]) {
    it(`may show others: ${JSON.stringify(more)}`, () => assert.equal(refused(more), false));
  }

  it('is said with the rule that it breaks', () => {
    const { targetProblems } = loadCode({
      pii: { fields: ['email'] },
      targets: [{ ...target, key: '#result.email' }],
    });
    assert.deepEqual(lines(targetProblems[0]?.problems ?? []), [
      'svc.targets[0].key: shows in clear what the rule for email protects (MASK): "#result.email" (code). Use another field for the key; the default is the event id.',
    ]);
  });

  it('is said of each header that shows it as well', () => {
    const headers = { tenant: '#args[0].tenant', by: '#result.email', contact: 'result.customer' };
    const { targetProblems } = loadCode({
      pii: { fields: ['email', 'customer.name'] },
      targets: [{ ...target, headers }],
    });
    assert.deepEqual(lines(targetProblems[0]?.problems ?? []), [
      'svc.targets[0].headers.by: shows in clear what the rule for email protects (MASK): "#result.email" (code). Use another field.',
    ]);
  });
});
