import { shared } from '../ground/lifecycle.ts';
import { type Dialect, dialects } from './driver.ts';

/**
 * Views whose query calls a function that may write, and tables with such a policy: reading them may write. The names come from
 * the database, at the start and then periodically, and from statements on followed connections. Lower case, without schema:
 * another view of the same name also counts as writing.
 */
interface Known {
  version: number;
  readonly told: Map<Dialect, ReadonlySet<string>>;
  readonly made: Map<Dialect, Set<string>>;
}

const known: Known = shared('writing-views', () => ({ version: 0, told: new Map(), made: new Map() }));
const maxMade = 1_000;

/** Changes whenever a statement may have become another kind. */
function writingViewsVersion(): number {
  return known.version;
}

/** What others know of writing views: `statements.ts` reads their names in statements. */
export const writingViews = {
  /** Replaces the known names with those from the database. */
  tell(dialect: Dialect, names: readonly string[]): void {
    const before = known.told.get(dialect);
    const told = new Set(names.map((name) => name.toLowerCase()));
    if (before !== undefined && before.size === told.size && [...told].every((name) => before.has(name)))
      return;
    known.told.set(dialect, told);
    known.version++;
  },

  /** Whether a view with this query is one: the query calls a function that may write. */
  isOne: (query: string, dialect: Dialect): boolean => calls(query, dialect),

  /** Whether a function writes nothing, so that a view may call it. */
  isPure: (name: string, dialect: Dialect): boolean => isPure(name, dialect),
};

function addWritingView(dialect: Dialect, name: string): void {
  const made = known.made.get(dialect) ?? new Set();
  known.made.set(dialect, made);
  if (made.has(name.toLowerCase()) || made.size >= maxMade) return;
  made.add(name.toLowerCase());
  known.version++;
}

/** Whether a statement contains such a name anywhere. */
function namesWritingView(statement: string, dialect: Dialect): boolean {
  const sets = [known.told.get(dialect), known.made.get(dialect)].filter(
    (names) => names !== undefined && names.size > 0,
  );
  if (sets.length === 0) return false;
  const text = statement.toLowerCase();
  const words = text.match(/[\w$\u0080-\uffff]+/g) ?? [];
  return sets.some((names) => {
    if (words.some((word) => names?.has(word))) return true;
    for (const name of names ?? []) if (!isWord.test(name) && text.includes(name)) return true;
    return false;
  });
}

const isWord = /^[\w$\u0080-\uffff]+$/;

/** What a statement means for its transaction. The database reports the rest by its status. */
export type StatementKind = {
  /** For a text of several statements: all of them. */
  readonly all?: readonly StatementKind[];
} & (
  | { readonly is: 'begin' | 'commit' | 'rollback' | 'read' | 'write' }
  | { readonly is: 'savepoint' | 'release' | 'rollback to'; readonly name: string }
  /** MySQL may commit before it runs such a statement, depending on the state of the session. */
  | { readonly is: 'implicit commit' }
  /** The transaction continues elsewhere and may commit: PREPARE TRANSACTION, XA END, XA PREPARE. */
  | { readonly is: 'prepare' }
);

const read: StatementKind = { is: 'read' };
const write: StatementKind = { is: 'write' };
const begin: StatementKind = { is: 'begin' };
const commit: StatementKind = { is: 'commit' };
const prepare: StatementKind = { is: 'prepare' };
const implicit: StatementKind = { is: 'implicit commit' };
const rollback: StatementKind = { is: 'rollback' };

/** All other statements may have a comment between their words. */
const changing = /^\s*(?:select|insert|update|delete|replace|merge|with|values)\b/i;
/** Quoted names have a length limit, above those of the databases: V8 stores state for each round of a repeated group. */
const name =
  '((?:u&)?"(?:[^"]|""){0,300}"|`(?:[^`]|``){0,300}`|\'(?:[^\']|\'\'){0,300}\'|\\[[^\\]]*\\]|[\\w$\\u0080-\\uffff]+)';
const reading =
  'select|show|values|explain|set|describe|desc|table|pragma|use|fetch|declare|close|move|listen|unlisten|discard|reset|deallocate|prepare';
