import type { Dialect } from './dialect.ts';

/**
 * Functions of the databases themselves, and of their usual extensions, that write no row: a SELECT that calls nothing else is one that
 * reads. What a sequence gives or a lock holds is none: no rollback undoes it. PostgreSQL: those of `pg_proc` that are not
 * volatile, without what only operators and types use, and the volatile ones that write no row. MySQL and MariaDB: their manuals.
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

/** Words of SQL that may stand before a parenthesis. */
const keywords = `
against all analyze and any array as at between binary by case collate columns cross cube distinct div else end
escape except exists explain fetch filter first for force from full group having ignore ilike in index inner
intersect interval into is join key lateral like limit match matched materialized mod natural nested next not of
offset on only or order outer over partition path preceding precision range recursive regexp returning rlike
rollup row rows select separator set sets similar some sounds straight_join table tablesample then to top union
unique use using values varying when where window with within xor zone`;

const sets = new Map<Dialect, ReadonlySet<string>>();

/** What may stand before a parenthesis in a statement that writes nothing. PostGIS has more functions than all others. */
export function isPure(name: string, dialect: Dialect): boolean {
  let pure = sets.get(dialect);
  if (pure === undefined) {
    pure = new Set(`${keywords}\n${names[dialect] ?? ''}`.split(/\s+/));
    sets.set(dialect, pure);
  }
  return pure.has(name) || name.startsWith('st_');
}
