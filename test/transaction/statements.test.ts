import assert from 'node:assert/strict';
import { type Dialect, dialects } from '../../src/transaction/driver.ts';
import { kindOf, writingViews } from '../../src/transaction/statements.ts';

type Table = Readonly<Record<string, readonly string[]>>;

/** A function of the database may write. */
const callsOfFunctions = [
  'SELECT create_order($1)',
  'SELECT * FROM create_order(1)',
  'SELECT /* a */ create_order /* b */ (1)',
  'SELECT shop.now()',
  'VALUES (create_order(1))',
  'WITH a AS (SELECT create_order(1)) SELECT * FROM a',
  'WITH a (b) AS (SELECT 1) SELECT create_order(b) FROM a',
  'EXPLAIN ANALYZE INSERT INTO a VALUES (1)',
  'EXPLAIN ANALYZE SELECT create_order(1)',
  'SELECT 1; SELECT create_order(1)',
  "SELECT 'it''s', create_order('a')",
];
const pureQueries = [
  'SELECT count(*), coalesce(max(a), 0) FROM b WHERE c IN (1, 2) AND (d = 1) GROUP BY (e) HAVING (f > 1)',
  "SELECT 'create_order(1)'",
  'SELECT 1 -- create_order(1)',
  'WITH a (b) AS (SELECT 1), c (d, e) AS (SELECT 2, 3) SELECT * FROM a',
  'WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL (SELECT n + 1 FROM t)) SELECT sum(n) FROM t',
  'SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM (SELECT 1) AS c',
  'SELECT * FROM a WHERE EXISTS (SELECT 1) AND NOT (b) FOR UPDATE',
  'EXPLAIN ANALYZE SELECT now()',
  'EXPLAIN SELECT create_order(1)',
];

/** What all three understand, or none has. */
const everywhere: Table = {
  begin: [
    'BEGIN',
    'begin',
    ' \n\tBegin Work',
    'START TRANSACTION',
    'start  transaction read only',
    '/* a */ BEGIN',
    '/* a\n * b */-- c\nBEGIN;',
    'BEGIN; INSERT INTO a VALUES (1)',
    'SELECT 1; BEGIN',
  ],
  commit: [
    'COMMIT',
    'commit;',
    'COMMIT WORK',
    'commit transaction',
    'COMMIT AND CHAIN',
    'commit and no chain',
    '/* a */ commit -- b',
    'COMMIT; -- that is all',
    'INSERT INTO a VALUES (1); COMMIT',
    'BEGIN; INSERT INTO a VALUES (1); COMMIT',
    "INSERT INTO a VALUES ('it''s;'); COMMIT;",
    'COMMIT; BEGIN',
    'ROLLBACK TO a; COMMIT',
    'SELECT "a;b" FROM c; COMMIT',
    'SELECT 1 -- it; ROLLBACK\n; COMMIT',
    'SELECT 1 /* ; ROLLBACK; */; COMMIT',
    ';COMMIT',
    '; ;\n-- a\n;COMMIT;',
    'COMMIT;--',
    'COMMIT-- ;',
    '/**/COMMIT/* a */AND/* b */CHAIN',
    '/*/ ; */ COMMIT',
  ],
  rollback: [
    'ROLLBACK',
    'rollback work',
    'ROLLBACK AND CHAIN',
    'abort',
    '-- a\nrollback;',
    'ROLLBACK; SELECT 1',
    'ROLLBACK /* TO a */',
    'ROLLBACK -- TO a',
  ],
  read: [
    'SELECT 1',
    '(SELECT 1) UNION (SELECT 2)',
    'select 1;',
    'SHOW TABLES',
    'VALUES (1)',
    'EXPLAIN DELETE FROM a',
    'SET a = 1',
    'PRAGMA user_version',
    'WITH a AS (SELECT 1) SELECT * FROM a',
    'SELECT 1; SELECT 2',
    "SELECT 'COMMIT'",
    "SELECT '; COMMIT;'",
    'SELECT "; COMMIT"',
    '-- COMMIT\nSELECT 1',
    'SELECT 1 /* ; COMMIT */',
    'FETCH 10 FROM a',
    'PREPARE a AS SELECT 1',
  ],
  write: [
    'INSERT INTO commits VALUES (1)',
    'UPDATE a SET b = 1',
    'DELETE FROM a',
    'WITH a AS (DELETE FROM b RETURNING *) SELECT * FROM a',
    'MERGE INTO a USING b ON c',
    'REPLACE INTO a VALUES (1)',
    'CALL it()',
    'commits',
    'ending',
    'beginning',
    'COMMIT PREPARED',
    'COMMIT/* a */PREPARED',
    '/* COMMIT',
    'ROLLBACK PREPARED',
    "INSERT INTO a VALUES ('; COMMIT')",
    'SELECT 1; INSERT INTO a VALUES (1)',
    '',
  ],
  savepoint: [
    'SAVEPOINT/* a */é',
    'SAVEPOINT"a"',
    'SAVEPOINT a',
    'savepoint "A b"',
    'savepoint `a`',
    '/* */ SAVEPOINT a;',
  ],
  release: ['RELEASE a', 'release savepoint a', 'RELEASE "A b"'],
  'rollback to': [
    'ROLLBACK TO a',
    'rollback to savepoint a',
    'ROLLBACK TRANSACTION TO SAVEPOINT a',
    'rollback work to `a`',
    'ROLLBACK TO é',
    'ROLLBACK TO"a"',
    'ROLLBACK/* a */TO/* b */SAVEPOINT/* c */a',
    'ROLLBACK -- a\n TO a',
    'ROLLBACK TO ?',
  ],
};

