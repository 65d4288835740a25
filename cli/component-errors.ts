/** `errors` of an answer about props: JSON of { name, message, stack } each. */
export function componentErrors(errors: unknown): string[] {
  if (!Array.isArray(errors)) return [];
  return errors.map((text) => {
    try {
      const { name, message } = JSON.parse(String(text)) as { name?: string; message?: string };
      return `the component failed: ${name ?? 'Error'}: ${message ?? ''}`;
    } catch {
      return `the component failed: ${String(text)}`;
    }
  });
}
