import { Type } from 'typebox';

/** Names and addresses as they may be given; the same rules for people and workspaces. */
export const Username = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
  description: 'Letters, digits, dot, hyphen and underscore',
});
export const Email = Type.String({ minLength: 3, maxLength: 254, pattern: '^[^\\s@]+@[^\\s@]+$' });
export const Name = Type.String({ minLength: 1, maxLength: 200 });
export const Orgname = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[a-z0-9]+(-[a-z0-9]+)*$',
  description: 'Unique short name: lower-case letters, digits and hyphens',
});
