import { brokenRule, identityRules } from '#identity/identity-rules.ts';
import { SignInRefusal } from './sign-in-refusal.ts';

/** A user as the provider describes them. */
export interface Person {
  issuer: string;
  subject: string;
  /** As it is given; only shown. */
  email: string | undefined;
  /** True: the provider says that the address is the user's. */
  isEmailVerified: boolean;
  /** Fits the rule for usernames. */
  username: string;
  groups: readonly string[];
}

/** Longer ones cannot be those of MILLRACE_OIDC_GROUPS. */
const groupCharactersMax = 1_000;
const groupsMax = 10_000;
/** OpenID Connect Core, section 2: no subject is longer. */
const subjectCharactersMax = 255;

/**
 * Reads the claims of the ID token and of the userinfo response, which have the same subject. Throws SignInRefusal when the provider
 * sent a reference in place of the groups, as some do for users with very many, or more than are read: roles would be taken away by
 * mistake.
 */
export function readPerson(
  claims: Readonly<Record<string, unknown>>,
  { groupsClaim }: { groupsClaim: string },
): Person {
  const subject = textOf(claims.sub) ?? '';
  if (subject === '' || subject.length > subjectCharactersMax || !isStorable(subject)) {
    throw new SignInRefusal(
      'answer_not_trusted',
      502,
      'The provider did not say who you are. Tell the operator of this service.',
      'the subject is empty, too long, or has control characters',
    );
  }
  const email = emailOf(claims.email);
  return {
    issuer: textOf(claims.iss) ?? '',
    subject,
    email,
    isEmailVerified: email !== undefined && claims.email_verified === true,
    username: usernameOf(claims),
    groups: groupsOf(claims, groupsClaim),
  };
}

const tooManyGroups =
  'You are in more groups than the provider can send. The operator can have it send fewer, such as only those assigned to this service.';

function groupsOf(claims: Readonly<Record<string, unknown>>, name: string): string[] {
  const elsewhere = claims._claim_names;
  if (typeof elsewhere === 'object' && elsewhere !== null && Object.hasOwn(elsewhere, name)) {
    throw new SignInRefusal(
      'groups_missing',
      403,
      tooManyGroups,
      `the provider sent a reference in place of ${name}`,
    );
  }
  const value = Object.hasOwn(claims, name) ? claims[name] : valueAt(claims, name.split('.'));
  const found: unknown[] = typeof value === 'string' ? [value] : Array.isArray(value) ? value : [];
  if (found.length > groupsMax) {
    throw new SignInRefusal('groups_missing', 403, tooManyGroups, `${name} has ${found.length} groups`);
  }
  return found.filter(
    (group): group is string => typeof group === 'string' && group.length <= groupCharactersMax,
  );
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return valueAt((value as Record<string, unknown>)[name], rest);
}

/** A name by which others recognise the user, of the characters that a username may have. It is not unique yet. */
function usernameOf(claims: Readonly<Record<string, unknown>>): string {
  for (const claim of ['preferred_username', 'nickname', 'email', 'name']) {
    const name = (textOf(claims[claim]) ?? '')
      .replace(/(?<=.)@.*$/su, '')
      .normalize('NFKD')
      .replaceAll(/\p{M}/gu, '')
      .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
      .replaceAll(/^[^A-Za-z0-9]+|-+$/g, '')
      .slice(0, usernameCharactersMax);
    if (name !== '') return name;
  }
  return 'user';
}

/** Leaves room for what makes it unique. */
const usernameCharactersMax = identityRules.username.maxLength - 8;

function emailOf(value: unknown): string | undefined {
  const email = textOf(value);
  return email !== undefined && brokenRule(identityRules.email, email) === undefined && isStorable(email)
    ? email
    : undefined;
}

/** PostgreSQL has no text with U+0000 or half a surrogate pair, and other control characters are in no subject and no address. */
function isStorable(text: string): boolean {
  return text.isWellFormed() && !/\p{Cc}/u.test(text);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