const special: Readonly<Record<Dialect, Table>> = {
  postgres: {
    prepare: ["PREPARE TRANSACTION 'a'", "prepare  transaction 'a'"],
    commit: [
      'END',
      'end transaction',
      'END/* a */WORK',
      "SELECT 'a\\'; COMMIT",
      "SELECT E'a\\'; ROLLBACK'; COMMIT",
      'SELECT $$; ROLLBACK$$; COMMIT',
      'SELECT $a$; $$ ; ROLLBACK$a$; COMMIT',
      "SELECT a #> '{b}'; COMMIT",
      '/* a /* b */ */ COMMIT',
      '/* /* /* a */ */ ; */COMMIT/* b */',
      '-- a\rCOMMIT',
      'SELECT $é$; ROLLBACK;$é$; COMMIT',
      'SELECT 1 AS a$b, $$; ROLLBACK$$; COMMIT',
    ],
    read: [
      'SELECT $$; COMMIT;$$',
      'SELECT $a$; COMMIT;$a$',
      'SELECT 1 /* /* */; COMMIT */',
      ...pureQueries,
      'SELECT $$create_order(1)$$',
      'SELECT a::varchar(10), CAST(b AS numeric(10, 2)) FROM unnest($1::int[]) AS c(d)',
      "SELECT pg_catalog.now(), nextval('a'), jsonb_build_object('a', 1) FROM json_each($1) e(k, v)",
      'EXPLAIN (ANALYZE false) INSERT INTO a VALUES (1)',
      'PREPARE a AS SELECT create_order(1)',
    ],
    'rollback to': ['ROLLBACK TO U&"d\\0061"'],
    write: [
      ...callsOfFunctions,
      'SELECT "create_order"(1)',
      'SELECT a INTO b FROM c',
      'DECLARE a CURSOR FOR SELECT create_order(1)',
      'EXPLAIN (ANALYZE, BUFFERS) INSERT INTO a VALUES (1)',
      'EXPLAIN (ANALYZE true) SELECT create_order(1)',
      'SELECT now(), $$a$$, create_order(1)',
      'DO $$ BEGIN PERFORM 1; COMMIT; END $$',
      'CREATE TABLE a (b int)',
      "COMMIT PREPARED 'a'",
      'XA COMMIT 1',
    ],
  },
  mysql: {
    begin: ["XA START 'a'", "xa begin 'a'", '# d\nBEGIN', '/*!50000 START */ TRANSACTION'],
    prepare: ["XA END 'a'", "XA PREPARE 'a'"],
    commit: [
      "XA COMMIT 'a'",
      "XA COMMIT 'a' ONE PHASE",
      "SELECT 'a\\'; ROLLBACK'; COMMIT",
      'SELECT "a\\"; ROLLBACK"; COMMIT',
      '/* a /* b */ COMMIT',
      '/*!50000 COMMIT */;',
      '/*M!100100 COMMIT*/',
      'UPDATE a SET b = 2--1; COMMIT',
      'SELECT 2*/* a; */3; COMMIT',
      '/*! SELECT 1 /* a */ */; COMMIT',
      'SET STATEMENT max_statement_time = 1 FOR COMMIT',
      'EXECUTE IMMEDIATE "COMMIT"',
    ],
    rollback: ["XA ROLLBACK 'a'"],
    read: [
      'XA RECOVER',
      'SET NAMES utf8mb4',
      'SET autocommit = 0',
      'SET @@autocommit=0',
      "SET autocommit = 'off'",
      'SET @OLD_AUTOCOMMIT=@@AUTOCOMMIT, AUTOCOMMIT=0',
      'DESC a',
      'SELECT 1 # ; COMMIT',
      ...pureQueries,
      'SELECT 1 # create_order(1)',
      'SELECT ifnull(a, 0), group_concat(b) FROM c USE INDEX (d) WHERE MATCH (e) AGAINST (?)',
      'SELECT a INTO @b FROM c',
    ],
    'implicit commit': [
      'CREATE TABLE a (b INT)',
      'CREATE OR REPLACE TABLE a (b INT)',
      'ALTER TABLE a ADD b INT',
      'DROP TABLE a',
      'RENAME TABLE a TO b',
      'TRUNCATE a',
      'GRANT ALL ON a.* TO b',
      'LOCK TABLES a READ',
      'UNLOCK TABLES',
      'ANALYZE TABLE a',
      'OPTIMIZE LOCAL TABLE a',
      'FLUSH TABLES',
      'SET autocommit = 1',
      'SET @@session.autocommit=ON',
      'set names utf8, autocommit := 1',
      "SET autocommit = '1'",
      'SET `autocommit` = 1',
      'SET AUTOCOMMIT=@OLD_AUTOCOMMIT',
      '/*!40000 ALTER TABLE a DISABLE KEYS */;',
      'SET PASSWORD = 1',
      'SET DEFAULT ROLE NONE',
      "IMPORT TABLE FROM 'a'",
      'BACKUP STAGE START',
      'CREATE TEMPORARY SEQUENCE a',
      'BEGIN NOT ATOMIC COMMIT; END',
      'IF 1 THEN COMMIT; END IF',
      "EXECUTE IMMEDIATE 'DROP TABLE a'",
      'SET STATEMENT max_statement_time = 1 FOR ALTER TABLE a ADD b INT',
      'START REPLICA',
      'INSERT INTO a VALUES (1); CREATE TABLE b (c INT)',
    ],
    write: [
      ...callsOfFunctions,
      'SELECT `create_order`(1)',
      'SET @a = create_order(1)',
      'CREATE TEMPORARY TABLE a (b INT)',
      'CREATE OR REPLACE TEMPORARY TABLE a (b INT)',
      'DROP TEMPORARY TABLE a',
      'DROP PREPARE a',
      'BEGIN NOT ATOMIC SELECT 1 END',
      'BEGIN NOT ATOMIC DELETE FROM a; END',
      "EXECUTE IMMEDIATE 'DELETE FROM a'",
      'SET STATEMENT max_statement_time = 1 FOR DELETE FROM a',
      'ANALYZE UPDATE a SET b = 1',
      "LOAD DATA INFILE 'a' INTO TABLE b",
    ],
  },
  sqlite: {
    begin: ['BEGIN IMMEDIATE', 'begin exclusive transaction', 'BEGIN DEFERRED'],
    commit: ["SELECT 'a\\'; COMMIT", 'END', 'end transaction', 'END/* a */WORK'],
    read: ['SELECT its_own(1)', ...pureQueries],
    write: ['CREATE TABLE a (b)', 'VACUUM'],
  },
};

