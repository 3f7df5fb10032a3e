import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseExpression } from '../../../src/capture/expression/compile.ts';
import { assertUnpolluted, attack, Hostile, hostileScope } from './hostile-call.ts';

describe('expressions, at random', () => {
  afterEach('nothing was added to a prototype', assertUnpolluted);

  const words = [
    ...[
      '#result',
      'result',
      'args',
      '#p0',
      'p1',
      'o',
      'revoked',
      'spiteful',
      'type',
      'self',
      'this',
      '#this',
      'email',
      'list',
    ],
    ...[
      '.email',
      '.list',
      '.bad',
      '.entries',
      '.count',
      '.constructor',
      '.__proto__',
      '.toDto()',
      '.getBad()',
      '.getClass()',
    ],
    ...[
      '.toString()',
      '.join(',
      '.get(',
      '.split(',
      '.length',
      '?.',
      '.',
      '[',
      ']',
      '(',
      ')',
      '{',
      '}',
      '![',
      '?[',
      '.![',
      '.?[',
    ],
    ...[
      ',',
      ':',
      '?',
      '?:',
      '??',
      '==',
      '!=',
      '<',
      '>=',
      '&&',
      '||',
      '!',
      'not ',
      ' and ',
      ' or ',
      '+',
      '-',
      '*',
      '/',
      '%',
      '=',
    ],
    ...[
      "'a'",
      "'constructor'",
      '"',
      "'",
      '0',
      '1',
      '2.5',
      '1e3',
      'null',
      'true',
      'T(',
      'new ',
      '@',
      '#',
      '$',
      '^',
      '`',
      '\\',
      '\n',
    ],
  ];
  const soup = fc.array(fc.constantFrom(...words), { maxLength: 24 }).map((parts) => parts.join(''));

  it('any text ends in a value or an SvcError without a secret', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 1100 }), (text) => void attack(text)),
      { numRuns: 1000 },
    );
    fc.assert(
      fc.property(soup, (text) => void attack(text)),
      { numRuns: 4000 },
    );
  });

  // Well-formed ones, so that evaluation is reached too.
  const { expression } = fc.letrec<{ expression: string; leaf: string }>((tie) => ({
    leaf: fc.constantFrom(
      ...[
        'result',
        '#o',
        'args',
        'text',
        'self',
        'type',
        'symbol',
        'spiteful',
        'revoked',
        'error',
        'this',
        '#this',
        'null',
      ],
      ...[
        'true',
        '0',
        '1',
        '-1',
        '2.5',
        "''",
        "'email'",
        "'con'",
        "'structor'",
        "'__proto'",
        "'__'",
        '{:}',
        '{}',
      ],
    ),
    expression: fc.oneof(
      { depthSize: 'medium', withCrossShrink: true },
      tie('leaf'),
      fc
        .tuple(
          tie('expression'),
          fc.constantFrom('email', 'list', 'entries', 'bad', 'count', 'x', 'length', 'size'),
        )
        .map(([e, n]) => `(${e}).${n}`),
      fc.tuple(tie('expression'), fc.constantFrom('email', 'deep', 'x')).map(([e, n]) => `(${e})?.${n}`),
      fc.tuple(tie('expression'), tie('expression')).map(([e, k]) => `(${e})[${k}]`),
      fc
        .tuple(
          tie('expression'),
          fc.constantFrom(
            'toDto()',
            'getBad()',
            'getClass()',
            'getLater()',
            'toString()',
            'size()',
            'hasOwnProperty("x")',
            'toJSON()',
            'join()',
          ),
        )
        .map(([e, m]) => `(${e}).${m}`),
      fc
        .tuple(
          tie('expression'),
          fc.constantFrom('get', 'has', 'includes', 'split', 'slice', 'at', 'toFixed', 'getX'),
          tie('expression'),
        )
        .map(([e, m, a]) => `(${e}).${m}(${a})`),
      fc
        .tuple(
          tie('expression'),
          fc.constantFrom('+', '-', '*', '/', '%', '==', '!=', '<', '>=', '&&', '||', '??', '?:'),
          tie('expression'),
        )
        .map(([a, op, b]) => `(${a}) ${op} (${b})`),
      fc
        .tuple(tie('expression'), tie('expression'), tie('expression'))
        .map(([c, a, b]) => `(${c}) ? ${a} : ${b}`),
      fc
        .tuple(tie('expression'), fc.constantFrom('!', '?'), tie('expression'))
        .map(([e, s, b]) => `(${e}).${s}[${b}]`),
      fc.array(tie('expression'), { maxLength: 3 }).map((items) => `{${items.join(', ')}}`),
      fc
        .array(tie('expression'), { maxLength: 3 })
        .map((items) => `{${items.map((e, i) => `k${i}: ${e}`).join(', ') || ':'}}`),
    ),
  }));

  it('any well-formed expression ends in a value or an SvcError without a secret, and changes nothing', () => {
    let evaluated = 0;
    fc.assert(
      fc.property(expression, (text) => {
        if (attack(text).value !== undefined) evaluated += 1;
      }),
      { numRuns: 4000 },
    );
    assert.ok(evaluated > 400, `only ${evaluated} gave a value`);
    assert.deepEqual(hostileScope().result, new Hostile());
  });

  const forbidden = fc.constantFrom(
    ...[
      'result.constructor',
      "result['__proto__']",
      'T(Math)',
      'new Date()',
      '@b',
      'result.x = 1',
      'result.save()',
      'f(1)',
    ],
    ...[
      'result.prototype.x',
      '{constructor: 1}',
      'result.__defineGetter__("a", 1)',
      'result matches "a"',
      '() => 1',
    ],
  );
  const around = fc.constantFrom<(inner: string) => string>(
    (inner) => `(${inner})`,
    (inner) => `{a: ${inner}}`,
    (inner) => `{${inner}}`,
    (inner) => `args[${inner}]`,
    (inner) => `true ? 1 : ${inner}`,
    (inner) => `1 ?: ${inner}`,
    (inner) => `result.getX(${inner})`,
    (inner) => `args.![${inner}]`,
    (inner) => `args.?[${inner}]`,
    (inner) => `!(${inner})`,
    (inner) => `true || ${inner}`,
  );

  it('a forbidden form is refused at start wherever it stands', () => {
    fc.assert(
      fc.property(forbidden, fc.array(around, { maxLength: 6 }), (inner, wrappers) => {
        const text = wrappers.reduce((inside, wrap) => wrap(inside), inner);
        assert.throws(() => parseExpression(text), { code: 'SVC_CAPTURE_EXPRESSION_SYNTAX' }, text);
      }),
      { numRuns: 1000 },
    );
  });
});
