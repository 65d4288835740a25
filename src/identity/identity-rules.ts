/** Rules for names and e-mail addresses of users and workspaces: for the API and for the command line. */
export const identityRules = {
  username: { minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$' },
  email: { minLength: 3, maxLength: 254, pattern: '^[^\\s@]+@[^\\s@]+$' },
  /** Names of workspaces and projects. */
  name: { minLength: 1, maxLength: 200 },
  orgname: { minLength: 1, maxLength: 64, pattern: '^[a-z0-9]+(-[a-z0-9]+)*$' },
  keyName: { maxLength: 100 },
} as const;

interface Rule {
  minLength?: number;
  maxLength: number;
  pattern?: string;
}

/** What texts of a pattern are, in words. */
const expected: Readonly<Record<string, string>> = {
  [identityRules.username.pattern]:
    'letters, digits, dots, hyphens and underscores, beginning with a letter or digit',
  [identityRules.email.pattern]: 'an e-mail address, such as ada@example.com',
  [identityRules.orgname.pattern]: 'lower-case letters and digits, with single hyphens between them',
};

/** The expectation of a pattern in words; undefined: it is none of these rules. */
export function expectationOf(pattern: string): string | undefined {
  return Object.hasOwn(expected, pattern) ? expected[pattern] : undefined;
}

/** What is wrong with the text under this rule, or undefined when nothing is. */
export function brokenRule(rule: Rule, text: string): string | undefined {
  const least = rule.minLength ?? 0;
  if (text.length < least || text.length > rule.maxLength) {
    return `must have from ${least} to ${rule.maxLength} characters`;
  }
  if (rule.pattern !== undefined && !new RegExp(rule.pattern, 'u').test(text)) {
    return `expected ${expectationOf(rule.pattern) ?? rule.pattern}`;
  }
  return undefined;
}
