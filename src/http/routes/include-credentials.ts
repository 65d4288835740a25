import { Type } from 'typebox';

export const includeCredentials = Type.Optional(
  Type.Enum(['0', '1', 'true', 'false'], {
    description:
      '1 or true: with credentials, of accounts that you created (while you are a member of their workspace) or administer',
  }),
);

/** True when the parameter asks for credentials. */
export function isYes(parameter: string | undefined): boolean {
  return parameter === '1' || parameter === 'true';
}
