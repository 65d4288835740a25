import assert from 'node:assert/strict';
import { test } from 'node:test';
import { installArguments, installationKind } from './installation-kind.ts';

test('npm puts another version where the installed one is; a clone and npx have ways of their own', () => {
  assert.deepEqual(installationKind('/opt/millrace', false), { kind: 'clone' });
  assert.deepEqual(installationKind('/home/ada/.npm/_npx/0a1b/node_modules/millrace', true), { kind: 'npx' });

  const global = installationKind('/usr/local/lib/node_modules/millrace', true);
  assert.deepEqual(global, { kind: 'global', prefix: '/usr/local' });
  assert.deepEqual(global.kind === 'global' && installArguments(global, '1.2.3'), [
    ...['install', '--global', '--prefix', '/usr/local', 'millrace@1.2.3'],
  ]);

  const project = installationKind('/srv/flows/node_modules/millrace', true);
  assert.deepEqual(project, { kind: 'project', folder: '/srv/flows' });
  assert.deepEqual(project.kind === 'project' && installArguments(project, '1.2.3'), [
    ...['install', '--save-exact', '--prefix', '/srv/flows', 'millrace@1.2.3'],
  ]);
});
