import { Type } from 'typebox';
import { identityRules } from '#identity/identity-rules.ts';

/** Valid names and e-mail addresses; the same rules for users and workspaces. */
export const Username = Type.String({
  ...identityRules.username,
  description: 'Letters, digits, dot, hyphen and underscore',
});
export const Email = Type.String(identityRules.email);
export const Name = Type.String(identityRules.name);
export const Orgname = Type.String({
  ...identityRules.orgname,
  description: 'Unique short name: lower-case letters, digits and hyphens',
});
export const KeyName = Type.String(identityRules.keyName);