const words = [
  '(?<begin>begin(?!\\s+not\\s+atomic\\b)|start\\s+transaction)\\b',
  '(?<commit>commit|end)\\b(?!\\s+prepared\\b)',
  `rollback(?:\\s+(?:work|transaction))?\\s+to\\b(?:\\s*savepoint\\b)?\\s*(?<back>${name})?`,
  '(?<rollback>rollback|abort)\\b(?!\\s+prepared\\b)',
  '(?<prepare>prepare\\s+transaction)\\b',
  `savepoint\\b\\s*(?<savepoint>${name})`,
  `release\\b(?:\\s*savepoint\\b)?\\s*(?<release>${name})`,
  `[(\\s]*(?<read>${reading})\\b`,
  '(?<with>with)\\b',
];
const control = new RegExp(`^(?:${words.join('|')})`, 'i');

/** The chapter "Statements That Cause an Implicit Commit" of MySQL's manual, and XA transactions. */
const mysqlWords = [
  '(?<begin>xa\\s+(?:start|begin))\\b',
  '(?<rollback>xa\\s+rollback)\\b',
  '(?<read>xa\\s+recover)\\b',
  '(?<prepare>xa\\s+(?:end|prepare))\\b',
  '(?<commit>xa\\s+commit)\\b',
  `(?<implicit>${[
    '(?:create|drop)(?!\\s+(?:or\\s+replace\\s+)?(?:temporary(?!\\s+sequence)|prepare)\\b)',
    'alter|rename|truncate|grant|revoke|install|uninstall|flush|reset|stop|change',
    '(?:un)?lock\\s+(?:tables?|instance)',
    '(?:analyze|optimize|repair|check)\\s+(?:no_write_to_binlog\\s+|local\\s+)?(?:tables?|view)',
    '(?:cache|load)\\s+index',
    'start\\s+(?:slave|replica|group_replication)',
    'set\\s+(?:password|default\\s+role)',
    'backup|import\\s+table',
    // Compound statements outside a procedure.
    '(?:begin\\s+not\\s+atomic|if|case|for|loop|repeat|while)\\b[\\s\\S]*?\\bcommit',
    // Any value except off: it may be that of a variable.
    'set\\b[^;]*?\\bautocommit[\\s`]*:?=\\s*(?!\\s|[\'"]?(?:0|off|false)\\b)[^\\w;]*\\w+',
  ].join('|')})\\b`,
  '(?<write>end)\\b',
];
/** A prefix of another statement: SET STATEMENT max_statement_time = 1 FOR, EXECUTE IMMEDIATE '. */
const mysqlPrefix = /^(?:set\s+statement\b[\s\S]*?\bfor\s+|execute\s+immediate\s+['"]\s*)/i;
const mysqlControl = new RegExp(`^(?:${mysqlWords.join('|')})`, 'i');

const longestKept = 500;
const maxKept = 1_000;
/** A cache: applications send the same texts again and again. */
const kept: Readonly<Record<Dialect, Map<string, StatementKind>>> = {
  postgres: new Map(),
  mysql: new Map(),
  sqlite: new Map(),
};
let keptVersion = writingViewsVersion();

/**
 * The kind of a text of one or more statements. The most important statement decides: a COMMIT must be known before it is sent.
 * Linear in the length of the text. Never throws: an unreadable text counts as a write.
 */
export function kindOf(text: string, dialect: Dialect): StatementKind {
  if (text.length > longestKept) return readKind(text, dialect);
  if (keptVersion !== writingViewsVersion()) {
    keptVersion = writingViewsVersion();
    for (const each of dialects) kept[each].clear();
  }
  const kinds = kept[dialect];
  const known = kinds.get(text);
  if (known !== undefined) return known;
  const kind = readKind(text, dialect);
  // Texts with inline values never repeat.
  if (kinds.size >= maxKept) kinds.clear();
  kinds.set(text, kind);
  return kind;
}

function readKind(text: string, dialect: Dialect): StatementKind {
  try {
    return readWhole(text, dialect);
  } catch {
    return write;
  }
}

function readWhole(text: string, dialect: Dialect): StatementKind {
  const end = text.indexOf(';');
  const isOne = end < 0 || isBlank(text, end + 1);
  if (isOne && (changing.test(text) || !/--|#|\/\*/.test(text))) return kindAt(text.trimStart(), dialect);
  const all = statementsOf(text, dialect).map((statement) => kindAt(statement, dialect));
  if (all.length < 2) return all[0] ?? write;
  const told = ['commit', 'prepare', 'implicit commit', 'begin', 'rollback', 'write']
    .map((is) => all.find((one) => one.is === is))
    .find((found) => found !== undefined);
  const other = all.find(({ is }) => is !== 'read') ?? (all[0] as StatementKind);
  return { ...(told ?? other), all };
}

function kindAt(given: string, dialect: Dialect): StatementKind {
  const statement = dialect === 'mysql' ? given.replace(mysqlPrefix, '') : given;
  if (dialect !== 'sqlite' && making.test(statement)) learnView(statement, dialect);
  const found =
    (dialect === 'mysql' ? mysqlControl.exec(statement)?.groups : undefined) ??
    control.exec(statement)?.groups;
  if (found === undefined || found.write !== undefined) return write;
  if (found.read !== undefined) return readsOnly(statement, found.read.toLowerCase(), dialect) ? read : write;
  if (found.with !== undefined)
    return /\b(?:insert|update|delete|merge)\b/i.test(statement) || mayWrite(statement, dialect)
      ? write
      : read;
  if (found.begin !== undefined) return begin;
  if (found.commit !== undefined) return commit;
  if (found.prepare !== undefined) return prepare;
  if (found.implicit !== undefined) return implicit;
  if (found.rollback !== undefined) return rollback;
  if (found.savepoint !== undefined) return { is: 'savepoint', name: plain(found.savepoint, dialect) };
  if (found.release !== undefined) return { is: 'release', name: plain(found.release, dialect) };
  return { is: 'rollback to', name: plain(found.back ?? '', dialect) };
}

/** Whether a query really only reads: a database function may write, and EXPLAIN ANALYZE runs its statement. */
function readsOnly(statement: string, word: string, dialect: Dialect): boolean {
  if (word === 'explain') {
    const rest = explained(statement);
    return rest === undefined || kindAt(rest, dialect).is === 'read';
  }
  if (!mayCall.has(word)) return true;
  // SELECT … INTO creates a table.
  if (dialect === 'postgres' && /\binto\b/i.test(statement) && /\binto\b/i.test(bareText(statement, dialect)))
    return false;
  return !mayWrite(statement, dialect);
}

const mayCall: ReadonlySet<string> = new Set(['select', 'values', 'table', 'set', 'declare']);

/** The statement that EXPLAIN ANALYZE runs; `undefined` if none. */
function explained(statement: string): string | undefined {
  const [options = ''] =
    /^explain\s*(?:\([^)]*\)|(?:(?:analyze|verbose|extended|partitions|format\s*=\s*\w+)\b\s*)*)/i.exec(
      statement,
    ) ?? [];
  const isRun = /\banalyze\b(?!\s*(?:=\s*)?['"]?(?:false|off|0|no)\b)/i.test(options);
  return isRun ? statement.slice(options.length).trimStart() : undefined;
}

/** The column list of a query in WITH looks like arguments. */
const namedColumns =
  /(?:\bwith\s+(?:recursive\s+)?|,\s*)[\w$\u0080-\uffff]+\s*\([\w\s,$\u0080-\uffff]*\)\s*as\b/gi;
/** A name before a parenthesis, with the token before it: a dot, a cast, the end of an aliased table, AS. */
const called = /(\.|::|\)|\bas\b)?\s*([\w$\u0080-\uffff]+)\s*\(/gi;
const ownSchema = /\bpg_catalog\s*$/i;

/** Whether it calls a function that may write. SQLite's own functions never do. */
function calls(statement: string, dialect: Dialect): boolean {
  if (dialect === 'sqlite' || !statement.includes('(')) return false;
  const bare = bareText(statement, dialect).replace(namedColumns, ' as');
  for (const { 1: before, 2: name = '', index } of bare.matchAll(called)) {
    if (before === '.') {
      if (!ownSchema.test(bare.slice(0, index))) return true;
    } else if (before !== undefined) continue;
    if (name.includes(quotedName) || !isPure(name.toLowerCase(), dialect)) return true;
  }
  return false;
}

function mayWrite(statement: string, dialect: Dialect): boolean {
  return calls(statement, dialect) || namesWritingView(statement, dialect);
}

const making = /^(?:create|alter)\b(?!\s+materialized\b)[^;]*?\b(?:view|policy|rule)\b/i;
const schemaAndName = `(?:(?:${name})\\s*\\.\\s*)?(?<name>${name})`;
/** A view and its query; a policy, or a rule of a SELECT, and its table. */
const made = [
  new RegExp(
    `\\bview\\s+(?:if\\s+not\\s+exists\\s+)?${schemaAndName}[\\s\\S]*?\\bas\\b(?<query>[\\s\\S]*)`,
    'i',
  ),
  new RegExp(`\\bpolicy\\b[\\s\\S]*?\\bon\\s+${schemaAndName}(?<query>[\\s\\S]*)`, 'i'),
  new RegExp(`\\brule\\b[\\s\\S]*?\\bon\\s+select\\s+to\\s+${schemaAndName}(?<query>[\\s\\S]*)`, 'i'),
];

function learnView(statement: string, dialect: Dialect): void {
  for (const pattern of made) {
    const { name: found, query } = pattern.exec(statement)?.groups ?? {};
    if (found === undefined || query === undefined) continue;
    if (mayWrite(query, dialect)) addWritingView(dialect, plain(found, dialect));
    return;
  }
}

/** Only PostgreSQL has case-sensitive quoted names. */
function plain(given: string, dialect: Dialect): string {
  const name = /^["`'[]/.test(given) ? given.slice(1, -1) : given;
  return name !== given && dialect === 'postgres' ? name : name.toLowerCase();
}