describe('what a statement means for its transaction', () => {
  for (const dialect of dialects) {
    const tables = [everywhere, special[dialect]];
    for (const [is, texts] of tables.flatMap((table) => Object.entries(table))) {
      it(`${dialect}: ${is}`, () => {
        for (const text of texts) assert.equal(kindOf(text, dialect).is, is, text);
      });
    }
  }

  it('names of savepoints are the same in any case, in PostgreSQL but where they are quoted', () => {
    const texts = ['SAVEPOINT Ab', 'RELEASE aB', 'ROLLBACK TO AB', 'SAVEPOINT "Ab"', 'SAVEPOINT `\t_X.\t`'];
    const names = (dialect: Dialect) =>
      texts.map((text) => (kindOf(text, dialect) as { name?: string }).name);
    assert.deepEqual(names('postgres').slice(0, 4), ['ab', 'ab', 'ab', 'Ab']);
    for (const dialect of ['mysql', 'sqlite'] as const)
      assert.deepEqual(names(dialect), ['ab', 'ab', 'ab', 'ab', '\t_x.\t']);
  });

  it('of several statements, all are told in their order', () => {
    const kinds = kindOf('SAVEPOINT a; INSERT INTO b VALUES (1); RELEASE a;', 'postgres').all?.map(
      ({ is }) => is,
    );
    assert.deepEqual(kinds, ['savepoint', 'write', 'release']);
  });

  for (const [dialect, text] of [
    ['postgres', "SELECT 'a''; b'; COMMIT"],
    ['postgres', String.raw`SELECT 'a\', 'b; c'; COMMIT`],
    ['postgres', String.raw`SELECT E'a\'; b'; COMMIT`],
    ['postgres', String.raw`SELECT E'a\\'; COMMIT`],
    ['mysql', "SELECT 'a''; b'; COMMIT"],
    ['mysql', String.raw`SELECT 'a\'; b'; COMMIT`],
    ['mysql', String.raw`SELECT 'a\\'; COMMIT`],
    ['mysql', String.raw`SELECT 'a\\\'; b'; COMMIT`],
    ['mysql', String.raw`SELECT "a\\"; COMMIT`],
    ['sqlite', String.raw`SELECT 'a\', 'b; c'; COMMIT`],
    ['sqlite', "SELECT 'a''; b'; COMMIT"],
  ] as const) {
    it(`a semicolon in quotes ends no statement (${dialect}): ${text}`, () => {
      assert.deepEqual([kindOf(text, dialect).all?.length, kindOf(text, dialect).is], [2, 'commit']);
    });
  }

  describe('a text of 16 MB is read in the time of one pass, with no stack that grows with it', () => {
    const fill = (part: string): string => part.repeat(Math.ceil(2 ** 24 / part.length));
    const texts: Readonly<Record<string, () => string>> = {
      'a value': () => `INSERT INTO a VALUES ('${fill('x')};')`,
      'a value of two-byte characters': () => `INSERT INTO a VALUES ('${fill('漢')};'); x`,
      'quotes in a value': () => `INSERT INTO a VALUES ('${fill("''")};'); x`,
      'escaped quotes': () => `INSERT INTO a VALUES (E'${fill("\\'")};'); x`,
      backslashes: () => `INSERT INTO a VALUES ('${fill('\\')};'); x`,
      'quotes that nothing ends': () => `x; ${fill("'\\'")}`,
      'a quoted name': () => `UPDATE "${fill('""')};" SET b = 1; x`,
      'a name in backticks': () => `UPDATE \`${fill('``')};\` SET b = 1; x`,
      'a savepoint': () => `SAVEPOINT "${fill('""')}"; x`,
      'a savepoint that nothing ends': () => `ROLLBACK TO '${fill("''")}`,
      'a dollar quote': () => `DO $$${fill('x')};$$; x`,
      'a tag of dollars that nothing ends': () => `x; $${fill('a')}`,
      comments: () => `x${fill('/* a */ ;')}`,
      'comments within comments': () => `x; ${fill('/*')}`,
      'ends of comments': () => `x; ${fill('*/')}`,
      lines: () => `x${fill('-- a\n;')}`,
      statements: () => fill('UPDATE a;'),
      blanks: () => `x;${fill(' ')}x`,
      settings: () => `SET ${fill('autocommit ')}= x; x`,
    };

    for (const [name, make] of Object.entries(texts)) {
      it(name, function () {
        this.timeout(60_000);
        const text = make();
        for (const dialect of dialects) {
          const started = performance.now();
          const { is } = kindOf(text, dialect);
          // A pass takes less than two seconds; many minutes where the time grows with the square of the length.
          assert.ok(performance.now() - started < 15_000);
          assert.notEqual(is, 'commit');
        }
      });
    }
  });

  it('40,000 tags of dollars that nothing ends are looked for once', () => {
    const tags = Array.from({ length: 40_000 }, (_, at) => `$a${at}$`).join(' ');
    const started = performance.now();
    assert.equal(kindOf(`DO 1; ${tags}`, 'postgres').is, 'write');
    assert.ok(performance.now() - started < 1_000);
  });

  it('a quote that nothing ends is a character like others, as are all of its kind behind it', () => {
    const texts = ["SELECT 'a; 'b; \"; COMMIT", 'SELECT $a$; $b$; COMMIT', "SELECT 'C:\\'; 'x; COMMIT"];
    for (const text of texts) assert.equal(kindOf(text, 'postgres').is, 'commit', text);
  });
});

