/** As fields are named. Others are data, as the keys of a map by e-mail address. */
const nameLike = /^[A-Za-z_$][\w$-]{0,63}$/;
const hexadecimal = /^(?=.*\d)[0-9a-f_-]{8,}$/i;
/** `u-17`, `order_23`; not `line1`. */
const numbered = /[-_]\d+$/;
/** `customer4711`, `aB3dE5fG7hJ9`: nobody writes words with so many. */
const fourDigits = /^(?:\D*\d){4}/;

/**
 * Whether a name in an event is data and no field: an id, a date, an address, a number. Such names may be personal data and stand in no
 * catalog.
 */
export function isDataName(name: string): boolean {
  if (!nameLike.test(name) || name === '__proto__') return true;
  return hexadecimal.test(name) || numbered.test(name) || fourDigits.test(name);
}