function isBlank(text: string, from: number): boolean {
  return /^[\s;]*$/.test(text.slice(from));
}

/**
 * Where a quoted part or a comment begins, and where a statement ends. No pattern has a repeated group: V8 stores a
 * backtracking position for each round, and throws a RangeError for a text of several megabytes.
 */
const marks: Readonly<Record<Dialect, RegExp>> = {
  postgres:
    /\b[eE]'|['"`;]|(?<![\w$\u0080-\uffff])\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$|--[^\n\r]*|\/\*/g,
  // Two dashes need a blank behind them, and the content of an executable comment runs: /*!50000 COMMIT */.
  mysql: /['"`;]|#[^\n]*|--(?=\s|$)[^\n]*|\/\*M?!\d*|\*\/|\/\*/g,
  sqlite: /['"`;]|--[^\n]*|\/\*/g,
};
/** Kinds of quotes, by the first character of their token. */
const quotes: Readonly<Record<string, string>> = { "'": "'", e: "'", E: "'", '"': '"', '`': '`', $: '$' };
const edges = /\/\*|\*\//g;

function statementsOf(text: string, dialect: Dialect): string[] {
  return partsOf(text, dialect, false);
}

/** Stands for a quoted name: a character that no text contains. */
const quotedName = '\ufdd0';

/** A statement without comments and without quoted parts. */
function bareText(statement: string, dialect: Dialect): string {
  return partsOf(statement, dialect, true).join(' ');
}

function partsOf(text: string, dialect: Dialect, withoutQuotes: boolean): string[] {
  const statements: string[] = [];
  const mark = marks[dialect];
  /** Kinds of quotes without an end: from there on they are ordinary characters, and their end is not searched again. */
  const open = new Set<string>();
  let statement = '';
  let from = 0;
  let isRun = false;
  const cut = (at: number, next: number): void => {
    statement += `${text.slice(from, at)} `;
    from = next;
    mark.lastIndex = next;
  };
  const end = (): void => {
    if (statement.trim() !== '') statements.push(statement.trimStart());
    statement = '';
  };
  mark.lastIndex = 0;
  for (let found = mark.exec(text); found !== null; found = mark.exec(text)) {
    const { 0: token, index } = found;
    const quote = quotes[token.charAt(0)];
    if (quote !== undefined) {
      const end = open.has(quote) ? -1 : quotedEnd(text, mark.lastIndex, token, dialect);
      if (end < 0) open.add(quote);
      else if (withoutQuotes) {
        cut(index, end);
        if (quote === '"' || quote === '`') statement = `${statement.slice(0, -1)}${quotedName}`;
      } else mark.lastIndex = end;
      continue;
    }
    const isEnd = token === ';';
    if (isEnd || /^(?:--|#)/.test(token)) cut(index, mark.lastIndex);
    else if (token === '/*') cut(index, commentEnd(text, index, dialect));
    else if (token.startsWith('/*') || (token === '*/' && isRun)) {
      isRun = !isRun;
      cut(index, mark.lastIndex);
    } else if (token === '*/') mark.lastIndex = index + 1;
    if (isEnd) end();
  }
  cut(text.length, text.length);
  end();
  return statements;
}

/** The position after the quoted part that begins with this token; -1 if it has no end. */
function quotedEnd(text: string, from: number, token: string, dialect: Dialect): number {
  if (token.startsWith('$')) {
    const end = text.indexOf(token, from);
    return end < 0 ? -1 : end + token.length;
  }
  const quote = token.slice(-1);
  const isEscaping = token.length > 1 || (dialect === 'mysql' && token !== '`');
  for (let at = from; ; ) {
    const end = text.indexOf(quote, at);
    if (end < 0) return -1;
    let before = end;
    while (isEscaping && before > at && text[before - 1] === '\\') before--;
    if ((end - before) % 2 === 1) at = end + 1;
    else if (text[end + 1] === quote) at = end + 2;
    else return end + 1;
  }
}

/** PostgreSQL allows nested comments. */
function commentEnd(text: string, start: number, dialect: Dialect): number {
  if (dialect !== 'postgres') {
    const end = text.indexOf('*/', start + 2);
    return end < 0 ? text.length : end + 2;
  }
  edges.lastIndex = start;
  for (let depth = 0, found = edges.exec(text); found !== null; found = edges.exec(text)) {
    depth += found[0] === '/*' ? 1 : -1;
    if (depth === 0) return edges.lastIndex;
  }
  return text.length;
}

/**
 * Functions of the databases, and of their usual extensions, that write no row: a SELECT that calls only these is a read.
 * Sequences and locks do not count as writes: a rollback does not undo them. PostgreSQL: the functions of `pg_proc` that are
 * not volatile, except those for operators and types, and the volatile ones that write no row. MySQL and MariaDB: their
 * manuals.
 */
const names: Readonly<Partial<Record<Dialect, string>>> = {
  postgres: `
abbrev abs acos acosd acosh age akeys any_value area array_agg array_dims array_fill array_length array_lower
array_ndims array_position array_positions array_remove array_replace array_reverse array_sample array_shuffle
array_sort array_to_json array_to_string array_to_tsvector array_upper ascii asin asind asinh atan atan2 atan2d
atand atanh avals avg bernoulli bigint bit bit_and bit_count bit_length bit_or bit_xor bool bool_and bool_or box
bpchar broadcast btrim bytea cardinality casefold cast cbrt ceil ceiling center char char_length character
character_length chr cidr circle clock_timestamp coalesce col_description concat concat_ws convert convert_from
convert_to corr cos cosd cosh cosine_distance cot cotd count covar_pop covar_samp crc32 crc32c crypt cume_dist
current_database current_date current_query current_schema current_schemas current_setting current_time
current_timestamp current_user currval date date_add date_bin date_part date_subtract date_trunc datemultirange
daterange decimal decode degrees dense_rank digest div earth_distance encode enum_first enum_last enum_range erf
erfc every exp extract factorial family first_value float4 float8 floor format format_type gamma gcd
gen_random_uuid gen_salt generate_series generate_subscripts get_bit get_byte get_current_ts_config
getdatabaseencoding greatest grouping has_any_column_privilege has_column_privilege has_database_privilege
has_foreign_data_wrapper_privilege has_function_privilege has_language_privilege has_largeobject_privilege
has_parameter_privilege has_schema_privilege has_sequence_privilege has_server_privilege has_table_privilege
has_tablespace_privilege has_type_privilege height hmac host hostmask hstore inet_client_addr inet_client_port
inet_server_addr inet_server_port initcap inner_product int2 int4 int4multirange int4range int8 int8multirange
int8range interval is_normalized isempty isfinite json json_agg json_agg_strict json_array json_array_elements
json_array_elements_text json_array_length json_arrayagg json_build_array json_build_object json_each
json_each_text json_exists json_object json_object_agg json_object_agg_strict json_object_agg_unique
json_object_agg_unique_strict json_object_keys json_objectagg json_populate_record json_populate_recordset
json_query json_scalar json_serialize json_strip_nulls json_table json_to_record json_to_recordset
json_to_tsvector json_typeof json_value jsonb_agg jsonb_agg_strict jsonb_array_elements
jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
jsonb_insert jsonb_object jsonb_object_agg jsonb_object_agg_strict jsonb_object_agg_unique
jsonb_object_agg_unique_strict jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz jsonb_path_match
jsonb_path_match_tz jsonb_path_query jsonb_path_query_array jsonb_path_query_array_tz jsonb_path_query_first
jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record jsonb_populate_record_valid
jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls jsonb_to_record
jsonb_to_recordset jsonb_to_tsvector jsonb_typeof justify_days justify_hours justify_interval l2_distance lag
last_value lastval lcm lead least left length levenshtein lgamma like line ll_to_earth ln localtime
localtimestamp log log10 lower lower_inc lower_inf lpad lseg ltrim macaddr macaddr8 make_date make_interval
make_time make_timestamp make_timestamptz masklen max md5 metaphone min min_scale mod mode money multirange name
netmask network nextval normalize now nth_value ntile nullif num_nonnulls num_nulls numeric nummultirange
numnode numrange obj_description octet_length oid overlaps overlay parse_ident path percent_rank percentile_cont
percentile_disc pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock pg_advisory_unlock_all
pg_advisory_unlock_shared pg_advisory_xact_lock pg_advisory_xact_lock_shared pg_backend_pid pg_basetype
pg_blocking_pids pg_cancel_backend pg_char_to_encoding pg_client_encoding pg_collation_for
pg_collation_is_visible pg_column_compression pg_column_is_updatable pg_column_size pg_config
pg_conversion_is_visible pg_current_snapshot pg_current_wal_lsn pg_current_xact_id
pg_current_xact_id_if_assigned pg_database_size pg_describe_object pg_encoding_max_length pg_encoding_to_char
pg_export_snapshot pg_filenode_relation pg_function_is_visible pg_get_acl pg_get_catalog_foreign_keys
pg_get_constraintdef pg_get_expr pg_get_function_arg_default pg_get_function_arguments
pg_get_function_identity_arguments pg_get_function_result pg_get_function_sqlbody pg_get_functiondef
pg_get_indexdef pg_get_keywords pg_get_object_address pg_get_partition_constraintdef pg_get_partkeydef
pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef pg_get_statisticsobjdef_columns
pg_get_statisticsobjdef_expressions pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_has_role
pg_identify_object pg_identify_object_as_address pg_indexes_size pg_input_error_info pg_input_is_valid
pg_is_in_recovery pg_is_other_temp_schema pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_my_temp_schema
pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible pg_partition_ancestors pg_partition_root
pg_partition_tree pg_postmaster_start_time pg_relation_filenode pg_relation_filepath pg_relation_is_publishable
pg_relation_is_updatable pg_relation_size pg_settings_get_flags pg_size_bytes pg_size_pretty pg_sleep
pg_sleep_for pg_sleep_until pg_snapshot_xip pg_snapshot_xmax pg_snapshot_xmin pg_table_is_visible pg_table_size
pg_terminate_backend pg_total_relation_size pg_trigger_depth pg_try_advisory_lock pg_try_advisory_lock_shared
pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared pg_ts_config_is_visible pg_ts_dict_is_visible
pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible pg_typeof pg_visible_in_snapshot
pg_wal_lsn_diff pg_xact_status phraseto_tsquery pi plainto_tsquery point polygon position pow power querytree
quote_ident quote_literal quote_nullable radians random random_normal range_agg range_intersect_agg range_merge
rank regclass regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace
regexp_split_to_array regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2
regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right round row_number row_security_active
row_to_json rpad rtrim scale session_user set_bit set_byte set_config set_masklen setseed setval setweight
sha224 sha256 sha384 sha512 shobj_description show_trgm sign similarity sin sind sinh soundex split_part sqrt
statement_timestamp stddev stddev_pop stddev_samp strict_word_similarity string_agg string_to_array
string_to_table strip strpos substr substring sum system system_user tan tand tanh text time timeofday timestamp
timestamptz timetz timezone to_ascii to_bin to_bm25query to_char to_date to_hex to_json to_jsonb to_number
to_oct to_regclass to_regcollation to_regnamespace to_regoper to_regoperator to_regproc to_regprocedure
to_regrole to_regtype to_regtypemod to_timestamp to_tsquery to_tsvector transaction_timestamp translate treat
trim trim_array trim_scale trunc ts_delete ts_filter ts_headline ts_lexize ts_rank ts_rank_cd tsmultirange
tsquery_phrase tsrange tstzmultirange tstzrange tsvector_to_array txid_current txid_current_if_assigned
txid_current_snapshot txid_snapshot_xip txid_snapshot_xmax txid_snapshot_xmin txid_status
txid_visible_in_snapshot unaccent unicode_assigned unicode_version unistr unnest upper upper_inc upper_inf
uuid_extract_timestamp uuid_extract_version uuid_generate_v1 uuid_generate_v4 uuid_generate_v5 uuid_nil uuidv4
uuidv7 var_pop var_samp varbit varchar variance version websearch_to_tsquery width width_bucket word_similarity
xid xml xml_is_well_formed xml_is_well_formed_content xml_is_well_formed_document xmlagg xmlcomment xmlconcat
xmlelement xmlexists xmlforest xmlparse xmlserialize xmltable xmltext xmlvalidate xpath xpath_exists`,
  mysql: `
abs acos adddate addtime aes_decrypt aes_encrypt any_value ascii asin atan atan2 avg benchmark bin bin_to_uuid
binary bit_and bit_count bit_length bit_or bit_xor cast ceil ceiling char char_length character character_length
charset chr coalesce coercibility collation compress concat concat_ws connection_id conv convert convert_tz cos
cot count crc32 cume_dist curdate current_date current_role current_time current_timestamp current_user curtime
database date date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear decimal decode
default degrees dense_rank des_decrypt des_encrypt double elt encode encrypt exp export_set extract extractvalue
field find_in_set first_value float floor format format_bytes format_pico_time found_rows from_base64 from_days
from_unixtime geometrycollection get_format get_lock greatest group_concat grouping hex hour icu_version if
ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr is_free_lock is_ipv4 is_ipv4_compat is_ipv4_mapped
is_ipv6 is_used_lock is_uuid isnull json json_array json_array_append json_array_insert json_arrayagg
json_compact json_contains json_contains_path json_depth json_detailed json_equals json_exists json_extract
json_insert json_keys json_length json_loose json_merge json_merge_patch json_merge_preserve json_normalize
json_object json_objectagg json_overlaps json_pretty json_query json_quote json_remove json_replace
json_schema_valid json_search json_set json_storage_free json_storage_size json_table json_type json_unquote
json_valid json_value kdf lag last_day last_insert_id last_value lastval lcase lead least left length lengthb
linestring ln load_file localtime localtimestamp locate log log10 log2 lower lpad ltrim make_set makedate
maketime master_pos_wait max md5 median microsecond mid min minute mod month monthname multilinestring
multipoint multipolygon name_const natural_sort_key nchar next_val nextval now nth_value ntile nullif numeric
nvl nvl2 oct octet_length old_password ord password percent_rank percentile_cont percentile_disc period_add
period_diff pi point polygon position pow power quarter quote radians rand random_bytes rank regexp_instr
regexp_like regexp_replace regexp_substr release_all_locks release_lock repeat replace reverse right
roles_graphml round row_count row_number rpad rtrim schema sec_to_time second session_user setval sformat sha
sha1 sha2 sign signed sin sleep soundex space sqrt statement_digest statement_digest_text std stddev stddev_pop
stddev_samp str_to_date strcmp subdate substr substring substring_index subtime sum sys_guid sysdate system_user
tan time time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_char to_days
to_seconds trim trim_oracle truncate ucase uncompress uncompressed_length unhex unix_timestamp unsigned
updatexml upper user utc_date utc_time utc_timestamp uuid uuid_short uuid_to_bin validate_password_strength
values var_pop var_samp varbinary varchar variance version wait_for_executed_gtid_set week weekday weekofyear
weight_string year yearweek`,
};

/** SQL keywords that may precede a parenthesis. */
const keywords = `
against all analyze and any array as at between binary by case collate columns cross cube distinct div else end
escape except exists explain fetch filter first for force from full group having ignore ilike in index inner
intersect interval into is join key lateral like limit match matched materialized mod natural nested next not of
offset on only or order outer over partition path preceding precision range recursive regexp returning rlike
rollup row rows select separator set sets similar some sounds straight_join table tablesample then to top union
unique use using values varying when where window with within xor zone`;

const sets = new Map<Dialect, ReadonlySet<string>>();

/** What may precede a parenthesis in a statement that writes nothing. PostGIS has too many functions to list. */
function isPure(name: string, dialect: Dialect): boolean {
  let pure = sets.get(dialect);
  if (pure === undefined) {
    pure = new Set(`${keywords}\n${names[dialect] ?? ''}`.split(/\s+/));
    sets.set(dialect, pure);
  }
  return pure.has(name) || name.startsWith('st_');
}