describe('a view whose query calls a function', () => {
  const kinds = (dialect: Dialect, ...texts: string[]) => texts.map((text) => kindOf(text, dialect).is);

  it('counts as one that writes from its making on, whatever it is called through', () => {
    const made: Readonly<Partial<Record<Dialect, readonly string[]>>> = {
      postgres: [
        'CREATE VIEW made_a AS SELECT create_order(1)',
        'create or replace temp view if_made_b (a, b) AS SELECT 1, shop.f(2)',
        'CREATE VIEW shop."Made C" AS SELECT * FROM made_a',
        'CREATE POLICY p ON made_d USING (allowed(owner))',
        'CREATE RULE "_RETURN" AS ON SELECT TO made_e DO INSTEAD SELECT create_order(1) AS a',
        '-- it\nCREATE VIEW made_f AS SELECT 1 FROM create_order(1); SELECT 1',
      ],
      mysql: [
        'CREATE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW `shop`.`made_g` AS SELECT create_order(1)',
        'CREATE OR REPLACE VIEW made_h AS SELECT * FROM made_g',
        'ALTER VIEW made_i AS SELECT create_order(1)',
      ],
    };
    const reads: Readonly<Partial<Record<Dialect, readonly string[]>>> = {
      postgres: [
        'SELECT * FROM made_a WHERE id = 1',
        'SELECT * FROM if_made_b',
        'SELECT * FROM shop."Made C"',
        'WITH a AS (SELECT * FROM MADE_D) SELECT * FROM a',
        'TABLE made_e',
        'EXPLAIN ANALYZE SELECT * FROM made_f',
      ],
      mysql: ['SELECT * FROM `shop`.`made_g`', 'SELECT a FROM made_h LIMIT 1', 'SELECT a FROM made_i'],
    };
    for (const dialect of ['postgres', 'mysql'] as const) {
      const texts = reads[dialect] ?? [];
      assert.deepEqual(new Set(kinds(dialect, ...texts)), new Set(['read']));
      for (const text of made[dialect] ?? []) kindOf(text, dialect);
      for (const text of texts) assert.equal(kindOf(text, dialect).is, 'write', text);
    }
    // Of another database, and what is no such view.
    assert.deepEqual(kinds('sqlite', 'SELECT * FROM made_a'), ['read']);
    const pure = [
      'CREATE VIEW unmade_a AS SELECT count(*), now() FROM a',
      'CREATE MATERIALIZED VIEW unmade_b AS SELECT f(1)',
    ];
    for (const text of pure) kindOf(text, 'postgres');
    assert.deepEqual(
      kinds('postgres', 'SELECT * FROM unmade_a', 'SELECT * FROM unmade_b', 'EXPLAIN SELECT * FROM made_a'),
      ['read', 'read', 'read'],
    );
  });

  it('counts so as soon as the database has told it, and no longer than it does', () => {
    const text = 'SELECT * FROM told';
    assert.deepEqual(kinds('postgres', text), ['read']);
    writingViews.tell('postgres', ['Told', 'with blanks']);
    assert.deepEqual(kinds('postgres', text, 'SELECT * FROM "with blanks"'), ['write', 'write']);
    writingViews.tell('postgres', []);
    assert.deepEqual(kinds('postgres', text), ['read']);
  });
});
