import { type Role, roles } from '#storage/tables/identity-tables.ts';

export function isRole(text: string): text is Role {
  return (roles as readonly string[]).includes(text);
}
