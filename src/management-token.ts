/** Shorter bearer tokens of the management server can be guessed. */
export const minTokenLength = 16;
