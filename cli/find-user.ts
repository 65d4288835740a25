import type { User, UserSummary } from '#sdk';
import type { Api } from './api.ts';
import { usageError } from './exit-codes.ts';

/** Users with a text in their name or address that a name is looked for among. */
const namesMax = 1000;

/** The id of a user who is given by id, user name or e-mail address, or as `me`. Text that names no user is left to the service. */
export async function userIdOf(api: Api, text: string): Promise<string> {
  if (text === 'me') return (await api.data<User>('GET', '/v1/users/me')).id;
  if (text.startsWith('u_')) return text;
  const found = (await api.list('/v1/users', namesMax, { q: text })) as unknown as readonly UserSummary[];
  const same = (one: string) => one.toLowerCase() === text.toLowerCase();
  const [user, ...others] = found.filter(({ username, email }) => same(username) || same(email));
  if (others.length > 0)
    throw usageError(`several users are called ${text}`, 'Give the id (u_…) of one of them.');
  return user?.id ?? text;
}
