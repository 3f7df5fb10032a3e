/**
 * How a broker refuses a token: with a text that says so, and with an error only for whoever asks for more. Both clients
 * would go on, and be told that they are in the wrong state.
 */
export function isTokenRefused(answer: Buffer | undefined): boolean {
  return answer?.includes('"status"') ?? false;
}
