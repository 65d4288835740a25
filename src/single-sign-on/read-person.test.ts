import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPerson } from './read-person.ts';

const read = (claims: Record<string, unknown>, groupsClaim = 'groups') =>
  readPerson({ iss: 'https://login.example', sub: '1', ...claims }, { groupsClaim });

test('groups are found by the name of a claim, or by a path into one; other values are none', () => {
  assert.deepEqual(read({ groups: ['a', 2, null, 'b', 'x'.repeat(1001)] }).groups, ['a', 'b']);
  assert.deepEqual(read({ groups: 'one' }).groups, ['one']);
  assert.deepEqual(read({ realm_access: { roles: ['r'] } }, 'realm_access.roles').groups, ['r']);
  // MILLRACE_OIDC_GROUPS_CLAIM may be a URL, whose dots are part of the name.
  const name = 'https://acme.example/groups';
  assert.deepEqual(read({ [name]: ['g'] }, name).groups, ['g']);
  for (const groups of [undefined, null, 7, { a: 1 }, [['a']]]) assert.deepEqual(read({ groups }).groups, []);
  assert.deepEqual(read({}, '__proto__.constructor').groups, []);
});

test('a reference in place of the groups is refused, because roles would be taken away by mistake', () => {
  assert.throws(() => read({ _claim_names: { groups: 'src1' }, _claim_sources: {} }), {
    code: 'groups_missing',
  });
  assert.deepEqual(read({ _claim_names: { address: 'src1' }, groups: ['a'] }).groups, ['a']);
  // More than are read are refused for the same reason.
  const groups = Array.from({ length: 10_001 }, (_, n) => `g${n}`);
  assert.throws(() => read({ groups }), { code: 'groups_missing' });
  assert.equal(read({ groups: groups.slice(1) }).groups.length, 10_000);
});

test('usernames have the characters that usernames may have', () => {
  const names: [Record<string, unknown>, string][] = [
    [{ preferred_username: 'ada@acme.example', name: 'Ada' }, 'ada'],
    [{ preferred_username: '  Zoë Ångström!', email: 'z@a.example' }, 'Zoe-Angstrom'],
    [{ nickname: '-.-', email: 'first.last+tag@a.example' }, 'first.last-tag'],
    [{ name: '李雷' }, 'user'],
    [{ preferred_username: 'x'.repeat(200) }, 'x'.repeat(56)],
    [{ preferred_username: 7 }, 'user'],
  ];
  for (const [claims, username] of names) assert.equal(read(claims).username, username);
});

test('an e-mail address counts as verified only where the provider says true', () => {
  const email = 'ada@acme.example';
  assert.equal(read({ email, email_verified: true }).isEmailVerified, true);
  for (const email_verified of [false, undefined, 'true', 1])
    assert.equal(read({ email, email_verified }).isEmailVerified, false);
  for (const wrong of ['no address', 'a\0@b', 'a@b\u0007', 'a\ud800@b', '', 7, 'x'.repeat(300)])
    assert.deepEqual([read({ email: wrong, email_verified: true }).email], [undefined]);
});

test('a subject is needed, and has a length', () => {
  for (const sub of ['', 'a\0b', 'a\nb', 'a\udc00', 'x'.repeat(256), undefined, 7])
    assert.throws(() => read({ sub }), { code: 'answer_not_trusted' });
});
