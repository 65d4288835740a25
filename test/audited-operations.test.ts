import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRecorded } from '#http/audit-requests.ts';
import { reference, routes } from '#http/routes.ts';
import { auditedOperations, operationWords } from '../dashboard/src/api/audited-operations.ts';

test('the dashboard filters the audit by every operation that is recorded, and by no other', () => {
  const recorded = [...routes, reference]
    .flatMap((part) => part.rows)
    .filter(([method, path, operation]) => isRecorded(method, path, operation))
    .map(([method, path, operation]) => operation ?? `${method} ${path}`);
  const listed = auditedOperations.flatMap(({ operations }) => operations);
  assert.deepEqual([...listed].sort(), [...recorded].sort());
});

test('each recorded operation has words of its own', () => {
  const words = auditedOperations.flatMap(({ operations }) => operations.map(operationWords));
  assert.equal(new Set(words).size, words.length);
  assert.equal(operationWords('updateWebhook'), 'Update webhook');
  assert.equal(operationWords('createApiKey'), 'Create API key');
  assert.equal(operationWords('user create'), 'Command user create');
});
