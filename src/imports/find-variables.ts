const name = '[A-Za-z_][A-Za-z0-9_]*';
const member = new RegExp(
  `\\bprocess\\s*\\.\\s*env\\s*(?:\\??\\.\\s*(${name})|\\[\\s*['"\`](${name})['"\`]\\s*\\])`,
  'g',
);
const destructured = /\{([^{}]*)\}\s*=\s*process\s*\.\s*env\b/g;
const python = new RegExp(
  `\\bos\\s*\\.\\s*(?:environ\\s*(?:\\[\\s*['"](${name})['"]\\s*\\]|\\.\\s*get\\s*\\(\\s*['"](${name})['"])|getenv\\s*\\(\\s*['"](${name})['"])`,
  'g',
);

/** Names of the environment variables that code, or the texts of props, read. */
export function variablesIn(text: string): string[] {
  const names = new Set<string>();
  for (const pattern of [member, python])
    for (const match of text.matchAll(pattern)) {
      const found = match.slice(1).find((one) => one !== undefined);
      if (found !== undefined) names.add(found);
    }
  for (const [, list = ''] of text.matchAll(destructured))
    for (const part of list.split(',')) {
      const [, found] = new RegExp(`^\\s*(${name})\\s*(?:[:=]|$)`).exec(part) ?? [];
      if (found !== undefined) names.add(found);
    }
  return [...names].sort();
}

/** All texts of a value, keys left out. */
export function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(textsIn);
}
