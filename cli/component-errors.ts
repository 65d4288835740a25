/** `errors` of an answer about props: JSON of { name, message, stack } each. */
export function componentErrors(errors: readonly string[]): string[] {
  return errors.map((text) => {
    try {
      const { name, message } = JSON.parse(text) as { name?: string; message?: string };
      return `the component failed: ${name ?? 'Error'}: ${message ?? ''}`;
    } catch {
      return `the component failed: ${text}`;
    }
  });
}
